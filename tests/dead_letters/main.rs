//! Dead letters: what is written, what the commands show of it, and what they mend.

#[path = "../support/made.rs"]
mod made;
#[path = "../support/node.rs"]
mod node;
#[path = "../support/run.rs"]
mod run;
#[path = "../support/mod.rs"]
mod support;

mod kills;
mod look;
mod many;
mod replay;
mod stage;
mod written;

use support::redis;
