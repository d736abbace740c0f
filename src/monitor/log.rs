//! The state in the log: a line when it changes, and again every ten seconds while it lasts.

use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use super::{Monitor, Status, lock};
use crate::state::State;
use crate::time::now;

/// What lasts is said so often.
const AGAIN: Duration = Duration::from_secs(10);
/// With slow consumers the stream is full again and again: it is called so until it was not full for that long.
const STILL_FULL: Duration = Duration::from_secs(5);

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Nothing yet if none.
    state: Option<State>,
    /// Why, where the pipeline said so.
    reason: String,
    at: Option<Instant>,
    /// When the stream was last found full.
    full: Option<Instant>,
}

/// Logs at a level that only the state tells.
macro_rules! log {
    ($state:expr, $reason:expr, $($line:tt)*) => {
        match $state {
            // Again, because something was lost.
            State::Connecting if !$reason.is_empty() => warn!($($line)*),
            State::ForkTooDeep | State::Failed => error!($($line)*),
            State::WaitingForNode
            | State::WaitingForRedis
            | State::WaitingForChainApi
            | State::PausedStreamFull => warn!($($line)*),
            _ => info!($($line)*),
        }
    };
}

impl Monitor {
    /// Judges the state anew, and says so if it is another.
    pub(super) fn update(&self) {
        let mut said = lock(&self.said);
        let before = self.state.borrow().state;
        let (mut state, mut reason) = self.judge(before);
        match state {
            State::PausedStreamFull => said.full = Some(Instant::now()),
            State::CatchingUp | State::Live
                if before == State::PausedStreamFull
                    && said.full.is_some_and(|at| at.elapsed() < STILL_FULL) =>
            {
                (state, reason) = (before, self.state.borrow().reason.clone());
            }
            _ => {}
        }
        self.state.send_if_modified(|status| {
            let changed = status.state != state;
            if changed {
                *status = Status { state, reason: reason.clone(), since: now() };
            } else if status.reason != reason {
                status.reason.clone_from(&reason);
            }
            changed
        });
        // Another reason is news only where no number judged it, which changes all the time.
        let told = self.is_told() && !reason.is_empty() && said.reason != reason;
        if said.state != Some(state) || told {
            said.state = Some(state);
            said.reason.clone_from(&reason);
            said.at = Some(Instant::now());
            say(state, &reason);
        }
    }

    /// Every ten seconds: what is waited for, or how far things are.
    pub(super) fn say_again(&self, periodic: bool) {
        let mut said = lock(&self.said);
        if said.at.is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        said.at = Some(Instant::now());
        let view = self.view();
        let Status { state, reason, since } = view.status;
        let (blocks_per_second, events_per_second) = view.rates;
        match state {
            State::CatchingUp | State::Live if !periodic => {}
            State::CatchingUp | State::Live => info!(
                state = state.as_str(),
                block = view.block,
                head = view.head,
                blocks_per_second = blocks_per_second.round(),
                events_per_second = events_per_second.round(),
                undecoded = view.undecoded,
                lag_seconds = view.lag.map(|lag| lag.as_secs()),
                "published"
            ),
            _ => {
                let seconds = now().saturating_sub(since).as_secs();
                let (block, head) = (view.block, view.head);
                log!(
                    state,
                    reason,
                    state = state.as_str(),
                    reason = shown(&reason),
                    seconds,
                    block,
                    head,
                    "still {}",
                    words(state)
                );
            }
        }
    }
}

fn say(state: State, reason: &str) {
    match state {
        // The signal and the error have lines of their own.
        State::Stopping | State::Failed => {}
        _ => log!(state, reason, state = state.as_str(), reason = shown(reason), "{}", words(state)),
    }
}

/// A reason, if there is one.
fn shown(reason: &str) -> Option<&str> {
    Some(reason).filter(|reason| !reason.is_empty())
}

/// The state for people.
fn words(state: State) -> &'static str {
    match state {
        State::Connecting => "connecting to the node",
        State::WaitingForNode => "waiting for the node",
        State::Standby => "standing by: another parser is writing here",
        State::CatchingUp => "catching up",
        State::Live => "live",
        State::WaitingForRedis => "waiting for Redis",
        State::WaitingForChainApi => "waiting for the chain API",
        State::PausedStreamFull => "paused: the events stream is full",
        State::ForkTooDeep => "stopped: the node replaces blocks that cannot be replaced any more",
        State::Stopping => "stopping",
        State::Failed => "failed",
    }
}
