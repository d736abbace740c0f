//! The events inside one block.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::super::entry::{BlockEvent, Event};
use super::super::report::Kind;
use super::Checker;
use crate::block::Checksum;
use crate::event;
use crate::publish::EntryId;

/// A block whose events are being read.
pub(super) struct Open {
    pub(super) num: u32,
    pub(super) id: Checksum,
    /// The kind of its newest event.
    pub(super) kind: event::Kind,
    pub(super) actions: u64,
    pub(super) deltas: u64,
    /// Stand for the ids of its rows' events.
    pub(super) rows: HashSet<u64>,
    /// Whether its `block` event has come.
    pub(super) closed: bool,
    /// Whether its first events were not read.
    pub(super) cut: bool,
    /// Whether it was read before.
    pub(super) repeated: bool,
}

// === impl Open ===

impl Open {
    pub(super) fn new(num: u32, id: Checksum) -> Open {
        Open {
            num,
            id,
            kind: event::Kind::Fork,
            actions: 0,
            deltas: 0,
            rows: HashSet::new(),
            closed: false,
            cut: false,
            repeated: false,
        }
    }
}

// === impl Checker ===

impl Checker {
    /// The next event of the open block.
    pub(super) fn in_block(&mut self, id: EntryId, event: &Event<'_>, data: &[u8]) {
        let Some(open) = self.open.as_mut().filter(|open| !open.repeated) else { return };
        let num = open.num;
        let mut found = Vec::new();
        if open.closed || event.kind < open.kind {
            found.push((
                Kind::WrongOrder,
                format!("{:?} event behind one of kind {:?}", event.kind, open.kind),
            ));
        }
        open.kind = open.kind.max(event.kind);
        match event.kind {
            event::Kind::Action => {
                open.actions += 1;
                let sequence = event.event_id.rsplit(':').next().and_then(|text| text.parse::<u64>().ok());
                let standing = self.standing.get_mut(&num);
                match (sequence, standing) {
                    (Some(sequence), Some(standing)) => {
                        match standing.sequence {
                            Some(before) if sequence == before => found.push((
                                Kind::RepeatedEvent,
                                format!("the action with global sequence {sequence} comes again"),
                            )),
                            Some(before) if sequence < before => found.push((
                                Kind::WrongOrder,
                                format!("global sequence {sequence} comes behind {before}"),
                            )),
                            Some(before) if self.expect.every_sequence && sequence > before + 1 => {
                                let message = format!(
                                    "global sequences {} to {} are not there",
                                    before + 1,
                                    sequence - 1
                                );
                                found.push((Kind::MissingAction, message));
                            }
                            _ => {}
                        }
                        standing.sequence = Some(sequence.max(standing.sequence.unwrap_or(0)));
                    }
                    (None, _) => found.push((
                        Kind::WrongEventId,
                        format!("`{}` does not end in a global sequence", event.event_id),
                    )),
                    _ => {}
                }
            }
            event::Kind::Delta | event::Kind::NativeDelta => {
                open.deltas += 1;
                if !open.rows.insert(hash(event.event_id)) {
                    found.push((Kind::RepeatedEvent, format!("`{}` comes again", event.event_id)));
                }
            }
            event::Kind::Block => {
                open.closed = true;
                let counted = (open.actions, open.deltas);
                match serde_json::from_slice::<BlockEvent>(data) {
                    Err(_) => found.push((Kind::ForeignEntry, "a block event lacks its fields".to_owned())),
                    Ok(said) => {
                        if !open.cut && (said.actions, said.deltas) != counted {
                            let message = format!(
                                "it says {} actions and {} rows, and there are {} and {}",
                                said.actions, said.deltas, counted.0, counted.1
                            );
                            found.push((Kind::WrongCount, message));
                        }
                        let below = num.checked_sub(1).and_then(|below| self.standing.get(&below));
                        if let Some(below) = below.filter(|below| below.id.to_string() != said.prev_block_id)
                        {
                            let message = format!(
                                "block {num} stands on {}, but {} is before it",
                                said.prev_block_id, below.id
                            );
                            found.push((Kind::WrongLink, message));
                        }
                    }
                }
            }
            event::Kind::Fork => {}
        }
        for (kind, message) in found {
            self.find(kind, Some(id), num, message);
        }
    }

    /// The open block has no more events.
    pub(super) fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        if self.expect.block_events && !open.closed && !open.repeated {
            let message = format!("block {} lacks its end: its `block` event is not there", open.num);
            self.find(Kind::MissingEntry, self.last, open.num, message);
        }
    }
}

/// Stands for an event's id.
pub(super) fn hash(event_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    event_id.hash(&mut hasher);
    hasher.finish()
}
