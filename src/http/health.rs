//! Whether the parser does what it should.

use std::time::Duration;

use serde::Serialize;

use crate::monitor::View;
use crate::state::State;
use crate::time::{iso8601, now};

/// Connecting may take so long.
const CONNECTING: Duration = Duration::from_secs(10);

/// The answer, with the fields of the TypeScript version's.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Health {
    status: Verdict,
    state: State,
    /// Why it is degraded, or in that state.
    reason: String,
    since: String,
    indexing_lag_seconds: Option<f64>,
    lag_threshold_seconds: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Degraded,
}

// === impl Health ===

impl Health {
    pub(super) fn is_ok(&self) -> bool {
        self.status == Verdict::Ok
    }

    pub(super) fn into_reason(self) -> String {
        self.reason
    }

    fn new(view: &View, threshold: Duration, ok: bool, reason: String) -> Health {
        Health {
            status: if ok { Verdict::Ok } else { Verdict::Degraded },
            state: view.status.state,
            reason,
            since: iso8601(view.status.since),
            indexing_lag_seconds: view.lag.map(|lag| lag.as_secs_f64()),
            lag_threshold_seconds: threshold.as_secs_f64(),
        }
    }
}

/// Whether nobody needs to look after it.
pub(super) fn health(view: &View, threshold: Duration) -> Health {
    let status = &view.status;
    let ok = match status.state {
        State::CatchingUp | State::Live | State::Connecting => match view.lag {
            Some(lag) if lag > threshold => {
                let (lag, most) = (lag.as_secs(), threshold.as_secs_f64());
                let reason =
                    format!("the newest block published is {lag} s old (health.lagThresholdSeconds: {most})");
                return Health::new(view, threshold, false, reason);
            }
            _ => status.state != State::Connecting || now().saturating_sub(status.since) <= CONNECTING,
        },
        State::Standby | State::Stopping => true,
        State::WaitingForNode
        | State::WaitingForRedis
        | State::WaitingForChainApi
        | State::PausedStreamFull
        | State::ForkTooDeep
        | State::Failed => false,
    };
    Health::new(view, threshold, ok, status.reason.clone())
}

/// Whether blocks are being published.
pub(super) fn ready(view: &View, threshold: Duration) -> Health {
    let ok = matches!(view.status.state, State::CatchingUp | State::Live);
    Health::new(view, threshold, ok, view.status.reason.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::{Monitor, Status};

    #[test]
    fn a_connection_being_made_anew_is_no_excuse_for_old_blocks() {
        let threshold = Duration::from_secs(30);
        let connecting = |seconds, lag: Option<u64>| {
            let since = now() - Duration::from_secs(seconds);
            let status = Status { state: State::Connecting, reason: String::new(), since };
            health(
                &View { status, lag: lag.map(Duration::from_secs), ..Monitor::default().view() },
                threshold,
            )
            .is_ok()
        };
        assert!(connecting(1, None) && connecting(1, Some(30)));
        assert!(!connecting(1, Some(31)) && !connecting(11, Some(1)) && !connecting(11, None));
    }
}
