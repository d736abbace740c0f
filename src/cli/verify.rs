//! `parser verify`: proves a published stream whole.

use std::io::{self, Write};

use anyhow::{Result, bail};
use clap::Args;

use super::namespace::{ConfigArg, JsonArg};
use super::progress::Counter;
use super::table::{print_json, printable};
use super::{block_on, log_to_people, reader_may_leave};
use crate::block::Checksum;
use crate::config::{Config, ConfigError};
use crate::pipeline::{self, RunError};
use crate::ship::node::{ExpectedChain, NodeOptions};
use crate::verify::{self, Report, Task, VerifyError};

/// So often in a row a node is tried.
const NODE_ATTEMPTS: u32 = 3;

/// Findings shown to people.
const SHOWN: usize = 20;

/// `parser verify`
#[derive(Debug, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// The first block [default: the first that the stream has]
    #[arg(long, value_name = "A", value_parser = clap::value_parser!(u32).range(1..))]
    from: Option<u32>,
    /// The last block [default: the last that is published]
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..))]
    to: Option<u32>,
    /// Also compare the ids of blocks that cannot be undone any more with the node's (ship.url)
    #[arg(long)]
    ship: bool,
    #[command(flatten)]
    json: JsonArg,
}

pub(super) fn run(args: &VerifyArgs) -> Result<()> {
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from > to
    {
        return Err(ConfigError::new(format!("--from {from} is above --to {to}")).into());
    }
    let report = block_on(verify(args))?;
    reader_may_leave(if args.json.json { print_json(&report).map_err(Into::into) } else { print(&report) })?;
    if !report.is_good() {
        let count: u64 = report.counts.values().sum();
        bail!("the stream is not whole: {count} findings");
    }
    Ok(())
}

async fn verify(args: &VerifyArgs) -> Result<Report> {
    let namespace = args.config.open().await?;
    log_to_people()?;
    let task = Task {
        selection: pipeline::selection(&namespace.config),
        stream_ids: namespace.config.stream_ids.into(),
        server: namespace.server,
        keys: namespace.keys,
        chain_id: namespace.chain_id,
        from: args.from,
        to: args.to,
        node: node(args, &namespace.config, namespace.chain_id)?,
    };
    let mut counter = Counter::new("verifying block", args.to.map(u64::from));
    let progress = |block: u32, entries| counter.at(block.into(), &format!("{entries} entries"));
    let report = verify::run(&task, progress).await;
    counter.finish();
    report.map_err(|error| match error {
        VerifyError::Redis(failure) => failure.into(),
        VerifyError::Node(error) => RunError::from(error).into(),
    })
}

/// The node to compare with. It is not waited for.
fn node(args: &VerifyArgs, config: &Config, chain_id: Checksum) -> Result<Option<NodeOptions>> {
    if !args.ship {
        return Ok(None);
    }
    let mut options = pipeline::node_options(config)?;
    options.chain = Some(ExpectedChain::published(chain_id));
    options.max_attempts = Some(options.max_attempts.unwrap_or(NODE_ATTEMPTS));
    Ok(Some(options))
}

fn print(report: &Report) -> Result<()> {
    let mut out = io::stdout().lock();
    let blocks = match (report.first_block, report.last_block) {
        (Some(first), Some(last)) => format!("{} (from {first} to {last})", report.blocks),
        _ => "none".to_owned(),
    };
    writeln!(out, "blocks    {blocks}")?;
    writeln!(out, "entries   {}", report.entries)?;
    writeln!(out, "forks     {}", report.forks)?;
    writeln!(out, "replayed  {}", report.replayed)?;
    let mut list = |heading: &str, lines: &[String]| -> io::Result<()> {
        if !lines.is_empty() {
            writeln!(out, "\n{heading}")?;
        }
        lines.iter().try_for_each(|line| writeln!(out, "  {}", printable(line)))
    };
    list("checked:", &report.proven)?;
    list("not checked:", &report.unproven)?;
    if report.is_good() {
        writeln!(out, "\nnothing is wrong")?;
        return Ok(());
    }
    let counts: Vec<String> =
        report.counts.iter().map(|(kind, count)| format!("{:<16}{count}", kind.as_str())).collect();
    list("found:", &counts)?;
    let findings: Vec<String> = report
        .findings
        .iter()
        .take(SHOWN)
        .map(|finding| {
            let entry = finding.entry.as_ref().map(|id| format!(" entry {id}")).unwrap_or_default();
            format!("{} block {}{entry}: {}", finding.kind.as_str(), finding.block, finding.message)
        })
        .collect();
    let heading = match report.counts.values().sum::<u64>() {
        count if count > SHOWN as u64 => format!("the first {SHOWN} of {count}:"),
        _ => "in order:".to_owned(),
    };
    list(&heading, &findings)?;
    Ok(())
}
