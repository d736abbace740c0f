//! Looking into the events stream: which block an entry belongs to, and where a block begins.

use redis::Value;
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamId, StreamRangeReply};
use serde::Deserialize;

use crate::publish::{EntryId, Failure};

/// So many entries are looked at for one that names its block: fork events do not.
const LOOK: usize = 4;

/// What an entry says of its block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The entry's id.
    pub id: EntryId,
    /// Its block's number.
    pub block_num: u32,
    /// The time in its block's header, in ISO 8601.
    pub block_time: String,
}

#[derive(Deserialize)]
struct Event {
    block_num: u32,
    block_time: String,
}

/// The newest entry up to `id` (`+` for all) that names its block.
pub async fn newest(
    connection: &mut MultiplexedConnection,
    stream: &str,
    id: &str,
) -> Result<Option<Entry>, Failure> {
    let found: StreamRangeReply =
        redis::cmd("XREVRANGE").arg((stream, id, "-", "COUNT", LOOK)).query_async(connection).await?;
    Ok(found.ids.iter().find_map(entry))
}

/// The oldest entry from `id` (`-` for all) on that names its block.
pub async fn oldest(
    connection: &mut MultiplexedConnection,
    stream: &str,
    id: &str,
) -> Result<Option<Entry>, Failure> {
    let found: StreamRangeReply =
        redis::cmd("XRANGE").arg((stream, id, "+", "COUNT", LOOK)).query_async(connection).await?;
    Ok(found.ids.iter().find_map(entry))
}

/// What an entry of a reply says; `None` for fork events and for what is no event.
pub fn entry(entry: &StreamId) -> Option<Entry> {
    let event: Event = serde_json::from_slice(data(entry)?).ok()?;
    Some(Entry { id: entry.id.parse().ok()?, block_num: event.block_num, block_time: event.block_time })
}

/// The event's JSON.
pub fn data(entry: &StreamId) -> Option<&[u8]> {
    match entry.map.get("data") {
        Some(Value::BulkString(data)) => Some(data),
        _ => None,
    }
}

/// Whether Redis means that there is no such stream.
pub fn is_missing(error: &redis::RedisError) -> bool {
    error.detail() == Some("no such key")
}
