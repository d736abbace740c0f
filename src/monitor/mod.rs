//! What the parser is doing and how it gets on: the pipeline tells it here, and the log, the progress line, HTTP, and the report
//! in Redis show it.

mod activity;
mod gauges;
mod judge;
mod log;
mod recent;
pub mod report;
mod samples;
mod view;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::block::Checksum;
use crate::config::{Config, WhenFull};
use crate::logging;
use crate::metrics::Metrics;
use crate::publish::lease;
use crate::publish::writer::Progress;
use crate::state::State;
use crate::status::Group;
use crate::time::now;
use crate::trim;

pub use recent::{AbiChange, ForkSeen, Recent};
pub use samples::{Sample, Samples};
pub use view::View;

use activity::{Activity, Until};

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
    said: Mutex<log::Said>,
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
            activity: Mutex::new(Activity::Other {
                state: State::Connecting,
                reason: String::new(),
                until: Until::Reading,
            }),
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

    /// Judges the state and takes samples, for ever. With `periodic`, says every ten seconds how things are while blocks are
    /// published; what is being waited for is said in any case.
    pub async fn watch(&self, periodic: bool) {
        let mut ticks = tokio::time::interval(Duration::from_millis(500));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
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
