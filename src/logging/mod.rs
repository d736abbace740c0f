//! What the program says on the way: JSON lines on stderr, or readable ones.

mod flood;

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use indicatif::ProgressBar;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{ConfigError, Logger};

/// Starts logging for a program that runs for long: [`start`], and what is said again and again is counted.
pub fn start_for_long(logger: Logger) -> Result<(), ConfigError> {
    flood::keep_back();
    start(logger)
}

/// Starts logging. `RUST_LOG`, if set, goes before the configured level.
pub fn start(logger: Logger) -> Result<(), ConfigError> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => EnvFilter::try_new(&directives)
            .map_err(|error| ConfigError::new(format!("RUST_LOG: `{directives}`: {error}")))?,
        // Libraries are only heard when something is wrong with them.
        _ => EnvFilter::default()
            .add_directive(logger.level.min(LevelFilter::WARN).into())
            .add_directive(own_level(logger.level)?),
    };
    // At its finest it would show a URL with what is secret in it.
    let filter = filter.add_directive(
        "tungstenite::handshake=warn"
            .parse()
            .map_err(|error| ConfigError::new(format!("logger.level: {error}")))?,
    );
    let lines = tracing_subscriber::fmt::layer().with_writer(|| Stderr);
    let lines = if logger.pretty {
        lines.with_ansi(io::stderr().is_terminal()).with_target(false).boxed()
    } else {
        lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
    };
    let started =
        tracing_subscriber::registry().with(filter).with(lines.with_filter(flood::Flood)).try_init();
    // Failing means that logging was started before, which does no harm.
    if started.is_ok() && !logger.pretty {
        let _ = JSON.set(());
    }
    Ok(())
}

/// Set once lines of JSON are written.
static JSON: OnceLock<()> = OnceLock::new();

/// Says how often lines of one kind were left out, in the minutes that are over: to be called now and then.
pub fn now_and_then() {
    flood::say_left_out(false);
}

/// The same for all that were left out: nothing will be logged any more but the end.
pub fn end() {
    flood::say_left_out(true);
}

/// Says why the program ends: as a line of JSON where the log is such lines and nobody sits in front of it, else in plain words.
pub fn final_error(error: &str, exit_status: u8) {
    if JSON.get().is_some() && !io::stderr().is_terminal() && tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!(exit_status, "{error}");
    } else {
        // Should stderr be closed, there is nobody to tell.
        let _ = writeln!(io::stderr(), "parser: {error}");
    }
}

/// A progress line at the terminal that log lines must not run into.
static LINE: OnceLock<ProgressBar> = OnceLock::new();

/// Has log lines written above `line` from now on.
pub fn above(line: &ProgressBar) {
    // There is one such line a process.
    let _ = LINE.set(line.clone());
}

/// Standard error, with the progress line out of the way.
struct Stderr;

impl io::Write for Stderr {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        match LINE.get() {
            Some(line) => line.suspend(|| io::stderr().write(text)),
            None => io::stderr().write(text),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn own_level(level: LevelFilter) -> Result<tracing_subscriber::filter::Directive, ConfigError> {
    let directive = format!("{}={level}", env!("CARGO_CRATE_NAME"));
    directive.parse().map_err(|error| ConfigError::new(format!("logger.level: {error}")))
}
