//! What the parser is doing, in one word with a reason: the same in the log, the progress line, over HTTP and in Redis.

use std::fmt;

use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};

use crate::keys::Keys;
use crate::publish::Failure;

/// The word. `docs/metrics.md` says what each means and what is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Connecting to the node.
    Connecting,
    /// Nothing can be done until the node does something.
    WaitingForNode,
    /// Another parser holds the lease.
    Standby,
    /// Reading and publishing blocks that are not new any more.
    CatchingUp,
    /// Reading and publishing blocks as they are made.
    Live,
    /// Redis cannot be reached or refuses writes.
    WaitingForRedis,
    /// An ABI is needed that only the chain API can give, and it does not answer.
    WaitingForChainApi,
    /// The events stream has as many entries as it may.
    PausedStreamFull,
    /// The node replaces blocks that cannot be replaced any more.
    ForkTooDeep,
    /// Told to stop; what is in flight is being finished.
    Stopping,
    /// Ended with an error.
    Failed,
}

/// What a running parser says of itself in `NS:state:CHAIN`, as JSON.
///
/// The key runs out by itself [`REPORT_TTL_MS`] after the parser has last renewed it; that of a parser that failed after
/// it had held the lease is kept for [`FAILED_TTL_MS`]. Any other end removes it. The parser that holds the lease writes it; one that
/// stands by does not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The word.
    pub state: State,
    /// Why, in a sentence; can be empty.
    pub reason: String,
    /// Since when, in ISO 8601.
    pub since: String,
    /// The node's endpoint in use, without secrets.
    pub endpoint: Option<String>,
    /// The node's head, as it says.
    pub head: Option<u32>,
    /// The newest block published.
    pub block: Option<u32>,
    /// The time in its header, in ISO 8601.
    pub block_time: Option<String>,
    /// The chain's last irreversible block.
    pub last_irreversible: Option<u32>,
    /// How old the newest block published is.
    pub lag_seconds: Option<f64>,
    /// How many blocks it is behind the node's head.
    pub lag_blocks: Option<u32>,
    /// Blocks published a second, lately.
    pub blocks_per_second: f64,
    /// Events published a second, lately.
    pub events_per_second: f64,
    /// The parser's version.
    pub version: String,
    /// The machine's name.
    pub host: String,
    /// The process' number on that machine.
    pub pid: u32,
    /// The token that this parser puts into `NS:writer:CHAIN` while it holds the lease.
    pub instance: String,
    /// When it was started, in ISO 8601.
    pub started: String,
    /// When this was written, in ISO 8601.
    pub updated: String,
}

/// How long a report stands without being renewed, in milliseconds.
pub const REPORT_TTL_MS: u64 = 15_000;

/// How long the report of a parser that failed stands, in milliseconds.
pub const FAILED_TTL_MS: u64 = 24 * 60 * 60 * 1_000;

// === impl Report ===

impl Report {
    /// What lies in Redis. A report that another version wrote in other words is none.
    pub async fn load(
        connection: &mut MultiplexedConnection,
        keys: &Keys,
    ) -> Result<Option<Report>, Failure> {
        let text: Option<String> = redis::cmd("GET").arg(&keys.state).query_async(connection).await?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }
}

// === impl State ===

impl State {
    /// All of them.
    pub const ALL: [State; 11] = [
        State::Connecting,
        State::WaitingForNode,
        State::Standby,
        State::CatchingUp,
        State::Live,
        State::WaitingForRedis,
        State::WaitingForChainApi,
        State::PausedStreamFull,
        State::ForkTooDeep,
        State::Stopping,
        State::Failed,
    ];

    /// The word itself.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Connecting => "connecting",
            State::WaitingForNode => "waiting-for-node",
            State::Standby => "standby",
            State::CatchingUp => "catching-up",
            State::Live => "live",
            State::WaitingForRedis => "waiting-for-redis",
            State::WaitingForChainApi => "waiting-for-chain-api",
            State::PausedStreamFull => "paused-stream-full",
            State::ForkTooDeep => "fork-too-deep",
            State::Stopping => "stopping",
            State::Failed => "failed",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_the_same_everywhere() {
        for state in State::ALL {
            assert_eq!(serde_json::to_value(state).expect("a word"), state.as_str());
            assert_eq!(serde_json::from_value::<State>(state.as_str().into()).expect("a word"), state);
        }
    }
}
