//! Where JSON is written to.
//!
//! A `Vec` looks for room, and notes its new length, with every piece. This is longer than what was written so far:
//! a piece of known size is a single move, whatever of it counts, and most often nothing else has to be done.

/// The output, taken from a `Vec` and given back to it.
pub(super) struct Out {
    /// What was written, and behind it room.
    bytes: Vec<u8>,
    /// How much was written.
    len: usize,
    /// What was there before.
    from: usize,
}

// === impl Out ===

impl Out {
    /// Goes on behind what `vec` holds, with room for `expected` bytes. `vec` is empty until [`Out::end`].
    #[inline]
    pub fn begin(vec: &mut Vec<u8>, expected: usize) -> Out {
        let mut bytes = std::mem::take(vec);
        let len = bytes.len();
        bytes.resize(len + expected, 0);
        Out { bytes, len, from: len }
    }

    /// Gives back what was there before and what was written.
    #[inline]
    pub fn end(mut self, vec: &mut Vec<u8>) {
        self.bytes.truncate(self.len);
        *vec = self.bytes;
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

    /// Appends the first `len` bytes of `chunk`, at most all.
    #[inline(always)]
    pub fn chunk<const N: usize>(&mut self, chunk: &[u8; N], len: usize) {
        match self.bytes.get_mut(self.len..).and_then(|room| room.first_chunk_mut::<N>()) {
            Some(room) => {
                *room = *chunk;
                self.len += len;
            }
            None => self.slowly(&chunk[..len.min(N)]),
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

    #[cold]
    fn slowly(&mut self, bytes: &[u8]) {
        self.append(bytes);
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        // In proportion to this value alone: what stands before it may be megabytes, and room is zeroed.
        let written = self.len - self.from + len;
        self.bytes.resize(self.from + written + written.max(1024) / 2, 0);
    }
}

#[cfg(test)]
impl Out {
    /// What `write` writes, as text.
    pub fn text(write: impl FnOnce(&mut Out)) -> String {
        let mut vec = Vec::new();
        let mut out = Out::begin(&mut vec, 0);
        write(&mut out);
        out.end(&mut vec);
        String::from_utf8(vec).expect("JSON is text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_each_other_with_and_without_room() {
        for expected in [0, 1, 7, 64] {
            let mut vec = b"before".to_vec();
            let mut out = Out::begin(&mut vec, expected);
            out.chunk(b"abcdefgh", 3);
            out.push(b'-');
            out.space(2).copy_from_slice(b"xy");
            out.put(8, b'C');
            out.append(&[b'z'; 2000]);
            out.put(out.len(), b'!');
            out.truncate(13);
            out.fixed(b"end");
            out.end(&mut vec);
            assert_eq!(vec, b"beforeabC-xyzend");
        }
    }
}
