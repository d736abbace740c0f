//! The node's side: the state history plugin's protocol and the connection to it.

pub mod connection;
pub mod endpoint;
pub mod message;
pub mod node;
pub mod protocol;
pub mod start;
