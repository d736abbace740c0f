//! Subscriptions: the consumers' registry (`NS:subs`), their groups of the events stream, and the locks they hold.
//!
//! A subscription's group bears its name. The registry's values are written by client libraries: JSON with `subId`, `filters`,
//! `startFrom` and `registeredAt`; whatever else stands there is shown as text.

use std::collections::BTreeMap;

use redis::aio::MultiplexedConnection;
use redis::streams::StreamPendingCountReply;
use serde::Serialize;
use serde_json::Value;

use crate::keys::Keys;
use crate::publish::failure;
use crate::publish::{Checkpoint, EntryId, Failure, StreamIds};
use crate::status::{Group, groups};
use crate::stream;

/// Pending entries looked at in one go.
const PAGE: usize = 1000;

/// A subscription: registered, or a group of the stream, or both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Subscription {
    /// Its name.
    pub name: String,
    /// What the registry says of it; text where that is no JSON; `None` if it is not there.
    pub registered: Option<Value>,
    /// Who holds its lock: the one consumer that is at work.
    pub lock: Option<String>,
    /// Its group; `None` if no consumer has made one yet.
    pub group: Option<Group>,
    /// Events that its consumer gave up.
    pub dead_letters: u64,
}

/// Where a subscription is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// With the first entry of this block.
    Block(u32),
    /// With the oldest entry there is.
    Start,
    /// With the next entry that comes.
    End,
}

/// What a reset did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reset {
    /// The group's new last delivered id: reading goes on behind it.
    pub id: String,
    /// The first block that will be read; `None` if it is still to come.
    pub first_block: Option<u32>,
    /// Blocks asked for that are no longer in the stream: `first_block` is above the one asked for.
    pub trimmed: bool,
    /// Entries that were pending and are no more: they lie behind the new place and will be read again, or
    /// were to be left out.
    pub released: u64,
}

/// Why a subscription was not changed.
#[derive(Debug, thiserror::Error)]
pub enum SubscriptionError {
    /// No group, no registration.
    #[error("there is no subscription `{name}`{}", others(.known))]
    Unknown {
        /// The name asked for.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// Registered, but its consumer has never run.
    #[error("the subscription `{0}` has no consumer group yet: start its consumer first, which makes one")]
    NoGroup(String),
    /// A consumer is at work.
    #[error(
        "`{name}` is being read by {holder}: stop that consumer first (its lock runs out within 10 seconds), or use --force"
    )]
    Locked {
        /// The subscription.
        name: String,
        /// The lock's value.
        holder: String,
    },
    /// Blocks between the newest one and this one would never be read.
    #[error(
        "block {block} is not published yet, the newest is {newest}: --to-end goes on with what comes next"
    )]
    NotPublished {
        /// The block asked for.
        block: u32,
        /// The newest one.
        newest: u32,
    },
    /// Redis failed.
    #[error(transparent)]
    Redis(#[from] Failure),
}

impl From<redis::RedisError> for SubscriptionError {
    fn from(error: redis::RedisError) -> SubscriptionError {
        SubscriptionError::Redis(error.into())
    }
}

fn others(known: &[String]) -> String {
    match known {
        [] => ": the stream has no group, and none is registered".to_owned(),
        known => format!("; there are: {}", known.join(", ")),
    }
}

/// All subscriptions, by name.
pub async fn list(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<Vec<Subscription>, Failure> {
    let key = keys.subscriptions.as_str();
    let registered: BTreeMap<Vec<u8>, Vec<u8>> = redis::cmd("HGETALL")
        .arg(key)
        .query_async(connection)
        .await
        .map_err(|error| failure::about(error, &[key]))?;
    let mut all: BTreeMap<String, Subscription> = BTreeMap::new();
    for (name, value) in registered {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (name, value) =
            (text(&name), serde_json::from_slice(&value).unwrap_or_else(|_| Value::String(text(&value))));
        all.insert(name.clone(), Subscription { registered: Some(value), ..Subscription::new(name) });
    }
    for group in groups(connection, keys).await? {
        let name = group.name.clone();
        all.entry(name.clone()).or_insert_with(|| Subscription::new(name)).group = Some(group);
    }
    for subscription in all.values_mut() {
        let (lock, dead_letters) = redis::pipe()
            .get(keys.lock(&subscription.name))
            .cmd("XLEN")
            .arg(keys.dead(&subscription.name))
            .query_async(connection)
            .await?;
        (subscription.lock, subscription.dead_letters) = (lock, dead_letters);
    }
    Ok(all.into_values().collect())
}

/// The subscription of that name. Fails while a consumer holds its lock, unless `force`d.
async fn find(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    name: &str,
    force: bool,
) -> Result<Subscription, SubscriptionError> {
    let all = list(connection, keys).await?;
    let known = all.iter().map(|subscription| subscription.name.clone()).collect();
    let Some(found) = all.into_iter().find(|subscription| subscription.name == name) else {
        return Err(SubscriptionError::Unknown { name: name.to_owned(), known });
    };
    match found.lock {
        Some(holder) if !force => Err(SubscriptionError::Locked { name: name.to_owned(), holder }),
        _ => Ok(found),
    }
}

/// Lets a subscription's group go on elsewhere. All that it was given and has not acknowledged is taken from it: what lies
/// behind the new place comes again with the rest, what lies before it is left out. Its failure counters are cleared too.
pub async fn reset(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    stream_ids: StreamIds,
    name: &str,
    target: Target,
    force: bool,
    dry_run: bool,
) -> Result<Reset, SubscriptionError> {
    let subscription = find(connection, keys, name, force).await?;
    let Some(group) = subscription.group else { return Err(SubscriptionError::NoGroup(name.to_owned())) };
    let oldest = stream::oldest(connection, &keys.events, "-").await?;
    let (id, first_block) = match target {
        Target::Start => (EntryId::ZERO, oldest.as_ref().map(|entry| entry.block_num)),
        Target::End => (last_id(connection, &keys.events).await?, None),
        Target::Block(block) => {
            check_published(connection, keys, block).await?;
            let id = match stream_ids {
                StreamIds::Block => EntryId { first: block.into(), second: 0 },
                StreamIds::Auto => stream::before_block(connection, &keys.events, block).await?,
            };
            let next = stream::oldest(connection, &keys.events, &id.next().to_string()).await?;
            (id, next.map(|entry| entry.block_num))
        }
    };
    let trimmed = match (target, &oldest) {
        (Target::Block(block), Some(oldest)) => block < oldest.block_num,
        _ => false,
    };
    let mut released = group.pending;
    if !dry_run {
        // Looked up before the group goes elsewhere: what a consumer is given from there on stays pending.
        let pending = pending(connection, &keys.events, name).await?;
        released = pending.len() as u64;
        let mut transaction = redis::pipe();
        transaction.atomic();
        transaction.cmd("XGROUP").arg(("SETID", &keys.events, name, id.to_string())).ignore();
        for ids in pending.chunks(PAGE) {
            transaction.cmd("XACK").arg((&keys.events, name)).arg(ids).ignore();
        }
        transaction.cmd("DEL").arg(keys.failures(name)).ignore();
        transaction.exec_async(connection).await?;
    }
    Ok(Reset { id: id.to_string(), first_block, trimmed, released })
}

/// Refuses a block that is more than the next one to be published: all up to it would be left out, and be trimmed unread.
async fn check_published(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    block: u32,
) -> Result<(), SubscriptionError> {
    let newest = match Checkpoint::load(connection, keys).await?.block {
        Some(at) => Some(at.num),
        None => stream::newest(connection, &keys.events, "+").await?.map(|entry| entry.block_num),
    };
    match newest {
        Some(newest) if block > newest.saturating_add(1) => {
            Err(SubscriptionError::NotPublished { block, newest })
        }
        _ => Ok(()),
    }
}

/// Removes a subscription: its group, its registration and its failure counters. Its dead letters stay.
pub async fn remove(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    name: &str,
    force: bool,
) -> Result<Subscription, SubscriptionError> {
    let subscription = find(connection, keys, name, force).await?;
    let mut transaction = redis::pipe();
    transaction.atomic();
    if subscription.group.is_some() {
        transaction.cmd("XGROUP").arg(("DESTROY", &keys.events, name)).ignore();
    }
    transaction.cmd("HDEL").arg((&keys.subscriptions, name)).ignore();
    transaction.cmd("DEL").arg(keys.failures(name)).ignore();
    transaction.exec_async(connection).await?;
    Ok(subscription)
}

/// The highest id ever given in the stream.
async fn last_id(connection: &mut MultiplexedConnection, events: &str) -> Result<EntryId, Failure> {
    let info: redis::streams::StreamInfoStreamReply =
        redis::cmd("XINFO").arg(("STREAM", events)).query_async(connection).await?;
    info.last_generated_id.parse().map_err(|error| Failure::Fatal(format!("XINFO STREAM: {error}")))
}

/// Ids of all that is pending in a group.
async fn pending(
    connection: &mut MultiplexedConnection,
    events: &str,
    group: &str,
) -> Result<Vec<String>, Failure> {
    let (mut ids, mut from) = (Vec::new(), "-".to_owned());
    loop {
        let page: StreamPendingCountReply =
            redis::cmd("XPENDING").arg((events, group, &from, "+", PAGE)).query_async(connection).await?;
        let Some(last) = page.ids.last() else { return Ok(ids) };
        from = format!("({}", last.id);
        ids.extend(page.ids.into_iter().map(|pending| pending.id));
    }
}

// === impl Subscription ===

impl Subscription {
    fn new(name: String) -> Subscription {
        Subscription { name, registered: None, lock: None, group: None, dead_letters: 0 }
    }

    /// Its filters, each in a few words; what the registry holds instead, where it holds no filters.
    pub fn filters(&self) -> Vec<String> {
        let filters = match &self.registered {
            None => return Vec::new(),
            Some(Value::String(text)) => return vec![text.clone()],
            Some(value) => value.get("filters"),
        };
        match filters {
            Some(Value::Array(filters)) if filters.is_empty() => vec!["*".to_owned()],
            Some(Value::Array(filters)) => filters.iter().map(filter).collect(),
            Some(other) => vec![other.to_string()],
            None => Vec::new(),
        }
    }
}

/// `action eosio.token/transfer`
fn filter(filter: &Value) -> String {
    let field = |name: &str| filter.get(name).and_then(Value::as_str);
    let Some(kind) = field("kind") else { return filter.to_string() };
    let parts = match kind {
        "action" => ["account", "name"].map(Some),
        "delta" => ["code", "table"].map(Some),
        "native-delta" => [Some("table"), None],
        _ => [None, None],
    };
    let mut shown =
        parts.into_iter().flatten().map(|part| field(part).unwrap_or("*")).collect::<Vec<_>>().join("/");
    for rest in ["receiver", "scope"] {
        if let Some(value) = field(rest).filter(|value| *value != "*") {
            shown += &format!(" {rest} {value}");
        }
    }
    format!("{kind} {shown}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn filters_are_told_in_words() {
        let with = |registered: Value| Subscription {
            registered: Some(registered),
            ..Subscription::new("web".into())
        };
        let filters = json!({"subId": "web", "filters": [
            {"kind": "action", "account": "eosio.token", "name": "transfer"},
            {"kind": "action", "account": "*", "receiver": "alice"},
            {"kind": "delta", "code": "eosio.token", "table": "accounts", "scope": "bob"},
            {"kind": "native-delta", "table": "permission"},
            {"kind": "fork"},
            {"account": "x"},
        ]});
        assert_eq!(
            with(filters).filters(),
            [
                "action eosio.token/transfer",
                "action */* receiver alice",
                "delta eosio.token/accounts scope bob",
                "native-delta permission",
                "fork",
                "{\"account\":\"x\"}"
            ]
        );
        assert_eq!(with(json!({"filters": []})).filters(), ["*"]);
        assert_eq!(with(json!("not { JSON")).filters(), ["not { JSON"]);
        assert_eq!(with(json!(7)).filters(), Vec::<String>::new());
        assert_eq!(Subscription::new("web".into()).filters(), Vec::<String>::new());
    }
}
