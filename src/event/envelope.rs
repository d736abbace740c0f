//! What all events of a block have in common, written once a block.

use crate::abi::block_timestamp;
use crate::block::{Checksum, Position};
use crate::hex;
use crate::resp::decimal;
use crate::walk::Header;

/// The start of an event, up to where its event id differs from that of others.
pub(super) struct Head {
    /// `{"kind":"KIND","event_id":"CHAIN:LETTER:NUM:ID16` and what follows.
    pub(super) json: Vec<u8>,
    /// Where in it the event id starts.
    pub(super) id_at: usize,
}

/// The fixed pieces of a block's events.
pub struct Envelope {
    /// `","chain_id":…,"block_num":…,"block_time":…,"block_id":…`, from the end of the event id on.
    pub(super) fields: Vec<u8>,
    /// `…:a:NUM:ID16:`
    pub(super) action: Head,
    /// `…:d:NUM:ID16:`
    pub(super) delta: Head,
    /// `…:n:NUM:ID16:`
    pub(super) native: Head,
}

// === impl Envelope ===

impl Envelope {
    /// For a block of that chain.
    pub fn new(chain: &Checksum, block: &Position, header: &Header) -> Envelope {
        let chain = hex::lower(&chain.0).into_bytes();
        let mut number = Vec::new();
        decimal(&mut number, block.num.into());
        let mut fields = b"\",\"chain_id\":\"".to_vec();
        fields.extend_from_slice(&chain);
        fields.extend_from_slice(b"\",\"block_num\":");
        fields.extend_from_slice(&number);
        fields.extend_from_slice(b",\"block_time\":");
        fields.extend_from_slice(&block_timestamp(header.slot));
        fields.pop();
        fields.extend_from_slice(b"Z\",\"block_id\":\"");
        hex::write_lower(&mut fields, &block.id.0);
        fields.push(b'"');
        let mut id = number;
        id.push(b':');
        hex::write_lower(&mut id, &block.id.0[..8]);
        id.push(b':');
        Envelope {
            action: Head::new("action", &chain, b'a', &id),
            delta: Head::new("delta", &chain, b'd', &id),
            native: Head::new("native-delta", &chain, b'n', &id),
            fields,
        }
    }
}

// === impl Head ===

impl Head {
    /// `rest` is the start of what stands behind `CHAIN:LETTER:`.
    pub(super) fn new(kind: &str, chain: &[u8], letter: u8, rest: &[u8]) -> Head {
        let mut json = b"{\"kind\":\"".to_vec();
        json.extend_from_slice(kind.as_bytes());
        json.extend_from_slice(b"\",\"event_id\":\"");
        let id_at = json.len();
        json.extend_from_slice(chain);
        json.extend_from_slice(&[b':', letter, b':']);
        json.extend_from_slice(rest);
        Head { json, id_at }
    }
}
