//! Which block follows which: links, forks, repeats and gaps, told by number and id.

use std::collections::BTreeMap;

use crate::block::{Checksum, Position};

/// The chain as far as it was handed on to be published.
pub struct Chain {
    /// Blocks that a fork may still remove, the newest one, and the one below it where that is known.
    blocks: BTreeMap<u32, Checksum>,
    /// The newest block.
    head: Option<Position>,
    /// The first block ever published here; `None` where an older checkpoint does not say.
    first: Option<u32>,
    /// Set when only so many entries of the newest block were published before a stop.
    part: Option<u64>,
    /// Blocks up to this one can no more be replaced.
    irreversible: u32,
}

/// What a received block is to the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// The next block (or the first).
    Next,
    /// The newest block, of which so many entries are published already.
    Rest(u64),
    /// The block that stands at that height, or one below all that can be told apart: nothing to do.
    Repeated,
    /// Another block at a height that was published: all above the common block is undone.
    Fork(Fork),
    /// It does not follow from what was published, and does not replace it either.
    Gap,
    /// It replaces blocks that were irreversible, or whose ids are not kept any more.
    TooDeep {
        /// The lowest block that could be replaced.
        lowest: u32,
    },
}

/// A fork: what a consumer has to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The last block that both branches share.
    pub common: u32,
    /// The block that was published last before.
    pub old_head: Position,
    /// The blocks that are no more, newest first.
    pub removed: Vec<Checksum>,
}

// === impl Chain ===

impl Chain {
    /// Goes on from a checkpoint: the positions published whole, the first block published, and the
    /// block published in part.
    pub fn new(positions: &[Position], first: Option<u32>, part: Option<(Position, u64)>) -> Chain {
        let mut blocks: BTreeMap<u32, Checksum> = positions.iter().map(|p| (p.num, p.id)).collect();
        let mut head = positions.last().copied();
        if let Some((block, _)) = part {
            blocks.insert(block.num, block.id);
            head = Some(block);
        }
        Chain { blocks, head, first, part: part.map(|(_, done)| done), irreversible: 0 }
    }

    /// The newest block.
    pub fn head(&self) -> Option<Position> {
        self.head
    }

    /// The first block ever published.
    pub fn first(&self) -> Option<u32> {
        self.first
    }

    /// Where the node has to go on, if anything is published: the block to ask for, and the blocks below it.
    pub fn resume(&self) -> Option<(u32, Vec<Position>)> {
        let head = self.head?;
        let start = if self.part.is_some() { head.num } else { head.num.saturating_add(1) };
        Some((start, self.blocks.range(..start).map(|(&num, &id)| Position { num, id }).collect()))
    }

    /// What `block`, whose parent is `previous`, is to the chain.
    pub fn link(&self, block: Position, previous: Option<Position>) -> Link {
        let Some(head) = self.head else { return Link::Next };
        let parent = previous.map(|previous| previous.id);
        if block.num > head.num {
            let follows = block.num == head.num + 1 && parent == Some(head.id) && self.part.is_none();
            return if follows { Link::Next } else { Link::Gap };
        }
        if self.blocks.get(&block.num) == Some(&block.id) {
            return match self.part {
                Some(done) if block == head => Link::Rest(done),
                _ => Link::Repeated,
            };
        }
        let lowest = self.blocks.keys().next().copied().unwrap_or(head.num);
        if block.num < lowest {
            // Nothing here tells it from the block published; the ones that follow it will.
            return Link::Repeated;
        }
        let settled = self.irreversible.min(head.num);
        match block.num.checked_sub(1).and_then(|below| self.blocks.get(&below)) {
            _ if block.num <= settled => Link::TooDeep { lowest: settled.saturating_add(1) },
            Some(&below) if parent == Some(below) => Link::Fork(self.fork(block.num - 1, head)),
            Some(_) => Link::Gap,
            None if self.first == Some(block.num) => Link::Fork(self.fork(block.num.saturating_sub(1), head)),
            None => Link::TooDeep { lowest: lowest.saturating_add(1) },
        }
    }

    fn fork(&self, common: u32, old_head: Position) -> Fork {
        let removed = self.blocks.range(common.saturating_add(1)..).rev().map(|(_, &id)| id).collect();
        Fork { common, old_head, removed }
    }

    /// Takes the block in, after [`Chain::link`] said that it is next, the rest or a fork.
    pub fn push(&mut self, block: Position) {
        self.blocks.split_off(&block.num);
        self.blocks.insert(block.num, block.id);
        self.head = Some(block);
        self.part = None;
        self.first.get_or_insert(block.num);
    }

    /// Forgets what no fork can reach, up to the last irreversible block.
    pub fn settle(&mut self, irreversible: u32) {
        self.irreversible = self.irreversible.max(irreversible);
        let Some(head) = self.head else { return };
        self.blocks = self.blocks.split_off(&irreversible.min(head.num));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of that branch; `a` is the first one.
    fn at(num: u32, branch: char) -> Position {
        Position { num, id: Checksum([num as u8 ^ branch as u8; 32]) }
    }

    fn chain(blocks: std::ops::RangeInclusive<u32>) -> Chain {
        let mut chain = Chain::new(&[], None, None);
        for num in blocks {
            chain.push(at(num, 'a'));
        }
        chain
    }

    #[test]
    fn blocks_follow_one_another_by_id_not_by_number_alone() {
        assert_eq!(Chain::new(&[], None, None).link(at(7, 'a'), Some(at(6, 'a'))), Link::Next);
        let chain = chain(10..=12);
        assert_eq!(chain.link(at(13, 'a'), Some(at(12, 'a'))), Link::Next);
        assert_eq!(chain.link(at(13, 'b'), Some(at(12, 'b'))), Link::Gap);
        assert_eq!(chain.link(at(14, 'a'), Some(at(13, 'a'))), Link::Gap);
        assert_eq!(chain.link(at(13, 'a'), None), Link::Gap);
        assert_eq!(chain.link(at(12, 'a'), Some(at(11, 'a'))), Link::Repeated);
        assert_eq!(chain.link(at(9, 'b'), Some(at(8, 'b'))), Link::Repeated);
    }

    #[test]
    fn a_fork_names_the_common_block_and_what_it_removes() {
        let mut chain = chain(10..=14);
        let fork = Fork { common: 12, old_head: at(14, 'a'), removed: vec![at(14, 'a').id, at(13, 'a').id] };
        assert_eq!(chain.link(at(13, 'b'), Some(at(12, 'a'))), Link::Fork(fork));
        assert_eq!(chain.link(at(13, 'b'), Some(at(12, 'b'))), Link::Gap);
        chain.push(at(13, 'b'));
        assert_eq!(chain.link(at(14, 'a'), Some(at(13, 'a'))), Link::Gap);
        // The removed block comes back.
        let back = Fork { common: 12, old_head: at(13, 'b'), removed: vec![at(13, 'b').id] };
        assert_eq!(chain.link(at(13, 'a'), Some(at(12, 'a'))), Link::Fork(back));
    }

    #[test]
    fn a_fork_below_all_that_was_published_names_the_block_before_it() {
        let chain = chain(10..=11);
        let fork = Fork { common: 9, old_head: at(11, 'a'), removed: vec![at(11, 'a').id, at(10, 'a').id] };
        assert_eq!(chain.link(at(10, 'b'), Some(at(9, 'b'))), Link::Fork(fork));
        // Unless it was irreversible.
        let mut chain = chain;
        chain.settle(10);
        assert_eq!(chain.link(at(10, 'b'), Some(at(9, 'b'))), Link::TooDeep { lowest: 11 });
    }

    #[test]
    fn a_fork_below_the_kept_positions_is_too_deep() {
        let mut chain = chain(10..=20);
        chain.settle(15);
        assert_eq!(chain.link(at(15, 'b'), Some(at(14, 'a'))), Link::TooDeep { lowest: 16 });
        assert!(matches!(chain.link(at(16, 'b'), Some(at(15, 'a'))), Link::Fork(_)));
        // Far behind the head, only the newest block is kept.
        chain.settle(1000);
        assert_eq!(chain.resume(), Some((21, vec![at(20, 'a')])));
        assert_eq!(chain.link(at(21, 'a'), Some(at(20, 'a'))), Link::Next);
    }

    #[test]
    fn a_block_published_in_part_is_gone_on_with_or_replaced() {
        let whole = [at(10, 'a'), at(11, 'a')];
        let chain = Chain::new(&whole, Some(10), Some((at(12, 'a'), 40)));
        assert_eq!(chain.resume(), Some((12, whole.to_vec())));
        assert_eq!(chain.link(at(12, 'a'), Some(at(11, 'a'))), Link::Rest(40));
        assert_eq!(chain.link(at(13, 'a'), Some(at(12, 'a'))), Link::Gap);
        let fork = Fork { common: 11, old_head: at(12, 'a'), removed: vec![at(12, 'a').id] };
        assert_eq!(chain.link(at(12, 'b'), Some(at(11, 'a'))), Link::Fork(fork));
    }
}
