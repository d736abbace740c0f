//! `parser capture`: recorded traffic of a node.

use std::cell::{Cell, RefCell};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use super::{block_on, log_to_people, progress, reader_may_leave};
use crate::capture::file::Capture;
use crate::capture::record::{self, RecordOptions};
use crate::capture::serve::{Faults, Listener, ServeOptions, Server};
use crate::capture::{decode, info};
use crate::config::{ConfigError, SHIP, ServerUrl, StartBlock};
use crate::event::Style;
use crate::plan::Selection;
use crate::ship::node::NodeOptions;
use crate::shutdown::Shutdown;

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
    /// Replace the file if there is one
    #[arg(long)]
    pub force: bool,
}

/// `parser capture serve`
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The recorded file
    pub file: PathBuf,
    /// HOST:PORT or unix:PATH to listen on; port 0 takes a free one. The URL for clients is printed
    #[arg(long, value_name = "ADDR")]
    pub listen: String,
    /// Never end: behind the last block, play those from block N (2) on again, renumbered and linked anew
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "2")]
    pub endless: Option<u32>,
    /// Give each block the time at which it is sent, as if the chain were being made now
    #[arg(long, requires = "endless")]
    pub now: bool,
    /// Wait this long before each result
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub delay_ms: u64,
    /// Close the connection after this many results
    #[arg(long, value_name = "N", group = "fault")]
    pub drop_after: Option<u64>,
    /// Send nothing more after this many results, and keep the connection open
    #[arg(long, value_name = "N", group = "fault")]
    pub stall_after: Option<u64>,
    /// Close the connection after this many bytes, most often in the middle of a result
    #[arg(long, value_name = "BYTES", group = "fault")]
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
    let ship = ship_url(&args.ship)?;
    let stop = args.stop_block;
    if let StartBlock::Number(start) = args.start_block
        && start > stop
    {
        return Err(ConfigError::new(format!("--start-block {start} is above --stop-block {stop}")).into());
    }
    if args.out.exists() && !args.force {
        return Err(ConfigError::new(format!(
            "--out {}: there is such a file already: choose another name, or replace it with --force",
            args.out.display()
        ))
        .into());
    }
    let endpoint = ship.as_str().parse().map_err(|error| ConfigError::new(format!("--ship: {error}")))?;
    log_to_people()?;
    let options = RecordOptions {
        node: NodeOptions::new(vec![endpoint]),
        start: args.start_block,
        stop,
        out: args.out.clone(),
    };
    block_on(async {
        let shutdown = Shutdown::on_signals()?;
        let shown = RefCell::new(progress::Recording::new(stop));
        let recorded_to = Cell::new(None);
        let recording = record::record(options, |state| {
            recorded_to.set(Some(state.block));
            shown.borrow_mut().show(&state, stop);
        });
        tokio::select! {
            recorded = recording => {
                let recorded = recorded?;
                shown.into_inner().end();
                writeln!(
                    io::stdout(),
                    "{}: {} results up to block {}, {} bytes",
                    args.out.display(), recorded.frames, recorded.block, recorded.bytes
                )?;
                Ok(())
            }
            () = shutdown.requested() => match recorded_to.get() {
                Some(block) => bail!("stopped: what was recorded, up to block {block}, is in {}.part", args.out.display()),
                None => bail!("stopped: nothing was recorded"),
            },
        }
    })
}

fn serve(args: ServeArgs) -> Result<()> {
    log_to_people()?;
    let capture = Capture::load(&args.file)?;
    let options = ServeOptions {
        repeat_from: args.endless,
        now: args.now,
        faults: Faults {
            drop_after_frames: args.drop_after,
            stall_after_frames: args.stall_after,
            cut_after_bytes: args.cut_after.map(|bytes| bytes..bytes.saturating_add(1)),
            delay: Duration::from_millis(args.delay_ms),
            connections: args.faults,
            refuse: false,
        },
        ..ServeOptions::default()
    };
    block_on(async {
        let shutdown = Shutdown::on_signals()?;
        let listener = Listener::bind(&args.listen)
            .await
            .with_context(|| format!("failed to listen on `{}` (HOST:PORT or unix:PATH)", args.listen))?;
        let mut server = Server::start(&capture, listener, options)?;
        writeln!(io::stdout(), "{}", server.url())?;
        io::stdout().flush()?;
        tokio::select! {
            () = server.wait() => bail!("the listener failed"),
            () = shutdown.requested() => Ok(()),
        }
    })
}

fn decode(args: DecodeArgs) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let decoding = decode::decode(&args.file, Selection::default(), Style::default(), &mut out);
    block_on(decoding)
}

fn info(args: InfoArgs) -> Result<()> {
    let info = info::info(&args.file)?;
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &info).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{info}")?;
    }
    Ok(())
}

/// Not read by clap, whose messages repeat the value: it may hold a password.
fn ship_url(argument: &str) -> Result<ServerUrl, ConfigError> {
    ServerUrl::from_argument(argument, SHIP, &|name| std::env::var(name))
        .map_err(|error| ConfigError::new(format!("--ship: {error}")))
}
