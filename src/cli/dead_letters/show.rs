//! `parser dead-letters show`

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::table::{print_json, printable};
use super::list::Line;
use super::{ShowArgs, letters, none_such};
use crate::dead_letters::{Again, Letter, NATIVE, Now, PARSER, Select};
use crate::event::Past;
use crate::history::Since;

/// All there is about a letter.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    line: Line<'a>,
    raw: &'a str,
    /// What the failure counter says.
    counter: Option<u64>,
    event: Option<&'a RawValue>,
    now: NowShown<'a>,
}

/// What decoding it now gives.
#[derive(Serialize)]
struct NowShown<'a> {
    /// `decoded`, or why it is not.
    result: &'static str,
    /// The block of the ABI that it is decoded with.
    abi_block: Option<u32>,
    /// Where in that block: the global sequence of the setabi.
    abi_sequence: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a RawValue>,
}

pub(super) async fn show(args: &ShowArgs) -> Result<()> {
    let namespace = args.config.open().await?;
    let subscription = args.subscription.sub.as_str();
    let mut letters = letters(&namespace, subscription);
    let select = Select { ids: vec![args.id.clone()], ..Select::default() };
    let letter = letters.walk(&select).next().await?;
    let Some(letter) = letter else { return Err(none_such(subscription, &select.ids)) };
    let chain_id = namespace.chain_id;
    let event = letter.event(&chain_id).ok();
    let mut again =
        Again::new(&namespace.config, namespace.connection.clone(), &namespace.keys, chain_id, subscription)
            .await?;
    let now = again.letter(&letter).await?;
    let since = match &event {
        Some(event) if event.is_undecoded() => again.version(event).await?,
        _ => None,
    };
    let counter = match &event {
        Some(event) => letters.failures(event.event_id()).await?,
        None => None,
    };
    let shown = Shown {
        line: Line::new(&letter, subscription, event.as_ref()),
        raw: raw(&letter, subscription),
        counter,
        event: serde_json::from_str(letter.field("data")).ok(),
        now: NowShown::new(&now, since),
    };
    if args.json.json {
        print_json(&shown)?;
    } else {
        print(&letter, event.as_ref(), &shown)?;
    }
    Ok(())
}

// === impl NowShown ===

impl<'a> NowShown<'a> {
    fn new(now: &'a Now, since: Option<Since>) -> NowShown<'a> {
        let (result, error, event) = match now {
            Now::Event { event, .. } => ("decoded", None, serde_json::from_str(event).ok()),
            Now::Still(still) => (still.reason, Some(still.message.as_str()), None),
            Now::Native => ("native", Some(NATIVE), None),
            Now::Undone => ("undone", Some("a fork has undone its block"), None),
            Now::Filtered => ("filtered", Some("the configuration does not publish such events"), None),
            Now::Unfit(why) => ("unfit", Some(why.as_str()), None),
        };
        NowShown {
            result,
            abi_block: since.map(|since| since.block),
            abi_sequence: since.and_then(|since| match since.sequence {
                Since::BEFORE | Since::END => None,
                sequence => Some(sequence.to_string()),
            }),
            error,
            event,
        }
    }
}

/// The bytes that could not be decoded; a consumer's letters have none of their own.
fn raw<'a>(letter: &'a Letter, subscription: &str) -> &'a str {
    if subscription == PARSER { letter.field("raw") } else { "" }
}

fn print(letter: &Letter, event: Option<&Past<'_>>, shown: &Shown<'_>) -> Result<()> {
    let mut out = io::stdout().lock();
    let mut line = |name: &str, value: &str| match value {
        "" => Ok(()),
        value => writeln!(out, "{name:<14}{}", printable(value)),
    };
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let of = &shown.line;
    line("entry", &letter.id.to_string())?;
    line("event id", event.map_or("", Past::event_id))?;
    line("kind", event.map_or("", Past::kind))?;
    line("block", &number(event.map(|event| event.block_num().into())))?;
    line("block id", event.map_or("", Past::block_id))?;
    line("contract", of.contract())?;
    line("name", event.map_or("", Past::subject))?;
    line("reason", letter.field("reason"))?;
    line("type", letter.field("type"))?;
    line("error", letter.field("lastError"))?;
    line("ABI of block", letter.field("abi_block"))?;
    line("failures", &number(shown.counter))?;
    line("raw", shown.raw)?;
    line("event", letter.field("data"))?;
    let now = &shown.now;
    writeln!(out)?;
    let mut line = |name: &str, value: &str| match value {
        "" => Ok(()),
        value => writeln!(out, "{name:<14}{}", printable(value)),
    };
    line("now", now.result)?;
    line("error", now.error.unwrap_or_default())?;
    let sequence = now.abi_sequence.as_ref().map(|at| format!(" (set at {at})")).unwrap_or_default();
    line("ABI of block", &now.abi_block.map(|block| format!("{block}{sequence}")).unwrap_or_default())?;
    line("event", now.event.map_or("", RawValue::get))?;
    Ok(())
}
