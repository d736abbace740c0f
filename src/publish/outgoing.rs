//! Bytes on their way to the socket.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::buffer::Buffer;

/// How many pieces go into one system call.
const SLICES: usize = 32;

/// Pieces to be written in order, none of them copied.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pieces: VecDeque<Buffer>,
    /// Bytes of the first piece already written.
    written: usize,
    /// Written, but perhaps still held back by TLS.
    unflushed: bool,
}

impl Outgoing {
    /// Adds a piece.
    pub fn push(&mut self, piece: Buffer) {
        if !piece.is_empty() {
            self.pieces.push_back(piece);
        }
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.pieces.is_empty() && !self.unflushed
    }

    /// Writes some of it. Nothing is lost if it is given up.
    pub async fn send(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        if self.pieces.is_empty() {
            writer.flush().await?;
            self.unflushed = false;
            return Ok(());
        }
        let mut slices = [IoSlice::new(&[]); SLICES];
        for (i, (slice, piece)) in slices.iter_mut().zip(&self.pieces).enumerate() {
            *slice = IoSlice::new(if i == 0 { &piece[self.written..] } else { piece });
        }
        let mut sent = writer.write_vectored(&slices[..self.pieces.len().min(SLICES)]).await?;
        if sent == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.unflushed = true;
        while let Some(first) = self.pieces.front() {
            let left = first.len() - self.written;
            if sent < left {
                self.written += sent;
                break;
            }
            sent -= left;
            self.written = 0;
            self.pieces.pop_front();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn pieces_arrive_whole_and_in_order_through_a_narrow_pipe() {
        let (mut near, mut far) = tokio::io::duplex(7);
        let mut out = Outgoing::default();
        let mut expected = Vec::new();
        for i in 0..100u8 {
            let piece = vec![i; usize::from(i) % 11];
            expected.extend_from_slice(&piece);
            let mut buffer = Buffer::default();
            buffer.append(&piece);
            out.push(buffer);
        }
        let reader = tokio::spawn(async move {
            let mut seen = Vec::new();
            far.read_to_end(&mut seen).await.map(|_| seen)
        });
        while !out.is_idle() {
            out.send(&mut near).await.unwrap();
        }
        drop(near);
        assert_eq!(reader.await.unwrap().unwrap(), expected);
    }
}
