//! What is looked up when somebody asks for the metrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::{LookedUp, View};
use crate::metrics::encode::{counter, gauge, labelled};
use crate::state::State;
use crate::trim;

/// How things are at one moment; what is not known is left out.
#[derive(Debug)]
pub(super) struct Gauges {
    pub view: View,
    pub looked_up: LookedUp,
    pub trim: trim::Status,
    /// The most entries that the stream may have.
    pub max_entries: Option<u64>,
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (e, view) = (&mut encoder, &self.view);
        let version = [(env!("CARGO_PKG_VERSION"), 1)];
        labelled(e, "parser2_build_info", "The parser's version; always 1", "version", version)?;
        let states = State::ALL.map(|state| (state.as_str(), u64::from(view.status.state == state)));
        labelled(e, "parser2_state", "1 for what the parser is doing, 0 for the others", "state", states)?;
        let endpoint = view.endpoint.iter().map(|endpoint| (endpoint.as_str(), 1));
        labelled(e, "parser2_node_endpoint_info", "1 for the node in use", "endpoint", endpoint)?;
        let stream_length = (view.progress.transactions > 0).then_some(view.progress.stream_length);
        let number = |number: Option<u32>| number.map(f64::from);
        let count = |count: u64| Some(count as f64);
        for (name, help, value) in [
            (
                "indexing_lag_seconds",
                "How old the newest block published is, less what is held back on purpose",
                view.lag.map(|lag| lag.as_secs_f64()),
            ),
            (
                "indexing_lag_blocks",
                "The node's head less the newest block published",
                number(view.lag_blocks),
            ),
            ("head_block", "The node's head, as it says", number(view.head)),
            ("published_block", "The newest block published", number(view.block)),
            (
                "published_block_time_seconds",
                "The time in its header, in seconds since 1970",
                view.block_ms.map(|ms| ms as f64 / 1e3),
            ),
            ("last_irreversible_block", "The chain's last irreversible block", number(view.irreversible)),
            (
                "dead_letter_stream_length",
                "Entries in the stream of dead letters",
                self.looked_up.dead_letters.and_then(count),
            ),
            ("stream_length", "Entries in the events stream", stream_length.and_then(count)),
            (
                "stream_max_entries",
                "The most entries it may have; 0 for no limit",
                count(self.max_entries.unwrap_or(0)),
            ),
        ] {
            if let Some(value) = value {
                gauge(e, &format!("parser2_{name}"), help, value)?;
            }
        }
        counter(
            e,
            "parser2_xtrimmed_entries",
            "Entries removed that all groups had acknowledged",
            self.trim.trimmed as f64,
        )?;
        counter(
            e,
            "parser2_xtrim_forced_entries",
            "Entries removed because the stream was full, read or not",
            self.trim.forced as f64,
        )?;
        let lags = self.looked_up.groups.iter().map(|group| (group.name.as_str(), group.lag_blocks));
        labelled(
            e,
            "parser2_consumer_group_lag_blocks",
            "How many blocks a consumer group is behind the newest event",
            "group",
            lags,
        )?;
        let pending = self.looked_up.groups.iter().map(|group| (group.name.as_str(), group.pending));
        labelled(
            e,
            "parser2_consumer_group_pending_entries",
            "Entries given to a consumer group and not acknowledged",
            "group",
            pending,
        )
    }
}
