//! `parser run`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::progress::Line;
use crate::config::{Config, StartBlock};
use crate::http::Servers;
use crate::logging;
use crate::monitor::{Monitor, report};
use crate::pipeline;
use crate::shutdown::Shutdown;

/// `parser run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The configuration file (docs/configuration.md)
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Begin at this block, or at the `first` one the node has, if there is no checkpoint;
    /// default: the node's head
    #[arg(long, value_name = "N|first")]
    pub start_block: Option<StartBlock>,
    /// End once this block is published and confirmed by Redis
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..))]
    pub stop_block: Option<u32>,
}

pub(super) fn run(args: RunArgs) -> Result<()> {
    super::block_on(async {
        // First of all: a signal that comes now is not lost.
        let shutdown = Shutdown::on_signals()?;
        let mut config = Config::load(&args.config)?;
        config.start_block = args.start_block.or(config.start_block);
        config.stop_block = args.stop_block.or(config.stop_block);
        logging::start_for_long(config.logger)?;
        info!(
            version = env!("CARGO_PKG_VERSION"),
            namespace = config.redis.namespace,
            redis = %config.redis.url,
            "parser"
        );
        for warning in config.warnings() {
            warn!("{warning}");
        }
        publish(&config, &shutdown).await
    })
}

async fn publish(config: &Config, shutdown: &Shutdown) -> Result<()> {
    let target = report::Target::new(config, pipeline::server(config)?);
    let monitor = Arc::new(Monitor::new(config));
    let _http = Servers::bind(config).await?.start(&monitor, config.health.lag_threshold);
    let line = Line::new();
    // All of them end with this function.
    let mut beside = JoinSet::new();
    let (watched, periodic) = (monitor.clone(), !line.is_shown());
    beside.spawn(async move { watched.watch(periodic).await });
    beside.spawn(report::run(monitor.clone(), target.clone()));
    let ended = tokio::select! {
        ended = pipeline::run(config, monitor.clone(), shutdown) => ended,
        () = line.follow(&monitor) => Ok(()),
    };
    beside.shutdown().await;
    if let Err(error) = &ended {
        monitor.failed(error.to_string());
    }
    report::last(&monitor, &target).await;
    let view = monitor.view();
    line.end(&view);
    logging::end();
    ended?;
    info!(block = view.block, events = view.events, undecoded = view.undecoded, "ended");
    Ok(())
}
