//! From block to block: what follows what, and forks.

use std::collections::HashSet;

use super::super::entry::{Event, ForkEvent};
use super::super::report::Kind;
use super::block::Open;
use super::{Checker, REMEMBERED};
use crate::block::Checksum;
use crate::publish::EntryId;

/// A block that stands.
pub(super) struct Standing {
    pub(super) id: Checksum,
    /// The last global sequence up to its end.
    pub(super) sequence: Option<u64>,
}

/// A fork whose first block is still to come.
pub(super) struct Fork {
    pub(super) common: u32,
    pub(super) new_head: String,
}

// === impl Checker ===

impl Checker {
    /// A `fork` event.
    pub(super) fn fork(&mut self, id: EntryId, event: &Event<'_>, data: &[u8]) {
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
    pub(super) fn enter(&mut self, id: EntryId, num: u32, block: Checksum, begins: bool) {
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
    pub(super) fn parent(&mut self, id: EntryId, num: u32, block: Checksum) {
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
}
