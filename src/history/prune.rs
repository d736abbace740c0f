//! Removing versions that nothing needs any more.
//!
//! Needed are, for each contract: all versions of the oldest block that is still in the stream, among the dead letters or can
//! still be undone, and later ones; the newest before that block; and the last one with other bytes before that, because
//! rows are not rewritten when an ABI changes and may still be in its layout.

use redis::aio::MultiplexedConnection;
use serde::Serialize;

use super::Version;
use super::record::{self, Record};
use crate::keys::Keys;
use crate::name::Name;
use crate::publish::Failure;
use crate::stream::{self, Pages};

/// Entries at a stream's beginning that are looked at: behind a fork event blocks with lower numbers follow.
const LOOK: usize = 10_000;
/// Versions removed at once.
const STEP: usize = 100;

/// Up to which block versions are not needed, and what holds the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Floor {
    /// The oldest block that anything may still ask for.
    pub block: u32,
    /// Why it is this one.
    pub because: &'static str,
}

/// What was removed of a contract, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// The contract.
    pub contract: String,
    /// Versions removed.
    pub removed: u64,
    /// Versions that stay.
    pub kept: u64,
    /// Bytes of the members removed.
    pub bytes: u64,
}

/// The oldest block that needs its versions; `None` where nothing is published yet.
pub async fn floor(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<Option<Floor>, Failure> {
    let (newest, irreversible): (Option<u32>, Option<u32>) = redis::cmd("HMGET")
        .arg((&keys.sync, "block_num", "last_irreversible"))
        .query_async(connection)
        .await?;
    let Some(newest) = newest else { return Ok(None) };
    let floors = [
        // The next block; one in parts is gone on with.
        Some(Floor { block: newest, because: "the newest block published" }),
        // The TypeScript version says nothing of it: then every block counts as one that can be undone.
        Some(Floor {
            block: irreversible.unwrap_or(0).saturating_add(1),
            because: "the oldest block that can be undone",
        }),
        lowest(connection, &keys.events)
            .await?
            .map(|block| Floor { block, because: "the oldest block in the events stream" }),
        lowest(connection, &keys.dead_parser)
            .await?
            .map(|block| Floor { block, because: "the oldest block among the dead letters" }),
    ];
    Ok(floors.into_iter().flatten().min_by_key(|floor| floor.block))
}

/// The lowest block among a stream's oldest entries.
async fn lowest(connection: &mut MultiplexedConnection, key: &str) -> Result<Option<u32>, Failure> {
    let (mut lowest, mut seen) = (None::<u32>, 0);
    let mut pages = Pages::forward(key, "-");
    while seen < LOOK {
        let Some(page) = pages.next(connection).await? else { break };
        seen += page.len();
        let blocks = page.iter().filter_map(stream::entry).map(|entry| entry.block_num);
        lowest = blocks.chain(lowest).min();
    }
    Ok(lowest)
}

/// Removes what is not needed for block `floor` and later ones.
pub async fn prune(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    contracts: &[Name],
    floor: u32,
    dry_run: bool,
) -> Result<Vec<Pruned>, Failure> {
    let mut all = Vec::new();
    for &contract in contracts {
        let mut old = Old::default();
        record::each(connection, keys, &[contract], |_, records| old.take(records, floor)).await?;
        let (kept, removed) = old.finish();
        let bytes = removed.iter().map(|member| member.len() as u64).sum();
        if !dry_run {
            for some in removed.chunks(STEP) {
                redis::cmd("ZREM").arg(keys.abi(contract)).arg(some).exec_async(connection).await?;
            }
        }
        let removed = removed.len() as u64;
        all.push(Pruned { contract: contract.to_string(), removed, kept, bytes });
    }
    Ok(all)
}

/// A contract's versions below the floor, oldest first: what is needed of them and what is not.
#[derive(Default)]
struct Old {
    newest: Option<(Vec<u8>, Version)>,
    /// The last before it with other bytes.
    other: Option<(Vec<u8>, Version)>,
    removed: Vec<Vec<u8>>,
    /// Later versions, and what cannot be read.
    kept: u64,
}

// === impl Old ===

impl Old {
    fn take(&mut self, mut records: Vec<Record>, floor: u32) {
        // Members of one score that are of other forms do not sort by their sequence.
        records.sort_by_key(|record| record.version.as_ref().map(|version| version.since));
        for record in records {
            match record.version {
                Some(version) if version.since.block < floor => self.older(record.member, version),
                _ => self.kept += 1,
            }
        }
    }

    fn older(&mut self, member: Vec<u8>, version: Version) {
        let Some((before, newest)) = self.newest.take() else {
            self.newest = Some((member, version));
            return;
        };
        let gone = if newest.bytes() == version.bytes() {
            Some(before)
        } else {
            self.other.replace((before, newest)).map(|(member, _)| member)
        };
        self.removed.extend(gone);
        self.newest = Some((member, version));
    }

    fn finish(self) -> (u64, Vec<Vec<u8>>) {
        let kept = self.kept + u64::from(self.newest.is_some()) + u64::from(self.other.is_some());
        (kept, self.removed)
    }
}
