//! Which state the parser is in, by what the pipeline says and by the numbers.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::activity::{Activity, Until};
use super::{Monitor, lock};
use crate::state::State;

/// A newest block of at most that age is live.
const LIVE_LAG: Duration = Duration::from_secs(15);
/// Once live, up to that age.
const STILL_LIVE_LAG: Duration = Duration::from_secs(30);
/// Without a block for so long, the node is waited for. Irreversible blocks can come every six seconds.
const SILENCE: Duration = Duration::from_secs(10);

/// The numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    /// Why no unit can be published, where the stream is full.
    full: Option<String>,
    /// Why the chain API is waited for.
    chain_api: Option<String>,
    /// Blocks taken are not published yet.
    in_flight: bool,
    /// How long the node has sent nothing.
    silent: Duration,
    /// The newest block published, and the node's head.
    block: u32,
    head: u32,
    lag: Option<Duration>,
}

impl Monitor {
    pub(super) fn facts(&self) -> Facts {
        let progress = self.published();
        let block = progress.block.map_or(self.resumed.load(Relaxed), |block| block.num);
        let taken = self.node.taken.load(Relaxed);
        Facts {
            full: progress.paused.then(|| self.why_full(progress.stream_length)),
            chain_api: self.chain_api.borrow().clone(),
            in_flight: progress.part.is_some() || (taken > 0 && taken != block),
            silent: self.node.silent(),
            block,
            head: self.node.head.load(Relaxed),
            lag: self.lag(),
        }
    }

    fn why_full(&self, length: u64) -> String {
        let cap = self.expect.pause_at.unwrap_or(length);
        match &self.trim.borrow().held_by {
            Some(group) => format!(
                "the events stream has {length} entries (xtrim.maxEntries: {cap}), and the consumer group `{group}` has not \
                 acknowledged the oldest"
            ),
            None => format!(
                "the events stream has {length} entries (xtrim.maxEntries: {cap}), and no consumer group tells which may go: \
                 read it by a group, or set xtrim.keepBlocks"
            ),
        }
    }

    /// Whether the state is what the pipeline says, and not judged by numbers.
    pub(super) fn is_told(&self) -> bool {
        !matches!(*lock(&self.activity), Activity::Reading)
    }

    /// Whether reading again does not mend it.
    pub fn is_stuck(&self) -> bool {
        matches!(&*lock(&self.activity), Activity::Other { until, .. } if *until != Until::Reading)
    }

    pub(super) fn judge(&self, before: State) -> (State, String) {
        judge(&lock(&self.activity), self.facts(), before)
    }
}

fn judge(activity: &Activity, facts: Facts, before: State) -> (State, String) {
    if let Activity::Other { state, reason, .. } = activity {
        return (*state, reason.clone());
    }
    if let Some(reason) = facts.full {
        return (State::PausedStreamFull, reason);
    }
    if let Some(reason) = facts.chain_api {
        return (State::WaitingForChainApi, reason);
    }
    let Facts { silent, block, head, .. } = facts;
    if silent >= SILENCE && !facts.in_flight {
        let reason = match (block, head) {
            (0, _) => "it has sent no block yet".to_owned(),
            _ if head > block => format!("it has block {head}, but sends none behind block {block}"),
            _ => format!("it has no newer block than {block}"),
        };
        return (State::WaitingForNode, reason);
    }
    let limit = if before == State::Live { STILL_LIVE_LAG } else { LIVE_LAG };
    match facts.lag {
        Some(lag) if lag <= limit => (State::Live, String::new()),
        _ if head > block + 1 && block > 0 => {
            (State::CatchingUp, format!("{} blocks behind the node's head", head - block))
        }
        _ => (State::CatchingUp, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(facts: Facts, before: State) -> (State, String) {
        judge(&Activity::Reading, facts, before)
    }

    fn aged(seconds: u64) -> Facts {
        Facts { lag: Some(Duration::from_secs(seconds)), block: 7, head: 7, ..Facts::default() }
    }

    #[test]
    fn live_is_judged_by_the_blocks_time_and_not_by_the_head() {
        assert_eq!(reading(aged(15), State::CatchingUp).0, State::Live);
        assert_eq!(reading(aged(16), State::CatchingUp).0, State::CatchingUp);
        assert_eq!(reading(aged(16), State::Live).0, State::Live);
        assert_eq!(reading(aged(31), State::Live).0, State::CatchingUp);
        // A head that is behind the block it came with.
        assert_eq!(reading(Facts { head: 1, ..aged(3600) }, State::Live), (State::CatchingUp, String::new()));
        let behind = reading(Facts { head: 107, ..aged(3600) }, State::Live).1;
        assert_eq!(behind, "100 blocks behind the node's head");
    }

    #[test]
    fn a_silent_node_is_waited_for_only_where_nothing_is_in_flight() {
        let silent = Facts { silent: Duration::from_secs(10), ..aged(12) };
        let (state, reason) = reading(silent.clone(), State::Live);
        assert_eq!((state, reason.as_str()), (State::WaitingForNode, "it has no newer block than 7"));
        assert_eq!(reading(Facts { in_flight: true, ..silent.clone() }, State::Live).0, State::Live);
        let (_, reason) = reading(Facts { head: 9, ..silent }, State::Live);
        assert_eq!(reason, "it has block 9, but sends none behind block 7");
    }

    #[test]
    fn what_the_pipeline_says_goes_before_the_numbers() {
        let (state, reason, until) = (State::WaitingForRedis, "refused".to_owned(), Until::Reading);
        let down = Activity::Other { state, reason, until };
        assert_eq!(judge(&down, aged(1), State::Live), (State::WaitingForRedis, "refused".to_owned()));
        let full = Facts { full: Some("full".to_owned()), ..aged(1) };
        assert_eq!(reading(full, State::Live), (State::PausedStreamFull, "full".to_owned()));
    }
}
