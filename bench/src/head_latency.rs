//! Section 7: how long a block takes at the head, from the node's socket to a consumer's blocked XREAD.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use parser::capture::replay::{Player, Replay};
use parser::out::Out;
use parser::resp;
use parser::ship::message::Request;
use redis::streams::StreamReadReply;
use tokio::net::TcpListener;
use tokio::time::MissedTickBehavior;
use tokio_tungstenite::tungstenite::Message;

use crate::process::PATIENCE;
use crate::program::{Program, Settings};
use crate::recording::Recording;
use crate::redis::{Fsync, REPLY, Redis};
use crate::report::{Better, Figure, Section, Table};
use crate::stats::{Latency, Spread, number};
use crate::workload::Bench;

/// Blocks up to this one are sent as fast as they go, so that all ABIs are known; those behind it in time.
const UNTIMED: u32 = 200;

/// Parser and limit take turns so often.
const TURNS: u32 = 3;

/// Longer than this a consumer does not wait: less than the connection itself does.
const NOTHING_CAME: Duration = REPLY.saturating_sub(Duration::from_secs(2));

/// When each block went to the socket, from block `UNTIMED + 1` on.
type Sent = Arc<Mutex<Vec<Instant>>>;

/// Measures.
pub fn section(bench: &mut Bench, section: &mut Section) -> Result<()> {
    section.text(
        "From the moment the node gives a block's frame to its socket until a consumer's `XREAD BLOCK` has returned with the block's first entry \
         (all of a block's entries appear at once, when its transaction is carried out): receiving, decoding, publishing, and waking the consumer. Both moments are \
         taken by one process, which plays the node from the capture, one block at a time, and the consumer. AOF `everysec`. The limit is the same \
         commands for each block in one MULTI/EXEC, written to Redis at the same pace by a thread that does nothing else, until the same XREAD returns. They take \
         turns.",
    );
    let mut table = Table::new(&["blocks/s", "blocks", "", "p50 ms", "p99 ms", "p99.9 ms"]);
    // Blocks a second, seconds of each turn of the parser and of the limit: in the short version, and in the whole one.
    for (pace, few, all) in [(2, (3, 2), (20, 10)), (50, (3, 1), (8, 4))] {
        let seconds = bench.pick(few, all);
        let most = bench.last_block() - UNTIMED;
        let (blocks, of_limit) = ((pace * seconds.0).min(most), (pace * seconds.1).min(most));
        let every = Duration::from_secs(1) / pace;
        let recording = bench.recording("block")?;
        let (mut latency, mut limit, mut ratios) = (Latency::new(), Latency::new(), Vec::new());
        for _ in 0..TURNS {
            eprintln!("  {pace} blocks/s, {blocks} blocks");
            let parser = through_the_parser(bench, every, blocks)?;
            let bare = by_a_bare_writer(bench, &recording, every, of_limit)?;
            ratios.push(parser.percentile(50.0) / bare.percentile(50.0));
            latency.add(&parser);
            limit.add(&bare);
        }
        for (what, latency) in [("parser", &latency), ("limit", &limit)] {
            table.row(&[
                pace.to_string(),
                latency.count().to_string(),
                what.to_owned(),
                number(latency.percentile(50.0)),
                number(latency.percentile(99.0)),
                number(latency.percentile(99.9)),
            ]);
        }
        section.figures.extend(figures(pace, &latency, &limit, Spread::of(ratios)));
    }
    section.table(&table);
    section.text(
        "With few blocks p99 and p99.9 are the longest times there were: of 120 blocks p99 is the second longest, of 1,200 p99.9.",
    );
    Ok(())
}

fn figures(pace: u32, latency: &Latency, limit: &Latency, ratio: Spread) -> [Figure; 2] {
    let milliseconds = |latency: &Latency, percent| format!("{} ms", number(latency.percentile(percent)));
    let (what, p99) = (format!("latency at the head, {pace} blocks/s, p99"), latency.percentile(99.0));
    let in_time = Figure::ratio(&format!("head-p99-{pace}"), &what, Spread::of([p99]), Better::Lower)
        .of(milliseconds(latency, 99.0), milliseconds(limit, 99.0))
        .unit("ms")
        .target(5.0);
    let what =
        format!("latency at the head, {pace} blocks/s, p50, against the same transaction written at once");
    let ratio = Figure::ratio(&format!("head-p50-{pace}"), &what, ratio, Better::Lower)
        .of(milliseconds(latency, 50.0), milliseconds(limit, 50.0));
    [in_time, ratio]
}

fn through_the_parser(bench: &Bench, every: Duration, blocks: u32) -> Result<Latency> {
    let sent = Sent::default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let url = format!("ws://{}", listener.local_addr()?);
    let replay = Replay::new(&bench.capture, None)?;
    let go = Arc::new(AtomicBool::new(false));
    let node = Pacer { replay, every, last: UNTIMED + blocks, sent: sent.clone(), go: go.clone() };
    let playing = runtime.spawn(node.play(listener));
    let redis = Redis::start(Fsync::EverySecond)?;
    let settings = Settings::default();
    let mut parser = Program::start(&bench.program, &url, &redis, redis.port(), &bench.keys, &settings)?;
    parser.reach(&redis, UNTIMED, |_| Ok(()))?;
    go.store(true, Ordering::Relaxed);
    let latency = consume(bench, &redis, blocks, &sent).with_context(|| parser.log())?;
    playing.abort();
    Ok(latency)
}

fn by_a_bare_writer(bench: &Bench, recording: &Recording, every: Duration, blocks: u32) -> Result<Latency> {
    let redis = Redis::start(Fsync::EverySecond)?;
    let sent = Sent::default();
    let writer = TcpStream::connect(("127.0.0.1", redis.port()))?;
    writer.set_nodelay(true)?;
    writer.set_write_timeout(Some(PATIENCE))?;
    thread::scope(|scope| {
        let writing = scope.spawn(|| -> Result<()> {
            let mut reading = writer.try_clone()?;
            // Replies are read so that Redis never waits; the end of the connection ends it.
            thread::spawn(move || std::io::copy(&mut reading, &mut std::io::sink()));
            let begin = Instant::now() + Duration::from_millis(100);
            for (i, num) in (UNTIMED + 1..=UNTIMED + blocks).enumerate() {
                let mut commands = Out::default();
                resp::command(&mut commands, &[b"MULTI"]);
                commands.append(&recording.block(num));
                resp::command(&mut commands, &[b"EXEC"]);
                let at = begin + every * i as u32;
                thread::sleep(at.saturating_duration_since(Instant::now()));
                sent.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
                (&writer).write_all(&commands)?;
            }
            Ok(())
        });
        let latency = consume(bench, &redis, blocks, &sent)?;
        match writing.join() {
            Ok(written) => written?,
            Err(_) => anyhow::bail!("the bare writer's thread panicked"),
        }
        writer.shutdown(std::net::Shutdown::Both)?;
        Ok(latency)
    })
}

/// Waits for one block after the other.
fn consume(bench: &Bench, redis: &Redis, blocks: u32, sent: &Sent) -> Result<Latency> {
    let mut connection = redis.connect()?;
    let mut latency = Latency::new();
    let last = UNTIMED + blocks;
    let mut block = UNTIMED;
    while block < last {
        let reply: StreamReadReply = redis::cmd("XREAD")
            .arg(("COUNT", 1, "BLOCK", NOTHING_CAME.as_millis() as u64, "STREAMS", &bench.keys.events))
            .arg(format!("{block}-{}", u64::MAX))
            .query(&mut connection)?;
        let now = Instant::now();
        let entry = reply.keys.first().and_then(|stream| stream.ids.first());
        let entry =
            entry.with_context(|| format!("nothing came behind block {block} for {NOTHING_CAME:?}"))?;
        let num = entry.id.split_once('-').and_then(|(num, _)| num.parse().ok());
        let num: u32 = num.context("ids by block are expected")?;
        ensure!(num == block + 1, "block {num} came behind block {block}");
        let sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
        let at = sent.get((num - UNTIMED - 1) as usize).copied();
        latency.record(now - at.context("a block came before it was sent")?);
        block = num;
    }
    Ok(latency)
}

/// A node that sends one block at a time.
struct Pacer {
    replay: Replay,
    every: Duration,
    last: u32,
    sent: Sent,
    /// Set when a consumer waits: the timed blocks may come.
    go: Arc<AtomicBool>,
}

impl Pacer {
    async fn play(self, listener: TcpListener) -> Result<()> {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut socket = tokio_tungstenite::accept_async(stream).await?;
        let protocol = self.replay.protocol.clone();
        socket.send(Message::text(protocol.abi.to_string())).await?;
        let mut player: Option<Player> = None;
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut num = 0;
        loop {
            tokio::select! {
                // Acknowledgements need no answer: the window is wider than what is under way.
                request = socket.next() => {
                    let Message::Binary(bytes) = request.context("the parser left")?? else { continue };
                    match Request::decode(&bytes, &protocol)? {
                        Request::Status => {
                            let status = self.replay.status().encode(&protocol);
                            socket.send(Message::Binary(status)).await?;
                        }
                        Request::Blocks(request) => player = Some(self.replay.player(request)),
                        Request::Ack(_) => {}
                    }
                }
                _ = ticks.tick(), if player.is_some() && num < self.last => {
                    if num >= UNTIMED && !self.go.load(Ordering::Relaxed) {
                        continue;
                    }
                    // Those before the timed ones all at once.
                    loop {
                        let Some(frame) = player.as_mut().and_then(|player| self.replay.next(player)) else { break };
                        num = frame.num.unwrap_or(num);
                        let bytes = Bytes::from([frame.begin, frame.rest].concat());
                        if num > UNTIMED {
                            self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
                        }
                        socket.send(Message::Binary(bytes)).await?;
                        if num >= UNTIMED {
                            break;
                        }
                    }
                }
            }
        }
    }
}
