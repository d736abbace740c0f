//! How long blocks are in each stage of the pipeline.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::{Labels, label};

/// What blocks go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Waiting for the node's next result.
    Receive,
    /// Linking to the block before, walking the bytes, finding the ABIs.
    Prepare,
    /// In a decoding thread.
    Decode,
    /// In a queue.
    Wait,
    /// From being handed to Redis until it has confirmed.
    Publish,
}

/// The times in each.
#[derive(Debug)]
pub struct Stages([Timer; Stage::ALL.len()]);

/// How often a stage was gone through, and the time it took in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// How often.
    pub count: u64,
    /// In all.
    pub total: Duration,
}

/// The library's histogram does not tell its sum.
#[derive(Debug)]
struct Timer {
    histogram: Histogram,
    nanos: AtomicU64,
    count: AtomicU64,
}

// === impl Stage ===

impl Stage {
    /// All of them, each at the place of its number.
    pub const ALL: [Stage; 5] = [Stage::Receive, Stage::Prepare, Stage::Decode, Stage::Wait, Stage::Publish];

    /// As in the label `stage`.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Receive => "receive",
            Stage::Prepare => "prepare",
            Stage::Decode => "decode",
            Stage::Wait => "wait",
            Stage::Publish => "publish",
        }
    }
}

// === impl Stages ===

impl Stages {
    pub(super) fn new(family: Family<Labels, Histogram, fn() -> Histogram>) -> Stages {
        Stages(Stage::ALL.map(|stage| Timer {
            histogram: family.get_or_create_owned(&label("stage", stage.as_str())),
            nanos: AtomicU64::new(0),
            count: AtomicU64::new(0),
        }))
    }

    /// One took so long.
    pub fn observe(&self, stage: Stage, time: Duration) {
        let timer = &self.0[stage as usize];
        timer.histogram.observe(time.as_secs_f64());
        timer.nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        timer.count.fetch_add(1, Relaxed);
    }

    /// All so far, by [`Stage::ALL`].
    pub fn times(&self) -> [Times; Stage::ALL.len()] {
        Stage::ALL.map(|stage| {
            let timer = &self.0[stage as usize];
            Times { count: timer.count.load(Relaxed), total: Duration::from_nanos(timer.nanos.load(Relaxed)) }
        })
    }
}

/// A histogram of times, from a tenth of a millisecond to ten seconds.
pub(super) fn seconds() -> Histogram {
    Histogram::new([
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    ])
}
