//! Section 8: the same with the events stream being trimmed all the time.

use anyhow::Result;

use crate::program::{Run, Settings};
use crate::redis::{Fsync, Redis};
use crate::report::{Better, Figure, Section, Table};
use crate::stats::{Spread, number, spread};
use crate::workload::Bench;

const OFF: &str = "xtrim: {enabled: false}\n";
const ON: &str = "xtrim: {intervalMs: 1000, keepBlocks: 200}\n";

/// Measures.
pub fn section(bench: &mut Bench, section: &mut Section) -> Result<()> {
    section.text(
        "End to end as in section 4 (2 threads, AOF `everysec`, ids by block), once without trimming, which is the limit here, and once with a round every second that \
         leaves the newest 200 blocks. They take turns.",
    );
    let (mut off, mut on, mut left) = (Vec::new(), Vec::new(), 0);
    for _ in 0..bench.pick(1, 3) {
        off.push(run(bench, OFF)?.0);
        let (run, entries) = run(bench, ON)?;
        on.push(run);
        left = entries;
    }
    let rate = |runs: &[Run]| Spread::of(runs.iter().map(Run::blocks_per_second));
    let cpu = |runs: &[Run]| {
        Spread::of(runs.iter().map(|run| run.redis.as_secs_f64() * 1000.0 / run.blocks())).median
    };
    let ratio =
        Spread::of(on.iter().zip(&off).map(|(on, off)| on.blocks_per_second() / off.blocks_per_second()));
    let mut table = Table::new(&["", "blocks/s", "redis-server, CPU seconds for 1,000 blocks", "ratio"]);
    table.row(&["not running (limit)".to_owned(), spread(&rate(&off)), number(cpu(&off)), "1".to_owned()]);
    table.row(&["running".to_owned(), spread(&rate(&on)), number(cpu(&on)), spread(&ratio)]);
    section.table(&table);
    section.text(format!("{} entries were left in the stream at the end.", number(left as f64)));
    section.figures.push(
        Figure::ratio("xtrim", "end to end with XTRIM running, against not running", ratio, Better::Higher)
            .of(
                format!("{} blocks/s", number(rate(&on).median)),
                format!("{} blocks/s", number(rate(&off).median)),
            ),
    );
    Ok(())
}

/// A run, and the entries in the stream at its end.
fn run(bench: &mut Bench, more: &'static str) -> Result<(Run, u64)> {
    eprintln!("  {}", if more == ON { "running" } else { "not running" });
    let redis = Redis::start(Fsync::EverySecond)?;
    let mut parser = bench.run(&redis, &Settings { more, ..Settings::default() })?;
    let begin = parser.reach(&redis, 200, |_| Ok(()))?;
    let end = parser.reach(&redis, bench.last_block(), |_| Ok(()))?;
    Ok((Run::between(&begin, &end), end.entries))
}
