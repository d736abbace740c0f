//! Events of kind `fork` and `block`.

use super::Block;
use super::action::write_name;
use super::envelope::{Head, Kind};
use super::sink::Sink;
use crate::block::{Checksum, Position};
use crate::chain::Fork;
use crate::hex;
use crate::out::Out;
use crate::resp::decimal;

/// Writes a `fork` event; `block` is the one that follows the common block now.
pub fn write_fork(chain: &Checksum, fork: &Fork, block: &Position, sink: &mut Sink) {
    let mut id = Out::default();
    decimal(&mut id, fork.common.into());
    id.push(b':');
    hex::write_lower(&mut id, &block.id.0[..8]);
    let chain = hex::lower(&chain.0);
    sink.begin(&Head::new(Kind::Fork, chain.as_bytes(), &id));
    sink.end_id();
    let out = &mut sink.out;
    out.append(b"\",\"chain_id\":\"");
    out.append(chain.as_bytes());
    out.append(b"\",\"forked_from_block\":");
    decimal(out, fork.common.into());
    out.append(b",\"new_head_block_id\":\"");
    hex::write_lower(out, &block.id.0);
    out.append(b"\",\"old_head_block_num\":");
    decimal(out, fork.old_head.num.into());
    out.append(b",\"old_head_block_id\":\"");
    hex::write_lower(out, &fork.old_head.id.0);
    out.append(b"\",\"removed\":[");
    for (i, id) in fork.removed.iter().enumerate() {
        out.append(if i == 0 { b"\"" } else { b",\"" });
        hex::write_lower(out, &id.0);
        out.push(b'"');
    }
    out.append(b"]}");
    sink.end(None);
}

/// Writes the `block` event that closes a block.
pub fn write_block(
    chain: &Checksum,
    block: &Block,
    position: &Position,
    previous: &Checksum,
    sink: &mut Sink,
) {
    let mut id = Out::default();
    decimal(&mut id, position.num.into());
    id.push(b':');
    hex::write_lower(&mut id, &position.id.0[..8]);
    sink.begin(&Head::new(Kind::Block, hex::lower(&chain.0).as_bytes(), &id));
    sink.end_id();
    let out = &mut sink.out;
    out.append(&block.envelope.fields);
    out.append(b",\"prev_block_id\":\"");
    hex::write_lower(out, &previous.0);
    write_name(out, b"\",\"producer\":\"", block.plan.header.producer);
    out.append(b"\",\"actions\":");
    decimal(out, block.plan.counts.actions);
    out.append(b",\"deltas\":");
    decimal(out, block.plan.counts.deltas);
    out.push(b'}');
    sink.end(None);
}
