//! Reading packed (little-endian, varuint-prefixed) bytes without copying: every read is checked
//! against what is left, so a lying length is an error with its offset and never an allocation.

use crate::block::{Checksum, Position};
use crate::name::Name;

/// Bytes and how far they have been read.
#[derive(Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
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
        Cursor { bytes, at: 0 }
    }

    /// Starts at byte `at` (the end, if `at` lies behind it).
    pub fn starting_at(bytes: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor { bytes, at: at.min(bytes.len()) }
    }

    /// Offset of the next byte.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    /// How many bytes are left.
    #[inline]
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// An error about what stands at `at`.
    #[cold]
    pub fn invalid<T>(at: usize, what: impl Into<String>) -> Result<T> {
        Err(CursorError::Invalid { at, what: what.into() })
    }

    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        if count > self.left() as u64 {
            return Err(CursorError::Truncated { at: self.at, needed: count, left: self.left() });
        }
        let from = self.at;
        self.at += count as usize;
        Ok(&self.bytes[from..self.at])
    }

    /// Moves over the next `count` bytes.
    #[inline]
    pub fn skip(&mut self, count: u64) -> Result<()> {
        self.take(count).map(|_| ())
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.bytes[self.at..].first_chunk::<N>() {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => Err(CursorError::Truncated { at: self.at, needed: N as u64, left: self.left() }),
        }
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A name.
    #[inline]
    pub fn name(&mut self) -> Result<Name> {
        self.u64().map(Name)
    }

    /// A SHA-256 sum.
    #[inline]
    pub fn checksum(&mut self) -> Result<Checksum> {
        self.array().map(Checksum)
    }

    /// A block's number and id.
    pub fn position(&mut self) -> Result<Position> {
        Ok(Position { num: self.u32()?, id: self.checksum()? })
    }

    /// A `bool`: one byte, 0 or 1.
    #[inline]
    pub fn bool(&mut self) -> Result<bool> {
        let at = self.at;
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Cursor::invalid(at, format!("{other} is no bool")),
        }
    }

    /// A variable-length number of at most `bits` bits (32: `varuint32`; 64: the length of SHiP's traces and deltas).
    #[inline]
    fn varuint(&mut self, bits: u32) -> Result<u64> {
        let from = self.at;
        let first = self.u8()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
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
    #[inline]
    pub fn varuint32(&mut self) -> Result<u32> {
        self.varuint(32).map(|v| v as u32)
    }

    /// A 64-bit `varuint`.
    #[inline]
    pub fn varuint64(&mut self) -> Result<u64> {
        self.varuint(64)
    }

    /// Bytes behind their `varuint32` length (`bytes`, `string`).
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.varuint32()?;
        self.take(u64::from(length))
    }

    /// The number of items that follow, each of at least `least` bytes: more than can be there is an error.
    #[inline]
    pub fn count(&mut self, least: u64) -> Result<u32> {
        let at = self.at;
        let count = self.varuint32()?;
        let needed = u64::from(count) * least;
        if needed > self.left() as u64 {
            return Err(CursorError::Truncated { at, needed, left: self.left() });
        }
        Ok(count)
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
