//! Section 9: what grows with the size of blocks, with the length of ABI histories, and with the length of the stream.

use std::path::Path;

use anyhow::Result;
use parser::history::{Since, Version};

use crate::abi_lookup;
use crate::bare_writer::{self, Form, Push};
use crate::made;
use crate::node::Node;
use crate::program::{Program, Run, Settings};
use crate::redis::{Fsync, Redis};
use crate::report::{Better, Figure, Section, Table};
use crate::stats::{Spread, number, spread};
use crate::workload::{Bench, record};

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];

/// Actions before the measured ones, and in a lap of the node.
const WARM_UP: usize = 100_000;

/// So that as much is under way with blocks of any size.
const IN_FLIGHT: &str = "maxInFlightBytes: 67108864\n";

/// Blocks of one size.
struct Size {
    actions: usize,
    runs: Vec<Run>,
    pushes: Vec<Push>,
}

/// Measures.
pub fn section(bench: &mut Bench, section: &mut Section) -> Result<()> {
    let directory = tempfile::tempdir()?;
    blocks(bench, section, directory.path())?;
    histories(bench, section)?;
    streams(bench, section, directory.path())?;
    Ok(())
}

/// Blocks of transfers, each in a transaction of its own, and nothing else.
fn serve(bench: &Bench, directory: &Path, actions: usize) -> Result<Node> {
    let path = directory.join(format!("{actions}.shipcap.zst"));
    let last = (WARM_UP / actions) as u32 + 1;
    made::capture(bench, 2..=last, actions)?.save(&path)?;
    Node::serve(&bench.program, &path, &["--endless"])
}

fn blocks(bench: &Bench, section: &mut Section, directory: &Path) -> Result<()> {
    section.text(
        "**Blocks.** End to end as in section 4, over blocks of 10, 100, 1,000 and 10,000 transfers, each in a transaction of its own and without table rows; as many \
         actions in all for each size. The limit is the bare writer with the same commands.",
    );
    let measured = bench.pick(150_000, 300_000);
    let mut sizes = Vec::new();
    for actions in SIZES {
        eprintln!("  blocks of {actions} actions");
        let node = serve(bench, directory, actions)?;
        let (after, to) = (1 + WARM_UP / actions, 1 + (WARM_UP + measured) / actions);
        // A look at the checkpoint may come some transactions late.
        let beyond = 1 + (100_000 / actions).max(2);
        let settings = Settings { more: IN_FLIGHT, ..Settings::default() };
        let recording = record(&bench.program, node.url(), &bench.keys, &settings, (to + beyond) as u32)?;
        let mut size = Size { actions, runs: Vec::new(), pushes: Vec::new() };
        for _ in 0..bench.pick(1, 3) {
            let run = run(bench, &node, &Redis::start(Fsync::EverySecond)?, after as u32, to as u32)?;
            let pushed = bare_writer::push(
                &Redis::start(Fsync::EverySecond)?,
                &recording,
                Form::Transactions,
                run.after,
                run.to,
            )?;
            size.runs.push(run);
            size.pushes.push(pushed);
        }
        sizes.push(size);
    }
    let (fixed, each) = fit(&sizes);
    let mut table = Table::new(&[
        "actions a block",
        "blocks/s",
        "actions/s",
        "bare writer, actions/s",
        "ratio",
        "µs a block",
        "fitted",
        "µs an action beyond the fixed cost",
    ]);
    for size in &sizes {
        let n = size.actions as f64;
        let fitted = fixed + each * n;
        table.row(&[
            number(n),
            spread(&over(size, |run, _| run.blocks_per_second())),
            number(over(size, |run, _| run.events_per_second()).median),
            number(over(size, |_, push| push.events_per_second()).median),
            spread(&size.ratio()),
            number(size.per_block() * 1e6),
            number(fitted * 1e6),
            number((size.per_block() - fixed) / n * 1e6),
        ]);
        let key = format!("blocks-of-{}", size.actions);
        let words = format!("end to end, blocks of {} actions, against the bare writer", number(n));
        section.figures.push(Figure::ratio(&key, &words, size.ratio(), Better::Higher).of(
            format!("{}/s", number(over(size, |run, _| run.events_per_second()).median)),
            format!("{}/s", number(over(size, |_, push| push.events_per_second()).median)),
        ));
    }
    section.table(&table);
    // What one action more costs, from each size to the next.
    let slopes = sizes.windows(2).map(|pair| {
        (pair[1].per_block() - pair[0].per_block()) / (pair[1].actions - pair[0].actions) as f64 * 1e6
    });
    let slopes: Vec<f64> = slopes.collect();
    let spread_of = Spread::of(slopes.iter().copied());
    let uneven = (spread_of.high - spread_of.median).max(spread_of.median - spread_of.low) / spread_of.median;
    section.text(format!(
        "Fitted (least squares of the relative errors): {} µs a block and {} µs an action. One action more costs, from each size to the \
         next, {} µs.",
        number(fixed * 1e6),
        number(each * 1e6),
        slopes.iter().map(|slope| number(*slope)).collect::<Vec<_>>().join(", "),
    ));
    section.figures.push(
        Figure::ratio(
            "growth-flat",
            "cost of an action as blocks grow: furthest from the middle",
            Spread::of([uneven * 100.0]),
            Better::Lower,
        )
        .of(
            format!("{}–{} µs", number(spread_of.low), number(spread_of.high)),
            format!("{} µs", number(spread_of.median)),
        )
        .unit("%")
        .target(20.0),
    );
    Ok(())
}

fn histories(bench: &Bench, section: &mut Section) -> Result<()> {
    section.text("**ABI histories.** The look-up in Redis of section 2, with 1, 1,000 and 100,000 versions of one contract's ABI.");
    let mut table = Table::new(&["versions", "p50 µs", "p99 µs", "limit (GET) p50 µs", "ratio of p50"]);
    let mut ratios = Vec::new();
    for versions in [1, 1_000, 100_000] {
        eprintln!("  {versions} ABI versions");
        let look_ups = abi_lookup::look_up(bench, versions, bench.pick(2_000, 10_000))?;
        let ratio = look_ups.redis.percentile(50.0) / look_ups.get.percentile(50.0);
        ratios.push(ratio);
        table.row(&[
            number(versions.into()),
            number(look_ups.redis.percentile(50.0) * 1000.0),
            number(look_ups.redis.percentile(99.0) * 1000.0),
            number(look_ups.get.percentile(50.0) * 1000.0),
            number(ratio),
        ]);
    }
    section.table(&table);
    let [_, few, many] = ratios[..] else { return Ok(()) };
    // One version alone is half as many bytes.
    section.figures.push(
        Figure::ratio(
            "growth-histories",
            "ABI look-up among 100,000 versions, against 1,000",
            Spread::of([many / few]),
            Better::Lower,
        )
        .of(number(many), number(few))
        .target(1.2),
    );
    Ok(())
}

fn streams(bench: &Bench, section: &mut Section, directory: &Path) -> Result<()> {
    const ACTIONS: usize = 100;
    section.text(
        "**Length of the stream.** End to end over blocks of 100 actions, behind a checkpoint with 10,000, 100,000 and 1,000,000 entries already in the \
         stream. They take turns.",
    );
    let node = serve(bench, directory, ACTIONS)?;
    let (after, to) = (1 + WARM_UP / 2 / ACTIONS, 1 + bench.pick(200_000, 300_000) / ACTIONS);
    let lengths = [10_000, 100_000, 1_000_000];
    let mut runs = [const { Vec::new() }; 3];
    for _ in 0..bench.pick(1, 3) {
        for (length, runs) in lengths.iter().zip(&mut runs) {
            eprintln!("  {length} entries");
            let redis = Redis::start(Fsync::EverySecond)?;
            begin_behind(bench, &redis, *length)?;
            runs.push(run(bench, &node, &redis, after as u32, to as u32)?.events_per_second());
        }
    }
    let mut table = Table::new(&["entries", "events/s", "ratio to 10,000"]);
    let ratio =
        |runs: &Vec<f64>, first: &[f64]| Spread::of(runs.iter().zip(first).map(|(run, first)| run / first));
    for (length, measured) in lengths.iter().zip(&runs) {
        let rate = Spread::of(measured.iter().copied());
        table.row(&[number(*length as f64), spread(&rate), spread(&ratio(measured, &runs[0]))]);
    }
    section.table(&table);
    let [first, _, last] = &runs;
    section.figures.push(
        Figure::ratio(
            "growth-streams",
            "end to end into a stream of 1,000,000 entries, against 10,000",
            ratio(last, first),
            Better::Higher,
        )
        .of(
            format!("{}/s", number(Spread::of(last.iter().copied()).median)),
            format!("{}/s", number(Spread::of(first.iter().copied()).median)),
        )
        .target(0.9),
    );
    Ok(())
}

fn run(bench: &Bench, node: &Node, redis: &Redis, after: u32, to: u32) -> Result<Run> {
    let settings = Settings { more: IN_FLIGHT, ..Settings::default() };
    let mut parser = Program::start(&bench.program, node.url(), redis, redis.port(), &bench.keys, &settings)?;
    let begin = parser.reach(redis, after, |_| Ok(()))?;
    let end = parser.reach(redis, to, |_| Ok(()))?;
    Ok(Run::between(&begin, &end))
}

/// Puts what a parser leaves behind block 1 into Redis, with so many entries under that block.
fn begin_behind(bench: &Bench, redis: &Redis, entries: u64) -> Result<()> {
    let mut connection = redis.connect()?;
    let (keys, block) = (&bench.keys, made::position(1));
    for from in (1..=entries).step_by(10_000) {
        let mut pipe = redis::pipe();
        for second in from..(from + 10_000).min(entries + 1) {
            pipe.cmd("XADD").arg(&keys.events).arg(format!("1-{second}")).arg(("data", "{}")).ignore();
        }
        pipe.exec(&mut connection)?;
    }
    let abi = Version::new(Since { block: 1, sequence: Since::BEFORE }, &bench.abi(made::CONTRACT)?);
    redis::pipe()
        .atomic()
        .set(&keys.chain, bench.chain_id.to_string())
        .hset(&keys.sync, "block_num", block.num)
        .hset(&keys.sync, "block_id", block.id.to_string())
        .hset(&keys.sync, "last_irreversible", 1)
        .hset(&keys.sync, "first_block", 1)
        .hset(&keys.sync, "stream_id", format!("1-{entries}"))
        .zadd(&keys.blocks, block.id.to_string(), block.num)
        .zadd(keys.abi(made::CONTRACT), abi.member(), 1)
        .exec(&mut connection)?;
    Ok(())
}

// === impl Size ===

impl Size {
    fn ratio(&self) -> Spread {
        over(self, |run, push| run.events_per_second() / push.events_per_second())
    }

    /// Seconds a block takes.
    fn per_block(&self) -> f64 {
        1.0 / over(self, |run, _| run.blocks_per_second()).median
    }
}

fn over(size: &Size, value: impl Fn(&Run, &Push) -> f64) -> Spread {
    Spread::of(size.runs.iter().zip(&size.pushes).map(|(run, push)| value(run, push)))
}

/// Seconds a block, and seconds an action.
fn fit(sizes: &[Size]) -> (f64, f64) {
    line(sizes.iter().map(|size| (size.actions as f64, size.per_block())))
}

/// The line `a + b x` with the least squares of the errors in proportion to `y`.
fn line(points: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, y) in points {
        let weight = 1.0 / (y * y);
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let b = (w * wxy - wx * wy) / (w * wxx - wx * wx);
    ((wy - b * wx) / w, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_whatever_its_points_sizes() {
        let (a, b) = line([10.0, 100.0, 1_000.0, 10_000.0].into_iter().map(|x| (x, 0.0002 + 0.000_007 * x)));
        assert!((a - 0.0002).abs() < 1e-9 && (b - 0.000_007).abs() < 1e-12, "{a} {b}");
    }
}
