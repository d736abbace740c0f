//! Blocks of any size, made of one recorded transfer again and again.

use std::ops::RangeInclusive;

use anyhow::{Result, bail};
use bytes::Bytes;
use parser::block::{Checksum, Position};
use parser::capture::file::Capture;
use parser::name::Name;
use parser::plan::{Plan, Selection};
use parser::ship::message::BlockResult;
use parser::walk;

use crate::workload::Bench;

/// The contract of all actions.
pub const CONTRACT: Name = Name::literal("eosio.token");

/// How many blocks at the chain's end can be undone.
const REVERSIBLE: u32 = 300;

/// Behind the block's number in all ids.
const ID: u8 = 0x5a;

/// A block's number and id.
pub fn position(num: u32) -> Position {
    let mut id = [ID; 32];
    id[..4].copy_from_slice(&num.to_be_bytes());
    Position { num, id: Checksum(id) }
}

/// The data of a transfer of the recording.
pub fn transfer(bench: &Bench) -> Result<Vec<u8>> {
    let mut actions = Vec::new();
    for frame in bench.capture.frames.iter().skip(200) {
        let result = BlockResult::decode(frame, &bench.capture.protocol)?;
        let Some(traces) = result.traces else { continue };
        actions.clear();
        walk::transactions(&traces, &bench.capture.protocol.walk, &mut actions, |_, _, _| ())?;
        let transfer = Name::literal("transfer");
        let found = actions.iter().find(|trace| trace.account == CONTRACT && trace.name == transfer);
        if let Some(found) = found {
            return Ok(found.data.of(&traces).to_vec());
        }
    }
    bail!("the recording has no transfer")
}

/// Block 1 with the contract's ABI, then blocks of `actions` transfers.
pub fn capture(bench: &Bench, blocks: RangeInclusive<u32>, actions: usize) -> Result<Capture> {
    let abi = bench.abi(CONTRACT)?;
    let transfer = transfer(bench)?;
    let mut frames = vec![first_block(bench, &abi)];
    let all = vec![transfer; actions];
    frames.extend(blocks.map(|num| block(bench, num, &all).encode(&bench.capture.protocol)));
    Ok(Capture {
        abi: bench.capture.abi.clone(),
        protocol: bench.capture.protocol.clone(),
        status: bench.capture.status.clone(),
        frames,
    })
}

/// The plan of a block.
pub fn plan(bench: &Bench, block: &BlockResult) -> Result<Plan> {
    let part = |part: &Option<Bytes>| part.clone().unwrap_or_default();
    let (header, traces, deltas) = (part(&block.block), part(&block.traces), part(&block.deltas));
    Ok(Plan::new(&bench.capture.protocol, &Selection::default(), &header, traces, deltas)?)
}

/// A block with these transfers, each in a transaction of its own.
pub fn block(bench: &Bench, num: u32, transfers: &[Vec<u8>]) -> BlockResult {
    let walk = &bench.capture.protocol.walk;
    let mut traces = Vec::new();
    varuint(&mut traces, transfers.len() as u64);
    for (place, data) in transfers.iter().enumerate() {
        varuint(&mut traces, walk.transaction_trace_v0.into());
        let mut id = position(num).id.0;
        id[28..].copy_from_slice(&(place as u32).to_le_bytes());
        traces.extend(id);
        traces.extend([0; 1 + 4 + 1 + 8 + 8 + 1]); // executed; CPU, net, elapsed, net, scheduled
        traces.push(1);
        action(&mut traces, bench, u64::from(num) * 100_000 + place as u64, data);
        traces.extend([0; 5]); // RAM, exception, error code, failed transaction, partial
    }
    result(num, Some(traces.into()), vec![0])
}

fn action(out: &mut Vec<u8>, bench: &Bench, sequence: u64, data: &[u8]) {
    let walk = &bench.capture.protocol.walk;
    let contract = CONTRACT.0.to_le_bytes();
    let sender = data.get(..8).unwrap_or(&contract);
    varuint(out, walk.action_trace_v1.or(walk.action_trace_v0).unwrap_or_default().into());
    out.extend([1, 0, 1]); // ordinal, creator, receipt
    varuint(out, walk.action_receipt_v0.into());
    out.extend(contract);
    out.extend([0x9d; 32]);
    out.extend(sequence.to_le_bytes());
    out.extend(sequence.to_le_bytes());
    out.push(1);
    out.extend_from_slice(sender);
    out.extend(sequence.to_le_bytes());
    out.extend([1, 1]); // code and ABI sequence
    out.extend([contract, contract, Name::literal("transfer").0.to_le_bytes()].concat());
    out.push(1);
    out.extend_from_slice(sender);
    out.extend(Name::literal("active").0.to_le_bytes());
    bytes(out, data);
    out.extend([0; 1 + 8 + 1 + 1 + 1 + 1]); // context free, elapsed, console, RAM, exception, error code
    if walk.action_trace_v1.is_some() {
        out.push(0); // return value
    }
}

/// Block 1: no traces, a row of `account` with the ABI.
fn first_block(bench: &Bench, abi: &[u8]) -> Bytes {
    let mut row = vec![0];
    row.extend(CONTRACT.0.to_le_bytes());
    row.extend([0; 4]); // creation date
    bytes(&mut row, abi);
    let mut deltas = vec![1, 0];
    bytes(&mut deltas, b"account");
    deltas.extend([1, 1]);
    bytes(&mut deltas, &row);
    result(1, None, deltas).encode(&bench.capture.protocol)
}

fn result(num: u32, traces: Option<Bytes>, deltas: Vec<u8>) -> BlockResult {
    let previous = position(num - 1);
    let mut header = vec![0; 60];
    header[..4].copy_from_slice(&(1000 + num).to_le_bytes());
    header[14..46].copy_from_slice(&previous.id.0);
    BlockResult {
        head: position(num),
        last_irreversible: position(num.saturating_sub(REVERSIBLE).max(1)),
        this_block: Some(position(num)),
        prev_block: (num > 1).then_some(previous),
        block: Some(header.into()),
        traces,
        deltas: Some(deltas.into()),
    }
}

fn varuint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varuint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
