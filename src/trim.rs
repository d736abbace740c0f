//! Trimming the events stream: what all consumer groups have read and acknowledged goes, nothing else.
//!
//! Of each group the oldest pending entry bounds what may go, or, with none pending, the last delivered one (which
//! may go itself). The least bound of all groups counts, and `keepBlocks` holds more back. With no group at
//! all `keepBlocks` alone decides; without it nothing is trimmed then.
//!
//! `maxEntries` caps the stream: with `whenFull: pause` the writer waits at the cap
//! ([`crate::publish::writer::Settings::pause_at`]) and trimming goes on every second; with `whenFull: trim`
//! the oldest entries go whoever needs them: counted, and logged as an error where a group had not read them.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, error, info, warn};

use crate::keys::Keys;
use crate::publish::writer::Progress;
use crate::publish::{EntryId, Failure, Server, StreamIds};
use crate::stream;

/// So many entries at most are removed by one command, so that Redis serves others in between.
const STEP: u64 = 10_000;

/// Rounds follow each other no faster than this, also when the stream is full.
const SPACING: Duration = Duration::from_secs(1);

/// What a full stream loses is said so often.
const SAID_AGAIN: Duration = Duration::from_secs(60);

/// What is trimmed (`xtrim` in the configuration).
#[derive(Debug, Clone)]
pub struct Policy {
    /// Time between two rounds.
    pub interval: Duration,
    /// Entries of so many of the newest blocks stay whatever the groups have read.
    pub keep_blocks: Option<u32>,
    /// The stream's cap, for `whenFull: trim`: beyond it the oldest entries go, read or not.
    pub force_above: Option<u64>,
}

/// What trimming did and what bounds it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Rounds done.
    pub rounds: u64,
    /// Entries removed that everybody had read.
    pub trimmed: u64,
    /// Entries removed because the stream was full.
    pub forced: u64,
    /// Entries below this id may go; `None` if there is nothing to tell what may.
    pub bound: Option<EntryId>,
    /// The group that bounds it, if one does.
    pub held_by: Option<String>,
}

/// A consumer group of the stream.
#[derive(Debug)]
struct Group {
    /// Its name, as far as it is text.
    name: String,
    /// It needs no entry below this one.
    bound: EntryId,
}

/// What had to go because the stream was full.
#[derive(Debug, Default)]
pub struct Forced {
    /// Entries.
    removed: u64,
    /// Groups that had not read or acknowledged some of them.
    behind: BTreeSet<String>,
}

/// What was forced out since it was last said.
#[derive(Debug, Default)]
struct Unsaid {
    forced: Forced,
    said: Option<Instant>,
}

/// Trims round after round until dropped. A Redis that fails or restarts is waited for.
pub async fn run(
    server: &Server,
    keys: &Keys,
    policy: &Policy,
    stream_ids: StreamIds,
    mut progress: watch::Receiver<Progress>,
    status: &watch::Sender<Status>,
) {
    let mut connection = None;
    let mut failing = false;
    let mut unsaid = Unsaid::default();
    loop {
        match attempt(&mut connection, server, keys, policy, stream_ids, status).await {
            Ok(forced) => {
                if failing {
                    info!("trimming the events stream again");
                }
                unsaid.say(keys, policy, forced);
            }
            Err(failure) => {
                if !failing {
                    warn!(reason = %failure, "cannot trim the events stream for now; trying again");
                }
                connection = None;
            }
        }
        failing = connection.is_none();
        let next = Instant::now() + policy.interval;
        sleep(SPACING.min(policy.interval)).await;
        let full = |progress: &Progress| {
            progress.paused || policy.force_above.is_some_and(|cap| progress.stream_length > cap)
        };
        tokio::select! {
            () = sleep_until(next) => {}
            // Without a writer any more the interval alone counts.
            Ok(_) = progress.wait_for(full) => {}
        }
    }
}

async fn attempt(
    connection: &mut Option<MultiplexedConnection>,
    server: &Server,
    keys: &Keys,
    policy: &Policy,
    stream_ids: StreamIds,
    status: &watch::Sender<Status>,
) -> Result<Forced, Failure> {
    if let Some(connection) = connection {
        match round(connection, keys, policy, stream_ids, status).await {
            // Closed by Redis, perhaps, for having been idle since the last round (its `timeout`).
            Err(Failure::Disconnected(_)) => {}
            ended => return ended,
        }
    }
    let connection = connection.insert(server.connect_control().await?);
    round(connection, keys, policy, stream_ids, status).await
}

/// Trims once; what had to go because the stream was full.
pub async fn round(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    policy: &Policy,
    stream_ids: StreamIds,
    status: &watch::Sender<Status>,
) -> Result<Forced, Failure> {
    let groups: Vec<Group> =
        stream::groups(connection, &keys.events).await?.into_iter().map(Group::of).collect();
    let slowest = groups.iter().min_by_key(|group| group.bound);
    let kept = match policy.keep_blocks {
        Some(count) => Some(oldest_kept(connection, keys, stream_ids, count).await?),
        None => None,
    };
    let bound = match (slowest.map(|group| group.bound), kept) {
        (Some(read), Some(kept)) => Some(read.min(kept)),
        (read, kept) => read.or(kept),
    };
    let trimmed = match bound {
        Some(bound) => remove(connection, &keys.events, "MINID", &bound.to_string()).await?,
        None => 0,
    };
    let held_by = slowest.filter(|group| Some(group.bound) == bound).map(|group| group.name.clone());
    if trimmed > 0 {
        debug!(trimmed, held_by, "trimmed the events stream");
    }
    let forced = match policy.force_above {
        Some(cap) => force(connection, keys, &groups, cap).await?,
        None => Forced::default(),
    };
    status.send_modify(|status| {
        status.rounds += 1;
        status.trimmed += trimmed;
        status.forced += forced.removed;
        status.bound = bound;
        status.held_by = held_by;
    });
    Ok(forced)
}

/// The id that all entries of the newest `count` blocks have or exceed, counted back from the checkpoint's.
async fn oldest_kept(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    stream_ids: StreamIds,
    count: u32,
) -> Result<EntryId, Failure> {
    let (num, part): (Option<u32>, Option<u64>) =
        redis::cmd("HMGET").arg((&keys.sync, "block_num", "part")).query_async(connection).await?;
    let Some(num) = num else { return Ok(EntryId::ZERO) };
    let whole = if part.is_some() { num.saturating_sub(1) } else { num };
    let oldest = whole.saturating_add(1).saturating_sub(count);
    match stream_ids {
        StreamIds::Block => Ok(EntryId { first: oldest.into(), second: 0 }),
        StreamIds::Auto => Ok(stream::before_block(connection, &keys.events, oldest).await?.next()),
    }
}

/// Removes entries as XTRIM does, in steps.
async fn remove(
    connection: &mut MultiplexedConnection,
    stream: &str,
    strategy: &str,
    threshold: &str,
) -> Result<u64, Failure> {
    let mut removed = 0;
    loop {
        // `~` removes whole nodes, which costs little; the rest of the last node follows exactly.
        let mut command = redis::cmd("XTRIM");
        command.arg((stream, strategy, "~", threshold, "LIMIT", STEP));
        match command.query_async::<u64>(connection).await? {
            0 => break,
            count => removed += count,
        }
    }
    let rest: u64 =
        redis::cmd("XTRIM").arg((stream, strategy, "=", threshold)).query_async(connection).await?;
    Ok(removed + rest)
}

/// Removes the oldest entries beyond `cap`.
async fn force(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    groups: &[Group],
    cap: u64,
) -> Result<Forced, Failure> {
    let stream = keys.events.as_str();
    let length: u64 = redis::cmd("XLEN").arg(stream).query_async(connection).await?;
    if length <= cap {
        return Ok(Forced::default());
    }
    let mut needed = Vec::with_capacity(groups.len());
    for group in groups {
        needed.push((group, first_from(connection, stream, &group.bound.to_string()).await?));
    }
    let removed = remove(connection, stream, "MAXLEN", &cap.to_string()).await?;
    let first = first_from(connection, stream, "-").await?;
    let lost = |oldest: &EntryId| first.is_none_or(|first| *oldest < first);
    let behind = needed
        .iter()
        .filter(|(_, oldest)| oldest.as_ref().is_some_and(lost))
        .map(|(group, _)| group.name.clone())
        .collect();
    Ok(Forced { removed, behind })
}

/// Id of the first entry from `start` on.
async fn first_from(
    connection: &mut MultiplexedConnection,
    stream: &str,
    start: &str,
) -> Result<Option<EntryId>, Failure> {
    let entries: redis::streams::StreamRangeReply =
        redis::cmd("XRANGE").arg((stream, start, "+", "COUNT", 1)).query_async(connection).await?;
    entries.ids.first().map(|entry| stream::id(&entry.id)).transpose()
}

// === impl Unsaid ===

impl Unsaid {
    /// What is to be said now: at once what is lost first, and in sums what follows, since a full stream loses something every second.
    fn due(&mut self, more: Forced) -> Option<Forced> {
        self.forced.removed += more.removed;
        self.forced.behind.extend(more.behind);
        if self.forced.removed == 0 || self.said.is_some_and(|at| at.elapsed() < SAID_AGAIN) {
            return None;
        }
        self.said = Some(Instant::now());
        Some(std::mem::take(&mut self.forced))
    }

    fn say(&mut self, keys: &Keys, policy: &Policy, more: Forced) {
        let Some(Forced { removed, behind }) = self.due(more) else { return };
        let (stream, cap) = (&keys.events, policy.force_above);
        if behind.is_empty() {
            warn!(stream, removed, cap, "the events stream is full: removed the oldest entries");
        } else {
            let groups = Vec::from_iter(behind).join(", ");
            error!(
                stream,
                removed,
                cap,
                groups,
                "the events stream is full: removed the oldest entries, also some that consumer groups had not read or acknowledged"
            );
        }
    }
}

// === impl Group ===

impl Group {
    fn of(group: stream::Group) -> Group {
        // What was delivered last and is not pending may go too. Had the group read on since, its pending
        // entries would lie above; had it acknowledged all since, this is merely less than could go.
        let read = group.delivered.next();
        Group {
            name: String::from_utf8_lossy(&group.name).into_owned(),
            bound: group.oldest_pending.map_or(read, |oldest| read.min(oldest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forced(removed: u64, behind: &[&str]) -> Forced {
        Forced { removed, behind: behind.iter().map(|name| name.to_string()).collect() }
    }

    #[test]
    fn losses_are_said_at_once_and_then_in_sums() {
        let mut unsaid = Unsaid::default();
        assert!(unsaid.due(Forced::default()).is_none());
        assert_eq!(unsaid.due(forced(3, &["slow"])).map(|forced| forced.removed), Some(3));
        assert!(unsaid.due(forced(4, &["slow"])).is_none() && unsaid.due(forced(5, &["late"])).is_none());
        unsaid.said = unsaid.said.and_then(|at| at.checked_sub(SAID_AGAIN));
        let sum = unsaid.due(Forced::default()).expect("what was not said");
        assert_eq!(
            (sum.removed, Vec::from_iter(sum.behind)),
            (9, vec!["late".to_owned(), "slow".to_owned()])
        );
        assert!(unsaid.due(Forced::default()).is_none());
    }
}
