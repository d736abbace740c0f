//! Putting versions into the history from outside of the blocks.
//!
//! [`put`] is the operator's word against the chain's, and tells a running parser ([`super::edits`]); [`preload`] never hides what was
//! learned from blocks, and [`tell`] is to follow once at its end.

use redis::aio::MultiplexedConnection;

use super::{Since, Version};
use crate::block::Checksum;
use crate::keys::Keys;
use crate::name::Name;
use crate::publish::Failure;

/// Contracts looked up at once.
const AT_ONCE: usize = 256;

/// Why a version was not put.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// There is one at that place.
    #[error(
        "the history of `{contract}` has another version in force from the start of block {block} already: --force replaces it"
    )]
    Taken {
        /// The contract.
        contract: Name,
        /// The block.
        block: u32,
    },
    /// The namespace belongs to another chain.
    #[error("this namespace belongs to chain {0}")]
    OtherChain(String),
    /// Redis failed.
    #[error(transparent)]
    Redis(#[from] Failure),
}

impl From<redis::RedisError> for PutError {
    fn from(error: redis::RedisError) -> PutError {
        PutError::Redis(error.into())
    }
}

/// What became of a version to be preloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preloaded {
    /// It is in the history now.
    Added,
    /// It says nothing new.
    Known,
    /// The parser has read that block itself, and knows another ABI.
    Contradicts,
}

/// Which blocks the parser has read itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// The first and the newest; none before the first run.
    pub blocks: Option<(u32, u32)>,
}

/// Makes the namespace this chain's, if it is nobody's yet.
pub async fn claim(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    chain_id: &Checksum,
) -> Result<(), PutError> {
    let (found,): (String,) = redis::pipe()
        .atomic()
        .set_nx(&keys.chain, chain_id.to_string())
        .ignore()
        .get(&keys.chain)
        .query_async(connection)
        .await?;
    if found == chain_id.to_string() { Ok(()) } else { Err(PutError::OtherChain(found)) }
}

/// Puts a version in force from before the first action of `block`, whatever was in force there; it holds until the next one.
/// Says whether it was there already.
pub async fn put(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    contract: Name,
    block: u32,
    abi: &[u8],
    force: bool,
) -> Result<bool, PutError> {
    let version = Version::new(Since { block, sequence: Since::BEFORE }, abi);
    let key = keys.abi(contract);
    let members: Vec<String> =
        redis::cmd("ZRANGEBYSCORE").arg((&key, block, block)).query_async(connection).await?;
    let (mut taken, mut there) = (Vec::new(), false);
    for member in members {
        match Version::from_member(&member, block) {
            Ok(found) if found.since == version.since && found.bytes() == abi => there = true,
            Ok(found) if found.since == version.since => taken.push(member),
            _ => {}
        }
    }
    if !taken.is_empty() && !force {
        return Err(PutError::Taken { contract, block });
    }
    let mut transaction = redis::pipe();
    transaction.atomic();
    for member in &taken {
        transaction.zrem(&key, member).ignore();
    }
    if !there {
        transaction.zadd(&key, version.member(), block).ignore();
    }
    transaction.incr(&keys.abi_edits, 1).ignore();
    transaction.exec_async(connection).await?;
    Ok(there && taken.is_empty())
}

/// Adds the current ABI of a contract that has no history: in force before all that is learned from blocks. With `replace` it
/// goes in the place of an older answer.
pub async fn preload_current(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    contract: Name,
    abi: &[u8],
    replace: bool,
) -> Result<Preloaded, PutError> {
    let key = keys.abi(contract);
    let (count, oldest): (u64, Vec<String>) =
        redis::pipe().zcard(&key).cmd("ZRANGEBYSCORE").arg((&key, 0, 0)).query_async(connection).await?;
    let version = Version::new(Since::CHAIN_API, abi);
    let member = version.member();
    let same = |old: &String| Version::from_member(old, 0).is_ok_and(|old| old.bytes() == abi);
    if count > 0 && (!replace || oldest.is_empty() || oldest.iter().any(same)) {
        return Ok(Preloaded::Known);
    }
    let mut transaction = redis::pipe();
    transaction.atomic();
    for old in &oldest {
        transaction.zrem(&key, old).ignore();
    }
    transaction.zadd(&key, member, 0).ignore();
    transaction.exec_async(connection).await?;
    Ok(Preloaded::Added)
}

/// Adds versions that contracts had in a block; no contract twice. Says of each what became of it.
pub async fn preload(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    versions: &[(Name, Version)],
    seen: Seen,
) -> Result<Vec<Preloaded>, PutError> {
    let mut all = Vec::with_capacity(versions.len());
    for some in versions.chunks(AT_ONCE) {
        let mut pipe = redis::pipe();
        for (contract, version) in some {
            let key = keys.abi(*contract);
            pipe.cmd("ZREVRANGEBYSCORE").arg((key, version.since.block, "-inf", "LIMIT", 0, 1));
        }
        let newest: Vec<Vec<String>> = pipe.query_async(connection).await?;
        let (mut adding, mut any) = (redis::pipe(), false);
        for ((contract, version), newest) in some.iter().zip(newest) {
            let block = version.since.block;
            let known = newest.first().and_then(|member| Version::from_member(member, block).ok());
            all.push(if known.is_some_and(|known| known.bytes() == version.bytes()) {
                Preloaded::Known
            } else if seen.blocks.is_some_and(|(first, last)| (first..=last).contains(&block)) {
                Preloaded::Contradicts
            } else {
                adding.zadd(keys.abi(*contract), version.member(), block).ignore();
                any = true;
                Preloaded::Added
            });
        }
        if any {
            adding.exec_async(connection).await?;
        }
    }
    Ok(all)
}

/// Tells a running parser that the history was changed.
pub async fn tell(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<(), Failure> {
    redis::cmd("INCR").arg(&keys.abi_edits).exec_async(connection).await?;
    Ok(())
}

/// Which blocks the parser has read here itself.
pub async fn seen(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<Seen, Failure> {
    let (newest, first): (Option<u32>, Option<u32>) =
        redis::cmd("HMGET").arg((&keys.sync, "block_num", "first_block")).query_async(connection).await?;
    Ok(Seen { blocks: newest.map(|newest| (first.unwrap_or(newest), newest)) })
}
