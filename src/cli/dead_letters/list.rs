//! `parser dead-letters list`

use std::io::{self, BufWriter, Write};

use anyhow::Result;
use serde::Serialize;

use super::super::table::{Column, Table};
use super::{ListArgs, letters};
use crate::block::Checksum;
use crate::dead_letters::{Letter, Letters};
use crate::event::Past;

/// Rows of a table where nothing else is asked for.
const ROWS: u64 = 100;

/// What is listed of a letter.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    id: String,
    sub: &'a str,
    reason: &'a str,
    contract: String,
    #[serde(rename = "type")]
    type_name: &'a str,
    abi_block: Option<u32>,
    failure_count: Option<u64>,
    error: &'a str,
    kind: &'a str,
    name: &'a str,
    block_num: Option<u32>,
    block_id: &'a str,
    event_id: &'a str,
}

// === impl Line ===

impl<'a> Line<'a> {
    /// `event` is its event, `None` where that does not read.
    pub(super) fn new(letter: &'a Letter, subscription: &'a str, event: Option<&'a Past<'a>>) -> Line<'a> {
        let contract = match letter.field("contract") {
            "" => event.and_then(Past::contract).map(|name| name.to_string()).unwrap_or_default(),
            contract => contract.to_owned(),
        };
        Line {
            id: letter.id.to_string(),
            sub: subscription,
            reason: letter.field("reason"),
            contract,
            type_name: letter.field("type"),
            abi_block: letter.field("abi_block").parse().ok(),
            failure_count: letter.field("failureCount").parse().ok(),
            error: letter.field("lastError"),
            kind: event.map_or("", Past::kind),
            name: event.map_or("", Past::subject),
            block_num: event.map(Past::block_num),
            block_id: event.map_or("", Past::block_id),
            event_id: event.map_or("", Past::event_id),
        }
    }

    /// Whose data it is, as far as that is known.
    pub(super) fn contract(&self) -> &str {
        &self.contract
    }

    fn cells(&self) -> [String; 7] {
        [
            self.id.clone(),
            self.block_num.map(|num| num.to_string()).unwrap_or_default(),
            self.kind.to_owned(),
            self.contract.clone(),
            self.name.to_owned(),
            self.reason.to_owned(),
            self.error.to_owned(),
        ]
    }
}

pub(super) async fn list(args: &ListArgs) -> Result<()> {
    let mut namespace = args.config.open().await?;
    let subscriptions = match args.all_subs {
        true => Letters::subscriptions(&mut namespace.connection, &namespace.keys).await?,
        false => vec![args.subscription.sub.clone()],
    };
    let limit = args.limit.unwrap_or(if args.json { u64::MAX } else { ROWS });
    let mut left = limit;
    for subscription in &subscriptions {
        let letters = letters(&namespace, subscription);
        match args.json {
            true => left = lines(letters, args, subscription, namespace.chain_id, left).await?,
            false => table(letters, args, subscription, namespace.chain_id, limit).await?,
        }
    }
    if subscriptions.is_empty() && !args.json {
        writeln!(io::stdout(), "no dead letters")?;
    }
    Ok(())
}

/// Prints one line each; says how many more there may be.
async fn lines(
    mut letters: Letters,
    args: &ListArgs,
    subscription: &str,
    chain_id: Checksum,
    mut left: u64,
) -> Result<u64> {
    let select = args.filter.select()?;
    let mut walk = letters.walk_from(&select, args.first);
    let mut out = Vec::new();
    while left > 0
        && let Some(letter) = walk.next().await?
    {
        let event = letter.event(&chain_id).ok();
        serde_json::to_writer(&mut out, &Line::new(&letter, subscription, event.as_ref()))?;
        out.push(b'\n');
        left -= 1;
        if out.len() > 1 << 16 {
            io::stdout().write_all(&std::mem::take(&mut out))?;
        }
    }
    io::stdout().write_all(&out)?;
    Ok(left)
}

async fn table(
    mut letters: Letters,
    args: &ListArgs,
    subscription: &str,
    chain_id: Checksum,
    limit: u64,
) -> Result<()> {
    let count = letters.count().await?;
    let select = args.filter.select()?;
    let mut walk = letters.walk_from(&select, args.first);
    let mut table = Table::new(&[
        Column::Text("entry"),
        Column::Number("block"),
        Column::Text("kind"),
        Column::Text("contract"),
        Column::Text("name"),
        Column::Text("reason"),
        Column::Text("error"),
    ]);
    let mut shown = 0;
    let mut more = false;
    while let Some(letter) = walk.next().await? {
        more = shown == limit;
        if more {
            break;
        }
        let event = letter.event(&chain_id).ok();
        table.row(Line::new(&letter, subscription, event.as_ref()).cells());
        shown += 1;
    }
    if !table.is_empty() {
        table.print()?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    match (shown, more) {
        (0, _) if select.is_all() => writeln!(out, "no dead letters of `{subscription}`")?,
        (0, _) => writeln!(out, "none of the {count} dead letters of `{subscription}` is such a one")?,
        (_, true) => writeln!(
            out,
            "the first {shown} are shown; `{subscription}` has {count} dead letters in all (--limit N for more)"
        )?,
        (_, false) => writeln!(out, "{shown} of the {count} dead letters of `{subscription}`")?,
    }
    Ok(())
}
