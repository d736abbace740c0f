//! The history in Redis: a sorted set a contract.
//!
//! Nothing is asked for as long as all contracts are in memory, and Redis closes connections that are idle for
//! longer than its `timeout`: a connection that is lost is made anew, once, before that counts as a failure.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Pipeline};

use super::{Known, Since, Version};
use crate::keys::Keys;
use crate::name::Name;
use crate::publish::Server;
use crate::publish::failure::{self, Failure};

/// Members asked for at first: the version in force and the one before it.
const FIRST_PAGE: usize = 2;
/// Members asked for when all so far had the same bytes.
const NEXT_PAGE: usize = 16;
/// Members asked for of the block itself and later ones.
const AHEAD: usize = 4;
/// Contracts asked for in one go.
const CONTRACTS: usize = 512;

/// Reads ABI versions from Redis.
pub struct Store {
    /// Where to connect to anew; not for a connection that was given.
    server: Option<Server>,
    connection: MultiplexedConnection,
    keys: Arc<Keys>,
}

/// Why a version cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Redis failed.
    #[error("reading the ABI history: {0}")]
    Redis(#[from] Failure),
    /// Something else stands in the history.
    #[error(
        "the ABI history `{key}` has a member at block {score} that this program did not write: {why}. Remove it (ZREMRANGEBYSCORE {key} {score} {score})"
    )]
    Foreign {
        /// The sorted set.
        key: String,
        /// The member's score.
        score: u32,
        /// What is wrong.
        why: super::BadMember,
    },
}

type Member = (String, f64);

// === impl Store ===

impl Store {
    /// A store over a connection, for as long as that holds.
    pub fn new(connection: MultiplexedConnection, keys: Arc<Keys>) -> Store {
        Store { server: None, connection, keys }
    }

    /// A store over a connection of its own, made anew where it is lost.
    pub async fn connect(server: &Server, keys: Arc<Keys>) -> Result<Store, Failure> {
        Ok(Store { server: Some(server.clone()), connection: server.connect_control().await?, keys })
    }

    /// For each contract the newest versions not above block `until`: enough to know the last two with different bytes.
    pub(super) async fn load(&mut self, contracts: &[Name], until: u32) -> Result<Vec<Known>, StoreError> {
        let mut all = Vec::with_capacity(contracts.len());
        for some in contracts.chunks(CONTRACTS) {
            let mut pipe = redis::pipe();
            for &name in some {
                pipe.add_command(self.page(name, until, 0, FIRST_PAGE));
            }
            let keys: Vec<String> = some.iter().map(|&name| self.keys.abi(name)).collect();
            let pages: Vec<Vec<Member>> = self.ask(&pipe, &keys).await?;
            for (&name, page) in some.iter().zip(pages) {
                all.push(self.complete(name, until, page).await?);
            }
        }
        Ok(all)
    }

    /// What data of block `num` can be read with: also what the block itself brought. And the next block with a version.
    pub(super) async fn load_at(&mut self, name: Name, num: u32) -> Result<(Known, Option<u32>), StoreError> {
        let key = self.keys.abi(name);
        let mut pipe = redis::pipe();
        pipe.add_command(self.page(name, num.saturating_sub(1), 0, FIRST_PAGE));
        pipe.cmd("ZRANGEBYSCORE").arg((&key, num, num, "WITHSCORES"));
        pipe.cmd("ZRANGEBYSCORE").arg((&key, format!("({num}"), "+inf", "WITHSCORES", "LIMIT", 0, 1));
        let keys = [key.clone(), key.clone(), key];
        let (before, inside, next): (Vec<Member>, Vec<Member>, Vec<Member>) = self.ask(&pipe, &keys).await?;
        let mut known = self.complete(name, num.saturating_sub(1), before).await?;
        for version in self.versions(name, &inside)? {
            known.add(version);
        }
        Ok((known, next.first().map(|(_, score)| *score as u32)))
    }

    /// The same for data of block `num`, with what was put into force from its start, and from which block on there is more.
    pub(super) async fn load_before(
        &mut self,
        contracts: &[Name],
        num: u32,
    ) -> Result<Vec<Known>, StoreError> {
        let mut all = self.load(contracts, num.saturating_sub(1)).await?;
        for (some, known) in contracts.chunks(CONTRACTS).zip(all.chunks_mut(CONTRACTS)) {
            let mut pipe = redis::pipe();
            let keys: Vec<String> = some.iter().map(|&name| self.keys.abi(name)).collect();
            for key in &keys {
                pipe.cmd("ZRANGEBYSCORE").arg((key, num, "+inf", "WITHSCORES", "LIMIT", 0, AHEAD));
            }
            let pages: Vec<Vec<Member>> = self.ask(&pipe, &keys).await?;
            for ((&name, known), page) in some.iter().zip(known).zip(pages) {
                let full = page.len() == AHEAD;
                let (now, later): (Vec<Member>, Vec<Member>) =
                    page.into_iter().partition(|(_, score)| *score == f64::from(num));
                let later = later.first().map(|(_, score)| *score as u32);
                known.more_from(later.or(full.then(|| num.saturating_add(1))));
                // What the block itself brings is learned from it.
                let start = Since { block: num, sequence: Since::BEFORE };
                for version in self.versions(name, &now)? {
                    if version.since == start {
                        known.add(version);
                    }
                }
            }
        }
        Ok(all)
    }

    async fn complete(&mut self, name: Name, until: u32, mut page: Vec<Member>) -> Result<Known, StoreError> {
        let mut versions: Vec<Arc<Version>> = Vec::new();
        let mut asked = FIRST_PAGE;
        loop {
            versions.extend(self.versions(name, &page)?);
            let newest = versions.iter().max_by_key(|version| version.since);
            let found = newest.is_some_and(|n| versions.iter().any(|version| version.bytes() != n.bytes()));
            if found || page.is_empty() || versions.len() < asked {
                return Ok(Known::new(versions));
            }
            let mut pipe = redis::pipe();
            pipe.add_command(self.page(name, until, versions.len(), NEXT_PAGE));
            let key = self.keys.abi(name);
            page = self.ask::<Vec<Vec<Member>>>(&pipe, &[key]).await?.pop().unwrap_or_default();
            asked = versions.len() + NEXT_PAGE;
        }
    }

    fn versions(&self, name: Name, members: &[Member]) -> Result<Vec<Arc<Version>>, StoreError> {
        let version = |(member, score): &Member| {
            Version::from_member(member, *score as u32).map(Arc::new).map_err(|why| StoreError::Foreign {
                key: self.keys.abi(name),
                score: *score as u32,
                why,
            })
        };
        members.iter().map(version).collect()
    }

    fn page(&self, name: Name, until: u32, skip: usize, count: usize) -> redis::Cmd {
        let mut command = redis::cmd("ZREVRANGEBYSCORE");
        command.arg(self.keys.abi(name)).arg(until).arg("-inf").arg("WITHSCORES");
        command.arg("LIMIT").arg(skip).arg(count);
        command
    }

    /// Asks, on a new connection if the one there is is lost. `keys`: of each command the key.
    async fn ask<T: FromRedisValue>(&mut self, questions: &Pipeline, keys: &[String]) -> Result<T, Failure> {
        let mut answer = questions.query_async(&mut self.connection).await;
        if let Some(server) = &self.server
            && answer.as_ref().is_err_and(redis::RedisError::is_connection_dropped)
        {
            self.connection = server.connect_control().await?;
            answer = questions.query_async(&mut self.connection).await;
        }
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        answer.map_err(|error| failure::about(error, &keys))
    }

    /// The contracts that got a version in a block which may still be undone, by block.
    pub async fn reversible(&mut self) -> Result<BTreeMap<u32, Vec<Name>>, StoreError> {
        let mut pipe = redis::pipe();
        pipe.zrange_withscores(&self.keys.abi_blocks, 0, -1);
        let key = self.keys.abi_blocks.clone();
        let members: Vec<Member> =
            self.ask::<Vec<Vec<Member>>>(&pipe, &[key]).await?.pop().unwrap_or_default();
        let mut blocks: BTreeMap<u32, Vec<Name>> = BTreeMap::new();
        for (member, score) in members {
            // CONTRACT:BLOCK, so that a contract can be there for several blocks.
            let name = member.split(':').next().and_then(|name| name.parse().ok());
            let name = name.ok_or_else(|| StoreError::Foreign {
                key: self.keys.abi_blocks.clone(),
                score: score as u32,
                why: super::BadMember,
            })?;
            blocks.entry(score as u32).or_default().push(name);
        }
        Ok(blocks)
    }
}
