//! Events decoded again, on their way from `dead-letters replay` to the parser that may write: a stream in Redis.
//!
//! Only the holder of the lease adds to the events stream. So the command puts each event here, and the holder takes it in
//! one transaction with the removal of its dead letter, its counter and this request. A request whose letter is gone is
//! not carried out: a letter is published once, however often it is asked for.

use std::collections::HashSet;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Value};
use tokio::sync::OwnedSemaphorePermit;
use tracing::warn;

use super::{Letter, PARSER, Undone};
use crate::block::Position;
use crate::event::Kind;
use crate::keys::Keys;
use crate::out::Out;
use crate::publish::unit::Tally;
use crate::publish::{EntryId, Failure, Unit};
use crate::resp;

/// Requests that nobody has carried out are forgotten after so long: they were made with the ABIs of then.
const KEEP_SECONDS: u64 = 3600;

/// Requests taken at once, and about how many bytes of them.
const BATCH: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;

/// An event to be published in place of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Whose letter.
    pub subscription: String,
    /// The letter.
    pub letter: EntryId,
    /// Its event's id.
    pub event_id: String,
    /// Its block's id.
    pub block_id: String,
    /// The event as it is published now.
    pub event: String,
}

/// The requests in Redis.
pub struct Requests {
    connection: MultiplexedConnection,
    keys: Keys,
    undone: Undone,
    /// How many to read next.
    count: usize,
}

/// Requests that may be carried out, each with its own id.
#[derive(Debug, Default)]
pub struct Batch {
    requests: Vec<(EntryId, Request)>,
    /// Whether there was anything to look at.
    pub seen: bool,
}

// === impl Requests ===

impl Requests {
    /// Over a connection.
    pub fn new(connection: MultiplexedConnection, keys: Keys) -> Requests {
        Requests { connection, keys, undone: Undone::default(), count: BATCH / 8 }
    }

    /// Adds requests, all or none; gives their ids.
    pub async fn put(&mut self, requests: &[Request]) -> Result<Vec<EntryId>, Failure> {
        let mut transaction = redis::pipe();
        transaction.atomic();
        for request in requests {
            let fields = [
                ("sub", request.subscription.as_str()),
                ("letter", &request.letter.to_string()),
                ("event_id", &request.event_id),
                ("block_id", &request.block_id),
                ("event", &request.event),
            ];
            transaction.cmd("XADD").arg((&self.keys.replay, "*")).arg(&fields[..]);
        }
        transaction.expire(&self.keys.replay, KEEP_SECONDS as i64).ignore();
        let ids: Vec<String> = transaction.query_async(&mut self.connection).await?;
        ids.iter().map(|id| id.parse().map_err(|error| Failure::Fatal(format!("XADD: {error}")))).collect()
    }

    /// The first request that is waiting.
    pub async fn first(&mut self) -> Result<Option<EntryId>, Failure> {
        let first: Vec<(String, Value)> = redis::cmd("XRANGE")
            .arg((&self.keys.replay, "-", "+", "COUNT", 1))
            .query_async(&mut self.connection)
            .await?;
        Ok(first.first().and_then(|(id, _)| id.parse().ok()))
    }

    /// Takes requests back that were not carried out yet.
    pub async fn withdraw(&mut self, ids: &[EntryId]) -> Result<(), Failure> {
        for some in ids.chunks(BATCH) {
            let ids: Vec<String> = some.iter().map(EntryId::to_string).collect();
            redis::cmd("XDEL").arg(&self.keys.replay).arg(ids).exec_async(&mut self.connection).await?;
        }
        Ok(())
    }

    /// Those letters of a subscription that are still there.
    pub async fn left(
        &mut self,
        subscription: &str,
        letters: &[EntryId],
    ) -> Result<HashSet<EntryId>, Failure> {
        let key = self.keys.dead(subscription);
        let mut pipe = redis::pipe();
        for letter in letters {
            let id = letter.to_string();
            pipe.cmd("XRANGE").arg((&key, &id, &id));
        }
        let found: Vec<Vec<Letter>> = pipe.query_async(&mut self.connection).await?;
        Ok(found.into_iter().flatten().map(|letter| letter.id).collect())
    }

    /// The next requests that may be carried out. Those that may not, because the letter is gone or its block is undone, are
    /// removed.
    ///
    /// All that was read from the chain must be committed before, and nothing else may be handed to the writer until what is
    /// given here is.
    pub async fn next(&mut self) -> Result<Batch, Failure> {
        let page: Vec<(String, Value)> = redis::cmd("XRANGE")
            .arg((&self.keys.replay, "-", "+", "COUNT", self.count))
            .query_async(&mut self.connection)
            .await?;
        if page.is_empty() {
            return Ok(Batch::default());
        }
        let mut refused = Vec::new();
        let mut read: Vec<(EntryId, Request)> = Vec::new();
        let mut bytes = 0;
        for (id, fields) in page {
            let id: EntryId =
                id.parse().map_err(|error| Failure::Fatal(format!("{}: {error}", self.keys.replay)))?;
            match Request::read(fields) {
                Some(request) => {
                    bytes += request.event.len();
                    read.push((id, request));
                }
                None => {
                    warn!(key = self.keys.replay, %id, "a request that is none: removed");
                    refused.push(id);
                }
            }
            if bytes > BATCH_BYTES {
                break;
            }
        }
        let fit = BATCH_BYTES.checked_div(bytes / read.len().max(1)).unwrap_or(BATCH);
        self.count = fit.min(self.count * 2).clamp(1, BATCH);
        self.undone.refresh(&mut self.connection, &self.keys).await?;
        let there = self.there(&read).await?;
        let mut taken = HashSet::new();
        let mut requests = Vec::new();
        for ((id, request), there) in read.into_iter().zip(there) {
            let own = request.subscription == PARSER;
            if there
                && !self.undone.contains(request.letter, &request.block_id, own)
                && taken.insert((request.subscription.clone(), request.letter))
            {
                requests.push((id, request));
            } else {
                refused.push(id);
            }
        }
        self.withdraw(&refused).await?;
        Ok(Batch { requests, seen: true })
    }

    /// Which of these requests' letters are there, with a counter's key that can be written.
    async fn there(&mut self, requests: &[(EntryId, Request)]) -> Result<Vec<bool>, Failure> {
        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        for (_, request) in requests {
            let letter = request.letter.to_string();
            pipe.cmd("XRANGE").arg((self.keys.dead(&request.subscription), &letter, &letter));
            pipe.cmd("HEXISTS").arg((self.keys.failures(&request.subscription), &request.event_id));
        }
        let replies: Vec<redis::RedisResult<Value>> = pipe.query_async(&mut self.connection).await?;
        // Of a key of another type nothing can be removed: the transaction would fail half-way.
        let there = |pair: &[redis::RedisResult<Value>]| match pair {
            [Ok(Value::Array(letters)), Ok(_)] => !letters.is_empty(),
            _ => false,
        };
        Ok(replies.chunks(2).map(there).collect())
    }
}

// === impl Request ===

impl Request {
    fn read(fields: Value) -> Option<Request> {
        let fields = Vec::<(String, String)>::from_redis_value(fields).ok()?;
        let field =
            |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone());
        Some(Request {
            subscription: field("sub")?,
            letter: field("letter")?.parse().ok()?,
            event_id: field("event_id")?,
            block_id: field("block_id")?,
            event: field("event")?,
        })
    }
}

// === impl Batch ===

impl Batch {
    /// How many events it adds.
    pub fn entries(&self) -> u64 {
        self.requests.len() as u64
    }

    /// About how many bytes its commands take.
    pub fn bytes(&self) -> usize {
        self.requests.iter().map(|(_, request)| request.event.len() + 256).sum()
    }

    /// Its commands as they go to the writer. The entries' ids follow `last_entry`, under the same first part, and move it on.
    pub fn unit(
        &self,
        keys: &Keys,
        block_ids: bool,
        last_entry: &mut Option<EntryId>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Unit {
        let mut out = Out::with_room(self.bytes());
        let mut tally = Tally::default();
        for (own, request) in &self.requests {
            let id = match (block_ids, last_entry.unwrap_or_default().next()) {
                (true, next) => {
                    *last_entry = Some(next);
                    next.to_string()
                }
                (false, _) => "*".to_owned(),
            };
            let (event, event_id) = (request.event.as_bytes(), request.event_id.as_bytes());
            if let Some(kind) = Kind::ALL.iter().position(|kind| kind.begins(request.event.as_bytes())) {
                tally.counts.kinds[kind] += 1;
            }
            let (dead, failures) = (keys.dead(&request.subscription), keys.failures(&request.subscription));
            resp::command(&mut out, &[b"XADD", keys.events.as_bytes(), id.as_bytes(), b"data", event]);
            resp::command(&mut out, &[b"XDEL", dead.as_bytes(), request.letter.to_string().as_bytes()]);
            resp::command(&mut out, &[b"HDEL", failures.as_bytes(), event_id]);
            resp::command(&mut out, &[b"XDEL", keys.replay.as_bytes(), own.to_string().as_bytes()]);
        }
        Unit {
            commands: out.into(),
            command_count: self.requests.len() * 4,
            entries: self.entries(),
            again: true,
            block: Position::default(),
            last_irreversible: 0,
            part: None,
            fork: None,
            last_entry: last_entry.filter(|_| block_ids),
            first_published: 0,
            permit,
            tally,
        }
    }
}
