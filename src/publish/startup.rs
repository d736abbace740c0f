//! Beginning to write: the lease, the checks that what lies in Redis fits, the checkpoint, the connection.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisResult, Value, from_redis_value};
use tracing::warn;

use super::checkpoint::{self, Checkpoint, Fields};
use super::connection::Connection;
use super::failure::{self, Failure};
use super::lease::Lease;
use super::server::Server;
use super::unit::{EntryId, StreamIds};
use crate::block::Checksum;
use crate::keys::Keys;
use crate::stream;

/// What is met before the lease is taken.
#[derive(Debug)]
pub enum Met<'a> {
    /// A parser that holds it: its token.
    Holder(&'a str),
    /// The checkpoint as it is now: at first, and again and again while standing by.
    Checkpoint(&'a Checkpoint),
}

/// Takes the lease, standing by while another parser has it, and gives the checkpoint
/// and a connection for [`super::writer::run`]. Start the writer at once, also where the first unit will take a
/// while: it keeps the lease. Nothing is written if what lies in Redis does not fit ([`Failure::Unfit`]), or if `met`
/// says that it goes no further.
pub async fn begin(
    server: &Server,
    keys: &Keys,
    chain_id: &Checksum,
    stream_ids: StreamIds,
    lease: &Lease,
    mut met: impl FnMut(Met<'_>) -> Result<(), Failure>,
) -> Result<(Checkpoint, Connection), Failure> {
    // Looked at before the lease is touched, so that nothing is written where it does not fit; and again under
    // the lease, as another parser may have been writing until then.
    let found = look(&mut server.connect_control().await?, keys).await?;
    found.check(keys, chain_id, stream_ids)?;
    met(Met::Checkpoint(&found.checkpoint))?;
    let mut told: Option<String> = None;
    let standing_by = async |connection: &mut MultiplexedConnection, holder: &str| {
        if told.as_deref() != Some(holder) {
            met(Met::Holder(holder))?;
            told = Some(holder.to_owned());
        }
        met(Met::Checkpoint(&Checkpoint::load(connection, keys).await?))
    };
    lease.acquire(server, standing_by).await?;
    let begun = async {
        let mut control = server.connect_control().await?;
        let found = look(&mut control, keys).await?;
        found.check(keys, chain_id, stream_ids)?;
        claim(&mut control, keys, chain_id).await?;
        if found.events_last == EntryId::ZERO && found.checkpoint.stream_id.is_some() {
            warn!(
                stream = keys.events,
                "the events stream was removed: going on with the next block in a new one"
            );
        }
        Ok::<_, Failure>((found.checkpoint, Connection::open(server, "parser-writer").await?))
    };
    match begun.await {
        Err(failure) if !failure.is_transient() => {
            lease.release(server).await.ok();
            Err(failure)
        }
        other => other,
    }
}

/// What lies in Redis, read in one moment.
#[derive(Debug)]
struct Found {
    checkpoint: Checkpoint,
    chain: Option<String>,
    /// Highest id ever given in the events stream, also after trimming.
    events_last: EntryId,
    /// The same of the dead-letter stream.
    dead_last: EntryId,
}

async fn look(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<Found, Failure> {
    let failures = keys.failures("parser");
    let replies: Vec<RedisResult<Value>> = redis::pipe()
        .atomic()
        .hgetall(&keys.sync)
        .zrange_withscores(&keys.blocks, 0, -1)
        .get(&keys.chain)
        .zcard(&keys.abi_blocks)
        .hlen(&failures)
        .xinfo_stream(&keys.events)
        .xinfo_stream(&keys.dead_parser)
        .ignore_errors()
        .query_async(connection)
        .await?;
    let mut replies = replies.into_iter();
    let mut reply = |key: &str| match replies.next() {
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(error)) if stream::is_missing(&error) => Ok(None),
        Some(Err(error)) => Err(failure::about(error, &[key])),
        None => Err(Failure::Fatal("Redis answered less than it was asked".to_owned())),
    };
    let fields: Fields = read(reply(&keys.sync)?)?;
    let blocks: Vec<(String, f64)> = read(reply(&keys.blocks)?)?;
    let chain: Option<String> = read(reply(&keys.chain)?)?;
    reply(&keys.abi_blocks)?;
    reply(&failures)?;
    let events_last = last_id(reply(&keys.events)?)?;
    let dead_last = last_id(reply(&keys.dead_parser)?)?;
    Ok(Found { checkpoint: checkpoint::parse(keys, &fields, &blocks)?, chain, events_last, dead_last })
}

fn read<T: FromRedisValue>(value: Option<Value>) -> Result<T, Failure> {
    from_redis_value(value.unwrap_or(Value::Nil)).map_err(|e| Failure::from(redis::RedisError::from(e)))
}

fn last_id(stream: Option<Value>) -> Result<EntryId, Failure> {
    let Some(stream) = stream else { return Ok(EntryId::ZERO) };
    let fields: HashMap<String, Value> = read(Some(stream))?;
    let id: String = read(fields.get("last-generated-id").cloned())?;
    id.parse().map_err(|e| Failure::Fatal(format!("XINFO STREAM: {e}")))
}

impl Found {
    fn check(&self, keys: &Keys, chain_id: &Checksum, stream_ids: StreamIds) -> Result<(), Failure> {
        if let Some(chain) = &self.chain {
            check_chain(keys, chain, chain_id)?;
        }
        if stream_ids == StreamIds::Auto {
            return Ok(());
        }
        let reason = match self.checkpoint.stream_id {
            None if self.events_last != EntryId::ZERO => {
                Some(format!("its last id is {}, of which the checkpoint knows nothing", self.events_last))
            }
            Some(id) if id.first > u64::from(u32::MAX) => {
                Some(format!("its last id known is {id}, which does not begin with a block number"))
            }
            // A stream that was removed, and perhaps made anew by a consumer's XGROUP CREATE, is empty.
            Some(id) if self.events_last > id => Some(format!(
                "its last id is {}, but the checkpoint's is {id} (this is also how it looks after Redis was killed while writing a \
                 transaction to its append-only file, and started twice without `redis-check-aof --fix`)",
                self.events_last
            )),
            Some(id) if self.events_last != id && self.events_last != EntryId::ZERO => {
                Some(format!("its last id is {}, but the checkpoint's is {id}", self.events_last))
            }
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(foreign_ids(&keys.events, &reason));
        }
        // Dead letters bear their event's id, so theirs must be free too.
        let last = self.checkpoint.stream_id.unwrap_or(EntryId::ZERO);
        if self.dead_last > last {
            let reason = format!("its last id is {}, above the last event's, {last}", self.dead_last);
            return Err(foreign_ids(&keys.dead_parser, &reason));
        }
        Ok(())
    }
}

/// The chain that a namespace belongs to, whose name `key` holds; `None` before anything is published.
pub async fn chain(connection: &mut MultiplexedConnection, key: &str) -> Result<Option<Checksum>, Failure> {
    let found: Option<String> = redis::cmd("GET")
        .arg(key)
        .query_async(connection)
        .await
        .map_err(|error| failure::about(error, &[key]))?;
    let parsed = found.as_deref().map(str::parse).transpose();
    parsed.map_err(|error| {
        let found = found.unwrap_or_default();
        Failure::Unfit(format!(
            "the Redis key `{key}` holds `{}`, no chain id: {error}",
            found.escape_debug()
        ))
    })
}

/// What is wrong with a node that is on another chain than the namespace.
pub fn other_chain(key: &str, chain: impl std::fmt::Display) -> String {
    format!(
        "`{key}` in Redis says that this namespace belongs to chain {chain}: use another `redis.namespace` for another chain \
         (two cannot share one), or another node"
    )
}

fn check_chain(keys: &Keys, found: &str, chain_id: &Checksum) -> Result<(), Failure> {
    if found == chain_id.to_string() {
        return Ok(());
    }
    Err(Failure::Unfit(format!("the node is on chain {chain_id}, but {}", other_chain(&keys.chain, found))))
}

/// What is said of a stream that was written with other ids, by something else or with other settings.
pub(super) fn foreign_ids(stream: &str, reason: &str) -> Failure {
    Failure::Unfit(format!(
        "the stream `{stream}` was not written with `streamIds: block` by this namespace's parser alone: {reason}. Ways out: \
         another `redis.namespace` (starts anew), `streamIds: auto` (goes on in this stream with ids made by Redis), or \
         `compat: parser2` if the TypeScript version wrote it"
    ))
}

/// Makes the namespace this chain's.
async fn claim(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    chain_id: &Checksum,
) -> Result<(), Failure> {
    let (_, chain): (Value, String) = redis::pipe()
        .atomic()
        .set_nx(&keys.chain, chain_id.to_string())
        .get(&keys.chain)
        .query_async(connection)
        .await?;
    check_chain(keys, &chain, chain_id)
}
