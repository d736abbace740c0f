//! The consumer groups of the events stream, and how far each has come.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::streams::StreamPendingReply;
use redis::{FromRedisValue, Value, from_redis_value};
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
    pub oldest_pending_block: Option<u64>,
    /// Milliseconds since any of its consumers last asked for something.
    pub idle_ms: Option<u64>,
}

type Fields = HashMap<String, Value>;

/// All groups of the events stream, by name; none where there is no stream.
pub async fn groups(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<Vec<Group>, Failure> {
    let replies: Result<Vec<Fields>, _> =
        redis::cmd("XINFO").arg(("GROUPS", &keys.events)).query_async(connection).await;
    let replies = match replies {
        Err(error) if stream::is_missing(&error) => return Ok(Vec::new()),
        other => other?,
    };
    let first = stream::oldest(connection, &keys.events, "-").await?.map(|entry| entry.block_num);
    let last = stream::newest(connection, &keys.events, "+").await?.map(|entry| entry.block_num);
    let mut groups = Vec::with_capacity(replies.len());
    for mut reply in replies {
        let name: Vec<u8> = field(&mut reply, "name")?;
        let last_delivered_id: String = field(&mut reply, "last-delivered-id")?;
        let delivered = stream::newest(connection, &keys.events, &last_delivered_id).await?;
        let lag_blocks = match (last, delivered, first) {
            (Some(last), Some(delivered), _) => u64::from(last.saturating_sub(delivered.block_num)),
            // Given nothing that is still there: all of the stream lies before it.
            (Some(last), None, Some(first)) => u64::from(last.saturating_sub(first)) + 1,
            _ => 0,
        };
        let pending: u64 = field(&mut reply, "pending")?;
        let oldest_pending_block = match pending {
            0 => None,
            _ => oldest_pending(connection, keys, &name).await?,
        };
        groups.push(Group {
            consumers: field(&mut reply, "consumers")?,
            idle_ms: idle(connection, keys, &name).await?,
            name: String::from_utf8_lossy(&name).into_owned(),
            last_delivered_id,
            lag_blocks,
            pending,
            oldest_pending_block,
        });
    }
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(groups)
}

async fn oldest_pending(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    group: &[u8],
) -> Result<Option<u64>, Failure> {
    let summary: StreamPendingReply =
        redis::cmd("XPENDING").arg(&keys.events).arg(group).query_async(connection).await?;
    let StreamPendingReply::Data(summary) = summary else { return Ok(None) };
    if let Some(entry) = stream::newest(connection, &keys.events, &summary.start_id).await? {
        return Ok(Some(entry.block_num.into()));
    }
    // It was trimmed: the id says its block if it is made of block numbers.
    let first = summary.start_id.split('-').next().and_then(|first| first.parse().ok());
    Ok(first.filter(|first| *first <= u64::from(u32::MAX)))
}

async fn idle(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    group: &[u8],
) -> Result<Option<u64>, Failure> {
    let consumers: Vec<Fields> =
        redis::cmd("XINFO").arg("CONSUMERS").arg(&keys.events).arg(group).query_async(connection).await?;
    let idle = consumers.into_iter().map(|mut consumer| field::<u64>(&mut consumer, "idle"));
    Ok(idle.collect::<Result<Vec<_>, _>>()?.into_iter().min())
}

fn field<T: FromRedisValue>(reply: &mut Fields, name: &str) -> Result<T, Failure> {
    let value = reply.remove(name).unwrap_or(Value::Nil);
    from_redis_value(value).map_err(|e| Failure::Fatal(format!("XINFO: `{name}`: {e}")))
}
