//! Dead letters: events that could not be decoded, or that a consumer could not work off, kept aside in streams of their own.
//!
//! [`letter`] is one of them, [`select`] says which are meant, [`store`] reads and removes them page by page, so that a stream
//! of millions needs no more memory than one of ten. [`again`] decodes one again; [`undone`] knows of which blocks no
//! event may be published any more. [`replay`] has those published that can be decoded now, by way of [`requests`] to whoever
//! may write.

pub mod again;
pub mod letter;
pub mod replay;
pub mod requests;
pub mod select;
pub mod store;
pub mod undone;

pub use again::{Again, NATIVE, Now};
pub use letter::Letter;
pub use replay::{Replay, Tally};
pub use requests::Requests;
pub use select::Select;
pub use store::Letters;
pub use undone::Undone;

/// The subscription that the parser's own dead letters are kept under.
pub const PARSER: &str = "parser";
