//! Recording a node's traffic: `capture record`.

use std::collections::VecDeque;
use std::path::PathBuf;

use tracing::{info, warn};

use crate::block::Position;
use crate::config::StartBlock;
use crate::ship::node::{Node, NodeError, NodeOptions};
use crate::ship::start::{StartError, check_start, first_available};

use super::file::{CaptureError, CaptureWriter};

/// What to record, from where and into which file.
#[derive(Debug, Clone)]
pub struct RecordOptions {
    /// The node.
    pub node: NodeOptions,
    /// The first block.
    pub start: StartBlock,
    /// The last one. Forks that come before it is reached are recorded as they come.
    pub stop: u32,
    /// The file; while it is being written, it is called so with `.part` behind.
    pub out: PathBuf,
}

/// How far a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The last block recorded.
    pub block: u32,
    /// Frames recorded.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The node's newest block.
    pub head: u32,
}

/// Why a recording ended early. The file keeps its `.part` name.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is nothing to record.
    #[error("the stop block {stop} lies before the start block {start}")]
    Range {
        /// First block.
        start: u32,
        /// Last block.
        stop: u32,
    },
    /// The node does not have the blocks.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The node cannot be used.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The file cannot be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
}

/// Records the results for blocks `start` to `stop` as they come, calling `progress` after each. A lost connection is
/// made again and the recording goes on behind the last frame.
pub async fn record(
    options: RecordOptions,
    mut progress: impl FnMut(Progress),
) -> Result<Progress, RecordError> {
    let RecordOptions { node, start, stop, out } = options;
    let mut node = Node::new(node);
    let mut connection = node.connect().await?;
    let start = match start {
        StartBlock::Number(start) => start,
        StartBlock::First => first_available(connection.status())?,
    };
    if stop < start {
        return Err(RecordError::Range { start, stop });
    }
    check_start(connection.status(), start)?;
    info!(start, stop, head = connection.status().head.num, "recording");
    let status = connection.status().encode(connection.protocol());
    let mut writer = CaptureWriter::create(&out, &connection.protocol().abi, &status)?;
    let mut state = Progress::default();
    // The recorded blocks that may still be undone.
    let mut reversible: VecDeque<Position> = VecDeque::new();
    loop {
        let from = reversible.back().map_or(start, |last| last.num.saturating_add(1));
        let endpoint = connection.endpoint().clone();
        let error = match connection.request(from, Some(stop), reversible.make_contiguous()).await {
            Err(error) => error,
            Ok((mut frames, acks)) => loop {
                let frame = match frames.next().await {
                    Ok(frame) => frame,
                    Err(error) => break error,
                };
                acks.ack(1);
                writer.frame(&frame.bytes)?;
                state.frames += 1;
                state.bytes += frame.bytes.len() as u64;
                state.head = frame.result.head.num;
                if let Some(this) = frame.result.this_block {
                    state.block = this.num;
                    remember(&mut reversible, this, frame.result.last_irreversible.num);
                }
                progress(state);
                if state.block >= stop {
                    writer.finish()?;
                    return Ok(state);
                }
            },
        };
        if error.is_fatal() {
            return Err(error.into());
        }
        node.lost(&endpoint, &error);
        connection = node.connect().await?;
        warn!(behind_block = state.block, "the recording goes on");
    }
}

/// Adds a block to those that may still be undone.
fn remember(reversible: &mut VecDeque<Position>, block: Position, irreversible: u32) {
    while reversible.back().is_some_and(|last| last.num >= block.num) {
        reversible.pop_back();
    }
    reversible.push_back(block);
    // The last block stays, irreversible or not: it says where to go on.
    while reversible.len() > 1 && reversible[1].num <= irreversible {
        reversible.pop_front();
    }
}
