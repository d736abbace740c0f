//! What the program says on the way: JSON lines on stderr, or readable ones.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use indicatif::ProgressBar;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use crate::config::{ConfigError, Logger};

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
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Stderr);
    // Failing means that logging was started before, which does no harm.
    let _ = if logger.pretty {
        builder.with_ansi(io::stderr().is_terminal()).with_target(false).try_init()
    } else {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    };
    Ok(())
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
