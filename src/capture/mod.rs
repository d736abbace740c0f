//! Recorded node traffic: files of it, recording one, playing one as a node, decoding one.

pub mod decode;
pub mod edit;
pub mod endless;
pub mod file;
pub mod info;
pub mod record;
pub mod replay;
pub mod serve;
pub mod session;
