//! What the parser is doing and how it gets on: the pipeline tells it here, and the log, the progress line, HTTP, and the report
//! in Redis show it.

mod judge;
mod recent;
pub mod report;
mod samples;
mod tell;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::block::Checksum;
use crate::config::{Config, WhenFull};
use crate::logging;
use crate::metrics::{GroupValues, Metrics, Stage, Values};
use crate::pipeline::Ready;
use crate::publish::lease;
use crate::publish::unit::Committed;
use crate::publish::writer::Progress;
use crate::state::{Report, State};
use crate::status::Group;
use crate::time::{iso8601, now};
use crate::trim;

pub use judge::LIVE_LAG;
pub use recent::{AbiChange, ForkSeen, Recent};
pub use samples::{Sample, Samples};

/// See the module's documentation. All of it is cheap enough to be called once a block.
#[derive(Debug)]
pub struct Monitor {
    /// Counters and histograms.
    pub metrics: Metrics,
    /// What the writer has committed.
    pub progress: watch::Sender<Progress>,
    /// What trimming does.
    pub trim: watch::Sender<trim::Status>,
    /// Why the chain API is being waited for, while it is.
    pub chain_api: watch::Sender<Option<String>>,
    expect: Expect,
    instance: String,
    started: Duration,
    chain: OnceLock<Checksum>,
    activity: Mutex<Activity>,
    state: watch::Sender<Status>,
    said: Mutex<tell::Said>,
    node: Node,
    /// The time of the newest block published, in milliseconds since 1970; 0 before the first.
    published_ms: AtomicU64,
    /// The newest block published in an earlier run; 0 for none.
    resumed: AtomicU32,
    /// Whether this process holds the lease.
    leading: AtomicBool,
    /// Whether it ever did.
    led: AtomicBool,
    recent: Mutex<Recent>,
    samples: Mutex<Samples>,
    looked_up: Mutex<LookedUp>,
}

/// What the configuration lets expect.
#[derive(Debug, Clone, Default)]
struct Expect {
    /// Blocks held back.
    confirmations: u32,
    irreversible_only: bool,
    /// The most entries the stream may have.
    max_entries: Option<u64>,
    pause_at: Option<u64>,
    stop_block: Option<u32>,
}

/// What the pipeline says that it does.
#[derive(Debug, Clone)]
enum Activity {
    /// Reading, decoding, publishing: how that goes is judged by the numbers.
    Reading,
    /// What it says, and why.
    Other(State, String),
    /// The same, until a block is taken.
    Stuck(State, String),
}

/// What the parser is doing, and since when.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// In a word.
    pub state: State,
    /// Why; can be empty.
    pub reason: String,
    /// Since when, since 1970.
    pub since: Duration,
}

/// What is known of the node.
#[derive(Debug)]
struct Node {
    head: AtomicU32,
    irreversible: AtomicU32,
    /// The newest block taken from it, in this run.
    taken: AtomicU32,
    /// When it last sent something, in milliseconds after `clock`.
    received: AtomicU64,
    clock: Instant,
    endpoint: Mutex<Option<String>>,
    connected_before: AtomicBool,
}

/// What is read from Redis now and then.
#[derive(Debug, Clone, Default)]
pub struct LookedUp {
    /// The consumer groups.
    pub groups: Vec<Group>,
    /// Entries in the stream of dead letters.
    pub dead_letters: Option<u64>,
    /// Redis does not let the groups be looked at, which was said.
    refused: bool,
}

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

// === impl Monitor ===

impl Default for Monitor {
    fn default() -> Monitor {
        Monitor::expecting(Expect::default())
    }
}

impl Monitor {
    /// For a parser with that configuration.
    pub fn new(config: &Config) -> Monitor {
        let max_entries = config.xtrim.max_entries.filter(|_| config.xtrim.enabled);
        Monitor::expecting(Expect {
            confirmations: config.confirmations,
            irreversible_only: config.irreversible_only,
            max_entries,
            pause_at: max_entries.filter(|_| config.xtrim.when_full == WhenFull::Pause),
            stop_block: config.stop_block,
        })
    }

    fn expecting(expect: Expect) -> Monitor {
        let started = now();
        let status = Status { state: State::Connecting, reason: String::new(), since: started };
        Monitor {
            metrics: Metrics::new(started),
            progress: watch::Sender::new(Progress::default()),
            trim: watch::Sender::new(trim::Status::default()),
            chain_api: watch::Sender::new(None),
            expect,
            instance: lease::token(),
            started,
            chain: OnceLock::new(),
            activity: Mutex::new(Activity::Other(State::Connecting, String::new())),
            state: watch::Sender::new(status),
            said: Mutex::default(),
            node: Node {
                head: AtomicU32::new(0),
                irreversible: AtomicU32::new(0),
                taken: AtomicU32::new(0),
                received: AtomicU64::new(0),
                clock: Instant::now(),
                endpoint: Mutex::new(None),
                connected_before: AtomicBool::new(false),
            },
            published_ms: AtomicU64::new(0),
            resumed: AtomicU32::new(0),
            leading: AtomicBool::new(false),
            led: AtomicBool::new(false),
            recent: Mutex::default(),
            samples: Mutex::default(),
            looked_up: Mutex::default(),
        }
    }

    // What the pipeline tells.

    /// It does that and nothing else, for that reason.
    pub fn set(&self, state: State, reason: impl Into<String>) {
        self.begin(Activity::Other(state, reason.into()));
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
        self.begin(Activity::Stuck(state, reason.into()));
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

    /// Nothing but the end follows on stopping, and being stuck ends with a block.
    fn begin(&self, next: Activity) {
        {
            let mut activity = lock(&self.activity);
            let stays = match (&*activity, &next) {
                (Activity::Other(State::Stopping, _), Activity::Other(next, _)) => *next != State::Failed,
                (Activity::Other(State::Stopping, _), _) | (Activity::Stuck(..), Activity::Reading) => true,
                _ => false,
            };
            if !stays {
                *activity = next;
            }
        }
        self.update();
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
        let mut activity = lock(&self.activity);
        if matches!(*activity, Activity::Stuck(..)) {
            *activity = Activity::Reading;
        }
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
                self.metrics.processing.observe(now.duration_since(timing.received).as_secs_f64());
            }
            if tally.block_time_ms > 0 {
                self.published_ms.store(tally.block_time_ms, Relaxed);
            }
            if !tally.letters.is_empty() {
                lock(&self.recent).letters(&tally.letters);
            }
        }
    }

    // What is shown.

    /// What the parser is doing; changes with the word.
    pub fn state(&self) -> watch::Receiver<Status> {
        self.state.subscribe()
    }

    /// The token of this process.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The last block asked for.
    pub fn stop_block(&self) -> Option<u32> {
        self.expect.stop_block
    }

    /// How things are.
    pub fn view(&self) -> View {
        let progress = self.progress.borrow().clone();
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

    /// What Redis said last.
    pub fn looked_up(&self) -> LookedUp {
        lock(&self.looked_up).clone()
    }

    /// What happened lately.
    pub fn recent(&self) -> MutexGuard<'_, Recent> {
        lock(&self.recent)
    }

    /// How things went in the last minutes.
    pub fn samples(&self) -> MutexGuard<'_, Samples> {
        lock(&self.samples)
    }

    /// The most entries that the stream may have.
    pub fn max_entries(&self) -> Option<u64> {
        self.expect.max_entries
    }

    /// When this process was started, since 1970.
    pub fn started(&self) -> Duration {
        self.started
    }

    /// The chain that is published, once known.
    pub fn chain_id(&self) -> Option<Checksum> {
        self.chain.get().copied()
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
        let (view, mut looked_up) = (self.view(), self.looked_up());
        // Names that are no text can look alike; a series must be there once.
        looked_up.groups.dedup_by(|a, b| a.name == b.name);
        let trim = self.trim.borrow().clone();
        self.metrics.text(Values {
            state: Some(view.status.state),
            endpoint: view.endpoint,
            lag_seconds: view.lag.map(|lag| lag.as_secs_f64()),
            lag_blocks: view.lag_blocks,
            head: view.head,
            published: view.block,
            published_ms: view.block_ms,
            irreversible: view.irreversible,
            dead_letters: looked_up.dead_letters,
            stream_length: (view.progress.transactions > 0).then_some(view.progress.stream_length),
            stream_max: self.expect.max_entries.unwrap_or(0),
            trimmed: trim.trimmed,
            forced: trim.forced,
            groups: looked_up
                .groups
                .into_iter()
                .map(|group| GroupValues {
                    name: group.name,
                    lag_blocks: group.lag_blocks,
                    pending: group.pending,
                })
                .collect(),
        })
    }

    /// Judges the state and takes samples, for ever. With `periodic`, says every ten seconds how things are while blocks are
    /// published; what is being waited for is said in any case.
    pub async fn watch(&self, periodic: bool) {
        let mut ticks = tokio::time::interval(Duration::from_millis(500));
        let mut count = 0u64;
        loop {
            ticks.tick().await;
            self.update();
            self.say_again(periodic);
            logging::now_and_then();
            if count.is_multiple_of(2) {
                lock(&self.samples).take(&self.metrics, self.lag());
            }
            count += 1;
        }
    }

    /// How old the newest block published is, less what is held back on purpose.
    fn lag(&self) -> Option<Duration> {
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
        let missing = target.saturating_sub(block);
        // At the head there are two blocks a second; then nothing is left to wait for.
        (missing > 10 && blocks_per_second > 2.0)
            .then(|| Duration::from_secs_f64(f64::from(missing) / blocks_per_second))
    }
}

// === impl Node ===

impl Node {
    fn touch(&self) {
        let passed = u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.received.store(passed, Relaxed);
    }

    /// How long it has sent nothing.
    fn silent(&self) -> Duration {
        self.clock.elapsed().saturating_sub(Duration::from_millis(self.received.load(Relaxed)))
    }
}

/// What is inside stands alone: a thread that panicked with it cannot have left it half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
