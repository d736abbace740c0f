//! The same line again and again is counted, not written: after the first ones of a minute come only their number.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, callsite, info};
use tracing_subscriber::layer::{Context, Filter};

/// So many lines of one place in the program are written in each [`WINDOW`].
const WRITTEN: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);

/// Lets the first lines through. Errors and debugging are not kept back.
pub(super) struct Flood;

/// Set where lines are kept back: those of a short command are its results.
static KEPT_BACK: AtomicBool = AtomicBool::new(false);

static PLACES: Mutex<Option<HashMap<callsite::Identifier, Place>>> = Mutex::new(None);

/// A place in the program that logs.
struct Place {
    since: Instant,
    written: u32,
    left_out: u64,
    /// What it says, once something was left out.
    message: String,
}

impl<S: Subscriber> Filter<S> for Flood {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        // Errors are for an operator, each of them.
        let counted = matches!(*metadata.level(), Level::WARN | Level::INFO);
        if !counted || !KEPT_BACK.load(Ordering::Relaxed) || metadata.target() == module_path!() {
            return true;
        }
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.get_or_insert_default().entry(metadata.callsite()).or_insert_with(|| Place {
            since: Instant::now(),
            written: 0,
            left_out: 0,
            message: String::new(),
        });
        if place.left_out == 0 && place.since.elapsed() >= WINDOW {
            (place.since, place.written) = (Instant::now(), 0);
        }
        if place.written < WRITTEN {
            place.written += 1;
            return true;
        }
        if place.left_out == 0 {
            place.message.clear();
            event.record(&mut Message(&mut place.message));
        }
        place.left_out += 1;
        false
    }
}

struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a string does not fail.
            let _ = fmt::Write::write_fmt(self.0, format_args!("{value:?}"));
        }
    }
}

/// From now on.
pub(super) fn keep_back() {
    KEPT_BACK.store(true, Ordering::Relaxed);
}

/// Says how many lines were left out in the minutes that are over, or in all that were begun.
pub(super) fn say_left_out(all: bool) {
    let mut said = Vec::new();
    if let Some(places) = &mut *PLACES.lock().unwrap_or_else(PoisonError::into_inner) {
        for place in places.values_mut().filter(|place| place.left_out > 0) {
            if all || place.since.elapsed() >= WINDOW {
                said.push((std::mem::take(&mut place.message), place.left_out));
                *place = Place { since: Instant::now(), written: 0, left_out: 0, message: String::new() };
            }
        }
    }
    for (line, times) in said {
        info!(line, times, "lines of this kind were left out");
    }
}
