//! `parser status`.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::block_on;
use super::namespace::{ConfigArg, JsonArg};
use super::progress::shown;
use super::table::{Column, Table, bytes, grouped, print_json, printable};
use crate::status::{self, Group, Status};

/// `parser status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    config: ConfigArg,
    #[command(flatten)]
    output: JsonArg,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    redis: String,
    namespace: &'a str,
    #[serde(flatten)]
    status: &'a Status,
}

pub(super) fn run(args: StatusArgs) -> Result<()> {
    block_on(async {
        let mut namespace = args.config.open().await?;
        let status = status::status(&mut namespace.connection, &namespace.keys, &namespace.chain_id).await?;
        let redis = namespace.config.redis.url.to_string();
        let name = &namespace.config.redis.namespace;
        if args.output.json {
            return Ok(print_json(&Document { redis, namespace: name, status: &status })?);
        }
        print(&status, &format!("{name} in {redis}"))?;
        Ok(())
    })
}

fn print(status: &Status, place: &str) -> io::Result<()> {
    let lines = [
        ("chain", status.chain_id.clone()),
        ("namespace", place.to_owned()),
        ("parser", parser(status)),
        ("state", state(status)),
        ("checkpoint", checkpoint(status)),
        ("head", head(status)),
        ("stream", stream(status)),
        ("dead letters", dead_letters(status)),
        ("ABI history", abi_history(status)),
    ];
    let mut out = io::stdout().lock();
    for (what, text) in lines {
        let mut text = text.lines();
        writeln!(out, "{what:<13} {}", printable(text.next().unwrap_or_default()))?;
        for line in text {
            writeln!(out, "{:<13} {}", "", printable(line))?;
        }
    }
    writeln!(out)?;
    if status.groups.is_empty() {
        return writeln!(out, "No consumer group reads the stream.");
    }
    drop(out);
    groups(&status.groups).print()
}

fn parser(status: &Status) -> String {
    let Some(parser) = &status.parser else { return "none is running: nothing holds the lease".to_owned() };
    let Some(pid) = parser.pid else { return parser.token.clone() };
    let since = parser.since.as_ref().map(|since| format!(", since {since}")).unwrap_or_default();
    format!("process {pid} on {}{since}", parser.host)
}

fn state(status: &Status) -> String {
    let Some(report) = &status.state else {
        return match status.parser {
            Some(_) => "unknown: the parser has not said it".to_owned(),
            None => "-".to_owned(),
        };
    };
    let reason = if report.reason.is_empty() { String::new() } else { format!(": {}", report.reason) };
    let word = report.state;
    match status.parser {
        Some(_) => format!("{word}{reason}"),
        // Kept for a day after it ended.
        None => format!("{word} at {}{reason}", report.updated),
    }
}

fn checkpoint(status: &Status) -> String {
    let Some(at) = &status.checkpoint else { return "none: nothing is published".to_owned() };
    let mut text = format!("block {}", at.block_num);
    if let Some(part) = at.part {
        text += &format!(", only {} of its entries so far", grouped(part));
    }
    text += &format!(", irreversible {}", at.last_irreversible);
    if let Some(time) = &at.last_updated {
        text += &format!(", written {time}");
    }
    format!("{text}\n{}", at.block_id)
}

fn head(status: &Status) -> String {
    let lag =
        status.lag_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok()).map(shown);
    let running = status.state.as_ref().filter(|_| status.parser.is_some());
    match (running.and_then(|report| report.head), status.lag_blocks, lag) {
        (Some(head), behind, lag) => {
            // The report is some seconds older than the checkpoint.
            let head = status.checkpoint.as_ref().map_or(head, |at| head.max(at.block_num));
            let behind = behind.map(|count| format!(", {} blocks ahead", grouped(count.into())));
            let lag = lag.map(|lag| format!("; lag {lag}"));
            format!("block {head}{}{}", behind.unwrap_or_default(), lag.unwrap_or_default())
        }
        (None, _, Some(lag)) => format!("unknown, as no parser tells it; the newest event is {lag} old"),
        (None, _, None) => "unknown, as no parser tells it".to_owned(),
    }
}

fn stream(status: &Status) -> String {
    let stream = &status.stream;
    let memory = stream.bytes.map(|size| format!(", {}", bytes(size))).unwrap_or_default();
    match (stream.first_block, stream.last_block) {
        (Some(first), Some(last)) => {
            format!("{} entries, blocks {first} to {last}{memory}", grouped(stream.entries))
        }
        _ => format!("{} entries{memory}", grouped(stream.entries)),
    }
}

fn dead_letters(status: &Status) -> String {
    let letters = &status.dead_letters;
    let mut reasons: Vec<_> = letters.by_reason.iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let reasons: Vec<String> =
        reasons.into_iter().map(|(reason, count)| format!("{reason} {}", grouped(*count))).collect();
    let mut text = grouped(letters.entries);
    if !reasons.is_empty() {
        text += &format!(": {}", reasons.join(", "));
    }
    if letters.counted < letters.entries {
        text += &format!(" (of the newest {})", grouped(letters.counted));
    }
    text
}

fn abi_history(status: &Status) -> String {
    let history = &status.abi_history;
    let memory = history.bytes.map(|size| format!(", {}", bytes(size))).unwrap_or_default();
    let rest = if history.complete { "" } else { " (counted in part: there are more)" };
    format!("{} contracts, {} versions{memory}{rest}", grouped(history.contracts), grouped(history.versions))
}

fn groups(groups: &[Group]) -> Table {
    let mut table = Table::new(&[
        Column::Text("group"),
        Column::Number("consumers"),
        Column::Number("lag (blocks)"),
        Column::Number("pending"),
        Column::Number("oldest pending"),
        Column::Number("idle"),
    ]);
    for group in groups {
        table.row([
            group.name.clone(),
            group.consumers.to_string(),
            grouped(group.lag_blocks),
            grouped(group.pending),
            group.oldest_pending_block.map_or("-".to_owned(), |block| format!("block {block}")),
            group.idle_ms.map_or("-".to_owned(), |ms| shown(Duration::from_millis(ms))),
        ]);
    }
    table
}
