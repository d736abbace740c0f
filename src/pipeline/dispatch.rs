//! Decodes the parts of blocks, large ones on the decoding threads, and hands the results, in order, to the writer.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::intake::Ready;
use crate::abi::Deserializer;
use crate::block::Checksum;
use crate::chain::Fork;
use crate::dead_letters::requests::Batch;
use crate::event::{Block, EntryIds, Sink, write_block, write_fork};
use crate::history::Version;
use crate::keys::Keys;
use crate::monitor::Monitor;
use crate::name::Name;
use crate::out::Out;
use crate::publish::Buffers;
use crate::publish::unit::{EntryId, Tally, Timing, Unit};
use crate::resp;

/// Decoded data in JSON takes about so many times the bytes of a part.
const EXPANSION: usize = 4;

/// About so many forks are kept in mind: those of years.
const FORKS_KEPT: &[u8] = b"100000";

/// ABI versions beyond so many bytes of commands are given a transaction of their own.
const ABI_COMMAND_BYTES: usize = 4 << 20;

/// A part of up to so many bytes (a third of a millisecond) is decoded at once, by who reads the node: handing it to
/// another thread costs more than it gains, as Redis takes longer for it. See docs/performance.md.
const INLINE_BYTES: usize = 256 << 10;

/// No more than so many bytes of decoded events wait for Redis, whatever the configuration allows, and so many more for
/// each decoding thread, which has a large part in hand: enough to keep both busy, and what lies no longer is still in the
/// processor's cache when it is sent.
const AHEAD_BYTES: usize = 8 << 20;
const AHEAD_BYTES_A_THREAD: usize = 4 << 20;

/// Units of one part, in order.
pub enum Decoding {
    /// They are there.
    Done(Vec<Unit>),
    /// A decoding thread has the part.
    Running(oneshot::Receiver<Vec<Unit>>),
}

/// See the module's documentation.
pub struct Dispatch {
    pool: Arc<rayon::ThreadPool>,
    shared: Arc<Shared>,
    /// The last entry handed on, with block ids.
    last_entry: Option<EntryId>,
    /// Whether ids are given here, by block, or by Redis.
    block_ids: bool,
    /// Bounds the bytes of decoded events that wait for Redis, in KiB.
    budget: Arc<Semaphore>,
    budget_kib: usize,
    queue: mpsc::Sender<Decoding>,
    /// How many blocks were handed on.
    blocks: u64,
}

/// What all blocks have in common.
pub struct Shared {
    /// Where they go.
    pub keys: Keys,
    /// Which chain they are of.
    pub chain_id: Checksum,
    /// Whether a `block` event closes each.
    pub block_events: bool,
    /// Who is told how it goes.
    pub monitor: Arc<Monitor>,
    /// What the commands are written into.
    pub buffers: Buffers,
}

/// The writer is gone: nothing can be published any more.
#[derive(Debug, thiserror::Error)]
#[error("the writer has stopped")]
pub struct WriterGone;

/// Redis commands, and how many.
#[derive(Default)]
struct Commands {
    bytes: Out,
    count: usize,
}

/// Hands decoded units on in the order of their blocks.
pub async fn forward(mut decoding: mpsc::Receiver<Decoding>, units: mpsc::Sender<Unit>) {
    while let Some(part) = decoding.recv().await {
        let decoded = match part {
            Decoding::Done(units) => units,
            Decoding::Running(part) => match part.await {
                Ok(units) => units,
                Err(_) => return,
            },
        };
        for unit in decoded {
            if units.send(unit).await.is_err() {
                return;
            }
        }
    }
}

// === impl Dispatch ===

impl Dispatch {
    /// Goes on behind `last_entry`. `budget_bytes` bounds the decoded bytes waiting for Redis, beside a bound of its own.
    pub fn new(
        pool: Arc<rayon::ThreadPool>,
        shared: Shared,
        block_ids: bool,
        last_entry: Option<EntryId>,
        budget_bytes: usize,
        queue: mpsc::Sender<Decoding>,
    ) -> Dispatch {
        let ahead = AHEAD_BYTES + AHEAD_BYTES_A_THREAD * pool.current_num_threads();
        let budget_kib = (budget_bytes.min(ahead) >> 10).clamp(1, u32::MAX as usize >> 4);
        Dispatch {
            pool,
            shared: Arc::new(shared),
            last_entry,
            block_ids,
            budget: Arc::new(Semaphore::new(budget_kib)),
            budget_kib,
            queue,
            blocks: 0,
        }
    }

    /// Has a block decoded and published. `frame` is given back when its bytes are no longer needed.
    pub async fn block(
        &mut self,
        ready: Ready,
        frame: OwnedSemaphorePermit,
        received: Instant,
    ) -> Result<(), WriterGone> {
        let mut ids = self.ids(ready.position.num);
        let compiled = ready.block.style.deserializer != Deserializer::Abieos;
        let job = Arc::new(Job { ready, _frame: frame, shared: self.shared.clone() });
        let parts = job.ready.block.plan.parts.len();
        let mut from = 0;
        for part in 0..parts {
            let (last, first) = (part + 1 == parts, part == 0);
            let planned = job.ready.block.plan.parts[part].entries;
            let to = from + planned;
            let done = job.ready.done.clamp(from, to) - from;
            if done == planned && !last {
                from = to;
                continue;
            }
            let fork = job.ready.fork.as_ref().filter(|_| first);
            let mut before = Commands::default();
            if let Some((fork, contracts)) = fork {
                before.undo(&self.shared.keys, fork, contracts, ids);
            }
            if last {
                // Nothing of the block is final before its ABI versions are there.
                before = self.learned(&job, before, fork.is_some(), from + done).await?;
            }
            let entries =
                planned - done + u64::from(fork.is_some()) + u64::from(last && self.shared.block_events);
            let planned_bytes = job.ready.block.plan.parts[part].bytes;
            let bytes = planned_bytes * EXPANSION + before.bytes.len();
            let permit = self.permit(bytes).await?;
            let start = ids;
            ids = ids.after(entries);
            if entries > 0 {
                self.last_entry = start.after(entries - 1).first_id().or(self.last_entry);
            }
            let share =
                Share { part, from: from + done, skip: done, last, before, ids: start, bytes, received };
            let (queued, waiting) = (Instant::now(), self.shared.monitor.metrics.decoding.join());
            let decoding = if planned_bytes <= INLINE_BYTES && compiled {
                Decoding::Done(job.units(share, permit, queued))
            } else {
                let (decoded, decoding) = oneshot::channel();
                let job = job.clone();
                self.pool.spawn(move || {
                    let units = job.units(share, permit, queued);
                    drop(waiting);
                    // Nobody waits for it any more when the writer has stopped.
                    let _ = decoded.send(units);
                });
                Decoding::Running(decoding)
            };
            self.queue.send(decoding).await.map_err(|_| WriterGone)?;
            from = to;
        }
        self.blocks += 1;
        Ok(())
    }

    /// Adds the ABI versions that a block brought. Many of them go ahead in units of their own, but not before what
    /// the block makes undone (`together`): that stands in `before`.
    async fn learned(
        &mut self,
        job: &Job,
        mut before: Commands,
        together: bool,
        done: u64,
    ) -> Result<Commands, WriterGone> {
        for (name, version) in &job.ready.learned {
            before.learned(&self.shared.keys, &job.ready, *name, version);
            if !together && before.bytes.len() > ABI_COMMAND_BYTES {
                let commands = std::mem::take(&mut before);
                let permit = self.permit(commands.bytes.len()).await?;
                let unit = Unit {
                    command_count: commands.count,
                    commands: commands.bytes.into(),
                    entries: 0,
                    again: false,
                    block: job.ready.position,
                    last_irreversible: job.ready.last_irreversible,
                    part: Some(done),
                    fork: None,
                    last_entry: self.last_entry,
                    first_published: job.ready.first_published,
                    permit: Some(permit),
                    tally: Tally::default(),
                };
                self.queue.send(Decoding::Done(vec![unit])).await.map_err(|_| WriterGone)?;
            }
        }
        Ok(before)
    }

    /// Has events of past blocks published again, behind the newest entry.
    pub async fn again(&mut self, batch: Batch) -> Result<(), WriterGone> {
        let permit = self.permit(batch.bytes()).await?;
        let unit = batch.unit(&self.shared.keys, self.block_ids, &mut self.last_entry, Some(permit));
        self.queue.send(Decoding::Done(vec![unit])).await.map_err(|_| WriterGone)
    }

    /// How many blocks were handed on so far.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The ids of a block's entries: under its number, but never below the last entry's.
    fn ids(&self, num: u32) -> EntryIds {
        if !self.block_ids {
            return EntryIds::Auto;
        }
        match self.last_entry {
            Some(last) if last.first >= u64::from(num) => {
                EntryIds::Block { first: last.first, next: last.second + 1 }
            }
            _ => EntryIds::Block { first: num.into(), next: 1 },
        }
    }

    async fn permit(&self, bytes: usize) -> Result<OwnedSemaphorePermit, WriterGone> {
        let kib = (bytes >> 10).clamp(1, self.budget_kib) as u32;
        self.budget.clone().acquire_many_owned(kib).await.map_err(|_| WriterGone)
    }
}

// === impl Commands ===

impl Commands {
    /// Takes the ABI versions of a lost branch back, and keeps in mind which blocks were undone: under the id of the fork
    /// event, which is the first of `ids`.
    fn undo(&mut self, keys: &Keys, fork: &Fork, contracts: &[Name], ids: EntryIds) {
        let above = format!("({}", fork.common);
        for name in contracts {
            self.add(&[b"ZREMRANGEBYSCORE", keys.abi(*name).as_bytes(), above.as_bytes(), b"+inf"]);
        }
        self.add(&[b"ZREMRANGEBYSCORE", keys.abi_blocks.as_bytes(), above.as_bytes(), b"+inf"]);
        let id = ids.first_id().map_or("*".to_owned(), |id| id.to_string());
        let removed: Vec<String> = fork.removed.iter().map(Checksum::to_string).collect();
        let (common, removed) = (fork.common.to_string(), removed.join(" "));
        let stream = [b"XADD", keys.forks.as_bytes(), b"MAXLEN", b"~", FORKS_KEPT, id.as_bytes()];
        let fields: [&[u8]; 4] = [b"common", common.as_bytes(), b"removed", removed.as_bytes()];
        self.add(&[&stream[..], &fields[..]].concat());
    }

    /// Keeps an ABI version.
    fn learned(&mut self, keys: &Keys, ready: &Ready, name: Name, version: &Version) {
        let num = ready.position.num;
        let score = version.since.block.to_string();
        self.add(&[b"ZADD", keys.abi(name).as_bytes(), score.as_bytes(), version.member().as_bytes()]);
        if version.since.block == num && num > ready.last_irreversible {
            let member = format!("{name}:{num}");
            self.add(&[b"ZADD", keys.abi_blocks.as_bytes(), score.as_bytes(), member.as_bytes()]);
        }
    }

    fn add(&mut self, parts: &[&[u8]]) {
        resp::command(&mut self.bytes, parts);
        self.count += 1;
    }
}

/// A block being decoded.
struct Job {
    ready: Ready,
    /// Held as long as the frame is.
    _frame: OwnedSemaphorePermit,
    shared: Arc<Shared>,
}

/// One part of it.
struct Share {
    part: usize,
    /// How many of the block's entries are done before it, `skip` of the part's own among them.
    from: u64,
    skip: u64,
    last: bool,
    before: Commands,
    ids: EntryIds,
    /// When the block came.
    received: Instant,
    /// About how many bytes its commands will have.
    bytes: usize,
}

// === impl Job ===

impl Job {
    /// Decodes a part. It is one unit, or several where it comes out large.
    fn units(&self, share: Share, permit: OwnedSemaphorePermit, queued: Instant) -> Vec<Unit> {
        let begun = Instant::now();
        let ready = &self.ready;
        let block: &Block = &ready.block;
        let fork = ready.fork.as_ref().filter(|_| share.part == 0).map(|(fork, _)| fork);
        let mut out = self.shared.buffers.take(share.bytes);
        out.append(&share.before.bytes);
        let mut sink = Sink::stream(&self.shared.keys, share.ids, out);
        if let Some(fork) = fork {
            write_fork(&self.shared.chain_id, fork, &ready.position, &mut sink);
        }
        sink.skip(share.skip);
        block.write_part(share.part, &mut sink);
        if share.last && self.shared.block_events {
            write_block(&self.shared.chain_id, block, &ready.position, &ready.previous, &mut sink);
        }
        let mut ids = share.ids;
        let mut last_entry = None;
        let mut done = share.from;
        let mut fork_event = fork.is_some();
        let mut before = share.before.count;
        let chunks = sink.finish();
        let count = chunks.len();
        let mut units: Vec<Unit> = Vec::with_capacity(count);
        for (i, chunk) in chunks.into_iter().enumerate() {
            let written = chunk.written;
            if written.entries > 0 {
                last_entry = ids.after(written.entries - 1).first_id();
                // The fork event is none of the block's own entries.
                done += written.entries - u64::from(std::mem::take(&mut fork_event));
            }
            ids = ids.after(written.entries);
            units.push(Unit {
                command_count: std::mem::take(&mut before) + written.commands,
                commands: chunk.bytes,
                entries: written.entries,
                again: false,
                block: ready.position,
                last_irreversible: ready.last_irreversible,
                part: (!share.last || i + 1 < count).then_some(done),
                fork: fork.filter(|_| i == 0).map(|fork| fork.common),
                last_entry,
                first_published: ready.first_published,
                permit: None,
                tally: Tally {
                    counts: written.counts,
                    letters: chunk.letters,
                    block_time_ms: block.plan.header.time_ms(),
                    received: None,
                    timing: None,
                    waiting: Some(self.shared.monitor.metrics.decoded.join()),
                },
            });
        }
        if let Some(unit) = units.last_mut() {
            unit.permit = Some(permit);
            let decoding = begun.elapsed();
            unit.tally.timing = Some(Timing { queued, decoding });
            unit.tally.received = share.last.then_some(share.received);
        }
        units
    }
}
