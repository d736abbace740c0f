//! Dead letters: what is written, what the commands show of it, and what they mend.

#[path = "../support/made.rs"]
mod made;
#[path = "../support/node.rs"]
mod node;
#[path = "../support/redis.rs"]
mod redis;
#[path = "../support/run.rs"]
mod run;

mod look;
mod stage;
mod written;
