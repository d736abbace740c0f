//! Each state, brought about, and what is said in it.

use std::time::Duration;

use parser::capture::serve::ServeOptions;
use parser::config::{Config, Environment};
use rustix::process::Signal;

use super::made::{self, CHAIN, block, go, position};
use super::node::ScriptedNode;
use super::support::captures;
use super::support::redis::TestRedis;
use super::support::stage::Stage;
use super::support::until;
use super::{free_port, get, metrics, report, said_states, served, until_json, until_state};

/// Blocks of one action each, none of them irreversible; made now.
fn fresh(nums: std::ops::RangeInclusive<u32>) -> parser::capture::file::Capture {
    let protocol = made::protocol();
    let mut capture = made::capture(
        &nums.map(|num| block(num, 0).acts(&[go("game", num.into(), 0, &[])])).collect::<Vec<_>>(),
    );
    // Half seconds since 2000.
    let slot = (parser::time::now().as_millis() as u64 - 946_684_800_000) / 500;
    for frame in &mut capture.frames {
        *frame = parser::capture::edit::change(frame, &protocol, |result| {
            let mut bytes = result.block.take().expect("a block").to_vec();
            bytes[..4].copy_from_slice(&(slot as u32).to_le_bytes());
            result.block = Some(bytes.into());
        });
    }
    capture
}

/// More of them than there are file descriptors for would else keep the parser from its node and Redis.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_say_nothing_are_ended_and_bounded() {
    let stage = Stage::new(&fresh(1..=3)).await;
    let port = free_port();
    let mut parser = stage.parser(&served(port));
    stage.done(&mut parser).await;
    let mut silent = Vec::new();
    for _ in 0..150 {
        silent.push(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("the backlog takes it"));
    }
    let open = || {
        let all = std::fs::read_dir(format!("/proc/{}/fd", parser.pid())).expect("its files");
        all.count()
    };
    let most = open();
    assert!(most < 130, "{most}");
    // Its turn comes.
    let (status, health) = get(port, "/health").await.expect("an answer");
    assert_eq!(status, 200, "{health}");
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn live_at_the_head_then_waiting_for_redis_and_back() {
    let mut stage = Stage::new(&fresh(1..=20)).await;
    stage.slow(Duration::from_millis(20));
    let port = free_port();
    let mut parser = stage.parser(&served(port));
    until_state(port, "live").await;
    stage.done(&mut parser).await;
    let (status, ready) = get(port, "/ready").await.expect("an answer");
    assert_eq!(status, 200, "{ready}");
    let (status, health) = until_json(port, "/health", "health", |_| true).await;
    assert_eq!((status, &health["status"]), (200, &"ok".into()));
    assert!(health["indexingLagSeconds"].as_f64().expect("a lag") < 30.0, "{health}");
    let said = until("a report", async || report(&stage).await.filter(|said| said["block"] == 20)).await;
    assert_eq!((&said["state"], &said["pid"]), (&"live".into(), &parser.pid().into()));
    assert_eq!(said["endpoint"], stage.node.url());
    let ttl: i64 =
        redis::cmd("PTTL").arg(&stage.keys.state).query_async(&mut stage.client().await).await.expect("PTTL");
    assert!((1..=15_000).contains(&ttl), "{ttl}");

    stage.redis.kill();
    let reason = until_state(port, "waiting-for-redis").await;
    assert!(reason.contains("Redis"), "{reason}");
    for path in ["/health", "/ready"] {
        assert_eq!(get(port, path).await.expect("an answer").0, 503, "{path}");
    }
    assert_eq!(get(port, "/").await.expect("an answer").0, 200);
    stage.redis.restart().await;
    // Its data is gone: going on would leave a gap.
    let log = parser.ended_with(2).await;
    let last: serde_json::Value = serde_json::from_str(log.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&last["level"], &last["exit_status"]), (&"ERROR".into(), &2.into()));
    assert!(last["message"].as_str().expect("a text").contains("Redis has no checkpoint any more"), "{last}");
    // Why it ended is there to be read.
    let said = report(&stage).await.expect("a report");
    assert_eq!((&said["state"], &said["reason"]), (&"failed".into(), &last["message"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_node_it_says_every_ten_seconds_what_it_waits_for() {
    let stage = Stage::new(&captures::plain(5)).await;
    let port = free_port();
    let dead = free_port();
    let yaml = format!("ship: {{url: 'ws://127.0.0.1:{dead}'}}\n{}", served(port));
    let mut parser = stage.parser(&yaml);
    let reason = until_state(port, "waiting-for-node").await;
    assert!(reason.contains(&format!("127.0.0.1:{dead}")) && reason.contains("refused"), "{reason}");
    assert_eq!(get(port, "/health").await.expect("an answer").0, 503);
    parser.says("still waiting for the node").await;
    assert_eq!(said_states(&parser), ["connecting", "waiting-for-node"], "{}", parser.log());
    assert!(!parser.log().contains("\"published\""), "{}", parser.log());
    parser.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_stream_pauses_and_says_whose_fault_it_is() {
    let capture = made::capture(
        &(1..=60).map(|num| block(num, 0).acts(&[go("game", num.into(), 0, &[])])).collect::<Vec<_>>(),
    );
    let stage = Stage::new(&capture).await;
    let mut client = stage.client().await;
    let events = &stage.keys.events;
    redis::cmd("XGROUP")
        .arg(("CREATE", events, "slow", "0", "MKSTREAM"))
        .exec_async(&mut client)
        .await
        .expect("XGROUP");
    let port = free_port();
    let mut parser = stage.parser(&format!("{}xtrim: {{maxEntries: 20, intervalMs: 100}}\n", served(port)));
    until_state(port, "paused-stream-full").await;
    let (status, health) = until_json(port, "/health", "the group", |health| {
        health["reason"].as_str().is_some_and(|reason| reason.contains("`slow`"))
    })
    .await;
    assert_eq!(status, 503, "{health}");
    let told = metrics(port).await;
    assert_eq!(told["parser2_stream_max_entries"], 20.0);
    assert!(told["parser2_stream_length"] >= 20.0);
    // The group reads all there is, again and again.
    let reader = tokio::spawn({
        let (mut client, events) = (stage.client().await, events.clone());
        async move {
            loop {
                let read = redis::cmd("XREADGROUP")
                    .arg(("GROUP", "slow", "me", "COUNT", 100, "NOACK", "BLOCK", 20, "STREAMS", &events, ">"))
                    .query_async::<redis::Value>(&mut client)
                    .await;
                read.expect("XREADGROUP");
            }
        }
    });
    stage.done(&mut parser).await;
    let told = until("all trimmed", async || {
        let told = metrics(port).await;
        (told["parser2_xtrimmed_entries_total"] >= 40.0).then_some(told)
    })
    .await;
    assert_eq!(told["parser2_xtrim_forced_entries_total"], 0.0);
    reader.abort();
    parser.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_parser_stands_by_and_leaves_the_report_to_the_first() {
    let stage = Stage::new(&fresh(1..=5)).await;
    let first = stage.parser("");
    let said = until("a report", async || report(&stage).await.filter(|said| said["block"] == 5)).await;
    let port = free_port();
    let second = stage.parser(&served(port));
    let reason = until_state(port, "standby").await;
    assert!(reason.contains(said["instance"].as_str().expect("a token")), "{reason}");
    assert_eq!(get(port, "/health").await.expect("an answer").0, 200);
    assert_eq!(get(port, "/ready").await.expect("an answer").0, 503);
    assert_eq!(report(&stage).await.expect("a report")["pid"], first.pid());
    first.stopped().await;
    let pid = second.pid();
    until("the second one's report", async || report(&stage).await.filter(|said| said["pid"] == pid)).await;
    second.stopped().await;
    assert_eq!(report(&stage).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_too_deep_is_a_state_of_its_own_that_ends_when_the_node_comes_back() {
    let call =
        |num: u32, branch: u8| block(num, branch).irreversible(13).acts(&[go("game", num.into(), 0, &[])]);
    let protocol = made::protocol();
    let frames = |blocks: &[made::Made]| blocks.iter().map(|made| made.frame(&protocol)).collect::<Vec<_>>();
    let first: Vec<_> = (10..=14).map(|num| call(num, 0)).collect();
    // Below the last irreversible block; then the node is back on the first branch.
    let other = [call(12, 2).on(0), call(13, 2)];
    let back: Vec<_> = (15..=16).map(|num| call(num, 0)).collect();
    let scripts = vec![frames(&first), frames(&other), frames(&other), frames(&back)];
    let node = ScriptedNode::start(position(14, 0), scripts).await;
    let stage = Stage::with(&made::capture(&back), TestRedis::start().await, ServeOptions::default()).await;
    let port = free_port();
    let yaml = format!(
        "ship: {{url: '{}'}}\nstartBlock: 10\nreconnect: {{backoffSeconds: [0.05, 1]}}\n{}",
        node.url(),
        served(port)
    );
    let mut parser = stage.parser_with(&yaml, &[]);
    let reason = until_state(port, "fork-too-deep").await;
    assert!(reason.contains("another fork of the chain"), "{reason}");
    assert_eq!(get(port, "/health").await.expect("an answer").0, 503);
    stage.done(&mut parser).await;
    let log = parser.log();
    assert_eq!(log.matches("\"state\":\"fork-too-deep\"").count(), 1, "{log}");
    assert!(log.lines().any(|line| line.contains("fork-too-deep") && line.contains("\"ERROR\"")), "{log}");
    parser.stopped().await;
    let _ = CHAIN;
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_stop_at_any_moment_it_ends_well() {
    let stage = Stage::new(&captures::plain(5)).await;
    let mut parser = stage.parser("logger: {level: 'off'}");
    // As soon as it listens to signals.
    let status = format!("/proc/{}/status", parser.pid());
    until("signal handlers", async || {
        let status = std::fs::read_to_string(&status).ok()?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).expect("a mask");
        (caught & 1 << (Signal::TERM.as_raw() - 1) != 0).then_some(())
    })
    .await;
    assert!(parser.is_running());
    parser.stopped().await;
}

#[test]
fn hosts_to_listen_on_are_addresses_or_names() {
    let read = |host: &str| {
        let yaml = format!(
            "ship: {{url: ws://n}}\nredis: {{url: redis://r}}\nhealth: {{enabled: true, host: '{host}'}}\n"
        );
        let environment: Environment<'_> = &|_| Err(std::env::VarError::NotPresent);
        Config::parse(&yaml, std::path::Path::new(""), environment).map(|config| config.health.host)
    };
    for (given, host) in
        [("0.0.0.0", "0.0.0.0"), ("::1", "::1"), ("[::1]", "::1"), ("localhost", "localhost")]
    {
        assert_eq!(read(given).expect("a host"), host);
    }
    let error = read("127.0.0.1:9090").expect_err("with a port").to_string();
    assert!(error.contains("health.host") && error.contains("without a port"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_said_at_once() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let stage = Stage::new(&captures::plain(5)).await;
    let said = stage.parser(&format!("metrics: {{enabled: true, port: {port}}}\n")).ended_with(1).await;
    for part in ["metrics.host, metrics.port", &port.to_string(), "in use", "Choose another port"] {
        assert!(said.contains(part), "{said}");
    }
}
