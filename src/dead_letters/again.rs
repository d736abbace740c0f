//! What a dead letter gives when it is decoded again, with the ABI history and the configuration as they are now.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;

use super::{Letter, PARSER, Undone};
use crate::block::Checksum;
use crate::config::Config;
use crate::event::{Past, StillUndecoded, Style, Undecodable};
use crate::history::{InForce, PastAbis, Since, Store, StoreError};
use crate::keys::Keys;
use crate::pipeline::{self, RunError};
use crate::plan::Selection;
use crate::publish::Failure;

/// Why rows of the node's own tables cannot be decoded again, and what to do.
pub const NATIVE: &str = "rows of the node's own tables are read with the ABI of the node that sent them, which is not kept. Once node \
                          and program agree on them, publish their blocks anew (`parser run` with another \
                          `redis.namespace`), or remove the letters (`dead-letters purge`)";

/// Decodes letters of one subscription again.
pub struct Again {
    chain_id: Checksum,
    /// Whether they are the parser's own.
    own: bool,
    selection: Selection,
    style: Style,
    abis: PastAbis,
    undone: Undone,
}

/// What becomes of a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Now {
    /// It can be published.
    Event {
        /// The event.
        event: String,
        /// Its id.
        event_id: String,
        /// Its block's id.
        block_id: String,
    },
    /// Its data cannot be decoded now either.
    Still(StillUndecoded),
    /// It is a row of the node's own tables ([`NATIVE`]).
    Native,
    /// Its block was undone by a fork.
    Undone,
    /// The configuration does not publish such events any more.
    Filtered,
    /// It cannot be published for this reason.
    Unfit(String),
}

/// Why decoding again cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum AgainError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] RunError),
    /// Redis failed.
    #[error(transparent)]
    Redis(#[from] Failure),
    /// The ABI history cannot be read.
    #[error(transparent)]
    History(#[from] StoreError),
}

// === impl Again ===

impl Again {
    /// For the letters of `subscription`.
    pub async fn new(
        config: &Config,
        mut connection: MultiplexedConnection,
        keys: &Keys,
        chain_id: Checksum,
        subscription: &str,
    ) -> Result<Again, AgainError> {
        let undone = Undone::load(&mut connection, keys).await?;
        let store = Store::new(connection, Arc::new(keys.clone()));
        Ok(Again {
            chain_id,
            own: subscription == PARSER,
            selection: pipeline::selection(config),
            style: pipeline::style(config),
            abis: PastAbis::new(store, pipeline::overrides(config)?),
            undone,
        })
    }

    /// Decodes one.
    pub async fn letter(&mut self, letter: &Letter) -> Result<Now, AgainError> {
        let event = match letter.event(&self.chain_id) {
            Ok(event) => event,
            Err(error) => return Ok(Now::Unfit(error.to_string())),
        };
        if event.is_control() {
            return Ok(Now::Unfit(format!(
                "a `{}` event means something in its own place only",
                event.kind()
            )));
        }
        if self.undone.contains(letter.id, event.block_id(), self.own) {
            return Ok(Now::Undone);
        }
        if !event.passes(&self.selection) {
            return Ok(Now::Filtered);
        }
        if !event.is_undecoded() {
            return Ok(Now::event(&event, event.as_it_is()));
        }
        let in_force = self.in_force(&event).await?;
        Ok(match event.decode(&self.style, &in_force) {
            Ok(text) => Now::event(&event, text),
            Err(Undecodable::Native) => Now::Native,
            Err(Undecodable::Still(still)) => Now::Still(still),
            Err(Undecodable::Past(error)) => Now::Unfit(error.to_string()),
        })
    }

    /// When the ABI that an event is decoded with came into force, if there is one.
    pub async fn version(&mut self, event: &Past<'_>) -> Result<Option<Since>, AgainError> {
        let in_force = self.in_force(event).await?;
        Ok(event.version(&in_force).map(|version| version.since))
    }

    async fn in_force(&mut self, event: &Past<'_>) -> Result<InForce, StoreError> {
        match event.contract() {
            Some(contract) => self.abis.in_force(contract, event.block_num()).await,
            None => Ok(InForce::default()),
        }
    }
}

// === impl Now ===

impl Now {
    fn event(past: &Past<'_>, event: String) -> Now {
        Now::Event { event, event_id: past.event_id().to_owned(), block_id: past.block_id().to_owned() }
    }
}
