//! Changing recorded frames: other numbers, ids and links. A block under another id keeps what is
//! in it; nobody can tell from a frame alone that its id is not the hash of its header.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::block::{Checksum, Position};
use crate::ship::message::BlockResult;
use crate::ship::protocol::Protocol;

/// Where a packed block's header has its time (half seconds since 2000-01-01).
const TIME: std::ops::Range<usize> = 0..4;
/// Where it has the parent's id, behind time, producer and confirmations.
const PREVIOUS: std::ops::Range<usize> = 14..46;

/// The position's id with `mark` in it: another id for another block, whose first four bytes are the number,
/// as in every block id. Mark 0 is the id itself.
pub fn marked(position: Position, num: u32, mark: u32) -> Position {
    let mut id = position.id.0;
    id[..4].copy_from_slice(&num.to_be_bytes());
    for (byte, mark) in id[4..8].iter_mut().zip(mark.to_be_bytes()) {
        *byte ^= mark;
    }
    Position { num, id: Checksum(id) }
}

/// Makes the frame block `this` with the parent `prev`, in the result and in the block's own header.
pub fn relink(frame: &Bytes, protocol: &Protocol, this: Position, prev: Position) -> Bytes {
    change(frame, protocol, |result| {
        result.this_block = Some(this);
        result.prev_block = Some(prev);
        if let Some(block) = &mut result.block {
            *block = with_header(block, Some(prev.id), 0);
        }
    })
}

/// The frame with something changed in it. A frame that holds no block stays as it is.
pub fn change(frame: &Bytes, protocol: &Protocol, edit: impl FnOnce(&mut BlockResult)) -> Bytes {
    match BlockResult::decode(frame, protocol) {
        Ok(mut result) => {
            edit(&mut result);
            result.encode(protocol)
        }
        Err(_) => frame.clone(),
    }
}

/// A packed block with another parent and a time that many half seconds later.
pub fn with_header(block: &Bytes, previous: Option<Checksum>, later: u32) -> Bytes {
    let mut changed = block.to_vec();
    patch_header(&mut changed, previous, later);
    changed.into()
}

/// How much of a packed block [`patch_header`] may change.
pub(super) const HEADER: usize = PREVIOUS.end;

/// Changes the first bytes of a packed block; a block too short to have a header stays as it is.
pub(super) fn patch_header(block: &mut [u8], previous: Option<Checksum>, later: u32) {
    if let (Some(field), Some(id)) = (block.get_mut(PREVIOUS), previous) {
        field.copy_from_slice(&id.0);
    }
    if let Some(time) = time(block) {
        block[TIME].copy_from_slice(&time.wrapping_add(later).to_le_bytes());
    }
}

/// This moment, as in a header.
pub(super) fn now() -> u32 {
    /// 2000-01-01 in seconds since 1970.
    const EPOCH: u64 = 946_684_800;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let half_seconds = 2 * since.as_secs().saturating_sub(EPOCH) + u64::from(since.subsec_millis() / 500);
    u32::try_from(half_seconds).unwrap_or(u32::MAX)
}

/// The time in a packed block's header.
pub(super) fn time(block: &[u8]) -> Option<u32> {
    block.first_chunk().copied().map(u32::from_le_bytes)
}
