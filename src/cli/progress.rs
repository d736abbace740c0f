//! What a person at a terminal sees while a command works.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::{Instant, interval};
use tracing::info;

use crate::capture::record::Progress;
use crate::logging;
use crate::monitor::{Monitor, View};
use crate::state::State;

/// The line at a terminal is drawn anew so often.
const DRAW: Duration = Duration::from_millis(500);
/// Where there is none, the log says how far things are so often.
const LOG: Duration = Duration::from_secs(10);

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

/// The line that says how `parser run` gets on; there is none where stderr is no terminal.
pub(super) struct Line {
    bar: Option<ProgressBar>,
}

// === impl Line ===

impl Line {
    pub(super) fn new() -> Line {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                bar.set_style(style);
            }
            logging::above(&bar);
            bar
        });
        Line { bar }
    }

    pub(super) fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    /// Shows how things are, for ever.
    pub(super) async fn follow(&self, monitor: &Monitor) {
        let Some(bar) = &self.bar else { return std::future::pending().await };
        let mut ticks = interval(DRAW);
        loop {
            ticks.tick().await;
            bar.set_message(line(&monitor.view()));
            bar.tick();
        }
    }

    /// Shows how things were in the end, and leaves the line there.
    pub(super) fn end(self, view: &View) {
        if let Some(bar) = self.bar {
            let (block, events) = (view.block.unwrap_or(0), view.events);
            bar.finish_with_message(format!("block {block}  {events} events published"));
        }
    }
}

/// How a recording gets on.
pub(super) struct Recording {
    counter: Counter,
    begun: Instant,
    /// The first frame's block.
    first: Option<u32>,
}

// === impl Recording ===

impl Recording {
    pub(super) fn new(stop: u32) -> Recording {
        let counter = Counter::new("recording block", Some(stop.into()));
        Recording { counter, begun: Instant::now(), first: None }
    }

    pub(super) fn show(&mut self, state: &Progress, stop: u32) {
        let first = *self.first.get_or_insert(state.block);
        let seconds = self.begun.elapsed().as_secs_f64();
        let per_second = f64::from(state.block.saturating_sub(first)) / seconds.max(0.001);
        let missing = stop.min(state.head.max(state.block)).saturating_sub(state.block);
        let mut further =
            format!("{} frames  {} MB  {per_second:.0} blocks/s", state.frames, state.bytes >> 20);
        if let Some(left) = crate::time::left(missing, per_second) {
            further += &format!("  {} left", shown(left));
        }
        self.counter.at(state.block.into(), &further);
    }

    pub(super) fn end(self) {
        self.counter.finish();
    }
}

fn line(view: &View) -> String {
    let status = &view.status;
    let mut line = match view.block {
        Some(block) => format!("block {block} of {}", view.head.unwrap_or(0)),
        None => "no block yet".to_owned(),
    };
    match status.state {
        State::CatchingUp | State::Live => {
            let (blocks, events) = view.rates;
            line += &format!("  {blocks:.0} blocks/s  {events:.0} events/s");
            if let Some(lag) = view.lag {
                line += &format!("  lag {}", shown(lag));
            }
            line += &format!("  {}", status.state);
            if let Some(left) = view.left {
                line += &format!(", {} left", shown(left));
            }
        }
        state => {
            let since = crate::time::now().saturating_sub(status.since);
            line += &format!("  {state} for {}", shown(since));
            if !status.reason.is_empty() {
                line += &format!(": {}", status.reason);
            }
        }
    }
    line
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
    use crate::monitor::Monitor;

    fn view() -> View {
        let mut view = Monitor::default().view();
        view.head = Some(5000);
        view.block = Some(1200);
        view.rates = (100.0, 2000.4);
        view
    }

    #[test]
    fn the_line_tells_speed_lag_state_and_time_left() {
        let mut view = view();
        view.status.state = State::CatchingUp;
        view.lag = Some(Duration::from_secs(7260));
        view.left = Some(Duration::from_secs(38));
        assert_eq!(
            line(&view),
            "block 1200 of 5000  100 blocks/s  2000 events/s  lag 2 h 1 min  catching-up, 38 s left"
        );
    }

    #[test]
    fn the_line_tells_what_is_waited_for() {
        let mut view = view();
        view.status.state = State::WaitingForRedis;
        view.status.reason = "no connection to Redis: refused".to_owned();
        view.status.since = crate::time::now();
        assert_eq!(
            line(&view),
            "block 1200 of 5000  waiting-for-redis for 0 s: no connection to Redis: refused"
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
