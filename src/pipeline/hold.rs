//! Holding blocks back until others stand on them (`confirmations`), so that a short fork is over
//! before anything is published.

use std::collections::VecDeque;

use crate::ship::message::BlockResult;

/// Blocks held back.
pub struct Hold<T> {
    confirmations: u32,
    /// Linked to one another.
    held: VecDeque<(BlockResult, T)>,
}

// === impl Hold ===

impl<T> Hold<T> {
    /// Holds each block back until that many stand on it.
    pub fn new(confirmations: u32) -> Hold<T> {
        Hold { confirmations, held: VecDeque::new() }
    }

    /// Whether nothing is ever held back.
    pub fn is_off(&self) -> bool {
        self.confirmations == 0
    }

    /// Takes a block and what belongs to it. Blocks that it replaces, or it itself where it is held
    /// already, are dropped with theirs: says how many.
    pub fn push(&mut self, result: BlockResult, with: T) -> u32 {
        let Some(block) = result.this_block.filter(|_| self.confirmations > 0) else {
            self.held.push_back((result, with));
            return 0;
        };
        let num = |held: &(BlockResult, T)| held.0.this_block.map_or(0, |block| block.num);
        if self.held.iter().any(|(held, _)| held.this_block == Some(block)) {
            return 1;
        }
        let before = self.held.len();
        while self.held.back().is_some_and(|held| num(held) >= block.num) {
            self.held.pop_back();
        }
        let dropped = before - self.held.len();
        self.held.push_back((result, with));
        dropped as u32
    }

    /// The next block that is held long enough.
    pub fn pop(&mut self) -> Option<(BlockResult, T)> {
        let num = |held: &(BlockResult, T)| held.0.this_block.map_or(0, |block| block.num);
        let (oldest, newest) = (self.held.front().map(num)?, self.held.back().map(num)?);
        if self.confirmations > 0 && newest < oldest.saturating_add(self.confirmations) {
            return None;
        }
        self.held.pop_front()
    }

    /// Drops all: another connection begins again behind what was taken.
    pub fn clear(&mut self) {
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Checksum, Position};

    fn block(num: u32, branch: u8) -> BlockResult {
        let at = |num: u32| Position { num, id: Checksum([branch ^ num as u8; 32]) };
        BlockResult {
            head: at(num),
            last_irreversible: at(1),
            this_block: Some(at(num)),
            prev_block: Some(at(num - 1)),
            block: None,
            traces: None,
            deltas: None,
        }
    }

    fn popped(hold: &mut Hold<u8>) -> Vec<(u32, u8)> {
        let mut out = Vec::new();
        while let Some((result, with)) = hold.pop() {
            out.push((result.this_block.expect("a block").num, with));
        }
        out
    }

    #[test]
    fn without_confirmations_nothing_is_held() {
        let mut hold = Hold::new(0);
        hold.push(block(5, 0), 0);
        hold.push(block(4, 9), 1);
        assert_eq!(popped(&mut hold), [(5, 0), (4, 1)]);
    }

    #[test]
    fn a_fork_among_held_blocks_leaves_no_trace() {
        let mut hold = Hold::new(2);
        for num in 5..=7 {
            assert_eq!(hold.push(block(num, 0), 0), 0);
        }
        assert_eq!(popped(&mut hold), [(5, 0)]);
        assert_eq!(hold.push(block(7, 0), 9), 1, "the same again");
        assert_eq!(hold.push(block(6, 40), 1), 2, "6 and 7 are replaced");
        assert_eq!(hold.push(block(7, 40), 1), 0);
        assert_eq!(popped(&mut hold), []);
        hold.push(block(8, 40), 1);
        assert_eq!(popped(&mut hold), [(6, 1)]);
    }
}
