//! Blocks that forks have undone: what is left of them must not be published as if they stood.

use std::collections::{HashMap, HashSet};

use redis::aio::MultiplexedConnection;

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
    /// From where on to read.
    next: EntryId,
}

type Fork = (String, HashMap<String, String>);

// === impl Undone ===

impl Undone {
    /// What Redis knows of it.
    pub async fn load(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<Undone, Failure> {
        let mut undone = Undone::default();
        undone.refresh(connection, keys).await?;
        Ok(undone)
    }

    /// Takes in what came since.
    pub async fn refresh(
        &mut self,
        connection: &mut MultiplexedConnection,
        keys: &Keys,
    ) -> Result<(), Failure> {
        loop {
            let page: Vec<Fork> = redis::cmd("XRANGE")
                .arg((&keys.forks, self.next.to_string(), "+", "COUNT", PAGE))
                .query_async(connection)
                .await?;
            for (id, fields) in &page {
                let id: EntryId =
                    id.parse().map_err(|error| Failure::Fatal(format!("{}: {error}", keys.forks)))?;
                let removed = fields.get("removed").map_or("", String::as_str);
                self.forks.extend(removed.split_ascii_whitespace().map(|block| (block.to_owned(), id)));
                self.next = id.next();
            }
            if page.len() < PAGE {
                break;
            }
        }
        if !self.forks.is_empty() {
            self.standing = redis::cmd("ZRANGE").arg((&keys.blocks, 0, -1)).query_async(connection).await?;
        }
        Ok(())
    }

    /// Whether a letter is about a block that was undone after the letter was written. `own`: whether the parser itself wrote
    /// it, at the same time as its event.
    ///
    /// A consumer writes its letters some time after the event, so that they tell nothing of which came first. A block that came
    /// back and can no more be undone is then taken for one that did not.
    pub fn contains(&self, letter: EntryId, block_id: &str, own: bool) -> bool {
        let Some(fork) = self.forks.get(block_id) else { return false };
        if !own {
            return !self.standing.contains(block_id);
        }
        let is_time = |id: &EntryId| id.first > u32::MAX.into();
        match (is_time(fork), is_time(&letter)) {
            // Milliseconds: of two entries of one, which came first is not known.
            (true, true) => fork.first >= letter.first,
            (false, false) => *fork > letter,
            // `streamIds` was changed between the two, to `auto`: there is no way back.
            (time, _) => time,
        }
    }
}
