//! Replaying while parser, command or Redis are killed: every event once, and its letter gone just when it is published.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use serde_json::Value;

use crate::made::{self, Made, abi, block, go};
use crate::support::redis::TestRedis;
use crate::support::stage::Stage;
use crate::support::{chance, rounds, until};
use parser::capture::serve::ServeOptions;

const BLOCKS: u32 = 60;
const ACTIONS: u64 = 40;
const FURTHER: &str = "startBlock: 2\nxtrim: {enabled: false}";

/// Blocks 2 to 60 with actions of a contract without a known ABI.
fn blocks() -> Vec<Made> {
    (2..=BLOCKS)
        .map(|num| {
            let acts: Vec<_> = (0..ACTIONS)
                .map(|i| go("stranger", u64::from(num) * 1000 + i, 0, &[num as u8, i as u8, 0, 0]))
                .collect();
            block(num, 0).acts(&acts)
        })
        .collect()
}

/// The command, running.
fn replay(stage: &Stage, folder: &tempfile::TempDir) -> Child {
    let file = folder.path().join("replay.yaml");
    // The command alone is told the ABI, so that the parser goes on without it.
    let known = folder.path().join("stranger.abi");
    std::fs::write(&known, abi(&[("a", "uint32")])).expect("written");
    let overriding = format!("{{contract: stranger, fromBlock: 1, file: '{}'}}", known.display());
    let redis = stage.redis.url();
    let yaml = format!(
        "ship: {{url: 'ws://127.0.0.1:9'}}\nredis: {{url: '{redis}'}}\nabi: {{overrides: [{overriding}]}}\n{FURTHER}\n"
    );
    std::fs::write(&file, yaml).expect("written");
    Command::new(env!("CARGO_BIN_EXE_parser"))
        .args(["dead-letters", "replay", "--all", "--config"])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts")
}

async fn ended(child: &mut Child) -> Option<i32> {
    until("the command's end", async || child.try_wait().expect("a process")).await.code()
}

/// How often each event is there: undecoded, and published again.
async fn counts(client: &mut MultiplexedConnection, stage: &Stage) -> HashMap<String, (u32, u32)> {
    let mut counts: HashMap<String, (u32, u32)> = HashMap::new();
    let entries: Vec<(String, Vec<(String, String)>)> =
        redis::cmd("XRANGE").arg((&stage.keys.events, "-", "+")).query_async(client).await.expect("XRANGE");
    for (_, fields) in entries {
        let event: Value = serde_json::from_str(&fields[0].1).expect("JSON");
        let count = counts.entry(event["event_id"].as_str().expect("an id").to_owned()).or_default();
        match event["replayed"] == true {
            true => count.1 += 1,
            false => count.0 += 1,
        }
    }
    counts
}

/// Every event was published, and either has its letter and counter, or was published again; says how many were.
async fn assert_each_once(client: &mut MultiplexedConnection, stage: &Stage) -> usize {
    // Letters first: what is published meanwhile is then rather in both than in none.
    let letters: Vec<(String, Vec<(String, String)>)> = redis::cmd("XRANGE")
        .arg((&stage.keys.dead_parser, "-", "+"))
        .query_async(client)
        .await
        .expect("XRANGE");
    let counters: HashMap<String, String> =
        redis::cmd("HGETALL").arg(stage.keys.failures("parser")).query_async(client).await.expect("HGETALL");
    let counts = counts(client, stage).await;
    assert_eq!(letters.len(), counters.len());
    for (id, fields) in &letters {
        let event: Value = serde_json::from_str(&fields[0].1).expect("JSON");
        let event_id = event["event_id"].as_str().expect("an id");
        assert_eq!(counts[event_id], (1, 0), "{id} {event_id}");
        assert!(counters.contains_key(event_id));
    }
    let replayed = counts.values().filter(|count| **count == (1, 1)).count();
    assert_eq!(replayed + letters.len(), counts.len(), "none lost, none twice");
    replayed
}

async fn finish(stage: &Stage, folder: &tempfile::TempDir) {
    let client = &mut stage.client().await;
    // What is left, by a command alone.
    let mut last = replay(stage, folder);
    assert_eq!(ended(&mut last).await, Some(0));
    let all = u64::from(BLOCKS - 1) * ACTIONS;
    assert_eq!(assert_each_once(client, stage).await as u64, all);
    let left: u64 = redis::cmd("XLEN").arg(&stage.keys.replay).query_async(client).await.expect("XLEN");
    assert_eq!(left, 0);
    let file = folder.path().join("replay.yaml");
    let verified = Command::new(env!("CARGO_BIN_EXE_parser"))
        .args(["verify", "--config"])
        .arg(&file)
        .output()
        .expect("the command starts");
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_dash_nine_of_command_and_parser_neither_loses_nor_doubles() {
    let capture = made::capture(&blocks());
    let stage = Stage::with(&capture, TestRedis::start().await, ServeOptions::default()).await;
    let folder = tempfile::tempdir().expect("a folder");
    stage.slow(Duration::from_millis(8));
    let mut chance = chance();
    let mut parser = Some(stage.parser_with(FURTHER, &[]));
    parser.as_mut().expect("a parser").says("reading blocks").await;
    for round in 0..rounds(12) {
        let mut command = replay(&stage, &folder);
        tokio::time::sleep(Duration::from_millis(chance.u64(0..150))).await;
        let what = chance.u32(0..4);
        if what != 1 {
            command.kill().expect("killed");
        }
        if what != 0
            && let Some(parser) = parser.take()
        {
            parser.kill();
        }
        if what == 1 {
            // Without a parser it goes on by itself.
            assert_eq!(ended(&mut command).await, Some(0), "round {round}");
        }
        command.wait().expect("ended");
        if parser.is_none() && chance.bool() {
            parser = Some(stage.parser_with(FURTHER, &[]));
        }
    }
    let mut parser = match parser {
        Some(parser) => parser,
        None => stage.parser_with(FURTHER, &[]),
    };
    // Else it could be stopped before it listens to signals.
    parser.says("reading blocks").await;
    stage.done(&mut parser).await;
    parser.stopped().await;
    finish(&stage, &folder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_dash_nine_of_redis_neither_loses_nor_doubles() {
    let capture = made::capture(&blocks());
    let mut stage = Stage::with(&capture, TestRedis::start_with_aof().await, ServeOptions::default()).await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut parser = stage.parser_with(FURTHER, &[]);
    stage.done(&mut parser).await;
    let mut chance = chance();
    for _ in 0..rounds(4) {
        let mut command = replay(&stage, &folder);
        tokio::time::sleep(Duration::from_millis(chance.u64(0..120))).await;
        stage.redis.kill();
        command.kill().expect("killed");
        command.wait().expect("ended");
        stage.redis.restart().await;
        assert_each_once(&mut stage.client().await, &stage).await;
    }
    parser.stopped().await;
    finish(&stage, &folder).await;
}
