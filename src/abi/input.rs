//! Reading packed bytes as abieos reads them.
//!
//! Unlike [`crate::cursor`], which reads the node's own frames strictly, this takes what abieos takes from
//! contracts' bytes: a `varuint32` whose fifth byte carries bits above the 32nd loses them silently.

/// Why a value could not be read. Where it stands is the input's position: a failed read does not move it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Fewer bytes are left than so many.
    Truncated(usize),
    /// A `varuint32` of more than five bytes.
    Varuint,
    /// A variant has no alternative with this index.
    Variant,
    /// A key or signature of a kind that abieos does not know.
    Key,
    /// A WebAuthn key or signature longer than is read.
    LongKey,
    /// Nested deeper than is read.
    Depth,
    /// Much more JSON than the bytes can stand for.
    Size,
}

/// Bytes not yet read.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    rest: &'a [u8],
}

type Result<T> = std::result::Result<T, Fault>;

// === impl Input ===

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes }
    }

    /// How many bytes are left.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The bytes that are left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `N` bytes.
    #[inline(always)]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((chunk, rest)) => {
                self.rest = rest;
                Ok(*chunk)
            }
            None => Err(Fault::Truncated(N)),
        }
    }

    /// The next `count` bytes.
    #[inline(always)]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(Fault::Truncated(count)),
        }
    }

    #[inline(always)]
    pub fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline(always)]
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline(always)]
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline(always)]
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    #[inline(always)]
    pub fn u128(&mut self) -> Result<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// A number of variable length; the position stays at its start if it is not whole.
    #[inline(always)]
    pub fn varuint32(&mut self) -> Result<u32> {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.rest = rest;
                Ok(u32::from(byte))
            }
            _ => {
                let mut input = *self;
                let value = input.long_varuint32();
                *self = input;
                value
            }
        }
    }

    #[inline(never)]
    fn long_varuint32(&mut self) -> Result<u32> {
        let mut value = 0;
        for (i, &byte) in self.rest.iter().take(5).enumerate() {
            value |= u32::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.rest = &self.rest[i + 1..];
                return Ok(value);
            }
        }
        match self.rest.len() {
            0..=4 => Err(Fault::Truncated(self.rest.len() + 1)),
            _ => Err(Fault::Varuint),
        }
    }

    /// Bytes behind their `varuint32` length; the position stays at the length if they are not there.
    #[inline(always)]
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        self.counted(|length| length)
    }

    /// Bytes behind a `varuint32` that tells how many by way of `size`.
    #[inline(always)]
    pub fn counted(&mut self, size: impl FnOnce(usize) -> usize) -> Result<&'a [u8]> {
        let start = self.rest;
        let size = size(self.varuint32()? as usize);
        match self.rest.split_at_checked(size) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => {
                let needed = start.len() - self.rest.len() + size;
                self.rest = start;
                Err(Fault::Truncated(needed))
            }
        }
    }

    /// What `fault` says in words, the byte offset apart.
    pub fn explain(&self, fault: Fault) -> String {
        match fault {
            Fault::Truncated(needed) => format!("{needed} bytes needed, {} left", self.left()),
            Fault::Varuint => "a number of more than five bytes where a varuint32 should be".to_owned(),
            Fault::Variant => "a variant index without a type".to_owned(),
            Fault::Key => "a key of unknown kind".to_owned(),
            Fault::LongKey => "a key or signature of more than 16384 bytes".to_owned(),
            Fault::Depth => "nested too deep".to_owned(),
            Fault::Size => "too much text for so few bytes".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_variable_length_are_read_as_abieos_reads_them() {
        for (bytes, value, left) in [
            (&[0x7f, 9][..], Ok(127), 1),
            (&[0x80, 1], Ok(128), 0),
            (&[0x80, 0x80, 0], Ok(0), 0),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], Ok(u32::MAX), 0),
            // Bits above the 32nd are lost.
            (&[0x81, 0x80, 0x80, 0x80, 0x70], Ok(1), 0),
            (&[0x80; 5], Err(Fault::Varuint), 5),
            (&[0x80; 3], Err(Fault::Truncated(4)), 3),
            (&[], Err(Fault::Truncated(1)), 0),
        ] {
            let mut input = Input::new(bytes);
            assert_eq!((input.varuint32(), input.left()), (value, left), "{bytes:?}");
        }
    }

    #[test]
    fn a_lying_length_leaves_the_position_at_the_length() {
        let mut input = Input::new(&[0x85, 0x80, 0, 1, 2]);
        assert_eq!(input.bytes(), Err(Fault::Truncated(8)));
        assert_eq!(input.left(), 5);
    }
}
