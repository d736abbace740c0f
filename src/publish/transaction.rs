//! The commands of one transaction besides its units' own.
//!
//! ```text
//! WATCH writer / GET writer / XREVRANGE events + - COUNT 1 / MULTI
//! the units' commands
//! HSET sync ... / HDEL sync part / blocks and abi-blocks kept up / PEXPIRE writer / XLEN events
//! EXEC
//! ```

use std::time::Instant;

use tokio::sync::OwnedSemaphorePermit;

use super::buffer::Buffer;
use super::failure::Failure;
use super::lease::LEASE_MS;
use super::unit::{Committed, EntryId, Tally, Unit};
use crate::block::Position;
use crate::keys::Keys;
use crate::out::Out;
use crate::resp;
use crate::time::{iso8601, now};

/// What one transaction holds so far.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// Commands between MULTI and EXEC.
    pub commands: usize,
    /// Bytes of the units' commands.
    pub bytes: usize,
    /// Entries added to the events stream.
    pub entries: u64,
    /// Those of them that are events of past blocks again.
    pub replayed: u64,
    /// Units in it; none if it only renews the lease.
    pub units: u64,
    /// Blocks that are complete with them.
    pub blocks: u64,
    /// Replies to what stands before MULTI say that it may be carried out.
    pub admitted: bool,
    /// Its last command but EXEC is written: no unit can join.
    pub closed: bool,
    /// Number of the first block in it.
    pub first_block: Option<u32>,
    /// State after the newest unit in it.
    pub state: State,
    /// Set if it begins with a fork.
    fork: Option<u32>,
    /// Blocks that are complete with it.
    whole: Vec<Position>,
    /// Dropped with it.
    permits: Vec<OwnedSemaphorePermit>,
    /// Its units', each with when it came.
    pub tallies: Vec<(Tally, Instant)>,
    /// When its EXEC was written.
    pub executed: Option<Instant>,
}

/// What the checkpoint says.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    pub block: Option<Position>,
    pub part: Option<u64>,
    pub last_irreversible: u32,
    pub last_entry: Option<EntryId>,
    /// Unknown where a checkpoint of the TypeScript version does not say it.
    pub first_block: Option<u32>,
    /// Number of the newest block published whole.
    pub newest_whole: Option<u32>,
}

/// Writes what stands before the units' commands: 4 commands.
pub(super) fn begin(out: &mut Out, keys: &Keys) {
    resp::command(out, &[b"WATCH", keys.writer.as_bytes()]);
    resp::command(out, &[b"GET", keys.writer.as_bytes()]);
    resp::command(out, &[b"XREVRANGE", keys.events.as_bytes(), b"+", b"-", b"COUNT", b"1"]);
    resp::command(out, &[b"MULTI"]);
}

impl Transaction {
    /// One that goes on from `state`.
    pub fn new(state: State) -> Transaction {
        Transaction { state, ..Transaction::default() }
    }

    /// Counts a unit in and gives its commands, to be written as they are.
    pub fn add(&mut self, unit: Unit) -> Buffer {
        let mut tally = unit.tally;
        tally.waiting = None;
        self.tallies.push((tally, Instant::now()));
        self.commands += unit.command_count;
        self.bytes += unit.commands.len();
        self.entries += unit.entries;
        self.units += 1;
        self.permits.extend(unit.permit);
        self.state.last_entry = unit.last_entry.or(self.state.last_entry);
        if unit.again {
            self.replayed += unit.entries;
            return unit.commands;
        }
        self.blocks += u64::from(unit.part.is_none());
        self.first_block.get_or_insert(unit.block.num);
        let state = &mut self.state;
        if let Some(common) = unit.fork {
            self.fork = Some(common);
            state.newest_whole = state.newest_whole.map(|newest| newest.min(common));
        }
        if unit.part.is_none() {
            self.whole.push(unit.block);
            state.newest_whole = Some(unit.block.num);
        }
        state.block = Some(unit.block);
        state.part = unit.part;
        state.last_irreversible = unit.last_irreversible;
        state.first_block = Some(unit.first_published);
        unit.commands
    }

    /// Writes what stands between the units' commands and EXEC, and says how many commands that is.
    pub fn close(&mut self, out: &mut Out, keys: &Keys, selection: &str) -> usize {
        let mut count = 2;
        if let Some(block) = self.state.block.filter(|_| self.units > 0) {
            count += self.checkpoint(out, keys, block, selection) + self.positions(out, keys);
        }
        resp::start(out, 3);
        resp::bulk(out, b"PEXPIRE");
        resp::bulk(out, keys.writer.as_bytes());
        resp::number(out, LEASE_MS);
        resp::command(out, &[b"XLEN", keys.events.as_bytes()]);
        self.commands += count;
        self.closed = true;
        count
    }

    fn checkpoint(&self, out: &mut Out, keys: &Keys, block: Position, selection: &str) -> usize {
        let state = &self.state;
        let sync = keys.sync.as_bytes();
        let fields = 4
            + usize::from(state.first_block.is_some())
            + usize::from(state.last_entry.is_some())
            + 2 * usize::from(state.part.is_some());
        resp::start(out, 2 + 2 * fields);
        resp::bulk(out, b"HSET");
        resp::bulk(out, sync);
        let mut field = |name: &[u8], value: &[u8]| {
            resp::bulk(out, name);
            resp::bulk(out, value);
        };
        let mut digits = itoa::Buffer::new();
        field(b"block_num", digits.format(block.num).as_bytes());
        field(b"block_id", block.id.to_string().as_bytes());
        field(b"last_updated", iso8601(now()).as_bytes());
        field(b"last_irreversible", digits.format(state.last_irreversible).as_bytes());
        if let Some(first) = state.first_block {
            field(b"first_block", digits.format(first).as_bytes());
        }
        if let Some(id) = state.last_entry {
            field(b"stream_id", id.to_string().as_bytes());
        }
        if let Some(part) = state.part {
            field(b"part", digits.format(part).as_bytes());
            field(b"part_selection", selection.as_bytes());
            return 1;
        }
        resp::command(out, &[b"HDEL", sync, b"part", b"part_selection"]);
        2
    }

    fn positions(&self, out: &mut Out, keys: &Keys) -> usize {
        let mut count = 0;
        let blocks = keys.blocks.as_bytes();
        let irreversible = self.state.last_irreversible;
        if let Some(common) = self.fork {
            resp::command(out, &[b"ZREMRANGEBYSCORE", blocks, format!("({common}").as_bytes(), b"+inf"]);
            count += 1;
        }
        let newest = self.whole.last().map(|block| block.num);
        let kept = || self.whole.iter().filter(|b| b.num >= irreversible || Some(b.num) == newest);
        if newest.is_some() {
            resp::start(out, 2 + 2 * kept().count());
            resp::bulk(out, b"ZADD");
            resp::bulk(out, blocks);
            for block in kept() {
                resp::number(out, block.num.into());
                resp::bulk(out, block.id.to_string().as_bytes());
            }
            count += 1;
        }
        let mut below = |key: &[u8], num: u32| {
            resp::command(out, &[b"ZREMRANGEBYSCORE", key, b"-inf", format!("({num}").as_bytes()]);
            count += 1;
        };
        if let Some(newest) = self.state.newest_whole {
            below(blocks, newest.min(irreversible));
        }
        below(keys.abi_blocks.as_bytes(), irreversible);
        count
    }

    /// What those who watch are told of it, now that it is carried out.
    pub fn committed(self) -> Committed {
        Committed { blocks: self.blocks, bytes: self.bytes, units: self.tallies, executed: self.executed }
    }

    /// EXEC carried it out, but not all of it: not to be mended by going on.
    pub fn half_done(&self, error: &str) -> Failure {
        let blocks = match (self.first_block, self.state.block) {
            (Some(first), Some(last)) if first != last.num => format!("blocks {first} to {}", last.num),
            (Some(first), _) => format!("block {first}"),
            _ => "no block".to_owned(),
        };
        Failure::Fatal(format!(
            "a command failed inside a transaction that Redis carried out otherwise ({error}): entries of {blocks} may be missing,          although the checkpoint counts them. Something else writes to this namespace's keys; stop it, then publish anew          from before that into another `redis.namespace`"
        ))
    }
}
