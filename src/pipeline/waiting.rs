//! Waiting for Redis.

use std::sync::Arc;

use super::ended::RunError;
use crate::backoff::Backoff;
use crate::config::Config;
use crate::keys::Keys;
use crate::monitor::Monitor;
use crate::publish::{Failure, Server, startup};
use crate::ship::node::ExpectedChain;
use crate::state::State;

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
        let backoff = Backoff::new(reconnect.backoff.clone(), reconnect.max_attempts);
        Waiting { backoff, monitor, waiting: None }
    }

    /// Waits after a failure; an error if trying again is no use.
    pub async fn wait(&mut self, failure: Failure) -> Result<(), RunError> {
        let state = match failure {
            Failure::Unfit(text) => return Err(RunError::Unfit(text)),
            Failure::Fatal(text) => return Err(RunError::Failed(text)),
            Failure::LostLease { holder: Some(_) } => State::Standby,
            _ => State::WaitingForRedis,
        };
        self.monitor.set(state, failure.to_string());
        self.waiting = Some(state);
        let Some(wait) = self.backoff.next_wait() else {
            let attempts = self.backoff.attempts();
            return Err(RunError::Failed(format!("gave up after {attempts} attempts: {failure}")));
        };
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Redis answers, and the lease is held: says so if it was waited for.
    pub fn over(&mut self) {
        match self.waiting.take() {
            None => {}
            Some(State::Standby) => self.monitor.disconnected("the lease is free again"),
            Some(_) => {
                self.monitor.metrics.redis_reconnects.inc();
                self.monitor.disconnected("Redis is back");
            }
        }
    }

    /// The chain that was published into the namespace before, if any was.
    pub async fn known_chain(
        &mut self,
        config: &Config,
        server: &Server,
    ) -> Result<Option<ExpectedChain>, RunError> {
        let key = Keys::chain_of(&config.redis.namespace, &config.redis.key_prefix);
        loop {
            match startup::chain(server, &key).await {
                Ok(chain) => {
                    self.over();
                    return Ok(chain.map(|id| ExpectedChain { id, reason: startup::other_chain(&key, id) }));
                }
                Err(failure) => self.wait(failure).await?,
            }
        }
    }
}
