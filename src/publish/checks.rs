//! Whether the Redis server is set up so that it keeps what is published into it: version, eviction, persistence, memory,
//! role. What INFO tells needs no CONFIG, which many servers forbid; what only CONFIG GET tells is left out there.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisResult, Value, from_redis_value};
use tracing::{error, warn};

use super::failure::Failure;
use crate::keys::Keys;

/// The oldest version that knows all commands used: `XTRIM MINID` and its `LIMIT` came with it.
const OLDEST: (u32, u32) = (6, 2);

/// What an entry takes in Redis' memory where the stream is too short to measure it: about what events of
/// all kinds take on a busy chain.
const USUAL_ENTRY_BYTES: u64 = 1_000;

/// Entries from which on the stream itself tells what one takes.
const MEASURABLE: u64 = 10_000;

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

/// What the server says of itself.
#[derive(Debug, Default)]
struct Facts {
    info: HashMap<String, String>,
    /// `None` where CONFIG is forbidden.
    appendfsync: Option<String>,
    /// The same; empty if no snapshots are made.
    save: Option<String>,
    /// Entries of the events stream and the bytes it takes.
    entries: u64,
    stream_bytes: u64,
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
        info: read::<String>(reply()).map(|text| fields(&text)).unwrap_or_default(),
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

fn fields(info: &str) -> HashMap<String, String> {
    info.lines().filter_map(|line| line.split_once(':')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
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

// === impl Facts ===

impl Facts {
    fn text(&self, name: &str) -> &str {
        self.info.get(name).map(String::as_str).unwrap_or_default()
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_default()
    }

    fn check_version(&self) -> Result<(), Failure> {
        let version = self.text("redis_version");
        let mut numbers = version.split('.').map(|part| part.parse::<u32>());
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < OLDEST => Err(Failure::Unfit(format!(
                "this Redis is version {version}: {}.{} or newer is needed, 7.0 or newer advised",
                OLDEST.0, OLDEST.1
            ))),
            // Not told, or told in a way of its own: what it cannot do shows.
            _ => Ok(()),
        }
    }

    fn check_cluster(&self, keys: &Keys) -> Result<(), Failure> {
        let tag = hash_tag(&keys.chain);
        if self.text("cluster_enabled") != "1" || (tag.is_some() && tag == hash_tag(&keys.events)) {
            return Ok(());
        }
        Err(Failure::Unfit(
            "this Redis is a cluster, where all keys of a namespace must lie in one slot: give redis.namespace a hash tag, as in \
             `{parser2}`"
                .to_owned(),
        ))
    }

    fn findings(&self, cap: Option<u64>) -> Vec<Finding> {
        if self.info.is_empty() {
            return vec![Finding {
                check: Check::Permission,
                loses_data: false,
                meaning: "Redis does not tell this user how it is set up: make sure yourself that it neither evicts nor forgets",
                found: "INFO is refused".to_owned(),
                change: "ACL SETUSER … +info".to_owned(),
            }];
        }
        let all = [self.eviction(), self.persistence(), self.memory(cap), self.role()];
        all.into_iter().flatten().collect()
    }

    fn eviction(&self) -> Option<Finding> {
        let policy = self.text("maxmemory_policy");
        if policy.is_empty() || policy == "noeviction" {
            return None;
        }
        let (limit, evicted) = (self.number("maxmemory"), self.number("evicted_keys"));
        let (loses_data, meaning) = match (limit, policy.starts_with("volatile")) {
            (0, _) => (
                false,
                "Redis would drop keys when its memory is full; as long as maxmemory is 0 it does not",
            ),
            (_, true) => (
                false,
                "Redis drops keys that have a time limit when its memory is full: the writer's lease, with which publishing stops, \
                 consumers' locks and failure counters",
            ),
            (_, false) => (
                true,
                "Redis drops any key when its memory is full: the events stream with its consumer groups, the checkpoint, ABI histories",
            ),
        };
        Some(Finding {
            check: Check::Eviction,
            loses_data,
            meaning,
            found: format!("maxmemory-policy {policy}, maxmemory {limit}, {evicted} keys evicted so far"),
            change: "maxmemory-policy noeviction".to_owned(),
        })
    }

    fn persistence(&self) -> Option<Finding> {
        let change = "appendonly yes, appendfsync everysec".to_owned();
        let save = self.save.as_deref();
        let finding = |loses_data, meaning, found: String| {
            Some(Finding { check: Check::Persistence, loses_data, meaning, found, change: change.clone() })
        };
        match (self.text("aof_enabled"), save) {
            ("1", _) => match self.appendfsync.as_deref() {
                Some("no") => finding(
                    false,
                    "Redis leaves it to the system when the append-only file is written out: if the machine goes down, the last half \
                     minute of events and acknowledgements is gone, and published again",
                    "appendonly yes, appendfsync no".to_owned(),
                ),
                _ => None,
            },
            ("0", Some("")) => finding(
                true,
                "Redis keeps its data in memory alone: a restart loses all, the events stream with its consumer groups, the checkpoint, ABI histories",
                "appendonly no, save \"\"".to_owned(),
            ),
            ("0", Some(save)) => finding(
                false,
                "Redis saves snapshots only: a crash loses all since the last one. Events are published again, consumer groups stand where they \
                 were then",
                format!("appendonly no, save \"{save}\""),
            ),
            ("0", None) => finding(
                false,
                "Redis saves snapshots at most, if it keeps anything (this user may not ask, CONFIG is forbidden): a crash loses all since \
                 the last one",
                "appendonly no".to_owned(),
            ),
            _ => None,
        }
    }

    fn memory(&self, cap: Option<u64>) -> Option<Finding> {
        let limit = self.number("maxmemory");
        let (name, room) = match limit {
            0 => ("the machine's memory", self.number("total_system_memory")),
            limit => ("maxmemory", limit),
        };
        if room == 0 {
            return None;
        }
        let finding = |meaning, found, change| {
            Some(Finding { check: Check::Memory, loses_data: false, meaning, found, change })
        };
        let Some(cap) = cap else {
            // At maxmemory publishing waits; without it the system ends Redis some day.
            return (limit == 0).then_some(()).and_then(|()| {
                finding(
                    "nothing bounds the events stream: it grows until the machine's memory is full",
                    format!("no xtrim.maxEntries, maxmemory 0, {name} {}", mebibytes(room)),
                    "xtrim.maxEntries in the parser's configuration, or maxmemory".to_owned(),
                )
            });
        };
        let measured = self.entries >= MEASURABLE && self.stream_bytes > 0;
        let each = if measured { self.stream_bytes / self.entries } else { USUAL_ENTRY_BYTES };
        let others = self.number("used_memory").saturating_sub(self.stream_bytes);
        let needed = others.saturating_add(cap.saturating_mul(each));
        if needed <= room {
            return None;
        }
        let fits = room.saturating_sub(others) / each.max(1);
        let how = if measured { "measured" } else { "assumed" };
        let meaning = match limit {
            0 => "the events stream may grow beyond the machine's memory",
            _ => {
                "the events stream may grow beyond Redis' memory: Redis then refuses writes, and publishing waits, before the stream is full"
            }
        };
        finding(
            meaning,
            format!(
                "xtrim.maxEntries {cap}, {each} bytes an entry ({how}): {} with what else there is, and {name} is {}",
                mebibytes(needed),
                mebibytes(room)
            ),
            match limit {
                0 => format!(
                    "xtrim.maxEntries to {fits} or less, and maxmemory, or a machine with more memory"
                ),
                _ => format!(
                    "maxmemory to {} or more, or xtrim.maxEntries to {fits} or less",
                    mebibytes(needed)
                ),
            },
        )
    }

    fn role(&self) -> Option<Finding> {
        if self.text("role") != "slave" {
            return None;
        }
        let master = format!("{}:{}", self.text("master_host"), self.text("master_port"));
        Some(Finding {
            check: Check::Role,
            loses_data: false,
            meaning: "this Redis is a replica, which takes no writes: publishing waits until it is made a master",
            found: format!("replica of {master}"),
            change: format!("redis.url to the master, {master}"),
        })
    }
}

/// The part of a key that alone decides its slot in a cluster, if it has one.
fn hash_tag(key: &str) -> Option<&str> {
    let (tag, _) = key.split_once('{')?.1.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// In the unit that `maxmemory` is written in, rounded up.
fn mebibytes(bytes: u64) -> String {
    format!("{}mb", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(info: &str) -> Facts {
        Facts { info: fields(&info.replace(' ', "\r\n")), ..Facts::default() }
    }

    #[test]
    fn versions_too_old_are_refused() {
        for old in ["6.0.16", "5.0.14", "2.8"] {
            let failure = facts(&format!("redis_version:{old}")).check_version().unwrap_err();
            assert!(
                matches!(&failure, Failure::Unfit(text) if text.contains(old) && text.contains("6.2 or newer"))
            );
        }
        for good in ["6.2.0", "7.0.15", "10.1.0", "7.2.4-custom", "unknown", ""] {
            assert_eq!(facts(&format!("redis_version:{good}")).check_version(), Ok(()), "{good}");
        }
    }

    #[test]
    fn without_config_snapshots_are_not_taken_for_sure() {
        let mut facts = facts("aof_enabled:0 maxmemory_policy:noeviction role:master");
        assert!(facts.findings(Some(1))[0].meaning.contains("snapshots at most"));
        facts.save = Some("3600 1".to_owned());
        assert!(facts.findings(Some(1))[0].meaning.contains("snapshots only"));
    }

    #[test]
    fn what_the_stream_may_need_is_held_against_the_memory() {
        let aof = "aof_enabled:1 maxmemory_policy:noeviction role:master";
        let memory = |maxmemory: u64, entries: u64, bytes: u64, cap: Option<u64>| {
            let used = bytes + (10 << 20);
            let mut facts = facts(&format!(
                "{aof} maxmemory:{maxmemory} used_memory:{used} total_system_memory:{}",
                1u64 << 30
            ));
            (facts.entries, facts.stream_bytes) = (entries, bytes);
            facts.findings(cap)
        };
        // 10 MiB of other data; 100,000 entries of 500 bytes are measured: a million takes 477 MiB.
        assert_eq!(memory(488 << 20, 100_000, 50_000_000, Some(1_000_000)), []);
        let found = memory(486 << 20, 100_000, 50_000_000, Some(1_000_000));
        assert_eq!((found.len(), found[0].check, found[0].loses_data), (1, Check::Memory, false));
        assert!(found[0].found.contains("500 bytes an entry (measured): 487mb"), "{:?}", found[0]);
        assert!(
            found[0].change.contains("maxmemory to 487mb or more, or xtrim.maxEntries to 998"),
            "{:?}",
            found[0]
        );
        // Without a limit of its own the machine's memory counts; without a cap nothing is sure.
        assert_eq!(memory(0, 100_000, 50_000_000, Some(2_000_000)), []);
        assert_eq!(memory(0, 100_000, 50_000_000, Some(3_000_000))[0].check, Check::Memory);
        assert!(memory(0, 0, 0, None)[0].meaning.contains("nothing bounds"));
        // Redis refuses writes then, and publishing waits.
        assert_eq!(memory(1 << 20, 0, 0, None), []);
        // Too short to measure.
        let found = memory(100 << 20, 10, 1_000_000, Some(10_000_000));
        assert!(found[0].found.contains("1000 bytes an entry (assumed)"), "{:?}", found[0]);
    }
}
