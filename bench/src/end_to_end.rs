//! Section 4: node, parser and Redis at work together, beside the bare writer.

use std::time::Duration;

use anyhow::Result;

use crate::bare_writer::{self, Form, Push};
use crate::process;
use crate::program::{Run, Settings};
use crate::receive;
use crate::recording::Mark;
use crate::redis::{Fsync, Redis};
use crate::report::{Better, Figure, Section, Table};
use crate::stats::{Spread, number, spread};
use crate::workload::Bench;

/// What is measured begins behind this block: before it threads, buffers and the stream's first nodes come into being.
const WARM_UP: u32 = 200;

/// One way of running it.
#[derive(Debug, Clone, Copy)]
struct Variant {
    threads: usize,
    fsync: Fsync,
    ids: &'static str,
    repetitions: usize,
}

/// One repetition: the parser, then the bare writer.
struct Pair {
    run: Run,
    /// The bare writer, in transactions.
    push: Push,
    /// The same without: once for a variant that targets are set for, as Redis can be very slow at it.
    plain: Option<Push>,
    /// CPU time of the node in the run.
    node: Duration,
}

/// Measures.
pub fn section(bench: &mut Bench, section: &mut Section) -> Result<()> {
    section.text(
        "From the node's socket to Redis' confirmation: `capture serve` as the node, `parser run` and redis-server, three processes on \
         the same cores; default configuration, all kinds of events but `block`. Measured between two moments at which all three \
         are at full work, from block 200 on to the capture's end (about 2,000 blocks). The limit is the **bare writer**: the commands \
         the parser wrote for the same blocks (XADDs, ABI versions, checkpoints, in the same transactions; recorded before on their way to Redis) pushed from memory through one \
         connection by a thread that does nothing else and waits for nothing, while a second thread reads the replies. It shares the \
         cores with Redis alone. The last column is the same without MULTI and EXEC, once: slower, as Redis then writes its file (and under `always` waits for the disk) \
         after every 16 KiB that it read. Parser and writer take turns, each time with an empty Redis. The append-only file is never rewritten.",
    );
    let mut rates = Table::new(&[
        "threads, AOF, ids",
        "blocks/s",
        "action traces/s",
        "events/s",
        "MB/s in",
        "MB/s out",
        "bare writer, events/s",
        "ratio",
        "without transactions, events/s",
    ]);
    let mut costs = Table::new(&[
        "threads, AOF, ids",
        "parser",
        "redis-server",
        "ratio",
        "node",
        "redis-server, bare writer",
    ]);
    for variant in variants(bench) {
        let pairs =
            (0..variant.repetitions).map(|turn| pair(bench, variant, turn)).collect::<Result<Vec<_>>>()?;
        rates.row(&rates_of(bench, variant, &pairs)?);
        costs.row(&costs_of(variant, &pairs));
        figures_of(variant, &pairs, section);
        if section.facts.is_empty() {
            facts_of(bench, variant, &pairs, section)?;
        }
    }
    section.table(&rates);
    section.text("CPU seconds for 1,000 blocks:");
    section.table(&costs);
    receive::add(bench, section)?;
    Ok(())
}

fn variants(bench: &Bench) -> Vec<Variant> {
    let all = bench.pick(2, 5);
    let few = bench.pick(1, 3);
    let (every, always) = (Fsync::EverySecond, Fsync::Always);
    let variant = |threads, fsync, ids, repetitions| Variant { threads, fsync, ids, repetitions };
    let mut variants = vec![variant(2, every, "block", all), variant(2, always, "block", all)];
    variants.push(variant(2, every, "auto", few));
    if !bench.quick {
        variants.extend([
            variant(1, every, "block", few),
            variant(4, every, "block", few),
            variant(1, always, "block", few),
            variant(4, always, "block", few),
            variant(2, always, "auto", few),
        ]);
    }
    variants
}

fn pair(bench: &mut Bench, variant: Variant, turn: usize) -> Result<Pair> {
    eprintln!("  {} threads, {}, {} ids", variant.threads, variant.fsync.as_str(), variant.ids);
    let recording = bench.recording(variant.ids)?;
    let node = bench.node()?;
    let (run, node) = {
        let redis = Redis::start(variant.fsync)?;
        let settings = Settings { threads: variant.threads, ids: variant.ids, ..Settings::default() };
        let mut parser = bench.run(&redis, &settings)?;
        let begin = parser.reach(&redis, WARM_UP, |_| Ok(()))?;
        let before = process::cpu(node.pid())?;
        let end = parser.reach(&redis, bench.last_block(), |_| Ok(()))?;
        (Run::between(&begin, &end), process::cpu(node.pid())? - before)
    };
    let push = |form| bare_writer::push(&Redis::start(variant.fsync)?, &recording, form, run.after, run.to);
    let limit = push(Form::Transactions)?;
    let plain = (turn == 0 && variant.standard()).then(|| push(Form::Plain)).transpose()?;
    Ok(Pair { run, push: limit, plain, node })
}

// === impl Variant ===

impl Variant {
    fn name(&self) -> String {
        format!("{}, {}, {}", self.threads, self.fsync.as_str(), self.ids)
    }

    /// Whether targets are set for it: those are for the default configuration on two cores.
    fn standard(&self) -> bool {
        self.threads == 2 && self.ids == "block"
    }

    /// As figures are called.
    fn key(&self) -> String {
        format!("{}-threads-{}-{}", self.threads, self.fsync.as_str(), self.ids)
    }
}

// === impl Pair ===

impl Pair {
    fn ratio(&self) -> f64 {
        self.run.events_per_second() / self.push.events_per_second()
    }

    fn cpu_ratio(&self) -> f64 {
        self.run.parser.as_secs_f64() / self.run.redis.as_secs_f64()
    }
}

/// The middle of something over all repetitions.
fn over(pairs: &[Pair], value: impl Fn(&Pair) -> f64) -> Spread {
    Spread::of(pairs.iter().map(value))
}

fn traces(bench: &Bench, run: &Run) -> f64 {
    (bench.up_to(run.to).traces - bench.up_to(run.after).traces) as f64
}

fn bytes_in(bench: &Bench, run: &Run) -> f64 {
    (bench.up_to(run.to).bytes - bench.up_to(run.after).bytes) as f64
}

fn rates_of(bench: &mut Bench, variant: Variant, pairs: &[Pair]) -> Result<Vec<String>> {
    let recording = bench.recording(variant.ids)?;
    let out = |run: &Run| (recording.up_to(run.to).bytes - recording.up_to(run.after).bytes) as f64;
    let a_second = |amount: &dyn Fn(&Run) -> f64| {
        let rate = over(pairs, |pair| amount(&pair.run) / pair.run.time.as_secs_f64());
        number(rate.median)
    };
    let plain = pairs.iter().find_map(|pair| pair.plain);
    Ok(vec![
        variant.name(),
        spread(&over(pairs, |pair| pair.run.blocks_per_second())),
        a_second(&|run| traces(bench, run)),
        spread(&over(pairs, |pair| pair.run.events_per_second())),
        a_second(&|run| bytes_in(bench, run) / 1e6),
        a_second(&|run| out(run) / 1e6),
        spread(&over(pairs, |pair| pair.push.events_per_second())),
        spread(&over(pairs, Pair::ratio)),
        plain.map_or("–".to_owned(), |plain| number(plain.events_per_second())),
    ])
}

fn costs_of(variant: Variant, pairs: &[Pair]) -> Vec<String> {
    let cost = |cpu: &dyn Fn(&Pair) -> f64| {
        number(over(pairs, |pair| cpu(pair) * 1000.0 / pair.run.blocks()).median)
    };
    vec![
        variant.name(),
        cost(&|pair| pair.run.parser.as_secs_f64()),
        cost(&|pair| pair.run.redis.as_secs_f64()),
        spread(&over(pairs, Pair::cpu_ratio)),
        cost(&|pair| pair.node.as_secs_f64()),
        cost(&|pair| pair.push.redis.as_secs_f64()),
    ]
}

fn figures_of(variant: Variant, pairs: &[Pair], section: &mut Section) {
    let what = if variant.fsync == Fsync::Always {
        "end to end with AOF `always`, against the bare writer under `always`"
    } else {
        "end to end, events/s, against the bare writer"
    };
    let standard = variant.standard();
    let mut rate = Figure::ratio(&variant.key(), what, over(pairs, Pair::ratio), Better::Higher).of(
        format!("{}/s", number(over(pairs, |pair| pair.run.events_per_second()).median)),
        format!("{}/s", number(over(pairs, |pair| pair.push.events_per_second()).median)),
    );
    if standard {
        rate = rate.target(0.80);
    }
    section.figures.push(rate);
    if standard && variant.fsync == Fsync::EverySecond {
        let cost = |cpu: fn(&Pair) -> f64| over(pairs, |pair| cpu(pair) * 1000.0 / pair.run.blocks()).median;
        let what = "parser CPU seconds for 1,000 blocks, against redis-server's own";
        section.figures.push(
            Figure::ratio("parser-cpu", what, over(pairs, Pair::cpu_ratio), Better::Lower)
                .of(
                    format!("{} s", number(cost(|pair| pair.run.parser.as_secs_f64()))),
                    format!("{} s", number(cost(|pair| pair.run.redis.as_secs_f64()))),
                )
                .target(0.6),
        );
    }
}

/// What the report's head needs, of the standard variant.
fn facts_of(bench: &mut Bench, variant: Variant, pairs: &[Pair], section: &mut Section) -> Result<()> {
    let recording = bench.recording(variant.ids)?;
    let between =
        |run: &Run, of: fn(&Mark) -> f64| of(&recording.up_to(run.to)) - of(&recording.up_to(run.after));
    let rate = |amount: &dyn Fn(&Run) -> f64| {
        over(pairs, |pair| amount(&pair.run) / pair.run.time.as_secs_f64()).median
    };
    let a_block =
        |amount: &dyn Fn(&Run) -> f64| over(pairs, |pair| amount(&pair.run) / pair.run.blocks()).median;
    let events = |run: &Run| run.events as f64;
    section.facts.extend([
        ("blocks_per_second", rate(&Run::blocks)),
        ("events_per_second", rate(&events)),
        ("traces_per_second", rate(&|run| traces(bench, run))),
        ("actions_per_second", rate(&|run| between(run, |mark| mark.actions as f64))),
        ("mb_out_per_second", rate(&|run| between(run, |mark| mark.bytes as f64) / 1e6)),
        ("decodes_needed_per_second", rate(&|run| between(run, |mark| (mark.actions + mark.rows) as f64))),
        ("events_per_block", a_block(&events)),
        ("traces_per_block", a_block(&|run| traces(bench, run))),
        (
            "bytes_per_event",
            over(pairs, |pair| between(&pair.run, |mark| mark.bytes as f64) / events(&pair.run)).median,
        ),
        ("bare_events_per_second", over(pairs, |pair| pair.push.events_per_second()).median),
    ]);
    Ok(())
}
