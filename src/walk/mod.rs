//! The walk over what a SHiP result carries: transaction traces, table deltas, and the block's
//! header. It borrows the frame and copies nothing: action data and rows stay slices of it.
//!
//! The layouts are those of the protocol ABIs in `abi/` (nodeos' `state_history_plugin_abi.cpp`);
//! `ship::protocol` refuses a node whose ABI differs.

mod delta;
mod header;
mod trace;

pub use delta::{Row, Rows, Table, tables};
pub use header::Header;
pub(crate) use trace::variant;
pub use trace::{ActionTrace, Receipt, Span, auth_sequence, authorization, transactions};
