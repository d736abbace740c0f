//! What a command works on that looks into Redis or mends it: the namespace that a configuration names. No node is needed.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use redis::RedisResult;
use redis::aio::MultiplexedConnection;

use crate::block::Checksum;
use crate::config::{Config, ConfigError};
use crate::keys::Keys;
use crate::pipeline;
use crate::publish::{Failure, Server};

/// `--config FILE`, for commands that need Redis.
#[derive(Debug, Args)]
pub struct ConfigArg {
    /// The configuration file, as for `run`
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

/// `--json`, for commands that print.
#[derive(Debug, Clone, Copy, Args)]
pub struct JsonArg {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// An opened namespace.
pub(super) struct Namespace {
    /// The configuration.
    pub config: Config,
    /// The server.
    pub server: Server,
    /// A connection for commands.
    pub connection: MultiplexedConnection,
    /// The chain that the namespace belongs to.
    pub chain_id: Checksum,
    /// The names of its keys.
    pub keys: Keys,
}

// === impl ConfigArg ===

impl ConfigArg {
    /// Connects, and finds out which chain the namespace belongs to: `NS:chain` says it; before anything was published,
    /// `chain.id` of the configuration.
    pub(super) async fn open(&self) -> Result<Namespace> {
        self.open_as(None).await
    }

    /// Connects, for a chain that is known: the namespace must be its, or nobody's yet.
    pub(super) async fn open_for(&self, chain_id: Checksum) -> Result<Namespace> {
        self.open_as(Some(chain_id)).await
    }

    async fn open_as(&self, chain_id: Option<Checksum>) -> Result<Namespace> {
        let config = Config::load(&self.config)?;
        let server = pipeline::server(&config)?;
        let mut connection = connect(&config, &server).await?;
        let key = Keys::chain_of(&config.redis.namespace, &config.redis.key_prefix);
        let found: Option<String> =
            redis::cmd("GET").arg(&key).query_async(&mut connection).await.map_err(Failure::from)?;
        let chain_id = self::chain_id(&config, &key, found.as_deref(), chain_id)?;
        let keys = Keys::new(&config.redis.namespace, &chain_id, &config.redis.key_prefix);
        check_types(&mut connection, &keys).await?;
        Ok(Namespace { config, server, connection, chain_id, keys })
    }
}

/// A connection to it for commands.
pub(super) async fn connect(config: &Config, server: &Server) -> Result<MultiplexedConnection> {
    server.connect_control().await.with_context(|| config.redis.url.to_string())
}

/// Names a key that something else has written: Redis' own refusals do not.
async fn check_types(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<()> {
    let expected = [
        (&keys.events, "stream"),
        (&keys.dead_parser, "stream"),
        (&keys.forks, "stream"),
        (&keys.replay, "stream"),
        (&keys.sync, "hash"),
        (&keys.blocks, "zset"),
        (&keys.abi_blocks, "zset"),
    ];
    let mut questions = redis::pipe();
    for (key, _) in expected {
        questions.cmd("TYPE").arg(key);
    }
    // Where a user may not ask, the command itself shows it.
    let found: Vec<RedisResult<String>> =
        questions.ignore_errors().query_async(connection).await.map_err(Failure::from)?;
    for ((key, kind), found) in expected.into_iter().zip(found) {
        if let Ok(found) = found
            && found != kind
            && found != "none"
        {
            bail!(
                "the Redis key `{key}` is a {found}, and a {kind} is expected: something else wrote it. Remove it, or use another \
                 redis.namespace"
            );
        }
    }
    Ok(())
}

fn chain_id(config: &Config, key: &str, found: Option<&str>, node: Option<Checksum>) -> Result<Checksum> {
    let (expected, whose) = match node {
        Some(_) => (node, "the node's chain"),
        None => (config.chain.id, "chain.id"),
    };
    let Some(found) = found else {
        return expected.with_context(|| {
            format!(
                "there is no key `{key}` in {}: no parser has published here yet. Run `parser run` first, check redis.url, \
                 redis.namespace and redis.keyPrefix, or give chain.id",
                config.redis.url
            )
        });
    };
    let Ok(chain) = found.parse::<Checksum>() else {
        bail!(
            "the Redis key `{key}` holds `{}`, which is no chain id: something else wrote it. Use another redis.namespace",
            super::table::printable(found)
        );
    };
    match expected {
        Some(id) if id != chain => Err(ConfigError::new(format!(
            "`{key}` in Redis says that this namespace belongs to chain {chain}, but {whose} is {id}: use the \
             redis.namespace of that chain"
        ))
        .into()),
        _ => Ok(chain),
    }
}
