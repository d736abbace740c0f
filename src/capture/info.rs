//! What a capture holds, in numbers: `capture info`.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::ship::message::BlockResult;

use super::file::{CaptureError, CaptureReader};

/// The numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Info {
    /// The chain; none if the recorded node did not say it.
    pub chain_id: Option<String>,
    /// Result frames.
    pub frames: u64,
    /// Different block numbers among them.
    pub blocks: u64,
    /// The lowest block number.
    pub first_block: Option<u32>,
    /// The highest block number.
    pub last_block: Option<u32>,
    /// The highest block number known to be irreversible.
    pub last_irreversible: Option<u32>,
    /// How often a number not above the one before it came.
    pub forks: u64,
    /// Results without a block (`this_block` null).
    pub empty_results: u64,
    /// Blocks without traces (block 1 never has any).
    pub without_traces: u64,
    /// Blocks without deltas.
    pub without_deltas: u64,
    /// Bytes of all result frames.
    pub bytes: u64,
    /// Bytes of the largest one.
    pub largest_frame: u64,
    /// The block in the largest one.
    pub largest_block: Option<u32>,
}

/// Reads a capture through, frame by frame.
pub fn info(path: &Path) -> Result<Info, CaptureError> {
    let mut reader = CaptureReader::open(path)?;
    let protocol = reader.protocol.clone();
    let mut info = Info { chain_id: reader.status.chain_id.map(|id| id.to_string()), ..Info::default() };
    let mut numbers = HashSet::new();
    let mut before = None;
    while let Some(frame) = reader.next() {
        let frame = frame?;
        let result = BlockResult::decode(&frame, &protocol).map_err(|e| reader.error(e.to_string()))?;
        let number = result.this_block.map(|block| block.num);
        info.frames += 1;
        info.bytes += frame.len() as u64;
        if frame.len() as u64 > info.largest_frame {
            (info.largest_frame, info.largest_block) = (frame.len() as u64, number);
        }
        info.last_irreversible = info.last_irreversible.max(Some(result.last_irreversible.num));
        let Some(number) = number else {
            info.empty_results += 1;
            continue;
        };
        numbers.insert(number);
        info.first_block = Some(info.first_block.map_or(number, |first| first.min(number)));
        info.last_block = info.last_block.max(Some(number));
        info.forks += u64::from(before.is_some_and(|before| number <= before));
        info.without_traces += u64::from(result.traces.is_none());
        info.without_deltas += u64::from(result.deltas.is_none());
        before = Some(number);
    }
    info.blocks = numbers.len() as u64;
    Ok(info)
}

// === impl Info ===

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |n: Option<u32>| n.map_or_else(|| "none".to_owned(), |n| n.to_string());
        writeln!(f, "chain              {}", self.chain_id.as_deref().unwrap_or("not told"))?;
        writeln!(
            f,
            "blocks             {} ({} to {})",
            self.blocks,
            number(self.first_block),
            number(self.last_block)
        )?;
        writeln!(f, "last irreversible  {}", number(self.last_irreversible))?;
        writeln!(f, "frames             {}", self.frames)?;
        writeln!(f, "forks              {}", self.forks)?;
        writeln!(f, "without a block    {}", self.empty_results)?;
        writeln!(f, "without traces     {}", self.without_traces)?;
        writeln!(f, "without deltas     {}", self.without_deltas)?;
        writeln!(f, "bytes              {}", self.bytes)?;
        write!(f, "largest frame      {} bytes (block {})", self.largest_frame, number(self.largest_block))
    }
}
