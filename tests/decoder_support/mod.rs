//! Recorded traffic for the decoder's tests, taken apart by `rs_abieos` alone: nothing of the project reads it here.

#![allow(dead_code, reason = "each test uses a part of this")]

pub mod ask;
pub mod contracts;
pub mod draft;
pub mod generate;
pub mod verdict;
pub mod wharfkit;

use std::path::PathBuf;

use parser::hex;
use parser::name::Name;
use rs_abieos::AbiHandle;
use serde_json::Value;
pub use verdict::json;

/// The directory of the recordings, or `None` (said so) where there is none.
pub fn captures() -> Option<PathBuf> {
    let shared = std::env::var_os("PARSER_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")), PathBuf::from);
    let captures = shared.join("captures");
    if captures.is_dir() {
        return Some(captures);
    }
    println!("skipped: no recordings in {} (set PARSER_SHARED)", captures.display());
    None
}

/// A whole zstd file.
pub fn unpacked(path: PathBuf) -> Vec<u8> {
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    zstd::decode_all(file).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A recording: the node's ABI and the frames.
pub struct Capture {
    pub ship_abi: String,
    pub frames: Vec<Vec<u8>>,
}

/// A block of a recording.
#[derive(Default)]
pub struct Block {
    pub num: u32,
    /// The first 16 hexadecimal digits of its id.
    pub id16: String,
    pub actions: Vec<Action>,
    pub rows: Vec<Row>,
    /// Names and ABIs of the rows of `account`.
    pub accounts: Vec<(Name, Vec<u8>)>,
    /// Every row as it came: table and packed bytes.
    pub native: Vec<(String, Vec<u8>)>,
    /// The packed traces and deltas.
    pub packed: Vec<(&'static str, Vec<u8>)>,
}

/// An action trace, of whatever transaction.
pub struct Action {
    pub executed: bool,
    /// 0 without a receipt.
    pub global_sequence: u64,
    pub receiver: Name,
    pub account: Name,
    pub name: Name,
    pub data: Vec<u8>,
    pub return_value: Vec<u8>,
}

/// A row of `contract_row`.
pub struct Row {
    pub code: Name,
    pub scope: Name,
    pub table: Name,
    pub primary_key: u64,
    pub value: Vec<u8>,
}

// === impl Capture ===

impl Capture {
    pub fn open(path: PathBuf) -> Capture {
        let bytes = unpacked(path);
        let mut rest = &bytes[..];
        let mut records = Vec::new();
        while let [_, a, b, c, d, tail @ ..] = rest {
            let (payload, tail) = tail.split_at(u32::from_le_bytes([*a, *b, *c, *d]) as usize);
            records.push(payload.to_vec());
            rest = tail;
        }
        let mut records = records.into_iter();
        let ship_abi = String::from_utf8(records.next().expect("the ABI")).expect("the ABI is text");
        // The status result is not needed.
        Capture { ship_abi, frames: records.skip(1).collect() }
    }

    /// The blocks, as they came.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        let mut ship = AbiHandle::from_json(&self.ship_abi).expect("the node's ABI");
        self.frames.iter().filter_map(move |frame| block(&mut ship, frame))
    }
}

fn decoded(ship: &mut AbiHandle, type_name: &str, bytes: &[u8]) -> Value {
    let text = ship.bin_to_json(type_name, bytes).unwrap_or_else(|error| panic!("{type_name}: {error}"));
    json(text.as_bytes())
}

fn block(ship: &mut AbiHandle, frame: &[u8]) -> Option<Block> {
    let result = decoded(ship, "result", frame);
    let this = result[1].get("this_block").filter(|this| !this.is_null())?;
    let mut block = Block {
        num: this["block_num"].as_u64().expect("a number") as u32,
        id16: text(&this["block_id"])[..16].to_lowercase(),
        ..Block::default()
    };
    if let Some(traces) = result[1]["traces"].as_str() {
        let bytes = hex::parse(traces).expect("hex");
        for transaction in items(&decoded(ship, "transaction_trace[]", &bytes)) {
            block.add_transaction(&transaction[1]);
        }
        block.packed.push(("transaction_trace[]", bytes));
    }
    if let Some(deltas) = result[1]["deltas"].as_str() {
        let bytes = hex::parse(deltas).expect("hex");
        for delta in items(&decoded(ship, "table_delta[]", &bytes)) {
            let table = text(&delta[1]["name"]);
            for row in items(&delta[1]["rows"]) {
                let data = packed(&row["data"]);
                match table {
                    "contract_row" => block.add_row(&decoded(ship, table, &data)[1]),
                    "account" => {
                        let account = &decoded(ship, table, &data)[1];
                        block.accounts.push((name(&account["name"]), packed(&account["abi"])));
                    }
                    _ => {}
                }
                block.native.push((table.to_owned(), data));
            }
        }
        block.packed.push(("table_delta[]", bytes));
    }
    Some(block)
}

// === impl Block ===

impl Block {
    fn add_transaction(&mut self, transaction: &Value) {
        let executed = transaction["status"] == 0;
        for trace in items(&transaction["action_traces"]) {
            let trace = &trace[1];
            self.actions.push(Action {
                executed,
                global_sequence: trace["receipt"][1]["global_sequence"].as_str().map_or(0, number),
                receiver: name(&trace["receiver"]),
                account: name(&trace["act"]["account"]),
                name: name(&trace["act"]["name"]),
                data: packed(&trace["act"]["data"]),
                return_value: trace["return_value"]
                    .as_str()
                    .map(|hex| hex::parse(hex).expect("hex"))
                    .unwrap_or_default(),
            });
        }
        let failed = &transaction["failed_dtrx_trace"];
        if failed.is_array() {
            self.add_transaction(&failed[1]);
        }
    }

    fn add_row(&mut self, row: &Value) {
        self.rows.push(Row {
            code: name(&row["code"]),
            scope: name(&row["scope"]),
            table: name(&row["table"]),
            primary_key: number(text(&row["primary_key"])),
            value: packed(&row["value"]),
        });
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().expect("an array")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn name(value: &Value) -> Name {
    text(value).parse().expect("a name")
}

fn packed(value: &Value) -> Vec<u8> {
    hex::parse(text(value)).expect("hex")
}
