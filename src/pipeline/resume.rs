//! Whether this process can go on behind the checkpoint that it finds.

use tracing::warn;

use super::Pipeline;
use crate::block::Position;
use crate::publish::{Checkpoint, Failure, Server};
use crate::state::Report;

impl Pipeline<'_> {
    /// The newest block known to have been published, by this process or, as it saw, by another.
    pub(super) fn known(&self) -> Option<Position> {
        self.monitor.published().block.or(self.found)
    }

    /// Whether it can go on behind that checkpoint, or begin where there is none.
    pub(super) async fn check(&self, checkpoint: &Checkpoint, server: &Server) -> Result<(), Failure> {
        match checkpoint.block {
            None => self.may_begin(server).await,
            Some(_) => self.can_go_on_behind(checkpoint),
        }
    }

    /// Whether it may begin without a checkpoint: only where there has never been one, or somebody says with which block.
    async fn may_begin(&self, server: &Server) -> Result<(), Failure> {
        if let Some(block) = self.known() {
            return Err(gone(block));
        }
        if self.config.start_block.is_some() {
            return Ok(());
        }
        let mut connection = server.connect_control().await?;
        let report = Report::load(&mut connection, &self.keys).await?;
        match report
            .filter(|report| report.instance != self.monitor.instance())
            .and_then(|report| report.block)
        {
            // A service manager may have started this one after the other noticed the loss.
            Some(block) => Err(Failure::Unfit(format!(
                "there is no checkpoint in Redis, but a parser that ran before had published block {block} \
                 (`{}`): Redis' data was lost or removed. Beginning with the node's newest block would leave a gap: restore \
                 Redis' data, or say with which block to begin (`startBlock`, `--start-block`)",
                self.keys.state
            ))),
            None => Ok(()),
        }
    }

    /// Says what Redis has lost; an error where a block published in part cannot be completed.
    fn can_go_on_behind(&self, checkpoint: &Checkpoint) -> Result<(), Failure> {
        if let Err(lost) = is_kept(self.known(), checkpoint) {
            // To stop would not close the gap.
            warn!("{lost}");
        }
        self.what_is_lost_comes_again(checkpoint);
        self.fork_positions_are_there(checkpoint);
        let mark = self.settings.selection.mark();
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

    fn what_is_lost_comes_again(&self, checkpoint: &Checkpoint) {
        let published = self.known();
        if let (Some(block), Some(found)) = (published, checkpoint.block)
            && found.num < block.num
        {
            warn!(
                published = block.num,
                checkpoint = found.num,
                "Redis has lost what was published last: publishing it again from its checkpoint"
            );
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

/// While another parser writes: whether what was published is still there. One that began anew after a loss, knowing
/// nothing of it, has left a gap.
pub(super) fn is_kept(known: Option<Position>, checkpoint: &Checkpoint) -> Result<(), Failure> {
    match (known, checkpoint.block, checkpoint.first_block) {
        (Some(block), None, _) => Err(gone(block)),
        (Some(block), Some(_), Some(first)) if first > block.num => Err(Failure::Unfit(format!(
            "block {block} was published, but another parser has begun anew with block {first}: Redis' data was lost or removed \
             in between, and the stream has a gap. Stop that parser, and restore Redis' data, or remove it and start \
             again with the block to begin with (`--start-block`)"
        ))),
        _ => Ok(()),
    }
}

fn gone(block: Position) -> Failure {
    Failure::Unfit(format!(
        "block {block} was published, but Redis has no checkpoint any more: its data was lost or removed \
         (FLUSHALL, or a restart without persistence). Beginning anew would leave a gap: restore Redis' data, \
         or start again with the block to begin with (`--start-block`)"
    ))
}
