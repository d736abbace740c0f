//! Where text is written to: JSON, and commands for Redis.
//!
//! A `Vec` looks for room, and notes its new length, with every piece. This is longer than what was written so far: a
//! piece of known size is a single move, whatever of it counts, and most often nothing else has to be done.

use std::io::{self, Write};
use std::ops::{Deref, DerefMut, Range};

/// Bytes being written. As a slice it is what was written.
#[derive(Debug, Default)]
pub struct Out {
    /// What was written, and behind it room, zeros or what was written there before.
    bytes: Vec<u8>,
    /// How much was written.
    len: usize,
}

/// Room for short pieces of known size: whether there is any is asked once for all of them. Together they are not
/// longer than [`ROOM`], each taken as long as it can be; what would be beyond is not written.
pub struct Room<'a> {
    bytes: &'a mut [u8; ROOM],
    /// How much of it was written.
    len: usize,
    /// How much was written in all before.
    before: &'a mut usize,
}

/// Enough for a field's name and any number, name or short text.
pub const ROOM: usize = 128;

// === impl Out ===

impl Out {
    /// Nothing, with room for so many bytes.
    pub fn with_room(len: usize) -> Out {
        // Zeros that come from the system cost nothing until they are written to.
        Out { bytes: vec![0; len], len: 0 }
    }

    /// How many bytes there are in all, written or not.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Forgets what was written behind the first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Appends the first `len` bytes of `chunk`.
    #[inline(always)]
    pub fn chunk<const N: usize>(&mut self, chunk: &[u8; N], len: usize) {
        if self.bytes.len() < self.len || self.bytes.len() - self.len < N {
            self.grow(N);
        }
        if let Some(place) = self.bytes.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut()) {
            *place = *chunk;
            debug_assert!(len <= N);
            self.len += len;
        }
    }

    /// Appends a byte.
    #[inline(always)]
    pub fn push(&mut self, byte: u8) {
        self.append(&[byte]);
    }

    /// Appends bytes.
    #[inline(always)]
    pub fn append(&mut self, bytes: &[u8]) {
        self.space(bytes.len()).copy_from_slice(bytes);
    }

    /// Appends `len` bytes that the caller is to write.
    #[inline(always)]
    pub fn space(&mut self, len: usize) -> &mut [u8] {
        let from = self.len;
        if self.bytes.len() - from < len {
            self.grow(len);
        }
        self.len += len;
        &mut self.bytes[from..from + len]
    }

    /// Room for short pieces. They count with [`Room::end`].
    #[inline(always)]
    pub fn room(&mut self) -> Room<'_> {
        if self.bytes.len() < self.len || self.bytes.len() - self.len < ROOM {
            self.grow(ROOM);
        }
        match self.bytes.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut()) {
            Some(bytes) => Room { bytes, len: 0, before: &mut self.len },
            None => unreachable!("there is room now"),
        }
    }

    /// Appends short pieces.
    #[inline(always)]
    pub fn short<R>(&mut self, write: impl FnOnce(&mut Room<'_>) -> R) -> R {
        let mut room = self.room();
        let result = write(&mut room);
        room.end();
        result
    }

    /// Lends this to something that is called, not inlined: who holds a copy can keep where to write to in a register.
    #[inline(always)]
    pub fn lend<R>(&mut self, call: impl FnOnce(&mut Out) -> R) -> R {
        let mut lent = std::mem::take(self);
        let result = call(&mut lent);
        *self = lent;
        result
    }

    /// Puts other bytes in the place of some that are there.
    pub fn replace(&mut self, range: Range<usize>, bytes: &[u8]) {
        let behind = self[range.end..].to_vec();
        self.truncate(range.start);
        self.append(bytes);
        self.append(&behind);
    }

    /// Makes room for so many bytes more.
    #[inline(always)]
    fn grow(&mut self, len: usize) {
        // By value: where to write to could not be kept in a register if this had its address.
        self.bytes = grown(std::mem::take(&mut self.bytes), self.len, len);
    }
}

#[cold]
#[inline(never)]
fn grown(bytes: Vec<u8>, written: usize, more: usize) -> Vec<u8> {
    let least = written + more;
    let mut grown = vec![0; least + least.max(1024) / 2];
    grown[..written].copy_from_slice(&bytes[..written]);
    grown
}

impl Deref for Out {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for Out {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
impl Out {
    /// What `write` writes, as text.
    pub fn text(write: impl FnOnce(&mut Out)) -> String {
        let mut out = Out::default();
        write(&mut out);
        String::from_utf8(out.to_vec()).expect("text")
    }
}

// === impl Room ===

impl Room<'_> {
    /// What was written counts.
    #[inline(always)]
    pub fn end(self) {
        *self.before += self.len;
    }

    /// Appends the first `len` bytes of `chunk`.
    #[inline(always)]
    pub fn chunk<const N: usize>(&mut self, chunk: &[u8; N], len: usize) {
        debug_assert!(self.len + N <= ROOM);
        if let Some(place) = self.bytes.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut()) {
            *place = *chunk;
            self.len += len;
        }
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

    /// Appends the first `len` of sixteen bytes in quotes, the first in the lowest place: they need not be put together
    /// in memory, where reading them as one would wait for that.
    #[inline(always)]
    pub fn quoted(&mut self, text: u128, len: usize) {
        debug_assert!(self.len + 18 <= ROOM);
        if let Some(place) = self.bytes.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut::<18>()) {
            place[0] = b'"';
            let (halves, _) = place[1..].as_chunks_mut::<8>();
            halves[0] = (text as u64).to_le_bytes();
            halves[1] = ((text >> 64) as u64).to_le_bytes();
            let len = len.min(16);
            place[len + 1] = b'"';
            self.len += len + 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_each_other_with_and_without_room() {
        for room in [0, 1, 10, 100_000] {
            let mut out = Out::with_room(room);
            assert_eq!((&out[..], out.capacity()), (&b""[..], room));
            out.chunk(b"abcdefgh", 3);
            out.push(b'-');
            out.space(2).copy_from_slice(b"xy");
            out[2] = b'C';
            out.replace(1..2, b"");
            out.replace(0..1, b"aB");
            assert_eq!(&out[..], b"aBC-xy");
            out.short(|room| {
                room.quoted(u128::from_le_bytes(*b"0123456789abcdef"), 3);
                room.quoted(u128::from_le_bytes(*b"0123456789abcdef"), 16);
                room.chunk(b"12", 1);
            });
            assert_eq!(&out[6..], br#""012""0123456789abcdef"1"#);
            out.truncate(6);
            out.append(&[b'z'; 2000]);
            out.lend(|out| out.push(b'!'));
            assert_eq!((&out[..7], out.len()), (&b"aBC-xyz"[..], 2007));
            out.truncate(7);
            out.append(b"end");
            assert_eq!(&out[..], b"aBC-xyzend");
            out.clear();
            assert!(out.is_empty() && out.capacity() >= 2007);
        }
    }
}
