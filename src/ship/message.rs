//! SHiP's requests and results as packed bytes, in both directions: `parser run` sends requests
//! and reads results, `capture serve` does the reverse.

use bytes::Bytes;

use crate::block::{Checksum, Position};
use crate::cursor::{Cursor, CursorError};

use super::protocol::Protocol;

/// What is asked of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Ranges, head and chain id: answered at once, also amid blocks.
    Status,
    /// Blocks from a number on. Replaces the request before it and its credits.
    Blocks(BlocksRequest),
    /// That many more results may be sent.
    Ack(u32),
}

/// `get_blocks_request_v0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlocksRequest {
    /// The first block wanted.
    pub start: u32,
    /// The first block not wanted any more (`u32::MAX`: go on for ever).
    pub end: u32,
    /// How many results may be sent before the first ack.
    pub max_messages_in_flight: u32,
    /// Blocks the client has, in ascending order: where one is not the node's own, the node starts there.
    pub have_positions: Vec<Position>,
    /// Only blocks that cannot be undone any more.
    pub irreversible_only: bool,
    /// Send the signed block.
    pub fetch_block: bool,
    /// Send the transaction traces.
    pub fetch_traces: bool,
    /// Send the table deltas.
    pub fetch_deltas: bool,
}

/// What a node sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To [`Request::Status`].
    Status(StatusResult),
    /// To [`Request::Blocks`], one a block.
    Block(BlockResult),
}

/// `get_status_result_v0`. The ranges' ends are exclusive; a log that is switched off has 0 to 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusResult {
    /// The node's newest block.
    pub head: Position,
    /// Its newest block that cannot be undone.
    pub last_irreversible: Position,
    /// First block with traces.
    pub trace_begin_block: u32,
    /// Behind the last block with traces.
    pub trace_end_block: u32,
    /// First block with deltas.
    pub chain_state_begin_block: u32,
    /// Behind the last block with deltas.
    pub chain_state_end_block: u32,
    /// The chain; nodes before EOSIO 2.1 leave it out.
    pub chain_id: Option<Checksum>,
}

/// `get_blocks_result_v0`: slices of the frame it came in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockResult {
    /// The node's newest block when it sent this.
    pub head: Position,
    /// The newest block that could not be undone then.
    pub last_irreversible: Position,
    /// The block; none where the node does not have the number asked for.
    pub this_block: Option<Position>,
    /// Its parent; block 1 has none.
    pub prev_block: Option<Position>,
    /// Packed `signed_block`.
    pub block: Option<Bytes>,
    /// Packed `transaction_trace[]`.
    pub traces: Option<Bytes>,
    /// Packed `table_delta[]`.
    pub deltas: Option<Bytes>,
}

/// Bytes that are no message of this protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A type that was never asked for, or is none.
    #[error("message type {index} ({name}), which was not asked for")]
    Unexpected {
        /// The variant's index.
        index: u32,
        /// What the protocol calls it.
        name: String,
    },
    /// Too short, or with impossible values.
    #[error("{message}: {source}")]
    Malformed {
        /// The message's type.
        message: &'static str,
        /// What is wrong, and at which byte.
        source: CursorError,
    },
    /// Bytes behind its end.
    #[error("{message}: {left} bytes are left over at byte {at}")]
    LeftOver {
        /// The message's type.
        message: &'static str,
        /// Where it should end.
        at: usize,
        /// How many bytes follow.
        left: usize,
    },
}

// === impl Request ===

impl Request {
    /// The packed request.
    pub fn encode(&self, protocol: &Protocol) -> Bytes {
        let variants = &protocol.request;
        let mut out = Vec::new();
        match self {
            Request::Status => write_varuint(&mut out, variants.status.into()),
            Request::Ack(count) => {
                write_varuint(&mut out, variants.ack.into());
                out.extend(count.to_le_bytes());
            }
            Request::Blocks(request) => {
                write_varuint(&mut out, variants.blocks.into());
                out.extend(request.start.to_le_bytes());
                out.extend(request.end.to_le_bytes());
                out.extend(request.max_messages_in_flight.to_le_bytes());
                write_varuint(&mut out, request.have_positions.len() as u64);
                for position in &request.have_positions {
                    write_position(&mut out, position);
                }
                out.extend(
                    [
                        request.irreversible_only,
                        request.fetch_block,
                        request.fetch_traces,
                        request.fetch_deltas,
                    ]
                    .map(u8::from),
                );
            }
        }
        out.into()
    }

    /// Reads a packed request to its last byte.
    pub fn decode(bytes: &[u8], protocol: &Protocol) -> Result<Request, MessageError> {
        let variants = &protocol.request;
        let mut cursor = Cursor::new(bytes);
        let index = cursor.varuint32().map_err(in_message("request"))?;
        let (message, request) = if index == variants.status {
            ("get_status_request_v0", Ok(Request::Status))
        } else if index == variants.ack {
            ("get_blocks_ack_request_v0", cursor.u32().map(Request::Ack))
        } else if index == variants.blocks {
            ("get_blocks_request_v0", BlocksRequest::read(&mut cursor).map(Request::Blocks))
        } else {
            return Err(MessageError::Unexpected { index, name: "request".to_owned() });
        };
        let request = request.map_err(in_message(message))?;
        at_end(&cursor, message)?;
        Ok(request)
    }
}

impl BlocksRequest {
    fn read(cursor: &mut Cursor<'_>) -> Result<BlocksRequest, CursorError> {
        Ok(BlocksRequest {
            start: cursor.u32()?,
            end: cursor.u32()?,
            max_messages_in_flight: cursor.u32()?,
            have_positions: {
                let count = cursor.count(36)?;
                (0..count).map(|_| cursor.position()).collect::<Result<_, _>>()?
            },
            irreversible_only: cursor.bool()?,
            fetch_block: cursor.bool()?,
            fetch_traces: cursor.bool()?,
            fetch_deltas: cursor.bool()?,
        })
    }
}

// === impl Answer ===

impl Answer {
    /// Reads a whole frame; a block's parts are slices of it, not copies.
    pub fn decode(frame: &Bytes, protocol: &Protocol) -> Result<Answer, MessageError> {
        let mut cursor = Cursor::new(frame);
        let index = cursor.varuint32().map_err(in_message("result"))?;
        let (message, answer) = if index == protocol.result.blocks {
            let message = "get_blocks_result_v0";
            let result = BlockResult::read(&mut cursor, frame).map_err(in_message(message))?;
            (message, Answer::Block(result))
        } else if index == protocol.result.status {
            let message = "get_status_result_v0";
            let result = StatusResult::read(&mut cursor).map_err(in_message(message))?;
            (message, Answer::Status(result))
        } else {
            let name = protocol.result_name(index).unwrap_or("no type of the node's protocol");
            return Err(MessageError::Unexpected { index, name: name.to_owned() });
        };
        at_end(&cursor, message)?;
        Ok(answer)
    }
}

impl StatusResult {
    /// The packed result.
    pub fn encode(&self, protocol: &Protocol) -> Bytes {
        let mut out = Vec::new();
        write_varuint(&mut out, protocol.result.status.into());
        write_position(&mut out, &self.head);
        write_position(&mut out, &self.last_irreversible);
        for number in [
            self.trace_begin_block,
            self.trace_end_block,
            self.chain_state_begin_block,
            self.chain_state_end_block,
        ] {
            out.extend(number.to_le_bytes());
        }
        if let Some(id) = &self.chain_id {
            out.extend(id.0);
        }
        out.into()
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<StatusResult, CursorError> {
        Ok(StatusResult {
            head: cursor.position()?,
            last_irreversible: cursor.position()?,
            trace_begin_block: cursor.u32()?,
            trace_end_block: cursor.u32()?,
            chain_state_begin_block: cursor.u32()?,
            chain_state_end_block: cursor.u32()?,
            // A binary extension: absent if nothing follows.
            chain_id: if cursor.left() == 0 { None } else { Some(cursor.checksum()?) },
        })
    }
}

impl BlockResult {
    /// Reads a frame that must hold a block.
    pub fn decode(frame: &Bytes, protocol: &Protocol) -> Result<BlockResult, MessageError> {
        match Answer::decode(frame, protocol)? {
            Answer::Block(block) => Ok(block),
            Answer::Status(_) => Err(MessageError::Unexpected {
                index: protocol.result.status,
                name: "get_status_result_v0".to_owned(),
            }),
        }
    }

    /// The packed result.
    pub fn encode(&self, protocol: &Protocol) -> Bytes {
        let parts = [&self.block, &self.traces, &self.deltas];
        let length: usize = parts.iter().map(|p| p.as_ref().map_or(0, |b| b.len())).sum();
        let mut out = Vec::with_capacity(length + 200);
        self.write_positions(&mut out, protocol);
        for part in parts {
            out.push(part.is_some().into());
            if let Some(bytes) = part {
                // `block` has a 32-bit length, the others a 64-bit one: the same bytes.
                write_varuint(&mut out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
        }
        out.into()
    }

    /// Appends all that stands in front of the block.
    pub(crate) fn write_positions(&self, out: &mut Vec<u8>, protocol: &Protocol) {
        write_varuint(out, protocol.result.blocks.into());
        write_position(out, &self.head);
        write_position(out, &self.last_irreversible);
        for position in [&self.this_block, &self.prev_block] {
            out.push(position.is_some().into());
            if let Some(position) = position {
                write_position(out, position);
            }
        }
    }

    fn read(cursor: &mut Cursor<'_>, frame: &Bytes) -> Result<BlockResult, CursorError> {
        Ok(BlockResult {
            head: cursor.position()?,
            last_irreversible: cursor.position()?,
            this_block: optional(cursor, Cursor::position)?,
            prev_block: optional(cursor, Cursor::position)?,
            block: optional(cursor, |c| {
                let length = c.varuint32()?;
                slice(c, frame, length.into())
            })?,
            traces: optional(cursor, |c| {
                let length = c.varuint64()?;
                slice(c, frame, length)
            })?,
            deltas: optional(cursor, |c| {
                let length = c.varuint64()?;
                slice(c, frame, length)
            })?,
        })
    }
}

fn optional<'a, T>(
    cursor: &mut Cursor<'a>,
    read: impl FnOnce(&mut Cursor<'a>) -> Result<T, CursorError>,
) -> Result<Option<T>, CursorError> {
    if cursor.bool()? { read(cursor).map(Some) } else { Ok(None) }
}

fn slice(cursor: &mut Cursor<'_>, frame: &Bytes, length: u64) -> Result<Bytes, CursorError> {
    let from = cursor.at();
    cursor.skip(length)?;
    Ok(frame.slice(from..cursor.at()))
}

fn in_message(message: &'static str) -> impl Fn(CursorError) -> MessageError {
    move |source| MessageError::Malformed { message, source }
}

fn at_end(cursor: &Cursor<'_>, message: &'static str) -> Result<(), MessageError> {
    match cursor.left() {
        0 => Ok(()),
        left => Err(MessageError::LeftOver { message, at: cursor.at(), left }),
    }
}

fn write_position(out: &mut Vec<u8>, position: &Position) {
    out.extend(position.num.to_le_bytes());
    out.extend(position.id.0);
}

fn write_varuint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocol() -> Protocol {
        Protocol::parse(include_str!("../../abi/leap-4.0.6.json")).expect("known")
    }

    fn position(num: u32, id: u8) -> Position {
        Position { num, id: Checksum([id; 32]) }
    }

    #[test]
    fn requests_as_nodeos_packs_them() {
        let request = BlocksRequest {
            start: 2,
            end: u32::MAX,
            max_messages_in_flight: 64,
            have_positions: vec![position(1, 0xab)],
            irreversible_only: false,
            fetch_block: true,
            fetch_traces: true,
            fetch_deltas: false,
        };
        let mut packed = vec![1, 2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 64, 0, 0, 0, 1, 1, 0, 0, 0];
        packed.extend([0xab; 32]);
        packed.extend([0, 1, 1, 0]);
        for (request, packed) in [
            (Request::Status, vec![0]),
            (Request::Ack(3), vec![2, 3, 0, 0, 0]),
            (Request::Blocks(request), packed),
        ] {
            assert_eq!(request.encode(&protocol()), packed);
            assert_eq!(Request::decode(&packed, &protocol()), Ok(request));
        }
    }

    #[test]
    fn a_blocks_parts_are_slices_of_its_frame() {
        let protocol = protocol();
        let block = BlockResult {
            head: position(9, 1),
            last_irreversible: position(7, 2),
            this_block: Some(position(8, 3)),
            prev_block: None,
            block: Some(Bytes::from(vec![5; 300])),
            traces: None,
            deltas: Some(Bytes::from_static(b"deltas")),
        };
        let frame = block.encode(&protocol);
        // Index, head, irreversible, this, no prev, then the 300 = 0xac 0x02 bytes of the block.
        assert_eq!(frame[..5], [1, 9, 0, 0, 0]);
        assert_eq!(frame[110..115], [0, 1, 0xac, 2, 5]);
        assert_eq!(frame[414..], *b"\0\x01\x06deltas");
        let read = BlockResult::decode(&frame, &protocol).expect("own bytes");
        assert_eq!(read, block);
        assert_eq!(read.deltas.map(|d| d.as_ptr()), Some(frame[417..].as_ptr()));
    }

    #[test]
    fn bad_messages_say_what_and_where() {
        let protocol = protocol();
        let good = BlockResult { traces: Some(Bytes::from_static(b"ab")), ..BlockResult::default() }
            .encode(&protocol);
        for (bytes, text) in [
            (vec![], "result: 1 bytes needed at byte 0, 0 left"),
            (vec![9], "message type 9 (no type of the node's protocol), which was not asked for"),
            (good[..78].to_vec(), "get_blocks_result_v0: 2 bytes needed at byte 78, 0 left"),
            ([&good[..], b"x"].concat(), "get_blocks_result_v0: 1 bytes are left over at byte 81"),
        ] {
            let error = Answer::decode(&bytes.into(), &protocol).expect_err(text);
            assert_eq!(error.to_string(), text);
        }
        for end in 0..good.len() {
            assert!(Answer::decode(&good.slice(..end), &protocol).is_err(), "{end} bytes");
        }
    }
}
