//! What the node says: the ids of irreversible blocks, to compare the published ones with.

use crate::block::{Checksum, Position};
use crate::ship::connection::{Acks, Frames};
use crate::ship::node::{Fetch, Node, NodeError, NodeOptions};

/// The node's irreversible blocks, read one after the other.
pub struct NodeBlocks {
    node: Node,
    /// The first and the last block that it has and that cannot be undone, as it said at first.
    range: Option<(u32, u32)>,
    reading: Option<(Frames, Acks)>,
    /// The one read last.
    newest: Option<Position>,
}

// === impl NodeBlocks ===

impl NodeBlocks {
    /// Nothing is asked yet.
    pub fn new(options: NodeOptions) -> NodeBlocks {
        // Nothing is wanted but ids, and no fork may take back what is compared.
        let options = NodeOptions { fetch: Fetch::Nothing, irreversible_only: true, ..options };
        NodeBlocks { node: Node::new(options), range: None, reading: None, newest: None }
    }

    /// The id of block `num`; `None` where the node does not have it, or where it could still be undone. Numbers must rise.
    pub async fn id(&mut self, num: u32) -> Result<Option<Checksum>, NodeError> {
        loop {
            if self.range.is_some_and(|(first, last)| !(first..=last).contains(&num)) {
                return Ok(None);
            }
            if let Some(newest) = self.newest.filter(|newest| newest.num >= num) {
                return Ok((newest.num == num).then_some(newest.id));
            }
            let Some((frames, acks)) = &mut self.reading else {
                self.connect(num).await?;
                continue;
            };
            match frames.next().await {
                Ok(frame) => {
                    acks.ack(1);
                    self.newest = frame.result.this_block.or(self.newest);
                }
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => {
                    self.node.lost(frames.endpoint(), &error);
                    self.reading = None;
                }
            }
        }
    }

    /// Connects, and asks for the blocks from `num` on if the node has them.
    async fn connect(&mut self, num: u32) -> Result<(), NodeError> {
        let connection = self.node.connect().await?;
        let status = connection.status();
        let (first, last) =
            *self.range.get_or_insert((status.chain_state_begin_block, status.last_irreversible.num));
        if (first..=last).contains(&num) {
            self.reading = Some(connection.request(num, Some(last), &[]).await?);
        }
        Ok(())
    }
}
