//! Growing, jittered waits between tries, so that many clients do not come back in step.

use std::time::Duration;

/// Waits between tries: one step after the other, the last one again and again.
#[derive(Debug, Clone)]
pub struct Backoff {
    steps: Vec<Duration>,
    max_attempts: Option<u64>,
    attempts: u64,
}

/// Each wait is this part shorter or longer than its step, at most.
const JITTER: f64 = 0.2;

// === impl Backoff ===

impl Backoff {
    /// Waits of `steps` (none: no waiting), given up after `max_attempts`, or never.
    pub fn new(steps: Vec<Duration>, max_attempts: Option<u64>) -> Backoff {
        Backoff { steps, max_attempts, attempts: 0 }
    }

    /// How long to wait before the next try; `None` when it is time to give up.
    pub fn next_wait(&mut self) -> Option<Duration> {
        if self.max_attempts.is_some_and(|most| self.attempts >= most) {
            return None;
        }
        let at = usize::try_from(self.attempts).unwrap_or(usize::MAX).min(self.steps.len().saturating_sub(1));
        let step = self.steps.get(at).copied().unwrap_or_default();
        self.attempts += 1;
        Some(step.mul_f64(1.0 - JITTER + 2.0 * JITTER * fastrand::f64()))
    }

    /// How many tries there were since the last [`reset`](Backoff::reset).
    pub fn attempts(&self) -> u64 {
        self.attempts
    }

    /// A try succeeded: the next wait is the first step again.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(wait: Option<Duration>, seconds: f64) {
        let wait = wait.expect("no limit").as_secs_f64();
        assert!((seconds * 0.799..=seconds * 1.201).contains(&wait), "{wait} is not near {seconds}");
    }

    #[test]
    fn waits_follow_the_steps_and_stay_at_the_last() {
        let mut backoff = Backoff::new([1, 2, 5].map(Duration::from_secs).to_vec(), None);
        for seconds in [1.0, 2.0, 5.0, 5.0, 5.0] {
            assert_near(backoff.next_wait(), seconds);
        }
        assert_eq!(backoff.attempts(), 5);
        backoff.reset();
        assert_near(backoff.next_wait(), 1.0);
    }

    #[test]
    fn waits_differ() {
        let mut backoff = Backoff::new(vec![Duration::from_secs(60)], None);
        let waits: Vec<_> = (0..20).map(|_| backoff.next_wait()).collect();
        assert!(waits.iter().any(|wait| *wait != waits[0]));
    }

    #[test]
    fn a_limit_ends_it_until_reset() {
        let mut backoff = Backoff::new(vec![Duration::from_secs(1)], Some(2));
        assert!(backoff.next_wait().is_some() && backoff.next_wait().is_some());
        assert_eq!(backoff.next_wait(), None);
        backoff.reset();
        assert!(backoff.next_wait().is_some());
        assert_eq!(Backoff::new(vec![], None).next_wait(), Some(Duration::ZERO));
    }
}
