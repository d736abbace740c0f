//! Section 9: what grows with the size of blocks, with the length of ABI histories, and with the length of the stream.

mod blocks;
mod streams;

use std::path::Path;

use anyhow::Result;

use crate::abi_lookup;
use crate::bare_writer::Push;
use crate::made;
use crate::node::Node;
use crate::program::{Program, Run, Settings};
use crate::redis::Redis;
use crate::report::{Better, Figure, Section, Table};
use crate::stats::{Spread, number};
use crate::workload::Bench;

/// Actions before the measured ones.
const WARM_UP: usize = 50_000;

/// Actions behind the measured ones that are recorded: a look at the checkpoint may come late.
const BEYOND: usize = 100_000;

/// Actions in a lap of the node.
const LAP: usize = 100_000;

/// Measures.
pub fn section(bench: &mut Bench, section: &mut Section) -> Result<()> {
    section.text(
        "Redis writes its append-only file here as ever, but leaves it to the kernel when that goes to the disk (`appendfsync no`), other than in \
         section 4: what is written out once a second under `everysec` takes a good part of the two cores for as long as this disk needs, and falls once into \
         one repetition and twice into the next, which would be taken for growth.",
    );
    let directory = tempfile::tempdir()?;
    blocks::measure(bench, section, directory.path())?;
    histories(bench, section)?;
    streams::measure(bench, section, directory.path())?;
    Ok(())
}

/// The parser and the bare writer over the same blocks, taking turns.
#[derive(Default)]
struct Turns {
    runs: Vec<Run>,
    pushes: Vec<Push>,
}

/// As much under way with blocks of any size.
fn settings() -> Settings {
    Settings { more: "maxInFlightBytes: 67108864\n", ..Settings::default() }
}

/// A node with blocks of transfers, each in a transaction of its own, and nothing else.
fn serve(bench: &Bench, directory: &Path, actions: usize) -> Result<Node> {
    let path = directory.join(format!("{actions}.shipcap.zst"));
    let last = (LAP / actions) as u32 + 1;
    made::capture(bench, 2..=last, actions)?.save(&path)?;
    Node::serve(&bench.program, &path, &["--endless"])
}

/// The block that so many actions are done with.
fn block_with(done: usize, actions: usize) -> u32 {
    1 + (done / actions) as u32
}

fn run(bench: &Bench, node: &Node, redis: &Redis, after: u32, to: u32) -> Result<Run> {
    let mut parser =
        Program::start(&bench.program, node.url(), redis, redis.port(), &bench.keys, &settings())?;
    let begin = parser.reach(redis, after, |_| Ok(()))?;
    let end = parser.reach(redis, to, |_| Ok(()))?;
    Ok(Run::between(&begin, &end))
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

// === impl Turns ===

impl Turns {
    /// Of each turn.
    fn over(&self, value: impl Fn(&Run, &Push) -> f64) -> Spread {
        Spread::of(self.runs.iter().zip(&self.pushes).map(|(run, push)| value(run, push)))
    }

    /// The parser's events a second.
    fn parser(&self) -> Spread {
        self.over(|run, _| run.events_per_second())
    }

    /// The bare writer's.
    fn bare(&self) -> Spread {
        self.over(|_, push| push.events_per_second())
    }

    fn ratio(&self) -> Spread {
        self.over(|run, push| run.events_per_second() / push.events_per_second())
    }

    /// The ratio as a figure.
    fn figure(&self, key: &str, what: &str) -> Figure {
        let a_second = |rate: Spread| format!("{}/s", number(rate.median));
        Figure::ratio(key, what, self.ratio(), Better::Higher)
            .of(a_second(self.parser()), a_second(self.bare()))
    }
}
