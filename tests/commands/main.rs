//! Commands that look into Redis and mend what is there, as processes over a real Redis.

#[path = "../captures/mod.rs"]
mod captures;
#[path = "../support/chain_api.rs"]
mod chain_api;
#[path = "../support/made.rs"]
mod made;
#[path = "../support/node.rs"]
mod node;
#[path = "../support/redis.rs"]
mod redis;
#[path = "../support/run.rs"]
mod run;

mod abi;
mod page;
mod preload;
mod progress;
mod status;
mod subscriptions;
mod world;
