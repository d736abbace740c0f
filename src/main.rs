//! The `parser` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    parser::cli::main()
}
