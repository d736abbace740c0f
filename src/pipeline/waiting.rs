//! Waiting for Redis.

use std::sync::Arc;

use std::time::Duration;

use tracing::info;

use super::ended::RunError;
use crate::backoff::Backoff;
use crate::config::Config;
use crate::keys::Keys;
use crate::monitor::Monitor;
use crate::publish::{Failure, Server, startup};
use crate::ship::node::ExpectedChain;
use crate::state::State;

/// Redis is near, and all stands still without it: it is tried again after that at most.
const LONGEST: Duration = Duration::from_secs(5);

/// Waits between tries to go on with Redis.
pub(super) struct Waiting {
    /// How long; it begins anew where something was published in between.
    pub backoff: Backoff,
    monitor: Arc<Monitor>,
    /// What is waited for; none while nothing is.
    waiting: Option<State>,
}

// === impl Waiting ===

impl Waiting {
    /// Nothing is waited for yet.
    pub fn new(config: &Config, monitor: Arc<Monitor>) -> Waiting {
        let reconnect = &config.reconnect;
        let steps = reconnect.backoff.iter().map(|step| LONGEST.min(*step)).collect();
        let backoff = Backoff::new(steps, reconnect.max_attempts);
        Waiting { backoff, monitor, waiting: None }
    }

    /// Waits after a failure; an error if trying again is no use.
    pub async fn wait(&mut self, failure: Failure) -> Result<(), RunError> {
        match failure {
            Failure::Unfit(text) => return Err(RunError::Unfit(text)),
            Failure::Fatal(text) => return Err(RunError::Failed(text)),
            Failure::LostLease { holder: Some(_) } => self.begin(State::Standby, &failure),
            // A little can be written all the same: that Redis has room again shows with the next block.
            Failure::Refused(_) if failure.is_out_of_memory() => self.monitor.refused(failure.to_string()),
            _ => self.begin(State::WaitingForRedis, &failure),
        }
        let Some(wait) = self.backoff.next_wait() else {
            let attempts = self.backoff.attempts();
            return Err(RunError::Failed(format!("gave up after {attempts} attempts: {failure}")));
        };
        tokio::time::sleep(wait).await;
        Ok(())
    }

    fn begin(&mut self, state: State, failure: &Failure) {
        self.monitor.set(state, failure.to_string());
        self.waiting = Some(state);
    }

    /// Redis answers, and the lease is held: says so if it was waited for.
    pub fn over(&mut self) {
        match self.waiting.take() {
            None => return,
            Some(State::Standby) => info!("the lease is free again"),
            Some(_) => self.monitor.redis_is_back(),
        }
        self.monitor.set(State::Connecting, "");
    }

    /// The chain that was published into the namespace before, if any was.
    pub async fn known_chain(
        &mut self,
        config: &Config,
        server: &Server,
    ) -> Result<Option<ExpectedChain>, RunError> {
        let key = Keys::chain_of(&config.redis.namespace, &config.redis.key_prefix);
        loop {
            let found = async { startup::chain(&mut server.connect_control().await?, &key).await };
            match found.await {
                Ok(chain) => {
                    self.over();
                    return Ok(chain.map(|id| ExpectedChain { id, reason: startup::other_chain(&key, id) }));
                }
                Err(failure) => self.wait(failure).await?,
            }
        }
    }
}
