//! How things went in the last minutes: a sample a second.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::metrics::{Metrics, Stage, Times};

/// So many seconds are kept.
const KEPT: usize = 300;
/// Speeds are those of so many seconds.
const LATELY: usize = 10;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Samples(VecDeque<Sample>);

/// One second.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    at: Instant,
    blocks: u64,
    events: u64,
    /// How old the newest block published was.
    pub lag: Option<Duration>,
    stages: [Times; Stage::ALL.len()],
}

// === impl Samples ===

impl Samples {
    pub(super) fn take(&mut self, metrics: &Metrics, lag: Option<Duration>) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Sample {
            at: Instant::now(),
            blocks: metrics.blocks.get(),
            events: metrics.events_total(),
            lag,
            stages: metrics.stages.times(),
        });
    }

    /// Blocks and events a second, lately.
    pub fn rates(&self) -> (f64, f64) {
        match self.lately() {
            Some((before, now)) => now.rates(before),
            None => (0.0, 0.0),
        }
    }

    /// For each second, oldest first: blocks and events in it, and the lag at its end.
    pub fn seconds(&self) -> impl Iterator<Item = (f64, f64, Option<Duration>)> {
        self.0.iter().zip(self.0.iter().skip(1)).map(|(before, now)| {
            let (blocks, events) = now.rates(before);
            (blocks, events, now.lag)
        })
    }

    /// Time in each stage lately, by [`Stage::ALL`]: how often, and how long in all, a second.
    pub fn stages(&self) -> [(f64, f64); Stage::ALL.len()] {
        let Some((before, now)) = self.lately() else { return Default::default() };
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(0.001);
        std::array::from_fn(|i| {
            let (from, to) = (before.stages[i], now.stages[i]);
            let total = to.total.saturating_sub(from.total).as_secs_f64();
            ((to.count - from.count) as f64 / seconds, total / seconds)
        })
    }

    fn lately(&self) -> Option<(&Sample, &Sample)> {
        let now = self.0.back()?;
        let before = self.0.get(self.0.len().saturating_sub(1 + LATELY))?;
        (before.at < now.at).then_some((before, now))
    }
}

// === impl Sample ===

impl Sample {
    fn rates(&self, before: &Sample) -> (f64, f64) {
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(0.001);
        let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        (rate(before.blocks, self.blocks), rate(before.events, self.events))
    }
}
