//! Section 5: memory of the parser in its states, and of Redis for an event.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::node::Node;
use crate::process::{self, Memory};
use crate::program::{Program, Settings};
use crate::redis::{Fsync, Redis};
use crate::report::{Better, Figure, Section, Table};
use crate::stats::{Spread, number};
use crate::workload::Bench;

/// `maxInFlightBytes`, unless a configuration says otherwise.
const IN_FLIGHT_MB: f64 = 268.435_456;

/// A configuration that leaves little to its in-flight bytes, and how many megabytes they are.
const LITTLE: (&str, f64) = ("maxInFlightBytes: 33554432\n", 33.554_432);

/// What a run of many blocks took.
struct LongRun {
    blocks: u32,
    /// The most while it was catching up.
    catching_up: Memory,
    /// When it was through and waited.
    afterwards: Memory,
    /// Bytes that Redis took, and entries in the stream.
    redis_bytes: u64,
    entries: u64,
}

/// Measures.
pub fn section(bench: &mut Bench, section: &mut Section) -> Result<()> {
    section.text(
        "Resident memory of `parser run` in the default configuration (VmRSS and VmHWM of /proc). *Idle*: it has published one block and \
         waits for the node's next one. *At the head*: a block every half second. *Catching up*: everything at full speed, as many blocks as a chain makes in an hour \
         (in the short version the recording once); the most that was seen.",
    );
    let idle = idle(bench)?;
    let head = at_the_head(bench)?;
    let all = catch_up(bench, "")?;
    let small = catch_up(bench, LITTLE.0)?;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let mut table = Table::new(&["", "resident MB", "most MB"]);
    let mut row = |what: &str, memory: &Memory| {
        table.row(&[what.to_owned(), number(mb(memory.rss)), number(mb(memory.peak))]);
    };
    row("idle", &idle);
    row("at the head", &head);
    let blocks = number(f64::from(all.blocks));
    row(&format!("catching up, {blocks} blocks"), &all.catching_up);
    row(&format!("after these {blocks} blocks, waiting again"), &all.afterwards);
    row("catching up, `maxInFlightBytes` 32 MiB", &small.catching_up);
    row("after these, waiting again", &small.afterwards);
    section.table(&table);
    let events = all.entries as f64;
    let json = bench.recording("block")?.json_per_event();
    section.text(format!(
        "Redis: {} bytes an event ({} entries), for {} bytes of JSON: {} times.",
        number(all.redis_bytes as f64 / events),
        number(events),
        number(json),
        number(all.redis_bytes as f64 / events / json),
    ));
    for (key, configuration, run, in_flight) in [
        ("memory-catching-up", "default configuration", &all, IN_FLIGHT_MB),
        ("memory-catching-up-32", "32 MiB in flight", &small, LITTLE.1),
    ] {
        let (most, known) = (mb(run.catching_up.peak), mb(idle.rss) + in_flight);
        let what =
            format!("memory, catching up, beyond idle and the configured in-flight bytes: {configuration}");
        section.figures.push(
            Figure::ratio(key, &what, Spread::of([most - known]), Better::Lower)
                .of(format!("{} MB", number(most)), format!("{} MB", number(known)))
                .unit("MB")
                .target(60.0),
        );
    }
    section.figures.push(
        Figure::ratio("memory-idle", "memory, idle", Spread::of([mb(idle.rss)]), Better::Lower)
            .of(format!("{} MB", number(mb(idle.rss))), "–".to_owned())
            .unit("MB")
            .target(15.0),
    );
    section.facts.extend([("idle_mb", mb(idle.rss)), ("catching_up_mb", mb(all.catching_up.peak))]);
    Ok(())
}

/// With the newest block published and no other to come.
fn idle(bench: &Bench) -> Result<Memory> {
    eprintln!("  idle");
    let node = Node::serve(&bench.program, &bench.path, &[])?;
    let redis = Redis::start(Fsync::EverySecond)?;
    seed_abis(bench, &redis)?;
    let settings = Settings { start: bench.last_block(), ..Settings::default() };
    let mut parser =
        Program::start(&bench.program, node.url(), &redis, redis.port(), &bench.keys, &settings)?;
    parser.reach(&redis, bench.last_block(), |_| Ok(()))?;
    thread::sleep(Duration::from_secs(2));
    process::memory(parser.pid())
}

/// With a block every half second.
fn at_the_head(bench: &Bench) -> Result<Memory> {
    eprintln!("  at the head");
    const START: u32 = 1000;
    let node = Node::serve(&bench.program, &bench.path, &["--delay-ms", "500"])?;
    let redis = Redis::start(Fsync::EverySecond)?;
    seed_abis(bench, &redis)?;
    let settings = Settings { start: START, ..Settings::default() };
    let mut parser =
        Program::start(&bench.program, node.url(), &redis, redis.port(), &bench.keys, &settings)?;
    let until = Instant::now() + Duration::from_secs(bench.pick(5, 20));
    parser.reach(&redis, START, |_| Ok(()))?;
    thread::sleep(until.saturating_duration_since(Instant::now()));
    process::memory(parser.pid())
}

/// At full speed, as many blocks as an hour of a chain has.
fn catch_up(bench: &Bench, more: &'static str) -> Result<LongRun> {
    let blocks = bench.pick(bench.last_block(), 7200);
    eprintln!("  catching up, {blocks} blocks");
    let stall = blocks.to_string();
    let node = Node::serve(&bench.program, &bench.path, &["--endless", "--stall-after", &stall])?;
    let redis = Redis::start(Fsync::EverySecond)?;
    let before = redis.used_memory()?;
    let settings = Settings { more, ..Settings::default() };
    let mut parser =
        Program::start(&bench.program, node.url(), &redis, redis.port(), &bench.keys, &settings)?;
    let pid = parser.pid();
    let mut catching_up = Memory::default();
    let end = parser.reach(&redis, blocks, |_| {
        let now = process::memory(pid)?;
        let rss = catching_up.rss.max(now.rss);
        catching_up = Memory { rss, peak: now.peak.max(rss) };
        Ok(())
    })?;
    thread::sleep(Duration::from_secs(2));
    Ok(LongRun {
        blocks,
        catching_up,
        afterwards: process::memory(pid)?,
        redis_bytes: redis.used_memory()? - before,
        entries: end.entries,
    })
}

/// Puts the ABIs that the capture ends with into the history, as from the chain API: for runs that begin in its middle.
fn seed_abis(bench: &Bench, redis: &Redis) -> Result<()> {
    let mut connection = redis.connect()?;
    for (contract, abi) in bench.abis()? {
        let key = bench.keys.abi(contract.parse().context("a contract's name")?);
        let member = format!("0:{:020}:rpc:{abi}", 0);
        redis::cmd("ZADD").arg(key).arg(0).arg(member).exec(&mut connection)?;
    }
    Ok(())
}
