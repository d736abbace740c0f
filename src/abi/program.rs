//! An ABI ready to run: types as nodes that point to each other by number, field names ready to be copied.

use super::style::Json;
use crate::out::Out;

/// Place of a [`Node`] in [`Program::nodes`].
pub(super) type NodeId = u32;

/// All types of one ABI. Never changes once made, so that any number of threads can run it.
#[derive(Default)]
pub(super) struct Program {
    /// How its values are written.
    pub json: Json,
    pub nodes: Vec<Node>,
    /// Fields of all structs, each struct's in a row.
    pub fields: Vec<Field>,
    /// Alternatives of all variants, each variant's in a row.
    pub alternatives: Vec<Alternative>,
    /// The texts that [`Text`] points into, and [`SHORT`] bytes behind them.
    pub text: Vec<u8>,
}

/// Texts up to this length are copied in one move: see [`Program::write`].
pub(super) const SHORT: usize = 32;

/// How to read one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// A built-in type.
    Builtin(Builtin),
    /// A byte, and if it is not 0 a value.
    Optional(NodeId),
    /// A count and so many values.
    Array(NodeId),
    /// So many values.
    Fixed(NodeId, u32),
    /// Fields, its bases' first: a range of [`Program::fields`].
    Struct { first: u32, end: u32 },
    /// An index and the value of that alternative: a range of [`Program::alternatives`].
    Variant { first: u32, end: u32 },
}

/// A field of a struct.
#[derive(Clone, Copy)]
pub(super) struct Field {
    /// All there is to know of most fields.
    pub plain: Option<Plain>,
    /// `,"name":`
    pub key: Text,
    pub node: NodeId,
    /// Left out when the bytes end before it (`$`).
    pub extension: bool,
}

/// A field of a built-in type, no extension, with a short key.
#[derive(Clone, Copy)]
pub(super) struct Plain {
    /// `,"name":` and zeros.
    pub key: [u8; SHORT],
    /// How much of it counts.
    pub length: u8,
    pub builtin: Builtin,
}

/// A type that a variant can hold.
#[derive(Clone, Copy)]
pub(super) struct Alternative {
    /// `["type",`
    pub tag: Text,
    pub node: NodeId,
}

/// A piece of [`Program::text`].
#[derive(Clone, Copy)]
pub(super) struct Text {
    pub at: u32,
    pub len: u32,
}

/// The types that every ABI knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Builtin {
    Bool,
    Int8,
    Uint8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Int128,
    Uint128,
    Varuint32,
    Varint32,
    Float32,
    Float64,
    Float128,
    TimePoint,
    TimePointSec,
    BlockTimestamp,
    Name,
    Bytes,
    String,
    Checksum160,
    Checksum256,
    Checksum512,
    PublicKey,
    PrivateKey,
    Signature,
    Symbol,
    SymbolCode,
    Asset,
    Bitset,
}

// === impl Program ===

impl Program {
    /// The bytes of `text`.
    #[inline]
    pub fn text(&self, text: Text) -> &[u8] {
        let at = text.at as usize;
        &self.text[at..at + text.len as usize]
    }

    /// Appends `text` to `out`.
    #[inline(always)]
    pub fn write(&self, text: Text, out: &mut Out) {
        let length = text.len as usize;
        let at = text.at as usize;
        match self.text.get(at..at + SHORT).and_then(|rest| rest.first_chunk::<SHORT>()) {
            Some(chunk) if length <= SHORT => out.chunk(chunk, length),
            _ => out.append(self.text(text)),
        }
    }
}

// === impl Builtin ===

impl Builtin {
    /// The type of this name, and whether an ABI may use the name for a type of its own: nodeos does not know
    /// these, so that a contract may well define them.
    pub fn named(name: &str) -> Option<(Builtin, bool)> {
        let own = match name {
            "bool" => Builtin::Bool,
            "int8" => Builtin::Int8,
            "uint8" => Builtin::Uint8,
            "int16" => Builtin::Int16,
            "uint16" => Builtin::Uint16,
            "int32" => Builtin::Int32,
            "uint32" => Builtin::Uint32,
            "int64" => Builtin::Int64,
            "uint64" => Builtin::Uint64,
            "int128" => Builtin::Int128,
            "uint128" => Builtin::Uint128,
            "varuint32" => Builtin::Varuint32,
            "varint32" => Builtin::Varint32,
            "float32" => Builtin::Float32,
            "float64" => Builtin::Float64,
            "float128" => Builtin::Float128,
            "time_point" => Builtin::TimePoint,
            "time_point_sec" => Builtin::TimePointSec,
            "block_timestamp_type" => Builtin::BlockTimestamp,
            "name" => Builtin::Name,
            "bytes" => Builtin::Bytes,
            "string" => Builtin::String,
            "checksum160" => Builtin::Checksum160,
            "checksum256" => Builtin::Checksum256,
            "checksum512" => Builtin::Checksum512,
            "public_key" => Builtin::PublicKey,
            "signature" => Builtin::Signature,
            "symbol" => Builtin::Symbol,
            "symbol_code" => Builtin::SymbolCode,
            "asset" => Builtin::Asset,
            _ => {
                let spare = match name {
                    "float" => Builtin::Float32,
                    "double" => Builtin::Float64,
                    "block_timestamp" => Builtin::BlockTimestamp,
                    "private_key" => Builtin::PrivateKey,
                    "bitset" => Builtin::Bitset,
                    _ => return None,
                };
                return Some((spare, true));
            }
        };
        Some((own, false))
    }
}
