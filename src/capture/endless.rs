//! A capture without an end: its blocks are played again and again under new numbers and ids, each
//! linked to the one before it, so that a client sees one chain that grows for ever.
//!
//! The first lap is as recorded. In lap L a block's number is L times the lap's length higher, its id
//! has the new number in front and the lap in the four bytes behind it, and its header's time is L
//! times the lap's duration later, or that of the moment it is sent. What is in the block is as recorded: transaction ids and the
//! sequences in receipts (`global_sequence`, `abi_sequence`, …) come again in every lap.

use crate::block::Position;
use crate::ship::message::BlockResult;

use super::edit;
use super::replay::{Recorded, Restated};

/// The part of a chain that is repeated.
#[derive(Debug, Clone, Copy)]
pub struct Endless {
    /// Its first block's number.
    first: u32,
    /// How many numbers a lap has.
    length: u32,
    /// Its last block.
    last: Position,
    /// Half seconds a lap takes.
    duration: u32,
}

// === impl Endless ===

impl Endless {
    /// The part made of these blocks; none, if there is no block.
    pub(super) fn new<'a>(blocks: impl Iterator<Item = &'a Recorded> + Clone) -> Option<Endless> {
        let first = blocks.clone().next()?.result.this_block?;
        let last = blocks.clone().last()?.result.this_block?;
        let time = |frame: &Recorded| frame.result.block.as_deref().and_then(edit::time);
        let begin = blocks.clone().next().and_then(time).unwrap_or_default();
        let end = blocks.last().and_then(time).unwrap_or_default();
        Some(Endless {
            first: first.num,
            length: last.num - first.num + 1,
            last,
            duration: end.saturating_sub(begin).saturating_add(1),
        })
    }

    /// Which recorded block has this number, and in which lap.
    pub(super) fn recorded(&self, num: u32) -> (u32, u32) {
        match num.checked_sub(self.first) {
            Some(behind) => (self.first + behind % self.length, behind / self.length),
            None => (num, 0),
        }
    }

    /// A recorded block's number and id in a lap; none where the numbers end.
    pub(super) fn in_lap(&self, recorded: Position, lap: u32) -> Option<Position> {
        let num = u64::from(recorded.num) + u64::from(lap) * u64::from(self.length);
        Some(edit::marked(recorded, u32::try_from(num).ok()?, lap))
    }

    /// A recorded block in a lap behind the first. `block` gives the recorded one of a number.
    pub(super) fn restated(
        &self,
        result: &BlockResult,
        this: Position,
        lap: u32,
        block: impl Fn(u32) -> Option<Position>,
    ) -> Option<Restated> {
        let at = self.in_lap(this, lap)?;
        let prev = match result.prev_block {
            Some(_) if this.num == self.first && lap > 0 => self.in_lap(self.last, lap - 1),
            Some(prev) => self.in_lap(prev, lap),
            None => None,
        };
        // What lies below the repeated part lies in the laps before.
        let (mut num, mut behind) = (result.last_irreversible.num, lap);
        while num < self.first && behind > 0 {
            (num, behind) = (num + self.length, behind - 1);
        }
        let irreversible = block(num).unwrap_or(Position { num, ..result.last_irreversible });
        Some(Restated {
            head: if lap == 0 { result.head } else { at },
            last_irreversible: self.in_lap(irreversible, behind)?,
            this: at,
            prev,
            later: lap.wrapping_mul(self.duration),
        })
    }
}
