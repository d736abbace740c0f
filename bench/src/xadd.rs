//! Section 1: XADD alone, one at a time and pipelined.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use parser::out::Out;
use parser::resp;

use crate::bare_writer::{self, Form};
use crate::process::PATIENCE;
use crate::recording::Recording;
use crate::redis::{Fsync, Redis};
use crate::report::{Better, Figure, Section, Table};
use crate::stats::{Latency, Spread, number, spread};
use crate::workload::Bench;

/// XADDs sent before their replies are read.
const BATCH: usize = 100;

/// Blocks whose events are written.
const BLOCKS: std::ops::RangeInclusive<u32> = 201..=600;

/// Measures.
pub fn section(bench: &mut Bench, section: &mut Section) -> Result<()> {
    let recording = bench.recording("auto")?;
    let events: Vec<&[u8]> =
        recording.events().skip(recording.up_to(200).events as usize).take(20_000).collect();
    let bytes: usize = events.iter().map(|event| event.len()).sum();
    section.text(format!(
        "The parser's own events of the recording ({} bytes on average), one field, ids by Redis; one connection. One at a time: each \
         waits for its reply; the limit is a PING over the same connection, in turns with the XADDs. Pipelined: {BATCH} are sent, then \
         their replies are read; and without ever waiting (the bare writer of section 4, ids by block), for which the limit is a loop-back socket \
         that takes the same bytes and drops them.",
        number(bytes as f64 / events.len() as f64)
    ));
    let mut table =
        Table::new(&["AOF", "what", "p50 ms", "p99 ms", "p99.9 ms", "a second", "limit a second"]);
    for fsync in [Fsync::EverySecond, Fsync::Always] {
        eprintln!("  {}", fsync.as_str());
        let redis = Redis::start(fsync)?;
        let mut connection = Client::connect(redis.port())?;
        let (single, ping) = connection.one_at_a_time(&events, Duration::from_secs(bench.pick(2, 5)))?;
        row(&mut table, fsync, "PING, one at a time", &ping, 1.0, String::new());
        row(&mut table, fsync, "XADD, one at a time", &single, 1.0, number(rate(&ping, 1.0)));
        let batches = connection.in_batches(&events, Duration::from_secs(bench.pick(1, 3)))?;
        row(&mut table, fsync, "XADD, 100 at a time (times of 100)", &batches, BATCH as f64, String::new());
        let pushes = pushes(bench, fsync)?;
        let (pushed, dropped) =
            (Spread::of(pushes.iter().map(|p| p.0)), Spread::of(pushes.iter().map(|p| p.1)));
        let dash = || "–".to_owned();
        table.row(&[
            fsync.as_str().to_owned(),
            "all commands, never waiting".to_owned(),
            dash(),
            dash(),
            dash(),
            spread(&pushed),
            spread(&dropped),
        ]);
        if fsync == Fsync::EverySecond {
            section.facts.extend([
                ("xadd_p50", single.percentile(50.0)),
                ("xadd_p99", single.percentile(99.0)),
                ("xadd_per_second", rate(&single, 1.0)),
            ]);
            let value = Spread::of([single.percentile(50.0) / ping.percentile(50.0)]);
            section.figures.push(
                Figure::ratio("xadd-ping", "XADD alone against PING, p50", value, Better::Lower).of(
                    format!("{} ms", number(single.percentile(50.0))),
                    format!("{} ms", number(ping.percentile(50.0))),
                ),
            );
        }
    }
    section.table(&table);
    Ok(())
}

fn row(table: &mut Table, fsync: Fsync, what: &str, latency: &Latency, each: f64, limit: String) {
    table.row(&[
        fsync.as_str().to_owned(),
        what.to_owned(),
        number(latency.percentile(50.0)),
        number(latency.percentile(99.0)),
        number(latency.percentile(99.9)),
        number(rate(latency, each)),
        if limit.is_empty() { "–".to_owned() } else { limit },
    ]);
}

/// How many a second, where each time is that of `each`.
fn rate(latency: &Latency, each: f64) -> f64 {
    each * 1000.0 / latency.mean()
}

/// Events a second into Redis, and into a socket that drops them.
fn pushes(bench: &mut Bench, fsync: Fsync) -> Result<Vec<(f64, f64)>> {
    let recording = bench.recording("block")?;
    let (after, to) = (BLOCKS.start() - 1, *BLOCKS.end());
    (0..bench.pick(1, 3))
        .map(|_| {
            let pushed = bare_writer::push(&Redis::start(fsync)?, &recording, Form::Transactions, after, to)?
                .events_per_second();
            Ok((pushed, drop_all(&recording, after, to)?))
        })
        .collect()
}

/// Events a second through a loop-back socket whose other end reads and drops them.
fn drop_all(recording: &Recording, after: u32, to: u32) -> Result<f64> {
    let end = |num| Ok::<_, anyhow::Error>(recording.transactions[recording.whole_with(num)?]);
    let (from, end) = (end(after)?, end(to)?);
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let began = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || -> Result<()> {
            let mut stream = TcpStream::connect(address)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream.write_all(&recording.bytes[from.end..end.end])?)
        });
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut buffer = vec![0; 64 << 10];
        while stream.read(&mut buffer)? > 0 {}
        Ok((end.events - from.events) as f64 / began.elapsed().as_secs_f64())
    })
}

/// A plain connection to Redis.
struct Client {
    stream: TcpStream,
    command: Out,
    replies: Vec<u8>,
}

impl Client {
    fn connect(port: u16) -> Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { stream, command: Out::default(), replies: vec![0; 64 << 10] })
    }

    fn one_at_a_time(&mut self, events: &[&[u8]], most: Duration) -> Result<(Latency, Latency)> {
        let (mut xadd, mut ping) = (Latency::new(), Latency::new());
        let began = Instant::now();
        for event in events.iter().cycle() {
            self.command.clear();
            resp::command(&mut self.command, &[b"PING"]);
            ping.record(self.ask(1)?);
            self.command.clear();
            add(&mut self.command, event);
            xadd.record(self.ask(2)?);
            if began.elapsed() > most {
                break;
            }
        }
        Ok((xadd, ping))
    }

    fn in_batches(&mut self, events: &[&[u8]], most: Duration) -> Result<Latency> {
        let mut latency = Latency::new();
        let began = Instant::now();
        for batch in events.chunks_exact(BATCH).cycle() {
            self.command.clear();
            for event in batch {
                add(&mut self.command, event);
            }
            latency.record(self.ask(2 * BATCH)?);
            if began.elapsed() > most {
                break;
            }
        }
        Ok(latency)
    }

    /// Sends the commands and reads that many lines of replies; says how long it took.
    fn ask(&mut self, lines: usize) -> Result<Duration> {
        let began = Instant::now();
        self.stream.write_all(&self.command)?;
        let mut seen = 0;
        while seen < lines {
            let count =
                self.stream.read(&mut self.replies).context("redis-server does not answer an XADD")?;
            let replies = &self.replies[..count];
            ensure!(count > 0 && replies[0] != b'-', "Redis refuses: {}", String::from_utf8_lossy(replies));
            seen += replies.iter().filter(|byte| **byte == b'\n').count();
        }
        Ok(began.elapsed())
    }
}

fn add(command: &mut Out, event: &[u8]) {
    resp::command(command, &[b"XADD", b"stream", b"*", b"data", event]);
}
