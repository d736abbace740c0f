//! Whether the Redis server is set up so that it keeps what is published into it: version, eviction, persistence, memory,
//! role. What INFO tells needs no CONFIG, which many servers forbid; what only CONFIG GET tells is left out there.

mod facts;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisResult, Value, from_redis_value};
use tracing::{error, warn};

use super::failure::Failure;
use crate::keys::Keys;
use facts::Facts;

/// So many of the stream's nodes (4 kB each) are looked at for their size.
const SAMPLES: u32 = 1_000;

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Check {
    /// Whether it drops keys when its memory is full.
    Eviction,
    /// Whether a restart brings the data back.
    Persistence,
    /// Whether the stream has room up to its cap.
    Memory,
    /// Whether it takes writes at all.
    Role,
    /// Whether the server tells all this.
    Permission,
}

/// Something that an operator should change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Of which check.
    pub check: Check,
    /// Data will be lost; otherwise it is handled, or not sure.
    pub loses_data: bool,
    /// What it means.
    pub meaning: &'static str,
    /// How the server is set up.
    pub found: String,
    /// What to set, and where.
    pub change: String,
}

/// Looks at the server. `cap`: the most entries the stream may have (`xtrim.maxEntries`), if there is a limit. A version that is too old,
/// or a cluster that would spread the keys, is [`Failure::Unfit`].
pub async fn look(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    cap: Option<u64>,
) -> Result<Vec<Finding>, Failure> {
    let mut questions = redis::pipe();
    questions.cmd("INFO").cmd("CONFIG").arg(("GET", "appendfsync")).cmd("CONFIG").arg(("GET", "save"));
    questions
        .xlen(&keys.events)
        .cmd("MEMORY")
        .arg(("USAGE", &keys.events, "SAMPLES", SAMPLES))
        .ignore_errors();
    let replies: Vec<RedisResult<Value>> = questions.query_async(connection).await?;
    let mut replies = replies.into_iter().map(Result::ok);
    let mut reply = || replies.next().flatten();
    let facts = Facts {
        info: read::<String>(reply()).map(|text| facts::fields(&text)).unwrap_or_default(),
        appendfsync: setting(reply()),
        save: setting(reply()),
        entries: read(reply()).unwrap_or_default(),
        stream_bytes: read(reply()).unwrap_or_default(),
    };
    facts.check_version()?;
    facts.check_cluster(keys)?;
    Ok(facts.findings(cap))
}

fn read<T: FromRedisValue>(reply: Option<Value>) -> Option<T> {
    reply.and_then(|value| from_redis_value(value).ok())
}

/// What CONFIG GET answers: name and value.
fn setting(reply: Option<Value>) -> Option<String> {
    read::<Vec<String>>(reply)?.into_iter().nth(1)
}

/// What was said already, so that nothing is said twice.
#[derive(Debug, Default)]
pub struct Said(Vec<Check>);

// === impl Finding ===

impl Finding {
    fn say(&self) {
        let (found, change) = (&self.found, &self.change);
        if self.loses_data {
            error!(check = self.check.name(), found, change, "{}", self.meaning);
        } else {
            warn!(check = self.check.name(), found, change, "{}", self.meaning);
        }
    }
}

// === impl Said ===

impl Said {
    /// Says what is new, and forgets what is mended: should it come back, it is said again.
    pub fn say(&mut self, findings: &[Finding]) {
        for finding in findings.iter().filter(|finding| !self.0.contains(&finding.check)) {
            finding.say();
        }
        self.0 = findings.iter().map(|finding| finding.check).collect();
    }
}

// === impl Check ===

impl Check {
    /// All of them.
    pub const ALL: [Check; 5] =
        [Check::Eviction, Check::Persistence, Check::Memory, Check::Role, Check::Permission];

    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Check::Eviction => "eviction",
            Check::Persistence => "persistence",
            Check::Memory => "memory",
            Check::Role => "role",
            Check::Permission => "permission",
        }
    }
}
