//! One version of a contract's ABI: its bytes, and from when on it was in force.

use std::sync::OnceLock;

use crate::abi::{Abi, BadAbi, Deserializer};
use crate::base64;

/// A version of a contract's ABI.
pub struct Version {
    /// When it came into force.
    pub since: Since,
    bytes: Box<[u8]>,
    /// Boxed, as most versions are never asked for: a snapshot of a chain brings one for each account.
    compiled: OnceLock<Box<Result<Abi, BadAbi>>>,
}

/// When a version came into force: the block, and the place inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Since {
    /// The block's number; 0 for one from the chain API.
    pub block: u32,
    /// The global sequence of the setabi; [`Since::BEFORE`] or [`Since::END`] for one learned from a state row.
    pub sequence: u64,
}

/// What a version says.
pub enum Says<'a> {
    /// The contract has no ABI.
    None,
    /// The bytes are no ABI.
    Bad(&'a BadAbi),
    /// The ABI.
    Abi(&'a Abi),
}

/// A member of a history's sorted set that is not what the contract of keys says.
#[derive(Debug, thiserror::Error)]
#[error("it is neither BLOCK:SEQUENCE:BASE64 nor plain base64")]
pub struct BadMember;

// === impl Since ===

impl Since {
    /// Sequence of a version in force before the block's first action.
    pub const BEFORE: u64 = 0;
    /// Sequence of a version in force at the block's end.
    pub const END: u64 = u64::MAX;
    /// When versions from the chain API are in force: before all others.
    pub const CHAIN_API: Since = Since { block: 0, sequence: 0 };
}

// === impl Version ===

impl Version {
    /// A version; no bytes: "no ABI from here on".
    pub fn new(since: Since, bytes: &[u8]) -> Version {
        Version { since, bytes: bytes.into(), compiled: OnceLock::new() }
    }

    /// The packed ABI.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What it says; compiled when first asked for.
    pub fn says(&self, deserializer: Deserializer) -> Says<'_> {
        if self.bytes.is_empty() {
            return Says::None;
        }
        match &**self.compiled.get_or_init(|| Box::new(Abi::from_binary(&self.bytes, deserializer))) {
            Ok(abi) => Says::Abi(abi),
            Err(bad) => Says::Bad(bad),
        }
    }

    /// The sorted set's member for it.
    pub fn member(&self) -> String {
        let from = if self.since == Since::CHAIN_API { "rpc:" } else { "" };
        let mut member = format!("{}:{:020}:{from}", self.since.block, self.since.sequence);
        base64::encode(&self.bytes, &mut member);
        member
    }

    /// Reads a member; `score` is the block of plain base64 members, which the TypeScript version wrote.
    pub fn from_member(member: &str, score: u32) -> Result<Version, BadMember> {
        let (since, text) = match member.split_once(':') {
            Some((block, rest)) => {
                let (sequence, text) = rest.split_once(':').ok_or(BadMember)?;
                let since = Since {
                    block: block.parse().map_err(|_| BadMember)?,
                    sequence: sequence.parse().map_err(|_| BadMember)?,
                };
                (since, text.strip_prefix("rpc:").unwrap_or(text))
            }
            None => (Since { block: score, sequence: Since::BEFORE }, member),
        };
        let bytes = base64::decode(text).ok_or(BadMember)?;
        Ok(Version::new(since, &bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_those_of_the_contract() {
        let from_action = Version::new(Since { block: 38, sequence: 689 }, b"abi");
        assert_eq!(from_action.member(), "38:00000000000000000689:YWJp");
        let none = Version::new(Since { block: 7, sequence: Since::END }, b"");
        assert_eq!(none.member(), "7:18446744073709551615:");
        let rpc = Version::new(Since::CHAIN_API, b"abi");
        assert_eq!(rpc.member(), "0:00000000000000000000:rpc:YWJp");
        for version in [from_action, none, rpc] {
            let read = Version::from_member(&version.member(), version.since.block).expect("own member");
            assert_eq!((read.since, read.bytes()), (version.since, version.bytes()));
        }
    }

    #[test]
    fn plain_base64_is_read_and_anything_else_is_refused() {
        let plain = Version::from_member("YWJpMg==", 12).expect("plain base64");
        assert_eq!((plain.since, plain.bytes()), (Since { block: 12, sequence: 0 }, &b"abi2"[..]));
        for member in ["1:2", "x:1:YWJp", "1:2:!", "no base64!", "1:-3:YWJp"] {
            assert!(Version::from_member(member, 1).is_err(), "{member}");
        }
    }
}
