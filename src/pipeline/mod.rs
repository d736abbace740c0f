//! The pipeline: node → [`session`] → [`intake`] → [`dispatch`] (decoding threads) → the writer.
//!
//! All that it knows lies in Redis. After any failure of Redis it begins anew from the checkpoint; a
//! node that goes away is connected again while the writer stays.

mod alone;
mod dispatch;
mod ended;
mod hold;
mod intake;
mod replays;
mod resume;
mod session;
mod settings;
mod waiting;

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::block::{Checksum, Position};
use crate::chain::Chain;
use crate::config::Config;
use crate::history::{History, Store, edits};
use crate::keys::Keys;
use crate::monitor::Monitor;
use crate::publish::writer::{self, Progress};
use crate::publish::{Buffers, Checkpoint, Failure, Lease, Met, Server, StreamIds, Unit, checks, startup};
use crate::ship::connection::Connection;
use crate::ship::node::{ExpectedChain, Node};
use crate::shutdown::Shutdown;
use crate::state::State;
use crate::trim;
use dispatch::{Decoding, Dispatch, Shared, forward};
use ended::{TurnError, writer_ended};
use hold::Hold;
use replays::Replays;
use session::{Feed, FeedError};
use settings::Settings;
use waiting::Waiting;

pub use alone::{Alone, Server as ReplayServer};
pub use ended::RunError;
pub use intake::{Intake, IntakeError, Ready};
pub use settings::{node_options, overrides, selection, server, style};

/// Decoded units waiting for the writer; their bytes are bounded elsewhere.
const QUEUE: usize = 256;

/// How long a stop waits for what is in flight.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// How a turn ended that did not fail.
enum Turn {
    /// The last block is published, or the program was told to stop.
    Done,
}

/// Checks what the configuration alone can be checked for.
pub fn check(config: &Config) -> Result<(), RunError> {
    Settings::new(config).map(drop)
}

/// Reads, decodes and publishes until the last block of the configuration, or until told to stop.
pub async fn run(config: &Config, monitor: Arc<Monitor>, shutdown: &Shutdown) -> Result<(), RunError> {
    let limit = async {
        shutdown.requested().await;
        monitor.stopping();
        tokio::time::sleep(STOP_LIMIT).await;
    };
    tokio::select! {
        ended = pipeline(config, monitor.clone(), shutdown) => ended,
        () = limit => {
            give_up_lease(config, &monitor).await;
            warn!("not all that was in flight could be published: the next start goes on from the checkpoint");
            Ok(())
        }
    }
}

/// For another parser not to wait until it runs out.
async fn give_up_lease(config: &Config, monitor: &Monitor) {
    let (Some(chain), Ok(server)) = (monitor.chain_id(), server(config)) else { return };
    let keys = Keys::new(&config.redis.namespace, &chain, &config.redis.key_prefix);
    // Where that fails it runs out by itself.
    let _ = Lease::with_token(&keys, monitor.instance().to_owned()).release(&server).await;
}

async fn pipeline(config: &Config, monitor: Arc<Monitor>, shutdown: &Shutdown) -> Result<(), RunError> {
    let settings = Settings::new(config)?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(config.worker_pool.max_threads)
        .thread_name(|i| format!("decode-{i}"))
        .build()
        .map_err(|error| RunError::Failed(format!("the decoding threads cannot be started: {error}")))?;
    let mut redis = Waiting::new(config, monitor.clone());
    let mut node = settings.node();
    let listener = monitor.clone();
    node.tell(move |faults| listener.set(State::WaitingForNode, faults));
    monitor.set(State::Connecting, "");
    if config.chain.id.is_none() {
        // With several endpoints one of them may be on another chain than what was published.
        let known = tokio::select! {
            known = redis.known_chain(config, &settings.server) => known?,
            () = shutdown.requested() => return Ok(()),
        };
        known.into_iter().for_each(|chain| node.expect_chain(chain));
    }
    // The chain's id is part of the keys, so the node comes first.
    let first = tokio::select! {
        connected = node.connect() => connected?,
        () = shutdown.requested() => return Ok(()),
    };
    let chain_id = first.chain_id();
    monitor.chain(chain_id);
    node.expect_chain(ExpectedChain::published(chain_id));
    let keys = Keys::new(&config.redis.namespace, &chain_id, &config.redis.key_prefix);
    let mut pipeline = Pipeline {
        config,
        lease: Lease::with_token(&keys, monitor.instance().to_owned()),
        keys,
        chain_id,
        node,
        settings,
        pool: Arc::new(pool),
        progress: monitor.progress.clone(),
        found: None,
        monitor,
        said: checks::Said::default(),
    };
    let mut first = Some(first);
    loop {
        let units = pipeline.monitor.published().units;
        let error = match pipeline.turn(first.take(), &mut redis, shutdown).await {
            Ok(Turn::Done) => return Ok(()),
            Err(error) => error,
        };
        if pipeline.monitor.published().units > units {
            redis.backoff.reset();
        }
        let failure = match error {
            TurnError::Redis(failure) | TurnError::Feed(FeedError::Redis(failure)) => failure,
            TurnError::Feed(error) => return Err(error.into()),
        };
        pipeline.node.given_up();
        tokio::select! {
            waited = redis.wait(failure) => waited?,
            () = shutdown.requested() => return Ok(()),
        }
    }
}

struct Pipeline<'a> {
    config: &'a Config,
    settings: Settings,
    chain_id: Checksum,
    keys: Keys,
    lease: Lease,
    node: Node,
    pool: Arc<rayon::ThreadPool>,
    monitor: Arc<Monitor>,
    progress: watch::Sender<Progress>,
    /// The newest checkpoint found in Redis.
    found: Option<Position>,
    /// What was said about how Redis is set up.
    said: checks::Said,
}

impl Pipeline<'_> {
    /// From the checkpoint until the last block, a stop, or a failure of Redis.
    async fn turn(
        &mut self,
        first: Option<Connection>,
        redis: &mut Waiting,
        shutdown: &Shutdown,
    ) -> Result<Turn, TurnError> {
        let server = self.settings.server.clone();
        let monitor = self.monitor.clone();
        let begun = tokio::select! {
            begun = self.begin(&server) => begun?,
            () = shutdown.requested() => return Ok(Turn::Done),
        };
        let (checkpoint, connection) = begun;
        let checked = self.check(&checkpoint, &server).await;
        self.found = checkpoint.block.or(self.found);
        if let Err(failure) = checked {
            let _ = self.lease.release(&server).await;
            return Err(TurnError::Redis(failure));
        }
        redis.over();
        monitor.leading(true);
        let ended = self.publish(first, checkpoint, connection, &server, shutdown).await;
        monitor.leading(false);
        let again = match &ended {
            Err(TurnError::Redis(failure) | TurnError::Feed(FeedError::Redis(failure))) => {
                failure.is_transient()
            }
            _ => false,
        };
        if !again {
            // Where that fails it runs out by itself.
            let _ = self.lease.release(&server).await;
        }
        ended
    }

    /// Looks how Redis is set up, and at what lies in it; takes the lease.
    async fn begin(
        &mut self,
        server: &Server,
    ) -> Result<(Checkpoint, crate::publish::connection::Connection), Failure> {
        let mut control = server.connect_control().await?;
        let found = checks::look(&mut control, &self.keys, self.settings.stream_cap).await?;
        self.said.say(&found);
        self.monitor.metrics.set_checks(&found);
        let (mut known, mut standing_by) = (self.known(), false);
        let met = |met: Met<'_>| match met {
            Met::Holder(holder) => {
                standing_by = true;
                self.monitor.set(State::Standby, format!("{holder} holds the lease"));
                Ok(())
            }
            Met::Checkpoint(checkpoint) => {
                // Without another parser it is looked at once the lease is held.
                if standing_by {
                    resume::is_kept(known, checkpoint)?;
                }
                known = checkpoint.block.or(known);
                Ok(())
            }
        };
        let begun =
            startup::begin(server, &self.keys, &self.chain_id, self.settings.stream_ids, &self.lease, met)
                .await;
        self.found = known;
        begun
    }

    async fn publish(
        &mut self,
        first: Option<Connection>,
        checkpoint: Checkpoint,
        connection: crate::publish::connection::Connection,
        server: &Server,
        shutdown: &Shutdown,
    ) -> Result<Turn, TurnError> {
        let (units, mut received) = mpsc::channel::<Unit>(QUEUE);
        let (queue, decoding) = mpsc::channel::<Decoding>(QUEUE);
        let progress = self.progress.clone();
        let writing = {
            let settings = self.settings.writer(&self.keys, &self.lease, self.monitor.clone());
            let (checkpoint, progress) = (checkpoint.clone(), progress.clone());
            async move { writer::run(connection, &settings, &checkpoint, &mut received, &progress).await }
        };
        let mut writing = Task::spawn(writing);
        let _forwarding = Task::spawn(forward(decoding, units));
        let _trimming = self.trimming(server).map(Task::spawn);
        let (edits, noticed) = watch::channel(0);
        let _noticing = Task::spawn(edits::follow(server.clone(), self.keys.clone(), edits));
        let asked = Arc::new(Notify::new());
        let _looking = Task::spawn(replays::look(server.clone(), self.keys.clone(), asked.clone()));

        if let Some(block) = checkpoint.block {
            self.monitor.resumed(block.num);
            match self.settings.range.start {
                // Said at the start only: later on the checkpoint is this run's own.
                Some(start) if first.is_some() => info!(
                    block = block.num, id = %block.id, start_block = %start,
                    "going on behind the checkpoint: it goes before the start block asked for"
                ),
                _ if self.monitor.is_stuck() => {}
                _ => info!(block = block.num, id = %block.id, "going on behind the checkpoint"),
            }
            let complete = if checkpoint.part.is_some() { block.num.saturating_sub(1) } else { block.num };
            if self.config.stop_block.is_some_and(|stop| complete >= stop) {
                info!(block = complete, "the last block asked for is published already");
                return Ok(Turn::Done);
            }
        }
        let mut feed = tokio::select! {
            feed = self.feed(&checkpoint, server, queue, noticed, asked) => feed?,
            ended = &mut writing.0 => return Err(TurnError::Redis(writer_ended(ended))),
            () = shutdown.requested() => return Ok(Turn::Done),
        };
        let fed = tokio::select! {
            biased;
            ended = &mut writing.0 => return Err(TurnError::Redis(writer_ended(ended))),
            fed = feed.run(first) => Some(fed),
            () = shutdown.requested() => None,
        };
        // Without its sender the queue ends, and with it the writer when all is committed.
        let handed_on = feed.blocks_before + feed.dispatch.blocks();
        drop(feed);
        match fed {
            Some(Err(FeedError::WriterGone(_))) => {
                return Err(TurnError::Redis(writer_ended((&mut writing.0).await)));
            }
            Some(Err(error @ FeedError::Redis(_))) => return Err(error.into()),
            Some(Err(error)) => {
                // What was taken before is published all the same.
                let _ = tokio::time::timeout(STOP_LIMIT, &mut writing.0).await;
                return Err(error.into());
            }
            Some(Ok(())) | None => {}
        }
        match (&mut writing.0).await {
            Ok(Ok(())) if self.monitor.published().blocks >= handed_on => Ok(Turn::Done),
            ended => Err(TurnError::Redis(writer_ended(ended))),
        }
    }

    /// Trims the stream, for ever.
    fn trimming(&self, server: &Server) -> Option<impl Future<Output = ()> + Send + 'static> {
        let policy = self.settings.trim.clone()?;
        let (server, keys, stream_ids) = (server.clone(), self.keys.clone(), self.settings.stream_ids);
        let (progress, status) = (self.progress.subscribe(), self.monitor.trim.clone());
        Some(async move {
            trim::run(&server, &keys, &policy, stream_ids, progress, &status).await;
        })
    }

    async fn feed(
        &mut self,
        checkpoint: &Checkpoint,
        server: &Server,
        queue: mpsc::Sender<Decoding>,
        edits: watch::Receiver<u64>,
        asked: Arc<Notify>,
    ) -> Result<Feed<'_>, TurnError> {
        let mut store = Store::connect(server, Arc::new(self.keys.clone())).await?;
        let reversible: BTreeMap<_, _> = store.reversible().await.map_err(FeedError::from)?;
        let fallback = self.settings.fallback(self.monitor.chain_api.clone());
        let mut history = History::new(Some(store), fallback, self.settings.overrides.clone(), reversible);
        history.notice(edits);
        let part = checkpoint.block.zip(checkpoint.part);
        let mut chain = Chain::new(&checkpoint.positions, checkpoint.first_block, part);
        chain.settle(checkpoint.last_irreversible);
        let selection = self.settings.selection.clone();
        let shared = Shared {
            keys: self.keys.clone(),
            chain_id: self.chain_id,
            block_events: selection.blocks,
            monitor: self.monitor.clone(),
            buffers: Buffers::default(),
        };
        let half = (self.config.max_in_flight_bytes / 2) as usize;
        let frames_kib = u32::try_from(half >> 10).unwrap_or(u32::MAX).max(1);
        let published = self.monitor.published();
        Ok(Feed {
            range: &self.settings.range,
            intake: Intake::new(self.chain_id, chain, history, selection, self.settings.style.clone()),
            dispatch: Dispatch::new(
                self.pool.clone(),
                shared,
                self.settings.stream_ids == StreamIds::Block,
                checkpoint.stream_id,
                half,
                queue,
            ),
            replays: Replays::new(server.clone(), self.keys.clone(), asked, &published, part.is_some()),
            hold: Hold::new(self.config.confirmations),
            progress: self.progress.subscribe(),
            monitor: self.monitor.clone(),
            frames: Arc::new(Semaphore::new(frames_kib as usize)),
            frames_kib,
            gaps: Backoff::new(self.config.reconnect.backoff.clone(), None),
            blocks_before: published.blocks,
            useless: HashSet::new(),
            node: &mut self.node,
        })
    }
}

/// A task that ends with its owner.
struct Task<T>(tokio::task::JoinHandle<T>);

impl<T: Send + 'static> Task<T> {
    fn spawn(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
        Task(tokio::spawn(future))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
