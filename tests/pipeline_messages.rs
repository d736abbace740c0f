//! What cannot work is refused with a message that names the thing, the place and the way out, and with the exit status
//! that goes with it: 2 where the configuration or the call must be put right, else 1.

mod support;

use parser::capture::edit;
use parser::capture::file::Capture;
use parser::capture::serve::ServeOptions;
use support::captures;
use support::expected::Recording;
use support::redis::TestRedis;
use support::stage::Stage;

fn mixed() -> Capture {
    Recording::bundled("mixed-100").capture
}

/// The capture as a node has it whose log begins later.
fn from_block(first: usize) -> Capture {
    let mut capture = mixed();
    capture.frames.drain(..first - 1);
    capture
}

#[track_caller]
fn assert_says(log: &str, parts: &[&str]) {
    let last = log.lines().last().unwrap_or_default();
    for part in parts {
        assert!(last.contains(part), "`{part}` is missing in: {last}");
    }
}

/// Runs the parser over a capture and checks how it ends.
async fn ends(capture: &Capture, yaml: &str, arguments: &[&str], status: i32, parts: &[&str]) {
    let stage = Stage::new(capture).await;
    let log = stage.parser_with(yaml, arguments).ended_with(status).await;
    assert_says(&log, parts);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_or_frame_above_the_limit_names_the_option() {
    // Block 1 has 1.19 MB. In one frame, and as a message of many that are each within the limit.
    for fragment_bytes in [None, Some(100_000)] {
        let options = ServeOptions { fragment_bytes, ..ServeOptions::default() };
        let stage = Stage::with(&mixed(), TestRedis::start().await, options).await;
        let log = stage.parser("maxMessageBytes: 1048576").ended_with(1).await;
        assert_says(&log, &["`maxMessageBytes` is 1048576", "raise it"]);
        // The same node with the option raised.
        stage.parser("maxMessageBytes: 2097152\nstopBlock: 2").ended_with(0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_with_a_name_that_is_none_is_a_mistake() {
    let yaml = "filters: {include: [{kind: action, account: Eosio_Token}]}";
    ends(&mixed(), yaml, &[], 2, &["filters.include", "Eosio_Token"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_key_is_a_mistake() {
    ends(&mixed(), "startBlok: 1", &[], 2, &["startBlok", "startBlock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_another_chain_is_a_mistake() {
    let wrong = "ab".repeat(32);
    let right = mixed().status.chain_id.expect("a chain id").to_string();
    ends(&mixed(), &format!("chain: {{id: {wrong}}}"), &[], 2, &[&wrong, &right, "chain.id"]).await;
    let yaml = format!("chain: {{id: {right}}}\nstartBlock: 1\nstopBlock: 2");
    Stage::new(&mixed()).await.parser_with(&yaml, &[]).ended_with(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_chain_in_a_namespace_is_a_mistake() {
    let stage = Stage::new(&mixed()).await;
    stage.parser("stopBlock: 2").ended_with(0).await;
    let before = stage.written().await;
    let other = Recording::bundled("fork-240").capture;
    let node = captures::serve(&other, ServeOptions::default()).await;
    let ids = [&mixed(), &other].map(|capture| capture.status.chain_id.expect("a chain id").to_string());
    let yaml = format!("ship: {{url: '{}'}}", node.url());
    let log = stage.parser(&yaml).ended_with(2).await;
    assert_says(&log, &["parser2:chain", &ids[0], &ids[1], "redis.namespace"]);
    stage.written().await.assert_same(&before, "after the second chain");
    // The way out.
    let yaml = format!("{yaml}\nredis: {{url: '{}', namespace: other}}\nstopBlock: 2", stage.redis.url());
    stage.parser(&yaml).ended_with(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_with_foreign_ids_is_a_mistake() {
    let stage = Stage::new(&mixed()).await;
    let client = &mut stage.client().await;
    let add = redis::cmd("XADD").arg((&stage.keys.events, "*", "data", "{}")).to_owned();
    add.exec_async(client).await.expect("XADD");
    let before = stage.written().await;
    let log = stage.parser("").ended_with(2).await;
    assert_says(
        &log,
        &[&stage.keys.events, &before.events[0].0, "redis.namespace", "streamIds: auto", "compat: parser2"],
    );
    stage.written().await.assert_same(&before, "nothing is written");
    // A way out.
    stage.parser("streamIds: auto\nstopBlock: 2").ended_with(0).await;
    // And back again is none.
    let log = stage.parser("").ended_with(2).await;
    assert_says(&log, &[&stage.keys.events, "redis.namespace", "streamIds: auto"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_abi_stops_it_where_that_is_asked_for() {
    let parts = ["`eosio`", "block 50", "abiFallback: fail", "chain.url"];
    ends(&from_block(50), "abiFallback: fail\nstartBlock: 50", &[], 1, &parts).await;
    // From the first block on eosio's is known.
    ends(&mixed(), "abiFallback: fail\nstartBlock: 1\nstopBlock: 3", &[], 0, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_below_the_nodes_first_block_names_both() {
    let parts = ["block 10 ", "first one is 50", "start at block 50"];
    ends(&from_block(50), "", &["--start-block", "10"], 2, &parts).await;
    ends(&from_block(50), "startBlock: 10", &[], 2, &parts).await;
    ends(&from_block(50), "startBlock: first\nstopBlock: 51", &[], 0, &[]).await;
    // The status of a node can promise more than the log holds.
    let options = ServeOptions { status_as_recorded: true, ..ServeOptions::default() };
    let stage = Stage::with(&from_block(50), TestRedis::start().await, options).await;
    let log = stage.parser_with("", &["--start-block", "10"]).ended_with(2).await;
    assert_says(&log, &["block 10 ", "block 50", "--start-block 50"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hole_in_the_nodes_log_names_the_block() {
    for what in ["traces", "deltas"] {
        let mut capture = mixed();
        let protocol = capture.protocol.clone();
        let frame = &mut capture.frames[19];
        *frame = edit::change(frame, &protocol, |result| match what {
            "traces" => result.traces = None,
            _ => result.deltas = None,
        });
        let stage = Stage::new(&capture).await;
        let log = stage.parser("").ended_with(1).await;
        assert_says(&log, &[what, "block 20", "state history log"]);
        // What came before it is published.
        assert_eq!(stage.checkpoint(&mut stage.client().await).await.0, Some(19));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_password_is_not_repeated() {
    let redis = TestRedis::start_with(&["--requirepass", "right"]).await;
    let stage = Stage::with(&mixed(), redis, ServeOptions::default()).await;
    let address = stage.redis.url().replace("redis://", "");
    // The process has REDIS_PASSWORD=wr0ng-s3cret.
    for (yaml, part) in [
        (
            format!("redis: {{url: 'redis://{address}', password: '${{REDIS_PASSWORD}}'}}"),
            "refuses the user or password",
        ),
        (format!("redis: {{url: 'redis://:${{REDIS_PASSWORD}}@{address}'}}"), "refuses the user or password"),
        (format!("redis: {{url: 'redis://{address}'}}"), "redis.password"),
        (format!("redis: {{url: 'redis://{address}', password: wr0ng-s3cret}}"), "redis.password"),
    ] {
        let status = if yaml.contains("password: wr0ng") { 2 } else { 1 };
        let log = stage.parser(&format!("{yaml}\nlogger: {{level: trace}}")).ended_with(status).await;
        assert_says(&log, &[part]);
        assert!(!log.contains("s3cret"), "{log}");
    }
}
