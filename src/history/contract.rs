//! The versions of one contract's ABI that are known here, and which of them a block is read with.

use std::sync::Arc;

use super::version::{Since, Version};

/// The newest versions of a contract's ABI, oldest first.
#[derive(Default)]
pub struct Known {
    versions: Vec<Arc<Version>>,
    /// The first block, not looked at yet, for which Redis has more of them.
    next: Option<u32>,
}

/// What one block's actions and rows of a contract are read with.
#[derive(Default)]
pub struct InForce {
    /// Before the block, or before its first action.
    before: Option<Arc<Version>>,
    /// The last version before that one with other bytes.
    older: Option<Arc<Version>>,
    /// Set inside the block, in order.
    inside: Vec<Arc<Version>>,
}

// === impl Known ===

impl Known {
    /// From versions in any order.
    pub fn new(mut versions: Vec<Arc<Version>>) -> Known {
        versions.sort_by_key(|version| version.since);
        Known { versions, next: None }
    }

    /// Says from which block on there is more in Redis.
    pub fn more_from(&mut self, next: Option<u32>) {
        self.next = next;
    }

    /// Whether it must be loaded again for block `num`.
    pub fn is_due(&self, num: u32) -> bool {
        self.next.is_some_and(|next| next <= num)
    }

    /// The newest version.
    pub fn newest(&self) -> Option<&Arc<Version>> {
        self.versions.last()
    }

    /// Whether there is a version that came from the chain's blocks.
    pub fn has_block_versions(&self) -> bool {
        self.versions.iter().any(|version| version.since != Since::CHAIN_API)
    }

    /// Adds a version in its place.
    pub fn add(&mut self, version: Arc<Version>) {
        let at = self.versions.partition_point(|known| known.since <= version.since);
        self.versions.insert(at, version);
    }

    /// Takes back what came above block `common`.
    pub fn undo(&mut self, common: u32) {
        self.versions.retain(|version| version.since.block <= common);
    }

    /// Adds what `other` knows and this does not.
    pub fn merge(&mut self, other: Known) {
        for version in other.versions {
            if !self.versions.iter().any(|known| known.since == version.since) {
                self.add(version);
            }
        }
    }

    /// Forgets what neither a row of a block above `floor` nor a fork down to it can ask for.
    pub fn forget_below(&mut self, floor: u32) {
        let settled = self.versions.partition_point(|version| version.since.block <= floor);
        let Some(newest) = settled.checked_sub(1) else { return };
        let older = other_before(&self.versions, newest);
        let mut index = 0;
        self.versions.retain(|_| {
            index += 1;
            index > newest || older == Some(index - 1)
        });
    }

    /// What block `num` is read with.
    pub fn in_force(&self, num: u32) -> InForce {
        let first = Since { block: num, sequence: Since::BEFORE };
        // A version from a row at the block's start is in force before its actions.
        let inside = self.versions.partition_point(|version| version.since <= first);
        let end = self.versions.partition_point(|version| version.since.block <= num);
        let before = inside.checked_sub(1);
        InForce {
            before: before.map(|i| self.versions[i].clone()),
            older: before.and_then(|i| other_before(&self.versions, i)).map(|i| self.versions[i].clone()),
            inside: self.versions[inside..end].to_vec(),
        }
    }
}

/// The last version before the one at `index` with other bytes.
fn other_before(versions: &[Arc<Version>], index: usize) -> Option<usize> {
    versions[..index].iter().rposition(|version| version.bytes() != versions[index].bytes())
}

// === impl InForce ===

impl InForce {
    /// Only this version, whatever the chain says.
    pub fn only(version: Arc<Version>) -> InForce {
        InForce { before: Some(version), ..InForce::default() }
    }

    /// The version an action runs with: the last one set before it.
    pub fn at(&self, global_sequence: u64) -> Option<&Version> {
        let set = self.inside.partition_point(|version| version.since.sequence < global_sequence);
        match set.checked_sub(1) {
            Some(last) => Some(&self.inside[last]),
            None => self.before.as_deref(),
        }
    }

    /// The version at the block's end.
    pub fn newest(&self) -> Option<&Version> {
        self.inside.last().or(self.before.as_ref()).map(Arc::as_ref)
    }

    /// The last version before the newest with other bytes: rows written before it may still be in its layout.
    pub fn previous(&self) -> Option<&Version> {
        let newest = self.newest()?;
        let before = self.inside.iter().rev().chain(&self.before).chain(&self.older);
        before.map(Arc::as_ref).find(|version| version.bytes() != newest.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(versions: &[(u32, u64, &str)]) -> Known {
        Known::new(
            versions
                .iter()
                .map(|&(block, sequence, bytes)| {
                    Arc::new(Version::new(Since { block, sequence }, bytes.as_bytes()))
                })
                .collect(),
        )
    }

    fn bytes(version: Option<&Version>) -> &str {
        version.map_or("-", |version| std::str::from_utf8(version.bytes()).unwrap_or("?"))
    }

    #[test]
    fn an_action_runs_with_the_last_version_set_before_it() {
        let known = known(&[(5, 50, "a"), (7, 70, "b"), (7, 73, "a"), (7, Since::END, "c"), (9, 90, "d")]);
        let seven = known.in_force(7);
        let at: Vec<_> = [69, 70, 71, 73, 74].map(|sequence| bytes(seven.at(sequence))).to_vec();
        assert_eq!(at, ["a", "a", "b", "b", "a"]);
        assert_eq!((bytes(seven.newest()), bytes(seven.previous())), ("c", "a"));
        assert_eq!(bytes(known.in_force(5).at(50)), "-");
        assert_eq!(bytes(known.in_force(6).at(60)), "a");
        assert_eq!(bytes(known.in_force(8).at(80)), "c");
    }

    #[test]
    fn the_row_before_is_read_with_the_last_version_of_other_bytes() {
        let known = known(&[(1, 1, "a"), (2, 2, "b"), (3, 3, "b"), (4, 4, "b")]);
        let four = known.in_force(4);
        assert_eq!((bytes(four.newest()), bytes(four.previous())), ("b", "a"));
        let nine = known.in_force(9);
        assert_eq!((bytes(nine.newest()), bytes(nine.previous())), ("b", "a"));
        let first = known.in_force(1);
        assert_eq!((bytes(first.newest()), bytes(first.previous())), ("a", "-"));
    }

    #[test]
    fn a_row_at_the_start_of_a_block_is_in_force_before_its_actions() {
        let known = known(&[(3, Since::BEFORE, "a")]);
        assert_eq!(bytes(known.in_force(3).at(1)), "a");
        assert_eq!(bytes(known.in_force(2).at(1)), "-");
    }

    #[test]
    fn forgetting_keeps_what_forks_and_rows_can_ask_for() {
        let mut known =
            known(&[(1, 1, "x"), (2, 2, "a"), (3, 3, "b"), (4, 4, "b"), (8, 8, "c"), (9, 9, "d")]);
        known.forget_below(5);
        known.undo(8);
        let eight = known.in_force(8);
        assert_eq!((bytes(eight.newest()), bytes(eight.previous())), ("c", "b"));
        known.undo(7);
        let eight = known.in_force(8);
        assert_eq!((bytes(eight.newest()), bytes(eight.previous())), ("b", "a"));
    }
}
