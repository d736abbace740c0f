//! Blocks made byte by byte, so that a test says itself what is in them and what must come out.
#![allow(dead_code)] // Not every test uses all of it.

use bytes::Bytes;
use parser::block::{Checksum, Position};
use parser::capture::file::Capture;
use parser::name::Name;
use parser::ship::message::{BlockResult, StatusResult};
use parser::ship::protocol::Protocol;

/// The chain of all blocks made here.
pub const CHAIN: Checksum = Checksum([7; 32]);

/// `transaction_status`.
pub const EXECUTED: u8 = 0;
pub const HARD_FAIL: u8 = 2;

pub fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

pub fn protocol() -> Protocol {
    Protocol::parse(include_str!("../../abi/leap-4.0.6.json")).expect("known")
}

/// Block `num` of a branch.
pub fn position(num: u32, branch: u8) -> Position {
    let mut id = [branch; 32];
    id[..4].copy_from_slice(&num.to_be_bytes());
    Position { num, id: Checksum(id) }
}

pub fn varuint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varuint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A packed ABI: action `go` and table `rows` have a struct of these fields.
pub fn abi(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let text = |out: &mut Vec<u8>, text: &str| bytes(out, text.as_bytes());
    text(&mut out, "eosio::abi/1.1");
    out.push(0); // types
    out.push(1);
    text(&mut out, "fields");
    text(&mut out, "");
    varuint(&mut out, fields.len() as u64);
    for (name, type_name) in fields {
        text(&mut out, name);
        text(&mut out, type_name);
    }
    out.push(1);
    out.extend(name("go").0.to_le_bytes());
    text(&mut out, "fields");
    text(&mut out, "");
    out.push(1);
    out.extend(name("rows").0.to_le_bytes());
    text(&mut out, "i64");
    out.extend([0, 0]);
    text(&mut out, "fields");
    out.extend([0; 4]); // ricardian clauses, error messages, extensions, variants
    out
}

/// An action trace.
#[derive(Clone)]
pub struct Act {
    pub account: Name,
    pub name: Name,
    pub receiver: Name,
    pub data: Vec<u8>,
    pub sequence: u64,
    pub abi_sequence: u32,
    pub creator: u32,
    pub receipt: bool,
}

/// `go` of a contract.
pub fn go(contract: &str, sequence: u64, abi_sequence: u32, data: &[u8]) -> Act {
    Act {
        account: name(contract),
        name: name("go"),
        receiver: name(contract),
        data: data.to_vec(),
        sequence,
        abi_sequence,
        creator: 0,
        receipt: true,
    }
}

/// `setabi` of a contract.
pub fn setabi(contract: &str, sequence: u64, abi: &[u8]) -> Act {
    let mut data = name(contract).0.to_le_bytes().to_vec();
    bytes(&mut data, abi);
    Act { name: name("setabi"), data, ..go("eosio", sequence, 1, &[]) }
}

/// A block to be.
#[derive(Clone)]
pub struct Made {
    pub this: Position,
    pub prev: Position,
    pub irreversible: u32,
    pub transactions: Vec<(u8, Vec<Act>)>,
    pub tables: Vec<(&'static str, Vec<(bool, Vec<u8>)>)>,
}

/// An empty block on block `num - 1` of the same branch. Nothing above block 1 is irreversible.
pub fn block(num: u32, branch: u8) -> Made {
    let (this, prev) = (position(num, branch), position(num - 1, branch));
    Made { this, prev, irreversible: 1, transactions: Vec::new(), tables: Vec::new() }
}

impl Made {
    /// On block `num - 1` of another branch.
    pub fn on(mut self, branch: u8) -> Made {
        self.prev = position(self.this.num - 1, branch);
        self
    }

    pub fn irreversible(mut self, num: u32) -> Made {
        self.irreversible = num;
        self
    }

    pub fn transaction(mut self, status: u8, acts: &[Act]) -> Made {
        self.transactions.push((status, acts.to_vec()));
        self
    }

    /// Each in a transaction of its own.
    pub fn acts(self, acts: &[Act]) -> Made {
        acts.iter().fold(self, |made, act| made.transaction(EXECUTED, std::slice::from_ref(act)))
    }

    /// A row of a contract's table `rows`.
    pub fn row(self, contract: &str, key: u64, value: &[u8]) -> Made {
        self.scoped_row(contract, contract, key, value, true)
    }

    pub fn scoped_row(self, contract: &str, scope: &str, key: u64, value: &[u8], present: bool) -> Made {
        let mut row = vec![0];
        for name in [name(contract), name(scope), name("rows")] {
            row.extend(name.0.to_le_bytes());
        }
        row.extend(key.to_le_bytes());
        row.extend(name(contract).0.to_le_bytes());
        bytes(&mut row, value);
        self.delta("contract_row", present, row)
    }

    /// A row of the chain's `account`.
    pub fn account(self, contract: &str, abi: &[u8]) -> Made {
        let mut row = vec![0];
        row.extend(name(contract).0.to_le_bytes());
        row.extend(1000u32.to_le_bytes());
        bytes(&mut row, abi);
        self.delta("account", true, row)
    }

    pub fn delta(mut self, table: &'static str, present: bool, row: Vec<u8>) -> Made {
        match self.tables.iter_mut().find(|(name, _)| *name == table) {
            Some((_, rows)) => rows.push((present, row)),
            None => self.tables.push((table, vec![(present, row)])),
        }
        // As nodeos lists them.
        self.tables.sort_by_key(|(name, _)| *name != "account");
        self
    }

    pub fn result(&self, protocol: &Protocol) -> BlockResult {
        let mut header = vec![0; 60];
        header[..4].copy_from_slice(&(1000 + self.this.num).to_le_bytes());
        header[14..46].copy_from_slice(&self.prev.id.0);
        BlockResult {
            head: self.this,
            last_irreversible: position(self.irreversible, 0),
            this_block: Some(self.this),
            prev_block: (self.this.num > 1).then_some(self.prev),
            block: Some(header.into()),
            traces: (self.this.num > 1).then(|| self.traces(protocol).into()),
            deltas: Some(self.deltas().into()),
        }
    }

    pub fn frame(&self, protocol: &Protocol) -> Bytes {
        self.result(protocol).encode(protocol)
    }

    fn traces(&self, protocol: &Protocol) -> Vec<u8> {
        let mut out = Vec::new();
        varuint(&mut out, self.transactions.len() as u64);
        for (place, (status, acts)) in self.transactions.iter().enumerate() {
            varuint(&mut out, protocol.walk.transaction_trace_v0.into());
            let mut id = self.this.id.0;
            id[31] = place as u8;
            out.extend(id);
            out.push(*status);
            out.extend([0; 4 + 1 + 8 + 8 + 1]);
            varuint(&mut out, acts.len() as u64);
            for (place, act) in acts.iter().enumerate() {
                act.write(&mut out, protocol, place as u32 + 1);
            }
            out.extend([0; 5]); // ram delta, except, error code, failed transaction, partial
        }
        out
    }

    fn deltas(&self) -> Vec<u8> {
        let mut out = Vec::new();
        varuint(&mut out, self.tables.len() as u64);
        for (table, rows) in &self.tables {
            out.push(0);
            bytes(&mut out, table.as_bytes());
            varuint(&mut out, rows.len() as u64);
            for (present, row) in rows {
                out.push((*present).into());
                bytes(&mut out, row);
            }
        }
        out
    }
}

impl Act {
    fn write(&self, out: &mut Vec<u8>, protocol: &Protocol, ordinal: u32) {
        varuint(out, protocol.walk.action_trace_v1.expect("a node of today").into());
        varuint(out, ordinal.into());
        varuint(out, self.creator.into());
        out.push(self.receipt.into());
        if self.receipt {
            varuint(out, protocol.walk.action_receipt_v0.into());
            out.extend(self.receiver.0.to_le_bytes());
            out.extend([9; 32]);
            out.extend(self.sequence.to_le_bytes());
            out.extend(self.sequence.to_le_bytes());
            out.extend([0, 1]); // no auth sequence, code sequence 1
            varuint(out, self.abi_sequence.into());
        }
        for name in [self.receiver, self.account, self.name] {
            out.extend(name.0.to_le_bytes());
        }
        out.push(0); // authorization
        bytes(out, &self.data);
        out.push(0); // context free
        out.extend([0; 8]);
        out.extend([0; 4]); // console, ram deltas, except, error code
        out.push(0); // return value
    }
}

/// These blocks as a capture.
pub fn capture(blocks: &[Made]) -> Capture {
    let protocol = protocol();
    let frames = blocks.iter().map(|block| block.frame(&protocol)).collect();
    let status = StatusResult {
        head: position(2, 0),
        last_irreversible: position(1, 0),
        trace_begin_block: 2,
        trace_end_block: 3,
        chain_state_begin_block: 1,
        chain_state_end_block: 3,
        chain_id: Some(CHAIN),
    };
    Capture { abi: protocol.abi.to_string(), protocol: protocol.into(), status, frames }
}
