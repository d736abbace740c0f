//! How Redis is set up: what the parser says of it when it starts, and the smallest permissions that it and its consumers
//! get along with.

mod checks;
mod permissions;
#[path = "../support/mod.rs"]
mod support;

use parser::capture::file::Capture;
use parser::capture::serve::ServeOptions;
use redis::aio::MultiplexedConnection;
use support::captures;
use support::expected::Recording;
use support::stage::Stage;

/// Small enough for any machine's memory.
const CAP: &str = "xtrim: {maxEntries: 100000}";

fn mixed() -> Capture {
    Recording::bundled("mixed-100").capture
}

async fn run<T: redis::FromRedisValue>(
    client: &mut MultiplexedConnection,
    words: &[&str],
) -> redis::RedisResult<T> {
    redis::cmd(words[0]).arg(&words[1..]).query_async(client).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_another_chain_is_passed_by_also_as_the_first_one() {
    let stage = Stage::new(&mixed()).await;
    let other = Recording::bundled("fork-240").capture;
    let node = captures::serve(&other, ServeOptions::default()).await;
    stage.parser("stopBlock: 2").ended_with(0).await;
    let yaml = format!("ship: {{url: ['{}', '{}']}}\nstopBlock: 5", node.url(), stage.node.url());
    let log = stage.parser(&yaml).ended_with(0).await;
    assert!(log.contains("the node cannot be used now") && log.contains("parser2:chain"), "{log}");
}
