//! The first fields of a packed `signed_block`.

use crate::cursor::{Cursor, CursorError};
use crate::name::Name;

/// What the events take from a block's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// `block_timestamp_type`: half seconds since 2000-01-01T00:00:00Z.
    pub slot: u32,
    /// The block's producer.
    pub producer: Name,
}

// === impl Header ===

impl Header {
    /// Reads the header at the start of `block`.
    pub fn read(block: &[u8]) -> Result<Header, CursorError> {
        let mut cursor = Cursor::new(block);
        Ok(Header { slot: cursor.u32()?, producer: cursor.name()? })
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub fn time_ms(&self) -> u64 {
        946_684_800_000 + u64::from(self.slot) * 500
    }
}
