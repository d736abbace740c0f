//! Takes block results in the order they come and makes of them blocks ready to be decoded: linked
//! to what was published, walked, and given the ABIs in force.

use std::sync::Arc;

use bytes::Bytes;

use crate::abi::BadAbi;
use crate::block::{Checksum, Position};
use crate::chain::{Chain, Fork, Link};
use crate::event::{Block, Envelope, ShipTypes, Style};
use crate::filter::Filter;
use crate::history::{AbiCounts, History, HistoryError, Version};
use crate::name::Name;
use crate::plan::{Plan, PlanError, Selection};
use crate::ship::message::{BlockResult, StatusResult};
use crate::ship::protocol::Protocol;

/// See the module's documentation.
pub struct Intake {
    chain_id: Checksum,
    chain: Chain,
    history: History,
    selection: Selection,
    style: Style,
    filter: Arc<Filter>,
    node: Option<Node>,
}

/// What is known of the node that the results come from.
struct Node {
    protocol: Arc<Protocol>,
    ship: Arc<ShipTypes>,
    /// The first block it has traces of.
    traces_from: u32,
    /// The first block it has deltas of.
    deltas_from: u32,
    /// The block asked for, where nothing is published yet.
    asked: Option<u32>,
}

/// A block ready to be decoded and published.
pub struct Ready {
    /// The block's number and id.
    pub position: Position,
    /// Its parent's id.
    pub previous: Checksum,
    /// What it makes undone, and the contracts that lose ABI versions.
    pub fork: Option<(Fork, Vec<Name>)>,
    /// How many of its entries were published before.
    pub done: u64,
    /// Its events to be.
    pub block: Block,
    /// ABI versions it brought.
    pub learned: Vec<(Name, Arc<Version>)>,
    /// The last irreversible block when the node sent it.
    pub last_irreversible: u32,
    /// The first block ever published here.
    pub first_published: u32,
}

/// Why a block cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// What came neither follows nor replaces what was published.
    #[error(
        "block {got} does not follow block {head}: blocks are missing between them, or were replaced without being sent"
    )]
    Gap {
        /// The block that came.
        got: Position,
        /// The newest block taken.
        head: Position,
    },
    /// The first block is not the one asked for.
    #[error(
        "block {asked} was asked for and the node began with block {got}: it has nothing earlier. Start at {got} \
         (`--start-block {got}` or `startBlock: first`), or use a node with a longer history"
    )]
    Start {
        /// The block asked for.
        asked: u32,
        /// The block that came.
        got: u32,
    },
    /// The node's log has a hole.
    #[error(
        "the node has no {what} of block {block}, though they were asked for and are within what it says it has: its \
         state history log is pruned or damaged. Use a node with a whole log, or let this one replay the block"
    )]
    Missing {
        /// `traces` or `deltas` or `block`.
        what: &'static str,
        /// The block.
        block: u32,
    },
    /// A fork below what is kept.
    #[error(
        "the node replaces block {got}, but only blocks from {lowest} on can still be replaced: those below were \
         irreversible, or their ids are gone from Redis. The node is on another fork of the chain, or its history was rewritten. Use a node on the chain that was \
         published, or publish anew into another `redis.namespace`"
    )]
    TooDeep {
        /// The block that came.
        got: Position,
        /// The lowest block that could be replaced.
        lowest: u32,
    },
    /// The block's bytes do not read.
    #[error("block {block}: {error}")]
    Plan {
        /// The block.
        block: u32,
        /// What does not read.
        error: PlanError,
    },
    /// The ABI history cannot go on.
    #[error(transparent)]
    History(#[from] HistoryError),
}

// === impl Intake ===

impl Intake {
    /// Goes on with a chain and its ABI history.
    pub fn new(
        chain_id: Checksum,
        chain: Chain,
        history: History,
        selection: Selection,
        style: Style,
    ) -> Intake {
        let filter = Arc::new(selection.filter.clone());
        Intake { chain_id, chain, history, selection, style, filter, node: None }
    }

    /// Says which node the next results come from, and which block was asked for where nothing is published yet.
    pub fn connected(
        &mut self,
        protocol: Arc<Protocol>,
        status: &StatusResult,
        asked: Option<u32>,
    ) -> Result<(), BadAbi> {
        let ship = Arc::new(ShipTypes::new(&protocol, self.style.deserializer)?);
        self.node = Some(Node {
            protocol,
            ship,
            traces_from: status.trace_begin_block,
            deltas_from: status.chain_state_begin_block,
            asked,
        });
        Ok(())
    }

    /// The chain as far as it was taken.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Tells that blocks up to there are published and irreversible.
    pub fn settle(&mut self, block: u32) {
        self.history.settle(block);
    }

    /// What the ABI history has counted since the last time.
    pub fn take_counts(&mut self) -> AbiCounts {
        self.history.take_counts()
    }

    /// Takes a block; `None` where it is one that was published already.
    pub async fn take(&mut self, result: &BlockResult) -> Result<Option<Ready>, IntakeError> {
        let (Some(position), Some(node)) = (result.this_block, &self.node) else { return Ok(None) };
        let mut done = 0;
        let fork = match self.chain.link(position, result.prev_block) {
            Link::Next => {
                if let (None, Some(asked)) = (self.chain.head(), node.asked)
                    && asked != position.num
                {
                    return Err(IntakeError::Start { asked, got: position.num });
                }
                None
            }
            Link::Rest(entries) => {
                done = entries;
                None
            }
            Link::Fork(fork) => Some(fork),
            Link::Repeated => return Ok(None),
            Link::Gap => {
                let head = self.chain.head().unwrap_or_default();
                return Err(IntakeError::Gap { got: position, head });
            }
            Link::TooDeep { lowest } => return Err(IntakeError::TooDeep { got: position, lowest }),
        };
        let plan = self.plan(node, position, result)?;
        let ship = node.ship.clone();
        let fork = match fork {
            Some(fork) => {
                let contracts = self.history.fork(fork.common).await?;
                Some((fork, contracts))
            }
            None => None,
        };
        let abis = self.history.block(position.num, &plan).await?;
        self.chain.push(position);
        self.chain.settle(result.last_irreversible.num);
        let block = Block {
            envelope: Envelope::new(&self.chain_id, &position, &plan.header),
            plan,
            abis: abis.contracts,
            style: self.style.clone(),
            ship,
            filter: self.filter.clone(),
        };
        Ok(Some(Ready {
            position,
            previous: result.prev_block.map(|previous| previous.id).unwrap_or_default(),
            fork,
            done,
            block,
            learned: abis.learned,
            last_irreversible: result.last_irreversible.num,
            first_published: self.chain.first().unwrap_or(position.num),
        }))
    }

    fn plan(&self, node: &Node, position: Position, result: &BlockResult) -> Result<Plan, IntakeError> {
        let num = position.num;
        let missing = |what| IntakeError::Missing { what, block: num };
        let block = result.block.as_ref().ok_or_else(|| missing("block"))?;
        let optional = |bytes: &Option<Bytes>, what, none_below: u32| match bytes {
            // Even a list of nothing has its length.
            Some(bytes) if !bytes.is_empty() => Ok(bytes.clone()),
            // Block 1 was made by no transaction.
            _ if num < none_below || num == 1 => Ok(Bytes::new()),
            _ => Err(missing(what)),
        };
        let traces = optional(&result.traces, "traces", node.traces_from)?;
        let deltas = optional(&result.deltas, "deltas", node.deltas_from)?;
        Plan::new(&node.protocol, &self.selection, block, traces, deltas)
            .map_err(|error| IntakeError::Plan { block: num, error })
    }
}
