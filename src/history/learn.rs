//! Learning ABIs from a block: from its setabi actions, from its rows of `account`, and, for
//! contracts without any history, from the chain API.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use tracing::{info, warn};

use super::{Fallback, History, HistoryError, Known, Since, StoreError, Version};
use crate::backoff::Backoff;
use crate::chain_api::RawAbi;
use crate::name::Name;
use crate::plan::Plan;

impl History {
    /// Loads what the block needs and is not in memory, all at once.
    pub(super) async fn load_all(&mut self, num: u32, plan: &Plan) -> Result<(), StoreError> {
        let decoded = plan.contracts.iter().filter(|(_, contract)| contract.decoded).map(|(name, _)| *name);
        let names = decoded
            .chain(plan.setabis.iter().map(|set| set.account))
            .chain(plan.account_rows.iter().map(|(name, _)| *name));
        let (mut missing, mut due) = (FxHashSet::default(), FxHashSet::default());
        let mut needed = 0;
        for name in names {
            needed += 1;
            match (self.changed.get(&name), self.settled.peek(&name)) {
                (Some(held), _) if held.known.is_due(num) => due.insert(name),
                (None, Some(known)) if known.is_due(num) => missing.insert(name),
                (None, None) => missing.insert(name),
                _ => false,
            };
        }
        let read = (missing.len() + due.len()) as u64;
        self.counts.misses += read;
        self.counts.hits += u64::saturating_sub(needed, read);
        if !due.is_empty() {
            self.load_again(num, &due.into_iter().collect::<Vec<_>>()).await?;
        }
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<Name> = missing.into_iter().collect();
        let loaded = match &mut self.store {
            Some(store) => store.load_before(&missing, num).await?,
            None => missing.iter().map(|_| Known::default()).collect(),
        };
        // More contracts than the cache holds must still be there for this block.
        for (name, known) in missing.into_iter().zip(loaded) {
            if self.settled.len() < self.settled.cap().get() {
                self.settled.put(name, known);
            } else {
                self.change(num, name, known);
            }
        }
        Ok(())
    }

    /// Takes what Redis says now of contracts that must stay in memory, beside what is not in Redis yet.
    pub(super) async fn load_again(&mut self, num: u32, names: &[Name]) -> Result<(), StoreError> {
        let Some(store) = &mut self.store else { return Ok(()) };
        let loaded = match self.forks.iter().min() {
            // What Redis has above it may be of the lost branch.
            Some(&common) => store.load(names, common).await?,
            None => store.load_before(names, num).await?,
        };
        for (name, mut known) in names.iter().zip(loaded) {
            if let Some(held) = self.changed.get_mut(name) {
                known.merge(std::mem::take(&mut held.known));
                held.known = known;
            }
        }
        Ok(())
    }

    /// Adds the versions that the block's actions and rows bring.
    pub(super) fn learn(&mut self, num: u32, plan: &Plan) -> Vec<(Name, Arc<Version>)> {
        let mut learned = Vec::new();
        let mut last_set: FxHashMap<Name, Arc<Version>> = FxHashMap::default();
        for set in &plan.setabis {
            let since = Since { block: num, sequence: set.global_sequence };
            let version = Arc::new(Version::new(since, set.abi.of(&plan.traces)));
            last_set.insert(set.account, version.clone());
            learned.push((set.account, version));
        }
        // The first block after a snapshot has a row for each account of the chain, most of them without ABI.
        let none = Arc::new(Version::new(Since { block: num, sequence: Since::BEFORE }, &[]));
        // A row changed, removed and made again in one block is listed more than once: the last one holds.
        let rows: FxHashMap<Name, &Range<usize>> =
            plan.account_rows.iter().map(|(name, at)| (*name, at)).collect();
        for (name, at) in rows {
            let abi = plan.deltas.get(at.clone()).unwrap_or_default();
            let known = self.known(name);
            let (newest, first) = match (last_set.get(&name), &known) {
                (Some(version), _) => (Some(version), false),
                (None, Some(known)) => (known.newest(), !known.has_block_versions()),
                (None, None) => (None, true),
            };
            if !first && newest.is_some_and(|version| version.bytes() == abi) {
                continue;
            }
            // The first that is ever heard of a contract was in force already; a change nobody saw happen holds from the block's end.
            let version = match (abi.is_empty(), first) {
                (true, true) => none.clone(),
                (_, true) => Arc::new(Version::new(Since { block: num, sequence: Since::BEFORE }, abi)),
                (_, false) => Arc::new(Version::new(Since { block: num, sequence: Since::END }, abi)),
            };
            learned.push((name, version));
        }
        for (name, version) in &learned {
            self.add(num, *name, version.clone());
        }
        learned
    }

    /// Asks the chain API for the ABI of contracts that have events and no history.
    pub(super) async fn ask_for_missing(
        &mut self,
        num: u32,
        plan: &Plan,
        learned: &mut Vec<(Name, Arc<Version>)>,
    ) -> Result<(), HistoryError> {
        if matches!(self.fallback, Fallback::Publish) {
            return Ok(());
        }
        let mut missing = Vec::new();
        for (&name, contract) in plan.contracts.iter().filter(|(_, contract)| contract.decoded) {
            if self.overriding(num, name).is_some() || self.unknown.contains(&name) {
                continue;
            }
            let first_action = contract.abi_sequence.map_or(u64::MAX, |[first, _]| first.0);
            let in_force = self.known(name).map(|known| known.in_force(num)).unwrap_or_default();
            if in_force.at(first_action).is_none() {
                missing.push(name);
            }
        }
        missing.sort_unstable();
        for name in missing {
            let version = match &self.fallback {
                Fallback::Publish => return Ok(()),
                Fallback::Fail => return Err(HistoryError::Missing { contract: name, block: num }),
                Fallback::ChainApi { .. } => self.ask_chain_api(name).await,
            };
            match version {
                Some(version) => {
                    self.add(num, name, version.clone());
                    learned.push((name, version));
                }
                None => {
                    warn!(contract = %name, block = num, "the chain API does not know this account: its events are published undecoded");
                    self.unknown.insert(name);
                }
            }
        }
        Ok(())
    }

    /// The contract's current ABI, waiting until the chain API answers.
    async fn ask_chain_api(&self, name: Name) -> Option<Arc<Version>> {
        let Fallback::ChainApi { api, backoff, waiting } = &self.fallback else { return None };
        let mut backoff = Backoff::new(backoff.clone(), None);
        loop {
            match api.raw_abi(name).await {
                Ok(answer) => {
                    if waiting.send_replace(None).is_some() {
                        info!("the chain API answers again");
                    }
                    return match answer {
                        RawAbi::Abi(bytes) => Some(Arc::new(Version::new(Since::CHAIN_API, &bytes))),
                        RawAbi::None => Some(Arc::new(Version::new(Since::CHAIN_API, &[]))),
                        RawAbi::UnknownAccount => None,
                    };
                }
                Err(error) => {
                    waiting.send_replace(Some(format!(
                        "the ABI of `{name}` is needed, which is not in the history: {error}"
                    )));
                }
            }
            tokio::time::sleep(backoff.next_wait().unwrap_or_default()).await;
        }
    }

    fn add(&mut self, num: u32, name: Name, version: Arc<Version>) {
        if version.since != Since::CHAIN_API {
            self.reversible.entry(num).or_default().push(name);
        }
        let mut known = self.take(name);
        known.add(version);
        self.change(num, name, known);
    }

    /// Takes what is known of a contract, to be given back by [`History::change`].
    pub(super) fn take(&mut self, name: Name) -> Known {
        match self.changed.get_mut(&name) {
            Some(held) => std::mem::take(&mut held.known),
            None => self.settled.pop(&name).unwrap_or_default(),
        }
    }

    /// Keeps a contract in memory until block `num` is settled.
    pub(super) fn change(&mut self, num: u32, name: Name, known: Known) {
        let held = self.changed.entry(name).or_default();
        held.known = known;
        held.changes += 1;
        self.changes.push_back((num, name));
    }
}
