//! Reading a stream page by page, each entry handed on as it comes in.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::time::timeout;

use super::Checker;
use crate::keys::Keys;
use crate::out::Out;
use crate::publish::connection::Connection;
use crate::publish::replies::Token;
use crate::publish::{EntryId, Failure, Server};
use crate::resp;

/// About so many bytes are asked for at once, and so many entries at most.
const PAGE_BYTES: usize = 4 << 20;
const PAGE: u64 = 10_000;

/// How long Redis may send nothing.
const LIMIT: Duration = Duration::from_secs(10);

/// Reads entries.
pub struct Reader {
    connection: Connection,
    key: String,
    next: EntryId,
    last: EntryId,
    /// How many to ask for.
    count: u64,
    begun: bool,
}

/// What there is of a stream.
pub enum Found {
    /// No stream.
    Nothing,
    /// One without entries.
    Empty,
    /// Entries.
    Entries(Bounds),
}

/// Where a stream begins and ends.
pub struct Bounds {
    /// Its first entry.
    pub first: EntryId,
    /// Its last one.
    pub last: EntryId,
    /// Whether entries were removed from it, as far as Redis says (7.0 or newer).
    pub trimmed: bool,
}

type Entry = (String, Vec<Value>);

/// Looks at the events stream.
pub async fn look(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<Found, Failure> {
    let exists: bool = redis::cmd("EXISTS").arg(&keys.events).query_async(connection).await?;
    if !exists {
        return Ok(Found::Nothing);
    }
    let info: HashMap<String, Value> =
        redis::cmd("XINFO").arg(("STREAM", &keys.events)).query_async(connection).await?;
    let number = |name: &str| match info.get(name) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    };
    let id = |name: &str| -> Option<EntryId> {
        let (id, _): Entry = redis::from_redis_value(info.get(name)?.clone()).ok()?;
        id.parse().ok()
    };
    let trimmed = number("entries-added").is_none_or(|added| Some(added) != number("length"));
    Ok(match id("first-entry").zip(id("last-entry")) {
        Some((first, last)) => Found::Entries(Bounds { first, last, trimmed }),
        None => Found::Empty,
    })
}

// === impl Reader ===

impl Reader {
    /// Reads entries from `from` to `last`.
    pub async fn open(server: &Server, keys: &Keys, from: EntryId, last: EntryId) -> Result<Reader, Failure> {
        let connection = Connection::open(server, "parser-verify").await?;
        Ok(Reader { connection, key: keys.events.clone(), next: from, last, count: 100, begun: false })
    }

    /// Has the next page checked; says how many entries it had, `None` at the end.
    pub async fn page(&mut self, checker: &mut Checker) -> Result<Option<u64>, Failure> {
        if self.next > self.last {
            return Ok(None);
        }
        let mut commands = Out::default();
        let (key, next, last) = (self.key.as_bytes(), self.next.to_string(), self.last.to_string());
        resp::command(&mut commands, &[b"XRANGE", key, b"-", b"+", b"COUNT", b"1"]);
        let count = self.count.to_string();
        resp::command(
            &mut commands,
            &[b"XRANGE", key, next.as_bytes(), last.as_bytes(), b"COUNT", count.as_bytes()],
        );
        self.within(async |connection| connection.send(&commands).await).await?;

        // Whether what is asked for is still there: the trimmer may have been quicker.
        let mut first = None;
        self.entries(|id, _| first = Some(id)).await?;
        let Some(first) = first else { return Ok(None) };
        if first > self.next && self.begun {
            checker.trimmed(first);
        }
        self.begun = true;
        let mut newest = None;
        let (entries, bytes) = self
            .entries(|id, fields| {
                newest = Some(id);
                match fields {
                    Fields::Data(data) => checker.entry(id, data),
                    Fields::Other(what) => checker.foreign(id, &what),
                }
            })
            .await?;
        let Some(newest) = newest else { return Ok(None) };
        self.next = newest.next();
        let fit = (PAGE_BYTES as u64).checked_div(bytes as u64 / entries.max(1)).unwrap_or(PAGE);
        self.count = fit.min(self.count * 4).clamp(1, PAGE);
        Ok(Some(entries))
    }

    /// Takes one reply of entries; says how many entries and bytes they were.
    async fn entries(&mut self, mut take: impl FnMut(EntryId, Fields<'_>)) -> Result<(u64, usize), Failure> {
        let entries = self.array().await?;
        let mut bytes = 0;
        for _ in 0..entries {
            if self.array().await? != 2 {
                return Err(unexpected());
            }
            let id = self.bulk().await?;
            let id: EntryId =
                std::str::from_utf8(id).ok().and_then(|id| id.parse().ok()).ok_or_else(unexpected)?;
            let strings = self.array().await?;
            let is_data = strings == 2 && self.bulk().await? == b"data";
            if is_data {
                let data = self.bulk().await?;
                bytes += data.len();
                take(id, Fields::Data(data));
                continue;
            }
            for _ in u64::from(strings == 2)..strings {
                bytes += self.bulk().await?.len();
            }
            let what = match strings {
                2 => "its field is not `data`".to_owned(),
                _ => format!("it has {} fields instead of `data` alone", strings / 2),
            };
            take(id, Fields::Other(what));
        }
        Ok((entries, bytes))
    }

    async fn array(&mut self) -> Result<u64, Failure> {
        self.ready().await?;
        match self.connection.token()? {
            Some(Token::Array(elements)) => Ok(elements),
            Some(Token::Error(message)) => Err(Failure::from_reply(&String::from_utf8_lossy(message))),
            _ => Err(unexpected()),
        }
    }

    async fn bulk(&mut self) -> Result<&[u8], Failure> {
        self.ready().await?;
        match self.connection.token()? {
            Some(Token::Bulk(bytes)) => Ok(bytes),
            _ => Err(unexpected()),
        }
    }

    /// Waits until a token is there.
    async fn ready(&mut self) -> Result<(), Failure> {
        while !self.connection.has_token()? {
            self.within(async |connection| connection.receive().await).await?;
        }
        Ok(())
    }

    async fn within(
        &mut self,
        work: impl AsyncFnOnce(&mut Connection) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        timeout(LIMIT, work(&mut self.connection)).await.unwrap_or_else(|_| {
            Err(Failure::Disconnected(format!("no reply for {} seconds", LIMIT.as_secs())))
        })
    }
}

/// What an entry holds.
enum Fields<'a> {
    /// One field `data`.
    Data(&'a [u8]),
    /// Something else.
    Other(String),
}

fn unexpected() -> Failure {
    Failure::Fatal("Redis answered something unexpected to XRANGE".to_owned())
}
