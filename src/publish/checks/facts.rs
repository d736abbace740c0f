//! What a Redis server says of itself, and what is wrong with that.

use std::collections::HashMap;

use super::{Check, Finding};
use crate::keys::Keys;
use crate::publish::failure::Failure;

/// The oldest version that knows all commands used: `XTRIM MINID` and its `LIMIT` came with it.
const OLDEST: (u32, u32) = (6, 2);

/// What an entry takes in Redis' memory where the stream is too short to measure it: about what events of
/// all kinds take on a busy chain.
const USUAL_ENTRY_BYTES: u64 = 1_000;

/// Entries from which on the stream itself tells what one takes.
const MEASURABLE: u64 = 10_000;

/// What the server says of itself.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) info: HashMap<String, String>,
    /// `None` where CONFIG is forbidden.
    pub(super) appendfsync: Option<String>,
    /// The same; empty if no snapshots are made.
    pub(super) save: Option<String>,
    /// Entries of the events stream and the bytes it takes.
    pub(super) entries: u64,
    pub(super) stream_bytes: u64,
}

/// The lines of INFO, by name.
pub(super) fn fields(info: &str) -> HashMap<String, String> {
    info.lines().filter_map(|line| line.split_once(':')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

// === impl Facts ===

impl Facts {
    fn text(&self, name: &str) -> &str {
        self.info.get(name).map(String::as_str).unwrap_or_default()
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_default()
    }

    pub(super) fn check_version(&self) -> Result<(), Failure> {
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

    pub(super) fn check_cluster(&self, keys: &Keys) -> Result<(), Failure> {
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

    pub(super) fn findings(&self, cap: Option<u64>) -> Vec<Finding> {
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
