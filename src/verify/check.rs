//! Following the chain through a stream's events, and naming what does not fit.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::entry::{BlockEvent, Event, EventKind, ForkEvent};
use super::report::{Kind, Report};
use crate::block::Checksum;
use crate::name::Name;
use crate::plan::Selection;
use crate::publish::checkpoint::Checkpoint;
use crate::publish::{EntryId, StreamIds};

/// Blocks remembered below the newest: more than a fork reaches back.
const REMEMBERED: u32 = 20_000;

/// What can be expected of a stream, by what is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expect {
    /// Entry ids begin with the block's number.
    pub block_ids: bool,
    /// Every block has an event: the chain's own `onblock` action, or the `block` event.
    pub every_block: bool,
    /// Every block ends with a `block` event.
    pub block_events: bool,
    /// Every action trace has an event, so that global sequences have no holes.
    pub every_sequence: bool,
}

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
    /// Events published again: what stands for their ids, and their blocks.
    replayed: HashMap<u64, u32>,
}

/// A block whose events are being read.
struct Open {
    num: u32,
    id: Checksum,
    /// The kind of its newest event.
    kind: EventKind,
    actions: u64,
    deltas: u64,
    /// Stand for the ids of its rows' events.
    rows: HashSet<u64>,
    /// Whether its `block` event has come.
    closed: bool,
    /// Whether its first events were not read.
    cut: bool,
    /// Whether it was read before.
    repeated: bool,
}

struct Standing {
    id: Checksum,
    /// The last global sequence up to its end.
    sequence: Option<u64>,
}

struct Fork {
    common: u32,
    new_head: String,
}

// === impl Open ===

impl Open {
    fn new(num: u32, id: Checksum) -> Open {
        Open {
            num,
            id,
            kind: EventKind::Fork,
            actions: 0,
            deltas: 0,
            rows: HashSet::new(),
            closed: false,
            cut: false,
            repeated: false,
        }
    }
}

// === impl Expect ===

impl Expect {
    /// Of a stream with these settings.
    pub fn of(selection: &Selection, stream_ids: StreamIds) -> Expect {
        let eosio = Name::literal("eosio");
        let onblock =
            selection.actions && selection.filter.action(eosio, Name::literal("onblock"), eosio, &[]);
        Expect {
            block_ids: stream_ids == StreamIds::Block,
            every_block: selection.blocks || onblock,
            block_events: selection.blocks,
            every_sequence: selection.actions && selection.notifications && selection.filter.passes_all(),
        }
    }
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
        if event.kind == EventKind::Fork {
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
        let fits = parts.next() == Some(event.kind.letter())
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

    fn fork(&mut self, id: EntryId, event: &Event<'_>, data: &[u8]) {
        self.close();
        let Ok(fork) = serde_json::from_slice::<ForkEvent>(data) else {
            return self.find(
                Kind::ForeignEntry,
                Some(id),
                self.newest(),
                "a fork event lacks its fields".to_owned(),
            );
        };
        let common = fork.forked_from_block;
        let short = fork.new_head_block_id.get(..16).unwrap_or_default();
        if event.event_id != format!("{}:f:{common}:{short}", self.chain_id) {
            let message = format!("`{}` does not fit the event", event.event_id);
            self.find(Kind::WrongEventId, Some(id), common, message);
        }
        self.report.forks += u64::from(self.meant(common.saturating_add(1)));
        let known: Vec<(u32, String)> = self
            .standing
            .range(common.saturating_add(1)..)
            .rev()
            .map(|(num, b)| (*num, b.id.to_string()))
            .collect();
        let removed: HashSet<&str> = fork.removed.iter().map(String::as_str).collect();
        for (num, block) in &known {
            if !removed.contains(block.as_str()) {
                let message = format!("block {num} ({block}) is above {common}, but not among those undone");
                self.find(Kind::WrongFork, Some(id), *num, message);
            }
        }
        let begins_above =
            self.standing.first_key_value().is_some_and(|(first, _)| *first <= common.saturating_add(1));
        if self.expect.every_block && begins_above {
            let known: HashSet<&str> = known.iter().map(|(_, block)| block.as_str()).collect();
            for block in fork.removed.iter().filter(|block| !known.contains(block.as_str())) {
                let message = format!("the fork undoes block {block}, which does not stand here");
                self.find(Kind::WrongFork, Some(id), common, message);
            }
        }
        let tip = self.standing.last_key_value().map(|(num, block)| (*num, block.id.to_string()));
        if let Some((num, block)) = tip {
            let old = (fork.old_head_block_num, fork.old_head_block_id);
            if old.0 < num || (old.0 == num && old.1 != block) || (old.0 > num && self.expect.every_block) {
                let message = format!(
                    "it says that block {} ({}) was the newest, which was {num} ({block})",
                    old.0, old.1
                );
                self.find(Kind::WrongFork, Some(id), num, message);
            }
        }
        self.standing.split_off(&common.saturating_add(1));
        self.replayed.retain(|_, num| *num <= common);
        self.fork = Some(Fork { common, new_head: fork.new_head_block_id });
    }

    /// A block begins.
    fn enter(&mut self, id: EntryId, num: u32, block: Checksum, begins: bool) {
        self.close();
        let tip = self.standing.last_key_value().map(|(num, standing)| (*num, standing.id));
        let begun_with = self.begun_with.take().and_then(|block| block.checked_sub(1));
        let mut follows = tip.map(|(tip, _)| tip).or(begun_with);
        match self.fork.take() {
            Some(fork) => {
                follows = Some(fork.common);
                let next = fork.common.saturating_add(1);
                if num <= fork.common {
                    let message = format!("block {num} comes behind a fork that begins with block {next}");
                    self.find(Kind::WrongBranch, Some(id), num, message);
                    follows = None;
                } else if num == next && block.to_string() != fork.new_head {
                    let message = format!("block {num} is {block}, but the fork leads to {}", fork.new_head);
                    self.find(Kind::WrongBranch, Some(id), num, message);
                }
            }
            None => {
                if let Some((tip, _)) = tip.filter(|(tip, _)| num <= *tip) {
                    if self.standing(num) == Some(block) {
                        let message =
                            format!("block {num} comes again behind block {tip}, without a fork between");
                        self.find(Kind::RepeatedBlock, Some(id), num, message);
                        // Its events are known. What comes behind it follows what stands.
                        self.open = Some(Open { repeated: true, ..Open::new(num, block) });
                        return;
                    }
                    let message =
                        format!("block {num} ({block}) comes behind block {tip}, without a fork between");
                    self.find(Kind::WrongBranch, Some(id), num, message);
                    follows = None;
                    self.standing.split_off(&num);
                }
            }
        }
        if let Some(follows) = follows.filter(|follows| self.expect.every_block && num > follows + 1) {
            let message = match num - follows - 1 {
                1 => format!("block {} is not there", num - 1),
                _ => format!("blocks {} to {} are not there", follows + 1, num - 1),
            };
            self.find(Kind::MissingBlock, Some(id), follows + 1, message);
        }
        self.parent(id, num, block);
        let sequence = self.standing.last_key_value().and_then(|(_, standing)| standing.sequence);
        self.standing.insert(num, Standing { id: block, sequence });
        let floor = num.saturating_sub(REMEMBERED);
        while self.standing.first_key_value().is_some_and(|(first, _)| *first < floor) {
            self.standing.pop_first();
        }
        while self.parents.first_key_value().is_some_and(|(first, _)| *first < floor) {
            self.parents.pop_first();
        }
        self.open = Some(Open { cut: !begins, ..Open::new(num, block) });
        self.newest = num;
        if self.meant(num) {
            self.report.blocks += 1;
            let first = self.report.first_block.get_or_insert(num);
            *first = num.min(*first);
            self.report.last_block = self.report.last_block.max(Some(num));
        }
    }

    /// A block that comes again must stand on what it stood on before.
    fn parent(&mut self, id: EntryId, num: u32, block: Checksum) {
        let Some(below) = num.checked_sub(1).and_then(|below| self.standing(below)) else { return };
        let known = self.parents.entry(num).or_default();
        match known.iter().find(|(known, _)| *known == block) {
            Some((_, parent)) if *parent != below => {
                let message = format!(
                    "block {num} ({block}) stood on {parent} when it came first, and comes behind {below} now"
                );
                self.find(Kind::WrongBranch, Some(id), num, message);
            }
            Some(_) => {}
            None => known.push((block, below)),
        }
    }

    fn in_block(&mut self, id: EntryId, event: &Event<'_>, data: &[u8]) {
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
            EventKind::Action => {
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
            EventKind::Delta | EventKind::NativeDelta => {
                open.deltas += 1;
                if !open.rows.insert(hash(event.event_id)) {
                    found.push((Kind::RepeatedEvent, format!("`{}` comes again", event.event_id)));
                }
            }
            EventKind::Block => {
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
            EventKind::Fork => {}
        }
        for (kind, message) in found {
            self.find(kind, Some(id), num, message);
        }
    }

    /// An event that was published again.
    fn again(&mut self, id: EntryId, event: &Event<'_>, block: Checksum) {
        self.close();
        self.report.replayed += 1;
        let num = event.block_num;
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

    /// The open block has no more events.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        if self.expect.block_events && !open.closed && !open.repeated {
            let message = format!("block {} lacks its end: its `block` event is not there", open.num);
            self.find(Kind::MissingEntry, self.last, open.num, message);
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

    /// There was nothing to read.
    pub fn finish_empty(mut self, checkpoint: &Checkpoint) -> Report {
        self.report.unproven.push("the stream holds no entries".to_owned());
        self.missing_end(checkpoint);
        self.report
    }

    /// All is read, up to the entry `last`; `checkpoint` where that is the end of what is published.
    pub fn finish(mut self, checkpoint: Option<&Checkpoint>, last: EntryId) -> Report {
        match checkpoint {
            None => self.open = None,
            Some(checkpoint) => {
                if checkpoint.part.is_some() {
                    // Its other events are still to come.
                    self.open = None;
                }
                self.close();
                self.end(checkpoint, last);
            }
        }
        self.basis();
        self.report
    }

    fn end(&mut self, checkpoint: &Checkpoint, last: EntryId) {
        if self.expect.block_ids
            && let Some(id) = checkpoint.stream_id
            && id != last
        {
            let message = format!("the stream ends with entry {last}, the checkpoint says {id}");
            self.find(Kind::WrongEnd, Some(last), self.newest(), message);
        }
        if let Some(fork) = self.fork.take().filter(|_| self.expect.every_block) {
            let message = format!("nothing comes behind a fork at block {}", fork.common);
            self.find(Kind::MissingBlock, Some(last), fork.common.saturating_add(1), message);
        }
        self.missing_end(checkpoint);
        let first = self.standing.keys().next().copied().unwrap_or(u32::MAX);
        for position in &checkpoint.positions {
            match self.standing(position.num) {
                Some(id) if id != position.id => {
                    let message =
                        format!("{id} stands in the stream, {} among the published blocks", position.id);
                    self.find(Kind::WrongBranch, None, position.num, message);
                }
                None if self.expect.every_block && position.num > first && position.num < self.newest() => {
                    let message = format!("block {position} is published, but the stream has nothing of it");
                    self.find(Kind::MissingBlock, None, position.num, message);
                }
                _ => {}
            }
        }
    }

    /// Whether the stream has less than what was asked for, or than what the checkpoint says.
    fn missing_end(&mut self, checkpoint: &Checkpoint) {
        let published = checkpoint.block.map_or(0, |block| block.num);
        let newest = self.newest();
        if let Some(to) = self.to.filter(|to| *to > published) {
            let message = format!("blocks {} to {to} are not published", published + 1);
            self.find(Kind::MissingBlock, None, to, message);
        }
        if newest > 0 && self.expect.every_block && newest < published && checkpoint.part.is_none() {
            let message =
                format!("the checkpoint is at block {published}, but the stream ends with block {newest}");
            self.find(Kind::WrongEnd, None, published, message);
        }
    }

    /// Says what the findings rest upon.
    fn basis(&mut self) {
        let Expect { block_ids, every_block, block_events, every_sequence } = self.expect;
        let report = &mut self.report;
        let mut say = |proven: bool, yes: &str, no: &str| {
            let list = if proven { &mut report.proven } else { &mut report.unproven };
            list.push(if proven { yes } else { no }.to_owned());
        };
        say(true, "event ids fit their events; no event twice; events of a block in their order", "");
        say(true, "blocks rise, and go back only behind a fork event that names what it undoes", "");
        say(
            every_block,
            "every block is there: each one has at least one event",
            "whether a block is missing: with these filters a block may have no event (`publish.blocks: true` gives each \
             one; --ship asks the node)",
        );
        say(
            block_ids,
            "no entry is missing between others of the same block: their numbers have no holes",
            "whether an entry is missing: with `streamIds: auto` their ids tell nothing",
        );
        say(
            block_events,
            "blocks are linked by id, and whole: `block` events name the block before and count the events",
            "whether a block's last entries are missing, and links by id: `publish.blocks: true` proves them",
        );
        if every_sequence {
            say(true, "no action is missing: global sequences have no holes", "");
        }
    }
}

/// Stands for an event's id.
fn hash(event_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    event_id.hash(&mut hasher);
    hasher.finish()
}
