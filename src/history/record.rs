//! The history as it lies in Redis, for looking at it as a whole: every contract, every member, readable or not.

use redis::aio::MultiplexedConnection;

use super::{Since, Version};
use crate::keys::{self, Keys};
use crate::name::Name;
use crate::publish::Failure;

/// Members of one contract read at once: an ABI can have a megabyte.
const PAGE: usize = 32;
/// Contracts asked for in one go, each for the first of its members; most have no more than these.
const CONTRACTS: usize = 32;
const FIRST: usize = 2;
/// Keys looked at by one SCAN.
const SCAN: usize = 1000;

/// A member of a contract's sorted set.
pub struct Record {
    /// Its score: the block.
    pub score: f64,
    /// As it stands there.
    pub member: Vec<u8>,
    /// What it says; `None` if that cannot be read.
    pub version: Option<Version>,
    /// Where it comes from.
    pub source: Source,
}

/// Where a version comes from, by its member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A setabi action.
    Setabi,
    /// A row of `account`, or the operator: in force before the block's first action.
    Before,
    /// A row of `account`, in force at the block's end.
    End,
    /// The chain API, or a file without block numbers: before all others.
    ChainApi,
    /// Plain base64, as the TypeScript version writes it: in force before the block's first action.
    Plain,
    /// It cannot be read.
    Unreadable,
}

/// All contracts with a history, and the keys among theirs that name no contract.
pub async fn contracts(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
) -> Result<(Vec<Name>, Vec<String>), Failure> {
    let prefix = keys.abi_prefix();
    let pattern = format!("{}*", keys::literal(&prefix));
    let (mut names, mut foreign) = (Vec::new(), Vec::new());
    let mut cursor = 0u64;
    loop {
        let (next, found): (u64, Vec<String>) = redis::cmd("SCAN")
            .arg((cursor, "MATCH", &pattern, "COUNT", SCAN))
            .query_async(connection)
            .await?;
        for key in found {
            match key.strip_prefix(&prefix).map(str::parse) {
                Some(Ok(name)) => names.push(name),
                _ => foreign.push(key),
            }
        }
        cursor = next;
        if cursor == 0 {
            // SCAN may name a key twice.
            names.sort_unstable_by_key(Name::to_string);
            names.dedup();
            foreign.sort();
            foreign.dedup();
            return Ok((names, foreign));
        }
    }
}

/// Hands out the members of those contracts, oldest first, some at a time.
pub async fn each(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    contracts: &[Name],
    mut found: impl FnMut(Name, Vec<Record>),
) -> Result<(), Failure> {
    for some in contracts.chunks(CONTRACTS) {
        let mut pipe = redis::pipe();
        for name in some {
            pipe.add_command(page(keys, *name, 0, FIRST));
        }
        let pages: Vec<Vec<Member>> = pipe.query_async(connection).await?;
        for (&name, mut members) in some.iter().zip(pages) {
            let (mut seen, mut asked) = (0, FIRST);
            loop {
                let last = members.len() < asked;
                seen += members.len();
                if !members.is_empty() {
                    found(name, members.into_iter().map(Record::new).collect());
                }
                if last {
                    break;
                }
                members = page(keys, name, seen, PAGE).query_async(connection).await?;
                asked = PAGE;
            }
        }
    }
    Ok(())
}

/// The version of a contract in force at the end of block `num`, or the newest of all.
pub async fn in_force(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    contract: Name,
    num: Option<u32>,
) -> Result<Option<Record>, Failure> {
    let key = keys.abi(contract);
    let highest = num.map_or("+inf".to_owned(), |num| num.to_string());
    let newest: Vec<Member> = redis::cmd("ZREVRANGEBYSCORE")
        .arg((&key, highest, "-inf", "WITHSCORES", "LIMIT", 0, 1))
        .query_async(connection)
        .await?;
    let Some((_, score)) = newest.first() else { return Ok(None) };
    // Members of other forms do not sort by their sequence.
    let same: Vec<Member> =
        redis::cmd("ZRANGEBYSCORE").arg((&key, score, score, "WITHSCORES")).query_async(connection).await?;
    let records = same.into_iter().map(Record::new);
    Ok(records.max_by_key(|record| record.version.as_ref().map(|version| version.since)))
}

/// The first block above `num` with a version of a contract.
pub async fn next_block(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    contract: Name,
    num: u32,
) -> Result<Option<u32>, Failure> {
    let next: Vec<Member> = redis::cmd("ZRANGEBYSCORE")
        .arg((keys.abi(contract), format!("({num}"), "+inf", "WITHSCORES", "LIMIT", 0, 1))
        .query_async(connection)
        .await?;
    Ok(next.first().map(|(_, score)| *score as u32))
}

type Member = (Vec<u8>, f64);

fn page(keys: &Keys, name: Name, skip: usize, count: usize) -> redis::Cmd {
    redis::cmd("ZRANGE").arg((keys.abi(name), skip, skip + count - 1, "WITHSCORES")).to_owned()
}

// === impl Record ===

impl Record {
    fn new((member, score): Member) -> Record {
        let text = std::str::from_utf8(&member).ok();
        let version = text.and_then(|text| Version::from_member(text, score as u32).ok());
        let source = match (&version, text) {
            (Some(version), Some(text)) => Source::of(version.since, text),
            _ => Source::Unreadable,
        };
        Record { score, version, source, member }
    }
}

// === impl Source ===

impl Source {
    fn of(since: Since, member: &str) -> Source {
        match (since.sequence, member.splitn(3, ':').nth(2)) {
            (_, None) => Source::Plain,
            (_, Some(rest)) if rest.starts_with("rpc:") => Source::ChainApi,
            (Since::BEFORE, _) => Source::Before,
            (Since::END, _) => Source::End,
            _ => Source::Setabi,
        }
    }

    /// A word for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Setabi => "setabi",
            Source::Before | Source::End => "row",
            Source::ChainApi => "chain-api",
            Source::Plain => "plain",
            Source::Unreadable => "unreadable",
        }
    }
}
