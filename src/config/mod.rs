//! The configuration: a YAML file, checked as a whole before anything starts.
//!
//! `docs/configuration.md` is the reference for users. The structs below mirror the file: section by section, with
//! the keys in `camelCase`.

mod abi_override;
mod address;
mod effective;
mod error;
mod filters;
mod place;
mod read;
mod substitution;
mod tree;

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tracing::level_filters::LevelFilter;

use crate::block::Checksum;
use crate::filter::Filter;

pub use abi_override::AbiOverride;
pub use address::{CHAIN_API, REDIS, SHIP, Schemes, Secret, ServerUrl};
pub use error::{ConfigError, Problem};
pub use read::{KEYS, StartBlock};
pub use substitution::Environment;

/// A checked configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// Whose output style is kept. Its effects are already in the fields concerned.
    pub compat: Option<Compat>,
    /// The node.
    pub ship: Ship,
    /// The chain and its API.
    pub chain: Chain,
    /// Where events go.
    pub redis: Redis,
    /// Where to begin when there is no checkpoint; `None`: at the node's head.
    pub start_block: Option<StartBlock>,
    /// The last block to publish.
    pub stop_block: Option<u32>,
    /// Only irreversible blocks are asked of the node.
    pub irreversible_only: bool,
    /// How many blocks must follow one before it is published.
    pub confirmations: u32,
    /// Which kinds of events.
    pub publish: Publish,
    /// Which of these.
    pub filters: Filter,
    /// How entries of the stream are numbered.
    pub stream_ids: StreamIds,
    /// How decoded data is written.
    pub json: Json,
    /// Who decodes.
    pub deserializer: Deserializer,
    /// What to do about a contract whose ABI is not in the history.
    pub abi_fallback: AbiFallback,
    /// ABIs given by the user.
    pub abi: Abi,
    /// How many results the node may send ahead of their acknowledgement.
    pub max_messages_in_flight: u32,
    /// The longest message, and frame of one, taken from the node, in bytes.
    pub max_message_bytes: u64,
    /// How many bytes may be between the node's socket and Redis; one message may be larger than that alone.
    pub max_in_flight_bytes: u64,
    /// Decoding.
    pub worker_pool: WorkerPool,
    /// Trimming of the stream.
    pub xtrim: Xtrim,
    /// What to do when a connection is lost.
    pub reconnect: Reconnect,
    /// What is said on the way.
    pub logger: Logger,
    /// The health endpoint.
    pub health: Health,
    /// The metrics endpoint.
    pub metrics: Metrics,
    /// Accepted for files of the TypeScript version; without effect.
    pub no_signal_handlers: bool,
}

/// The TypeScript version's ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compat {
    /// Parser version 2.
    Parser2,
}

/// The node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ship {
    /// Endpoints, tried in turn; at least one.
    pub url: Vec<ServerUrl>,
    /// For connecting and handshake.
    #[serde(rename = "timeoutMs", serialize_with = "effective::millis")]
    pub timeout: Duration,
    /// How long the node may send nothing while its head moves.
    #[serde(rename = "silenceSeconds", serialize_with = "effective::seconds")]
    pub silence: Duration,
}

/// The chain and its API.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chain {
    /// The chain API, for ABIs that are not in the history.
    pub url: Option<ServerUrl>,
    /// The chain that the node must be on.
    #[serde(serialize_with = "effective::option")]
    pub id: Option<Checksum>,
}

/// Where events go.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Redis {
    /// The server.
    pub url: ServerUrl,
    /// Its password; before one in the URL.
    pub password: Option<Secret>,
    /// Put before every key.
    pub key_prefix: String,
    /// The namespace in the keys: one a chain.
    pub namespace: String,
}

/// Which kinds of events are published; `fork` always is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Publish {
    /// `action`.
    pub actions: bool,
    /// `delta`.
    pub deltas: bool,
    /// `native-delta`.
    pub native_deltas: bool,
    /// `block`, which closes each block.
    pub blocks: bool,
    /// Each notification as an action event of its own, besides its name in `notified`.
    pub notifications: bool,
    /// The bytes of codes and ABIs in native deltas, not only their size and hash.
    pub code_bytes: bool,
    /// Data of contracts known to have no ABI goes to the dead letters too.
    pub no_abi_dead_letters: bool,
}

/// How entries of the stream are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamIds {
    /// By block number.
    Block,
    /// By Redis (`*`).
    Auto,
}

/// How decoded data is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Json {
    /// As abieos writes it.
    Abieos,
    /// As @wharfkit/antelope writes it.
    Wharfkit,
}

/// Who decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Deserializer {
    /// ABIs compiled to programs of this project.
    Compiled,
    /// rs_abieos, for comparison.
    Abieos,
}

/// What to do about a contract whose ABI is not in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AbiFallback {
    /// Take the current one from the chain API, where there is one.
    RpcCurrent,
    /// Stop.
    Fail,
}

/// ABIs given by the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Abi {
    /// In no order; ranges of one contract do not overlap.
    pub overrides: Vec<AbiOverride>,
}

/// Decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerPool {
    /// Threads that decode.
    pub max_threads: usize,
}

/// Trimming of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Xtrim {
    /// Whether the parser trims at all.
    pub enabled: bool,
    /// Time between two rounds.
    #[serde(rename = "intervalMs", serialize_with = "effective::millis")]
    pub interval: Duration,
    /// Blocks below the head whose entries stay in any case. Without a consumer group this alone decides; `None`
    /// then trims nothing.
    pub keep_blocks: Option<u32>,
    /// The most entries the stream may have; `None` (0 in the file) for no limit.
    #[serde(serialize_with = "effective::zero_for_none")]
    pub max_entries: Option<u64>,
    /// What to do at that limit.
    pub when_full: WhenFull,
}

/// What to do when the stream has `maxEntries` and no consumer is done with the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// Wait for the consumers.
    Pause,
    /// Trim what they have not read, counted and logged.
    Trim,
}

/// What to do when a connection is lost.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reconnect {
    /// Tries in a row before giving up; `None` (0 in the file): without end.
    #[serde(serialize_with = "effective::zero_for_none")]
    pub max_attempts: Option<u64>,
    /// Waits before the first try, the second and so on; the last one is repeated. At least one.
    #[serde(rename = "backoffSeconds", serialize_with = "effective::seconds_list")]
    pub backoff: Vec<Duration>,
}

/// What is said on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Logger {
    /// The least level shown.
    #[serde(serialize_with = "effective::shown")]
    pub level: LevelFilter,
    /// Lines for people instead of JSON.
    pub pretty: bool,
}

/// The health endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Whether it is served.
    pub enabled: bool,
    /// On which address.
    pub host: String,
    /// On which port.
    pub port: u16,
    /// The lag above which it answers "unhealthy".
    #[serde(rename = "lagThresholdSeconds", serialize_with = "effective::seconds")]
    pub lag_threshold: Duration,
}

/// The metrics endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Metrics {
    /// Whether it is served.
    pub enabled: bool,
    /// On which address.
    pub host: String,
    /// On which port.
    pub port: u16,
}

// === impl Config ===

impl Config {
    /// Reads and checks a file, with the environment of this process.
    pub fn load(file: &Path) -> Result<Config, ConfigError> {
        let yaml =
            std::fs::read(file).map_err(|error| ConfigError::new(format!("{}: {error}", file.display())))?;
        let yaml = String::from_utf8(yaml)
            .map_err(|_| ConfigError::new(format!("{}: not valid UTF-8", file.display())))?;
        let folder = file.parent().unwrap_or(Path::new(""));
        Config::parse(&yaml, folder, &|name| std::env::var(name)).map_err(|error| error.in_file(file))
    }

    /// Reads and checks a text. Files named in it are looked for from `folder`.
    pub fn parse(yaml: &str, folder: &Path, environment: Environment<'_>) -> Result<Config, ConfigError> {
        read::config(yaml, folder, environment)
    }

    /// The whole configuration, defaults included, as YAML with secrets masked.
    pub fn effective(&self) -> String {
        serde_saphyr::to_string(self).unwrap_or_else(|error| format!("# cannot be written: {error}\n"))
    }

    /// What is accepted but has no effect, or not the one that might be expected: to be said once at start.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut warn = |when: bool, text: &str| {
            if when {
                warnings.push(text.to_owned());
            }
        };
        warn(
            self.no_signal_handlers,
            "noSignalHandlers has no effect: SIGINT and SIGTERM always end the parser in good order",
        );
        warn(
            self.publish.blocks && !self.filters.blocks(),
            "publish.blocks has no effect: the filters let no block event pass (include `{kind: block}`)",
        );
        warnings.extend(filters::unknown_tables(&self.filters));
        warnings
    }
}
