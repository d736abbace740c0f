//! Following the chain through a stream's events, and naming what does not fit.

mod block;
mod branch;
mod end;

use std::collections::{BTreeMap, HashMap};

use super::entry::Event;
use super::expect::Expect;
use super::report::{Kind, Report};
use crate::block::{Checksum, Position};
use crate::event;
use crate::publish::EntryId;
use block::{Open, hash};
use branch::{Fork, Standing};

/// Blocks remembered below the newest: more than a fork reaches back.
const REMEMBERED: u32 = 20_000;

/// See the module's documentation.
pub struct Checker {
    chain_id: String,
    expect: Expect,
    /// Which blocks are asked about.
    from: Option<u32>,
    to: Option<u32>,
    report: Report,
    /// The newest block read.
    newest: u32,
    /// The block that the reading began with, where it began in the middle of the stream.
    begun_with: Option<u32>,
    /// The entry read last.
    last: Option<EntryId>,
    /// Its block, until something else comes.
    open: Option<Open>,
    /// The blocks that stand, as far as they are remembered.
    standing: BTreeMap<u32, Standing>,
    /// What each block stood on when it came first.
    parents: BTreeMap<u32, Vec<(Checksum, Checksum)>>,
    /// A fork whose first block is still to come.
    fork: Option<Fork>,
    /// Blocks up to this one were compared with the node's.
    compared: u32,
    /// How many the node has, and how many of them under the same id.
    known_to_node: u64,
    same_as_nodes: u64,
    /// Events published again: what stands for their ids, and their blocks.
    replayed: HashMap<u64, u32>,
}

// === impl Checker ===

impl Checker {
    /// For the events of a chain; findings are kept of blocks from `from` to `to`.
    pub fn new(chain_id: Checksum, expect: Expect, from: Option<u32>, to: Option<u32>) -> Checker {
        Checker {
            chain_id: chain_id.to_string(),
            expect,
            from,
            to,
            report: Report::default(),
            newest: 0,
            begun_with: None,
            last: None,
            open: None,
            standing: BTreeMap::new(),
            parents: BTreeMap::new(),
            fork: None,
            compared: 0,
            known_to_node: 0,
            same_as_nodes: 0,
            replayed: HashMap::new(),
        }
    }

    /// The newest block read; 0 before the first.
    pub fn newest(&self) -> u32 {
        self.newest
    }

    /// The reading begins with the first entry under that number.
    pub fn begin_with(&mut self, block: u32) {
        self.begun_with = Some(block);
        // As if the entry before it were known.
        self.last = block.checked_sub(1).map(|before| EntryId { first: before.into(), second: u64::MAX });
    }

    /// The block that stands at a height, as far as it is remembered.
    pub fn standing(&self, num: u32) -> Option<Checksum> {
        self.standing.get(&num).map(|block| block.id)
    }

    /// The blocks asked about that stand and are so far below the newest, none of them twice.
    pub fn settled(&mut self, below: u32) -> Vec<Position> {
        let until = self.newest.saturating_sub(below);
        let from = self.compared.saturating_add(1).max(self.from.unwrap_or(0));
        let until = until.min(self.to.unwrap_or(u32::MAX));
        if from > until {
            return Vec::new();
        }
        self.compared = until;
        self.standing.range(from..=until).map(|(num, block)| Position { num: *num, id: block.id }).collect()
    }

    /// Compares a block with what the node has at its height, if it has any there that cannot be undone.
    pub fn compare(&mut self, block: Position, node: Option<Checksum>) {
        let Some(id) = node else { return };
        self.known_to_node += 1;
        if id == block.id {
            self.same_as_nodes += 1;
        } else {
            let message = format!("{} is published, the node has {id}", block.id);
            self.find(Kind::NotTheNodes, None, block.num, message);
        }
    }

    /// The node has nothing more to say.
    pub fn compared(&mut self) {
        let (same, left) = (self.same_as_nodes, self.report.blocks.saturating_sub(self.known_to_node));
        self.report.proven.push(format!("{same} blocks have the ids that the node has"));
        if left > 0 {
            self.report.unproven.push(format!(
                "whether the node has the other {left} blocks: they can still be undone, were undone, or are older than its log"
            ));
        }
        self.report
            .unproven
            .push("what the events hold: of the node's blocks only the ids are compared".to_owned());
    }

    /// Entries before this one were trimmed, perhaps while reading: begins anew with what comes.
    pub fn trimmed(&mut self, first: EntryId) {
        self.report.unproven.push(match self.report.entries {
            0 => format!("the stream begins with entry {first}: what was before it is trimmed and cannot be checked"),
            _ => format!("entries before {first} were trimmed while they were read: the check begins anew with that one"),
        });
        self.last = None;
        self.open = None;
        self.begun_with = None;
        self.standing.clear();
        self.parents.clear();
        self.fork = None;
    }

    /// An entry that is not one field `data`.
    pub fn foreign(&mut self, id: EntryId, what: &str) {
        self.number(id, None);
        self.find(Kind::ForeignEntry, Some(id), self.newest(), what.to_owned());
        self.report.entries += 1;
    }

    /// The next entry's event.
    pub fn entry(&mut self, id: EntryId, data: &[u8]) {
        let event = std::str::from_utf8(data).map_err(|error| error.to_string()).and_then(Event::read);
        let event = match event {
            Ok(event) => event,
            Err(why) => return self.foreign(id, &format!("its data is no event: {why}")),
        };
        if event.chain_id != self.chain_id {
            let message = format!("its event is of chain {}", event.chain_id);
            self.number(id, None);
            self.report.entries += 1;
            return self.find(Kind::WrongChain, Some(id), event.block_num, message);
        }
        self.report.entries += 1;
        if event.kind == event::Kind::Fork {
            self.number(id, None);
            return self.fork(id, &event, data);
        }
        let begins = self.number(id, (!event.replayed).then_some(event.block_num));
        let Ok(block_id) = event.block_id.parse::<Checksum>() else {
            let message = format!("`{}` is no block id", event.block_id);
            return self.find(Kind::WrongEventId, Some(id), event.block_num, message);
        };
        self.event_id(id, &event, &block_id);
        if event.replayed {
            return self.again(id, &event, block_id);
        }
        let same = self.open.as_ref().is_some_and(|open| (open.num, open.id) == (event.block_num, block_id));
        if !same {
            self.enter(id, event.block_num, block_id, begins);
        }
        self.in_block(id, &event, data);
    }

    /// Checks an entry's id; says whether it may be the first one of a block.
    fn number(&mut self, id: EntryId, block: Option<u32>) -> bool {
        let last = self.last.replace(id);
        if !self.expect.block_ids {
            return last.is_some();
        }
        let num = block.unwrap_or_else(|| self.newest());
        let missing = match last {
            Some(last) if last.first == id.first => id.second.saturating_sub(last.second + 1),
            _ => id.second.saturating_sub(1),
        };
        if missing > 0 && last.is_some() {
            let message = format!("{missing} entries before it are not there");
            self.find(Kind::MissingEntry, Some(id), num, message);
        }
        if let Some(block) = block {
            let expected = last.map_or(0, |last| last.first).max(block.into());
            if id.first != expected && (last.is_some() || id.first < expected) {
                let message = format!("an entry of block {block} is expected under {expected}");
                self.find(Kind::WrongEntryId, Some(id), block, message);
            }
        }
        last.is_some() || missing == 0
    }

    /// Compares an event's id with its fields.
    fn event_id(&mut self, id: EntryId, event: &Event<'_>, block_id: &Checksum) {
        let num = event.block_num;
        let rest =
            event.event_id.strip_prefix(self.chain_id.as_str()).and_then(|rest| rest.strip_prefix(':'));
        let mut parts = rest.unwrap_or_default().splitn(4, ':');
        let fits = parts.next().map(str::as_bytes) == Some(&[event.kind.letter()][..])
            && parts.next().and_then(|part| part.parse().ok()) == Some(num)
            && parts.next() == event.block_id.get(..16);
        if !fits {
            self.find(
                Kind::WrongEventId,
                Some(id),
                num,
                format!("`{}` does not fit the event", event.event_id),
            );
        } else if block_id.0[..4] != num.to_be_bytes() {
            let message = format!("the block id {block_id} is not one of block {num}");
            self.find(Kind::WrongEventId, Some(id), num, message);
        }
    }

    /// An event that was published again.
    fn again(&mut self, id: EntryId, event: &Event<'_>, block: Checksum) {
        self.close();
        let num = event.block_num;
        self.report.replayed += u64::from(self.meant(num));
        if let Some(standing) = self.standing(num).filter(|standing| *standing != block) {
            let message = format!(
                "block {num} ({block}) of an event published again is undone: {standing} stands there"
            );
            self.find(Kind::WrongBranch, Some(id), num, message);
        }
        if self.replayed.insert(hash(event.event_id), num).is_some() {
            self.find(
                Kind::RepeatedEvent,
                Some(id),
                num,
                format!("`{}` was published again twice", event.event_id),
            );
        }
    }

    /// Whether a block is asked about.
    fn meant(&self, block: u32) -> bool {
        self.from.is_none_or(|from| block >= from) && self.to.is_none_or(|to| block <= to)
    }

    fn find(&mut self, kind: Kind, entry: Option<EntryId>, block: u32, message: String) {
        if self.meant(block) {
            self.report.add(kind, entry, block, message);
        }
    }
}
