//! What is counted and measured for Prometheus. `docs/metrics.md` lists it.
//!
//! All of it is updated once a block, a part of one, or a transaction, never once an event. What is merely looked up when
//! somebody asks is written with [`encode`].

pub mod encode;
mod process;
mod timer;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text::encode as encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use crate::event::{Counts, Kind, Reason};
use crate::history::AbiCounts;
use crate::publish::checks::{Check, Finding};

pub use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;
pub use timer::{Stage, Stages, Times};

use process::Process;
use timer::seconds;

/// A set of label names and values.
type Labels = Vec<(&'static str, String)>;

/// All counters and histograms.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    started: Duration,
    /// Blocks published whole.
    pub blocks: Counter,
    /// Events published, by [`Kind::ALL`].
    pub events: [Counter; Kind::ALL.len()],
    /// Bytes of the node's results.
    pub received_bytes: Counter,
    /// Bytes of the commands committed in Redis.
    pub published_bytes: Counter,
    /// Forks.
    pub forks: Counter,
    /// Blocks that they took back.
    pub fork_removed: Counter,
    /// Results without a block.
    pub no_block: Counter,
    /// Events published undecoded, by [`Reason::ALL`].
    pub failures: [Counter; Reason::ALL.len()],
    /// Dead letters, by [`Reason::ALL`].
    pub letters: [Counter; Reason::ALL.len()],
    abi: [Counter; 4],
    /// Connections to the node after the first one.
    pub node_reconnects: Counter,
    /// Times that publishing went on from the checkpoint after Redis failed.
    pub redis_reconnects: Counter,
    /// Times in the stages.
    pub stages: Stages,
    /// From a block's reception until Redis has confirmed it.
    pub processing: Histogram,
    /// From a transaction's EXEC until its reply.
    pub transactions: Histogram,
    /// Parts of blocks on their way to the decoding threads and in them.
    pub decoding: Queue,
    /// Those decoded, on their way to the writer.
    pub decoded: Queue,
    /// How Redis is set up, by [`Check::ALL`].
    checks: [Gauge; Check::ALL.len()],
}

/// How many are somewhere, and how many each that joined them found there.
#[derive(Debug)]
pub struct Queue {
    now: Gauge,
    seen: Histogram,
}

/// One of a queue, until dropped.
#[derive(Debug)]
pub struct Waiting(Gauge);

// === impl Metrics ===

impl Metrics {
    /// All at 0, for a process started then (since 1970).
    pub fn new(started: Duration) -> Metrics {
        let mut registry = Registry::with_prefix("parser2");
        let r = &mut registry;
        let reasons = Reason::ALL.map(Reason::as_str);
        let depths: Family<Labels, Histogram, fn() -> Histogram> = register(
            r,
            "queue_depth",
            "Parts of blocks waiting for the stage, seen by each that joins them",
            Family::new_with_constructor(depth),
        );
        let queue =
            |now, stage: &str| Queue { now, seen: depths.get_or_create_owned(&label("stage", stage)) };
        let in_pool =
            gauge(r, "worker_pool_queue_depth", "Parts of blocks waiting for a decoding thread, or in one");
        Metrics {
            started,
            blocks: counter(r, "blocks_processed", "Blocks published whole"),
            events: by(r, "events_published", "Events published", "kind", Kind::ALL.map(Kind::as_str)),
            received_bytes: counter(r, "received_bytes", "Bytes of the node's results"),
            published_bytes: counter(r, "published_bytes", "Bytes of the commands committed in Redis"),
            forks: counter(r, "forks", "Forks"),
            fork_removed: counter(r, "fork_removed_blocks", "Blocks that forks took back"),
            no_block: counter(r, "no_block_results", "Results of the node without a block"),
            failures: by(r, "decode_failures", "Events published undecoded", "reason", reasons),
            letters: by(r, "dead_letters", "Events added to the dead letters", "reason", reasons),
            abi: [
                counter(r, "abi_cache_hits", "ABI histories that were needed and in memory"),
                counter(r, "abi_cache_misses", "ABI histories that had to be read"),
                counter(r, "abi_versions_learned", "ABI versions learned"),
                counter(r, "abi_sequence_gaps", "ABI versions that receipts tell of and the history lacks"),
            ],
            node_reconnects: counter(r, "node_reconnects", "Connections to the node after the first one"),
            redis_reconnects: counter(
                r,
                "redis_reconnects",
                "Times that publishing went on from the checkpoint after Redis failed",
            ),
            stages: Stages::new(register(
                r,
                "stage_duration_seconds",
                "Time of each block, or part of one, in a stage",
                Family::new_with_constructor(seconds as fn() -> Histogram),
            )),
            processing: register(
                r,
                "block_processing_duration_seconds",
                "From a block's reception until Redis has confirmed its last entry",
                seconds(),
            ),
            transactions: register(
                r,
                "redis_transaction_duration_seconds",
                "From a transaction's EXEC until its reply",
                seconds(),
            ),
            decoding: queue(in_pool, "decode"),
            decoded: queue(Gauge::default(), "publish"),
            checks: by(
                r,
                "redis_check",
                "How Redis is set up: 0 good, 1 to be looked at, 2 data will be lost",
                "check",
                Check::ALL.map(Check::name),
            ),
            registry,
        }
    }

    /// What is known of a unit's events once they are committed.
    pub fn add_events(&self, counts: &Counts) {
        let pairs = self.events.iter().zip(counts.kinds);
        let pairs = pairs.chain(self.failures.iter().zip(counts.failures));
        for (counter, count) in pairs.chain(self.letters.iter().zip(counts.letters)) {
            if count > 0 {
                counter.inc_by(count);
            }
        }
    }

    /// What the ABI history has counted since the last time.
    pub fn add_abi(&self, counts: &AbiCounts) {
        let counts = [counts.hits, counts.misses, counts.learned, counts.sequence_gaps];
        for (counter, count) in self.abi.iter().zip(counts) {
            counter.inc_by(count);
        }
    }

    /// How Redis is set up, as it was looked at last.
    pub fn set_checks(&self, findings: &[Finding]) {
        for (check, gauge) in Check::ALL.iter().zip(&self.checks) {
            let finding = findings.iter().find(|finding| finding.check == *check);
            gauge.set(finding.map_or(0, |finding| if finding.loses_data { 2 } else { 1 }));
        }
    }

    /// Events published.
    pub fn events_total(&self) -> u64 {
        self.events.iter().map(|counter| counter.get()).sum()
    }

    /// Events published undecoded.
    pub fn failures_total(&self) -> u64 {
        self.failures.iter().map(|counter| counter.get()).sum()
    }

    /// How many parts of blocks are waiting for a decoding thread or in one, and how many for Redis.
    pub fn depths(&self) -> (u64, u64) {
        let now = |queue: &Queue| u64::try_from(queue.now.get()).unwrap_or(0);
        (now(&self.decoding), now(&self.decoded))
    }

    /// All of it, with what is looked up now, in Prometheus' text format.
    pub fn text(&self, looked_up: impl Collector) -> String {
        let mut now = Registry::default();
        now.register_collector(Box::new(looked_up));
        now.register_collector(Box::new(Process { started: self.started }));
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode_registry(&mut text, &self.registry);
        let _ = encode_registry(&mut text, &now);
        text
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new(crate::time::now())
    }
}

// === impl Queue ===

impl Queue {
    /// One more waits, until what is returned is dropped.
    pub fn join(&self) -> Waiting {
        let before = self.now.inc();
        self.seen.observe(before.max(0) as f64);
        Waiting(self.now.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn register<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    register(registry, name, help, Counter::<u64, AtomicU64>::default())
}

fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    register(registry, name, help, Gauge::default())
}

/// A metric for each value of a label, all shown from the beginning.
fn by<M, const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    key: &'static str,
    values: [&str; N],
) -> [M; N]
where
    M: Default + Clone,
    Family<Labels, M>: Metric,
{
    let family: Family<Labels, M> = register(registry, name, help, Family::default());
    values.map(|value| family.get_or_create_owned(&label(key, value)))
}

fn label(key: &'static str, value: &str) -> Labels {
    vec![(key, value.to_owned())]
}

fn depth() -> Histogram {
    Histogram::new([0., 1., 2., 4., 8., 16., 32., 64., 128., 256.])
}
