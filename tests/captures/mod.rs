//! What the tests of nodes and captures share.
#![allow(dead_code)] // Not every test uses all of it.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use parser::block::{Checksum, Position};
use parser::capture::file::Capture;
use parser::capture::serve::{Listener, ServeOptions, Server};
use parser::ship::message::{BlockResult, StatusResult};
use parser::ship::node::{Node, NodeError, NodeOptions};
use parser::ship::protocol::Protocol;

/// A file beside the project, with the recorded captures; none where they are missing.
pub fn shared(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("PARSER_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let file = root.join("captures").join(path);
    if !file.exists() {
        println!("skipped: {} is missing", file.display());
        return None;
    }
    Some(file)
}

pub fn recorded(name: &str) -> Option<Capture> {
    let path = shared(&format!("{name}.shipcap.zst"))?;
    Some(Capture::load(&path).expect("a capture"))
}

/// The block that a frame is about.
pub fn block(frame: &Bytes, protocol: &Protocol) -> Option<Position> {
    result(frame, protocol).this_block
}

/// What a frame says.
pub fn result(frame: &Bytes, protocol: &Protocol) -> BlockResult {
    BlockResult::decode(frame, protocol).expect("a result")
}

pub fn id(num: u32, branch: u8) -> Checksum {
    let mut id = [branch; 32];
    id[..4].copy_from_slice(&num.to_be_bytes());
    Checksum(id)
}

pub fn position(num: u32, branch: u8) -> Position {
    Position { num, id: id(num, branch) }
}

/// A made-up chain: blocks by number and branch, each linked to the one before it in the list with the number below.
pub fn made_up(blocks: &[(u32, u8)], irreversible: u32) -> Capture {
    let protocol = Protocol::parse(include_str!("../../abi/leap-4.0.6.json")).expect("known");
    let mut frames = Vec::new();
    for (place, &(num, branch)) in blocks.iter().enumerate() {
        let before = blocks[..place].iter().rev().find(|(n, _)| n + 1 == num);
        let prev =
            before.map(|&(num, branch)| position(num, branch)).or((num > 1).then(|| position(num - 1, 0)));
        let mut header = vec![0; 60];
        header[..4].copy_from_slice(&(1000 + num).to_le_bytes());
        header[14..46].copy_from_slice(&prev.map_or([0; 32], |prev| prev.id.0));
        let block = BlockResult {
            head: position(num, branch),
            last_irreversible: position(irreversible.min(num), 0),
            this_block: Some(position(num, branch)),
            prev_block: prev,
            block: Some(header.into()),
            traces: (num > 1).then(|| Bytes::from(vec![0; 10])),
            deltas: Some(Bytes::from_static(b"\0")),
        };
        frames.push(block.encode(&protocol));
    }
    let status = StatusResult {
        head: position(2, 0),
        last_irreversible: position(1, 0),
        trace_begin_block: 2,
        trace_end_block: 3,
        chain_state_begin_block: 1,
        chain_state_end_block: 3,
        chain_id: Some(Checksum([7; 32])),
    };
    Capture { abi: protocol.abi.to_string(), protocol: protocol.into(), status, frames }
}

/// A plain chain of that many blocks.
pub fn plain(count: u32) -> Capture {
    made_up(&(1..=count).map(|num| (num, 0)).collect::<Vec<_>>(), count)
}

pub async fn serve(capture: &Capture, options: ServeOptions) -> Server {
    let listener = Listener::bind("127.0.0.1:0").await.expect("a free port");
    Server::start(capture, listener, options).expect("served")
}

pub fn options(urls: &[&str]) -> NodeOptions {
    let endpoints = urls.iter().map(|url| url.parse().expect("an address")).collect();
    NodeOptions { backoff: vec![Duration::from_millis(1)], ..NodeOptions::new(endpoints) }
}

/// Reads that many frames from block `start` on, acknowledging each.
pub async fn read(options: NodeOptions, start: u32, count: usize) -> Result<Vec<Bytes>, NodeError> {
    let connection = Node::new(options).connect().await?;
    let (mut frames, acks) = connection.request(start, None, &[]).await?;
    let mut read = Vec::new();
    while read.len() < count {
        read.push(frames.next().await?.bytes);
        acks.ack(1);
    }
    Ok(read)
}

/// The chain that stands after these frames, from the last irreversible block on: what a client knows that has them.
pub fn standing(frames: &[Bytes], protocol: &Protocol) -> Vec<Position> {
    let mut chain: Vec<Position> = Vec::new();
    for frame in frames {
        let result = BlockResult::decode(frame, protocol).expect("a block");
        let Some(this) = result.this_block else { continue };
        chain.retain(|block| block.num < this.num);
        chain.push(this);
        let from = chain.iter().rposition(|b| b.num <= result.last_irreversible.num).unwrap_or(0);
        chain.drain(..from);
    }
    chain
}
