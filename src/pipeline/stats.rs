//! Numbers that the progress line and the log show.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::intake::Ready;

/// Kept by the pipeline, read by whoever shows them.
#[derive(Debug, Default)]
pub struct Stats {
    head: AtomicU32,
    published: AtomicU32,
    entries: AtomicU64,
    /// Time of the newest block taken, in milliseconds since 1970.
    time_ms: AtomicU64,
    no_block: AtomicU64,
    forks: AtomicU64,
    undecoded: AtomicU64,
}

/// The numbers of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// The node's head.
    pub head: u32,
    /// The newest block published in this run.
    pub block: u32,
    /// Entries published in this run.
    pub entries: u64,
    /// Time of the newest block taken, in milliseconds since 1970.
    pub time_ms: u64,
    /// Results that held no block.
    pub no_block: u64,
    /// Forks seen.
    pub forks: u64,
    /// Events that could not be decoded.
    pub undecoded: u64,
}

// === impl Stats ===

impl Stats {
    pub(super) fn head(&self, num: u32) {
        self.head.store(num, Relaxed);
    }

    pub(super) fn no_block(&self) {
        self.no_block.fetch_add(1, Relaxed);
    }

    pub(super) fn taken(&self, ready: &Ready) {
        self.time_ms.store(ready.block.plan.header.time_ms(), Relaxed);
        self.forks.fetch_add(ready.fork.is_some().into(), Relaxed);
    }

    pub(super) fn published(&self, block: u32, entries: u64) {
        self.published.store(block, Relaxed);
        self.entries.store(entries, Relaxed);
    }

    pub(super) fn undecoded(&self, count: u64) {
        self.undecoded.fetch_add(count, Relaxed);
    }

    /// The numbers now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            head: self.head.load(Relaxed),
            block: self.published.load(Relaxed),
            entries: self.entries.load(Relaxed),
            time_ms: self.time_ms.load(Relaxed),
            no_block: self.no_block.load(Relaxed),
            forks: self.forks.load(Relaxed),
            undecoded: self.undecoded.load(Relaxed),
        }
    }
}
