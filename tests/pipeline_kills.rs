//! Whatever is killed, cut or restarted in the middle: what lies in Redis at the end is what an undisturbed run writes,
//! ids and bytes.
//!
//! `PARSER_TEST_ROUNDS=200` disturbs each run so many times, and more recordings; `PARSER_TEST_SEED` repeats the same choices.

#[path = "support/made.rs"]
mod made;
mod support;

use std::time::Duration;

use bytes::Bytes;
use made::varuint;
use parser::capture::edit;
use parser::capture::file::Capture;
use parser::capture::serve::{Faults, ServeOptions};
use parser::cursor::{Cursor, CursorError};
use support::captures;
use support::expected::Recording;
use support::redis::TestRedis;
use support::stage::{Stage, undisturbed};
use support::written::Written;
use support::{chance, on_demand, rounds, until};

/// Slow enough that there is a middle.
const DELAY: Duration = Duration::from_millis(3);

/// The captures that are disturbed: those that come with the project; on demand all there are.
fn recordings() -> Vec<Recording> {
    let bundled = ["mixed-100", "fork-240"].map(Recording::bundled);
    let shared: &[&str] = if on_demand() { &["mixed", "fork", "spring", "load"] } else { &["fork"] };
    bundled.into_iter().chain(shared.iter().filter_map(|name| Recording::shared(name))).collect()
}

/// How many entries to wait for, so that the disturbances left are spread over what is left.
fn some_way(chance: &mut fastrand::Rng, now: u64, total: u64, left: usize) -> u64 {
    let stretch = total.saturating_sub(now) * 2 / (left as u64 + 1);
    now + chance.u64(0..=stretch)
}

/// A moment more or less, so that not every disturbance comes right behind a commit.
async fn a_moment(chance: &mut fastrand::Rng) {
    tokio::time::sleep(Duration::from_micros(chance.u64(0..4000))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parsers_killed_at_any_point() {
    let chance = &mut chance();
    for recording in recordings() {
        let reference = undisturbed(&recording.capture, "").await;
        let total = reference.events.len() as u64;
        for ids in ["block", "auto"] {
            let yaml = format!("streamIds: {ids}");
            let stage = Stage::new(&recording.capture).await;
            stage.slow(DELAY);
            let client = &mut stage.client().await;
            let mut kills = 0;
            for left in (1..=rounds(24)).rev() {
                let mut parser = stage.parser(&yaml);
                let goal = some_way(chance, stage.entries(client).await, total, left);
                if !stage.reached(&mut parser, goal).await {
                    break;
                }
                a_moment(chance).await;
                kills += usize::from(parser.kill());
            }
            let written = stage.finish(&yaml).await;
            let what = format!("{} after {kills} kills", recording.name);
            println!("{what}");
            assert!(kills >= 12, "{what}");
            match ids {
                "block" => written.assert_same(&reference, &what),
                _ => written.assert_same_data(&reference, &what),
            }
        }
    }
}

/// A capture with one block so large that it takes many transactions.
fn with_a_large_block() -> (Capture, u32) {
    let mut capture = Recording::bundled("mixed-100").capture;
    let protocol = capture.protocol.clone();
    // The contracts' rows of all blocks, several times, in one.
    let (mut count, mut tables) = (0, Vec::new());
    for frame in capture.frames.iter().cycle().take(64 * capture.frames.len()) {
        let deltas = captures::result(frame, &protocol).deltas.expect("deltas");
        for table in rows_of_contracts(&deltas).expect("deltas") {
            count += 1;
            tables.extend_from_slice(table);
        }
    }
    let mut deltas = Vec::new();
    varuint(&mut deltas, count);
    deltas.append(&mut tables);
    let num = 20;
    let frame = &mut capture.frames[num as usize - 1];
    *frame = edit::change(frame, &protocol, |result| result.deltas = Some(Bytes::from(deltas)));
    (capture, num)
}

/// The packed `table_delta`s of that table.
fn rows_of_contracts(deltas: &[u8]) -> Result<Vec<&[u8]>, CursorError> {
    let mut cursor = Cursor::new(deltas);
    let mut found = Vec::new();
    for _ in 0..cursor.varuint32()? {
        let begin = cursor.at();
        cursor.varuint32()?;
        let name = cursor.bytes()?;
        for _ in 0..cursor.varuint32()? {
            cursor.bool()?;
            cursor.bytes()?;
        }
        if name == b"contract_row" {
            found.push(&deltas[begin..cursor.at()]);
        }
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn parsers_killed_between_the_parts_of_a_block() {
    let (capture, large) = with_a_large_block();
    for ids in ["block", "auto"] {
        let yaml = format!("streamIds: {ids}\nworkerPool: {{maxThreads: 1}}");
        let reference = undisturbed(&capture, &yaml).await;
        let stage = Stage::new(&capture).await;
        let client = &mut stage.client().await;
        let mut seen = Vec::new();
        loop {
            let mut parser = stage.parser(&yaml);
            let part = until("a part of the block", async || {
                assert!(parser.is_running(), "the parser ended:\n{}", parser.log());
                let (block, _, part) = stage.checkpoint(client).await;
                let is_new = block == Some(large) && part.is_some() && part != seen.last().copied().flatten();
                (is_new || block > Some(large)).then_some(part)
            })
            .await;
            if part.is_none() {
                break;
            }
            parser.kill();
            seen.push(stage.checkpoint(client).await.2);
        }
        let landed = seen.iter().flatten().count();
        let what = format!("{landed} kills between the parts: {seen:?}");
        println!("{what}");
        assert!(landed >= 3, "{what}");
        let written = stage.finish(&yaml).await;
        match ids {
            "block" => written.assert_same(&reference, &what),
            _ => written.assert_same_data(&reference, &what),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_whose_connections_are_cut_at_any_byte() {
    for recording in recordings() {
        let reference = undisturbed(&recording.capture, "").await;
        // In the handshake, in the protocol, in the first block.
        let abi = recording.capture.abi.len() as u64;
        let first = 0..2 * (abi + recording.capture.frames[0].len() as u64);
        let first = Faults { cut_after_bytes: Some(first), ..Faults::default() };
        let options = ServeOptions { faults: first, ..ServeOptions::default() };
        let stage = Stage::with(&recording.capture, TestRedis::start().await, options).await;
        let client = &mut stage.client().await;
        let mut parser = stage.parser("reconnect: {backoffSeconds: [0]}");
        until("the first block", async || {
            assert!(parser.is_running(), "the parser ended:\n{}", parser.log());
            stage.checkpoint(client).await.0
        })
        .await;
        // In whichever of the others.
        let others = abi..abi + 40_000 * 24 / rounds(24) as u64;
        stage.node.set_faults(Faults { cut_after_bytes: Some(others), ..Faults::default() });
        let cut = until("so many connections", async || {
            let connections = stage.node.connections();
            (stage.is_done(client).await || connections > rounds(24) as u64).then_some(connections)
        })
        .await;
        stage.node.set_faults(Faults::default());
        stage.done(&mut parser).await;
        parser.stopped().await;
        let what = format!("{} after {cut} connections", recording.name);
        println!("{what}");
        assert!(cut >= 10, "{what}");
        stage.written().await.assert_same(&reference, &what);
    }
}

/// One parser to the end of a capture, Redis being disturbed on the way.
async fn disturbed(
    recording: &Recording,
    redis: TestRedis,
    few: usize,
    mut disturb: impl AsyncFnMut(&mut TestRedis),
) -> (Written, usize) {
    let chance = &mut chance();
    let total = recording.events.len() as u64;
    let mut stage = Stage::with(&recording.capture, redis, ServeOptions::default()).await;
    stage.slow(DELAY);
    let mut parser = stage.parser("");
    let mut count = 0;
    for left in (1..=rounds(few)).rev() {
        let now = stage.entries(&mut stage.client().await).await;
        let goal = some_way(chance, now, total, left);
        if !stage.reached(&mut parser, goal).await {
            break;
        }
        a_moment(chance).await;
        disturb(&mut stage.redis).await;
        count += 1;
    }
    stage.done(&mut parser).await;
    parser.stopped().await;
    (stage.written().await, count)
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_killed_and_started_again() {
    for recording in recordings() {
        let reference = undisturbed(&recording.capture, "").await;
        let redis = TestRedis::start_with_aof().await;
        let (written, count) = disturbed(&recording, redis, 8, async |redis| redis.restart().await).await;
        let what = format!("{} after {count} restarts of Redis", recording.name);
        println!("{what}");
        assert!(count >= 4, "{what}");
        written.assert_same(&reference, &what);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_connections_killed() {
    for recording in recordings() {
        let reference = undisturbed(&recording.capture, "").await;
        let redis = TestRedis::start().await;
        let kill = async |redis: &mut TestRedis| {
            let mut command = redis::cmd("CLIENT");
            let () = command
                .arg(("KILL", "TYPE", "normal", "SKIPME", "yes"))
                .query_async(&mut redis.client().await)
                .await
                .expect("CLIENT KILL");
        };
        let (written, count) = disturbed(&recording, redis, 24, kill).await;
        let what = format!("{} after {count} times all connections were killed", recording.name);
        println!("{what}");
        assert!(count >= 12, "{what}");
        written.assert_same(&reference, &what);
    }
}
