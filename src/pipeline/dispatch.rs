//! Hands the parts of blocks to the decoding threads and their results, in order, to the writer.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::intake::Ready;
use crate::block::Checksum;
use crate::chain::Fork;
use crate::event::{Block, EntryIds, Sink, write_block, write_fork};
use crate::history::Version;
use crate::keys::Keys;
use crate::name::Name;
use crate::publish::{EntryId, Unit};
use crate::resp;

/// Decoded data in JSON takes about so many times the bytes of a part.
const EXPANSION: usize = 4;

/// ABI versions beyond so many bytes of commands are given a transaction of their own.
const ABI_COMMAND_BYTES: usize = 4 << 20;

/// The decoded units to come, in order.
pub type Decoding = oneshot::Receiver<Unit>;

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
    /// How many units were handed on.
    units: u64,
}

struct Shared {
    keys: Keys,
    chain_id: Checksum,
    blocks: bool,
}

/// The writer is gone: nothing can be published any more.
#[derive(Debug, thiserror::Error)]
#[error("the writer has stopped")]
pub struct WriterGone;

/// Redis commands, and how many.
#[derive(Default)]
struct Commands {
    bytes: Vec<u8>,
    count: usize,
}

// === impl Dispatch ===

impl Dispatch {
    /// Goes on behind `last_entry`. `budget_bytes` bounds the decoded bytes waiting for Redis.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        pool: Arc<rayon::ThreadPool>,
        keys: Keys,
        chain_id: Checksum,
        blocks: bool,
        block_ids: bool,
        last_entry: Option<EntryId>,
        budget_bytes: usize,
        queue: mpsc::Sender<Decoding>,
    ) -> Dispatch {
        let budget_kib = (budget_bytes >> 10).clamp(1, u32::MAX as usize >> 4);
        Dispatch {
            pool,
            shared: Arc::new(Shared { keys, chain_id, blocks }),
            last_entry,
            block_ids,
            budget: Arc::new(Semaphore::new(budget_kib)),
            budget_kib,
            queue,
            units: 0,
        }
    }

    /// Has a block decoded and published. `frame` is given back when its bytes are no longer needed.
    pub async fn block(&mut self, ready: Ready, frame: OwnedSemaphorePermit) -> Result<(), WriterGone> {
        let num = ready.position.num;
        let abi = self.abi_commands(num, ready.last_irreversible, &ready.learned);
        let entries = ready.block.plan.entries();
        let mut ids = self.ids(num);
        let job = Arc::new(Job { ready, frame: Some(frame), shared: self.shared.clone() });
        let parts = job.ready.block.plan.parts.len();
        let mut from = 0;
        let mut abi = abi.into_iter().peekable();
        for part in 0..parts {
            let (last, first) = (part + 1 == parts, part == 0);
            let planned = job.ready.block.plan.parts[part].entries;
            let to = from + planned;
            let done = job.ready.done.clamp(from, to) - from;
            if done == planned && !last {
                from = to;
                continue;
            }
            // All but the last ABI commands go before the last part, so that nothing of the block is final before they are.
            let mut before = Commands::default();
            if last {
                while let Some(commands) = abi.next() {
                    if abi.peek().is_none() {
                        before = commands;
                    } else {
                        self.ready_made(&job, commands, from).await?;
                    }
                }
            }
            let fork = job.ready.fork.as_ref().filter(|_| first);
            let mut entries_here = planned - done;
            if let Some((fork, contracts)) = fork {
                self.fork_commands(fork, contracts, &mut before);
                entries_here += 1;
            }
            entries_here += u64::from(last && self.shared.blocks);
            let bytes = job.ready.block.plan.parts[part].bytes * EXPANSION + before.bytes.len();
            let permit = self.permit(bytes).await?;
            let start = ids;
            ids = ids.after(entries_here);
            let last_entry = self.note(start, entries_here);
            let unit = UnitOf { part, skip: done, before, to: (!last).then_some(to), last_entry };
            let (decoded, decoding) = oneshot::channel();
            let job = job.clone();
            self.pool.spawn(move || {
                // Nobody waits for it any more when the writer has stopped.
                let _ = decoded.send(job.unit(unit, start, permit));
            });
            self.enqueue(decoding).await?;
            from = to;
        }
        debug_assert_eq!(from, entries);
        Ok(())
    }

    /// How many units were handed on so far.
    pub fn units(&self) -> u64 {
        self.units
    }

    async fn enqueue(&mut self, decoding: Decoding) -> Result<(), WriterGone> {
        self.queue.send(decoding).await.map_err(|_| WriterGone)?;
        self.units += 1;
        Ok(())
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

    fn note(&mut self, start: EntryIds, entries: u64) -> Option<EntryId> {
        if let EntryIds::Block { first, next } = start
            && entries > 0
        {
            self.last_entry = Some(EntryId { first, second: next + entries - 1 });
        }
        self.last_entry
    }

    async fn permit(&self, bytes: usize) -> Result<OwnedSemaphorePermit, WriterGone> {
        let kib = (bytes >> 10).clamp(1, self.budget_kib) as u32;
        self.budget.clone().acquire_many_owned(kib).await.map_err(|_| WriterGone)
    }

    /// A unit without entries.
    async fn ready_made(&mut self, job: &Job, commands: Commands, done: u64) -> Result<(), WriterGone> {
        let permit = self.permit(commands.bytes.len()).await?;
        let unit = Unit {
            command_count: commands.count,
            commands: vec![commands.bytes],
            entries: 0,
            block: job.ready.position,
            last_irreversible: job.ready.last_irreversible,
            part: Some(done),
            fork: None,
            last_entry: self.last_entry,
            first_published: job.ready.first_published,
            permit: Some(permit),
        };
        let (decoded, decoding) = oneshot::channel();
        let _ = decoded.send(unit);
        self.enqueue(decoding).await
    }

    fn abi_commands(
        &self,
        num: u32,
        last_irreversible: u32,
        learned: &[(Name, Arc<Version>)],
    ) -> Vec<Commands> {
        let keys = &self.shared.keys;
        let mut all: Vec<Commands> = Vec::new();
        for (name, version) in learned {
            if all.last().is_none_or(|commands| commands.bytes.len() > ABI_COMMAND_BYTES) {
                all.push(Commands::default());
            }
            let Some(commands) = all.last_mut() else { continue };
            let score = version.since.block.to_string();
            commands.add(&[
                b"ZADD",
                keys.abi(*name).as_bytes(),
                score.as_bytes(),
                version.member().as_bytes(),
            ]);
            if version.since.block == num && num > last_irreversible {
                let member = format!("{name}:{num}");
                commands.add(&[b"ZADD", keys.abi_blocks.as_bytes(), score.as_bytes(), member.as_bytes()]);
            }
        }
        all
    }

    fn fork_commands(&self, fork: &Fork, contracts: &[Name], commands: &mut Commands) {
        let keys = &self.shared.keys;
        let above = format!("({}", fork.common);
        let mut undo = Commands::default();
        for name in contracts {
            undo.add(&[b"ZREMRANGEBYSCORE", keys.abi(*name).as_bytes(), above.as_bytes(), b"+inf"]);
        }
        undo.add(&[b"ZREMRANGEBYSCORE", keys.abi_blocks.as_bytes(), above.as_bytes(), b"+inf"]);
        // Before the versions of the new branch are added.
        undo.bytes.append(&mut commands.bytes);
        undo.count += commands.count;
        *commands = undo;
    }
}

// === impl Commands ===

impl Commands {
    fn add(&mut self, parts: &[&[u8]]) {
        resp::command(&mut self.bytes, parts);
        self.count += 1;
    }
}

/// A block being decoded.
struct Job {
    ready: Ready,
    /// Held as long as the frame is.
    #[allow(dead_code)]
    frame: Option<OwnedSemaphorePermit>,
    shared: Arc<Shared>,
}

/// Which part of it.
struct UnitOf {
    part: usize,
    skip: u64,
    before: Commands,
    to: Option<u64>,
    last_entry: Option<EntryId>,
}

impl Job {
    fn unit(&self, of: UnitOf, ids: EntryIds, permit: OwnedSemaphorePermit) -> Unit {
        let ready = &self.ready;
        let block: &Block = &ready.block;
        let fork = ready.fork.as_ref().filter(|_| of.part == 0);
        let mut sink = Sink::stream(&self.shared.keys, ids, of.before.bytes);
        if let Some((fork, _)) = fork {
            write_fork(&self.shared.chain_id, fork, &ready.position, &mut sink);
        }
        sink.skip(of.skip);
        block.write_part(of.part, &mut sink);
        if of.to.is_none() && self.shared.blocks {
            write_block(&self.shared.chain_id, block, &ready.position, &ready.previous, &mut sink);
        }
        let (commands, written) = sink.finish();
        Unit {
            command_count: of.before.count + written.commands,
            commands: vec![commands],
            entries: written.entries,
            block: ready.position,
            last_irreversible: ready.last_irreversible,
            part: of.to,
            fork: fork.map(|(fork, _)| fork.common),
            last_entry: of.last_entry,
            first_published: ready.first_published,
            permit: Some(permit),
        }
    }
}
