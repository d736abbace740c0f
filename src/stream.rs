//! Looking into the events stream: which block an entry belongs to, where a block begins, and who reads it.
//!
//! Block numbers rise along the stream, but for forks and for events published again from dead letters (`replayed`): those stand at
//! the place where they were published again, long after their block, and are passed over here.

use redis::aio::MultiplexedConnection;
use redis::streams::StreamId;
use redis::{RedisError, Value};
use serde::Deserialize;

use crate::publish::{EntryId, Failure};

mod groups;
mod pages;

pub use groups::{Group, field, groups};
pub use pages::Pages;

/// What an entry says of its block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The entry's id.
    pub id: EntryId,
    /// Its block's number.
    pub block_num: u32,
    /// The time in its block's header, in ISO 8601.
    pub block_time: Option<String>,
}

#[derive(Deserialize)]
struct Event {
    block_num: u32,
    block_time: Option<String>,
    #[serde(default)]
    replayed: bool,
}

/// The newest entry up to `id` (`+` for all) that stands in its block's place.
pub async fn newest(
    connection: &mut MultiplexedConnection,
    stream: &str,
    id: &str,
) -> Result<Option<Entry>, Failure> {
    first_of(connection, Pages::back(stream, id)).await
}

/// The oldest entry from `id` (`-` for all) on that stands in its block's place.
pub async fn oldest(
    connection: &mut MultiplexedConnection,
    stream: &str,
    id: &str,
) -> Result<Option<Entry>, Failure> {
    first_of(connection, Pages::forward(stream, id)).await
}

async fn first_of(
    connection: &mut MultiplexedConnection,
    mut pages: Pages,
) -> Result<Option<Entry>, Failure> {
    while let Some(page) = pages.next(connection).await? {
        if let Some(found) = page.iter().find_map(entry) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The id behind which block `block`, or the first one after it, begins in a stream whose ids Redis makes: that of the entry before
/// it, [`EntryId::ZERO`] if there is none. What a fork left behind is not told apart from what stands.
pub async fn before_block(
    connection: &mut MultiplexedConnection,
    stream: &str,
    block: u32,
) -> Result<EntryId, Failure> {
    let (first, last) = (oldest(connection, stream, "-").await?, newest(connection, stream, "+").await?);
    let (Some(first), Some(last)) = (first, last) else { return Ok(EntryId::ZERO) };
    if last.block_num < block {
        return Ok(last.id);
    }
    // Ids made by Redis begin with a time: the first millisecond by whose end the block was there is searched for.
    let (mut low, mut high) = (first.id.first, last.id.first);
    while low < high {
        let middle = low + (high - low) / 2;
        match newest(connection, stream, &middle.to_string()).await? {
            Some(entry) if entry.block_num >= block => high = entry.id.first.max(low),
            _ => low = middle + 1,
        }
    }
    // Several blocks can share it.
    let mut before = match low.checked_sub(1) {
        Some(earlier) => newest(connection, stream, &earlier.to_string()).await?.map(|entry| entry.id),
        None => None,
    };
    let mut pages = Pages::forward(stream, &low.to_string());
    while let Some(page) = pages.next(connection).await? {
        for entry in page.iter().filter_map(entry) {
            if entry.block_num >= block {
                return Ok(before.unwrap_or(EntryId::ZERO));
            }
            before = Some(entry.id);
        }
    }
    Ok(before.unwrap_or(EntryId::ZERO))
}

/// The block that publishing had come to with an entry, if that can still be told.
pub async fn block_at(
    connection: &mut MultiplexedConnection,
    stream: &str,
    id: EntryId,
) -> Result<Option<u32>, Failure> {
    // An id made by Redis begins with milliseconds since 1970, which no block number reaches.
    match u32::try_from(id.first) {
        // `BLOCK-0` is no entry's id, but the place before the block.
        Ok(block) if id.second == 0 => Ok(Some(block.saturating_sub(1))),
        Ok(block) => Ok(Some(block)),
        Err(_) => Ok(newest(connection, stream, &id.to_string()).await?.map(|entry| entry.block_num)),
    }
}

/// What an entry of a reply says; `None` for fork events, for those published again, and for what is no event.
pub fn entry(entry: &StreamId) -> Option<Entry> {
    let event: Event = serde_json::from_slice(data(entry)?).ok()?;
    let id = entry.id.parse().ok()?;
    (!event.replayed).then_some(Entry { id, block_num: event.block_num, block_time: event.block_time })
}

/// The event's JSON.
pub fn data(entry: &StreamId) -> Option<&[u8]> {
    match entry.map.get("data") {
        Some(Value::BulkString(data)) => Some(data),
        _ => None,
    }
}

/// An entry id of a reply.
pub fn id(text: &str) -> Result<EntryId, Failure> {
    text.parse().map_err(|error| Failure::Fatal(format!("unexpected reply: {error}")))
}

/// Whether Redis means that there is no such stream.
pub fn is_missing(error: &RedisError) -> bool {
    error.detail() == Some("no such key")
}
