//! What the program says on the way: JSON lines on stderr, or readable ones.

mod flood;

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use indicatif::ProgressBar;
use tracing::level_filters::LevelFilter;
use tracing::warn;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{ConfigError, Logger};

/// Lines that wait for a reader of stderr that is slow; what comes beyond them is lost.
const WAITING_LINES: usize = 1000;

/// Starts logging for a program that runs for long: [`start`], what is said again and again is counted, and whoever
/// reads stderr and stops to (a log driver that hangs, a terminal that is held) holds nothing up. Call [`flush`] at the end.
pub fn start_for_long(logger: Logger) -> Result<(), ConfigError> {
    flood::keep_back();
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(WAITING_LINES)
        .thread_name("log")
        .finish(Stderr);
    let _ = LOST.set(writer.error_counter());
    *WRITING.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
    start_with(logger, BoxMakeWriter::new(writer))
}

/// Starts logging. `RUST_LOG`, if set, goes before the configured level.
pub fn start(logger: Logger) -> Result<(), ConfigError> {
    start_with(logger, BoxMakeWriter::new(|| Stderr))
}

fn start_with(logger: Logger, writer: BoxMakeWriter) -> Result<(), ConfigError> {
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
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
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

/// The thread that writes the lines.
static WRITING: Mutex<Option<WorkerGuard>> = Mutex::new(None);

/// How many lines were lost, and of how many that was said.
static LOST: OnceLock<ErrorCounter> = OnceLock::new();
static LOST_SAID: AtomicUsize = AtomicUsize::new(0);

/// Says how often lines of one kind were left out, in the minutes that are over: to be called now and then.
pub fn now_and_then() {
    flood::say_left_out(false);
    let lost = LOST.get().map_or(0, ErrorCounter::dropped_lines);
    let said = LOST_SAID.swap(lost, Relaxed);
    if lost > said {
        warn!(lines = lost - said, "log lines were lost: nobody read stderr in time");
    }
}

/// Waits until all lines are written, for a second at most. None is written after it.
pub fn flush() {
    drop(WRITING.lock().unwrap_or_else(PoisonError::into_inner).take());
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
