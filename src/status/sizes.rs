//! How much is kept beside the stream: dead letters and the ABI history. Both can be large, so counting them takes a bounded time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use serde::Serialize;

use crate::keys::{self, Keys};
use crate::publish::Failure;
use crate::stream::Pages;

/// How long counting may take, each of the two.
const LIMIT: Duration = Duration::from_secs(2);
/// Keys looked at by one SCAN.
const SCAN: usize = 1000;
/// Parts of a key that its memory is estimated from.
const SAMPLES: usize = 50;

/// The parser's dead letters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct DeadLetters {
    /// How many there are.
    pub entries: u64,
    /// How many of them, the newest, were counted by reason within the time.
    pub counted: u64,
    /// Of those, how many for each reason.
    pub by_reason: BTreeMap<String, u64>,
}

/// The ABI history of all contracts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct AbiHistory {
    /// Contracts with a history.
    pub contracts: u64,
    /// Versions of all of them.
    pub versions: u64,
    /// Its memory in Redis.
    pub bytes: Option<u64>,
    /// Whether all keys were looked at within the time; if not, there is more than the numbers say.
    pub complete: bool,
}

/// Counts the parser's dead letters by reason, the newest first.
pub async fn dead_letters(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
) -> Result<DeadLetters, Failure> {
    let entries = redis::cmd("XLEN").arg(&keys.dead_parser).query_async(connection).await?;
    let mut letters = DeadLetters { entries, ..DeadLetters::default() };
    let deadline = Instant::now() + LIMIT;
    let mut pages = Pages::back(&keys.dead_parser, "+");
    while Instant::now() < deadline {
        let Some(page) = pages.next(connection).await? else { break };
        letters.counted += page.len() as u64;
        for letter in &page {
            // Those of the TypeScript version name none.
            let reason = letter.get("reason").unwrap_or_else(|| "unknown".to_owned());
            *letters.by_reason.entry(reason).or_default() += 1;
        }
    }
    Ok(letters)
}

/// Counts contracts and versions.
pub async fn abi_history(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<AbiHistory, Failure> {
    let mut history = AbiHistory { bytes: Some(0), ..AbiHistory::default() };
    let deadline = Instant::now() + LIMIT;
    let pattern = format!("{}*", keys::literal(&keys.abi_prefix()));
    let mut cursor = 0u64;
    loop {
        let (next, found): (u64, Vec<String>) = redis::cmd("SCAN")
            .arg((cursor, "MATCH", &pattern, "COUNT", SCAN))
            .query_async(connection)
            .await?;
        if !found.is_empty() {
            let mut pipe = redis::pipe();
            for key in &found {
                pipe.cmd("ZCARD").arg(key);
                pipe.cmd("MEMORY").arg(("USAGE", key));
            }
            let replies: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(connection).await?;
            let number = |reply: &RedisResult<Value>| match reply {
                Ok(Value::Int(number)) => u64::try_from(*number).ok(),
                _ => None,
            };
            for pair in replies.chunks(2) {
                history.contracts += 1;
                history.versions += pair.first().and_then(number).unwrap_or_default();
                history.bytes = history.bytes.zip(pair.get(1).and_then(number)).map(|(sum, one)| sum + one);
            }
        }
        cursor = next;
        history.complete = cursor == 0;
        if history.complete || Instant::now() >= deadline {
            return Ok(history);
        }
    }
}

/// A key's memory, 0 where there is none; `None` where this user may not ask.
pub(super) async fn memory(
    connection: &mut MultiplexedConnection,
    key: &str,
) -> Result<Option<u64>, Failure> {
    let bytes: RedisResult<Option<u64>> =
        redis::cmd("MEMORY").arg(("USAGE", key, "SAMPLES", SAMPLES)).query_async(connection).await;
    match bytes {
        Ok(bytes) => Ok(Some(bytes.unwrap_or(0))),
        Err(error) if error.code() == Some("NOPERM") => Ok(None),
        Err(error) => Err(error.into()),
    }
}
