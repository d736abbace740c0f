//! What all events of a block have in common, written once a block.

use crate::abi::block_timestamp;
use crate::block::{Checksum, Position};
use crate::hex;
use crate::out::Out;
use crate::resp::decimal;
use crate::walk::Header;

/// The kinds of events, in the order in which a block has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Blocks were taken back.
    Fork,
    /// An action.
    Action,
    /// A row of a contract's table.
    Delta,
    /// A row of one of the chain's own tables.
    NativeDelta,
    /// A block is complete.
    Block,
}

/// The start of an event, up to where its event id differs from that of others.
pub(super) struct Head {
    pub(super) kind: Kind,
    /// `{"kind":"KIND","event_id":"CHAIN:LETTER:NUM:ID16` and what follows.
    pub(super) json: Out,
    /// Where in it the event id starts.
    pub(super) id_at: usize,
}

/// The fixed pieces of a block's events.
pub struct Envelope {
    /// `","chain_id":…,"block_num":…,"block_time":…,"block_id":…`, from the end of the event id on.
    pub(super) fields: Out,
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
        let mut fields = Out::with_room(512);
        fields.append(b"\",\"chain_id\":\"");
        fields.append(&chain);
        fields.append(b"\",\"block_num\":");
        decimal(&mut fields, block.num.into());
        fields.append(b",\"block_time\":");
        fields.append(&block_timestamp(header.slot));
        fields.truncate(fields.len() - 1);
        fields.append(b"Z\",\"block_id\":\"");
        hex::write_lower(&mut fields, &block.id.0);
        fields.push(b'"');
        let mut id = Out::with_room(256);
        decimal(&mut id, block.num.into());
        id.push(b':');
        hex::write_lower(&mut id, &block.id.0[..8]);
        id.push(b':');
        Envelope {
            action: Head::new(Kind::Action, &chain, &id),
            delta: Head::new(Kind::Delta, &chain, &id),
            native: Head::new(Kind::NativeDelta, &chain, &id),
            fields,
        }
    }
}

// === impl Kind ===

impl Kind {
    /// All of them, each at the place of its number.
    pub const ALL: [Kind; 5] = [Kind::Fork, Kind::Action, Kind::Delta, Kind::NativeDelta, Kind::Block];

    /// As in the event's `kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Action => "action",
            Kind::Delta => "delta",
            Kind::NativeDelta => "native-delta",
            Kind::Fork => "fork",
            Kind::Block => "block",
        }
    }

    /// Whether an event's JSON begins with it.
    pub fn begins(self, event: &[u8]) -> bool {
        let kind =
            event.strip_prefix(b"{\"kind\":\"").and_then(|rest| rest.strip_prefix(self.as_str().as_bytes()));
        kind.is_some_and(|rest| rest.starts_with(b"\""))
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// As in event ids.
    pub fn letter(self) -> u8 {
        match self {
            Kind::Action => b'a',
            Kind::Delta => b'd',
            Kind::NativeDelta => b'n',
            Kind::Fork => b'f',
            Kind::Block => b'b',
        }
    }
}

// === impl Head ===

impl Head {
    /// `rest` is the start of what stands behind `CHAIN:LETTER:`.
    pub(super) fn new(kind: Kind, chain: &[u8], rest: &[u8]) -> Head {
        let mut json = Out::with_room(256);
        json.append(b"{\"kind\":\"");
        json.append(kind.as_str().as_bytes());
        json.append(b"\",\"event_id\":\"");
        let id_at = json.len();
        json.append(chain);
        json.append(&[b':', kind.letter(), b':']);
        json.append(rest);
        Head { kind, json, id_at }
    }
}
