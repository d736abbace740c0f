//! How far the consumer groups have come.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::streams::StreamPendingReply;
use redis::{Value, from_redis_value};

use crate::publish::{EntryId, Failure, failure};

/// A consumer group of the stream.
#[derive(Debug)]
pub(super) struct Group {
    /// Its name, as far as it is text.
    pub name: String,
    /// It needs no entry below this one.
    pub bound: EntryId,
}

/// All groups of `stream`; none if there is no such stream.
pub(super) async fn read(
    connection: &mut MultiplexedConnection,
    stream: &str,
) -> Result<Vec<Group>, Failure> {
    let replies: Result<Vec<HashMap<String, Value>>, _> =
        redis::cmd("XINFO").arg(("GROUPS", stream)).query_async(connection).await;
    let replies = match replies {
        Err(error) if error.detail() == Some("no such key") => return Ok(Vec::new()),
        other => other.map_err(|error| failure::about(error, &[stream]))?,
    };
    let mut groups = Vec::with_capacity(replies.len());
    for mut reply in replies {
        let name: Vec<u8> = field(&mut reply, "name")?;
        let pending: u64 = field(&mut reply, "pending")?;
        let delivered: String = field(&mut reply, "last-delivered-id")?;
        // What was delivered last and is not pending may go too. Had the group read on since, its pending
        // entries would lie above; had it acknowledged all since, this is merely less than could go.
        let mut bound = id(&delivered)?.next();
        if pending > 0 {
            let summary: StreamPendingReply =
                redis::cmd("XPENDING").arg(stream).arg(&name).query_async(connection).await?;
            if let StreamPendingReply::Data(summary) = summary {
                bound = bound.min(id(&summary.start_id)?);
            }
        }
        groups.push(Group { name: String::from_utf8_lossy(&name).into_owned(), bound });
    }
    Ok(groups)
}

fn field<T: redis::FromRedisValue>(reply: &mut HashMap<String, Value>, name: &str) -> Result<T, Failure> {
    let value = reply.remove(name).unwrap_or(Value::Nil);
    from_redis_value(value).map_err(|e| Failure::Fatal(format!("XINFO GROUPS: `{name}`: {e}")))
}

/// An entry id of a reply.
pub(super) fn id(text: &str) -> Result<EntryId, Failure> {
    text.parse().map_err(|e| Failure::Fatal(format!("unexpected reply: {e}")))
}
