//! Where JSON is written to.
//!
//! A `Vec` looks for room, and notes its new length, with every piece. This is longer than what was written so far:
//! a piece of known size is a single move, whatever of it counts, and most often nothing else has to be done.

use std::ops::Range;

/// JSON being written.
#[derive(Default)]
pub(super) struct Out {
    /// What was written, and behind it room that was written to before.
    bytes: Vec<u8>,
    /// How much was written.
    len: usize,
}

// === impl Out ===

impl Out {
    /// What was written.
    #[inline]
    pub fn written(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Begins anew; more than `most` bytes of memory are not kept.
    #[inline]
    pub fn clear(&mut self, most: usize) {
        self.len = 0;
        if self.bytes.len() > most {
            self.bytes = Vec::new();
        }
    }

    /// How much is there.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Forgets what was written behind the first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Appends the first `len` bytes of `chunk`.
    #[inline(always)]
    pub fn chunk<const N: usize>(&mut self, chunk: &[u8; N], len: usize) {
        if let Some(room) = self.room() {
            *room = *chunk;
            self.len += len;
        }
    }

    /// Appends the first `len` of sixteen bytes in quotes, the first in the lowest place: they need not be put together
    /// in memory, where reading them as one would wait for that.
    #[inline(always)]
    pub fn quoted(&mut self, text: u128, len: usize) {
        if let Some(room) = self.room::<18>() {
            room[0] = b'"';
            let (halves, _) = room[1..].as_chunks_mut::<8>();
            halves[0] = (text as u64).to_le_bytes();
            halves[1] = ((text >> 64) as u64).to_le_bytes();
            let len = len.min(16);
            room[len + 1] = b'"';
            self.len += len + 2;
        }
    }

    /// The next `N` bytes: there is always room.
    #[inline(always)]
    fn room<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        if self.bytes.len() < self.len + N {
            self.grow(N);
        }
        self.bytes.get_mut(self.len..self.len + N)?.first_chunk_mut()
    }

    /// Appends bytes of known number.
    #[inline(always)]
    pub fn fixed<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.chunk(bytes, N);
    }

    /// Appends a byte.
    #[inline(always)]
    pub fn push(&mut self, byte: u8) {
        self.fixed(&[byte]);
    }

    /// Appends bytes.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) {
        self.space(bytes.len()).copy_from_slice(bytes);
    }

    /// Appends `len` bytes that the caller is to write.
    #[inline]
    pub fn space(&mut self, len: usize) -> &mut [u8] {
        let from = self.len;
        if self.bytes.len() - from < len {
            self.grow(len);
        }
        self.len += len;
        &mut self.bytes[from..from + len]
    }

    /// Writes over a byte that is there, or appends it at the end.
    #[inline]
    pub fn put(&mut self, at: usize, byte: u8) {
        if at == self.len {
            self.push(byte);
        } else if let Some(place) = self.bytes.get_mut(at) {
            *place = byte;
        }
    }

    /// Puts other bytes in the place of some that are there.
    pub fn replace(&mut self, range: Range<usize>, bytes: &[u8]) {
        let behind = self.bytes[range.end..self.len].to_vec();
        self.truncate(range.start);
        self.append(bytes);
        self.append(&behind);
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        let least = self.len + len;
        self.bytes.resize(least + least.max(1024) / 2, 0);
    }
}

#[cfg(test)]
impl Out {
    /// What `write` writes, as text.
    pub fn text(write: impl FnOnce(&mut Out)) -> String {
        let mut out = Out::default();
        write(&mut out);
        String::from_utf8(out.written().to_vec()).expect("JSON is text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_each_other_with_and_without_room() {
        let mut out = Out::default();
        for most in [100_000, 10, 0] {
            out.chunk(b"abcdefgh", 3);
            out.push(b'-');
            out.space(2).copy_from_slice(b"xy");
            out.put(2, b'C');
            out.replace(1..2, b"");
            out.replace(0..1, b"aB");
            out.quoted(u128::from_le_bytes(*b"0123456789abcdef"), 3);
            out.quoted(u128::from_le_bytes(*b"0123456789abcdef"), 16);
            assert_eq!(&out.written()[6..], br#""012""0123456789abcdef""#);
            out.truncate(6);
            out.append(&[b'z'; 2000]);
            out.put(out.len(), b'!');
            assert_eq!((&out.written()[..7], out.len()), (&b"aBC-xyz"[..], 2007));
            out.truncate(7);
            out.fixed(b"end");
            assert_eq!(out.written(), b"aBC-xyzend");
            out.clear(most);
            assert_eq!((out.written(), out.bytes.is_empty()), (&b""[..], most < 2000));
        }
    }
}
