//! The names of all keys in Redis.

use crate::block::Checksum;
use crate::name::Name;

/// The keys of one namespace and chain. `redis.keyPrefix` is put before each.
///
/// In a Redis Cluster all of them must lie in one slot: give the namespace (or the prefix) a hash tag,
/// such as `{parser2}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// Stream of all events.
    pub events: String,
    /// Stream of what could not be decoded.
    pub dead_parser: String,
    /// Sorted set: which contracts got an ABI version in which reversible block.
    pub abi_blocks: String,
    /// String: counts the changes that were made to the ABI history from outside of the blocks.
    pub abi_edits: String,
    /// Hash: how far `abi preload` has read a range of a node's blocks.
    pub abi_preload: String,
    /// String: the chain this namespace belongs to.
    pub chain: String,
    /// String: token of the one parser that may write.
    pub writer: String,
    /// Hash: the checkpoint.
    pub sync: String,
    /// String: what the running parser says of itself ([`crate::state::Report`]).
    pub state: String,
    /// Sorted set: published reversible blocks.
    pub blocks: String,
    /// Stream: forks, with the blocks that each of them undid.
    pub forks: String,
    /// Stream: dead letters decoded again, waiting to be published.
    pub replay: String,
    /// Hash: registry of the consumers' subscriptions.
    pub subscriptions: String,
    /// What `NS:...` keys begin with, the prefix included.
    namespace: String,
    /// What `ce:NS:CHAIN:...` keys begin with, the prefix included.
    stream: String,
}

impl Keys {
    /// The keys of `namespace` (`redis.namespace`) for `chain_id`, each behind `prefix` (`redis.keyPrefix`).
    pub fn new(namespace: &str, chain_id: &Checksum, prefix: &str) -> Keys {
        let stream = format!("{prefix}ce:{namespace}:{chain_id}:");
        let chain = Keys::chain_of(namespace, prefix);
        let namespace = format!("{prefix}{namespace}:");
        Keys {
            events: format!("{stream}events"),
            dead_parser: format!("{stream}dead:parser"),
            abi_blocks: format!("{namespace}abi-blocks:{chain_id}"),
            abi_edits: format!("{namespace}abi-edits"),
            abi_preload: format!("{namespace}abi-preload:{chain_id}"),
            chain,
            writer: format!("{namespace}writer:{chain_id}"),
            sync: format!("{namespace}sync:{chain_id}"),
            state: format!("{namespace}state:{chain_id}"),
            blocks: format!("{namespace}blocks:{chain_id}"),
            forks: format!("{namespace}forks:{chain_id}"),
            replay: format!("{namespace}replay:{chain_id}"),
            subscriptions: format!("{namespace}subs"),
            namespace,
            stream,
        }
    }

    /// String: the chain that a namespace belongs to. The one key whose name holds neither chain nor contract.
    pub fn chain_of(namespace: &str, prefix: &str) -> String {
        format!("{prefix}{namespace}:chain")
    }

    /// Sorted set: the ABI history of `contract`.
    pub fn abi(&self, contract: Name) -> String {
        format!("{}abi:{contract}", self.namespace)
    }

    /// What the keys of all ABI histories begin with.
    pub fn abi_prefix(&self) -> String {
        format!("{}abi:", self.namespace)
    }

    /// Stream: dead letters of the subscription `name`; the parser's own are those of `parser`.
    pub fn dead(&self, name: &str) -> String {
        format!("{}dead:{name}", self.stream)
    }

    /// Hash: failure counters of the subscription `name` by event id.
    pub fn failures(&self, name: &str) -> String {
        format!("{}sub:{name}:failures", self.namespace)
    }

    /// String: lock of the active consumer of the subscription `name`.
    pub fn lock(&self, name: &str) -> String {
        format!("{}sub:{name}:lock", self.namespace)
    }
}

/// A text as a pattern (of SCAN) that it alone fits.
pub fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '^' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_contract_behind_the_prefix() {
        let chain = Checksum([0xab; 32]);
        let id = "ab".repeat(32);
        for prefix in ["", "site:"] {
            let keys = Keys::new("parser2", &chain, prefix);
            for (key, expected) in [
                (keys.events.clone(), format!("ce:parser2:{id}:events")),
                (keys.dead_parser.clone(), format!("ce:parser2:{id}:dead:parser")),
                (keys.dead("parser"), format!("ce:parser2:{id}:dead:parser")),
                (keys.abi(Name::literal("eosio.token")), "parser2:abi:eosio.token".to_owned()),
                (keys.abi_blocks.clone(), format!("parser2:abi-blocks:{id}")),
                (keys.chain.clone(), "parser2:chain".to_owned()),
                (keys.writer.clone(), format!("parser2:writer:{id}")),
                (keys.sync.clone(), format!("parser2:sync:{id}")),
                (keys.state.clone(), format!("parser2:state:{id}")),
                (keys.blocks.clone(), format!("parser2:blocks:{id}")),
                (keys.forks.clone(), format!("parser2:forks:{id}")),
                (keys.replay.clone(), format!("parser2:replay:{id}")),
                (keys.subscriptions.clone(), "parser2:subs".to_owned()),
                (keys.failures("web"), "parser2:sub:web:failures".to_owned()),
                (keys.lock("web"), "parser2:sub:web:lock".to_owned()),
            ] {
                assert_eq!(key, format!("{prefix}{expected}"));
            }
        }
    }
}
