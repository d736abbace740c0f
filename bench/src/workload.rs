//! The `load` capture, and what sections need of it again and again.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use parser::base64;
use parser::block::Checksum;
use parser::capture::file::Capture;
use parser::keys::Keys;
use parser::name::Name;
use parser::ship::message::BlockResult;
use parser::walk;

use crate::node::Node;
use crate::program::{Program, Settings};
use crate::recording::{Recording, Relay};
use crate::redis::{Fsync, Redis};

/// Blocks recorded beyond the capture's end, from its second lap: a run is looked at while it goes on.
const BEYOND: u32 = 200;

/// What all sections work with.
pub struct Bench {
    /// Fewer repetitions and variants.
    pub quick: bool,
    /// The `parser` measured.
    pub program: PathBuf,
    /// The capture's file.
    pub path: PathBuf,
    /// The capture.
    pub capture: Capture,
    /// Its chain.
    pub chain_id: Checksum,
    /// The keys of its chain.
    pub keys: Keys,
    /// What each block holds, in order.
    blocks: Vec<BlockSize>,
    node: Option<Rc<Node>>,
    recordings: HashMap<&'static str, Rc<Recording>>,
}

/// What a block of the capture holds, with all blocks before it.
#[derive(Debug, Clone, Copy, Default)]
pub struct BlockSize {
    /// Bytes of frames.
    pub bytes: u64,
    /// Action traces with a receipt, notifications among them.
    pub traces: u64,
}

// === impl Bench ===

impl Bench {
    /// Loads the capture.
    pub fn new(root: &Path, program: PathBuf, quick: bool) -> Result<Bench> {
        let shared = std::env::var_os("PARSER_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
        let path = shared.join("captures/load.shipcap.zst");
        ensure!(
            path.exists(),
            "the recording is missing: {} (PARSER_SHARED names the directory above `captures`)",
            path.display()
        );
        ensure!(program.exists(), "{} is missing: start this by scripts/bench", program.display());
        let capture = Capture::load(&path)?;
        let chain_id = capture.status.chain_id.context("the recording has no chain id")?;
        let blocks = sizes(&capture)?;
        Ok(Bench {
            quick,
            program,
            path,
            capture,
            chain_id,
            keys: Keys::new("parser2", &chain_id, ""),
            blocks,
            node: None,
            recordings: HashMap::new(),
        })
    }

    /// One for the short version, another for the whole one.
    pub fn pick<T>(&self, quick: T, whole: T) -> T {
        if self.quick { quick } else { whole }
    }

    /// The capture's last block.
    pub fn last_block(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// The packed ABIs that the contracts have at the capture's end, in base64.
    pub fn abis(&self) -> Result<HashMap<String, String>> {
        let path = self.path.with_file_name("load.rawabi.json");
        let text = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} holds no ABIs", path.display()))
    }

    /// One of them, packed.
    pub fn abi(&self, contract: Name) -> Result<Vec<u8>> {
        let abis = self.abis()?;
        let abi = abis.get(&contract.to_string()).and_then(|abi| base64::decode(abi));
        abi.with_context(|| format!("the recording has no ABI of {contract}"))
    }

    /// What the blocks up to `num` hold, in the first lap or behind it.
    pub fn up_to(&self, num: u32) -> BlockSize {
        let size = |num: u32| num.checked_sub(1).map_or(BlockSize::default(), |i| self.blocks[i as usize]);
        let last = self.last_block();
        if num <= last {
            return size(num);
        }
        // Laps begin with block 2.
        let (whole, first, rest) = (size(last), size(1), size(1 + num - last));
        BlockSize {
            bytes: whole.bytes + rest.bytes - first.bytes,
            traces: whole.traces + rest.traces - first.traces,
        }
    }

    /// The node that plays the capture for ever, started when first needed.
    pub fn node(&mut self) -> Result<Rc<Node>> {
        if let Some(node) = &self.node {
            return Ok(node.clone());
        }
        let node = Rc::new(Node::serve(&self.program, &self.path, &["--endless"])?);
        self.node = Some(node.clone());
        Ok(node)
    }

    /// A parser from the endless node into an empty Redis.
    pub fn run(&mut self, redis: &Redis, settings: &Settings) -> Result<Program> {
        let node = self.node()?;
        Program::start(&self.program, node.url(), redis, redis.port(), &self.keys, settings)
    }

    /// The commands that the parser writes for the capture and a little of its second lap, recorded once for each kind
    /// of ids.
    pub fn recording(&mut self, ids: &'static str) -> Result<Rc<Recording>> {
        if let Some(recording) = self.recordings.get(ids) {
            return Ok(recording.clone());
        }
        let node = self.node()?;
        let to = self.last_block() + BEYOND;
        let settings = Settings { ids, ..Settings::default() };
        let redis = Redis::start(Fsync::EverySecond)?;
        let recording = record(&redis, &self.program, node.url(), &self.keys, &settings, to)?;
        let recording = Rc::new(recording);
        self.recordings.insert(ids, recording.clone());
        Ok(recording)
    }
}

/// Records the commands that a parser writes into a Redis up to block `to`.
pub fn record(
    redis: &Redis,
    program: &Path,
    node: &str,
    keys: &Keys,
    settings: &Settings,
    to: u32,
) -> Result<Recording> {
    let relay = Relay::start(redis.port())?;
    let mut parser = Program::start(program, node, redis, relay.port(), keys, settings)?;
    parser.reach(redis, to, |_| Ok(()))?;
    drop(parser);
    relay.recording()
}

fn sizes(capture: &Capture) -> Result<Vec<BlockSize>> {
    let mut sizes = Vec::new();
    let (mut size, mut scratch) = (BlockSize::default(), Vec::new());
    for frame in &capture.frames {
        let result = BlockResult::decode(frame, &capture.protocol)?;
        let Some(this) = result.this_block else { continue };
        ensure!(this.num as usize == sizes.len() + 1, "the recording is not one chain from block 1 on");
        size.bytes += frame.len() as u64;
        if let Some(traces) = &result.traces {
            scratch.clear();
            walk::transactions(traces, &capture.protocol.walk, &mut scratch, |_, _, _| ())?;
            size.traces += scratch.len() as u64;
        }
        sizes.push(size);
    }
    Ok(sizes)
}
