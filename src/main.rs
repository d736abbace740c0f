//! The `parser` command.
fn main() {}
