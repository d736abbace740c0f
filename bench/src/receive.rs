//! Receiving alone: the capture's frames from the node's socket, walked and not decoded, beside reading the same messages and dropping
//! them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use parser::plan::{Plan, Selection};
use parser::ship::endpoint::Endpoint;
use parser::ship::message::{BlocksRequest, Request};
use parser::ship::node::{Node, NodeOptions};
use parser::ship::protocol::Protocol;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::process::PATIENCE;
use crate::report::{Better, Figure, Section, Table};
use crate::stats::{Spread, number, spread};
use crate::workload::Bench;

/// The first block read: block 1 has no traces.
const FIRST: u32 = 2;

/// How often the capture is read through in one repetition: once takes a thirtieth of a second.
const LAPS: u32 = 3;

/// Measures.
pub fn add(bench: &mut Bench, section: &mut Section) -> Result<()> {
    eprintln!("  receiving alone");
    section.text(
        "**Receiving alone.** The capture's blocks, three times over, from the node of all the runs above. *Receive and walk* is the \
         parser's own connection, window and acknowledgements included, and the walk over traces and rows that finds out what is to be \
         published. The first limit reads the same WebSocket messages with the library that the parser uses (tungstenite) and drops them; the second \
         knows only so much of WebSocket that it can read each message whole from a loop-back socket into the same memory again and again. No \
         acknowledgements are asked of either. What they read is also what the node can send at most: it is not what holds the runs above back.",
    );
    let node = bench.node()?;
    let last = LAPS * bench.last_block();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut library, mut bare, mut walked) = (Vec::new(), Vec::new(), Vec::new());
    let mut bytes = 0;
    for _ in 0..bench.pick(5, 11) {
        let protocol = &bench.capture.protocol;
        library.push(runtime.block_on(within(read_by_library(node.url(), protocol, last)))?.as_secs_f64());
        walked.push(runtime.block_on(within(receive_and_walk(node.url(), last)))?.as_secs_f64());
        let (time, read) = read_and_drop(node.address(), protocol, last)?;
        bare.push(time.as_secs_f64());
        bytes = read;
    }
    let blocks = f64::from(last - FIRST + 1);
    let mut table =
        Table::new(&["", "blocks/s", "MB/s", "ratio to the first limit", "ratio to the second limit"]);
    for (what, times) in [
        ("first limit: read by the library and drop", &library),
        ("second limit: read from the socket and drop", &bare),
        ("receive and walk", &walked),
    ] {
        let rate = |amount: f64| spread(&Spread::of(times.iter().map(|time| amount / time)));
        let to = |limit: &[f64]| spread(&ratio(limit, times));
        table.row(&[what.to_owned(), rate(blocks), rate(bytes as f64 / 1e6), to(&library), to(&bare)]);
    }
    section.table(&table);
    let rate =
        |times: &[f64]| format!("{} blocks/s", number(blocks / Spread::of(times.iter().copied()).median));
    let what =
        "receive and walk, without decoding, against reading the same WebSocket messages and dropping them";
    section.figures.push(
        Figure::ratio("receive-walk", what, ratio(&library, &walked), Better::Higher)
            .of(rate(&walked), rate(&library))
            .target(0.7),
    );
    let what = "receive and walk, without decoding, against a loop-back read of the same messages";
    section.figures.push(
        Figure::ratio("receive-walk-bare", what, ratio(&bare, &walked), Better::Higher)
            .of(rate(&walked), rate(&bare)),
    );
    Ok(())
}

/// How fast it was against the limit of the same turn.
fn ratio(limit: &[f64], times: &[f64]) -> Spread {
    Spread::of(limit.iter().zip(times).map(|(limit, time)| limit / time))
}

/// Not for ever.
async fn within(reading: impl Future<Output = Result<Duration>>) -> Result<Duration> {
    tokio::time::timeout(PATIENCE, reading)
        .await
        .context("reading the recording from the node takes too long")?
}

fn request(last: u32) -> Request {
    Request::Blocks(BlocksRequest {
        start: FIRST,
        end: last + 1,
        max_messages_in_flight: u32::MAX,
        have_positions: Vec::new(),
        irreversible_only: false,
        fetch_block: true,
        fetch_traces: true,
        fetch_deltas: true,
    })
}

/// From the request to the last message, and how many bytes that was.
fn read_and_drop(address: &str, protocol: &Protocol, last: u32) -> Result<(Duration, u64)> {
    let mut socket = BareSocket::connect(address)?;
    // The protocol's ABI.
    socket.message()?;
    let began = Instant::now();
    socket.send(&request(last).encode(protocol))?;
    let mut bytes = 0;
    for _ in FIRST..=last {
        bytes += socket.message()? as u64;
    }
    Ok((began.elapsed(), bytes))
}

async fn receive_and_walk(url: &str, last: u32) -> Result<Duration> {
    let endpoint: Endpoint = url.parse().context("the node's address")?;
    let selection = Selection::default();
    // Its own task, as in the pipeline.
    let reading = async move {
        let connection = Node::new(NodeOptions::new(vec![endpoint])).connect().await?;
        let began = Instant::now();
        let (mut frames, acks) = connection.request(FIRST, Some(last), &[]).await?;
        let mut events = 0;
        for _ in FIRST..=last {
            let frame = frames.next().await?;
            let part = |part: Option<Bytes>| part.unwrap_or_default();
            let result = frame.result;
            let (header, traces, deltas) = (part(result.block), part(result.traces), part(result.deltas));
            events += Plan::new(frames.protocol(), &selection, &header, traces, deltas)?.entries();
            acks.ack(1);
        }
        ensure!(events > 0, "the walk found nothing");
        Ok(began.elapsed())
    };
    tokio::spawn(reading).await?
}

async fn read_by_library(url: &str, protocol: &Protocol, last: u32) -> Result<Duration> {
    let (url, request) = (url.to_owned(), request(last).encode(protocol));
    let reading = async move {
        let address = url.trim_start_matches("ws://").to_owned();
        let stream = tokio::net::TcpStream::connect(&address).await?;
        let config = WebSocketConfig::default();
        let (mut socket, _) =
            tokio_tungstenite::client_async_with_config(url.as_str(), stream, Some(config)).await?;
        socket.next().await.context("the protocol's ABI")??;
        let began = Instant::now();
        socket.send(Message::Binary(request)).await?;
        for _ in FIRST..=last {
            socket.next().await.context("a block")??;
        }
        Ok(began.elapsed())
    };
    tokio::spawn(reading).await?
}

/// Just enough of a WebSocket to read messages from a server that is trusted.
struct BareSocket {
    stream: TcpStream,
    /// What was read and not yet taken: `from..to`.
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    message: Vec<u8>,
}

impl BareSocket {
    fn connect(address: &str) -> Result<BareSocket> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut socket =
            BareSocket { stream, buffer: vec![0; 256 << 10], from: 0, to: 0, message: Vec::new() };
        write!(
            socket.stream,
            "GET / HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(socket.byte()?);
        }
        ensure!(
            answer.starts_with(b"HTTP/1.1 101"),
            "the node refuses: {}",
            String::from_utf8_lossy(&answer)
        );
        Ok(socket)
    }

    /// Sends a message, masked with zeros: its bytes as they are.
    fn send(&mut self, message: &[u8]) -> Result<()> {
        ensure!(message.len() < 126, "the request is too long for a short frame");
        let mut frame = vec![0x82, 0x80 | message.len() as u8, 0, 0, 0, 0];
        frame.extend_from_slice(message);
        Ok(self.stream.write_all(&frame)?)
    }

    /// Reads the next message into memory; says how long it is.
    fn message(&mut self) -> Result<usize> {
        let (first, second) = (self.byte()?, self.byte()?);
        if first & 0x80 == 0 || !matches!(first & 0x0f, 1 | 2) {
            bail!("not a whole message in one frame");
        }
        let more = match second {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mut length = if more == 0 { usize::from(second) } else { 0 };
        for _ in 0..more {
            length = length << 8 | usize::from(self.byte()?);
        }
        self.message.resize(length, 0);
        let there = length.min(self.to - self.from);
        self.message[..there].copy_from_slice(&self.buffer[self.from..self.from + there]);
        self.from += there;
        // A long rest goes straight to where it is wanted.
        let rest = length - there;
        if rest > 0 {
            self.stream.read_exact(&mut self.message[there..])?;
        }
        std::hint::black_box(&self.message);
        Ok(length)
    }

    fn byte(&mut self) -> Result<u8> {
        if self.from == self.to {
            (self.from, self.to) = (0, self.stream.read(&mut self.buffer)?);
            ensure!(self.to > 0, "the node closed the connection");
        }
        self.from += 1;
        Ok(self.buffer[self.from - 1])
    }
}
