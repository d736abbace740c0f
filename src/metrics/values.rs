//! Metrics that are looked up when somebody asks.

use std::fmt;
use std::fs;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::label;
use crate::state::State;

/// The values at one moment; what is `None` is left out.
#[derive(Debug, Default)]
pub struct Values {
    /// What the parser is doing.
    pub state: Option<State>,
    /// The node's endpoint in use.
    pub endpoint: Option<String>,
    /// How old the newest block published is.
    pub lag_seconds: Option<f64>,
    /// How many blocks it is behind the node's head.
    pub lag_blocks: Option<u32>,
    /// The node's head.
    pub head: Option<u32>,
    /// The newest block published.
    pub published: Option<u32>,
    /// The time in its header, in milliseconds since 1970.
    pub published_ms: Option<u64>,
    /// The chain's last irreversible block.
    pub irreversible: Option<u32>,
    /// Entries in the stream of dead letters.
    pub dead_letters: Option<u64>,
    /// Entries in the events stream.
    pub stream_length: Option<u64>,
    /// The most it may have; 0 for no limit.
    pub stream_max: u64,
    /// Entries removed that all groups had acknowledged.
    pub trimmed: u64,
    /// Entries removed because the stream was full.
    pub forced: u64,
    /// The consumer groups.
    pub groups: Vec<GroupValues>,
}

/// How far a consumer group is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupValues {
    /// Its name.
    pub name: String,
    /// How many blocks it is behind the newest event.
    pub lag_blocks: u64,
    /// Entries given to it and not acknowledged.
    pub pending: u64,
}

// === impl Values ===

impl Values {
    /// These, and what the process is like now.
    pub(super) fn registry(self, started: Duration) -> Registry {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        registry.register_collector(Box::new(Process { started }));
        registry
    }
}

impl Collector for Values {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let e = &mut encoder;
        let version = [(env!("CARGO_PKG_VERSION"), 1)];
        labelled(e, "parser2_build_info", "The parser's version; always 1", "version", version)?;
        let states = State::ALL.map(|state| (state.as_str(), u64::from(self.state == Some(state))));
        labelled(e, "parser2_state", "1 for what the parser is doing, 0 for the others", "state", states)?;
        let endpoint = self.endpoint.iter().map(|endpoint| (endpoint.as_str(), 1));
        labelled(e, "parser2_node_endpoint_info", "1 for the node in use", "endpoint", endpoint)?;
        let number = |number: Option<u32>| number.map(f64::from);
        let count = |count: u64| Some(count as f64);
        for (name, help, value) in [
            (
                "indexing_lag_seconds",
                "How old the newest block published is, less what is held back on purpose",
                self.lag_seconds,
            ),
            (
                "indexing_lag_blocks",
                "The node's head less the newest block published",
                number(self.lag_blocks),
            ),
            ("head_block", "The node's head, as it says", number(self.head)),
            ("published_block", "The newest block published", number(self.published)),
            (
                "published_block_time_seconds",
                "The time in its header, in seconds since 1970",
                self.published_ms.map(|ms| ms as f64 / 1e3),
            ),
            ("last_irreversible_block", "The chain's last irreversible block", number(self.irreversible)),
            (
                "dead_letter_stream_length",
                "Entries in the stream of dead letters",
                self.dead_letters.and_then(count),
            ),
            ("stream_length", "Entries in the events stream", self.stream_length.and_then(count)),
            ("stream_max_entries", "The most entries it may have; 0 for no limit", count(self.stream_max)),
        ] {
            if let Some(value) = value {
                gauge(e, &format!("parser2_{name}"), help, value)?;
            }
        }
        counter(
            e,
            "parser2_xtrimmed_entries",
            "Entries removed that all groups had acknowledged",
            self.trimmed as f64,
        )?;
        counter(
            e,
            "parser2_xtrim_forced_entries",
            "Entries removed because the stream was full, read or not",
            self.forced as f64,
        )?;
        let lags = self.groups.iter().map(|group| (group.name.as_str(), group.lag_blocks));
        labelled(
            e,
            "parser2_consumer_group_lag_blocks",
            "How many blocks a consumer group is behind the newest event",
            "group",
            lags,
        )?;
        let pending = self.groups.iter().map(|group| (group.name.as_str(), group.pending));
        labelled(
            e,
            "parser2_consumer_group_pending_entries",
            "Entries given to a consumer group and not acknowledged",
            "group",
            pending,
        )
    }
}

/// This process, by the usual names.
#[derive(Debug)]
struct Process {
    started: Duration,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let e = &mut encoder;
        gauge(
            e,
            "process_start_time_seconds",
            "When it was started, since 1970",
            self.started.as_secs_f64(),
        )?;
        if let Some(bytes) = resident_bytes() {
            gauge(e, "process_resident_memory_bytes", "Memory that it has", bytes as f64)?;
        }
        match cpu_seconds() {
            Some(seconds) => counter(e, "process_cpu_seconds", "CPU time that it took", seconds),
            None => Ok(()),
        }
    }
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = status.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which can hold anything, utime and stime are the 12th and 13th field (proc(5)).
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, &sentence(help), None, MetricType::Gauge)?)
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    let counter = ConstCounter::new(value);
    counter.encode(encoder.encode_descriptor(name, &sentence(help), None, MetricType::Counter)?)
}

/// A gauge for each value of a label; nothing at all where there is none.
fn labelled<'v>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    key: &'static str,
    values: impl IntoIterator<Item = (&'v str, u64)>,
) -> fmt::Result {
    let mut values = values.into_iter().peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut family = encoder.encode_descriptor(name, &sentence(help), None, MetricType::Gauge)?;
    for (value, number) in values {
        ConstGauge::new(number).encode(family.encode_family(&label(key, value))?)?;
    }
    Ok(())
}

/// The registry ends its own metrics' help so, too.
fn sentence(help: &str) -> String {
    format!("{help}.")
}
