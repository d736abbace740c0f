//! What happened lately, for the page: busiest contracts, dead letters, ABI changes, forks. All of it is bounded.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::block::Position;
use crate::event::{Letters, Reason};
use crate::history::Since;
use crate::name::Name;
use crate::pipeline::Ready;
use crate::time::now;

/// So many of each are kept.
const KEPT: usize = 20;
/// So many contracts are told apart in a window, and in the dead letters.
const CONTRACTS: usize = 2_000;
/// The busiest contracts are those of this window and the one before.
const WINDOW: Duration = Duration::from_secs(60);

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Recent {
    /// Events by contract, in this window and the one before.
    busy: [FxHashMap<Name, u64>; 2],
    window: Option<Instant>,
    letters: FxHashMap<(Name, Reason), u64>,
    abi_changes: VecDeque<AbiChange>,
    forks: VecDeque<ForkSeen>,
}

/// An ABI that was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AbiChange {
    /// In which block.
    pub block: u32,
    /// Whose.
    pub contract: String,
    /// Its bytes; 0 for none from there on.
    pub bytes: usize,
}

/// A fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForkSeen {
    /// The last block that both branches share.
    pub common: u32,
    /// How many blocks were taken back.
    pub removed: usize,
    /// The newest one of them.
    pub old_head: String,
    /// The block that follows the common one now.
    pub block: String,
    /// When it was seen, in milliseconds since 1970.
    pub seen_ms: u64,
}

// === impl Recent ===

impl Recent {
    /// A block was taken.
    pub(super) fn block(&mut self, ready: &Ready) {
        if self.window.is_none_or(|begun| begun.elapsed() >= WINDOW) {
            self.window = Some(Instant::now());
            let [now, before] = &mut self.busy;
            std::mem::swap(now, before);
            now.clear();
        }
        for (name, contract) in &ready.block.plan.contracts {
            let busy = &mut self.busy[0];
            if let Some(events) = busy.get_mut(name) {
                *events += u64::from(contract.events);
            } else if busy.len() < CONTRACTS && contract.events > 0 {
                busy.insert(*name, contract.events.into());
            }
        }
        // That an account has never had an ABI is no change.
        let changes = ready
            .learned
            .iter()
            .filter(|(_, version)| !version.bytes().is_empty() || version.since.sequence != Since::BEFORE);
        for (name, version) in changes.rev().take(KEPT).collect::<Vec<_>>().into_iter().rev() {
            let change = AbiChange {
                block: ready.position.num,
                contract: name.to_string(),
                bytes: version.bytes().len(),
            };
            keep(&mut self.abi_changes, change);
        }
        if let Some((fork, _)) = &ready.fork {
            let shown = |block: &Position| format!("{} ({})", block.num, block.id);
            keep(
                &mut self.forks,
                ForkSeen {
                    common: fork.common,
                    removed: fork.removed.len(),
                    old_head: shown(&fork.old_head),
                    block: shown(&ready.position),
                    seen_ms: u64::try_from(now().as_millis()).unwrap_or(u64::MAX),
                },
            );
        }
    }

    /// Dead letters were written.
    pub(super) fn letters(&mut self, letters: &Letters) {
        for (contract, reason, count) in letters {
            if self.letters.len() < CONTRACTS || self.letters.contains_key(&(*contract, *reason)) {
                *self.letters.entry((*contract, *reason)).or_default() += count;
            }
        }
    }

    /// Those with most events in the last minute or two, busiest first.
    pub fn busiest(&self) -> Vec<(Name, u64)> {
        let mut all = self.busy[1].clone();
        for (name, events) in &self.busy[0] {
            *all.entry(*name).or_default() += events;
        }
        most(all)
    }

    /// Dead letters by contract and reason, most first.
    pub fn dead_letters(&self) -> Vec<((Name, Reason), u64)> {
        most(self.letters.clone())
    }

    /// The last ABIs set, newest first.
    pub fn abi_changes(&self) -> impl Iterator<Item = &AbiChange> {
        self.abi_changes.iter().rev()
    }

    /// The last forks, newest first.
    pub fn forks(&self) -> impl Iterator<Item = &ForkSeen> {
        self.forks.iter().rev()
    }
}

fn keep<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == KEPT {
        list.pop_front();
    }
    list.push_back(item);
}

fn most<K>(counts: FxHashMap<K, u64>) -> Vec<(K, u64)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.truncate(KEPT);
    counts
}
