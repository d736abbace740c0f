//! One client of a served capture. Requests are read by the WebSocket library; everything that is
//! sent goes through one writer, which knows how many bytes went out: so a frame can be cut short at
//! any byte, and a large one is written from where it lies in memory.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::ship::message::Request;
use crate::transport::Stream;

use super::edit;
use super::replay::Player;
use super::serve::{Faults, Shared};

/// How a session ended, when nothing failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The client left.
    Client,
    /// A fault that was ordered.
    Fault,
}

/// The client's side of the socket for the WebSocket library: it reads there, and what it wants to write (the
/// handshake, pongs, a close frame) goes to the session's writer.
struct Inbox {
    read: ReadHalf<Stream>,
    write: mpsc::UnboundedSender<Vec<u8>>,
}

/// Writes, counting.
struct Outbox {
    write: WriteHalf<Stream>,
    fragment: Option<usize>,
    /// How many bytes may still go out before the connection is cut.
    cut: Option<u64>,
}

/// What the current faults mean for this session.
#[derive(Default)]
struct Ordered {
    faults: Faults,
    /// Result frames sent since they were ordered.
    frames: u64,
}

pub(super) async fn run(stream: Stream, shared: Arc<Shared>) -> io::Result<End> {
    let mut faults = shared.faults.subscribe();
    let mut ordered = Ordered::take(&shared, &faults.borrow_and_update());
    if ordered.faults.refuse {
        return Ok(End::Fault);
    }
    let (read, write) = tokio::io::split(stream);
    let (control_in, mut control) = mpsc::unbounded_channel();
    let mut out = Outbox { write, fragment: shared.options.fragment_bytes, cut: None };

    let inbox = Inbox { read, write: control_in };
    let mut socket = tokio_tungstenite::accept_async(inbox).await.map_err(io::Error::other)?;
    while let Ok(bytes) = control.try_recv() {
        out.raw(&mut Bytes::from(bytes)).await?;
    }
    out.cut = ordered.cut();

    // Requests are read even while a result waits for the client to read.
    let (requests_in, mut requests) = mpsc::unbounded_channel();
    let reading = async {
        while let Some(message) = socket.next().await {
            match message.map_err(io::Error::other)? {
                Message::Binary(bytes) => {
                    let request = Request::decode(&bytes, &shared.replay.protocol);
                    if requests_in.send(request.map_err(io::Error::other)?).is_err() {
                        break;
                    }
                }
                Message::Close(_) => break,
                Message::Text(_) => return Err(io::Error::other("a text frame instead of a request")),
                _ => {}
            }
        }
        Ok(End::Client)
    };

    let writing = async {
        let mut player: Option<Player> = None;
        let mut credits = 0u64;
        let mut stalled_answers = 0;
        if !out.message(Data::Text, shared.abi.clone().into(), Bytes::new()).await? {
            return Ok(End::Fault);
        }
        loop {
            if ordered.drops() {
                return Ok(End::Fault);
            }
            let ready = player.is_some() && credits > 0 && !ordered.stalls();
            tokio::select! {
                biased;
                Some(bytes) = control.recv() => {
                    if !out.raw(&mut Bytes::from(bytes)).await? {
                        return Ok(End::Fault);
                    }
                }
                Some(request) = requests.recv() => match request {
                    Request::Ack(count) => credits += u64::from(count),
                    Request::Blocks(request) => {
                        credits = request.max_messages_in_flight.into();
                        player = Some(shared.replay.player(request));
                    }
                    Request::Status => {
                        stalled_answers = if ordered.stalls() { stalled_answers + 1 } else { 0 };
                        let status = shared.status(stalled_answers);
                        if !out.message(Data::Binary, status, Bytes::new()).await? {
                            return Ok(End::Fault);
                        }
                    }
                },
                Ok(()) = faults.changed() => {
                    ordered = Ordered::take(&shared, &faults.borrow_and_update());
                    out.cut = ordered.cut();
                }
                () = pause(&ordered.faults), if ready => {
                    let Some(frame) = player.as_mut().and_then(|player| shared.replay.next(player)) else {
                        // At the head: silence, until another request comes.
                        player = None;
                        continue;
                    };
                    credits -= 1;
                    ordered.frames += 1;
                    if !out.message(Data::Binary, frame.begin, frame.rest).await? {
                        return Ok(End::Fault);
                    }
                    shared.frames.fetch_add(1, Ordering::Relaxed);
                    shared.furthest.fetch_max(frame.num.unwrap_or_default(), Ordering::Relaxed);
                }
            }
        }
    };
    tokio::select! {
        end = reading => end,
        end = writing => end,
    }
}

async fn pause(faults: &Faults) {
    if !faults.delay.is_zero() {
        tokio::time::sleep(faults.delay).await;
    }
}

// === impl Shared ===

impl Shared {
    /// The packed status; the head is further on by `moved` blocks.
    fn status(&self, moved: u32) -> Bytes {
        let mut status = if self.options.status_as_recorded {
            self.replay.recorded_status().clone()
        } else {
            self.replay.status()
        };
        let furthest = self.furthest.load(Ordering::Relaxed);
        if self.options.repeat_from.is_some() && furthest > status.head.num {
            status.head = self.replay.position(furthest).unwrap_or(status.head);
        }
        if moved > 0 {
            status.head = edit::marked(status.head, status.head.num.saturating_add(moved), u32::MAX);
        }
        status.trace_end_block = status.trace_end_block.max(status.head.num.saturating_add(1));
        status.chain_state_end_block = status.trace_end_block;
        status.encode(&self.replay.protocol)
    }
}

// === impl Ordered ===

impl Ordered {
    /// The current faults, if they still concern another connection.
    fn take(shared: &Shared, faults: &Faults) -> Ordered {
        let before = shared.affected.fetch_add(1, Ordering::Relaxed);
        let concerned = faults.connections.is_none_or(|count| before < count);
        Ordered { faults: if concerned { faults.clone() } else { Faults::default() }, frames: 0 }
    }

    fn drops(&self) -> bool {
        self.faults.drop_after_frames.is_some_and(|count| self.frames >= count)
    }

    fn stalls(&self) -> bool {
        self.faults.stall_after_frames.is_some_and(|count| self.frames >= count)
    }

    fn cut(&self) -> Option<u64> {
        let range = self.faults.cut_after_bytes.clone()?;
        let cut = if range.is_empty() { range.start } else { fastrand::u64(range) };
        tracing::debug!(bytes = cut, "this connection will be cut");
        Some(cut)
    }
}

// === impl Outbox ===

impl Outbox {
    /// Sends a message of two pieces. `false`: the connection was to be cut here.
    async fn message(&mut self, kind: Data, begin: Bytes, rest: Bytes) -> io::Result<bool> {
        let mut payload = begin.chain(rest);
        let mut opcode = OpCode::Data(kind);
        loop {
            let length =
                self.fragment.map_or(payload.remaining(), |most| payload.remaining().min(most.max(1)));
            let is_final = length == payload.remaining();
            let header = FrameHeader { is_final, opcode, ..FrameHeader::default() };
            let mut head = Vec::with_capacity(10);
            header.format(length as u64, &mut head).map_err(io::Error::other)?;
            let mut frame = Bytes::from(head).chain((&mut payload).take(length));
            if !self.raw(&mut frame).await? {
                return Ok(false);
            }
            if is_final {
                return Ok(true);
            }
            opcode = OpCode::Data(Data::Continue);
        }
    }

    /// Sends bytes as they are. `false`: the connection was to be cut here.
    async fn raw(&mut self, bytes: &mut (impl Buf + Unpin)) -> io::Result<bool> {
        match &mut self.cut {
            Some(left) if *left <= bytes.remaining() as u64 => {
                let left = *left as usize;
                self.write.write_all_buf(&mut bytes.take(left)).await?;
                self.write.flush().await?;
                return Ok(false);
            }
            Some(left) => *left -= bytes.remaining() as u64,
            None => {}
        }
        self.write.write_all_buf(bytes).await?;
        Ok(true)
    }
}

// === impl Inbox ===

impl AsyncRead for Inbox {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.read).poll_read(cx, buf)
    }
}

impl AsyncWrite for Inbox {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = self.write.send(bytes.to_vec());
        Poll::Ready(sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Client => "the client left",
            End::Fault => "cut on order",
        })
    }
}
