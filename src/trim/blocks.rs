//! Where the newest blocks begin in the stream (`keepBlocks`).

use redis::Value;
use redis::aio::MultiplexedConnection;
use redis::streams::StreamRangeReply;
use serde::Deserialize;

use super::groups::id;
use crate::keys::Keys;
use crate::publish::{EntryId, Failure, StreamIds};

/// So many entries are looked at for one that names its block: fork events do not.
const LOOK: usize = 4;

/// The id that all entries of the newest `count` blocks have or exceed, counted back from the checkpoint's.
///
/// Ids that begin with the block number say it themselves. Ids made by Redis begin with a time: the least
/// millisecond by whose end the first of those blocks was there is searched for, reading the block numbers in
/// the entries. What a fork left behind is not told apart from what stands.
pub(super) async fn oldest_kept(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    stream_ids: StreamIds,
    count: u32,
) -> Result<EntryId, Failure> {
    let (num, part): (Option<u32>, Option<u64>) =
        redis::cmd("HMGET").arg((&keys.sync, "block_num", "part")).query_async(connection).await?;
    let Some(num) = num else { return Ok(EntryId::ZERO) };
    let whole = if part.is_some() { num.saturating_sub(1) } else { num };
    let oldest = whole.saturating_add(1).saturating_sub(count);
    if stream_ids == StreamIds::Block {
        return Ok(EntryId { first: oldest.into(), second: 0 });
    }
    let ends = |command: &str, from: &str, to: &str| {
        redis::cmd(command).arg((&keys.events, from, to, "COUNT", 1)).to_owned()
    };
    let first: StreamRangeReply = ends("XRANGE", "-", "+").query_async(connection).await?;
    let last: StreamRangeReply = ends("XREVRANGE", "+", "-").query_async(connection).await?;
    let (Some(first), Some(last)) = (first.ids.first(), last.ids.first()) else { return Ok(EntryId::ZERO) };
    let (mut low, mut high) = (id(&first.id)?.first, id(&last.id)?.first.saturating_add(1));
    while low < high {
        let middle = low + (high - low) / 2;
        if newest_block(connection, keys, middle).await?.is_some_and(|block| block < oldest) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(EntryId { first: low, second: 0 })
}

/// Block number of the newest entry by the end of a millisecond, if one says it.
async fn newest_block(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    millisecond: u64,
) -> Result<Option<u32>, Failure> {
    #[derive(Deserialize)]
    struct Event {
        block_num: Option<u32>,
    }
    let entries: StreamRangeReply = redis::cmd("XREVRANGE")
        .arg((&keys.events, millisecond, "-", "COUNT", LOOK))
        .query_async(connection)
        .await?;
    Ok(entries.ids.iter().find_map(|entry| match entry.map.get("data") {
        Some(Value::BulkString(data)) => {
            serde_json::from_slice::<Event>(data).ok().and_then(|event| event.block_num)
        }
        _ => None,
    }))
}
