//! How long to wait before trying again: longer after each failure, and never in step with others.

use std::time::Duration;

/// The waits after one, two, three … failures in a row.
#[derive(Debug, Clone)]
pub struct Backoff {
    steps: Vec<Duration>,
    failures: usize,
}

// === impl Backoff ===

impl Backoff {
    /// Waits of at most these lengths; the last one is for all further failures. None: no wait at all.
    pub fn new(steps: Vec<Duration>) -> Backoff {
        Backoff { steps, failures: 0 }
    }

    /// The wait after one more failure: half of the step to the whole of it, at random, so that many
    /// clients of one node do not come back all at once.
    pub fn next_wait(&mut self) -> Duration {
        let step = self.steps.get(self.failures).or(self.steps.last()).copied().unwrap_or_default();
        self.failures += 1;
        step.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// What was tried works: begin with the first step again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_last_step_and_begin_anew() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new(vec![seconds(1), seconds(4)]);
        for step in [1, 4, 4, 4] {
            let wait = backoff.next_wait();
            assert!(wait >= seconds(step) / 2 && wait <= seconds(step), "{wait:?} of {step} s");
        }
        backoff.reset();
        assert!(backoff.next_wait() <= seconds(1));
        assert_eq!(Backoff::new(Vec::new()).next_wait(), Duration::ZERO);
    }
}
