//! Whether a node has the block that is asked for: found out before asking, from its status.
//! Asked for a block below its first one, a node jumps silently or answers with nothing.

use super::message::StatusResult;

/// Why a node cannot deliver from a block on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// One of the two logs does not exist.
    #[error("the node keeps no {what}: it needs `trace-history = true` and `chain-state-history = true`")]
    NoLog {
        /// Which log.
        what: &'static str,
    },
    /// The logs begin later.
    #[error(
        "block {start} is wanted, but the node's first one is {first} (it has traces from {} and state from {}); \
         start at block {first} or later, or use a node that has the older blocks",
         .traces, .states
    )]
    TooLow {
        /// The block wanted.
        start: u32,
        /// The first block that has all that is needed.
        first: u32,
        /// First block of the trace log.
        traces: u32,
        /// First block of the state log.
        states: u32,
    },
    /// The same, where those before it are published: no other start helps.
    #[error(
        "block {next} comes next, but the node's first one is {first} (it has traces from {traces} and state from {states}); \
         use a node that has the older blocks, or publish anew into another `redis.namespace`"
    )]
    Gap {
        /// The block wanted.
        next: u32,
        /// The first block that has all that is needed.
        first: u32,
        /// First block of the trace log.
        traces: u32,
        /// First block of the state log.
        states: u32,
    },
}

/// The first block of which the node has traces and deltas.
pub fn first_available(status: &StatusResult) -> Result<u32, StartError> {
    if status.trace_end_block <= status.trace_begin_block {
        return Err(StartError::NoLog { what: "traces" });
    }
    if status.chain_state_end_block <= status.chain_state_begin_block {
        return Err(StartError::NoLog { what: "chain state" });
    }
    // Block 1 never has traces, so a log of all traces begins with block 2.
    let traces = if status.trace_begin_block == 2 { 1 } else { status.trace_begin_block };
    Ok(traces.max(status.chain_state_begin_block))
}

/// Whether the node can deliver from block `start` on.
pub fn check_start(status: &StatusResult, start: u32) -> Result<(), StartError> {
    let first = first_available(status)?;
    if start < first {
        let (traces, states) = (status.trace_begin_block, status.chain_state_begin_block);
        return Err(StartError::TooLow { start, first, traces, states });
    }
    Ok(())
}

/// Whether the node can deliver from block `next` on, where those before it are published.
pub fn check_next(status: &StatusResult, next: u32) -> Result<(), StartError> {
    check_start(status, next).map_err(|error| match error {
        StartError::TooLow { start, first, traces, states } => {
            StartError::Gap { next: start, first, traces, states }
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Position;

    fn status(traces: (u32, u32), states: (u32, u32)) -> StatusResult {
        StatusResult {
            head: Position::default(),
            last_irreversible: Position::default(),
            trace_begin_block: traces.0,
            trace_end_block: traces.1,
            chain_state_begin_block: states.0,
            chain_state_end_block: states.1,
            chain_id: None,
        }
    }

    #[test]
    fn a_start_below_the_first_block_names_both_numbers() {
        let pruned = status((500, 1000), (600, 1000));
        let error = check_start(&pruned, 42).expect_err("too low").to_string();
        for part in ["block 42", "first one is 600", "traces from 500", "start at block 600 or later"] {
            assert!(error.contains(part), "{error}");
        }
        let error = check_next(&pruned, 42).expect_err("too low").to_string();
        for part in ["block 42 comes next", "first one is 600", "another `redis.namespace`"] {
            assert!(error.contains(part) && !error.contains("start at"), "{error}");
        }
        assert_eq!(check_start(&pruned, 600), Ok(()));
        // Behind the head a node waits.
        assert_eq!(check_start(&pruned, 2000), Ok(()));
    }

    #[test]
    fn block_one_has_no_traces_and_is_no_gap() {
        assert_eq!(check_start(&status((2, 3), (1, 3)), 1), Ok(()));
        assert_eq!(first_available(&status((2, 3), (1, 3))), Ok(1));
        // Unless the state begins later, too.
        assert_eq!(first_available(&status((2, 9), (2, 9))), Ok(2));
    }

    #[test]
    fn a_log_switched_off_is_said() {
        let error = check_start(&status((0, 0), (1, 9)), 5).expect_err("no traces").to_string();
        assert!(error.contains("no traces") && error.contains("trace-history = true"), "{error}");
        let error = check_start(&status((2, 9), (0, 0)), 5).expect_err("no state").to_string();
        assert!(error.contains("no chain state"), "{error}");
    }
}
