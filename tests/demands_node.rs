//! What nodes do to those who read them, through the whole program.

mod captures;
#[path = "support/made.rs"]
mod made;
#[path = "support/node.rs"]
mod node;
#[path = "support/redis.rs"]
mod redis;
#[path = "support/run.rs"]
mod run;

use std::time::Duration;

use bytes::Bytes;
use captures::serve;
use made::{CHAIN, Made, block, go, position};
use node::ScriptedNode;
use parser::capture::serve::{Faults, ServeOptions};
use redis::TestRedis;
use run::{Parser, config, events, keys, published};
use serde_json::Value;

const BLOCKS: &str = "publish: {blocks: true}\nstartBlock: 10";

fn call(num: u32, branch: u8) -> Made {
    block(num, branch).irreversible(11).acts(&[go("game", u64::from(num), 0, &[])])
}

fn calls(nums: std::ops::RangeInclusive<u32>) -> Vec<Made> {
    nums.map(|num| call(num, 0)).collect()
}

async fn node(head: u32, scripts: &[&[Made]]) -> ScriptedNode {
    let protocol = made::protocol();
    let script = |blocks: &&[Made]| blocks.iter().map(|made| made.frame(&protocol)).collect();
    ScriptedNode::start(position(head, 0), scripts.iter().map(script).collect()).await
}

/// The blocks that were closed, and forks as the common block's number below zero.
async fn told(redis: &TestRedis) -> Vec<i64> {
    let of = |event: &Value| match event["kind"].as_str() {
        Some("fork") => event["forked_from_block"].as_i64().map(|common| -common),
        Some("block") => event["block_num"].as_i64(),
        _ => None,
    };
    events(redis, &CHAIN).await.iter().filter_map(|(_, event)| of(event)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_falls_silent_is_left_and_nothing_is_lost() {
    let redis = TestRedis::start().await;
    let faults = Faults { stall_after_frames: Some(4), connections: Some(2), ..Faults::default() };
    let capture = made::capture(&calls(10..=30));
    let server = serve(&capture, ServeOptions { faults, ..ServeOptions::default() }).await;
    let config = config(&[server.url()], &redis, &format!("{BLOCKS}\nstopBlock: 30"))
        .replace("timeoutMs: 3000", "timeoutMs: 300, silenceSeconds: 0.2");
    let said = run::run(&config, &[]).await;
    assert_eq!(said.matches("the node stopped sending").count(), 2, "{said}");
    assert_eq!(told(&redis).await, (10..=30).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_result_without_a_block_is_counted_and_acknowledged_and_no_more() {
    let redis = TestRedis::start().await;
    let protocol = made::protocol();
    let mut frames: Vec<_> = calls(10..=11).iter().map(|made| made.frame(&protocol)).collect();
    let mut none = call(12, 0).result(&protocol);
    (none.this_block, none.prev_block, none.block, none.traces, none.deltas) = (None, None, None, None, None);
    frames.extend([none.encode(&protocol), none.encode(&protocol)]);
    frames.extend(calls(12..=14).iter().map(|made| made.frame(&protocol)));
    let served = ScriptedNode::start(position(14, 0), vec![frames]).await;
    // A window of one: without an ack for each, it would stand still.
    let further = format!("{BLOCKS}\nmaxMessagesInFlight: 1");
    let parser = Parser::start(&config(&[served.url()], &redis, &further), &[]);
    published(&redis, &CHAIN, 14).await;
    served.until(|node| node.counts().1 == 7).await;
    parser.stopped().await;
    assert_eq!(told(&redis).await, [10, 11, 12, 13, 14]);
    assert_eq!((served.asked().len(), served.counts()), (1, (7, 7)));
}

#[tokio::test]
async fn a_hole_in_the_log_ends_it_with_the_block_or_leads_to_the_next_endpoint() {
    let protocol = made::protocol();
    for (what, left) in [
        ("traces", None),
        ("deltas", None),
        ("block", None),
        ("traces", Some(Bytes::new())),
        ("deltas", Some(Bytes::new())),
    ] {
        let mut frames: Vec<_> = calls(10..=11).iter().map(|made| made.frame(&protocol)).collect();
        let mut hole = call(12, 0).result(&protocol);
        match what {
            "traces" => hole.traces = left,
            "deltas" => hole.deltas = left,
            _ => hole.block = None,
        }
        frames.push(hole.encode(&protocol));
        let damaged = ScriptedNode::start(position(13, 0), vec![frames.clone()]).await;

        let redis = TestRedis::start().await;
        let (status, said) = Parser::start(&config(&[damaged.url()], &redis, BLOCKS), &[]).ended().await;
        assert_eq!(status, Some(1), "{said}");
        let last = said.lines().last().expect("a message");
        assert!(last.contains(&format!("no {what} of block 12")) && last.contains("whole log"), "{last}");
        assert_eq!(told(&redis).await, [10, 11]);

        let redis = TestRedis::start().await;
        let damaged = ScriptedNode::start(position(13, 0), vec![frames]).await;
        let whole = node(13, &[&calls(12..=13)]).await;
        let further = format!("{BLOCKS}\nstopBlock: 13");
        run::run(&config(&[damaged.url(), whole.url()], &redis, &further), &[]).await;
        assert_eq!(whole.asked()[0].start, 12);
        assert_eq!(told(&redis).await, [10, 11, 12, 13]);
    }
}

#[tokio::test]
async fn after_a_failover_the_last_id_is_checked() {
    // The first node goes away; the second is on another branch above 12.
    let redis = TestRedis::start().await;
    let first = node(14, &[&calls(10..=14), &[]]).await;
    let second = node(15, &[&[call(13, 2).on(0), call(14, 2), call(15, 2)]]).await;
    let further = format!("{BLOCKS}\nstopBlock: 15");
    run::run(&config(&[first.url(), second.url()], &redis, &further), &[]).await;
    let asked = &second.asked()[0];
    assert_eq!((asked.start, asked.have_positions.last()), (15, Some(&position(14, 0))));
    assert_eq!(told(&redis).await, [10, 11, 12, 13, 14, -12, 13, 14, 15]);
}

#[tokio::test]
async fn a_second_node_with_another_history_is_not_used() {
    // Below the last irreversible block: not a fork, another chain. The first node comes back.
    let redis = TestRedis::start().await;
    let first = node(16, &[&calls(10..=14), &calls(15..=16)]).await;
    let second = node(15, &[&[call(11, 2).on(0), call(12, 2), call(13, 2), call(14, 2), call(15, 2)]]).await;
    let further = format!("{BLOCKS}\nstopBlock: 16");
    let said = run::run(&config(&[first.url(), second.url()], &redis, &further), &[]).await;
    assert!(said.contains("this node cannot be used: trying the next one"), "{said}");
    assert_eq!(second.asked().len(), 1);
    assert_eq!(told(&redis).await, (10..=16).collect::<Vec<_>>());
}

#[tokio::test]
async fn acknowledgements_follow_publication() {
    let redis = TestRedis::start().await;
    let served = node(200, &[&calls(10..=200)]).await;
    let window = 5;
    let further = format!("{BLOCKS}\nmaxMessagesInFlight: {window}\nstopBlock: 200");
    let mut client = redis.client().await;
    let parser = Parser::start(&config(&[served.url()], &redis, &further), &[]);
    served.until(|node| node.counts().1 > 20).await;
    // Redis takes nothing any more, for a while.
    ::redis::cmd("CLIENT").arg(("PAUSE", 2000, "WRITE")).exec_async(&mut client).await.expect("CLIENT PAUSE");
    let all_sent = |node: &ScriptedNode| {
        let (sent, acked) = node.counts();
        sent as u64 == acked + window
    };
    served.until(all_sent).await;
    let (_, acked) = served.counts();
    let newest: u64 = ::redis::cmd("HGET")
        .arg((keys(&CHAIN).sync, "block_num"))
        .query_async(&mut client)
        .await
        .expect("reading goes on");
    assert!(acked <= newest - 9, "{acked} acknowledged, block {newest} published");
    ::redis::cmd("CLIENT").arg("UNPAUSE").exec_async(&mut client).await.expect("CLIENT UNPAUSE");
    let (status, said) = parser.ended().await;
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(told(&redis).await, (10..=200).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn with_redis_at_a_standstill_memory_is_bounded_in_bytes() {
    let redis = TestRedis::start().await;
    let value = vec![7; 1 << 20];
    let blocks: Vec<Made> = (10..=409).map(|num| call(num, 0).row("data", 1, &value)).collect();
    let served = node(409, &[&blocks]).await;
    drop(blocks);
    let further = format!("{BLOCKS}\nmaxMessagesInFlight: 1000\nmaxInFlightBytes: 16777216");
    let mut client = redis.client().await;
    let parser = Parser::start(&config(&[served.url()], &redis, &further), &[]);
    served.until(|node| node.counts().0 > 0).await;
    ::redis::cmd("CLIENT").arg(("PAUSE", 5000, "WRITE")).exec_async(&mut client).await.expect("CLIENT PAUSE");
    // Till the node cannot send any more: its socket is full.
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let (sent, _) = served.counts();
        if sent == before {
            break;
        }
        before = sent;
    }
    // Acks can be waiting still; what is published is known.
    let newest: Option<u64> = ::redis::cmd("HGET")
        .arg((keys(&CHAIN).sync, "block_num"))
        .query_async(&mut client)
        .await
        .expect("reading goes on");
    let (sent, published) = (served.counts().0 as u64, newest.map_or(0, |block| block - 9));
    assert!(sent - published < 100, "{sent} frames of 1 MiB sent, {published} published");
    assert!(published < 300, "{published} of 400 published: nothing is shown");
    let status = std::fs::read_to_string(format!("/proc/{}/status", parser.id())).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("its peak memory");
    let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    assert!(kib < 150 << 10, "{kib} KiB");
}
