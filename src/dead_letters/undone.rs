//! Blocks that forks have undone: what is left of them must not be published as if they stood.

use std::collections::{HashMap, HashSet};

use redis::aio::MultiplexedConnection;

use super::Letter;
use crate::keys::Keys;
use crate::publish::{EntryId, Failure};

/// Forks read at once.
const PAGE: usize = 1000;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Undone {
    /// The last fork that undid each block: the id under which it is kept.
    forks: HashMap<String, EntryId>,
    /// Ids of the blocks that stand and can still be undone.
    standing: HashSet<String>,
}

type Fork = (String, HashMap<String, String>);

// === impl Undone ===

impl Undone {
    /// What Redis knows of it.
    pub async fn load(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<Undone, Failure> {
        let mut undone = Undone::default();
        let mut from = EntryId::ZERO;
        loop {
            let page: Vec<Fork> = redis::cmd("XRANGE")
                .arg((&keys.forks, from.to_string(), "+", "COUNT", PAGE))
                .query_async(connection)
                .await?;
            for (id, fields) in &page {
                let id: EntryId =
                    id.parse().map_err(|error| Failure::Fatal(format!("{}: {error}", keys.forks)))?;
                let removed = fields.get("removed").map_or("", String::as_str);
                undone.forks.extend(removed.split_ascii_whitespace().map(|block| (block.to_owned(), id)));
                from = id.next();
            }
            if page.len() < PAGE {
                break;
            }
        }
        if !undone.forks.is_empty() {
            undone.standing = redis::cmd("ZRANGE").arg((&keys.blocks, 0, -1)).query_async(connection).await?;
        }
        Ok(undone)
    }

    /// Whether a letter is about a block that was undone after the letter was written. `own`: whether the parser itself wrote
    /// it, at the same time as its event.
    ///
    /// A consumer writes its letters some time after the event, so that they tell nothing of which came first. A block that came
    /// back and can no more be undone is then taken for one that did not.
    pub fn contains(&self, letter: &Letter, block_id: &str, own: bool) -> bool {
        let Some(fork) = self.forks.get(block_id) else { return false };
        if !own {
            return !self.standing.contains(block_id);
        }
        let is_time = |id: &EntryId| id.first > u32::MAX.into();
        match (is_time(fork), is_time(&letter.id)) {
            // Milliseconds: of two entries of one, which came first is not known.
            (true, true) => fork.first >= letter.id.first,
            (false, false) => *fork > letter.id,
            // `streamIds` was changed between the two, to `auto`: there is no way back.
            (time, _) => time,
        }
    }
}
