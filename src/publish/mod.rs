//! Publishing to Redis, exactly once.
//!
//! A parser takes the lease ([`lease`]), checks that what lies in Redis fits ([`startup`]), reads the checkpoint
//! ([`checkpoint`]) and hands its blocks as [`unit::Unit`]s to the writer ([`writer`]), which commits one
//! transaction after the other. After any failure all of that begins anew, in this order.

pub mod checkpoint;
pub mod connection;
pub mod failure;
pub mod replies;
pub mod server;
pub mod unit;

pub use checkpoint::Checkpoint;
pub use failure::Failure;
pub use server::Server;
pub use unit::{EntryId, Unit};
