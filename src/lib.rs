//! Reads blocks from an Antelope node's state history plugin (SHiP), decodes every action and
//! table row with the ABI in force at that moment, and publishes the events to Redis Streams.
//!
//! The modules follow the way of the data; `docs/layout.md` is the map.

pub mod abi;
pub mod backoff;
pub mod base64;
pub mod block;
pub mod capture;
pub mod chain;
pub mod chain_api;
pub mod cli;
pub mod config;
pub mod cursor;
pub mod dead_letters;
pub mod event;
pub mod filter;
pub mod hex;
pub mod history;
pub mod http;
pub mod keys;
pub mod logging;
pub mod metrics;
pub mod monitor;
pub mod name;
pub(crate) mod number;
pub mod out;
pub mod pipeline;
pub mod plan;
pub mod preload;
pub mod publish;
pub mod resp;
pub mod ship;
pub mod shutdown;
pub mod state;
pub mod status;
pub mod stream;
pub mod subscriptions;
pub mod time;
pub mod transport;
pub mod trim;
pub mod verify;
pub mod walk;
