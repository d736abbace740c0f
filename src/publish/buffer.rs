//! Memory that commands are written into on their way to the socket, and that is used again for later ones: given
//! back to the system each time, it would have to be mapped and zeroed anew for every block.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use crate::out::Out;

/// No more than so many bytes are kept for later.
const KEPT_BYTES: usize = 16 << 20;

/// A buffer is given to commands that need at least so small a part of it: what is in flight is counted by what the
/// commands need, so a much larger buffer would be memory that nobody counts.
const SPARE: usize = 2;

/// Where buffers come from. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Buffers(Arc<Mutex<Free>>);

/// Buffers that nobody uses, in the order they were given back.
#[derive(Debug, Default)]
struct Free {
    buffers: VecDeque<Out>,
    bytes: usize,
}

/// Bytes in a buffer that goes back to where it came from when it is dropped.
#[derive(Debug, Default)]
pub struct Buffer {
    out: Out,
    home: Option<Buffers>,
}

// === impl Buffers ===

impl Buffers {
    /// An empty buffer with room for `need` bytes: of those that fit the one given back last, as it is likely to be in
    /// the processor's cache still.
    pub fn take(&self, need: usize) -> Buffer {
        let fits = |buffer: &Out| (need..=need.saturating_mul(SPARE)).contains(&buffer.capacity());
        let found = {
            let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let found = free.buffers.iter().rposition(fits).and_then(|place| free.buffers.remove(place));
            free.bytes -= found.as_ref().map_or(0, Out::capacity);
            found
        };
        let out = found.unwrap_or_else(|| Out::with_room(need));
        Buffer { out, home: Some(self.clone()) }
    }

    /// Keeps a buffer, in place of the oldest ones where there are enough.
    fn give_back(&self, mut out: Out) {
        out.clear();
        if out.capacity() == 0 || out.capacity() > KEPT_BYTES {
            return;
        }
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        free.bytes += out.capacity();
        free.buffers.push_back(out);
        while free.bytes > KEPT_BYTES
            && let Some(oldest) = free.buffers.pop_front()
        {
            free.bytes -= oldest.capacity();
        }
    }
}

// === impl Buffer ===

impl Buffer {
    /// An empty buffer from where this one came from, with room for as much.
    pub fn another(&self) -> Buffer {
        self.home.as_ref().map(|home| home.take(self.out.len())).unwrap_or_default()
    }
}

impl Deref for Buffer {
    type Target = Out;

    fn deref(&self) -> &Out {
        &self.out
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Out {
        &mut self.out
    }
}

impl From<Out> for Buffer {
    fn from(out: Out) -> Buffer {
        Buffer { out, home: None }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            home.give_back(std::mem::take(&mut self.out));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(buffers: &Buffers) -> usize {
        let free = buffers.0.lock().expect("no panic");
        assert_eq!(free.bytes, free.buffers.iter().map(Out::capacity).sum::<usize>());
        free.bytes
    }

    #[test]
    fn memory_is_used_again_by_commands_of_like_size() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take(1000);
        buffer.append(&[7; 1000]);
        let place = buffer.as_ptr();
        drop(buffer);
        assert_eq!(kept(&buffers), 1000);
        assert_eq!(buffers.take(600).as_ptr(), place);
        assert_eq!(buffers.take(1001).capacity(), 1001);
        let tiny = buffers.take(200);
        assert_eq!((tiny.len(), tiny.capacity()), (0, 200));
    }

    #[test]
    fn no_more_is_kept_than_is_said_and_the_oldest_goes_first() {
        let buffers = Buffers::default();
        drop(buffers.take(10));
        let large: Vec<Buffer> = (0..3).map(|_| buffers.take(KEPT_BYTES / 2)).collect();
        drop(large);
        assert_eq!(kept(&buffers), KEPT_BYTES);
        drop(buffers.take(KEPT_BYTES + 1));
        assert_eq!(kept(&buffers), KEPT_BYTES);
    }
}
