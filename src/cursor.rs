//! Reading packed (little-endian, varuint-prefixed) bytes without copying: every read is checked
//! against what is left, so a lying length is an error with its offset and never an allocation.

use crate::block::{Checksum, Position};
use crate::name::Name;

/// Bytes and how far they have been read.
///
/// The short reads are always inlined, and the long ways out of them never: what they are called by reads hundreds of
/// thousands of fields a second, and an error is far larger than most values.
#[derive(Clone)]
pub struct Cursor<'a> {
    /// What is left.
    rest: &'a [u8],
    /// How many bytes there were.
    total: usize,
}

/// What was wrong with the bytes, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// Fewer bytes are left than are needed.
    #[error("{needed} bytes needed at byte {at}, {left} left")]
    Truncated {
        /// Offset of the read.
        at: usize,
        /// How many bytes the read wanted.
        needed: u64,
        /// How many there were.
        left: usize,
    },
    /// Bytes that cannot mean anything here.
    #[error("{what} at byte {at}")]
    Invalid {
        /// Offset of the value.
        at: usize,
        /// What is wrong with it.
        what: String,
    },
}

type Result<T> = std::result::Result<T, CursorError>;

// === impl Cursor ===

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes, total: bytes.len() }
    }

    /// Starts at byte `at` (the end, if `at` lies behind it).
    pub fn starting_at(bytes: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor { rest: bytes.get(at..).unwrap_or_default(), total: bytes.len() }
    }

    /// Offset of the next byte.
    #[inline(always)]
    pub fn at(&self) -> usize {
        self.total - self.rest.len()
    }

    /// How many bytes are left.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// An error about what stands at `at`.
    #[cold]
    #[inline(never)]
    pub fn invalid<T>(at: usize, what: impl Into<String>) -> Result<T> {
        Err(CursorError::Invalid { at, what: what.into() })
    }

    #[cold]
    #[inline(never)]
    fn truncated<T>(&self, needed: u64) -> Result<T> {
        Err(CursorError::Truncated { at: self.at(), needed, left: self.left() })
    }

    /// The next `count` bytes.
    #[inline(always)]
    pub fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        match usize::try_from(count).ok().and_then(|count| self.rest.split_at_checked(count)) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => self.truncated(count),
        }
    }

    /// Moves over the next `count` bytes.
    #[inline(always)]
    pub fn skip(&mut self, count: u64) -> Result<()> {
        self.take(count).map(|_| ())
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((chunk, rest)) => {
                self.rest = rest;
                Ok(*chunk)
            }
            None => self.truncated(N as u64),
        }
    }

    /// One byte.
    #[inline(always)]
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    #[inline(always)]
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    #[inline(always)]
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    #[inline(always)]
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A name.
    #[inline(always)]
    pub fn name(&mut self) -> Result<Name> {
        self.u64().map(Name)
    }

    /// A SHA-256 sum.
    #[inline(always)]
    pub fn checksum(&mut self) -> Result<Checksum> {
        self.array().map(Checksum)
    }

    /// A block's number and id.
    pub fn position(&mut self) -> Result<Position> {
        Ok(Position { num: self.u32()?, id: self.checksum()? })
    }

    /// A `bool`: one byte, 0 or 1.
    #[inline(always)]
    pub fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => self.no_bool(other),
        }
    }

    #[cold]
    #[inline(never)]
    fn no_bool(&self, byte: u8) -> Result<bool> {
        Cursor::invalid(self.at() - 1, format!("{byte} is no bool"))
    }

    /// A variable-length number of at most `bits` bits (32: `varuint32`; 64: the length of SHiP's traces and deltas).
    #[inline(always)]
    fn varuint(&mut self, bits: u32) -> Result<u64> {
        match self.rest {
            [first @ 0..0x80, rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(*first))
            }
            [first, second @ 0..0x80, rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(first & 0x7f) | u64::from(*second) << 7)
            }
            _ => self.long_varuint(bits),
        }
    }

    #[cold]
    #[inline(never)]
    fn long_varuint(&mut self, bits: u32) -> Result<u64> {
        let from = self.at();
        let first = self.u8()?;
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7f);
            if shift >= bits || (shift + 7 > bits && part >> (bits - shift) != 0) {
                return Cursor::invalid(from, format!("a number longer than {bits} bits"));
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    /// A `varuint32`.
    #[inline(always)]
    pub fn varuint32(&mut self) -> Result<u32> {
        self.varuint(32).map(|v| v as u32)
    }

    /// A 64-bit `varuint`.
    #[inline(always)]
    pub fn varuint64(&mut self) -> Result<u64> {
        self.varuint(64)
    }

    /// Bytes behind their `varuint32` length (`bytes`, `string`).
    #[inline(always)]
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.varuint32()?;
        self.take(u64::from(length))
    }

    /// The number of items that follow, each of at least `least` bytes: more than can be there is an error.
    #[inline(always)]
    pub fn count(&mut self, least: u64) -> Result<u32> {
        let at = self.at();
        let count = self.varuint32()?;
        let needed = u64::from(count) * least;
        if needed > self.left() as u64 {
            return self.too_many(at, needed);
        }
        Ok(count)
    }

    #[cold]
    #[inline(never)]
    fn too_many(&self, at: usize, needed: u64) -> Result<u32> {
        Err(CursorError::Truncated { at, needed, left: self.left() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_variable_length() {
        for (bytes, value) in [
            (&[0u8][..], 0u32),
            (&[0x7f], 127),
            (&[0x80, 1], 128),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], u32::MAX),
        ] {
            assert_eq!(Cursor::new(bytes).varuint32(), Ok(value));
        }
        assert_eq!(
            Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).varuint64(),
            Ok(u64::MAX)
        );
        for bytes in [&[0xff, 0xff, 0xff, 0xff, 0x1f][..], &[0x80, 0x80, 0x80, 0x80, 0x80, 1]] {
            let error = Cursor::new(bytes).varuint32().expect_err("too long").to_string();
            assert_eq!(error, "a number longer than 32 bits at byte 0");
        }
    }

    #[test]
    fn lengths_that_lie_are_errors_with_the_offset() {
        let mut cursor = Cursor::new(&[1, 0xff, 0xff, 0xff, 0xff, 0x0f, 1]);
        assert_eq!(cursor.bool(), Ok(true));
        assert_eq!(
            cursor.bytes(),
            Err(CursorError::Truncated { at: 6, needed: u64::from(u32::MAX), left: 1 })
        );
        let mut cursor = Cursor::new(&[200, 1, 0, 0]);
        assert_eq!(cursor.count(9), Err(CursorError::Truncated { at: 0, needed: 1800, left: 2 }));
        assert_eq!(Cursor::new(&[2]).bool().map_err(|e| e.to_string()), Err("2 is no bool at byte 0".into()));
    }
}
