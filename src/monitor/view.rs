//! How things are, for all that show it.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::gauges::Gauges;
use super::{Monitor, Status, lock};
use crate::publish::lease;
use crate::publish::writer::Progress;
use crate::state::Report;
use crate::time::{iso8601, left, now};

/// How things are at one moment.
#[derive(Debug, Clone)]
pub struct View {
    /// What the parser is doing.
    pub status: Status,
    /// The node's endpoint in use.
    pub endpoint: Option<String>,
    /// The node's head.
    pub head: Option<u32>,
    /// The newest block published.
    pub block: Option<u32>,
    /// The time in its header, in milliseconds since 1970, if it was published in this run.
    pub block_ms: Option<u64>,
    /// The chain's last irreversible block.
    pub irreversible: Option<u32>,
    /// How old the newest block published is, less what is held back on purpose.
    pub lag: Option<Duration>,
    /// How many blocks it is behind the node's head.
    pub lag_blocks: Option<u32>,
    /// Events published in this run.
    pub events: u64,
    /// Those of them that could not be decoded.
    pub undecoded: u64,
    /// Blocks and events a second, lately.
    pub rates: (f64, f64),
    /// Until the node's head, or the last block asked for, is reached.
    pub left: Option<Duration>,
    /// The writer's.
    pub progress: Progress,
}

impl Monitor {
    /// What is committed, as of now. A copy: who holds a `borrow` of the channel and asks for another waits for ever if
    /// the writer has come between.
    pub fn published(&self) -> Progress {
        *self.progress.borrow()
    }

    /// How things are.
    pub fn view(&self) -> View {
        let progress = self.published();
        let known = |num: &AtomicU32| Some(num.load(Relaxed)).filter(|num| *num > 0);
        let (head, block) =
            (known(&self.node.head), progress.block.map(|block| block.num).or(known(&self.resumed)));
        let block_ms = Some(self.published_ms.load(Relaxed)).filter(|ms| *ms > 0);
        let rates = lock(&self.samples).rates();
        View {
            status: self.state.borrow().clone(),
            endpoint: lock(&self.node.endpoint).clone(),
            head,
            block,
            block_ms,
            irreversible: known(&self.node.irreversible),
            lag: self.lag(),
            lag_blocks: head.zip(block).map(|(head, block)| head.saturating_sub(block)),
            events: self.metrics.events_total(),
            undecoded: self.metrics.failures_total(),
            rates,
            left: self.left(head, block, rates.0),
            progress,
        }
    }

    /// What goes to Redis.
    pub fn report(&self) -> Report {
        let view = self.view();
        let (blocks_per_second, events_per_second) = view.rates;
        Report {
            state: view.status.state,
            reason: view.status.reason,
            since: iso8601(view.status.since),
            endpoint: view.endpoint,
            head: view.head,
            block: view.block,
            block_time: view.block_ms.map(|ms| iso8601(Duration::from_millis(ms))),
            last_irreversible: view.irreversible,
            lag_seconds: view.lag.map(|lag| lag.as_secs_f64()),
            lag_blocks: view.lag_blocks,
            blocks_per_second,
            events_per_second,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: lease::host_name(),
            pid: std::process::id(),
            instance: self.instance.clone(),
            started: iso8601(self.started),
            updated: iso8601(now()),
        }
    }

    /// All metrics, in Prometheus' text format.
    pub fn metrics_text(&self) -> String {
        let mut looked_up = self.looked_up();
        // Names that are no text can look alike; a series must be there once.
        looked_up.groups.dedup_by(|a, b| a.name == b.name);
        self.metrics.text(Gauges {
            view: self.view(),
            looked_up,
            trim: self.trim.borrow().clone(),
            max_entries: self.expect.max_entries,
        })
    }

    /// How old the newest block published is, less what is held back on purpose.
    pub(super) fn lag(&self) -> Option<Duration> {
        let block_ms = Some(self.published_ms.load(Relaxed)).filter(|ms| *ms > 0)?;
        let held_back = if self.expect.irreversible_only {
            self.node.head.load(Relaxed).saturating_sub(self.node.irreversible.load(Relaxed))
        } else {
            self.expect.confirmations
        };
        let age = now().saturating_sub(Duration::from_millis(block_ms));
        Some(age.saturating_sub(Duration::from_millis(500) * held_back))
    }

    /// Till the head or the last block, at this speed.
    fn left(&self, head: Option<u32>, block: Option<u32>, blocks_per_second: f64) -> Option<Duration> {
        let (head, block) = (head?, block?);
        let target = self.expect.stop_block.map_or(head, |stop| stop.min(head.max(block)));
        left(target.saturating_sub(block), blocks_per_second)
    }
}
