//! Proving a published stream whole: every block there and linked, forks resolved, nothing twice, everything in order.
//!
//! [`read`] goes through the stream page by page, [`entry`] takes from each event the few fields that are needed, [`check`]
//! follows the chain through them by what is to be expected ([`expect`]), and [`report`] keeps what was found. Where the node is to
//! be asked too, [`node`] tells the ids of its blocks. Memory holds the blocks that a fork can still reach and the events of one
//! block, never the stream.

pub mod check;
pub mod entry;
pub mod expect;
pub mod node;
pub mod read;
pub mod report;

use crate::block::Checksum;
use crate::keys::Keys;
use crate::plan::Selection;
use crate::publish::checkpoint::Checkpoint;
use crate::publish::{EntryId, Failure, Server, StreamIds};
use crate::ship::node::{NodeError, NodeOptions};
use node::NodeBlocks;
use read::Found;

pub use check::Checker;
pub use expect::Expect;
pub use report::{Finding, Kind, Report};

/// A block above the last one asked for can still bring a fork that reaches below it. One that is so far above cannot.
const BEYOND: u32 = 1_000;

/// What is verified.
#[derive(Debug, Clone)]
pub struct Task {
    /// Where it lies.
    pub server: Server,
    /// The names of its keys.
    pub keys: Keys,
    /// Its chain.
    pub chain_id: Checksum,
    /// What is published.
    pub selection: Selection,
    /// How entries are numbered.
    pub stream_ids: StreamIds,
    /// The first block; `None`: the first that is there.
    pub from: Option<u32>,
    /// The last block; `None`: the last that is there.
    pub to: Option<u32>,
    /// The node to compare blocks' ids with, if any.
    pub node: Option<NodeOptions>,
}

/// Why it cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Redis failed.
    #[error(transparent)]
    Redis(#[from] Failure),
    /// The node cannot be used.
    #[error(transparent)]
    Node(#[from] NodeError),
}

/// Verifies. `progress` is told the newest block and how many entries were read.
pub async fn run(task: &Task, mut progress: impl FnMut(u32, u64)) -> Result<Report, VerifyError> {
    let mut control = task.server.connect_control().await?;
    let checkpoint = Checkpoint::load(&mut control, &task.keys).await?;
    // What is added from here on is not looked at.
    let found = read::look(&mut control, &task.keys).await?;
    let expect = Expect::of(&task.selection, task.stream_ids);
    let mut checker = Checker::new(task.chain_id, expect, task.from, task.to);
    let read::Bounds { first, last, trimmed } = match found {
        Found::Entries(bounds) => bounds,
        Found::Empty => return Ok(checker.finish_empty(&checkpoint)),
        Found::Nothing => return Ok(checker.finish_without(&checkpoint, &task.keys.events)),
    };
    let from = match (task.from, task.stream_ids) {
        // An id under a block's number that is not used yet begins with that block.
        (Some(block), StreamIds::Block) if u64::from(block) > first.first => {
            checker.begin_with(block);
            EntryId { first: block.into(), second: 0 }
        }
        _ => {
            let all = checkpoint
                .first_block
                .is_some_and(|block| first == EntryId { first: block.into(), second: 1 });
            if trimmed && !all {
                checker.trimmed(first);
            }
            first
        }
    };
    let mut node = task.node.clone().map(NodeBlocks::new);
    let mut reader = read::Reader::open(&task.server, &task.keys, from, last).await?;
    let stop = task.to.map(|to| to.saturating_add(BEYOND));
    let mut entries = 0;
    let mut whole = true;
    while let Some(page) = reader.page(&mut checker).await? {
        entries += page;
        progress(checker.newest(), entries);
        if let Some(node) = &mut node {
            compare(node, &mut checker, BEYOND, |block| progress(block, entries)).await?;
        }
        if stop.is_some_and(|stop| checker.newest() > stop) {
            whole = false;
            break;
        }
    }
    if let Some(node) = &mut node {
        compare(node, &mut checker, 0, |block| progress(block, entries)).await?;
        checker.compared();
    }
    Ok(checker.finish(whole.then_some(&checkpoint), last))
}

/// Compares the blocks that stand, up to so many below the newest, with the node's.
async fn compare(
    node: &mut NodeBlocks,
    checker: &mut Checker,
    below: u32,
    mut progress: impl FnMut(u32),
) -> Result<(), NodeError> {
    for block in checker.settled(below) {
        let found = node.id(block.num).await?;
        checker.compare(block, found);
        progress(block.num);
    }
    Ok(())
}
