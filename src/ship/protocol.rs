//! The SHiP protocol as a node describes it: the first frame of a connection is its ABI. Variant
//! indices are taken from there; the layouts that are read by hand are compared with those of
//! `abi/`, so that a node speaking another dialect is refused at connect instead of misread.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;

/// The ABI frame of Spring 1.2.2, which contains that of Leap 3 to 5.
const KNOWN: &str = include_str!("../../abi/spring-1.2.2.json");

/// What a node's ABI frame says.
#[derive(Debug, Clone)]
pub struct Protocol {
    /// The ABI frame's text: rows of SHiP's own tables are decoded with it.
    pub abi: Arc<str>,
    /// Indices of the requests sent.
    pub request: RequestVariants,
    /// Indices of the results asked for.
    pub result: ResultVariants,
    /// Indices met inside a result's traces and deltas.
    pub walk: WalkVariants,
    /// SHiP's own tables by name.
    pub tables: HashMap<String, Table>,
    /// All result types by index, for messages.
    results: Vec<String>,
}

/// Indices in the variant `request`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestVariants {
    /// `get_status_request_v0`
    pub status: u32,
    /// `get_blocks_request_v0`
    pub blocks: u32,
    /// `get_blocks_ack_request_v0`
    pub ack: u32,
}

/// Indices in the variant `result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultVariants {
    /// `get_status_result_v0`
    pub status: u32,
    /// `get_blocks_result_v0`
    pub blocks: u32,
}

/// Indices in the variants of traces and deltas; no other case exists in this node's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkVariants {
    /// In `transaction_trace`.
    pub transaction_trace_v0: u32,
    /// In `action_trace`, where the node knows it.
    pub action_trace_v0: Option<u32>,
    /// In `action_trace`, where the node knows it.
    pub action_trace_v1: Option<u32>,
    /// In `action_receipt`.
    pub action_receipt_v0: u32,
    /// In `partial_transaction`.
    pub partial_transaction_v0: u32,
    /// In `table_delta`.
    pub table_delta_v0: u32,
}

/// One of SHiP's own tables (`account`, `contract_row`, `permission`, …).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The types its rows can have, by variant index (`permission_v0`).
    pub versions: Vec<String>,
}

/// Why a node's protocol is refused.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// The first frame is no ABI.
    #[error("the node's first frame is not the SHiP protocol's ABI: {0}")]
    NotAbi(String),
    /// Something that is needed does not exist.
    #[error("the node's SHiP protocol has no {0}; Leap 3 to 5 and Spring 1 are supported")]
    Missing(String),
    /// A struct or variant differs from the one this program reads.
    #[error(
        "the node's SHiP protocol has an unknown layout: {name}: {difference}; \
         Leap 3 to 5 and Spring 1 are supported"
    )]
    Layout {
        /// The struct, variant or table.
        name: String,
        /// What differs, and what was expected.
        difference: String,
    },
}

type Result<T> = std::result::Result<T, ProtocolError>;

/// How much of a struct is read by hand.
enum Read {
    Whole,
    /// Only its first fields (the columns of a lookup key; the header's fields up to `previous`).
    First(usize),
}

/// Every struct that is read or written by hand. The `_v0` and `_v1` of a variant are compared only if the node has them.
const READ_BY_HAND: &[(&str, Read)] = &[
    ("get_status_request_v0", Read::Whole),
    ("get_blocks_request_v0", Read::Whole),
    ("get_blocks_ack_request_v0", Read::Whole),
    ("get_status_result_v0", Read::Whole),
    ("get_blocks_result_v0", Read::Whole),
    ("block_position", Read::Whole),
    ("signed_block", Read::First(0)),
    ("signed_block_header", Read::First(0)),
    ("block_header", Read::First(4)),
    ("transaction_trace_v0", Read::Whole),
    ("action_trace_v0", Read::Whole),
    ("action_trace_v1", Read::Whole),
    ("action", Read::Whole),
    ("permission_level", Read::Whole),
    ("action_receipt_v0", Read::Whole),
    ("account_auth_sequence", Read::Whole),
    ("account_delta", Read::Whole),
    ("partial_transaction_v0", Read::Whole),
    ("extension", Read::Whole),
    ("table_delta_v0", Read::Whole),
    ("row", Read::Whole),
    ("contract_row_v0", Read::Whole),
    ("account_v0", Read::Whole),
    ("code_v0", Read::Whole),
    ("account_metadata_v0", Read::First(1)),
    ("contract_table_v0", Read::First(3)),
    ("contract_index64_v0", Read::First(4)),
    ("contract_index128_v0", Read::First(4)),
    ("contract_index256_v0", Read::First(4)),
    ("contract_index_double_v0", Read::First(4)),
    ("contract_index_long_double_v0", Read::First(4)),
    ("generated_transaction_v0", Read::First(2)),
    ("permission_v0", Read::First(2)),
    ("permission_link_v0", Read::First(3)),
    ("resource_limits_v0", Read::First(1)),
    ("resource_usage_v0", Read::First(1)),
];

/// The variants of which any case can come: one that is not known must not exist.
const WALKED: &[&str] =
    &["transaction_trace", "action_trace", "action_receipt", "partial_transaction", "table_delta"];

// === impl Protocol ===

impl Protocol {
    /// Reads a node's ABI frame and compares it with what this program knows.
    pub fn parse(text: &str) -> Result<Protocol> {
        let node = Abi::parse(text)?;
        let known = Abi::parse(KNOWN)?;
        for name in WALKED {
            node.check_cases(&known, name)?;
        }
        let mut tables = HashMap::new();
        for table in &node.tables {
            if !known.tables.iter().any(|t| t.name == table.name && t.row == table.row) {
                return Err(ProtocolError::Layout {
                    name: format!("table `{}`", table.name),
                    difference: format!("this program knows no such table of type `{}`", table.row),
                });
            }
            node.check_cases(&known, &table.row)?;
            let versions = node.variant(&table.row)?.to_vec();
            tables.insert(table.name.clone(), Table { versions });
        }
        for (name, read) in READ_BY_HAND {
            match node.structs.get(*name) {
                Some(found) => compare(name, read, &known, found)?,
                None if node.may_lack(name) => {}
                None => return Err(ProtocolError::Missing(format!("struct `{name}`"))),
            }
        }
        Ok(Protocol {
            abi: Arc::from(text),
            request: RequestVariants {
                status: node.index("request", "get_status_request_v0")?,
                blocks: node.index("request", "get_blocks_request_v0")?,
                ack: node.index("request", "get_blocks_ack_request_v0")?,
            },
            result: ResultVariants {
                status: node.index("result", "get_status_result_v0")?,
                blocks: node.index("result", "get_blocks_result_v0")?,
            },
            walk: WalkVariants {
                transaction_trace_v0: node.index("transaction_trace", "transaction_trace_v0")?,
                action_trace_v0: node.index("action_trace", "action_trace_v0").ok(),
                action_trace_v1: node.index("action_trace", "action_trace_v1").ok(),
                action_receipt_v0: node.index("action_receipt", "action_receipt_v0")?,
                partial_transaction_v0: node.index("partial_transaction", "partial_transaction_v0")?,
                table_delta_v0: node.index("table_delta", "table_delta_v0")?,
            },
            tables,
            results: node.variant("result")?.to_vec(),
        })
    }

    /// The name of a result type, for messages.
    pub fn result_name(&self, index: u32) -> Option<&str> {
        self.results.get(index as usize).map(String::as_str)
    }
}

/// Compares what is read of a struct with the known one.
fn compare(name: &str, read: &Read, known: &Abi, found: &Struct) -> Result<()> {
    let differs =
        |difference: String| Err(ProtocolError::Layout { name: format!("struct `{name}`"), difference });
    let Some(expected) = known.structs.get(name) else {
        return differs("this program does not know it".to_owned());
    };
    if found.base != expected.base {
        return differs(format!("its base is `{}`, not `{}`", found.base, expected.base));
    }
    let count = match read {
        Read::Whole => expected.fields.len().max(found.fields.len()),
        Read::First(count) => *count,
    };
    for i in 0..count {
        match (found.fields.get(i), expected.fields.get(i)) {
            (Some(f), Some(e)) if f == e => {}
            (Some(f), Some(e)) => return differs(format!("field {} is {f}, not {e}", i + 1)),
            (Some(f), None) => return differs(format!("field {} is {f}, which is one too many", i + 1)),
            (None, Some(e)) => return differs(format!("field {}, {e}, is missing", i + 1)),
            (None, None) => break,
        }
    }
    Ok(())
}

/// The parts of an ABI that matter here.
struct Abi {
    structs: HashMap<String, Struct>,
    variants: HashMap<String, Vec<String>>,
    tables: Vec<AbiTable>,
}

#[derive(Deserialize)]
struct AbiFrame {
    version: String,
    structs: Vec<Struct>,
    variants: Vec<Variant>,
    tables: Vec<AbiTable>,
}

#[derive(Deserialize)]
struct Struct {
    name: String,
    #[serde(default)]
    base: String,
    fields: Vec<Field>,
}

#[derive(Deserialize, PartialEq)]
struct Field {
    name: String,
    #[serde(rename = "type")]
    kind: String,
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}: {}`", self.name, self.kind)
    }
}

#[derive(Deserialize)]
struct Variant {
    name: String,
    types: Vec<String>,
}

#[derive(Deserialize)]
struct AbiTable {
    name: String,
    #[serde(rename = "type")]
    row: String,
}

// === impl Abi ===

impl Abi {
    fn parse(text: &str) -> Result<Abi> {
        let frame: AbiFrame = serde_json::from_str(text).map_err(|e| ProtocolError::NotAbi(e.to_string()))?;
        if !frame.version.starts_with("eosio::abi/1.") {
            return Err(ProtocolError::NotAbi(format!("its version is `{}`", frame.version)));
        }
        Ok(Abi {
            structs: frame.structs.into_iter().map(|s| (s.name.clone(), s)).collect(),
            variants: frame.variants.into_iter().map(|v| (v.name, v.types)).collect(),
            tables: frame.tables,
        })
    }

    fn variant(&self, name: &str) -> Result<&[String]> {
        let found = self.variants.get(name).map(Vec::as_slice);
        found.ok_or_else(|| ProtocolError::Missing(format!("variant `{name}`")))
    }

    fn index(&self, variant: &str, case: &str) -> Result<u32> {
        let place = self.variant(variant)?.iter().position(|t| t == case);
        // The text of a frame cannot hold 2^32 cases.
        place
            .map(|i| i as u32)
            .ok_or_else(|| ProtocolError::Missing(format!("`{case}` in the variant `{variant}`")))
    }

    /// Every case of this variant must be one that is known.
    fn check_cases(&self, known: &Abi, variant: &str) -> Result<()> {
        let expected = known.variant(variant)?;
        match self.variant(variant)?.iter().find(|case| !expected.contains(case)) {
            None => Ok(()),
            Some(case) => Err(ProtocolError::Layout {
                name: format!("variant `{variant}`"),
                difference: format!("this program does not know its case `{case}`"),
            }),
        }
    }

    /// Whether the struct is a case that no variant of this node has: then it need not exist.
    fn may_lack(&self, name: &str) -> bool {
        (name.ends_with("_v0") || name.ends_with("_v1"))
            && !self.variants.values().any(|cases| cases.iter().any(|case| case == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAP: &str = include_str!("../../abi/leap-4.0.6.json");

    fn refused(abi: &str) -> String {
        Protocol::parse(abi).expect_err("refused").to_string()
    }

    #[test]
    fn leap_and_spring_are_known() {
        let leap = Protocol::parse(LEAP).expect("Leap");
        assert_eq!(leap.request, RequestVariants { status: 0, blocks: 1, ack: 2 });
        assert_eq!(leap.result, ResultVariants { status: 0, blocks: 1 });
        assert_eq!((leap.walk.action_trace_v0, leap.walk.action_trace_v1), (Some(0), Some(1)));
        let spring = Protocol::parse(KNOWN).expect("Spring");
        assert_eq!(spring.result_name(2), Some("get_blocks_result_v1"));
        for protocol in [leap, spring] {
            assert_eq!(protocol.tables.len(), 19);
            assert_eq!(
                protocol.tables["global_property"].versions,
                ["global_property_v0", "global_property_v1"]
            );
        }
    }

    #[test]
    fn indices_are_the_nodes_own() {
        let moved = LEAP
            .replace(
                r#""get_status_request_v0", "get_blocks_request_v0""#,
                r#""get_blocks_request_v0", "get_status_request_v0""#,
            )
            .replace(r#""action_trace_v0", "action_trace_v1""#, r#""action_trace_v1""#);
        assert!(moved != LEAP);
        let protocol = Protocol::parse(&moved).expect("known layouts");
        assert_eq!(protocol.request, RequestVariants { status: 1, blocks: 0, ack: 2 });
        assert_eq!((protocol.walk.action_trace_v0, protocol.walk.action_trace_v1), (None, Some(0)));
    }

    #[test]
    fn other_layouts_are_refused_by_name() {
        for (from, to, parts) in [
            (
                r#""name": "global_sequence", "type": "uint64""#,
                r#""name": "global_sequence", "type": "uint32""#,
                &[
                    "struct `action_receipt_v0`",
                    "field 3 is `global_sequence: uint32`, not `global_sequence: uint64`",
                ][..],
            ),
            (
                r#""types": ["table_delta_v0"]"#,
                r#""types": ["table_delta_v0", "table_delta_v1"]"#,
                &["variant `table_delta`", "`table_delta_v1`"],
            ),
            (
                r#""name": "previous", "type": "checksum256""#,
                r#""name": "previous", "type": "checksum160""#,
                &["struct `block_header`", "field 4 is `previous: checksum160`"],
            ),
            (
                r#""types": ["permission_v0"]"#,
                r#""types": ["permission_v0", "permission_v7"]"#,
                &["variant `permission`", "`permission_v7`"],
            ),
            (r#""name": "row", "fields""#, r#""name": "rho", "fields""#, &["no struct `row`"]),
            (
                r#""get_blocks_ack_request_v0"] }"#,
                r#""get_blocks_ack_request_v9"] }"#,
                &["no `get_blocks_ack_request_v0` in the variant `request`"],
            ),
            ("eosio::abi/1.1", "eosio::abi/2.0", &["version is `eosio::abi/2.0`"]),
            ("\"structs\"", "\"strukts\"", &["missing field `structs`"]),
        ] {
            let changed = LEAP.replacen(from, to, 1);
            assert!(changed != LEAP, "{from}");
            let error = refused(&changed);
            for part in parts {
                assert!(error.contains(part), "{error}");
            }
        }
    }
}
