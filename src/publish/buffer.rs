//! Memory that commands are written into on their way to the socket, and that is used again for later ones: given
//! back to the system each time, it would have to be mapped and zeroed anew for every block.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// No more than so many bytes are kept for later.
const KEPT_BYTES: usize = 16 << 20;

/// Where buffers come from. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Buffers(Arc<Mutex<Free>>);

/// Buffers that nobody uses.
#[derive(Debug, Default)]
struct Free {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

/// Bytes in a buffer that goes back to where it came from when it is dropped.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    home: Option<Buffers>,
}

// === impl Buffers ===

impl Buffers {
    /// An empty buffer: the one that was given back last, as it is likely to be in the processor's cache still.
    pub fn take(&self) -> Buffer {
        let bytes = {
            let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let bytes = free.buffers.pop().unwrap_or_default();
            free.bytes -= bytes.capacity();
            bytes
        };
        Buffer { bytes, home: Some(self.clone()) }
    }

    fn give_back(&self, mut bytes: Vec<u8>) {
        bytes.clear();
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if free.bytes + bytes.capacity() <= KEPT_BYTES {
            free.bytes += bytes.capacity();
            free.buffers.push(bytes);
        }
    }
}

// === impl Buffer ===

impl Buffer {
    /// An empty buffer from where this one came from.
    pub fn another(&self) -> Buffer {
        self.home.as_ref().map(Buffers::take).unwrap_or_default()
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        Buffer { bytes, home: None }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            home.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_bounded() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take();
        buffer.extend_from_slice(&[7; 1000]);
        let place = buffer.as_ptr();
        drop(buffer);
        let again = buffers.take();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        assert_ne!(buffers.take().as_ptr(), place);

        let large: Vec<Buffer> = (0..3)
            .map(|_| {
                let mut buffer = buffers.take();
                buffer.reserve(KEPT_BYTES / 2);
                buffer
            })
            .collect();
        drop(large);
        let kept = buffers.0.lock().expect("no panic");
        assert_eq!(kept.bytes, kept.buffers.iter().map(Vec::capacity).sum::<usize>());
        assert!(kept.bytes <= KEPT_BYTES);
    }
}
