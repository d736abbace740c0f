//! The command line: what can be asked for, and how it ends.
//!
//! Exit status: 0 done, 1 failed, 2 wrong usage or configuration.

mod abi;
mod capture;
mod dead_letters;
mod health;
mod namespace;
mod progress;
mod run;
mod status;
mod subscriptions;
mod table;
mod verify;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tracing::level_filters::LevelFilter;

use crate::config::{Config, ConfigError, Logger};
use crate::logging;
use crate::name::{Name, NameError};
use crate::pipeline::{self, RunError};

pub use abi::{
    AbiCommand, CheckAbisArgs, ListAbisArgs, PreloadArgs, PruneAbisArgs, PutAbiArgs, ShowAbiArgs, SourceArg,
};
pub use capture::{CaptureCommand, DecodeArgs, InfoArgs, RecordArgs, ServeArgs};
pub use dead_letters::{DeadLettersCommand, ListDeadLettersArgs, ReplayDeadLetterArgs};
pub use namespace::{ConfigArg, JsonArg};
pub use run::RunArgs;
pub use status::StatusArgs;
pub use subscriptions::{
    ListSubscriptionsArgs, RemoveSubscriptionArgs, ResetSubscriptionArgs, SubscriptionsCommand,
};
pub use verify::VerifyArgs;

/// Threads for sockets and timers, beside the main thread, on which the command itself runs. With one, what concerns
/// Redis is never handed from thread to thread.
const IO_THREADS: usize = 1;

/// Reads blocks from an Antelope node's state history plugin, decodes every action and table row with the ABI in
/// force at that moment, and publishes the events to Redis Streams, exactly once.
#[derive(Debug, Parser)]
#[command(name = "parser", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read, decode and publish until stopped
    ///
    /// Goes on behind the checkpoint in Redis if there is one. SIGINT and SIGTERM end it in good order.
    #[command(alias = "start")]
    Run(RunArgs),
    /// Ask a running parser how it is, as `/health` answers; exit status 1 unless it is healthy
    ///
    /// For containers and service managers, where there is no curl.
    Health(ConfigArg),
    /// Tell how far the parser is, what lies in Redis and how its readers get on
    ///
    /// Needs Redis alone: it also works when no parser runs and the node is down.
    Status(StatusArgs),
    /// Look at the history of the contracts' ABIs, mend it, fill it, tidy it
    #[command(subcommand)]
    Abi(AbiCommand),
    /// `abi prune`, as the TypeScript version spelled it
    #[command(hide = true)]
    AbiPrune(PruneAbisArgs),
    /// List the stream's consumers, let them go on elsewhere, remove them
    #[command(subcommand)]
    Subscriptions(SubscriptionsCommand),
    /// `subscriptions list`, as the TypeScript version spelled it
    #[command(hide = true)]
    ListSubscriptions(ListSubscriptionsArgs),
    /// `subscriptions reset`, as the TypeScript version spelled it
    #[command(hide = true)]
    ResetSubscription(ResetSubscriptionArgs),
    /// Check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Record a node's traffic, serve it again, decode it without Redis
    #[command(subcommand)]
    Capture(CaptureCommand),
    /// What could not be decoded: list it, look at it, decode and publish it again, remove it
    #[command(subcommand)]
    DeadLetters(DeadLettersCommand),
    /// `dead-letters list`, as the TypeScript version spelled it
    #[command(hide = true)]
    ListDeadLetters(ListDeadLettersArgs),
    /// `dead-letters replay`, as the TypeScript version spelled it
    #[command(hide = true)]
    ReplayDeadLetter(ReplayDeadLetterArgs),
    /// Prove a published stream whole: every block there and linked, forks resolved, nothing twice
    ///
    /// Exit status 1 if something is wrong, which is then named. Needs no node, unless told to compare with one (--ship).
    Verify(VerifyArgs),
}

/// `parser config`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a file and print the whole effective configuration, secrets masked
    Check {
        /// The configuration file
        file: PathBuf,
    },
}

/// Runs the command of this process and says how it went.
pub fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Health(args) => reader_may_leave(health::run(&args)),
        Command::Status(args) => reader_may_leave(status::run(args)),
        Command::Abi(command) => reader_may_leave(abi::run(command)),
        Command::AbiPrune(args) => reader_may_leave(abi::prune(args)),
        Command::Subscriptions(command) => reader_may_leave(subscriptions::run(command)),
        Command::ListSubscriptions(args) => reader_may_leave(subscriptions::list(args)),
        Command::ResetSubscription(args) => reader_may_leave(subscriptions::reset(args)),
        Command::Config(ConfigCommand::Check { file }) => reader_may_leave(check_config(&file)),
        Command::Capture(command) => capture::run(command),
        Command::DeadLetters(command) => dead_letters::run(command),
        Command::ListDeadLetters(args) => dead_letters::list_dead_letters(args),
        Command::ReplayDeadLetter(args) => dead_letters::replay_dead_letter(args),
        Command::Verify(args) => verify::run(&args),
    };
    let status = ended.err().map_or(0, |error| {
        let status = exit_status(&error);
        logging::final_error(&format!("{error:#}"), status);
        status
    });
    logging::flush();
    ExitCode::from(status)
}

/// 2 if a person must put the configuration or the call right, else 1.
pub fn exit_status(error: &anyhow::Error) -> u8 {
    let mistake = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<ConfigError>() || matches!(cause.downcast_ref(), Some(RunError::Unfit(_)))
    };
    if error.chain().any(mistake) { 2 } else { 1 }
}

/// For commands that people call and wait for: they are told in plain words what happens meanwhile.
fn log_to_people() -> Result<(), ConfigError> {
    logging::start(Logger { level: LevelFilter::INFO, pretty: true })
}

/// A contract's name as an argument. Empty is what an unset variable of a shell gives.
fn contract(text: &str) -> Result<Name, String> {
    match text {
        "" => Err("it is empty: the name of a contract is expected".to_owned()),
        text => text.parse().map_err(|error: NameError| error.to_string()),
    }
}

/// For commands that write to stdout: its reader leaving early (`| head`) is no failure.
fn reader_may_leave(ended: Result<()>) -> Result<()> {
    ended.or_else(|error| {
        let io_error = error.downcast_ref::<io::Error>();
        let left = io_error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        if left { Ok(()) } else { Err(error) }
    })
}

/// Runs a command on threads for sockets and timers. Decoding has its own.
fn block_on<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(IO_THREADS).enable_all().build()?;
    let ended = runtime.block_on(command);
    // A question to the chain API that is under way must not hold the end up.
    runtime.shutdown_background();
    ended
}

fn check_config(file: &std::path::Path) -> Result<()> {
    let config = Config::load(file)?;
    for warning in config.warnings() {
        let _ = writeln!(io::stderr(), "warning: {warning}");
    }
    pipeline::check(&config)?;
    io::stdout().write_all(config.effective().as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_commands_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn only_the_users_mistakes_have_status_2() {
        let mistake = anyhow::Error::new(ConfigError::new("wrong chain")).context("failed to start");
        assert_eq!(exit_status(&mistake), 2);
        assert_eq!(exit_status(&anyhow::anyhow!("lost the node")), 1);
    }

    #[test]
    fn a_reader_that_leaves_is_no_failure() {
        let broken = |kind| Err(io::Error::from(kind).into());
        assert!(reader_may_leave(broken(io::ErrorKind::BrokenPipe)).is_ok());
        assert!(reader_may_leave(broken(io::ErrorKind::StorageFull)).is_err());
    }
}
