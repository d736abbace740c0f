//! `parser abi preload`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use redis::aio::MultiplexedConnection;
use tracing::{info, warn};

use crate::chain_api::ChainApi;
use crate::cli::namespace::{ConfigArg, JsonArg, Namespace};
use crate::cli::progress::Counter;
use crate::cli::table::{grouped, print_json};
use crate::cli::{block_on, contract, log_to_people};
use crate::config::{Config, ConfigError};
use crate::history::put;
use crate::keys::Keys;
use crate::name::Name;
use crate::pipeline::{self, RunError};
use crate::preload::{Outcome, accounts, files, ship};
use crate::ship::node::{ExpectedChain, Fetch, Node};
use crate::shutdown::Shutdown;

/// `parser abi preload`
#[derive(Debug, Args)]
pub struct PreloadArgs {
    #[command(flatten)]
    config: ConfigArg,
    #[command(flatten)]
    source: SourceArg,
    /// With --ship: the first block
    #[arg(long, value_name = "A", requires = "ship")]
    from: Option<u32>,
    /// With --ship: the last block
    #[arg(long, value_name = "B", requires = "ship")]
    to: Option<u32>,
    /// Put new ABIs without block in the place of older ones; those learned from blocks stay in any case
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    output: JsonArg,
}

/// Where from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct SourceArg {
    /// The chain API (chain.url): the ABIs that these accounts have now
    #[arg(value_name = "CONTRACT", value_parser = contract)]
    contracts: Vec<Name>,
    /// The chain API: all contracts with a history or with dead letters here
    #[arg(long)]
    seen: bool,
    /// The files CONTRACT.abi, CONTRACT.json and CONTRACT.hex of a directory
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Lines of JSON, {account, block, abi | abi_hex}: what an account had at the end of a block; `-` for stdin
    #[arg(long, value_name = "FILE")]
    ndjson: Option<PathBuf>,
    /// The node (ship.url): the account rows of the blocks --from to --to; started again, it goes on where it was stopped
    #[arg(long, requires = "from", requires = "to")]
    ship: bool,
}

pub(super) fn run(args: PreloadArgs) -> Result<()> {
    log_to_people()?;
    block_on(async {
        let shutdown = Shutdown::on_signals()?;
        let json = args.output.json;
        let mut opened = None;
        let ended = tokio::select! {
            outcome = preload(args, &mut opened) => Some(outcome),
            () = shutdown.requested() => None,
        };
        let told = match opened {
            Some((mut connection, keys)) => put::tell(&mut connection, &keys).await,
            None => Ok(()),
        };
        let outcome =
            ended.context("stopped: what was read so far is in the history; the same call goes on")??;
        told?;
        if json {
            print_json(&outcome)?;
        } else {
            let more = [(outcome.contradicting, "contradicting"), (outcome.failed, "failed")];
            let more: String = more
                .into_iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!(", {} {what}", grouped(count)))
                .collect();
            writeln!(
                io::stdout(),
                "{} ABIs added, {} known already{more}.",
                grouped(outcome.added),
                grouped(outcome.known)
            )?;
        }
        if outcome.failed > 0 || outcome.contradicting > 0 {
            bail!("not all ABIs are in the history");
        }
        Ok(())
    })
}

/// Where ABIs are put.
type Opened = Option<(MultiplexedConnection, Keys)>;

/// What was `opened` for it is to be told of what was put, however it ends.
async fn preload(args: PreloadArgs, opened: &mut Opened) -> Result<Outcome> {
    let PreloadArgs { config, source, from, to, replace, .. } = args;
    if let (true, Some(from), Some(to)) = (source.ship, from, to) {
        return from_ship(&config, ship::Range { from, to }, opened).await;
    }
    let mut namespace = config.open().await?;
    put::claim(&mut namespace.connection, &namespace.keys, &namespace.chain_id).await?;
    *opened = Some((namespace.connection.clone(), namespace.keys.clone()));
    if let Some(folder) = source.directory {
        let failed = |text| warn!("{text}");
        return files::directory(&mut namespace.connection, &namespace.keys, &folder, replace, failed).await;
    }
    if let Some(file) = source.ndjson {
        let mut counter = Counter::new("reading line", None);
        let progress = |line, wrong: Option<String>| {
            if let Some(wrong) = wrong {
                warn!("{wrong}");
            }
            counter.at(line, "");
        };
        let (connection, keys) = (&mut namespace.connection, &namespace.keys);
        let outcome = files::lines(connection, keys, lines_of(&file)?, progress).await;
        counter.finish();
        return outcome.with_context(|| file.display().to_string());
    }
    from_chain_api(&mut namespace, source, replace).await
}

fn lines_of(file: &Path) -> Result<Box<dyn BufRead>> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(BufReader::new(File::open(file).with_context(|| file.display().to_string())?)))
}

async fn from_chain_api(namespace: &mut Namespace, source: SourceArg, replace: bool) -> Result<Outcome> {
    let config = &namespace.config;
    let Some(url) = &config.chain.url else {
        return Err(ConfigError::new(
            "chain.url is not given: ABIs of accounts are asked for there".to_owned(),
        )
        .into());
    };
    let api = ChainApi::new(url, config.ship.timeout).map_err(|error| ConfigError::new(error.to_string()))?;
    let (connection, keys) = (&mut namespace.connection, &namespace.keys);
    let contracts = match source.seen {
        true => accounts::met(connection, keys).await?,
        false => source.contracts,
    };
    let mut counter = Counter::new("asking the chain API", Some(contracts.len() as u64));
    let progress = |asked, wrong: Option<String>| {
        if let Some(wrong) = wrong {
            warn!("{wrong}");
        }
        counter.at(asked, "");
    };
    let outcome = accounts::preload(connection, keys, &api, contracts, replace, progress).await;
    counter.finish();
    Ok(outcome?)
}

async fn from_ship(config: &ConfigArg, range: ship::Range, opened: &mut Opened) -> Result<Outcome> {
    if range.from > range.to {
        return Err(ConfigError::new(format!("--from {} is above --to {}", range.from, range.to)).into());
    }
    let mut options = pipeline::node_options(&Config::load(&config.config)?)?;
    options.fetch = Fetch::Deltas;
    // No fork takes back what is read here.
    options.irreversible_only = true;
    let mut node = Node::new(options);
    let first = node.connect().await.map_err(RunError::from)?;
    node.expect_chain(ExpectedChain::published(first.chain_id()));
    let mut namespace = config.open_for(first.chain_id()).await?;
    let (connection, keys) = (&mut namespace.connection, &namespace.keys);
    put::claim(connection, keys, &namespace.chain_id).await?;
    *opened = Some((connection.clone(), keys.clone()));
    if let Some(next) = ship::place(connection, keys, range).await? {
        info!(block = next, "going on where an earlier call for these blocks has stopped");
    }
    let mut counter = Counter::new("reading block", Some(range.to.into()));
    let progress = |block: u32, added: u64| counter.at(block.into(), &format!("{added} ABIs added"));
    let outcome = ship::preload(connection, keys, &mut node, Some(first), range, progress).await;
    counter.finish();
    Ok(outcome?)
}
