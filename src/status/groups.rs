//! The consumer groups of the events stream, and how far each has come.

use std::collections::HashMap;

use redis::Value;
use redis::aio::MultiplexedConnection;
use serde::Serialize;

use crate::keys::Keys;
use crate::publish::Failure;
use crate::stream;

/// A consumer group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Its name, as far as it is text.
    pub name: String,
    /// How many consumers it knows.
    pub consumers: u64,
    /// Id of the last entry it was given.
    pub last_delivered_id: String,
    /// How many blocks the newest event in the stream is ahead of the last one it was given. Redis' own count of entries
    /// is not used: it is missing or wrong once entries were trimmed.
    pub lag_blocks: u64,
    /// Entries it was given and has not acknowledged.
    pub pending: u64,
    /// Block of the oldest of these.
    pub oldest_pending_block: Option<u32>,
    /// Milliseconds since any of its consumers last asked for something.
    pub idle_ms: Option<u64>,
}

/// All groups of the events stream, by name; none where there is no stream.
pub async fn groups(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<Vec<Group>, Failure> {
    let events = keys.events.as_str();
    let found = stream::groups(connection, events).await?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let first = stream::oldest(connection, events, "-").await?;
    let last = stream::newest(connection, events, "+").await?;
    let mut groups = Vec::with_capacity(found.len());
    for group in found {
        let lag_blocks = match (&first, &last) {
            (Some(_), Some(last)) if group.delivered >= last.id => 0,
            (Some(first), Some(last)) => {
                let delivered = stream::block_at(connection, events, group.delivered).await?;
                // Given nothing that is still there: all of the stream lies before it.
                let delivered = delivered.unwrap_or(0).max(first.block_num.saturating_sub(1));
                last.block_num.saturating_sub(delivered).into()
            }
            _ => 0,
        };
        let oldest_pending_block = match group.oldest_pending {
            Some(id) => stream::block_at(connection, events, id).await?,
            None => None,
        };
        groups.push(Group {
            idle_ms: idle(connection, keys, &group.name).await?,
            name: String::from_utf8_lossy(&group.name).into_owned(),
            consumers: group.consumers,
            last_delivered_id: group.delivered.to_string(),
            lag_blocks,
            pending: group.pending,
            oldest_pending_block,
        });
    }
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(groups)
}

async fn idle(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    group: &[u8],
) -> Result<Option<u64>, Failure> {
    let consumers: Vec<HashMap<String, Value>> =
        redis::cmd("XINFO").arg("CONSUMERS").arg(&keys.events).arg(group).query_async(connection).await?;
    let idle = consumers.into_iter().map(|mut consumer| stream::field::<u64>(&mut consumer, "idle"));
    Ok(idle.collect::<Result<Vec<_>, _>>()?.into_iter().min())
}
