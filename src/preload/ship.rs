//! From a node: only the account rows of a range of blocks are read, nothing is published.
//!
//! Rows say which ABI an account had at a block's end. Those of the first block of the node's log were there before it.

use redis::aio::MultiplexedConnection;
use rustc_hash::FxHashMap;
use tracing::warn;

use super::Outcome;
use crate::cursor::CursorError;
use crate::history::put::{self, PutError};
use crate::history::{Since, Version};
use crate::keys::Keys;
use crate::name::Name;
use crate::publish::Failure;
use crate::ship::connection::Connection;
use crate::ship::node::{Node, NodeError};
use crate::ship::protocol::Protocol;
use crate::walk::{AccountRow, tables};

/// The place is kept after so many blocks.
const KEEP: u32 = 1_000;

/// A range of blocks and how far it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first block.
    pub from: u32,
    /// The last one.
    pub to: u32,
}

/// Why it ended early. What was read so far is in the history, and the place is kept.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// The node does not have those blocks.
    #[error(
        "the node has state of the blocks {first} to {last} only, of those that no fork can undo: --from and --to must lie within"
    )]
    NotThere {
        /// Its first block with deltas.
        first: u32,
        /// Its last irreversible one.
        last: u32,
    },
    /// A block, or its deltas, that the node does not send.
    #[error("the node does not send the deltas of block {0}, though it is within what it says it has")]
    Missing(u32),
    /// Its rows do not read.
    #[error("block {block}: {error}")]
    Rows {
        /// The block.
        block: u32,
        /// What does not read.
        error: CursorError,
    },
    /// The node cannot be used.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The history could not be written.
    #[error(transparent)]
    Put(#[from] PutError),
    /// Redis failed.
    #[error(transparent)]
    Redis(#[from] Failure),
}

impl From<redis::RedisError> for ShipError {
    fn from(error: redis::RedisError) -> ShipError {
        ShipError::Redis(error.into())
    }
}

/// Reads the range, going on where an earlier call for the same one has stopped. `progress` is told the block and how many versions
/// were added.
pub async fn preload(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    node: &mut Node,
    mut first: Option<Connection>,
    range: Range,
    mut progress: impl FnMut(u32, u64),
) -> Result<Outcome, ShipError> {
    let seen = put::seen(connection, keys).await?;
    let mut outcome = Outcome::default();
    let mut next = place(connection, keys, range).await?.unwrap_or(range.from);
    while next <= range.to {
        let ship = match first.take() {
            Some(ship) => ship,
            None => node.connect().await?,
        };
        let status = ship.status();
        let (log, last) = (status.chain_state_begin_block, status.last_irreversible.num);
        if next < log || range.to > last {
            return Err(ShipError::NotThere { first: log, last });
        }
        let (endpoint, protocol) = (ship.endpoint().clone(), ship.protocol().clone());
        let error = match ship.request(next, Some(range.to), &[]).await {
            Err(error) => error,
            Ok((mut frames, acks)) => loop {
                let frame = match frames.next().await {
                    Ok(frame) => frame,
                    Err(error) => break error,
                };
                acks.ack(1);
                // What the node leaves out must not pass for read.
                let this = frame.result.this_block.filter(|this| this.num == next);
                let this = this.ok_or(ShipError::Missing(next))?;
                let deltas = frame.result.deltas.ok_or(ShipError::Missing(this.num))?;
                let versions = versions(&deltas, &protocol, this.num, this.num == log)?;
                for done in put::preload(connection, keys, &versions, seen).await? {
                    outcome.count(done);
                }
                next = this.num.saturating_add(1);
                progress(this.num, outcome.added);
                if next > range.to {
                    finish(connection, keys).await?;
                    return Ok(outcome);
                }
                if next.is_multiple_of(KEEP) {
                    keep(connection, keys, range, next).await?;
                }
            },
        };
        keep(connection, keys, range, next).await?;
        if error.is_fatal() {
            return Err(error.into());
        }
        node.lost(&endpoint, &error);
        warn!(block = next, "reading goes on");
    }
    finish(connection, keys).await?;
    Ok(outcome)
}

/// The ABI versions that a block's account rows bring; of an account listed twice the last row holds.
fn versions(
    deltas: &[u8],
    protocol: &Protocol,
    block: u32,
    first: bool,
) -> Result<Vec<(Name, Version)>, ShipError> {
    let sequence = if first { Since::BEFORE } else { Since::END };
    let mut found: FxHashMap<Name, Version> = FxHashMap::default();
    let read = tables(deltas, &protocol.walk, |mut table| {
        if table.name == "account" {
            while let Some(row) = table.rows.next()? {
                if row.present {
                    let AccountRow { name, abi } = AccountRow::read(row.data)?;
                    found.insert(name, Version::new(Since { block, sequence }, abi));
                }
            }
        }
        Ok(table.rows)
    });
    read.map_err(|error| ShipError::Rows { block, error })?;
    Ok(found.into_iter().collect())
}

/// Where an earlier call for this range has stopped.
pub async fn place(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    range: Range,
) -> Result<Option<u32>, Failure> {
    let kept: (Option<u32>, Option<u32>, Option<u32>) =
        redis::cmd("HMGET").arg((&keys.abi_preload, "from", "to", "next")).query_async(connection).await?;
    match kept {
        (Some(from), Some(to), next) if from == range.from && to == range.to => Ok(next),
        _ => Ok(None),
    }
}

async fn keep(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    range: Range,
    next: u32,
) -> Result<(), Failure> {
    redis::cmd("HSET")
        .arg((&keys.abi_preload, "from", range.from, "to", range.to, "next", next))
        .exec_async(connection)
        .await?;
    Ok(())
}

async fn finish(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<(), Failure> {
    redis::cmd("DEL").arg(&keys.abi_preload).exec_async(connection).await?;
    Ok(())
}
