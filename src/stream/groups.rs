//! The consumer groups of the events stream, as Redis tells of them.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::streams::StreamPendingReply;
use redis::{FromRedisValue, Value, from_redis_value};

use super::{id, is_missing};
use crate::publish::{EntryId, Failure, failure};

/// A consumer group.
#[derive(Debug)]
pub struct Group {
    /// Its name: any bytes.
    pub name: Vec<u8>,
    /// How many consumers it knows.
    pub consumers: u64,
    /// The last entry it was given.
    pub delivered: EntryId,
    /// Entries it was given and has not acknowledged.
    pub pending: u64,
    /// The oldest of these.
    pub oldest_pending: Option<EntryId>,
}

/// All groups of `stream`; none if there is no such stream.
pub async fn groups(connection: &mut MultiplexedConnection, stream: &str) -> Result<Vec<Group>, Failure> {
    let replies: Result<Vec<HashMap<String, Value>>, _> =
        redis::cmd("XINFO").arg(("GROUPS", stream)).query_async(connection).await;
    let replies = match replies {
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        other => other.map_err(|error| failure::about(error, &[stream]))?,
    };
    let mut groups = Vec::with_capacity(replies.len());
    for mut reply in replies {
        let delivered: String = field(&mut reply, "last-delivered-id")?;
        let mut group = Group {
            name: field(&mut reply, "name")?,
            consumers: field(&mut reply, "consumers")?,
            delivered: id(&delivered)?,
            pending: field(&mut reply, "pending")?,
            oldest_pending: None,
        };
        if group.pending > 0 {
            let summary: StreamPendingReply =
                redis::cmd("XPENDING").arg(stream).arg(&group.name).query_async(connection).await?;
            if let StreamPendingReply::Data(summary) = summary {
                group.oldest_pending = Some(id(&summary.start_id)?);
            }
        }
        groups.push(group);
    }
    Ok(groups)
}

/// A field of XINFO's reply.
pub fn field<T: FromRedisValue>(reply: &mut HashMap<String, Value>, name: &str) -> Result<T, Failure> {
    let value = reply.remove(name).unwrap_or(Value::Nil);
    from_redis_value(value).map_err(|error| Failure::Fatal(format!("XINFO: `{name}`: {error}")))
}
