//! What one action more in a block costs, in blocks of any size.

use std::path::Path;

use anyhow::Result;

use super::{BEYOND, Turns, WARM_UP, block_with, run, serve, settings};
use crate::bare_writer::{self, Form};
use crate::node::Node;
use crate::recording::Recording;
use crate::redis::{Fsync, Redis};
use crate::report::{Better, Figure, Section, Table};
use crate::stats::{Spread, number, spread};
use crate::workload::{Bench, record};

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];

/// Blocks of one size.
struct Size {
    actions: usize,
    node: Node,
    recording: Recording,
    turns: Turns,
}

/// What one action more costs from a size to the next, in µs.
struct Slopes {
    /// Each over all turns.
    each: Vec<Spread>,
    /// Their middle ones.
    all: Spread,
}

pub(super) fn measure(bench: &Bench, section: &mut Section, directory: &Path) -> Result<()> {
    section.text(
        "**Blocks.** End to end as in section 4, over blocks of 10, 100, 1,000 and 10,000 transfers, each in a transaction of its own and without table rows; as many \
         actions in all for each size. The limit is the bare writer with the same commands. Sizes and sides take turns.",
    );
    let all = WARM_UP + bench.pick(150_000, 200_000);
    let mut sizes = Vec::new();
    for actions in SIZES {
        eprintln!("  blocks of {actions} actions");
        let node = serve(bench, directory, actions)?;
        let empty = Redis::start(Fsync::Never)?;
        let to = block_with(all + BEYOND, actions);
        let recording = record(&empty, &bench.program, node.url(), &bench.keys, &settings(), to)?;
        sizes.push(Size { actions, node, recording, turns: Turns::default() });
    }
    for turn in 1..=bench.pick(2, 4) {
        eprintln!("  turn {turn}");
        // There and back, so that no size comes behind the same one each time.
        sizes.reverse();
        for size in &mut sizes {
            let (after, to) = (block_with(WARM_UP, size.actions), block_with(all, size.actions));
            let run = run(bench, &size.node, &Redis::start(Fsync::Never)?, after, to)?;
            let redis = Redis::start(Fsync::Never)?;
            let push = bare_writer::push(&redis, &size.recording, Form::Transactions, run.after, run.to)?;
            size.turns.runs.push(run);
            size.turns.pushes.push(push);
        }
    }
    sizes.sort_by_key(|size| size.actions);
    report(&sizes, section);
    Ok(())
}

fn report(sizes: &[Size], section: &mut Section) {
    let (fixed, each) = line(sizes.iter().map(|size| (size.actions as f64, size.per_block())));
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
    for size in sizes {
        let n = size.actions as f64;
        let fitted = fixed + each * n;
        table.row(&[
            number(n),
            number(size.turns.parser().median / n),
            spread(&size.turns.parser()),
            spread(&size.turns.bare()),
            spread(&size.turns.ratio()),
            number(size.per_block() * 1e6),
            number(fitted * 1e6),
            number((size.per_block() - fixed) / n * 1e6),
        ]);
        let words = format!("end to end, blocks of {} actions, against the bare writer", number(n));
        section.figures.push(size.turns.figure(&format!("blocks-of-{}", size.actions), &words));
    }
    section.table(&table);
    section.text(format!(
        "Fitted (least squares of the relative errors): {} µs a block, which is next to nothing (or, within the noise, less) as small blocks share transactions, and {} µs \
         an action. What one action more costs, from each size to the next, by the two runs of one turn:",
        number(fixed * 1e6),
        number(each * 1e6),
    ));
    let parser = Slopes::of(sizes, |turns| turns.runs.iter().map(|run| run.events_per_second()).collect());
    let bare = Slopes::of(sizes, |turns| turns.pushes.iter().map(|push| push.events_per_second()).collect());
    let mut table = Table::new(&["actions a block", "parser, µs an action", "bare writer, µs an action"]);
    for ((pair, parser), bare) in sizes.windows(2).zip(&parser.each).zip(&bare.each) {
        let (from, to) = (number(pair[0].actions as f64), number(pair[1].actions as f64));
        table.row(&[format!("{from} to {to}"), spread(parser), spread(bare)]);
    }
    section.table(&table);
    section.text(format!(
        "The one furthest from the middle one is {} % away from it, of the bare writer's {} %.",
        number(parser.uneven() * 100.0),
        number(bare.uneven() * 100.0),
    ));
    section.figures.push(
        Figure::ratio(
            "growth-flat",
            "cost of an action as blocks grow: furthest from the middle (limit: the bare writer's)",
            Spread::of([parser.uneven() * 100.0]),
            Better::Lower,
        )
        .of(parser.range(), bare.range())
        .unit("%")
        .target(20.0),
    );
}

// === impl Size ===

impl Size {
    /// Seconds a block takes. By the events: between two looks there may be parts of blocks.
    fn per_block(&self) -> f64 {
        self.actions as f64 / self.turns.parser().median
    }
}

// === impl Slopes ===

impl Slopes {
    /// By the events a second of one side, turn by turn.
    fn of(sizes: &[Size], rates: impl Fn(&Turns) -> Vec<f64>) -> Slopes {
        let points: Vec<(f64, Vec<f64>)> =
            sizes.iter().map(|size| (size.actions as f64, rates(&size.turns))).collect();
        Slopes::between(&points)
    }

    /// Each point: actions a block, and events a second in each turn.
    fn between(points: &[(f64, Vec<f64>)]) -> Slopes {
        let slopes = points.windows(2).map(|pair| {
            let [(small, less), (large, more)] = pair else { return Spread::of([]) };
            let turns = less.iter().zip(more);
            Spread::of(turns.map(|(less, more)| (large / more - small / less) / (large - small) * 1e6))
        });
        let each: Vec<Spread> = slopes.collect();
        let all = Spread::of(each.iter().map(|slope| slope.median));
        Slopes { each, all }
    }

    /// How far the one furthest from the middle one is away from it, in proportion.
    fn uneven(&self) -> f64 {
        (self.all.high - self.all.median).max(self.all.median - self.all.low) / self.all.median
    }

    fn range(&self) -> String {
        format!("{}–{} µs", number(self.all.low), number(self.all.high))
    }
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

    #[test]
    fn slopes_are_what_one_action_more_costs_and_the_machine_may_drift_between_turns() {
        // 100 µs a block; 2, 2 and 3 µs an action from each size to the next, in a second turn half as much again.
        let blocks = [(10.0, 120.0), (100.0, 300.0), (1_000.0, 2_100.0), (10_000.0, 29_100.0)];
        let rates = |(n, us): (f64, f64)| (n, vec![n / us * 1e6, n / (1.5 * us) * 1e6]);
        let slopes = Slopes::between(&blocks.map(rates));
        let found: Vec<f64> = slopes.each.iter().map(|slope| slope.low).collect();
        assert!(
            found.iter().zip([2.0, 2.0, 3.0]).all(|(found, right)| (found - right).abs() < 1e-9),
            "{found:?}"
        );
        assert!((slopes.uneven() - 0.5).abs() < 1e-9);
        assert_eq!(slopes.range(), "2.50–3.75 µs");
    }
}
