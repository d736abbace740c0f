//! Reading the node: connect, ask, take what comes, hand it on, acknowledge what is published; and
//! again when the node goes away.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Semaphore, watch};
use tracing::{info, warn};

use super::dispatch::{Dispatch, WriterGone};
use super::hold::Hold;
use super::intake::{Intake, IntakeError};
use super::replays::Replays;
use crate::abi::BadAbi;
use crate::backoff::Backoff;
use crate::config::StartBlock;
use crate::history::{HistoryError, StoreError};
use crate::monitor::Monitor;
use crate::publish::Failure;
use crate::publish::writer::Progress;
use crate::ship::connection::{Acks, Connection, Frame};
use crate::ship::endpoint::Endpoint;
use crate::ship::node::{Node, NodeError};
use crate::ship::start::{StartError, check_next, check_start, first_available};
use crate::state::State;

/// What is read, and from where to where.
pub struct Range {
    /// Where to begin if nothing is published yet; `None`: at the node's head.
    pub start: Option<StartBlock>,
    /// The last block.
    pub stop: Option<u32>,
    /// Only irreversible blocks.
    pub irreversible_only: bool,
}

/// Why reading ended before the last block.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The writer ended: its own error says why.
    #[error(transparent)]
    WriterGone(#[from] WriterGone),
    /// Redis failed while the ABI history was read.
    #[error(transparent)]
    Redis(Failure),
    /// The ABI history holds something foreign.
    #[error(transparent)]
    Foreign(StoreError),
    /// The start cannot be had.
    #[error(transparent)]
    Start(StartError),
    /// There is nothing between start and stop.
    #[error("reading would begin with block {start}, which is above the last block to publish ({stop})")]
    StartAboveStop {
        /// The first block.
        start: u32,
        /// The last block.
        stop: u32,
    },
    /// The node's own ABI cannot be used.
    #[error("the ABI that the node sent first is broken: {0}")]
    Protocol(BadAbi),
    /// No endpoint can be used.
    #[error(transparent)]
    Node(NodeError),
    /// What the nodes send cannot be taken.
    #[error(transparent)]
    Intake(IntakeError),
}

/// What makes one connection useless, and what can be done about it.
enum Lost {
    /// It ended, or the node has to be asked again: connect anew.
    Again(NodeError),
    /// Blocks are missing: ask again, after a while.
    Gap(IntakeError),
    /// This node cannot be used: another may.
    Unusable(FeedError),
    /// Nothing can be done.
    Over(FeedError),
}

/// See the module's documentation.
pub struct Feed<'a> {
    pub node: &'a mut Node,
    pub range: &'a Range,
    pub intake: Intake,
    pub dispatch: Dispatch,
    pub replays: Replays,
    pub hold: Hold<usize>,
    pub progress: watch::Receiver<Progress>,
    pub monitor: Arc<Monitor>,
    /// Bounds the bytes of frames that are not decoded yet, in KiB. Those held back come on top.
    pub frames: Arc<Semaphore>,
    pub frames_kib: u32,
    /// Waits before asking again for missing blocks.
    pub gaps: Backoff,
    /// Blocks published when this began.
    pub blocks_before: u64,
    /// Endpoints found useless since the last block.
    pub useless: HashSet<Endpoint>,
}

// === impl Feed ===

impl Feed<'_> {
    /// Reads until the last block is handed on, or for ever.
    pub async fn run(&mut self, mut first: Option<Connection>) -> Result<(), FeedError> {
        loop {
            let connection = match first.take() {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            self.monitor.chain(connection.chain_id());
            let endpoint = connection.endpoint().clone();
            match self.read(connection).await {
                Ok(()) => return Ok(()),
                Err(Lost::Again(error)) => {
                    self.monitor.disconnected(format!("the connection to {endpoint} was lost: {error}"));
                }
                Err(Lost::Gap(error)) => {
                    let reason = format!("asking the node again from the last block published: {error}");
                    self.monitor.stuck(State::WaitingForNode, reason);
                    tokio::time::sleep(self.gaps.next_wait().unwrap_or_default()).await;
                }
                Err(Lost::Unusable(error)) => {
                    self.useless.insert(endpoint.clone());
                    if self.useless.len() >= self.node.options().endpoints.len() {
                        self.wait_for_another_fork(error).await?;
                    } else {
                        self.node.useless(&endpoint, error.to_string());
                        self.monitor.disconnected(format!("{endpoint} cannot be used: {error}"));
                    }
                }
                Err(Lost::Over(error)) => return Err(error),
            }
            self.hold.clear();
        }
    }

    /// No node can be used. One that is on another fork than what was published may come back from it: it is asked again
    /// now and then. In any other case `error` is the end.
    async fn wait_for_another_fork(&mut self, error: FeedError) -> Result<(), FeedError> {
        if !matches!(error, FeedError::Intake(IntakeError::TooDeep { .. })) {
            return Err(error);
        }
        self.monitor.stuck(State::ForkTooDeep, error.to_string());
        let attempts = self.node.options().max_attempts;
        if attempts.is_some_and(|most| self.gaps.attempts() >= u64::from(most)) {
            return Err(error);
        }
        tokio::time::sleep(self.gaps.next_wait().unwrap_or_default()).await;
        self.useless.clear();
        Ok(())
    }

    /// Connects. Meanwhile dead letters can be published again.
    async fn connect(&mut self) -> Result<Connection, FeedError> {
        let connecting = self.node.connect();
        tokio::pin!(connecting);
        loop {
            tokio::select! {
                connected = &mut connecting => return connected.map_err(FeedError::Node),
                () = self.replays.asked() => {
                    self.replays.publish(&mut self.dispatch, &self.progress).await?;
                }
            }
        }
    }

    /// Reads one connection.
    async fn read(&mut self, connection: Connection) -> Result<(), Lost> {
        let status = connection.status().clone();
        self.monitor.head(status.head.num, status.last_irreversible.num);
        let unusable = |error| Lost::Unusable(FeedError::Start(error));
        let (start, positions, asked) = match self.intake.chain().resume() {
            Some((start, positions)) => (start, positions, None),
            None => {
                let start = match self.range.start {
                    Some(StartBlock::Number(num)) => num,
                    Some(StartBlock::First) => first_available(&status).map_err(unusable)?,
                    None if self.range.irreversible_only => status.last_irreversible.num.max(1),
                    None => status.head.num,
                };
                (start, Vec::new(), Some(start))
            }
        };
        if let Some(stop) = self.range.stop.filter(|stop| start > *stop) {
            return Err(Lost::Over(FeedError::StartAboveStop { start, stop }));
        }
        let check = if asked.is_some() { check_start } else { check_next };
        check(&status, start).map_err(unusable)?;
        self.intake
            .connected(connection.protocol().clone(), &status, asked)
            .map_err(|error| Lost::Unusable(FeedError::Protocol(error)))?;
        // Blocks held back for their confirmations lie above the last one that is published.
        let stop = self.range.stop.filter(|_| self.hold.is_off());
        if start > status.head.num.saturating_add(1) {
            warn!(
                endpoint = %connection.endpoint(),
                next = start,
                head = status.head.num,
                "the node's head is below the next block: waiting until it is there"
            );
        }
        if !self.monitor.is_stuck() {
            info!(endpoint = %connection.endpoint(), start, head = status.head.num, "reading blocks");
        }
        let endpoint = connection.endpoint().to_string();
        let (mut frames, acks) = connection.request(start, stop, &positions).await.map_err(Lost::Again)?;
        self.monitor.reading(endpoint);
        let mut asked = Instant::now();
        let mut due = Due { results: VecDeque::new(), acks };
        loop {
            tokio::select! {
                frame = frames.next() => match frame {
                    Ok(frame) => {
                        let (status, waited) = (&frame.result, asked.elapsed());
                        let (head, irreversible) = (status.head.num, status.last_irreversible.num);
                        self.monitor.received(frame.bytes.len(), head, irreversible, waited);
                        if self.take(frame, &mut due).await? {
                            return Ok(());
                        }
                        asked = Instant::now();
                    }
                    Err(error) if error.is_fatal() => return Err(Lost::Unusable(FeedError::Node(error))),
                    Err(error) => return Err(Lost::Again(error)),
                },
                () = self.replays.asked() => {
                    self.replays.publish(&mut self.dispatch, &self.progress).await.map_err(over)?;
                }
                changed = self.progress.changed() => {
                    changed.map_err(|_| Lost::Over(FeedError::WriterGone(WriterGone)))?;
                    self.published(&mut due);
                }
            }
        }
    }

    /// Takes a result; says whether the last block is handed on.
    async fn take(&mut self, frame: Frame, due: &mut Due) -> Result<bool, Lost> {
        let Frame { bytes, result } = frame;
        if result.this_block.is_none() {
            self.monitor.metrics.no_block.inc();
            due.acks.ack(1);
            return Ok(false);
        }
        let dropped = self.hold.push(result, bytes.len());
        due.acks.ack(dropped);
        while let Some((result, bytes)) = self.hold.pop() {
            let received = Instant::now();
            // Not before: frames held back give nothing free until others come.
            let kib = ((bytes >> 10) as u32).clamp(1, self.frames_kib);
            let permit = self.frames.clone().acquire_many_owned(kib).await.map_err(|_| over(WriterGone))?;
            let begun = Instant::now();
            let ready = self.intake.take(&result).await.map_err(lost)?;
            self.monitor.metrics.add_abi(&self.intake.take_counts());
            let Some(ready) = ready else {
                due.acks.ack(1);
                continue;
            };
            self.useless.clear();
            self.gaps.reset();
            let taken = ready.position.num;
            let settled = taken.min(ready.last_irreversible);
            self.monitor.taken(&ready, begun.elapsed());
            if let Some((fork, _)) = &ready.fork {
                info!(
                    common = fork.common,
                    removed = fork.removed.len(),
                    old_head = %fork.old_head,
                    block = %ready.position,
                    "a fork: the node has taken blocks back"
                );
            }
            self.dispatch.block(ready, permit, received).await.map_err(over)?;
            self.replays.in_part = false;
            due.results.push_back(DueResult { blocks: self.blocks_before + self.dispatch.blocks(), settled });
            if self.range.stop.is_some_and(|stop| taken >= stop) {
                return Ok(true);
            }
        }
        self.published(due);
        Ok(false)
    }

    /// Acknowledges what is published since the last time.
    fn published(&mut self, due: &mut Due) {
        let progress = *self.progress.borrow_and_update();
        let mut count = 0;
        while let Some(result) = due.results.pop_front_if(|result| result.blocks <= progress.blocks) {
            // By what was irreversible then: of what comes later, a fork may not be published yet.
            self.intake.settle(result.settled);
            count += 1;
        }
        due.acks.ack(count);
    }
}

/// Results not acknowledged yet.
struct Due {
    results: VecDeque<DueResult>,
    acks: Acks,
}

/// A result that is published when so many blocks are.
struct DueResult {
    blocks: u64,
    /// Up to which block all is then published for good.
    settled: u32,
}

fn over(error: WriterGone) -> Lost {
    Lost::Over(error.into())
}

impl From<StoreError> for FeedError {
    fn from(error: StoreError) -> FeedError {
        match error {
            StoreError::Redis(failure) => FeedError::Redis(failure),
            foreign => FeedError::Foreign(foreign),
        }
    }
}

fn lost(error: IntakeError) -> Lost {
    match error {
        IntakeError::Gap { .. } => Lost::Gap(error),
        IntakeError::History(HistoryError::Store(error)) => Lost::Over(error.into()),
        IntakeError::History(_) => Lost::Over(FeedError::Intake(error)),
        _ => Lost::Unusable(FeedError::Intake(error)),
    }
}
