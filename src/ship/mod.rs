//! The node's side: the state history plugin's protocol and the connection to it.

pub mod message;
pub mod protocol;
