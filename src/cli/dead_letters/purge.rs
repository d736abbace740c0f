//! `parser dead-letters purge`

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Result;

use super::super::progress::Counter;
use super::{PurgeArgs, letters, none_such};
use crate::block::Checksum;
use crate::dead_letters::{Letters, Select};
use crate::publish::EntryId;

/// Letters removed at once.
const BATCH: usize = 1_000;

pub(super) async fn purge(args: &PurgeArgs) -> Result<()> {
    let select =
        args.which.select(args.older_than_block, "--reason, --contract, --from, --to, --older-than-block")?;
    let namespace = args.config.open().await?;
    let mut letters = letters(&namespace, &args.subscription.sub);
    let count = walk(&mut letters, &select, namespace.chain_id, false).await?;
    let subscription = &args.subscription.sub;
    if count == 0 && !select.ids.is_empty() {
        return Err(none_such(subscription, &select.ids));
    }
    if count == 0 {
        writeln!(io::stdout(), "`{subscription}` has no such dead letters")?;
        return Ok(());
    }
    if !args.yes && !agreed(&format!("remove {count} dead letters of `{subscription}`?"))? {
        writeln!(
            io::stdout(),
            "{count} dead letters of `{subscription}` would be removed (nothing was changed); --yes removes them"
        )?;
        return Ok(());
    }
    let removed = walk(&mut letters, &select, namespace.chain_id, true).await?;
    writeln!(io::stdout(), "{removed} dead letters of `{subscription}` are removed")?;
    Ok(())
}

/// Goes through the letters that are meant, removing them or not; says how many they are.
async fn walk(letters: &mut Letters, select: &Select, chain_id: Checksum, remove: bool) -> Result<u64> {
    let mut counter = Counter::new(if remove { "removing" } else { "counting" }, None);
    let mut count = 0;
    let mut from = None;
    loop {
        let mut batch: Vec<(EntryId, String)> = Vec::new();
        let mut walk = letters.walk_from(select, from);
        while batch.len() < BATCH
            && let Some(letter) = walk.next().await?
        {
            let event_id =
                letter.event(&chain_id).map(|event| event.event_id().to_owned()).unwrap_or_default();
            batch.push((letter.id, event_id));
        }
        let Some((last, _)) = batch.last() else { break };
        from = Some(last.next());
        count += match remove {
            true => letters.remove(&batch).await?,
            false => batch.len() as u64,
        };
        counter.at(count, "");
    }
    counter.finish();
    Ok(count)
}

/// Asks, where somebody is there to answer.
fn agreed(question: &str) -> io::Result<bool> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(false);
    }
    write!(io::stderr(), "{question} [y/N] ")?;
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
