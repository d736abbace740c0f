//! Waiting for Redis.

use tracing::{info, warn};

use super::ended::RunError;
use crate::backoff::Backoff;
use crate::config::Config;
use crate::keys::Keys;
use crate::publish::{Failure, Server, startup};
use crate::ship::node::ExpectedChain;

/// Waits between tries to go on with Redis.
pub(super) struct Waiting {
    /// How long; it begins anew where something was published in between.
    pub backoff: Backoff,
    /// What is waited for, as it was said.
    reason: Option<String>,
}

// === impl Waiting ===

impl Waiting {
    /// Nothing is waited for yet.
    pub fn new(config: &Config) -> Waiting {
        let reconnect = &config.reconnect;
        Waiting { backoff: Backoff::new(reconnect.backoff.clone(), reconnect.max_attempts), reason: None }
    }

    /// Waits after a failure; an error if trying again is no use.
    pub async fn wait(&mut self, failure: Failure) -> Result<(), RunError> {
        match failure {
            Failure::Unfit(text) => return Err(RunError::Unfit(text)),
            Failure::Fatal(text) => return Err(RunError::Failed(text)),
            Failure::LostLease { .. } => warn!(reason = %failure, "writing has stopped"),
            _ => {
                let reason = failure.to_string();
                if self.reason.as_ref() != Some(&reason) {
                    warn!(reason, "waiting for Redis");
                    self.reason = Some(reason);
                }
            }
        }
        let Some(wait) = self.backoff.next_wait() else {
            let attempts = self.backoff.attempts();
            return Err(RunError::Failed(format!("gave up after {attempts} attempts: {failure}")));
        };
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Redis answers: says so if it was waited for.
    pub fn over(&mut self) {
        if self.reason.take().is_some() {
            info!("Redis is back");
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
