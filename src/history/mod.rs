//! The history of all contracts' ABIs: which version decodes what.
//!
//! It goes through the blocks in their order, ahead of the decoding: [`History::block`] learns the
//! ABIs that a block brings and hands out, for each contract in it, the versions its events are
//! read with. Decoding then needs no more than a hash look-up. What was learned goes to Redis in
//! the block's own transaction; what a block needs and is not in memory comes from there, or from
//! the chain API.

pub mod check;
mod contract;
pub mod edits;
mod learn;
mod past;
pub mod prune;
pub mod put;
pub mod record;
mod store;
mod version;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::watch;
use tracing::warn;

use crate::chain_api::ChainApi;
use crate::name::Name;
use crate::plan::Plan;

pub use contract::InForce;
use contract::Known;
pub use past::PastAbis;
pub use store::{Store, StoreError};
pub use version::{BadMember, Says, Since, Version};

/// How many contracts' versions are kept in memory beside those that changed just now.
const CACHED_CONTRACTS: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// An ABI that the operator puts in place of the chain's.
#[derive(Clone)]
pub struct Override {
    /// Whose ABI.
    pub contract: Name,
    /// For which blocks.
    pub blocks: RangeInclusive<u32>,
    /// The packed ABI.
    pub abi: Arc<Version>,
}

/// What to do about a contract whose ABI is not in the history.
pub enum Fallback {
    /// Publish its events undecoded (`abi_unknown`).
    Publish,
    /// Take the current ABI from the chain API, waiting for it where it is down.
    ChainApi {
        /// The chain API.
        api: ChainApi,
        /// Waits between tries while it is down.
        backoff: Vec<Duration>,
        /// Told why it is being waited for, while it is.
        waiting: watch::Sender<Option<String>>,
    },
    /// Stop.
    Fail,
}

/// What a block is decoded with, and the Redis commands that keep what it taught.
#[derive(Default)]
pub struct BlockAbis {
    /// For each contract with events in the block.
    pub contracts: FxHashMap<Name, InForce>,
    /// The versions learned.
    pub learned: Vec<(Name, Arc<Version>)>,
}

/// Why the history cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// Redis did not answer as it should.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// `abiFallback: fail`.
    #[error(
        "no ABI of `{contract}` is known for block {block} and the configuration says `abiFallback: fail`: put it \
         into the history, give `chain.url` with `abiFallback: rpc-current`, or start at an earlier block"
    )]
    Missing {
        /// The contract.
        contract: Name,
        /// The block with an event of it.
        block: u32,
    },
}

/// The history. See the module's documentation.
pub struct History {
    store: Option<Store>,
    /// Counts changes from outside.
    edits: Option<watch::Receiver<u64>>,
    fallback: Fallback,
    overrides: Vec<Override>,
    /// Contracts with a version that a fork may take back or that is not in Redis yet.
    changed: FxHashMap<Name, Held>,
    /// In which blocks they changed, oldest first.
    changes: VecDeque<(u32, Name)>,
    /// All others used lately; what is not here can be loaded.
    settled: LruCache<Name, Known>,
    /// Which contracts got a version in which reversible block (also those of earlier runs).
    reversible: BTreeMap<u32, Vec<Name>>,
    /// Accounts that the chain API does not know: not asked for again.
    unknown: FxHashSet<Name>,
    /// Last common blocks of forks that may not be in Redis yet.
    forks: Vec<u32>,
    /// Contracts that were said to have no known ABI.
    said_unknown: FxHashSet<Name>,
    /// The ABI sequence that each contract's next action must have.
    sequences: FxHashMap<Name, u32>,
    counts: AbiCounts,
    /// How much of that was taken by [`History::take_counts`].
    taken: AbiCounts,
}

/// What the history counts of itself, for those who watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AbiCounts {
    /// Histories of contracts that a block needed and that were in memory.
    pub hits: u64,
    /// Those that had to be read.
    pub misses: u64,
    /// Versions learned.
    pub learned: u64,
    /// Versions missed, by the receipts' count of them.
    pub sequence_gaps: u64,
}

/// A contract in [`History::changed`].
#[derive(Default)]
struct Held {
    known: Known,
    /// How often it stands in [`History::changes`].
    changes: usize,
}

// === impl History ===

impl History {
    /// A history over a store (none: only what the blocks themselves bring), with the contracts
    /// that changed in blocks which may still be undone.
    pub fn new(
        store: Option<Store>,
        fallback: Fallback,
        overrides: Vec<Override>,
        reversible: BTreeMap<u32, Vec<Name>>,
    ) -> History {
        // Without a store nothing could be loaded again: then all stays in memory.
        let settled = match store {
            Some(_) => LruCache::new(CACHED_CONTRACTS),
            None => LruCache::unbounded(),
        };
        History {
            store,
            edits: None,
            fallback,
            overrides,
            changed: FxHashMap::default(),
            changes: VecDeque::new(),
            settled,
            reversible,
            forks: Vec::new(),
            unknown: FxHashSet::default(),
            said_unknown: FxHashSet::default(),
            sequences: FxHashMap::default(),
            counts: AbiCounts::default(),
            taken: AbiCounts::default(),
        }
    }

    /// Takes notice of changes from outside from now on, told by [`edits::follow`].
    pub fn notice(&mut self, edits: watch::Receiver<u64>) {
        self.edits = Some(edits);
    }

    /// Learns what block `num` brings, and says what its events are read with.
    pub async fn block(&mut self, num: u32, plan: &Plan) -> Result<BlockAbis, HistoryError> {
        if let Some(edits) = &mut self.edits
            && edits.has_changed().unwrap_or(false)
        {
            edits.mark_unchanged();
            self.settled.clear();
            self.unknown.clear();
            let held: Vec<Name> = self.changed.keys().copied().collect();
            self.load_again(num, &held).await?;
        }
        self.load_all(num, plan).await?;
        let mut learned = self.learn(num, plan);
        self.ask_for_missing(num, plan, &mut learned).await?;
        self.check_sequences(num, plan);
        self.counts.learned += learned.len() as u64;
        let mut contracts = FxHashMap::default();
        contracts.reserve(plan.contracts.len());
        for (&name, contract) in &plan.contracts {
            if contract.decoded {
                let in_force = match self.overriding(num, name) {
                    Some(version) => InForce::only(version),
                    None => self.known(name).map(|known| known.in_force(num)).unwrap_or_default(),
                };
                if in_force.newest().is_none() {
                    self.say_unknown(num, name);
                }
                contracts.insert(name, in_force);
            }
        }
        Ok(BlockAbis { contracts, learned })
    }

    /// Takes back what was learned above block `common`; says of which contracts.
    pub async fn fork(&mut self, common: u32) -> Result<Vec<Name>, HistoryError> {
        let lost = self.reversible.split_off(&common.saturating_add(1));
        let mut names: Vec<Name> = lost.into_values().flatten().collect();
        names.sort_unstable();
        names.dedup();
        // What is published below the fork is in Redis, what is not yet published is in memory. The lost
        // versions are in Redis until the fork is published: till then these contracts stay in memory, and
        // what Redis has above an earlier fork may be from before it.
        self.forks.push(common);
        let until = self.forks.iter().min().copied().unwrap_or(common);
        let loaded = match &mut self.store {
            Some(store) => store.load(&names, until).await?,
            None => names.iter().map(|_| Known::default()).collect(),
        };
        for (block, _) in &mut self.changes {
            *block = (*block).min(common.saturating_add(1));
        }
        for (&name, mut known) in names.iter().zip(loaded) {
            let mut held = self.take(name);
            held.undo(common);
            known.merge(held);
            self.change(common.saturating_add(1), name, known);
        }
        self.sequences.clear();
        Ok(names)
    }

    /// Tells how far blocks are published for good: what changed in them need not be kept in memory.
    pub fn settle(&mut self, block: u32) {
        while let Some(&(changed, name)) = self.changes.front()
            && changed <= block
        {
            self.changes.pop_front();
            let Some(held) = self.changed.get_mut(&name) else { continue };
            held.known.forget_below(block);
            held.changes -= 1;
            // While a later change of it is not published, or not yet undone in Redis, it cannot be loaded again.
            if held.changes == 0
                && let Some(held) = self.changed.remove(&name)
            {
                self.settled.put(name, held.known);
            }
        }
        self.reversible = self.reversible.split_off(&block.saturating_add(1));
        // A block above the common one that is irreversible stands on the new branch.
        self.forks.retain(|&common| common >= block);
    }

    /// How many ABI versions were missed, by the receipts' count of them.
    pub fn sequence_gaps(&self) -> u64 {
        self.counts.sequence_gaps
    }

    /// What was counted since the last time.
    pub fn take_counts(&mut self) -> AbiCounts {
        let (now, before) = (self.counts, std::mem::replace(&mut self.taken, self.counts));
        AbiCounts {
            hits: now.hits - before.hits,
            misses: now.misses - before.misses,
            learned: now.learned - before.learned,
            sequence_gaps: now.sequence_gaps - before.sequence_gaps,
        }
    }

    /// Says once that a contract's events are published undecoded; the first few by name.
    fn say_unknown(&mut self, num: u32, name: Name) {
        const NAMED: usize = 20;
        if self.said_unknown.len() < NAMED && self.said_unknown.insert(name) {
            warn!(
                contract = %name,
                block = num,
                "no ABI of this contract is known: its events are published undecoded (abi_unknown). Give `chain.url`, or \
                 start at an earlier block"
            );
            if self.said_unknown.len() == NAMED {
                warn!("ABIs of more contracts may be unknown: they are no longer named here");
            }
        }
    }

    fn overriding(&self, num: u32, name: Name) -> Option<Arc<Version>> {
        overriding(&self.overrides, num, name)
    }

    fn known(&mut self, name: Name) -> Option<&mut Known> {
        match self.changed.get_mut(&name) {
            Some(held) => Some(&mut held.known),
            None => self.settled.get_mut(&name),
        }
    }

    /// Compares the receipts' count of ABIs with those seen: a jump means that one is missing here.
    fn check_sequences(&mut self, num: u32, plan: &Plan) {
        for (&name, contract) in &plan.contracts {
            let Some([first, last]) = contract.abi_sequence else { continue };
            let before = self.sequences.get(&name).copied();
            let before = self.check_sequence(num, name, before, first, plan);
            let before = self.check_sequence(num, name, Some(before), last, plan);
            self.sequences.insert(name, before);
        }
        for set in &plan.setabis {
            if let Some(sequence) = self.sequences.get_mut(&set.account) {
                *sequence = sequence.saturating_add(1);
            }
        }
    }

    /// Checks one receipt: its global sequence and ABI sequence. Says what the sequence was before the block.
    fn check_sequence(
        &mut self,
        num: u32,
        name: Name,
        before: Option<u32>,
        (at, found): (u64, u32),
        plan: &Plan,
    ) -> u32 {
        // A receipt is written after its action ran, so eosio's setabi of its own ABI counts itself.
        let set =
            plan.setabis.iter().filter(|set| set.account == name && set.global_sequence <= at).count() as u32;
        let expected = before.map_or(found, |before| before.saturating_add(set));
        if found > expected {
            self.counts.sequence_gaps += u64::from(found - expected);
            warn!(contract = %name, block = num, expected, found, "an ABI was set that this history has not seen");
        }
        found.saturating_sub(set)
    }
}

/// The override for a contract's data of block `num`.
fn overriding(overrides: &[Override], num: u32, name: Name) -> Option<Arc<Version>> {
    let mut all = overrides.iter();
    all.find(|o| o.contract == name && o.blocks.contains(&num)).map(|o| o.abi.clone())
}
