//! What the pipeline tells.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tracing::info;

use super::{Monitor, lock};
use crate::block::Checksum;
use crate::metrics::Stage;
use crate::pipeline::Ready;
use crate::publish::unit::Committed;
use crate::state::State;

/// What the pipeline says that it does.
#[derive(Debug, Clone)]
pub(super) enum Activity {
    /// Reading, decoding, publishing: how that goes is judged by the numbers.
    Reading,
    /// Something else.
    Other {
        /// In a word.
        state: State,
        /// Why.
        reason: String,
        /// What ends it, beside something else that is said.
        until: Until,
    },
}

/// What ends an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// That blocks are read.
    Reading,
    /// That a block is taken.
    Taken,
    /// That a block is published.
    Published,
}

impl Monitor {
    /// It does that and nothing else, for that reason.
    pub fn set(&self, state: State, reason: impl Into<String>) {
        self.other(state, reason, Until::Reading);
    }

    /// It was told to stop.
    pub fn stopping(&self) {
        self.set(State::Stopping, "what is in flight is being finished");
    }

    /// It has ended with an error.
    pub fn failed(&self, error: String) {
        self.set(State::Failed, error);
    }

    /// It is stuck with that, for that reason: reading again does not mend it before a block is taken.
    pub fn stuck(&self, state: State, reason: impl Into<String>) {
        self.other(state, reason, Until::Taken);
    }

    /// Redis has no room for a block, for that reason.
    pub fn refused(&self, reason: String) {
        self.other(State::WaitingForRedis, reason, Until::Published);
    }

    /// Redis takes blocks again.
    pub fn redis_is_back(&self) {
        self.metrics.redis_reconnects.inc();
        info!("Redis is back");
    }

    /// It reads blocks from that endpoint.
    pub fn reading(&self, endpoint: String) {
        *lock(&self.node.endpoint) = Some(endpoint);
        if self.node.connected_before.swap(true, Relaxed) {
            self.metrics.node_reconnects.inc();
        }
        self.node.touch();
        // What was taken from another connection and is lost comes again.
        self.node.taken.store(0, Relaxed);
        self.begin(Activity::Reading);
    }

    fn other(&self, state: State, reason: impl Into<String>, until: Until) {
        self.begin(Activity::Other { state, reason: reason.into(), until });
    }

    /// Nothing but the end follows on stopping.
    fn begin(&self, next: Activity) {
        {
            let mut activity = lock(&self.activity);
            let stays = match (&*activity, &next) {
                (Activity::Other { state: State::Stopping, .. }, next) => {
                    !matches!(next, Activity::Other { state: State::Failed, .. })
                }
                (Activity::Other { until, .. }, Activity::Reading) => *until != Until::Reading,
                _ => false,
            };
            if !stays {
                *activity = next;
            }
        }
        self.update();
    }

    /// Ends what lasts until then; says whether something did.
    fn over(&self, now: Until) -> bool {
        let mut activity = lock(&self.activity);
        let over = matches!(&*activity, Activity::Other { until, .. } if *until == now);
        if over {
            *activity = Activity::Reading;
        }
        over
    }

    /// The connection to the node is lost, or given up.
    pub fn disconnected(&self, reason: impl Into<String>) {
        *lock(&self.node.endpoint) = None;
        self.set(State::Connecting, reason);
    }

    /// It goes on behind that block, which was published before.
    pub fn resumed(&self, block: u32) {
        self.resumed.store(block, Relaxed);
    }

    /// The chain that is published.
    pub fn chain(&self, chain: Checksum) {
        // It stays the same.
        let _ = self.chain.set(chain);
    }

    /// It holds the lease, or does not.
    pub fn leading(&self, leading: bool) {
        self.leading.store(leading, Relaxed);
        self.led.fetch_or(leading, Relaxed);
    }

    /// The node's head, by its status.
    pub fn head(&self, num: u32, irreversible: u32) {
        self.node.head.store(num, Relaxed);
        self.node.irreversible.store(irreversible, Relaxed);
    }

    /// A result came, after waiting so long for it.
    pub fn received(&self, bytes: usize, head: u32, irreversible: u32, waited: Duration) {
        self.metrics.received_bytes.inc_by(bytes as u64);
        self.metrics.stages.observe(Stage::Receive, waited);
        self.head(head, irreversible);
        self.node.touch();
    }

    /// A block is ready to be decoded, which took so long.
    pub fn taken(&self, ready: &Ready, took: Duration) {
        self.metrics.stages.observe(Stage::Prepare, took);
        self.node.taken.store(ready.position.num, Relaxed);
        if let Some((fork, _)) = &ready.fork {
            self.metrics.forks.inc();
            self.metrics.fork_removed.inc_by(fork.removed.len() as u64);
        }
        lock(&self.recent).block(ready);
        self.over(Until::Taken);
    }

    /// Redis has a transaction.
    pub fn committed(&self, done: &Committed) {
        let now = Instant::now();
        if let Some(executed) = done.executed {
            self.metrics.transactions.observe(now.duration_since(executed).as_secs_f64());
        }
        self.metrics.blocks.inc_by(done.blocks);
        self.metrics.published_bytes.inc_by(done.bytes as u64);
        for (tally, handed_over) in &done.units {
            self.metrics.add_events(&tally.counts);
            self.metrics.stages.observe(Stage::Publish, now.duration_since(*handed_over));
            if let Some(timing) = tally.timing {
                let waited = handed_over.duration_since(timing.queued).saturating_sub(timing.decoding);
                self.metrics.stages.observe(Stage::Decode, timing.decoding);
                self.metrics.stages.observe(Stage::Wait, waited);
            }
            if let Some(received) = tally.received {
                self.metrics.processing.observe(now.duration_since(received).as_secs_f64());
            }
            if tally.block_time_ms > 0 {
                self.published_ms.store(tally.block_time_ms, Relaxed);
            }
            if !tally.letters.is_empty() {
                lock(&self.recent).letters(&tally.letters);
            }
        }
        if done.blocks > 0 && self.over(Until::Published) {
            self.redis_is_back();
        }
    }
}
