//! `parser capture`: recorded traffic of a node.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use super::reader_may_leave;
use crate::config::{ConfigError, SHIP, ServerUrl, StartBlock};

/// `parser capture`
#[derive(Debug, Subcommand)]
pub enum CaptureCommand {
    /// Record a node's traffic into a file
    Record(RecordArgs),
    /// Serve a recorded file as if it were the node
    ///
    /// Keeps to the window, acknowledgements, start block and have_positions as a node does. A client that comes
    /// back goes on behind the frame whose block id is its last position, so that lost branches are played again.
    Serve(ServeArgs),
    /// Print a recorded file's events to stdout, one JSON object a line; needs no Redis
    Decode(DecodeArgs),
    /// Tell what is in a recorded file
    Info(InfoArgs),
}

/// `parser capture record`
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The node: ws://, wss:// or ws+unix://; a password goes in as `${VAR}`, in single quotes
    #[arg(long, value_name = "URL")]
    pub ship: String,
    /// The first block to record, or the `first` one the node has
    #[arg(long, value_name = "A|first")]
    pub start_block: StartBlock,
    /// The last block to record
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..))]
    pub stop_block: u32,
    /// The file to write, usually NAME.shipcap.zst
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// `parser capture serve`
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The recorded file
    pub file: PathBuf,
    /// Address and port to listen on; port 0 takes a free one, which is printed
    #[arg(long, value_name = "ADDR")]
    pub listen: String,
    /// Never end: begin again behind the last block, with blocks renumbered and linked anew
    #[arg(long)]
    pub endless: bool,
    /// Wait this long before each result
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub delay_ms: u64,
    /// Close the connection after this many results
    #[arg(long, value_name = "N", group = "fault")]
    pub drop_after: Option<u64>,
    /// Send nothing more after this many results, and keep the connection open
    #[arg(long, value_name = "N", group = "fault")]
    pub stall_after: Option<u64>,
    /// Send only half of the result after this many, then close the connection
    #[arg(long, value_name = "N", group = "fault")]
    pub cut_after: Option<u64>,
    /// How many connections have the fault, from the first; default: all
    #[arg(long, value_name = "K", requires = "fault")]
    pub faults: Option<u64>,
}

/// `parser capture decode`
#[derive(Debug, Args)]
pub struct DecodeArgs {
    /// The recorded file
    pub file: PathBuf,
}

/// `parser capture info`
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// The recorded file
    pub file: PathBuf,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(command: CaptureCommand) -> Result<()> {
    match command {
        CaptureCommand::Record(args) => record(args),
        CaptureCommand::Serve(args) => serve(args),
        CaptureCommand::Decode(args) => reader_may_leave(decode(args)),
        CaptureCommand::Info(args) => reader_may_leave(info(args)),
    }
}

fn record(args: RecordArgs) -> Result<()> {
    let _ship = ship_url(&args.ship)?;
    if let StartBlock::Number(start) = args.start_block
        && start > args.stop_block
    {
        let stop = args.stop_block;
        return Err(ConfigError::new(format!("--start-block {start} is above --stop-block {stop}")).into());
    }
    bail!("`parser capture record` is not built yet")
}

fn serve(args: ServeArgs) -> Result<()> {
    let _ = args;
    bail!("`parser capture serve` is not built yet")
}

fn decode(args: DecodeArgs) -> Result<()> {
    let _ = args;
    bail!("`parser capture decode` is not built yet")
}

fn info(args: InfoArgs) -> Result<()> {
    let _ = args;
    bail!("`parser capture info` is not built yet")
}

/// Not read by clap, whose messages repeat the value: it may hold a password.
fn ship_url(argument: &str) -> Result<ServerUrl, ConfigError> {
    ServerUrl::from_argument(argument, SHIP, &|name| std::env::var(name))
        .map_err(|error| ConfigError::new(format!("--ship: {error}")))
}
