//! Metrics that are looked up when somebody asks, as the library's registry writes its own.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::label;

/// One that rises and falls.
pub fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, &sentence(help), None, MetricType::Gauge)?)
}

/// One that only rises.
pub fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    let counter = ConstCounter::new(value);
    counter.encode(encoder.encode_descriptor(name, &sentence(help), None, MetricType::Counter)?)
}

/// A gauge for each value of a label; nothing at all where there is none.
pub fn labelled<'v>(
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
