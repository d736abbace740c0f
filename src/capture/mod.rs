//! Recorded node traffic.

pub mod decode;
pub mod file;
