//! What verifying found.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::publish::EntryId;

/// Findings kept to be shown; all are counted.
const KEPT: usize = 1_000;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An entry is not one field `data` with an event.
    ForeignEntry,
    /// An event is of another chain.
    WrongChain,
    /// An event's id does not say what its fields say.
    WrongEventId,
    /// An entry's id does not begin with its block's number, or the highest before.
    WrongEntryId,
    /// Entries are not there.
    MissingEntry,
    /// Blocks are not there.
    MissingBlock,
    /// A block comes again, without a fork between.
    RepeatedBlock,
    /// A block is not of the branch that stands.
    WrongBranch,
    /// A block does not stand on the block before it.
    WrongLink,
    /// A `fork` event does not fit what was published before it.
    WrongFork,
    /// An event comes again, without a fork between.
    RepeatedEvent,
    /// Events of a block are not in their order.
    WrongOrder,
    /// Global sequences are missing.
    MissingAction,
    /// A block has not so many events as it says.
    WrongCount,
    /// The stream does not end where the checkpoint says.
    WrongEnd,
    /// The node has another block.
    NotTheNodes,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// The entry where it was noticed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// The block concerned.
    pub block: u32,
    /// In words.
    pub message: String,
}

/// What was read and found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    /// The first block of which something was read.
    pub first_block: Option<u32>,
    /// The last one.
    pub last_block: Option<u32>,
    /// Entries read.
    pub entries: u64,
    /// Blocks read; one that came again after a fork counts again.
    pub blocks: u64,
    /// Forks among them.
    pub forks: u64,
    /// Events published again by `dead-letters replay`.
    pub replayed: u64,
    /// What was proven.
    pub proven: Vec<String>,
    /// What cannot be, and why.
    pub unproven: Vec<String>,
    /// How often each thing was found.
    pub counts: BTreeMap<Kind, u64>,
    /// The first findings.
    pub findings: Vec<Finding>,
}

// === impl Kind ===

impl Kind {
    /// As in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::ForeignEntry => "foreign_entry",
            Kind::WrongChain => "wrong_chain",
            Kind::WrongEventId => "wrong_event_id",
            Kind::WrongEntryId => "wrong_entry_id",
            Kind::MissingEntry => "missing_entry",
            Kind::MissingBlock => "missing_block",
            Kind::RepeatedBlock => "repeated_block",
            Kind::WrongBranch => "wrong_branch",
            Kind::WrongLink => "wrong_link",
            Kind::WrongFork => "wrong_fork",
            Kind::RepeatedEvent => "repeated_event",
            Kind::WrongOrder => "wrong_order",
            Kind::MissingAction => "missing_action",
            Kind::WrongCount => "wrong_count",
            Kind::WrongEnd => "wrong_end",
            Kind::NotTheNodes => "not_the_nodes",
        }
    }
}

// === impl Report ===

impl Report {
    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds a finding.
    pub(super) fn add(&mut self, kind: Kind, entry: Option<EntryId>, block: u32, message: String) {
        *self.counts.entry(kind).or_default() += 1;
        if self.findings.len() < KEPT {
            self.findings.push(Finding { kind, entry: entry.map(|id| id.to_string()), block, message });
        }
    }
}
