//! What the page shows, as JSON.

use std::time::Duration;

use serde::Serialize;

use super::health;
use crate::event::{Kind, Reason};
use crate::metrics::Stage;
use crate::monitor::{AbiChange, ForkSeen, Monitor};
use crate::state::Report;
use crate::status::Group;

#[derive(Debug, Serialize)]
pub(super) struct Document {
    #[serde(flatten)]
    report: Report,
    chain_id: Option<String>,
    healthy: bool,
    /// Why not, or why it is in that state.
    health_reason: String,
    lag_threshold_seconds: f64,
    seconds_left: Option<u64>,
    /// A value a second each, oldest first.
    history: History,
    totals: Totals,
    stream: Stream,
    stages: Vec<StageTime>,
    queues: Queues,
    contracts: Vec<Busy>,
    groups: Vec<Group>,
    dead_letters: DeadLetters,
    abi_changes: Vec<AbiChange>,
    forks: Vec<ForkSeen>,
}

#[derive(Debug, Serialize)]
struct History {
    blocks: Vec<f64>,
    events: Vec<f64>,
    lag_seconds: Vec<Option<f64>>,
}

/// In this run.
#[derive(Debug, Serialize)]
struct Totals {
    blocks: u64,
    events: Vec<Count>,
    undecoded: Vec<Count>,
    received_bytes: u64,
    published_bytes: u64,
    forks: u64,
    node_reconnects: u64,
    redis_reconnects: u64,
}

#[derive(Debug, Serialize)]
struct Count {
    name: &'static str,
    count: u64,
}

#[derive(Debug, Serialize)]
struct Stream {
    length: u64,
    max_entries: Option<u64>,
    trimmed: u64,
    forced: u64,
    /// The group that keeps entries from being removed.
    held_by: Option<String>,
}

/// Lately.
#[derive(Debug, Serialize)]
struct StageTime {
    stage: &'static str,
    /// How many blocks, or parts, went through it a second.
    per_second: f64,
    /// How long each took.
    mean_ms: f64,
    /// Seconds in it, of all of them together, a second.
    busy: f64,
}

#[derive(Debug, Serialize)]
struct Queues {
    decode: u64,
    publish: u64,
}

#[derive(Debug, Serialize)]
struct Busy {
    contract: String,
    events: u64,
}

#[derive(Debug, Serialize)]
struct DeadLetters {
    /// Entries in their stream.
    length: Option<u64>,
    /// Those of this run.
    of: Vec<Letter>,
}

#[derive(Debug, Serialize)]
struct Letter {
    contract: String,
    reason: &'static str,
    count: u64,
}

pub(super) fn document(monitor: &Monitor, lag_threshold: Duration) -> Document {
    let view = monitor.view();
    let health = health::health(&view, lag_threshold);
    let looked_up = monitor.looked_up();
    let trim = monitor.trim.borrow().clone();
    let (history, stages) = {
        let samples = monitor.samples();
        let mut history = History { blocks: Vec::new(), events: Vec::new(), lag_seconds: Vec::new() };
        for (blocks, events, lag) in samples.seconds() {
            history.blocks.push(rounded(blocks));
            history.events.push(rounded(events));
            history.lag_seconds.push(lag.map(|lag| rounded(lag.as_secs_f64())));
        }
        (history, samples.stages())
    };
    let stages = Stage::ALL.iter().zip(stages).map(|(stage, (per_second, busy))| StageTime {
        stage: stage.as_str(),
        per_second,
        mean_ms: if per_second > 0.0 { 1e3 * busy / per_second } else { 0.0 },
        busy,
    });
    let metrics = &monitor.metrics;
    let (decode, publish) = metrics.depths();
    let counts = |names: &[&'static str], counters: &[u64]| {
        names.iter().zip(counters).map(|(name, count)| Count { name, count: *count }).collect()
    };
    let recent = monitor.recent();
    Document {
        report: monitor.report(),
        chain_id: monitor.chain_id().map(|chain| chain.to_string()),
        healthy: health.is_ok(),
        health_reason: health.into_reason(),
        lag_threshold_seconds: lag_threshold.as_secs_f64(),
        seconds_left: view.left.map(|left| left.as_secs()),
        history,
        totals: Totals {
            blocks: metrics.blocks.get(),
            events: counts(&Kind::ALL.map(Kind::as_str), &metrics.events.each_ref().map(|c| c.get())),
            undecoded: counts(
                &Reason::ALL.map(Reason::as_str),
                &metrics.failures.each_ref().map(|c| c.get()),
            ),
            received_bytes: metrics.received_bytes.get(),
            published_bytes: metrics.published_bytes.get(),
            forks: metrics.forks.get(),
            node_reconnects: metrics.node_reconnects.get(),
            redis_reconnects: metrics.redis_reconnects.get(),
        },
        stream: Stream {
            length: view.progress.stream_length,
            max_entries: monitor.max_entries(),
            trimmed: trim.trimmed,
            forced: trim.forced,
            held_by: trim.held_by,
        },
        stages: stages.collect(),
        queues: Queues { decode, publish },
        contracts: recent
            .busiest()
            .into_iter()
            .map(|(contract, events)| Busy { contract: contract.to_string(), events })
            .collect(),
        groups: looked_up.groups,
        dead_letters: DeadLetters {
            length: looked_up.dead_letters,
            of: recent
                .dead_letters()
                .into_iter()
                .map(|((contract, reason), count)| Letter {
                    contract: contract.to_string(),
                    reason: reason.as_str(),
                    count,
                })
                .collect(),
        },
        abi_changes: recent.abi_changes().cloned().collect(),
        forks: recent.forks().cloned().collect(),
    }
}

fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
