//! Section 6: what it costs when data cannot be decoded.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use parser::chain::Chain;
use parser::event::{Reason, Sink, Style};
use parser::history::{Fallback, History, Says};
use parser::name::Name;
use parser::out::Out;
use parser::pipeline::{Intake, Ready};
use parser::plan::Selection;
use parser::ship::message::BlockResult;

use crate::node::Node;
use crate::program::{Program, Run, Settings};
use crate::redis::{Fsync, Redis};
use crate::report::{Better, Figure, Section, Table};
use crate::stats::{Spread, number, spread};
use crate::workload::Bench;

/// How far a run goes: not to the capture's end, as it is looked at a little late.
const BEFORE_THE_END: u32 = 100;

/// Dead letters that there must be up to each block, by number.
type Expected = BTreeMap<u32, u64>;

/// A capture with some actions that cannot be decoded.
struct Damaged {
    node: Node,
    expected: Expected,
}

/// Measures.
pub fn section(bench: &mut Bench, section: &mut Section) -> Result<()> {
    section.text(
        "End to end as in section 4 (2 threads, AOF `everysec`, ids by block), over the capture with every thousandth and with every twentieth \
         action's data overwritten so that its ABI cannot read it: each such event is published with its bytes and the reason, and once more in the \
         dead-letter stream, with a counter. The limit is the capture as it is (one event a block, the chain's own `onblock`, is in no ABI there); they take turns. \
         That each action which cannot be decoded has its dead letter, and nothing else has one, is checked on the way.",
    );
    let directory = tempfile::tempdir()?;
    let mut table = Table::new(&[
        "undecodable",
        "blocks/s",
        "as it is (limit), blocks/s",
        "ratio",
        "dead letters",
        "CPU seconds for 1,000 blocks: parser",
        "as it is",
        "redis-server",
        "as it is",
    ]);
    let as_it_is = undamaged(bench)?;
    for (what, key, every) in [("0.1 %", "dead-letters-0.1", 1000), ("5 %", "dead-letters-5", 20)] {
        eprintln!("  {what}");
        let path = directory.path().join(format!("{every}.shipcap.zst"));
        let damaged = damage(bench, &as_it_is, every, &path)?;
        let (mut whole, mut with, mut letters) = (Vec::new(), Vec::new(), 0);
        for _ in 0..bench.pick(1, 3) {
            let node = bench.node()?;
            whole.push(run(bench, &node, &as_it_is)?.0);
            let (run, dead) = run(bench, &damaged.node, &damaged.expected)?;
            with.push(run);
            letters = dead;
        }
        let rate = |runs: &[Run]| Spread::of(runs.iter().map(Run::blocks_per_second));
        let ratio =
            with.iter().zip(&whole).map(|(with, whole)| with.blocks_per_second() / whole.blocks_per_second());
        let ratio = Spread::of(ratio);
        let cost = |runs: &[Run], cpu: fn(&Run) -> Duration| {
            number(Spread::of(runs.iter().map(|run| cpu(run).as_secs_f64() * 1000.0 / run.blocks())).median)
        };
        table.row(&[
            what.to_owned(),
            spread(&rate(&with)),
            spread(&rate(&whole)),
            spread(&ratio),
            number(letters as f64),
            cost(&with, |run| run.parser),
            cost(&whole, |run| run.parser),
            cost(&with, |run| run.redis),
            cost(&whole, |run| run.redis),
        ]);
        let words = format!("end to end with {what} undecodable, against none");
        section.figures.push(Figure::ratio(key, &words, ratio, Better::Higher).of(
            format!("{} blocks/s", number(rate(&with).median)),
            format!("{} blocks/s", number(rate(&whole).median)),
        ));
    }
    section.table(&table);
    Ok(())
}

/// A run, and how many dead letters there are behind it.
fn run(bench: &Bench, node: &Node, expected: &Expected) -> Result<(Run, u64)> {
    let redis = Redis::start(Fsync::EverySecond)?;
    let settings = Settings::default();
    let mut parser =
        Program::start(&bench.program, node.url(), &redis, redis.port(), &bench.keys, &settings)?;
    let begin = parser.reach(&redis, 200, |_| Ok(()))?;
    let end = parser.reach(&redis, bench.last_block() - BEFORE_THE_END, |_| Ok(()))?;
    let (block, letters): (u32, u64) = redis::pipe()
        .atomic()
        .hget(&bench.keys.sync, "block_num")
        .xlen(&bench.keys.dead_parser)
        .query(&mut redis.connect()?)?;
    let due = expected.get(&block).with_context(|| format!("block {block} was reached too late"))?;
    ensure!(letters == *due, "{letters} dead letters up to block {block} instead of {due}");
    Ok((Run::between(&begin, &end), letters))
}

/// Calls `each` with every block of the capture, ready to be decoded, and the place of its frame.
fn each_block(bench: &Bench, mut each: impl FnMut(usize, &Ready)) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let history = History::new(None, Fallback::Publish, Vec::new(), BTreeMap::new());
    let (chain, selection) = (Chain::new(&[], None, None), Selection::default());
    let mut intake = Intake::new(bench.chain_id, chain, history, selection, Style::default());
    intake.connected(bench.capture.protocol.clone(), &bench.capture.status, None)?;
    for (place, frame) in bench.capture.frames.iter().enumerate() {
        let result = BlockResult::decode(frame, &bench.capture.protocol)?;
        if let Some(ready) = runtime.block_on(intake.take(&result))? {
            intake.settle(ready.position.num.min(ready.last_irreversible));
            each(place, &ready);
        }
    }
    Ok(())
}

/// What of the capture as it is cannot be decoded.
fn undamaged(bench: &Bench) -> Result<Expected> {
    let (mut expected, mut letters) = (Expected::new(), 0);
    each_block(bench, |_, ready| {
        let mut sink = Sink::lines();
        for part in 0..ready.block.plan.parts.len() {
            ready.block.write_part(part, &mut sink);
        }
        for chunk in sink.finish() {
            let failures = Reason::ALL.iter().zip(chunk.written.counts.failures);
            letters += failures.filter(|(of, _)| **of != Reason::NoAbi).map(|(_, count)| count).sum::<u64>();
        }
        expected.insert(ready.position.num, letters);
    })?;
    Ok(expected)
}

/// Damages every so manieth action, and serves the capture for ever.
fn damage(bench: &Bench, as_it_is: &Expected, every: u64, path: &Path) -> Result<Damaged> {
    let mut capture = bench.capture.clone();
    let (mut actions, mut damaged) = (0, 0);
    let mut expected = as_it_is.clone();
    each_block(bench, |place, ready| {
        actions += ready.block.plan.actions.len() as u64;
        let wanted = (actions / every).saturating_sub(damaged) as usize;
        let places = undecodable(ready, wanted);
        if !places.is_empty() {
            let frame = &mut capture.frames[place];
            let mut bytes = frame.to_vec();
            for (at, len) in &places {
                let at = at - frame.as_ptr().addr();
                bytes[at..at + len].fill(0xff);
            }
            damaged += places.len() as u64;
            *frame = Bytes::from(bytes);
        }
        if let Some(letters) = expected.get_mut(&ready.position.num) {
            *letters += damaged;
        }
    })?;
    ensure!(damaged * every * 10 > actions * 9, "only {damaged} of {actions} actions can be damaged");
    capture.save(path)?;
    let node = Node::serve(&bench.program, path, &["--endless"])?;
    Ok(Damaged { node, expected })
}

/// Where the data of up to so many actions stands in memory, and how long it is, that is decoded now and no longer when
/// all its bits are set.
fn undecodable(ready: &Ready, most: usize) -> Vec<(usize, usize)> {
    let plan = &ready.block.plan;
    let places = plan.actions.iter().filter_map(|action| {
        let trace = &plan.action_traces[action.trace as usize];
        // What the chain itself acts on stays as it is.
        if trace.account == Name::literal("eosio") {
            return None;
        }
        let in_force = ready.block.abis.get(&trace.account)?;
        let version = in_force.at(trace.receipt.global_sequence)?;
        let Says::Abi(abi) = version.says(Default::default()) else { return None };
        let id = abi.action_type(trace.name)?;
        let data = trace.data.of(&plan.traces);
        let reads = abi.decode(id, data, &mut Out::default()).is_ok();
        let fails = abi.decode(id, &vec![0xff; data.len()], &mut Out::default()).is_err();
        (reads && fails).then(|| (data.as_ptr().addr(), data.len()))
    });
    places.take(most).collect()
}
