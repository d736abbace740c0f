//! Blocks taken, linked and decoded without Redis: what each of them would publish.
#![allow(dead_code)] // Not every test uses all of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parser::block::Checksum;
use parser::chain::Chain;
use parser::event::{Sink, Style, write_block, write_fork};
use parser::history::{Fallback, History};
use parser::pipeline::{Intake, IntakeError, Ready};
use parser::plan::Selection;
use parser::ship::message::{BlockResult, StatusResult};
use parser::ship::protocol::Protocol;
use serde_json::Value;

pub struct Lines {
    pub intake: Intake,
    protocol: Arc<Protocol>,
    chain_id: Checksum,
    blocks: bool,
}

impl Lines {
    pub fn new(protocol: Arc<Protocol>, chain_id: Checksum, selection: Selection, style: Style) -> Lines {
        let history = History::new(None, Fallback::Publish, Vec::new(), BTreeMap::new());
        Lines::with(protocol, chain_id, selection, style, history)
    }

    pub fn with(
        protocol: Arc<Protocol>,
        chain_id: Checksum,
        selection: Selection,
        style: Style,
        history: History,
    ) -> Lines {
        let blocks = selection.blocks;
        let mut intake = Intake::new(chain_id, Chain::new(&[], None, None), history, selection, style);
        let status = StatusResult {
            head: Default::default(),
            last_irreversible: Default::default(),
            trace_begin_block: 2,
            trace_end_block: u32::MAX,
            chain_state_begin_block: 1,
            chain_state_end_block: u32::MAX,
            chain_id: Some(chain_id),
        };
        intake.connected(protocol.clone(), &status, None).expect("a protocol ABI");
        Lines { intake, protocol, chain_id, blocks }
    }

    /// The block's events, none where it is a repeated one.
    pub async fn take(&mut self, frame: &Bytes) -> Result<Option<Vec<Value>>, IntakeError> {
        let result = BlockResult::decode(frame, &self.protocol).expect("a block");
        let Some(ready) = self.intake.take(&result).await? else { return Ok(None) };
        self.intake.settle(ready.position.num.min(ready.last_irreversible));
        Ok(Some(parse(&self.write(&ready))))
    }

    /// The block's events as they are written, a line each.
    pub fn write(&self, ready: &Ready) -> Vec<u8> {
        let mut sink = Sink::lines();
        if let Some((fork, _)) = &ready.fork {
            write_fork(&self.chain_id, fork, &ready.position, &mut sink);
        }
        for part in 0..ready.block.plan.parts.len() {
            ready.block.write_part(part, &mut sink);
        }
        if self.blocks {
            write_block(&self.chain_id, &ready.block, &ready.position, &ready.previous, &mut sink);
        }
        sink.finish().remove(0).bytes.to_vec()
    }

    /// The events of all these frames.
    pub async fn all(&mut self, frames: &[Bytes]) -> Vec<Value> {
        let mut events = Vec::new();
        for frame in frames {
            events.extend(self.take(frame).await.expect("taken").unwrap_or_default());
        }
        events
    }
}

pub fn parse(lines: &[u8]) -> Vec<Value> {
    let lines = lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
}
