//! From frames to transactions.
mod dispatch;
mod hold;
mod intake;
