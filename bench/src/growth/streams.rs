//! Publishing into a stream that is long already.

use std::path::Path;

use anyhow::Result;
use parser::history::{Since, Version};

use super::{BEYOND, Turns, WARM_UP, block_with, run, serve, settings};
use crate::bare_writer::{self, Form};
use crate::made;
use crate::redis::{Fsync, Redis};
use crate::report::{Better, Figure, Section, Table};
use crate::stats::{Spread, number, spread};
use crate::workload::{Bench, record};

const LENGTHS: [u64; 3] = [10_000, 100_000, 1_000_000];

/// Adds entries under block 1.
const FILL: &str = "for i = ARGV[1], ARGV[2] do redis.call('XADD', KEYS[1], '1-' .. i, 'data', '{}') end";

/// In a block.
const ACTIONS: usize = 100;

pub(super) fn measure(bench: &Bench, section: &mut Section, directory: &Path) -> Result<()> {
    section.text(
        "**Length of the stream.** End to end over blocks of 100 actions, behind a checkpoint with 10,000, 100,000 and 1,000,000 entries already in the \
         stream. The limit is the bare writer with the same commands behind as many. Lengths and sides take turns.",
    );
    let node = serve(bench, directory, ACTIONS)?;
    let all = WARM_UP + bench.pick(150_000, 200_000);
    let (after, to) = (block_with(WARM_UP, ACTIONS), block_with(all, ACTIONS));
    let short = begin_behind(bench, LENGTHS[0])?;
    let beyond = block_with(all + BEYOND, ACTIONS);
    let recording = record(&short, &bench.program, node.url(), &bench.keys, &settings(), beyond)?;
    drop(short);
    let mut lengths = LENGTHS.map(|entries| (entries, Turns::default()));
    for turn in 1..=bench.pick(2, 4) {
        eprintln!("  long streams, turn {turn}");
        // There and back, so that no length comes behind the same one each time.
        lengths.reverse();
        for (entries, turns) in &mut lengths {
            let run = run(bench, &node, &begin_behind(bench, *entries)?, after, to)?;
            let redis = begin_behind(bench, *entries)?;
            let push = bare_writer::push(&redis, &recording, Form::Transactions, run.after, run.to)?;
            turns.runs.push(run);
            turns.pushes.push(push);
        }
    }
    lengths.sort_by_key(|(entries, _)| *entries);
    report(&lengths, section);
    Ok(())
}

fn report(lengths: &[(u64, Turns); 3], section: &mut Section) {
    let mut table = Table::new(&[
        "entries",
        "events/s",
        "ratio to 10,000",
        "bare writer, events/s",
        "ratio to 10,000",
        "parser to bare writer",
    ]);
    let [(_, first), .., (_, last)] = lengths;
    let parser = |turns: &Turns| to_first(turns, first, |turns, i| turns.runs[i].events_per_second());
    let bare = |turns: &Turns| to_first(turns, first, |turns, i| turns.pushes[i].events_per_second());
    for (entries, turns) in lengths {
        let n = number(*entries as f64);
        table.row(&[
            n.clone(),
            spread(&turns.parser()),
            spread(&parser(turns)),
            spread(&turns.bare()),
            spread(&bare(turns)),
            spread(&turns.ratio()),
        ]);
        let words = format!("end to end into a stream of {n} entries, against the bare writer");
        section.figures.push(turns.figure(&format!("stream-of-{entries}"), &words));
    }
    section.table(&table);
    section.figures.push(
        Figure::ratio(
            "growth-streams",
            "end to end into a stream of 1,000,000 entries, against 10,000",
            parser(last),
            Better::Higher,
        )
        .of(format!("{}/s", number(last.parser().median)), format!("{}/s", number(first.parser().median)))
        .target(0.9),
    );
}

/// A rate with one length, against the same with the first one in the same turn.
fn to_first(turns: &Turns, first: &Turns, rate: impl Fn(&Turns, usize) -> f64) -> Spread {
    Spread::of((0..turns.runs.len()).map(|turn| rate(turns, turn) / rate(first, turn)))
}

/// A Redis with what a parser leaves behind block 1, and with so many entries under that block.
fn begin_behind(bench: &Bench, entries: u64) -> Result<Redis> {
    let redis = Redis::start(Fsync::Never)?;
    let mut connection = redis.connect()?;
    let (keys, block) = (&bench.keys, made::position(1));
    for from in (1..=entries).step_by(10_000) {
        let to = entries.min(from + 9_999);
        redis::cmd("EVAL").arg(FILL).arg((1, &keys.events, from, to)).exec(&mut connection)?;
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
    Ok(redis)
}
