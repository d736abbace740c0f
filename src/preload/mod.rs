//! Filling the ABI history from elsewhere than the blocks that are published: the chain API, files, or the account rows of
//! a range of blocks.
//!
//! What was learned from blocks is never hidden: an ABI without a block number is in force before all of them, and one with a
//! block that the parser has read itself is left out where it says something else.
//!
//! However it ends, a running parser is to be told then ([`crate::history::put::tell`]): what was put so far is in the history.

pub mod accounts;
pub mod files;
pub mod ship;

use serde::Serialize;

use crate::history::put::Preloaded;

/// How many ABIs went where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
pub struct Outcome {
    /// Put into the history.
    pub added: u64,
    /// Known already.
    pub known: u64,
    /// Other than what the parser has read in that block itself: left out.
    pub contradicting: u64,
    /// Could not be asked for, read or used.
    pub failed: u64,
}

// === impl Outcome ===

impl Outcome {
    pub(crate) fn count(&mut self, preloaded: Preloaded) {
        match preloaded {
            Preloaded::Added => self.added += 1,
            Preloaded::Known => self.known += 1,
            Preloaded::Contradicts => self.contradicting += 1,
        }
    }
}
