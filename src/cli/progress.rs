//! What a person at a terminal sees while a command works, and what the log says where there is none.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::{Instant, interval};
use tracing::info;

use crate::logging;
use crate::pipeline::{Snapshot, Stats};

/// The line at a terminal is drawn anew so often.
const DRAW: Duration = Duration::from_millis(500);
/// The log says how far things are so often.
const LOG: Duration = Duration::from_secs(10);

/// A bar over block numbers; hidden where stderr is no terminal.
pub(super) fn blocks(what: &'static str, last: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(last), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{prefix} block {pos} of {len}  {msg}") {
        bar.set_style(style);
    }
    logging::above(&bar);
    bar.with_prefix(what)
}

/// How far something is: a line at a terminal, a line in the log every now and then elsewhere.
pub(super) struct Counter {
    what: &'static str,
    bar: ProgressBar,
    terminal: bool,
    logged: Instant,
}

impl Counter {
    /// Nothing is done of `total`, if that is known.
    pub(super) fn new(what: &'static str, total: Option<u64>) -> Counter {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        let template = match total {
            Some(_) => "{prefix} {pos} of {len}  {msg}",
            None => "{prefix} {pos}  {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        logging::above(&bar);
        let terminal = io::stderr().is_terminal();
        Counter { what, bar: bar.with_prefix(what), terminal, logged: Instant::now() }
    }

    /// So much of it is done.
    pub(super) fn at(&mut self, done: u64, further: &str) {
        if self.terminal {
            self.bar.set_position(done);
            self.bar.set_message(further.to_owned());
        } else if self.logged.elapsed() >= LOG {
            self.logged = Instant::now();
            info!(done, total = self.bar.length(), "{} {further}", self.what);
        }
    }

    /// It is over: the line goes.
    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// Shows how the pipeline gets on, for ever.
pub(super) async fn show(stats: Arc<Stats>, stop_block: Option<u32>) {
    let terminal = io::stderr().is_terminal();
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    logging::above(&bar);
    let mut ticks = interval(if terminal { DRAW } else { LOG });
    ticks.tick().await;
    let (mut before, mut at) = (stats.snapshot(), Instant::now());
    loop {
        ticks.tick().await;
        let (now, seconds) = (stats.snapshot(), at.elapsed().as_secs_f64());
        let rates = Rates::between(&before, &now, seconds, stop_block);
        if terminal {
            bar.set_message(rates.line(&now));
            bar.tick();
        } else {
            info!(
                block = (now.block > 0).then_some(now.block),
                head = now.head,
                blocks_per_second = rates.blocks.round(),
                events_per_second = rates.events.round(),
                undecoded = now.undecoded,
                lag_seconds = rates.lag.map(|lag| lag.as_secs()),
                "published"
            );
        }
        (before, at) = (now, Instant::now());
    }
}

struct Rates {
    blocks: f64,
    events: f64,
    /// How far behind the present the newest block is.
    lag: Option<Duration>,
    /// Till the head or the last block.
    left: Option<Duration>,
}

// === impl Rates ===

impl Rates {
    fn between(before: &Snapshot, now: &Snapshot, seconds: f64, stop_block: Option<u32>) -> Rates {
        let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let blocks = per_second(now.block.saturating_sub(before.block).into());
        let present = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let lag = (now.time_ms > 0).then(|| present.saturating_sub(Duration::from_millis(now.time_ms)));
        let target = stop_block.map_or(now.head, |stop| stop.min(now.head.max(now.block)));
        let missing = target.saturating_sub(now.block);
        // At the head there are two blocks a second; then nothing is left to wait for.
        let left =
            (missing > 10 && blocks > 2.0).then(|| Duration::from_secs_f64(f64::from(missing) / blocks));
        Rates { blocks, events: per_second(now.entries.saturating_sub(before.entries)), lag, left }
    }

    fn line(&self, now: &Snapshot) -> String {
        let mut line = format!(
            "block {} of {}  {:.0} blocks/s  {:.0} events/s",
            now.block, now.head, self.blocks, self.events
        );
        if let Some(lag) = self.lag {
            line += &format!("  lag {}", shown(lag));
        }
        if let Some(left) = self.left {
            line += &format!("  {} left", shown(left));
        }
        line
    }
}

/// A duration in its two largest units.
pub(super) fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86400, seconds % 86400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_speed_and_time_left() {
        let before = Snapshot { head: 5000, block: 1000, entries: 0, ..Snapshot::default() };
        let now = Snapshot { head: 5000, block: 1200, entries: 4000, ..Snapshot::default() };
        let rates = Rates::between(&before, &now, 2.0, None);
        assert_eq!(rates.line(&now), "block 1200 of 5000  100 blocks/s  2000 events/s  38 s left");
        let at_head = Snapshot { head: 1200, ..now };
        assert_eq!(
            Rates::between(&at_head, &at_head, 2.0, None).line(&at_head),
            "block 1200 of 1200  0 blocks/s  0 events/s"
        );
    }

    #[test]
    fn durations_are_told_in_two_units() {
        let cases = [(59, "59 s"), (61, "1 min 1 s"), (7260, "2 h 1 min"), (90_000, "1 d 1 h")];
        for (seconds, text) in cases {
            assert_eq!(shown(Duration::from_secs(seconds)), text);
        }
    }
}
