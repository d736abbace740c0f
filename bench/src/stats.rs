//! Repetitions: their middle and how far they lie apart. And numbers as people read them.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The middle of several repetitions, and the least and the highest of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one; of an even number the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

/// Latencies, in nanoseconds.
pub struct Latency(Histogram<u64>);

// === impl Spread ===

impl Spread {
    /// Of at least one repetition.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => values[middle],
            _ => (values[middle - 1] + values[middle]) / 2.0,
        };
        let edge = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
        Spread { median, low: edge(values.first()), high: edge(values.last()) }
    }

    /// How far the repetitions lie from the middle; never less than a twentieth of it, as a few repetitions that happen to
    /// agree prove nothing.
    pub fn noise(&self) -> f64 {
        (self.median - self.low).max(self.high - self.median).max(self.median.abs() / 20.0)
    }
}

// === impl Latency ===

impl Latency {
    /// None yet. Three significant digits, up to a minute.
    pub fn new() -> Latency {
        Latency(Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("valid bounds"))
    }

    /// Adds one.
    pub fn record(&mut self, time: Duration) {
        self.0.saturating_record((time.as_nanos() as u64).max(1));
    }

    /// Adds all of another's.
    pub fn add(&mut self, other: &Latency) {
        self.0 += &other.0;
    }

    /// The time that so many of a hundred stay within, in milliseconds.
    pub fn percentile(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1e6
    }

    /// The mean, in milliseconds.
    pub fn mean(&self) -> f64 {
        self.0.mean() / 1e6
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }
}

/// Three digits that mean something, thousands apart; whole numbers as they are.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if !value.is_finite() => return "–".to_owned(),
        _ if size >= 100.0 || value.fract() == 0.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => (2 - size.log10().floor() as i32).clamp(2, 9) as usize,
    };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{fraction}")
}

/// A number with how far its repetitions lie apart.
pub fn spread(value: &Spread) -> String {
    if value.low == value.high {
        return number(value.median);
    }
    format!("{} ({}–{})", number(value.median), number(value.low), number(value.high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_edges() {
        let odd = Spread::of([3.0, 1.0, 2.0]);
        assert_eq!(odd, Spread { median: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(odd.noise(), 1.0);
        assert_eq!(Spread::of([1.0, 2.0]).median, 1.5);
        // One alone is not without noise.
        assert_eq!(Spread::of([2.0]).noise(), 0.1);
    }

    #[test]
    fn numbers_have_three_digits_that_mean_something() {
        for (value, text) in [
            (1234567.8, "1,234,568"),
            (123.4, "123"),
            (12.34, "12.3"),
            (1.234, "1.23"),
            (0.1234, "0.123"),
            (0.01234, "0.0123"),
            (0.0, "0"),
            (10.0, "10"),
            (-1234.0, "-1,234"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn percentiles_are_in_milliseconds() {
        let mut latency = Latency::new();
        for microseconds in 1..=1000 {
            latency.record(Duration::from_micros(microseconds));
        }
        assert!((latency.percentile(50.0) - 0.5).abs() < 0.002);
        assert!((latency.percentile(99.0) - 0.99).abs() < 0.002);
    }
}
