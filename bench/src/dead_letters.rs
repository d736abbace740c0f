//! Section 6: what it costs when data cannot be decoded.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};
use bytes::Bytes;
use parser::chain::Chain;
use parser::event::Style;
use parser::history::{Fallback, History, Says};
use parser::name::Name;
use parser::pipeline::{Intake, Ready};
use parser::plan::Selection;
use parser::ship::message::BlockResult;

use crate::node::Node;
use crate::program::{Program, Run, Settings};
use crate::redis::{Fsync, Redis};
use crate::report::{Better, Figure, Section, Table};
use crate::stats::{Spread, number, spread};
use crate::workload::Bench;

/// A capture with some actions that cannot be decoded.
struct Damaged {
    node: Node,
    /// How many there are up to each block, by number.
    up_to: BTreeMap<u32, u64>,
}

/// Measures.
pub fn section(bench: &mut Bench) -> Result<Section> {
    let mut section = Section::new(6, "Dead letters");
    section.text(
        "End to end as in section 4 (2 threads, AOF `everysec`, ids by block), over the capture with every thousandth and with every twentieth \
         action's data overwritten so that its ABI cannot read it: each such event is published with its bytes and the reason, and once more in the \
         dead-letter stream, with a counter. The limit is the capture as it is; they take turns. That each damaged action has its dead letter, and nothing else has \
         one, is checked on the way.",
    );
    let directory = tempfile::tempdir()?;
    let mut table =
        Table::new(&["undecodable", "blocks/s", "as it is (limit), blocks/s", "ratio", "dead letters"]);
    for (what, key, every) in [("0.1 %", "dead-letters-0.1", 1000), ("5 %", "dead-letters-5", 20)] {
        eprintln!("  {what}");
        let damaged = damage(bench, every, &directory.path().join(format!("{every}.shipcap.zst")))?;
        let (mut whole, mut with, mut letters) = (Vec::new(), Vec::new(), 0);
        for _ in 0..bench.pick(1, 3) {
            let node = bench.node()?;
            whole.push(run(bench, &node, None)?.0);
            let (run, dead) = run(bench, &damaged.node, Some(&damaged.up_to))?;
            with.push(run);
            letters = dead;
        }
        let rate = |runs: &[Run]| Spread::of(runs.iter().map(Run::blocks_per_second));
        let ratio =
            with.iter().zip(&whole).map(|(with, whole)| with.blocks_per_second() / whole.blocks_per_second());
        let ratio = Spread::of(ratio);
        table.row(&[
            what.to_owned(),
            spread(&rate(&with)),
            spread(&rate(&whole)),
            spread(&ratio),
            number(letters as f64),
        ]);
        let words = format!("end to end with {what} undecodable, against none");
        section.figures.push(Figure::ratio(key, &words, ratio, Better::Higher).of(
            format!("{} blocks/s", number(rate(&with).median)),
            format!("{} blocks/s", number(rate(&whole).median)),
        ));
    }
    section.table(&table);
    Ok(section)
}

/// A run, and how many dead letters there are behind it; `expected` by block, none where not given.
fn run(bench: &Bench, node: &Node, expected: Option<&BTreeMap<u32, u64>>) -> Result<(Run, u64)> {
    let redis = Redis::start(Fsync::EverySecond)?;
    let settings = Settings::default();
    let mut parser =
        Program::start(&bench.program, node.url(), &redis, redis.port(), &bench.keys, &settings)?;
    let begin = parser.reach(&redis, 200, |_| Ok(()))?;
    let end = parser.reach(&redis, bench.last_block(), |_| Ok(()))?;
    let (block, letters): (u32, u64) = redis::pipe()
        .atomic()
        .hget(&bench.keys.sync, "block_num")
        .xlen(&bench.keys.dead_parser)
        .query(&mut redis.connect()?)?;
    // The second lap is damaged in the same places.
    let last = bench.last_block();
    let up_to = |num: u32| {
        expected.and_then(|expected| expected.range(..=num).next_back()).map_or(0, |(_, count)| *count)
    };
    let due = if block <= last { up_to(block) } else { up_to(last) + up_to(1 + block - last) };
    ensure!(letters == due, "{letters} dead letters up to block {block} instead of {due}");
    Ok((Run::between(&begin, &end), letters))
}

/// Damages every so manieth action, and serves the capture for ever.
fn damage(bench: &Bench, every: u64, path: &Path) -> Result<Damaged> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let history = History::new(None, Fallback::Publish, Vec::new(), BTreeMap::new());
    let (chain, selection) = (Chain::new(&[], None, None), Selection::default());
    let mut intake = Intake::new(bench.chain_id, chain, history, selection, Style::default());
    intake.connected(bench.capture.protocol.clone(), &bench.capture.status, None)?;
    let mut capture = bench.capture.clone();
    let (mut actions, mut damaged) = (0, 0);
    let mut up_to = BTreeMap::new();
    for frame in &mut capture.frames {
        let result = BlockResult::decode(frame, &capture.protocol)?;
        let Some(ready) = runtime.block_on(intake.take(&result))? else { continue };
        intake.settle(ready.position.num.min(ready.last_irreversible));
        actions += ready.block.plan.actions.len() as u64;
        let wanted = (actions / every).saturating_sub(damaged) as usize;
        let places = undecodable(&ready, wanted);
        if !places.is_empty() {
            let mut bytes = frame.to_vec();
            for (at, len) in &places {
                let at = at - frame.as_ptr().addr();
                bytes[at..at + len].fill(0xff);
            }
            damaged += places.len() as u64;
            up_to.insert(ready.position.num, damaged);
            *frame = Bytes::from(bytes);
        }
    }
    ensure!(damaged * every * 10 > actions * 9, "only {damaged} of {actions} actions can be damaged");
    capture.save(path)?;
    let node = Node::serve(&bench.program, path, &["--endless"])?;
    Ok(Damaged { node, up_to })
}

/// Where the data of up to so many actions stands in memory, and how long it is, that no longer decodes when all its
/// bits are set.
fn undecodable(ready: &Ready, most: usize) -> Vec<(usize, usize)> {
    let plan = &ready.block.plan;
    let places = plan.actions.iter().filter_map(|action| {
        let trace = &action.trace;
        // What the chain itself acts on stays as it is.
        if trace.account == Name::literal("eosio") {
            return None;
        }
        let in_force = ready.block.abis.get(&trace.account)?;
        let version = in_force.at(trace.receipt.global_sequence)?;
        let Says::Abi(abi) = version.says(Default::default()) else { return None };
        let id = abi.action_type(trace.name)?;
        let data = trace.data.of(&plan.traces);
        let fails = abi.decode(id, &vec![0xff; data.len()], &mut Vec::new()).is_err();
        (fails && !data.is_empty()).then(|| (data.as_ptr().addr(), data.len()))
    });
    places.take(most).collect()
}
