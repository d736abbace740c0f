//! Reads blocks from an Antelope node's state history plugin (SHiP), decodes every action and
//! table row with the ABI in force at that moment, and publishes the events to Redis Streams.
//!
//! The modules follow the way of the data; `docs/layout.md` is the map.

pub mod backoff;
pub mod block;
pub mod chain_api;
pub mod cli;
pub mod config;
pub mod cursor;
pub mod filter;
pub mod hex;
pub mod logging;
pub mod name;
pub mod resp;
pub mod shutdown;
pub mod transport;
