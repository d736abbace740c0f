//! Whether this process can go on behind the checkpoint that it finds.

use tracing::warn;

use super::Pipeline;
use crate::publish::{Checkpoint, Failure};

impl Pipeline<'_> {
    /// Whether Redis still has what this process published, and a block published in part can be completed.
    pub(super) fn can_go_on_behind(&self, checkpoint: &Checkpoint) -> Result<(), Failure> {
        self.has_what_was_published(checkpoint)?;
        self.fork_positions_are_there(checkpoint);
        let mark = self.settings.selection_mark();
        match (checkpoint.block, checkpoint.part) {
            (Some(block), Some(part)) if checkpoint.part_selection != Some(mark) => {
                Err(Failure::Unfit(format!(
                    "block {} was published in part ({part} of its entries) with other `publish` or `filters` settings, by which \
                 the entries left cannot be counted: start with those settings until the block is complete, or publish \
                 into another `redis.namespace`",
                    block.num
                )))
            }
            _ => Ok(()),
        }
    }

    fn has_what_was_published(&self, checkpoint: &Checkpoint) -> Result<(), Failure> {
        let published = self.progress.borrow().block;
        match (published, checkpoint.block) {
            (Some(block), None) => Err(Failure::Unfit(format!(
                "block {block} was published, but Redis has no checkpoint any more: its data was lost or removed \
                 (FLUSHALL, or a restart without persistence). Beginning anew would leave a gap: restore Redis' data, \
                 or start again with the block to begin with (`--start-block`)"
            ))),
            (Some(block), Some(found)) if found.num < block.num => {
                warn!(
                    published = block.num,
                    checkpoint = found.num,
                    "Redis has lost what was published last: publishing it again from its checkpoint"
                );
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn fork_positions_are_there(&self, checkpoint: &Checkpoint) {
        let kept = checkpoint.positions.first().map(|first| first.num);
        let needed = checkpoint.last_irreversible.max(checkpoint.first_block.unwrap_or(0));
        if let (Some(kept), Some(block)) = (kept, checkpoint.block)
            && kept > needed
            && block.num > needed
        {
            warn!(
                key = self.keys.blocks,
                from = kept,
                last_irreversible = checkpoint.last_irreversible,
                "ids of published blocks are missing in Redis: a fork that reaches below those that are there cannot be told"
            );
        }
    }
}
