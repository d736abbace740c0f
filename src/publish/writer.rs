//! The writer: commits units in transactions, one after the other, the next one always sent ahead.
//!
//! A transaction's commands are written to the socket while the one before it is still running; its EXEC alone
//! waits until that one's reply says committed, until GET has shown the own token and until the newest entry of the
//! stream is the one written last. So a transaction commits only if the one before it did, the lease is still held
//! (WATCH makes EXEC fail otherwise), and nobody else has written to the stream; and Redis has always the next
//! commands at hand.
//!
//! What is sent is never sent again by the same writer: after any failure it stops, and [`super::startup::begin`]
//! finds out what was committed.
//!
//! Redis refuses whole transactions as they are queued (out of memory, read-only, ...); nothing of them is applied.
//! A command that fails only while EXEC runs (a foreign key of another type, an entry id that is not above the
//! last) does not undo the others, the checkpoint included: that cannot be mended by going on, so it is
//! [`Failure::Fatal`] and says which blocks may lack entries. The checks at the start and before each EXEC
//! leave only a key replaced in the instant before it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::checkpoint::Checkpoint;
use super::connection::{Connection, receive};
use super::due::Due;
use super::failure::Failure;
use super::outgoing::Outgoing;
use super::replies::{Replies, unexpected};
use super::startup::foreign_ids;
use super::transaction::{self, State, Transaction};
use super::unit::{EntryId, StreamIds, Unit};
use crate::block::Position;
use crate::keys::Keys;
use crate::monitor::Monitor;
use crate::out::Out;
use crate::resp;

/// Units join a transaction up to so many bytes and commands. A larger unit is one of its own.
const JOIN_BYTES: usize = 1 << 20;
const JOIN_COMMANDS: usize = 1_000;

/// With nothing to write the lease is renewed so often.
const RENEW: Duration = Duration::from_secs(3);

/// With the stream full its length is asked for so often.
const RENEW_FULL: Duration = Duration::from_millis(500);

/// How the writer works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Names of the keys.
    pub keys: Keys,
    /// The lease's token.
    pub token: String,
    /// Who makes the entries' ids.
    pub stream_ids: StreamIds,
    /// Which entries a block has, by what is published and filtered: kept beside a block published in part, whose
    /// other entries are counted on.
    pub selection: String,
    /// No unit is begun while the events stream has so many entries (`xtrim.maxEntries` with `whenFull: pause`).
    pub pause_at: Option<u64>,
    /// How long Redis may neither take nor send a byte while a reply is due, before the connection counts as
    /// lost. A transaction that runs gets a second more for each MiB.
    pub reply_limit: Duration,
    /// Who is told what is committed.
    pub monitor: Arc<Monitor>,
}

/// What is committed. The counters go on through the writers that share the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Transactions, those that only renew the lease included.
    pub transactions: u64,
    /// Units, in the order they were sent.
    pub units: u64,
    /// Blocks that are complete with them.
    pub blocks: u64,
    /// Entries added to the events stream.
    pub entries: u64,
    /// Those of them that are events of past blocks again.
    pub replayed: u64,
    /// The newest unit's block.
    pub block: Option<Position>,
    /// `Some` if that block is not complete: entries of it done.
    pub part: Option<u64>,
    /// Id of the last entry; with auto ids the last one known.
    pub last_entry: Option<EntryId>,
    /// Entries in the events stream after the last transaction.
    pub stream_length: u64,
    /// The stream is full: publishing waits until entries are removed.
    pub paused: bool,
}

/// Publishes units until the channel is closed and all are committed. It can be dropped at any time: the
/// transaction under way is then committed whole or not at all. While the stream is full it does not end by itself.
pub async fn run(
    connection: Connection,
    settings: &Settings,
    checkpoint: &Checkpoint,
    units: &mut mpsc::Receiver<Unit>,
    progress: &watch::Sender<Progress>,
) -> Result<(), Failure> {
    let Connection { stream, mut replies } = connection;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut state = Writer::new(settings, checkpoint, progress);
    loop {
        state.fill(units);
        state.execute();
        if state.is_finished() {
            return Ok(());
        }
        let (deadline, accepts) = (state.deadline(), state.accepts());
        tokio::select! {
            received = receive(&mut reader, &mut replies) => {
                received?;
                state.moved = Instant::now();
                state.read(&mut replies)?;
            }
            sent = state.out.send(&mut writer), if !state.out.is_idle() => {
                sent?;
                state.moved = Instant::now();
            }
            unit = units.recv(), if accepts => match unit {
                Some(unit) => state.take(unit),
                None => state.ended = true,
            },
            () = sleep_until(deadline) => state.tick()?,
        }
    }
}

struct Writer<'a> {
    settings: &'a Settings,
    progress: &'a watch::Sender<Progress>,
    out: Outgoing,
    /// Replies awaited, in order.
    due: VecDeque<Due>,
    /// Its EXEC is written.
    running: Option<Transaction>,
    /// Sent ahead of it, without EXEC.
    open: Option<Transaction>,
    /// A unit that did not fit into the open transaction.
    held: Option<Unit>,
    /// After the newest unit taken.
    newest: State,
    /// Id of the last entry committed.
    last_entry: Option<EntryId>,
    /// Length of the stream, once known.
    length: Option<u64>,
    /// The last time a byte moved, and the last commit.
    moved: Instant,
    committed: Option<Instant>,
    /// No unit will come any more.
    ended: bool,
}

impl<'a> Writer<'a> {
    fn new(settings: &'a Settings, checkpoint: &Checkpoint, progress: &'a watch::Sender<Progress>) -> Self {
        let newest = State {
            block: checkpoint.block,
            part: checkpoint.part,
            last_irreversible: checkpoint.last_irreversible,
            last_entry: checkpoint.stream_id,
            first_block: checkpoint.first_block,
            newest_whole: checkpoint.positions.last().map(|block| block.num),
        };
        Writer {
            settings,
            progress,
            out: Outgoing::default(),
            due: VecDeque::new(),
            running: None,
            open: None,
            held: None,
            newest,
            last_entry: checkpoint.stream_id,
            length: None,
            moved: Instant::now(),
            committed: None,
            ended: false,
        }
    }

    /// Whether the stream has no room for another unit, as far as known: what is under way counts as in it.
    fn is_full(&self) -> bool {
        let under_way: u64 = self.running.iter().chain(&self.open).map(|t| t.entries).sum();
        self.settings
            .pause_at
            .is_some_and(|limit| self.length.is_none_or(|length| length + under_way >= limit))
    }

    fn accepts(&self) -> bool {
        !self.ended && self.held.is_none() && !self.open.as_ref().is_some_and(|t| t.closed) && !self.is_full()
    }

    fn is_finished(&self) -> bool {
        self.ended
            && self.held.is_none()
            && self.running.is_none()
            && self.open.as_ref().is_none_or(|t| t.units == 0)
    }

    /// Takes what is waiting, as far as it has room.
    fn fill(&mut self, units: &mut mpsc::Receiver<Unit>) {
        if self.open.is_none()
            && !self.is_full()
            && let Some(unit) = self.held.take()
        {
            self.take(unit);
        }
        while self.accepts() {
            match units.try_recv() {
                Ok(unit) => self.take(unit),
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => self.ended = true,
            }
        }
    }

    /// Adds a unit to the open transaction, or holds it back for the next one.
    fn take(&mut self, unit: Unit) {
        let bytes = unit.commands.len();
        let alone = unit.part.is_some() || bytes > JOIN_BYTES;
        let mut open = self.open.take().unwrap_or_else(|| self.begin());
        let fits = open.units == 0
            || !(alone
                || unit.fork.is_some()
                || open.bytes + bytes > JOIN_BYTES
                || open.commands + unit.command_count > JOIN_COMMANDS);
        if fits {
            let count = unit.command_count;
            self.out.push(open.add(unit));
            self.newest = open.state;
            self.queue(count);
            if alone {
                self.close(&mut open);
            }
        } else {
            self.held = Some(unit);
            self.close(&mut open);
        }
        self.open = Some(open);
    }

    fn begin(&mut self) -> Transaction {
        if self.due.is_empty() {
            self.moved = Instant::now();
        }
        let mut piece = Out::default();
        transaction::begin(&mut piece, &self.settings.keys);
        self.out.push(piece.into());
        self.due.extend([Due::Done, Due::Holder, Due::LastEntry { left: 1, id: None }, Due::Done]);
        Transaction::new(self.newest)
    }

    fn close(&mut self, open: &mut Transaction) {
        if self.settings.stream_ids == StreamIds::Auto {
            open.state.last_entry = self.last_entry;
        }
        let mut piece = Out::default();
        let count = open.close(&mut piece, &self.settings.keys, &self.settings.selection);
        self.out.push(piece.into());
        self.queue(count);
    }

    fn queue(&mut self, count: usize) {
        match self.due.back_mut() {
            Some(Due::Queued(queued)) => *queued += count,
            _ => self.due.push_back(Due::Queued(count)),
        }
    }

    /// Lets the open transaction be carried out once the one before it is committed and nothing speaks
    /// against it.
    fn execute(&mut self) {
        if self.running.is_some() {
            return;
        }
        if let Some(mut open) = self.open.take_if(|open| open.admitted) {
            if !open.closed {
                self.close(&mut open);
            }
            let mut piece = Out::default();
            resp::command(&mut piece, &[b"EXEC"]);
            self.out.push(piece.into());
            open.executed = Some(std::time::Instant::now());
            self.due.push_back(Due::Executed { commands: open.commands, left: None, error: None, length: 0 });
            self.running = Some(open);
        }
    }

    fn deadline(&self) -> Instant {
        if self.due.is_empty() {
            let renew = if self.is_full() { RENEW_FULL } else { RENEW };
            // The first one at once: it says whether writing is possible at all.
            return self.committed.map_or(self.moved, |at| at + renew);
        }
        let running = self.running.as_ref().map_or(0, |t| t.bytes >> 20);
        self.moved + self.settings.reply_limit + Duration::from_secs(running as u64)
    }

    fn tick(&mut self) -> Result<(), Failure> {
        if !self.due.is_empty() {
            let seconds = self.moved.elapsed().as_secs();
            return Err(Failure::Disconnected(format!("no reply for {seconds} seconds")));
        }
        self.open = Some(self.begin());
        Ok(())
    }

    /// Reads the replies that have come.
    fn read(&mut self, replies: &mut Replies) -> Result<(), Failure> {
        loop {
            if let Some(Due::Queued(left)) = self.due.front_mut() {
                *left -= replies.skip_queued(*left);
                if *left == 0 {
                    self.due.pop_front();
                    continue;
                }
            }
            let Some(token) = replies.token()? else { return Ok(()) };
            let Some(due) = self.due.front_mut() else { return Err(unexpected("none was due")) };
            if due.accept(token, &self.settings.keys, &self.settings.token)?
                && let Some(due) = self.due.pop_front()
            {
                self.settle(due)?;
            }
        }
    }

    /// Acts on a reply that is complete.
    fn settle(&mut self, due: Due) -> Result<(), Failure> {
        match due {
            Due::LastEntry { id, .. } => {
                match self.settings.stream_ids {
                    StreamIds::Auto => self.last_entry = id.or(self.last_entry),
                    StreamIds::Block => self.check_last_entry(id)?,
                }
                if let Some(open) = &mut self.open {
                    open.admitted = true;
                }
            }
            Due::Executed { error, length, .. } => {
                if let Some(done) = self.running.take() {
                    if let Some(error) = error {
                        return Err(done.half_done(&error));
                    }
                    self.commit(done, length);
                }
            }
            Due::Done | Due::Holder | Due::Queued(_) => {}
        }
        Ok(())
    }

    /// An entry above the last one committed is not this parser's, and the next one could fall below it.
    fn check_last_entry(&self, found: Option<EntryId>) -> Result<(), Failure> {
        let expected = self.last_entry.unwrap_or(EntryId::ZERO);
        match found {
            Some(found) if found > expected => Err(foreign_ids(
                &self.settings.keys.events,
                &format!(
                    "entry {found} was added by something else while this parser was writing (its last is {expected})"
                ),
            )),
            _ => Ok(()),
        }
    }

    fn commit(&mut self, done: Transaction, length: u64) {
        if self.settings.stream_ids == StreamIds::Block {
            self.last_entry = done.state.last_entry;
        }
        self.length = Some(length);
        self.committed = Some(Instant::now());
        let paused = self.settings.pause_at.is_some_and(|limit| length >= limit);
        self.progress.send_modify(|progress| {
            progress.transactions += 1;
            progress.units += done.units;
            progress.blocks += done.blocks;
            progress.entries += done.entries;
            progress.replayed += done.replayed;
            if done.units > 0 {
                progress.block = done.state.block;
                progress.part = done.state.part;
            }
            progress.last_entry = self.last_entry;
            progress.stream_length = length;
            progress.paused = paused;
        });
        self.settings.monitor.committed(&done.committed());
    }
}
