//! The events of a capture, one JSON object a line, without Redis.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::Context;

use super::file::CaptureReader;
use crate::chain::Chain;
use crate::event::{Sink, Style, write_block, write_fork};
use crate::history::{Fallback, History};
use crate::pipeline::Intake;
use crate::plan::Selection;
use crate::ship::message::BlockResult;

/// Decodes the capture at `path` and writes its events to `out`.
pub async fn decode(
    path: &Path,
    selection: Selection,
    style: Style,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut capture = CaptureReader::open(path)?;
    let chain_id = capture.status.chain_id.with_context(|| {
        format!(
            "{}: its status result has no chain id: the node that was recorded is too old",
            path.display()
        )
    })?;
    let blocks = selection.blocks;
    let history = History::new(None, Fallback::Publish, Vec::new(), BTreeMap::new());
    let mut intake = Intake::new(chain_id, Chain::new(&[], None, None), history, selection, style);
    intake.connected(capture.protocol.clone(), &capture.status, None)?;
    while let Some(frame) = capture.next() {
        let protocol = capture.protocol.clone();
        let result = BlockResult::decode(&frame?, &protocol).map_err(|e| capture.error(e.to_string()))?;
        let Some(ready) = intake.take(&result).await.map_err(|e| capture.error(e.to_string()))? else {
            continue;
        };
        intake.settle(ready.position.num.min(ready.last_irreversible));
        let mut sink = Sink::lines();
        if let Some((fork, _)) = &ready.fork {
            write_fork(&chain_id, fork, &ready.position, &mut sink);
        }
        for part in 0..ready.block.plan.parts.len() {
            ready.block.write_part(part, &mut sink);
        }
        if blocks {
            write_block(&chain_id, &ready.block, &ready.position, &ready.previous, &mut sink);
        }
        for chunk in sink.finish() {
            out.write_all(&chunk.bytes)?;
        }
    }
    out.flush()?;
    Ok(())
}
