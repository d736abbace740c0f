//! The commands of one transaction besides its units' own.
//!
//! ```text
//! WATCH writer / GET writer / XREVRANGE events + - COUNT 1 / MULTI
//! the units' commands
//! HSET sync ... / HDEL sync part / blocks and abi-blocks kept up / PEXPIRE writer / XLEN events
//! EXEC
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::OwnedSemaphorePermit;

use super::failure::Failure;
use super::lease::LEASE_MS;
use super::unit::{EntryId, Unit};
use crate::block::Position;
use crate::keys::Keys;
use crate::resp;

/// What one transaction holds so far.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// Commands between MULTI and EXEC.
    pub commands: usize,
    /// Bytes of the units' commands.
    pub bytes: usize,
    /// Entries added to the events stream.
    pub entries: u64,
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
}

/// What the checkpoint says.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    pub block: Option<Position>,
    pub part: Option<u64>,
    pub last_irreversible: u32,
    pub last_entry: Option<EntryId>,
    pub first_block: u32,
    /// Number of the newest block published whole.
    pub newest_whole: Option<u32>,
}

/// Writes what stands before the units' commands: 4 commands.
pub(super) fn begin(out: &mut Vec<u8>, keys: &Keys) {
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
    pub fn add(&mut self, unit: Unit) -> Vec<Vec<u8>> {
        self.commands += unit.command_count;
        self.bytes += unit.bytes();
        self.entries += unit.entries;
        self.units += 1;
        self.blocks += u64::from(unit.part.is_none());
        self.first_block.get_or_insert(unit.block.num);
        self.permits.extend(unit.permit);
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
        state.last_entry = unit.last_entry.or(state.last_entry);
        state.first_block = unit.first_published;
        unit.commands
    }

    /// Writes what stands between the units' commands and EXEC, and says how many commands that is.
    pub fn close(&mut self, out: &mut Vec<u8>, keys: &Keys, selection: &str) -> usize {
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

    fn checkpoint(&self, out: &mut Vec<u8>, keys: &Keys, block: Position, selection: &str) -> usize {
        let state = &self.state;
        let sync = keys.sync.as_bytes();
        let fields = 5 + usize::from(state.last_entry.is_some()) + 2 * usize::from(state.part.is_some());
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
        field(b"last_updated", now().as_bytes());
        field(b"last_irreversible", digits.format(state.last_irreversible).as_bytes());
        field(b"first_block", digits.format(state.first_block).as_bytes());
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

    fn positions(&self, out: &mut Vec<u8>, keys: &Keys) -> usize {
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

/// The present time in ISO 8601 with milliseconds.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    iso8601(since.as_secs(), since.subsec_millis())
}

fn iso8601(seconds: u64, milliseconds: u32) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March, counted from 0000-03-01, so that the leap day comes last; 400 of them have
    // 146,097 days.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) =
        if month < 10 { (400 * era + year, month + 3) } else { (400 * era + year + 1, month - 9) };
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_iso_8601() {
        // From `date -u -d @N`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_827_696, "2000-02-29T12:34:56.007Z"),
            (1_709_164_800, "2024-02-29T00:00:00.007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            assert_eq!(iso8601(seconds, 7), text);
        }
    }
}
