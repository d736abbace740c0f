//! What data of past blocks is read with: the versions that the history in Redis holds now, and the overrides.

use std::num::NonZeroUsize;

use lru::LruCache;

use super::{InForce, Known, Override, Store, StoreError, overriding};
use crate::name::Name;

/// How many contracts' versions are kept in memory.
const CONTRACTS: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// Looks versions up for blocks in any order; quickest where the blocks of a contract rise.
pub struct PastAbis {
    store: Store,
    overrides: Vec<Override>,
    stretches: LruCache<Name, Stretch>,
}

/// A contract's versions for blocks from `from` on, up to but not including `until`, where it changes again.
struct Stretch {
    from: u32,
    until: Option<u32>,
    known: Known,
}

// === impl PastAbis ===

impl PastAbis {
    /// Over a store, with overrides before it.
    pub fn new(store: Store, overrides: Vec<Override>) -> PastAbis {
        PastAbis { store, overrides, stretches: LruCache::new(CONTRACTS) }
    }

    /// What a contract's data of block `num` is read with.
    pub async fn in_force(&mut self, contract: Name, num: u32) -> Result<InForce, StoreError> {
        if let Some(version) = overriding(&self.overrides, num, contract) {
            return Ok(InForce::only(version));
        }
        let covers = |stretch: &Stretch| stretch.from <= num && stretch.until.is_none_or(|until| num < until);
        if let Some(stretch) = self.stretches.get(&contract)
            && covers(stretch)
        {
            return Ok(stretch.known.in_force(num));
        }
        let (known, until) = self.store.load_at(contract, num).await?;
        let in_force = known.in_force(num);
        self.stretches.put(contract, Stretch { from: num, until, known });
        Ok(in_force)
    }
}
