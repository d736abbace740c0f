//! A Redis that refuses for a while, several parsers at one Redis, and how a parser begins and ends: nothing lost,
//! nothing doubled.

mod support;

use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::captures;
use support::expected::Recording;
use support::process::Process;
use support::redis::TestRedis;
use support::stage::{Stage, undisturbed};
use support::until;
use support::written::Written;

const DELAY: Duration = Duration::from_millis(10);

/// The mixed capture half published by a parser that goes on slowly, and what must come out in the end.
async fn half_way(redis: TestRedis) -> (Stage, Process, Written) {
    let recording = Recording::bundled("mixed-100");
    let reference = undisturbed(&recording.capture, "").await;
    let stage = Stage::with(&recording.capture, redis, Default::default()).await;
    stage.slow(DELAY);
    let mut parser = stage.parser("");
    assert!(stage.reached(&mut parser, reference.events.len() as u64 / 2).await, "too fast");
    (stage, parser, reference)
}

/// How often that is in the parser's log.
fn count(log: &str, text: &str) -> usize {
    log.matches(text).count()
}

/// Waits until the parser has tried so many times more to reach Redis.
async fn tries(stage: &Stage, parser: &mut Process, more: u64) {
    let mut client = stage.client().await;
    let mut connections = async || {
        assert!(parser.is_running(), "the parser ended:\n{}", parser.log());
        let info: String = redis::cmd("INFO").arg("stats").query_async(&mut client).await.expect("INFO");
        let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.expect("connections").parse::<u64>().expect("a number")
    };
    let before = connections().await;
    until("more tries", async || (connections().await >= before + more).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_is_waited_for() {
    let (stage, mut parser, reference) = half_way(TestRedis::start().await).await;
    stage.redis.config("maxmemory", "1").await;
    parser.says("waiting for Redis").await;
    tries(&stage, &mut parser, 10).await;
    assert!(!stage.is_done(&mut stage.client().await).await);
    stage.redis.config("maxmemory", "0").await;
    stage.done(&mut parser).await;
    let log = parser.stopped().await;
    assert_eq!(count(&log, "waiting for Redis"), 1, "{log}");
    assert_eq!(count(&log, "OOM"), 1, "{log}");
    assert_eq!(count(&log, "Redis is back"), 1, "{log}");
    stage.written().await.assert_same(&reference, "after maxmemory");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_with_room_for_a_little_is_one_outage() {
    let recording = Recording::bundled("mixed-100");
    let reference = undisturbed(&recording.capture, "").await;
    let stage = Stage::new(&recording.capture).await;
    // The lease can be taken, a block not be written.
    stage.redis.config("maxmemory", "4mb").await;
    let mut parser = stage.parser("");
    parser.says("OOM").await;
    tries(&stage, &mut parser, 20).await;
    assert_eq!(count(&parser.log(), "Redis is back"), 0, "{}", parser.log());
    stage.redis.config("maxmemory", "0").await;
    stage.done(&mut parser).await;
    let log = parser.stopped().await;
    for text in ["waiting for Redis", "OOM", "Redis is back", "reading blocks"] {
        assert_eq!(count(&log, text), 1, "{text}: {log}");
    }
    stage.written().await.assert_same(&reference, "after maxmemory");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_became_a_replica_is_waited_for() {
    let (stage, mut parser, reference) = half_way(TestRedis::start().await).await;
    let replica_of = async |host: &str, port: &str| {
        let command = redis::cmd("REPLICAOF").arg((host, port)).to_owned();
        command.exec_async(&mut stage.client().await).await.expect("REPLICAOF");
    };
    replica_of("127.0.0.1", "1").await;
    parser.says("waiting for Redis").await;
    tries(&stage, &mut parser, 10).await;
    replica_of("NO", "ONE").await;
    stage.done(&mut parser).await;
    let log = parser.stopped().await;
    assert_eq!(count(&log, "waiting for Redis"), 1, "{log}");
    assert_eq!(count(&log, "READONLY"), 1, "{log}");
    stage.written().await.assert_same(&reference, "after being a replica");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_loads_its_data_is_waited_for() {
    let (mut stage, mut parser, reference) = half_way(TestRedis::start_with_aof().await).await;
    let client = &mut stage.client().await;
    for i in 0..300 {
        redis::cmd("SET")
            .arg((format!("filler:{i}"), "x".repeat(1000)))
            .exec_async(client)
            .await
            .expect("SET");
    }
    // It answers while it loads the snapshot that a rewritten file begins with.
    redis::cmd("BGREWRITEAOF").exec_async(client).await.expect("BGREWRITEAOF");
    until("the rewritten file", async || {
        let info: String = redis::cmd("INFO").arg("persistence").query_async(client).await.expect("INFO");
        info.contains("aof_rewrite_in_progress:0").then_some(())
    })
    .await;
    let slowly = ["--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"];
    stage.redis.restart_loading(&slowly).await;
    parser.says("LOADING").await;
    parser.says("Redis is back").await;
    stage.done(&mut parser).await;
    let log = parser.stopped().await;
    assert_eq!(count(&log, "LOADING"), 1, "{log}");
    let client = &mut stage.client().await;
    redis::cmd("DEL")
        .arg((0..300).map(|i| format!("filler:{i}")).collect::<Vec<_>>())
        .exec_async(client)
        .await
        .expect("DEL");
    stage.written().await.assert_same(&reference, "after loading");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_parser_takes_over_from_a_killed_one() {
    let (stage, first, reference) = half_way(TestRedis::start().await).await;
    let mut second = stage.parser("");
    second.says("standing by").await;
    // The holder is named by host and process.
    let holder = format!(":{}:", first.pid());
    let line = second.log().lines().find(|line| line.contains("standing by")).map(str::to_owned);
    assert!(line.as_ref().is_some_and(|line| line.contains(&holder)), "{line:?}");
    assert!(first.kill(), "too fast");
    second.says("writing here now").await;
    stage.done(&mut second).await;
    second.stopped().await;
    stage.written().await.assert_same(&reference, "after a take-over");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_parser_that_goes_on_after_a_take_over_doubles_nothing() {
    let (stage, mut first, reference) = half_way(TestRedis::start().await).await;
    let client = &mut stage.client().await;
    first.signal(Signal::STOP);
    let before = stage.entries(client).await;
    let mut second = stage.parser("");
    second.says("standing by").await;
    second.says("writing here now").await;
    until("the second one's entries", async || (stage.entries(client).await > before).then_some(())).await;
    assert!(!stage.is_done(client).await, "too fast");
    first.signal(Signal::CONT);
    first.says("standing by").await;
    stage.done(&mut second).await;
    second.stopped().await;
    // Now it is the first one's turn again, and there is nothing left.
    first.says("writing here now").await;
    first.stopped().await;
    stage.written().await.assert_same(&reference, "after two take-overs");
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_it_in_good_order_wherever_it_is() {
    let (stage, parser, reference) = half_way(TestRedis::start().await).await;
    let asked = Instant::now();
    parser.stopped().await;
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    let client = &mut stage.client().await;
    let lease: Option<String> =
        redis::cmd("GET").arg(&stage.keys.writer).query_async(client).await.expect("GET");
    assert_eq!(lease, None, "the lease is given back");
    let (_, _, part) = stage.checkpoint(client).await;
    assert_eq!(part, None);
    assert!(!stage.is_done(client).await, "too fast");

    // While it stands by.
    let mut first = stage.parser("");
    first.says("reading blocks").await;
    let mut second = stage.parser("");
    second.says("standing by").await;
    second.stopped().await;

    // While Redis takes nothing.
    stage.redis.config("maxmemory", "1").await;
    first.says("waiting for Redis").await;
    first.stopped().await;
    stage.redis.config("maxmemory", "0").await;

    // While there is no node.
    let nowhere = "ship: {url: 'ws://127.0.0.1:1'}";
    let mut lost = stage.parser(nowhere);
    lost.says("waiting for the node").await;
    lost.stopped().await;

    stage.finish("").await.assert_same(&reference, "after stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_block_ends_it_once_that_block_is_in_redis() {
    let recording = Recording::bundled("mixed-100");
    let reference = undisturbed(&recording.capture, "").await;
    let upto = |num: u32| {
        let of = |id: &str| id.split('-').next().and_then(|first| first.parse::<u32>().ok());
        reference.events.iter().take_while(|(id, _)| of(id) <= Some(num)).count()
    };
    let stage = Stage::new(&recording.capture).await;
    let log = stage.parser_with("", &["--start-block", "1", "--stop-block", "50"]).ended_with(0).await;
    assert!(!log.contains("behind the checkpoint"), "{log}");
    let client = &mut stage.client().await;
    assert_eq!(stage.checkpoint(client).await.0, Some(50));
    let written = stage.written().await;
    assert!(written.events == reference.events[..upto(50)], "the entries of blocks 1 to 50");

    // At or below the checkpoint there is nothing to do, and nothing is asked of the node.
    let frames = stage.node.frames();
    for stop in ["50", "20"] {
        stage.parser_with("", &["--stop-block", stop]).ended_with(0).await;
    }
    assert_eq!(stage.node.frames(), frames);
    stage.written().await.assert_same(&written, "after stops below the checkpoint");

    // The configuration's key does the same, and the checkpoint wins over a start block.
    let log = stage.parser_with("stopBlock: 60", &["--start-block", "3"]).ended_with(0).await;
    let line = log.lines().find(|line| line.contains("behind the checkpoint")).unwrap_or_default();
    assert!(line.contains("50") && line.contains("\"start_block\":\"3\""), "{log}");
    assert!(stage.written().await.events == reference.events[..upto(60)], "the entries of blocks 1 to 60");
    stage.finish("").await.assert_same(&reference, "in pieces");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_block_counts_when_it_is_published_first_though_a_fork_removes_it() {
    let recording = Recording::bundled("fork-240");
    let blocks: Vec<u32> = recording
        .capture
        .frames
        .iter()
        .filter_map(|frame| captures::block(frame, &recording.capture.protocol))
        .map(|block| block.num)
        .collect();
    // A height that comes twice.
    let (place, stop) = blocks
        .iter()
        .enumerate()
        .find(|(i, num)| blocks[i + 1..].contains(num))
        .map(|(place, num)| (place, *num))
        .expect("a fork");
    let first =
        captures::block(&recording.capture.frames[place], &recording.capture.protocol).expect("a block");
    let stage = Stage::new(&recording.capture).await;
    stage.parser_with("startBlock: 1", &["--stop-block", &stop.to_string()]).ended_with(0).await;
    let (_, id, _) = stage.checkpoint(&mut stage.client().await).await;
    assert_eq!(id, Some(first.id.to_string()));
}
