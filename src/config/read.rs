//! The way from the YAML tree to [`Config`]: which keys there are, their defaults, and what must fit together.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};
use tracing::level_filters::LevelFilter;

use super::address::{self, Secret, ServerUrl};
use super::error::ConfigError;
use super::place::{self, Place};
use super::substitution::Environment;
use super::{
    Abi, AbiFallback, Chain, Compat, Config, Deserializer, Health, Json, Logger, Metrics, Publish, Reconnect,
    Redis, Ship, StreamIds, WhenFull, WorkerPool, Xtrim, abi_override, filters, tree,
};

/// Every key of the file, in full.
pub const KEYS: &[&str] = &[
    "compat",
    "ship.url",
    "ship.timeoutMs",
    "ship.silenceSeconds",
    "chain.url",
    "chain.id",
    "redis.url",
    "redis.password",
    "redis.keyPrefix",
    "redis.namespace",
    "startBlock",
    "stopBlock",
    "irreversibleOnly",
    "confirmations",
    "publish.actions",
    "publish.deltas",
    "publish.nativeDeltas",
    "publish.blocks",
    "publish.notifications",
    "publish.codeBytes",
    "publish.noAbiDeadLetters",
    "filters.include",
    "filters.exclude",
    "streamIds",
    "json",
    "deserializer",
    "abiFallback",
    "abi.overrides",
    "maxMessagesInFlight",
    "maxMessageBytes",
    "maxInFlightBytes",
    "workerPool.maxThreads",
    "xtrim.enabled",
    "xtrim.intervalMs",
    "xtrim.keepBlocks",
    "xtrim.maxEntries",
    "xtrim.whenFull",
    "reconnect.maxAttempts",
    "reconnect.backoffSeconds",
    "logger.level",
    "logger.pretty",
    "health.enabled",
    "health.host",
    "health.port",
    "health.lagThresholdSeconds",
    "metrics.enabled",
    "metrics.host",
    "metrics.port",
    "noSignalHandlers",
];

/// Blocks held back are kept in memory.
const MOST_CONFIRMATIONS: u64 = 1000;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Where to begin when there is no checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartBlock {
    /// At this block.
    Number(u32),
    /// At the first block the node has.
    First,
}

/// A text that is neither a block number nor `first`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a block number from 1 nor `first` (the first block the node has)")]
pub struct StartBlockError(String);

// === impl StartBlock ===

impl FromStr for StartBlock {
    type Err = StartBlockError;

    fn from_str(text: &str) -> Result<StartBlock, StartBlockError> {
        match text.parse() {
            Ok(number) if number > 0 => Ok(StartBlock::Number(number)),
            _ if text == "first" => Ok(StartBlock::First),
            _ => Err(StartBlockError(text.to_owned())),
        }
    }
}

impl fmt::Display for StartBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartBlock::Number(number) => write!(f, "{number}"),
            StartBlock::First => f.write_str("first"),
        }
    }
}

impl Serialize for StartBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            StartBlock::Number(number) => serializer.serialize_u32(*number),
            StartBlock::First => serializer.serialize_str("first"),
        }
    }
}

/// Reads a whole configuration.
pub(super) fn config(yaml: &str, folder: &Path, environment: Environment<'_>) -> Result<Config, ConfigError> {
    let mut problems = Vec::new();
    let root = tree::read(yaml, environment, &mut problems);
    let problems = RefCell::new(problems);
    let root = match root {
        Ok(root) => root,
        Err(syntax) => {
            problems.borrow_mut().push(syntax);
            return Err(ConfigError::several(problems.into_inner()));
        }
    };
    let top = Place::top(&root, &problems);
    unknown_keys(&top, "");
    let config = sections(&top, folder);
    if let Some(config) = &config {
        check(&top, config);
    }
    match (config, problems.into_inner()) {
        (Some(config), problems) if problems.is_empty() => Ok(config),
        (_, problems) => Err(ConfigError::several(problems)),
    }
}

/// Notes every key that is not in [`KEYS`], with the most likely meant one.
fn unknown_keys(place: &Place<'_>, prefix: &str) {
    for (key, line) in place.keys() {
        let path = format!("{prefix}{key}");
        let section = format!("{path}.");
        if KEYS.contains(&path.as_str()) {
            continue;
        }
        if KEYS.iter().any(|known| known.starts_with(&section)) {
            unknown_keys(&place.at(key), &section);
            continue;
        }
        // A key in the wrong section is more likely meant than one that is spelled alike.
        let elsewhere = KEYS.iter().copied().find(|known| known.rsplit('.').next() == Some(key));
        let sections = KEYS.iter().map(|known| known.split_once('.').map_or(*known, |(section, _)| section));
        let near = elsewhere
            .or_else(|| place::nearest(&path, KEYS.iter().copied()))
            .or_else(|| place::nearest(&path, sections));
        let hint = near.map_or_else(
            || "see docs/configuration.md for all keys".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        place.unknown_key(&path, line, &hint);
    }
}

/// `None` only where something required is missing or wrong, which is noted then.
fn sections(top: &Place<'_>, folder: &Path) -> Option<Config> {
    let compat = top.at("compat").choice(&[("parser2", Some(Compat::Parser2)), ("none", None)]).flatten();
    let as_parser2 = compat == Some(Compat::Parser2);
    let deserializer = top.at("deserializer").choice(&[
        ("compiled", (Deserializer::Compiled, false)),
        ("abieos", (Deserializer::Abieos, false)),
        ("wharfkit", (Deserializer::Compiled, true)),
    ]);
    let (deserializer, as_wharfkit) = deserializer.unwrap_or((Deserializer::Compiled, false));
    let json = top.at("json").choice(&[("abieos", Json::Abieos), ("wharfkit", Json::Wharfkit)]);
    let json = json.unwrap_or(if as_parser2 || as_wharfkit { Json::Wharfkit } else { Json::Abieos });
    let stream_ids = top.at("streamIds").choice(&[("block", StreamIds::Block), ("auto", StreamIds::Auto)]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = top.at("workerPool.maxThreads").number(1..=1024).and_then(|n| usize::try_from(n).ok());

    let confirmations = top.at("confirmations").number(0..=MOST_CONFIRMATIONS);
    let confirmations = confirmations.and_then(|blocks| u32::try_from(blocks).ok()).unwrap_or(0);

    let ship = ship(top);
    let redis = redis(top);
    Some(Config {
        compat,
        chain: Chain { url: top.at("chain.url").url(address::CHAIN_API), id: top.at("chain.id").parsed() },
        start_block: top.at("startBlock").parsed(),
        stop_block: top.at("stopBlock").number32(1),
        irreversible_only: top.at("irreversibleOnly").bool().unwrap_or(false),
        confirmations,
        publish: publish(top, as_parser2),
        filters: filters::read(top),
        stream_ids: stream_ids.unwrap_or(if as_parser2 { StreamIds::Auto } else { StreamIds::Block }),
        json,
        deserializer,
        abi_fallback: top
            .at("abiFallback")
            .choice(&[("rpc-current", AbiFallback::RpcCurrent), ("fail", AbiFallback::Fail)])
            .unwrap_or(AbiFallback::RpcCurrent),
        abi: Abi { overrides: abi_override::read(&top.at("abi.overrides"), folder) },
        max_messages_in_flight: top.at("maxMessagesInFlight").number32(1).unwrap_or(256),
        max_message_bytes: top.at("maxMessageBytes").number(MIB..=u64::MAX).unwrap_or(16 * GIB),
        max_in_flight_bytes: top.at("maxInFlightBytes").number(MIB..=u64::MAX).unwrap_or(256 * MIB),
        worker_pool: WorkerPool { max_threads: threads.unwrap_or(cores) },
        xtrim: xtrim(top),
        reconnect: reconnect(top),
        logger: Logger {
            level: top.at("logger.level").choice(LEVELS).unwrap_or(LevelFilter::INFO),
            pretty: top.at("logger.pretty").bool().unwrap_or(false),
        },
        health: Health {
            enabled: top.at("health.enabled").bool().unwrap_or(false),
            host: host(&top.at("health.host")),
            port: port(&top.at("health.port"), 9090),
            lag_threshold: top.at("health.lagThresholdSeconds").seconds().unwrap_or(Duration::from_secs(30)),
        },
        metrics: Metrics {
            enabled: top.at("metrics.enabled").bool().unwrap_or(false),
            host: host(&top.at("metrics.host")),
            port: port(&top.at("metrics.port"), 9100),
        },
        no_signal_handlers: top.at("noSignalHandlers").bool().unwrap_or(false),
        ship: ship?,
        redis: redis?,
    })
}

/// `fatal` and `silent` are levels of the TypeScript version's logger.
const LEVELS: &[(&str, LevelFilter)] = &[
    ("trace", LevelFilter::TRACE),
    ("debug", LevelFilter::DEBUG),
    ("info", LevelFilter::INFO),
    ("warn", LevelFilter::WARN),
    ("error", LevelFilter::ERROR),
    ("fatal", LevelFilter::ERROR),
    ("silent", LevelFilter::OFF),
    ("off", LevelFilter::OFF),
];

fn ship(top: &Place<'_>) -> Option<Ship> {
    let url = top.at("ship.url");
    url.require();
    let items = url.items(true);
    if url.is_given() && items.is_empty() {
        url.problem("at least one URL is expected");
    }
    for item in &items {
        if url.is_given() && !item.is_given() {
            item.problem("is empty");
        }
    }
    let mut urls: Vec<ServerUrl> = Vec::new();
    for item in &items {
        let Some(url) = item.url(address::SHIP) else { continue };
        // What is the same twice would be counted as two nodes to turn to.
        if urls.iter().any(|other| other.is_same(&url)) {
            item.problem(format!("`{url}` is given twice: each node is named once"));
        }
        urls.push(url);
    }
    let timeout = top.at("ship.timeoutMs").millis().unwrap_or(Duration::from_secs(10));
    let silence = top.at("ship.silenceSeconds").seconds().unwrap_or(Duration::from_secs(30));
    if silence.is_zero() {
        top.at("ship.silenceSeconds").problem("must be more than 0");
    }
    (!urls.is_empty()).then_some(Ship { url: urls, timeout, silence })
}

fn redis(top: &Place<'_>) -> Option<Redis> {
    let url = top.at("redis.url");
    url.require();
    let password = top.at("redis.password");
    let text = password.given();
    if text.is_some_and(|text| !text.is_env(0..text.text.len())) {
        password.problem(
            "a password must not be written out here: put it into an environment variable and name that, \
             `${REDIS_PASSWORD}`",
        );
    }
    let namespace = top.at("redis.namespace");
    let name = namespace.given().map_or("parser2", |text| text.text.as_str());
    if name.contains(|c: char| c.is_whitespace() || c.is_control() || c == ':') {
        namespace
            .problem("must not hold spaces, control characters or `:`, which separates the parts of a key");
    }
    let prefix = top.at("redis.keyPrefix");
    let key_prefix = prefix.given().map_or("", |text| text.text.as_str());
    if key_prefix.contains(|c: char| c.is_whitespace() || c.is_control()) {
        prefix.problem("must not hold spaces or control characters");
    }
    Some(Redis {
        url: url.url(address::REDIS)?,
        password: text.map(|text| Secret::new(text.text.clone())),
        key_prefix: key_prefix.to_owned(),
        namespace: name.to_owned(),
    })
}

fn publish(top: &Place<'_>, as_parser2: bool) -> Publish {
    let given = |key, default| top.at(key).bool().unwrap_or(default);
    Publish {
        actions: given("publish.actions", true),
        deltas: given("publish.deltas", true),
        native_deltas: given("publish.nativeDeltas", true),
        blocks: given("publish.blocks", false),
        notifications: given("publish.notifications", as_parser2),
        code_bytes: given("publish.codeBytes", false),
        no_abi_dead_letters: given("publish.noAbiDeadLetters", false),
    }
}

fn xtrim(top: &Place<'_>) -> Xtrim {
    let max_entries = top.at("xtrim.maxEntries").number(0..=u64::MAX).unwrap_or(10_000_000);
    Xtrim {
        enabled: top.at("xtrim.enabled").bool().unwrap_or(true),
        interval: top.at("xtrim.intervalMs").millis().unwrap_or(Duration::from_secs(60)),
        keep_blocks: top.at("xtrim.keepBlocks").number32(0),
        max_entries: Some(max_entries).filter(|entries| *entries > 0),
        when_full: top
            .at("xtrim.whenFull")
            .choice(&[("pause", WhenFull::Pause), ("trim", WhenFull::Trim)])
            .unwrap_or(WhenFull::Pause),
    }
}

fn reconnect(top: &Place<'_>) -> Reconnect {
    let attempts = top.at("reconnect.maxAttempts");
    let endless =
        attempts.given().is_some_and(|text| matches!(text.text.as_str(), "-1" | ".inf" | "Infinity"));
    let max_attempts = if endless { None } else { attempts.number(0..=u64::MAX) };
    let steps = top.at("reconnect.backoffSeconds");
    let items = steps.items(true);
    if steps.is_given() && items.is_empty() {
        steps.problem("at least one number of seconds is expected");
    }
    let backoff: Vec<Duration> = items.iter().filter_map(Place::seconds).collect();
    let backoff =
        if backoff.is_empty() { [1, 2, 5, 15, 60].map(Duration::from_secs).to_vec() } else { backoff };
    Reconnect { max_attempts: max_attempts.filter(|attempts| *attempts > 0), backoff }
}

/// Where to listen: on this machine alone unless told otherwise.
fn host(place: &Place<'_>) -> String {
    let host = place.given().map_or("127.0.0.1", |text| text.text.as_str());
    // In brackets an IPv6 address stands in URLs; sockets know it without.
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let is_name = |host: &str| host.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-'));
    if host.parse::<std::net::IpAddr>().is_err() && !is_name(host) {
        place.problem("an IP address or a host name is expected, without a port: 127.0.0.1, or 0.0.0.0 for all addresses");
    }
    host.to_owned()
}

fn port(place: &Place<'_>, default: u16) -> u16 {
    place.number(1..=65535).and_then(|port| u16::try_from(port).ok()).unwrap_or(default)
}

/// What must fit together.
fn check(top: &Place<'_>, config: &Config) {
    if config.json == Json::Wharfkit && config.deserializer == Deserializer::Abieos {
        let by = if top.at("json").is_given() { "`json: wharfkit`" } else { "`compat: parser2`" };
        top.at("deserializer").problem(format!(
            "`abieos` writes `json: abieos` only, and {by} asks for the other style: leave `deserializer` away, \
             or set `json: abieos`"
        ));
    }
    if let (Some(StartBlock::Number(start)), Some(stop)) = (config.start_block, config.stop_block)
        && start > stop
    {
        top.at("startBlock").problem(format!(
            "reading would begin with block {start}, which is above the last block to publish ({stop})"
        ));
    }
    if config.max_message_bytes > usize::MAX as u64 {
        top.at("maxMessageBytes").problem("is more than this machine can address");
    }
}
