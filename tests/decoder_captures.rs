//! Every action, row and return value of the recordings, against the events that another implementation, on C++ abieos,
//! made of them.

mod decoder_support;

use std::collections::HashMap;
use std::sync::Arc;

use decoder_support::{Block, Capture, captures, json, unpacked};
use parser::abi::{Abi, BadAbi, Decoded, Deserializer, Reason, TypeId};
use parser::hex;
use parser::name::Name;
use parser::out::Out;
use serde_json::Value;

/// ABI versions of every contract, by the contract's rules.
#[derive(Default)]
struct History {
    versions: HashMap<Name, Vec<Version>>,
}

#[derive(Clone)]
struct Version {
    /// Block, and global sequence of the setabi.
    since: (u32, u64),
    bytes: Vec<u8>,
    abi: Arc<Result<Abi, BadAbi>>,
}

impl Version {
    fn abi(&self) -> Result<&Abi, &'static str> {
        match &*self.abi {
            _ if self.bytes.is_empty() => Err("no_abi"),
            Ok(abi) => Ok(abi),
            Err(_) => Err("bad_abi"),
        }
    }
}

impl History {
    /// Takes in what block `block` says, that block's actions not yet decoded.
    fn learn(&mut self, block: &Block) {
        for versions in self.versions.values_mut() {
            versions.retain(|version| version.since.0 < block.num);
        }
        for action in &block.actions {
            let eosio = Name::literal("eosio");
            let setabi = (eosio, eosio, Name::literal("setabi"));
            if action.executed
                && action.global_sequence > 0
                && (action.receiver, action.account, action.name) == setabi
            {
                let (account, bytes) = action.data.split_at(8);
                let account = Name(u64::from_le_bytes(account.try_into().expect("eight bytes")));
                // The length prefix: up to three bytes here.
                let prefix = bytes.iter().take_while(|&&byte| byte >= 0x80).count() + 1;
                self.add(account, (block.num, action.global_sequence), &bytes[prefix..]);
            }
        }
        for (account, bytes) in &block.accounts {
            match self.versions.get(account).and_then(|versions| versions.last()) {
                None if bytes.is_empty() => {}
                None => self.add(*account, (block.num, 0), bytes),
                Some(last) if last.bytes == *bytes => {}
                Some(_) => self.add(*account, (block.num, u64::MAX), bytes),
            }
        }
    }

    fn add(&mut self, account: Name, since: (u32, u64), bytes: &[u8]) {
        let abi = Arc::new(Abi::from_binary(bytes, Deserializer::Compiled));
        self.versions.entry(account).or_default().push(Version { since, bytes: bytes.to_vec(), abi });
    }

    fn for_action(&self, account: Name, block: u32, global_sequence: u64) -> Option<&Version> {
        self.versions.get(&account)?.iter().rfind(|version| version.since < (block, global_sequence))
    }

    /// The newest version, and the last one with other bytes.
    fn for_rows(&self, code: Name) -> (Option<&Version>, Option<&Version>) {
        let versions = self.versions.get(&code).map(Vec::as_slice).unwrap_or_default();
        let newest = versions.last();
        let before =
            versions.iter().rfind(|version| Some(&version.bytes) != newest.map(|newest| &newest.bytes));
        (newest, before)
    }
}

/// What became of some bytes: JSON, or the reason against it.
type Outcome = Result<(Value, Decoded), &'static str>;

fn outcome(version: Option<&Version>, type_of: impl FnOnce(&Abi) -> Option<TypeId>, data: &[u8]) -> Outcome {
    let abi = version.ok_or("no_abi")?.abi()?;
    let id = type_of(abi).ok_or("unknown_type")?;
    let mut out = Out::default();
    let decoded = abi.decode(id, data, &mut out).map_err(|error| match error.reason {
        Reason::Truncated => "truncated",
        Reason::Invalid => "invalid",
    })?;
    Ok((json(&out), decoded))
}

/// Compares what came out with the fields of an event.
fn check(event: &Value, field: &str, outcome: &Outcome, data: &[u8]) {
    let hexed = |bytes: &[u8]| Value::String(hex::lower(bytes));
    match outcome {
        Ok((json, decoded)) => {
            assert!(event.get("decode_error").is_none(), "decoded, though not expected: {event}");
            assert!(same(json, &event[field]), "{json}\ninstead of\n{}\n{event}", event[field]);
            let trailing = (decoded.consumed < data.len()).then(|| hexed(&data[decoded.consumed..]));
            assert_eq!(event.get("trailing"), trailing.as_ref(), "{event}");
            assert_eq!(event.get("raw"), decoded.repaired.then(|| hexed(data)).as_ref(), "{event}");
        }
        Err(reason) => {
            let expected = event["decode_error"]["reason"].as_str();
            // Which of the two is said first may differ.
            let either = ["truncated", "invalid"];
            let alike =
                expected.is_some_and(|expected| either.contains(&expected) && either.contains(reason));
            assert!(expected == Some(reason) || alike, "{reason}: {event}");
            assert_eq!(event["raw"], hexed(data), "{event}");
        }
    }
}

/// Equal, numbers as doubles.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((ka, a), (kb, b))| ka == kb && same(a, b))
        }
        _ => a == b,
    }
}

/// Decodes a recording's first `frames` blocks and compares; gives how many values were compared.
fn compare(name: &str, frames: usize) -> usize {
    let Some(captures) = captures() else { return usize::MAX };
    let mut expected = HashMap::new();
    let lines = unpacked(captures.join(format!("{name}.expected.ndjson.zst")));
    for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let event = json(line);
        let id = event["event_id"].as_str().expect("an id");
        // The chain's id in front is the same for all.
        expected.insert(id[65..].to_owned(), event);
    }

    let mut capture = Capture::open(captures.join(format!("{name}.shipcap.zst")));
    capture.frames.truncate(frames);
    let mut history = History::default();
    let mut compared = 0;
    for block in capture.blocks() {
        history.learn(&block);
        // What failed is no event, and its global sequences are given out again.
        for action in block.actions.iter().filter(|action| action.executed) {
            let Some(event) =
                expected.get(&format!("a:{}:{}:{}", block.num, block.id16, action.global_sequence))
            else {
                continue;
            };
            let version = history.for_action(action.account, block.num, action.global_sequence);
            check(
                event,
                "data",
                &outcome(version, |abi| abi.action_type(action.name), &action.data),
                &action.data,
            );
            compared += 1;
            if let Some(value) = event.get("return_value") {
                let result =
                    outcome(version, |abi| abi.action_result_type(action.name), &action.return_value);
                let (json, decoded) = result.expect("decoded");
                assert!(same(&json, value), "{json}: {event}");
                assert_eq!(decoded.consumed, action.return_value.len());
                compared += 1;
            }
        }
        let mut seen = HashMap::new();
        for row in &block.rows {
            let id = format!(
                "d:{}:{}:{}:{}:{}:{}",
                block.num, block.id16, row.code, row.scope, row.table, row.primary_key
            );
            let twin: &mut usize = seen.entry(id.clone()).or_default();
            let id = if *twin > 0 { format!("{id}:{twin}") } else { id };
            *twin += 1;
            let event = &expected[&id];
            let (newest, before) = history.for_rows(row.code);
            let read = |version| outcome(version, |abi: &Abi| abi.table_type(row.table), &row.value);
            let (first, second) = (read(newest), read(before));
            let whole = |outcome: &Outcome| {
                outcome.as_ref().is_ok_and(|(_, decoded)| decoded.consumed == row.value.len())
            };
            let best = if whole(&first) {
                first
            } else if whole(&second) || (first.is_err() && second.is_ok()) {
                second
            } else {
                first
            };
            check(event, "value", &best, &row.value);
            compared += 1;
        }
    }
    compared
}

#[test]
fn everything_unusual() {
    assert!(compare("mixed", usize::MAX) > 9_000);
}

#[test]
fn a_later_node() {
    assert!(compare("spring", usize::MAX) > 4_000);
}

#[test]
fn lost_branches() {
    assert!(compare("fork", usize::MAX) > 600);
}

#[test]
fn many_ordinary_contracts() {
    assert!(compare("load", 120) > 10_000);
}
