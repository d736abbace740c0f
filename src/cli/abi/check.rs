//! `parser abi check`.

use std::io::{self, Write};

use anyhow::{Result, bail};
use clap::Args;

use crate::cli::namespace::{ConfigArg, JsonArg};
use crate::cli::progress::Counter;
use crate::cli::table::{Column, Table, grouped, print_json};
use crate::cli::{block_on, contract};
use crate::history::check::{self, Findings};
use crate::history::record;
use crate::name::Name;

/// `parser abi check`
#[derive(Debug, Args)]
pub struct CheckAbisArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Only these contracts
    #[arg(value_name = "CONTRACT", value_parser = contract)]
    contracts: Vec<Name>,
    /// Compare also with the receipts of all actions in the stream, which count their contract's ABIs; reads the whole stream
    #[arg(long)]
    stream: bool,
    #[command(flatten)]
    output: JsonArg,
}

pub(super) fn check(args: CheckAbisArgs) -> Result<()> {
    block_on(async {
        let mut namespace = args.config.open().await?;
        let mut findings = Findings::default();
        let all = args.contracts.is_empty();
        let (connection, keys) = (&mut namespace.connection, &namespace.keys);
        let (names, foreign) = match all {
            true => record::contracts(connection, keys).await?,
            false => (args.contracts, Vec::new()),
        };
        for key in foreign {
            findings.problems.push(check::Problem {
                contract: key,
                block: 0,
                kind: check::Kind::Unreadable,
                message: "the key names no contract".to_owned(),
            });
        }
        check::versions(connection, keys, &names, &mut findings).await?;
        if args.stream {
            let entries: u64 = redis::cmd("XLEN").arg(&keys.events).query_async(connection).await?;
            let mut counter = Counter::new("reading the stream", Some(entries));
            check::receipts(connection, keys, &mut findings, |seen| counter.at(seen, "")).await?;
            counter.finish();
            if !all {
                findings
                    .problems
                    .retain(|problem| names.iter().any(|name| name.to_string() == problem.contract));
            }
        }
        findings.problems.sort();
        if args.output.json {
            print_json(&findings)?;
        } else {
            report(&findings, args.stream)?;
        }
        match findings.problems.len() {
            0 => Ok(()),
            1 => bail!("1 problem in the ABI history"),
            count => bail!("{} problems in the ABI history", grouped(count as u64)),
        }
    })
}

fn report(findings: &Findings, stream: bool) -> io::Result<()> {
    let mut table = Table::new(&[Column::Text("contract"), Column::Number("block"), Column::Text("problem")]);
    for problem in &findings.problems {
        table.row([problem.contract.as_str(), &problem.block.to_string(), &problem.message]);
    }
    if !table.is_empty() {
        table.print()?;
        writeln!(io::stdout())?;
    }
    let receipts = match stream {
        true => format!("; {} receipts compared", grouped(findings.receipts)),
        false => String::new(),
    };
    writeln!(
        io::stdout(),
        "{} versions of {} contracts looked at{receipts}.",
        grouped(findings.versions),
        grouped(findings.contracts)
    )
}
