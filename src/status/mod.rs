//! What Redis alone tells of a namespace: how far the parser is, who runs it, the stream, its readers, and what is kept beside it.

mod groups;
mod sizes;

use redis::aio::MultiplexedConnection;
use serde::Serialize;

pub use groups::{Group, groups};
pub use sizes::{AbiHistory, DeadLetters, abi_history, dead_letters};

use crate::block::Checksum;
use crate::keys::Keys;
use crate::publish::{Checkpoint, Failure};
use crate::state::Report;
use crate::stream;

/// All of it. Numbers that Redis does not give (an ACL forbids the command) are `None`.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// The chain that the namespace belongs to.
    pub chain_id: String,
    /// The parser that holds the lease.
    pub parser: Option<Parser>,
    /// What the running parser, or one that failed within the last day, says of itself.
    pub state: Option<Report>,
    /// How far publishing has come; `None` before the first block.
    pub checkpoint: Option<At>,
    /// How old the newest block published is, by the running parser; without one, by the time in the newest event.
    pub lag_seconds: Option<f64>,
    /// How many blocks it is behind the node's head; only a running parser knows.
    pub lag_blocks: Option<u32>,
    /// The events stream.
    pub stream: Stream,
    /// Its consumer groups, by name.
    pub groups: Vec<Group>,
    /// What the parser could not decode.
    pub dead_letters: DeadLetters,
    /// The ABI history of all contracts.
    pub abi_history: AbiHistory,
}

/// Who holds the lease: `HOST:PROCESS:RANDOM`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Parser {
    /// The whole token.
    pub token: String,
    /// The machine's name.
    pub host: String,
    /// The process' number there.
    pub pid: Option<u32>,
    /// When it was started, in ISO 8601, if it says so.
    pub since: Option<String>,
}

/// The checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct At {
    /// The newest block published.
    pub block_num: u32,
    /// Its id.
    pub block_id: String,
    /// `Some` while only so many of its entries are published.
    pub part: Option<u64>,
    /// The chain's last irreversible block at that time.
    pub last_irreversible: u32,
    /// The first block ever published here.
    pub first_block: Option<u32>,
    /// When it was written, in ISO 8601.
    pub last_updated: Option<String>,
}

/// The events stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Stream {
    /// How many entries it has.
    pub entries: u64,
    /// Block of its oldest entry.
    pub first_block: Option<u32>,
    /// Block of its newest entry, but for events published again.
    pub last_block: Option<u32>,
    /// That block's time, in ISO 8601.
    pub last_block_time: Option<String>,
    /// Its memory in Redis, estimated from samples.
    pub bytes: Option<u64>,
}

/// Reads all of it.
pub async fn status(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    chain_id: &Checksum,
) -> Result<Status, Failure> {
    let state = Report::load(connection, keys).await?;
    let token: Option<String> = redis::cmd("GET").arg(&keys.writer).query_async(connection).await?;
    let parser = token.map(|token| Parser::of(token, state.as_ref()));
    let stream = stream(connection, keys).await?;
    // The report of a parser that failed says how it was then.
    let running = state.as_ref().filter(|_| parser.is_some());
    let age = stream.last_block_time.as_deref().and_then(seconds_since);
    Ok(Status {
        chain_id: chain_id.to_string(),
        lag_seconds: running.and_then(|report| report.lag_seconds).or(age),
        lag_blocks: running.and_then(|report| report.lag_blocks),
        checkpoint: checkpoint(connection, keys).await?,
        groups: groups(connection, keys).await?,
        dead_letters: dead_letters(connection, keys).await?,
        abi_history: abi_history(connection, keys).await?,
        parser,
        state,
        stream,
    })
}

async fn checkpoint(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<Option<At>, Failure> {
    let checkpoint = Checkpoint::load(connection, keys).await?;
    let last_updated: Option<String> =
        redis::cmd("HGET").arg((&keys.sync, "last_updated")).query_async(connection).await?;
    Ok(checkpoint.block.map(|block| At {
        block_num: block.num,
        block_id: block.id.to_string(),
        part: checkpoint.part,
        last_irreversible: checkpoint.last_irreversible,
        first_block: checkpoint.first_block,
        last_updated,
    }))
}

/// The events stream; an empty one where there is none.
pub async fn stream(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<Stream, Failure> {
    let entries = redis::cmd("XLEN").arg(&keys.events).query_async(connection).await?;
    let first = stream::oldest(connection, &keys.events, "-").await?;
    let last = stream::newest(connection, &keys.events, "+").await?;
    Ok(Stream {
        entries,
        first_block: first.map(|entry| entry.block_num),
        last_block: last.as_ref().map(|entry| entry.block_num),
        last_block_time: last.and_then(|entry| entry.block_time),
        bytes: sizes::memory(connection, &keys.events).await?,
    })
}

/// How long ago a time of the chain is.
fn seconds_since(time: &str) -> Option<f64> {
    let age = crate::time::now().as_secs_f64() - crate::time::parse(time)?.as_secs_f64();
    Some(age.max(0.0))
}

// === impl Parser ===

impl Parser {
    fn of(token: String, report: Option<&Report>) -> Parser {
        let report = report.filter(|report| report.instance == token);
        let mut parts = token.rsplitn(3, ':');
        let (_random, pid, host) = (parts.next(), parts.next(), parts.next());
        Parser {
            host: host.map_or_else(String::new, |host| host.split('/').next().unwrap_or(host).to_owned()),
            pid: pid.and_then(|pid| pid.parse().ok()),
            since: report.map(|report| report.started.clone()),
            token,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_tells_host_and_process() {
        let parser = Parser::of("box/0a1b2c3d:4711:00ff".to_owned(), None);
        assert_eq!((parser.host.as_str(), parser.pid, parser.since), ("box", Some(4711), None));
        // A token of something else is shown as it is.
        let foreign = Parser::of("somebody".to_owned(), None);
        assert_eq!((foreign.host.as_str(), foreign.pid, foreign.token.as_str()), ("", None, "somebody"));
    }
}
