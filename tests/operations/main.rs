//! docs/operations.md: its recoveries are walked through as the page tells it, each command with what it prints.

mod book;
mod machine;
mod recovery;
#[path = "../support/mod.rs"]
mod support;
