//! What the sequencing side hands over to be published.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;

use super::buffer::Buffer;
use crate::block::Position;
use crate::config;
use crate::event::{Counts, Letters};
use crate::metrics::Waiting;

/// What one transaction or a share of it holds: a block, a part of a large block, or events of past blocks again.
#[derive(Debug)]
pub struct Unit {
    /// Whole RESP commands (XADDs, dead letters, ABI versions), written to the socket as they are.
    pub commands: Buffer,
    /// How many commands those are.
    pub command_count: usize,
    /// Entries they add to the events stream.
    pub entries: u64,
    /// Whether those are events of past blocks, published again. The checkpoint stays at the block where it is, and what
    /// is said of a block here means nothing, `last_entry` apart. It may not come between the parts of a block.
    pub again: bool,
    /// The block they belong to.
    pub block: Position,
    /// The last irreversible block when this one was read.
    pub last_irreversible: u32,
    /// `Some` when more parts of the block follow: entries of this block done, this part's included.
    /// `None`: the block is complete with this unit.
    pub part: Option<u64>,
    /// `Some` when this block follows a fork: the last block both branches share. Published positions
    /// above it are removed first, and the unit starts a transaction of its own.
    pub fork: Option<u32>,
    /// Id of the last entry in the events stream after this unit (`streamIds: block`), `None` with auto ids
    /// or before the first entry.
    pub last_entry: Option<EntryId>,
    /// Number of the first block ever published here.
    pub first_published: u32,
    /// Bytes in flight, given back once Redis has confirmed the unit.
    pub permit: Option<OwnedSemaphorePermit>,
    /// What is told to those who watch once it is committed.
    pub tally: Tally,
}

/// What those who watch are told of a unit.
#[derive(Debug, Default)]
pub struct Tally {
    /// Its events.
    pub counts: Counts,
    /// Its dead letters.
    pub letters: Letters,
    /// The time in its block's header, in milliseconds since 1970.
    pub block_time_ms: u64,
    /// When its block came, if that is whole with it.
    pub received: Option<Instant>,
    /// How long it took so far.
    pub timing: Option<Timing>,
    /// Counted among those that wait for the writer.
    pub waiting: Option<Waiting>,
}

/// A transaction that Redis has carried out.
#[derive(Debug)]
pub struct Committed {
    /// Blocks that are complete with it.
    pub blocks: u64,
    /// Bytes of its units' commands.
    pub bytes: usize,
    /// Its units, each with when it was handed to Redis.
    pub units: Vec<(Tally, Instant)>,
    /// When its EXEC was written.
    pub executed: Option<Instant>,
}

/// When a unit was where.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// It was handed to the decoding threads.
    pub queued: Instant,
    /// How long it was in one of them.
    pub decoding: Duration,
}

/// Who makes the entries' ids (`streamIds` in the configuration).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamIds {
    /// The parser: block number and a count under it.
    Block,
    /// Redis (`*`).
    Auto,
}

impl From<config::StreamIds> for StreamIds {
    fn from(configured: config::StreamIds) -> StreamIds {
        match configured {
            config::StreamIds::Block => StreamIds::Block,
            config::StreamIds::Auto => StreamIds::Auto,
        }
    }
}

/// Id of a stream entry: compared as two integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntryId {
    /// The block number, or milliseconds with auto ids.
    pub first: u64,
    /// Counts the entries under it.
    pub second: u64,
}

impl EntryId {
    /// The id of no entry: below all others.
    pub const ZERO: EntryId = EntryId { first: 0, second: 0 };

    /// The least id above this one. The highest one there is stays itself.
    pub fn next(self) -> EntryId {
        match self.second.checked_add(1) {
            Some(second) => EntryId { second, ..self },
            None => match self.first.checked_add(1) {
                Some(first) => EntryId { first, second: 0 },
                None => self,
            },
        }
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.second)
    }
}

/// A text that is no entry id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no stream entry id: two whole numbers with `-` between are expected")]
pub struct EntryIdError(String);

impl FromStr for EntryId {
    type Err = EntryIdError;

    fn from_str(text: &str) -> Result<EntryId, EntryIdError> {
        let digits =
            |part: &str| part.bytes().all(|c| c.is_ascii_digit()).then(|| part.parse().ok()).flatten();
        text.split_once('-')
            .and_then(|(first, second)| Some(EntryId { first: digits(first)?, second: digits(second)? }))
            .ok_or_else(|| EntryIdError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_compare_as_two_integers() {
        let id = |text: &str| text.parse::<EntryId>().expect(text);
        assert!(id("9-10") > id("9-9"));
        assert!(id("10-1") > id("9-18446744073709551615"));
        assert_eq!(id("9-18446744073709551615").next(), id("10-0"));
        assert_eq!(id("10-0").next().to_string(), "10-1");
        for text in ["", "1", "1-", "-1", "+1-1", "1-2-3", "1-18446744073709551616", "a-b"] {
            assert!(text.parse::<EntryId>().is_err(), "{text}");
        }
    }
}
