//! The streams of dead letters in Redis.

use std::collections::VecDeque;

use redis::aio::MultiplexedConnection;

use super::{Letter, Select};
use crate::block::Checksum;
use crate::keys::{self, Keys};
use crate::publish::{EntryId, Failure};

/// Letters read at once, at most, and about how many bytes of them: one alone can hold megabytes.
const PAGE: usize = 512;
const PAGE_BYTES: usize = 8 << 20;

/// The dead letters of one subscription.
pub struct Letters {
    connection: MultiplexedConnection,
    chain_id: Checksum,
    /// Their stream.
    key: String,
    /// Their counters.
    failures: String,
}

/// Letters one after the other.
pub struct Walk<'a> {
    letters: &'a mut Letters,
    select: &'a Select,
    page: VecDeque<Letter>,
    /// How many to read next.
    count: usize,
    /// From where on to read; `None` at the end.
    next: Option<EntryId>,
}

// === impl Letters ===

impl Letters {
    /// Those of a subscription.
    pub fn new(
        connection: MultiplexedConnection,
        keys: &Keys,
        chain_id: Checksum,
        subscription: &str,
    ) -> Letters {
        Letters { connection, chain_id, key: keys.dead(subscription), failures: keys.failures(subscription) }
    }

    /// The subscriptions that have dead letters, by name.
    pub async fn subscriptions(
        connection: &mut MultiplexedConnection,
        keys: &Keys,
    ) -> Result<Vec<String>, Failure> {
        let start = keys.dead("");
        let mut found = Vec::new();
        let mut cursor = 0u64;
        loop {
            let page: (u64, Vec<String>) = redis::cmd("SCAN")
                .arg((
                    cursor,
                    "MATCH",
                    format!("{}*", keys::literal(&start)),
                    "COUNT",
                    1000,
                    "TYPE",
                    "stream",
                ))
                .query_async(connection)
                .await?;
            found.extend(page.1.iter().filter_map(|key| key.strip_prefix(&start)).map(str::to_owned));
            cursor = page.0;
            if cursor == 0 {
                found.sort();
                found.dedup();
                return Ok(found);
            }
        }
    }

    /// How many there are.
    pub async fn count(&mut self) -> Result<u64, Failure> {
        Ok(redis::cmd("XLEN").arg(&self.key).query_async(&mut self.connection).await?)
    }

    /// Goes through those that are meant, in order. Letters can be removed meanwhile.
    pub fn walk<'a>(&'a mut self, select: &'a Select) -> Walk<'a> {
        self.walk_from(select, None)
    }

    /// The same, leaving out those before `from`.
    pub fn walk_from<'a>(&'a mut self, select: &'a Select, from: Option<EntryId>) -> Walk<'a> {
        Walk {
            next: Some(select.first().max(from.unwrap_or_default())),
            letters: self,
            select,
            page: VecDeque::new(),
            count: PAGE / 8,
        }
    }

    /// The counter of an event.
    pub async fn failures(&mut self, event_id: &str) -> Result<Option<u64>, Failure> {
        Ok(redis::cmd("HGET").arg((&self.failures, event_id)).query_async(&mut self.connection).await?)
    }

    /// Removes letters (each by its id and its event's) and their counters, all or none of them.
    pub async fn remove(&mut self, letters: &[(EntryId, String)]) -> Result<u64, Failure> {
        if letters.is_empty() {
            return Ok(0);
        }
        let ids: Vec<String> = letters.iter().map(|(id, _)| id.to_string()).collect();
        let events: Vec<&String> =
            letters.iter().map(|(_, event)| event).filter(|id| !id.is_empty()).collect();
        let mut transaction = redis::pipe();
        transaction.atomic().cmd("XDEL").arg(&self.key).arg(ids);
        if !events.is_empty() {
            transaction.cmd("HDEL").arg(&self.failures).arg(events).ignore();
        }
        let (removed,): (u64,) = transaction.query_async(&mut self.connection).await?;
        Ok(removed)
    }
}

// === impl Walk ===

impl Walk<'_> {
    /// The next one that is meant.
    pub async fn next(&mut self) -> Result<Option<Letter>, Failure> {
        loop {
            while let Some(letter) = self.page.pop_front() {
                let event = match self.select.needs_event() {
                    true => letter.event(&self.letters.chain_id).ok(),
                    false => None,
                };
                if self.select.takes(&letter, event.as_ref()) {
                    return Ok(Some(letter));
                }
            }
            let Some(from) = self.next else { return Ok(None) };
            let last = self.select.last().map_or("+".to_owned(), |id| id.to_string());
            let page: Vec<Letter> = redis::cmd("XRANGE")
                .arg((&self.letters.key, from.to_string(), last, "COUNT", self.count))
                .query_async(&mut self.letters.connection)
                .await?;
            self.next = page.last().filter(|_| page.len() == self.count).map(|letter| letter.id.next());
            let bytes: usize = page.iter().map(Letter::bytes).sum();
            let fit = PAGE_BYTES.checked_div(bytes / page.len().max(1)).unwrap_or(PAGE);
            self.count = fit.min(self.count * 2).clamp(1, PAGE);
            self.page = page.into();
        }
    }
}
