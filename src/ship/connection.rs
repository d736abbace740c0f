//! One connection to a node: the handshake, then blocks one way and acks the other.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use futures_util::{Sink, SinkExt, Stream as _, StreamExt};
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::tungstenite::{Error as WsError, Message, error::ProtocolError as WsProtocolError};
use tokio_tungstenite::{WebSocketStream, client_async_with_config, tungstenite::protocol::WebSocketConfig};

use crate::block::{Checksum, Position};
use crate::transport::{self, Stream};

use super::endpoint::Endpoint;
use super::message::{Answer, BlockResult, BlocksRequest, Request, StatusResult};
use super::node::{Fetch, NodeError, NodeOptions};
use super::protocol::Protocol;

type Socket = WebSocketStream<Stream>;

/// A node that has told its protocol, its chain and its ranges, and was not yet asked for blocks.
pub struct Connection {
    socket: Socket,
    endpoint: Endpoint,
    protocol: Arc<Protocol>,
    status: StatusResult,
    chain_id: Checksum,
    options: Arc<NodeOptions>,
    progressed: Arc<AtomicBool>,
}

/// The receiving half. Acks are sent while [`Frames::next`] is awaited.
pub struct Frames {
    socket: Socket,
    endpoint: Endpoint,
    protocol: Arc<Protocol>,
    options: Arc<NodeOptions>,
    progressed: Arc<AtomicBool>,
    acks: Acks,
    /// How many more results the node may send.
    credit: u64,
    /// Something was written to the socket and may still lie in its buffer.
    unflushed: bool,
    /// First block asked for, and the first one not asked for any more.
    range: (u32, u32),
    /// The last block received.
    last: Option<Position>,
    watch: Watch,
}

/// The sending half: one ack for each result, whether it held a block or not. Cheap to clone.
#[derive(Clone, Default)]
pub struct Acks(Arc<PendingAcks>);

#[derive(Default)]
struct PendingAcks {
    count: AtomicU32,
    receiver: AtomicWaker,
}

/// One result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// As it came.
    pub bytes: Bytes,
    /// What it says; its parts are slices of `bytes`.
    pub result: BlockResult,
}

/// What the watchdog waits for. A node can stop sending without closing.
#[derive(Debug, Clone, Copy)]
enum Watch {
    /// The next result; a status request goes out if none came by then.
    Result(Instant),
    /// The status' answer.
    Answer(Instant),
    /// The blocks that exist by the node's own word.
    Blocks(Instant, Position),
}

/// What happened on the socket.
enum Event {
    Received(Option<Result<Message, WsError>>),
    Acked,
}

// === impl Connection ===

impl Connection {
    /// Connects, reads the ABI frame and asks for the status.
    pub(super) async fn open(
        endpoint: &Endpoint,
        options: Arc<NodeOptions>,
        progressed: Arc<AtomicBool>,
    ) -> Result<Connection, NodeError> {
        let limit = options.timeout;
        let opened = Connection::handshake(endpoint, options, progressed);
        tokio::time::timeout(limit, opened).await.unwrap_or(Err(NodeError::Timeout(limit)))
    }

    async fn handshake(
        endpoint: &Endpoint,
        options: Arc<NodeOptions>,
        progressed: Arc<AtomicBool>,
    ) -> Result<Connection, NodeError> {
        let stream = transport::connect(endpoint.target()).await.map_err(NodeError::Connect)?;
        // A node may send a block in one WebSocket frame or in many: both limits are the user's one.
        let config = WebSocketConfig::default()
            .max_message_size(Some(options.max_message_bytes))
            .max_frame_size(Some(options.max_message_bytes));
        let (mut socket, _) = client_async_with_config(endpoint.handshake_url(), stream, Some(config))
            .await
            .map_err(socket_error)?;
        let protocol = match message(&mut socket).await? {
            Message::Text(abi) => Arc::new(Protocol::parse(&abi)?),
            other => return Err(NodeError::unexpected("the protocol's ABI", &other)),
        };
        let request = Request::Status.encode(&protocol);
        socket.send(Message::Binary(request)).await.map_err(socket_error)?;
        let status = match message(&mut socket).await? {
            Message::Binary(frame) => match Answer::decode(&frame, &protocol)? {
                Answer::Status(status) => status,
                Answer::Block(_) => {
                    return Err(NodeError::Unexpected("a block before any was asked for".into()));
                }
            },
            other => return Err(NodeError::unexpected("the status", &other)),
        };
        let chain_id = match (status.chain_id, &options.chain) {
            (Some(found), Some(expected)) if found != expected.id => {
                return Err(NodeError::WrongChain { found, reason: expected.reason.clone() });
            }
            (Some(found), _) => found,
            (None, Some(expected)) => expected.id,
            (None, None) => return Err(NodeError::NoChainId),
        };
        Ok(Connection { socket, endpoint: endpoint.clone(), protocol, status, chain_id, options, progressed })
    }

    /// Head and ranges at the moment of connecting.
    pub fn status(&self) -> &StatusResult {
        &self.status
    }

    /// The node's protocol.
    pub fn protocol(&self) -> &Arc<Protocol> {
        &self.protocol
    }

    /// Which node it is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The chain's id: the node's, or that of the options where the node does not say it.
    pub fn chain_id(&self) -> Checksum {
        self.chain_id
    }

    /// Asks for the blocks `start` to `stop` (inclusive; for ever without), with `positions` (ascending): the
    /// blocks below `start` that the caller has. If one is not on the node's chain, the node starts there.
    pub async fn request(
        mut self,
        start: u32,
        stop: Option<u32>,
        positions: &[Position],
    ) -> Result<(Frames, Acks), NodeError> {
        let end = stop.map_or(u32::MAX, |stop| stop.saturating_add(1));
        let request = Request::Blocks(BlocksRequest {
            start,
            end,
            max_messages_in_flight: self.options.window,
            have_positions: positions.to_vec(),
            irreversible_only: self.options.irreversible_only,
            fetch_block: self.options.fetch == Fetch::All,
            fetch_traces: self.options.fetch == Fetch::All,
            fetch_deltas: self.options.fetch != Fetch::Nothing,
        });
        let request = Message::Binary(request.encode(&self.protocol));
        tokio::time::timeout(self.options.timeout, self.socket.send(request))
            .await
            .map_err(|_| NodeError::Timeout(self.options.timeout))?
            .map_err(socket_error)?;
        let acks = Acks::default();
        let frames = Frames {
            socket: self.socket,
            endpoint: self.endpoint,
            protocol: self.protocol,
            acks: acks.clone(),
            credit: self.options.window.into(),
            unflushed: false,
            range: (start, end),
            last: None,
            watch: Watch::Result(Instant::now() + self.options.silence),
            options: self.options,
            progressed: self.progressed,
        };
        Ok((frames, acks))
    }
}

// === impl Frames ===

impl Frames {
    /// The next result. Dropping the future loses nothing.
    ///
    /// After an error the connection is of no more use.
    pub async fn next(&mut self) -> Result<Frame, NodeError> {
        // Time in which nobody asked for a frame says nothing about the node.
        self.watch.not_before(Instant::now() + Duration::from_secs(1).min(self.options.timeout));
        loop {
            let watched = self.credit > 0 && self.next_number() < self.range.1;
            let deadline = self.watch.deadline();
            let event = tokio::select! {
                biased;
                event = poll_fn(|cx| self.poll_event(cx)) => event?,
                () = sleep_until(deadline), if watched => {
                    self.watch_expired()?;
                    continue;
                }
            };
            let message = match event {
                // The node was not to send anything until now.
                Event::Acked => {
                    self.watch = Watch::Result(Instant::now() + self.options.silence);
                    continue;
                }
                Event::Received(Some(message)) => message.map_err(socket_error)?,
                Event::Received(None) => return Err(NodeError::Closed("without a word".to_owned())),
            };
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                // Answered by the WebSocket layer, with the next poll.
                Message::Ping(_) | Message::Pong(_) => continue,
                other => return Err(NodeError::unexpected("a block", &other)),
            };
            match Answer::decode(&bytes, &self.protocol)? {
                Answer::Status(status) => self.status_came(&status),
                Answer::Block(result) => {
                    self.credit = self.credit.saturating_sub(1);
                    self.last = result.this_block.or(self.last);
                    self.watch = Watch::Result(Instant::now() + self.options.silence);
                    self.progressed.store(true, Ordering::Relaxed);
                    return Ok(Frame { bytes, result });
                }
            }
        }
    }

    /// Which node it is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The node's protocol.
    pub fn protocol(&self) -> &Arc<Protocol> {
        &self.protocol
    }

    /// Sends what is to be sent and receives what is there: never one of them alone, or both sides could wait
    /// for the other to read. Each write wakes the node, so acks wait until nothing is there, or the node has used
    /// up half of what it may send.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, NodeError>> {
        self.acks.0.receiver.register(cx.waker());
        if self.credit <= u64::from(self.options.window / 2) && self.poll_acks(cx)? {
            return Poll::Ready(Ok(Event::Acked));
        }
        self.poll_flush(cx)?;
        if let Poll::Ready(received) = Pin::new(&mut self.socket).poll_next(cx) {
            return Poll::Ready(Ok(Event::Received(received)));
        }
        if self.poll_acks(cx)? {
            return Poll::Ready(Ok(Event::Acked));
        }
        self.poll_flush(cx)?;
        Poll::Pending
    }

    /// Sends the acks there are, if there is room: says whether the node was not to send anything until now.
    fn poll_acks(&mut self, cx: &mut Context<'_>) -> Result<bool, NodeError> {
        if self.acks.0.count.load(Ordering::Acquire) == 0 {
            return Ok(false);
        }
        let was_out_of_credit = self.credit == 0;
        let sent = self.poll_send(cx, |frames| {
            let count = frames.acks.0.count.swap(0, Ordering::AcqRel);
            frames.credit += u64::from(count);
            Request::Ack(count)
        })?;
        Ok(sent && was_out_of_credit)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Result<(), NodeError> {
        if self.unflushed && Pin::new(&mut self.socket).poll_flush(cx).map_err(socket_error)?.is_ready() {
            self.unflushed = false;
        }
        Ok(())
    }

    /// Puts a request into the socket's buffer, if there is room: without one, nothing was taken.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        request: impl FnOnce(&mut Frames) -> Request,
    ) -> Result<bool, NodeError> {
        match Pin::new(&mut self.socket).poll_ready(cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(outcome) => outcome.map_err(socket_error)?,
        }
        let message = Message::Binary(request(self).encode(&self.protocol));
        Pin::new(&mut self.socket).start_send(message).map_err(socket_error)?;
        self.unflushed = true;
        Ok(true)
    }

    /// The number that comes next, if the chain does not fork.
    fn next_number(&self) -> u32 {
        self.last.map_or(self.range.0, |last| last.num.saturating_add(1))
    }

    fn watch_expired(&mut self) -> Result<(), NodeError> {
        let timeout = self.options.timeout;
        match self.watch {
            Watch::Result(_) => {
                // Without room for the request the node does not read either: no answer then, too.
                let mut cx = Context::from_waker(std::task::Waker::noop());
                self.poll_send(&mut cx, |_| Request::Status)?;
                self.watch = Watch::Answer(Instant::now() + timeout);
                Ok(())
            }
            Watch::Answer(_) => Err(NodeError::Silent(format!(
                "no block for {:?}, and no answer to a status request for {timeout:?}",
                self.options.silence
            ))),
            Watch::Blocks(_, node) => Err(NodeError::Silent(format!(
                "no block for {:?} though block {} is wanted and the node has block {node}",
                self.options.silence,
                self.next_number(),
            ))),
        }
    }

    /// The node answers: is there anything it should have sent?
    fn status_came(&mut self, status: &StatusResult) {
        let newest = if self.options.irreversible_only { status.last_irreversible } else { status.head };
        let other_branch = self.last.is_some_and(|last| last.num == newest.num && last.id != newest.id);
        let now = Instant::now();
        self.watch = if newest.num >= self.next_number() || other_branch {
            // The blocks may be right behind the answer.
            Watch::Blocks(now + self.options.timeout, newest)
        } else {
            Watch::Result(now + self.options.silence)
        };
    }
}

// === impl Watch ===

impl Watch {
    fn deadline(&self) -> Instant {
        match self {
            Watch::Result(at) | Watch::Answer(at) | Watch::Blocks(at, _) => *at,
        }
    }

    /// Moves a deadline that has passed.
    fn not_before(&mut self, earliest: Instant) {
        match self {
            Watch::Result(at) | Watch::Answer(at) | Watch::Blocks(at, _) => {
                if *at < Instant::now() {
                    *at = earliest;
                }
            }
        }
    }
}

// === impl Acks ===

impl Acks {
    /// Lets the node send `count` more results. It goes out with the next poll of [`Frames::next`].
    pub fn ack(&self, count: u32) {
        self.0.count.fetch_add(count, Ordering::AcqRel);
        self.0.receiver.wake();
    }
}

/// The next message of a handshake.
async fn message(socket: &mut Socket) -> Result<Message, NodeError> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(message)) => return Ok(message),
            Some(Err(error)) => return Err(socket_error(error)),
            None => return Err(NodeError::Closed("in the handshake".to_owned())),
        }
    }
}

/// What a WebSocket error means here. nodeos closes without a close frame when it stops.
fn socket_error(error: WsError) -> NodeError {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    match error {
        WsError::Io(e)
            if matches!(e.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof) =>
        {
            NodeError::Closed(e.to_string())
        }
        WsError::Protocol(WsProtocolError::ResetWithoutClosingHandshake)
        | WsError::ConnectionClosed
        | WsError::AlreadyClosed => NodeError::Closed("without a close frame".to_owned()),
        WsError::Capacity(tokio_tungstenite::tungstenite::error::CapacityError::MessageTooLong {
            size,
            max_size,
        }) => NodeError::TooLarge { size, limit: max_size },
        other => NodeError::WebSocket(other.to_string()),
    }
}
