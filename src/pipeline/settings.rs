//! What the configuration means for the stages.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::RunError;
use super::session::Range;
use crate::abi::Deserializer;
use crate::chain_api::ChainApi;
use crate::config::{self, AbiFallback, Config, WhenFull};
use crate::event::Style;
use crate::history::{Fallback, Override, Says, Since, Version};
use crate::keys::Keys;
use crate::monitor::Monitor;
use crate::plan::Selection;
use crate::publish::{Lease, Server, StreamIds, writer};
use crate::ship::endpoint::Endpoint;
use crate::ship::node::{ExpectedChain, Fetch, Node, NodeOptions};
use crate::trim;

/// A connection to Redis that neither takes nor sends a byte for so long is lost.
const REPLY_LIMIT: Duration = Duration::from_secs(10);

/// See the module's documentation.
pub struct Settings {
    pub server: Server,
    pub stream_ids: StreamIds,
    pub selection: Selection,
    pub style: Style,
    pub overrides: Vec<Override>,
    pub range: Range,
    node: NodeOptions,
    chain_api: Option<ChainApi>,
    abi_fallback: AbiFallback,
    backoff: Vec<Duration>,
    /// Publishing waits while the stream has so many entries.
    pause_at: Option<u64>,
    /// The most entries that the stream may have, whatever happens then.
    pub stream_cap: Option<u64>,
    /// How the stream is trimmed, if it is.
    pub trim: Option<trim::Policy>,
}

// === impl Settings ===

impl Settings {
    /// Takes the configuration apart.
    pub fn new(config: &Config) -> Result<Settings, RunError> {
        let unfit = |error: &dyn std::fmt::Display| RunError::Unfit(error.to_string());
        let chain_api = match (&config.chain.url, config.abi_fallback) {
            (Some(url), AbiFallback::RpcCurrent) => {
                Some(ChainApi::new(url, config.ship.timeout).map_err(|error| unfit(&error))?)
            }
            _ => None,
        };
        Ok(Settings {
            server: server(config)?,
            stream_ids: config.stream_ids.into(),
            selection: selection(config),
            style: style(config),
            overrides: overrides(config)?,
            range: Range {
                start: config.start_block,
                stop: config.stop_block,
                irreversible_only: config.irreversible_only,
            },
            node: node_options(config)?,
            chain_api,
            abi_fallback: config.abi_fallback,
            backoff: config.reconnect.backoff.clone(),
            pause_at: cap(config, WhenFull::Pause),
            stream_cap: config.xtrim.max_entries.filter(|_| config.xtrim.enabled),
            trim: config.xtrim.enabled.then(|| trim::Policy {
                interval: config.xtrim.interval,
                keep_blocks: config.xtrim.keep_blocks,
                force_above: cap(config, WhenFull::Trim),
            }),
        })
    }

    /// The endpoints.
    pub fn node(&self) -> Node {
        Node::new(self.node.clone())
    }

    /// What to do about contracts without a known ABI.
    pub fn fallback(&self, waiting: watch::Sender<Option<String>>) -> Fallback {
        match (&self.chain_api, self.abi_fallback) {
            (_, AbiFallback::Fail) => Fallback::Fail,
            (Some(api), AbiFallback::RpcCurrent) => {
                Fallback::ChainApi { api: api.clone(), backoff: self.backoff.clone(), waiting }
            }
            (None, AbiFallback::RpcCurrent) => Fallback::Publish,
        }
    }

    /// How the writer works.
    pub fn writer(&self, keys: &Keys, lease: &Lease, monitor: Arc<Monitor>) -> writer::Settings {
        writer::Settings {
            keys: keys.clone(),
            token: lease.token().to_owned(),
            stream_ids: self.stream_ids,
            selection: self.selection.mark(),
            pause_at: self.pause_at,
            reply_limit: REPLY_LIMIT,
            monitor,
        }
    }
}

/// The Redis that a configuration names.
pub fn server(config: &Config) -> Result<Server, RunError> {
    let password = config.redis.password.as_ref().map(|password| password.expose());
    Server::new(config.redis.url.as_str(), password).map_err(|error| RunError::Unfit(error.to_string()))
}

/// How the configuration says to reach the node.
pub fn node_options(config: &Config) -> Result<NodeOptions, RunError> {
    let endpoints = config.ship.url.iter().map(|url| url.as_str().parse::<Endpoint>());
    let endpoints =
        endpoints.collect::<Result<Vec<_>, _>>().map_err(|error| RunError::Unfit(error.to_string()))?;
    Ok(NodeOptions {
        endpoints,
        timeout: config.ship.timeout,
        chain: config.chain.id.map(ExpectedChain::configured),
        max_message_bytes: usize::try_from(config.max_message_bytes).unwrap_or(usize::MAX),
        silence: config.ship.silence,
        // Blocks held back are not acknowledged, and must not use the window up.
        window: config.max_messages_in_flight.saturating_add(config.confirmations),
        irreversible_only: config.irreversible_only,
        fetch: Fetch::All,
        backoff: config.reconnect.backoff.clone(),
        max_attempts: config.reconnect.max_attempts.map(|most| u32::try_from(most).unwrap_or(u32::MAX)),
    })
}

/// The stream's cap, if that is what happens at it.
fn cap(config: &Config, when_full: WhenFull) -> Option<u64> {
    config.xtrim.max_entries.filter(|_| config.xtrim.enabled && config.xtrim.when_full == when_full)
}

/// Which events the configuration asks for.
pub fn selection(config: &Config) -> Selection {
    Selection {
        actions: config.publish.actions,
        notifications: config.publish.notifications,
        deltas: config.publish.deltas,
        native_deltas: config.publish.native_deltas,
        blocks: config.publish.blocks && config.filters.blocks(),
        filter: config.filters.clone(),
        ..Selection::default()
    }
}

/// How the configuration asks for them to be written.
pub fn style(config: &Config) -> Style {
    Style {
        deserializer: match (config.deserializer, config.json) {
            (config::Deserializer::Abieos, _) => Deserializer::Abieos,
            (config::Deserializer::Compiled, config::Json::Abieos) => Deserializer::Compiled,
            (config::Deserializer::Compiled, config::Json::Wharfkit) => Deserializer::Wharfkit,
        },
        code_bytes: config.publish.code_bytes,
        no_abi_dead_letters: config.publish.no_abi_dead_letters,
    }
}

/// The ABIs that it puts in place of the chain's.
pub fn overrides(config: &Config) -> Result<Vec<Override>, RunError> {
    let overrides = config.abi.overrides.iter().map(|o| {
        let version = Version::new(Since { block: o.from_block, sequence: Since::BEFORE }, &o.abi);
        if let Says::Bad(bad) = version.says(style(config).deserializer) {
            return Err(RunError::Unfit(format!(
                "abi.overrides: {} for `{}` is no ABI that can be used: {bad}",
                o.file.display(),
                o.contract
            )));
        }
        let blocks = o.from_block..=o.to_block.unwrap_or(u32::MAX);
        Ok(Override { contract: o.contract, blocks, abi: Arc::new(version) })
    });
    overrides.collect()
}
