//! Publishing to Redis, exactly once.
//!
//! A parser looks how the server is set up ([`checks`]), takes the lease ([`lease`]), checks that what lies in Redis fits
//! ([`startup`]), reads the checkpoint ([`checkpoint`]) and hands its blocks as [`unit::Unit`]s to the writer ([`writer`]), which commits one
//! transaction after the other. After any failure all of that begins anew, in this order.

mod buffer;
pub mod checkpoint;
pub mod checks;
pub mod connection;
mod due;
pub mod failure;
pub mod lease;
mod outgoing;
pub mod replies;
pub mod server;
pub mod startup;
mod transaction;
pub mod unit;
pub mod writer;

pub use buffer::{Buffer, Buffers};
pub use checkpoint::Checkpoint;
pub use failure::Failure;
pub use lease::Lease;
pub use server::Server;
pub use startup::{Met, begin};
pub use unit::{EntryId, StreamIds, Unit};
