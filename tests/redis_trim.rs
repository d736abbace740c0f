//! What is trimmed and what is not.

#[path = "support/redis.rs"]
mod support;

use std::time::Duration;

use parser::block::Checksum;
use parser::keys::Keys;
use parser::publish::writer::Progress;
use parser::publish::{EntryId, StreamIds};
use parser::trim::{self, Policy, Status};
use redis::aio::MultiplexedConnection;
use support::TestRedis;
use tokio::sync::watch;

fn keys() -> Keys {
    Keys::new("test", &Checksum([7; 32]), "")
}

const READ_ONLY: Policy = Policy { interval: Duration::from_secs(60), keep_blocks: None, force_above: None };

async fn run<T: redis::FromRedisValue>(client: &mut MultiplexedConnection, command: &str) -> T {
    let command = command.replace("EVENTS", &keys().events).replace("SYNC", &keys().sync);
    let mut words = command.split(' ');
    let mut cmd = redis::cmd(words.next().unwrap());
    words.for_each(|word| {
        cmd.arg(word);
    });
    cmd.query_async(client).await.unwrap_or_else(|e| panic!("{command}: {e}"))
}

/// Blocks with so many entries each, and a checkpoint at the last one.
async fn fill(client: &mut MultiplexedConnection, blocks: std::ops::RangeInclusive<u32>, entries: u32) {
    for num in blocks.clone() {
        for i in 1..=entries {
            run::<String>(client, &format!("XADD EVENTS {num}-{i} data {{\"block_num\":{num}}}")).await;
        }
    }
    run::<()>(client, &format!("HSET SYNC block_num {}", blocks.end())).await;
}

async fn first(client: &mut MultiplexedConnection) -> Option<String> {
    let entries: redis::streams::StreamRangeReply = run(client, "XRANGE EVENTS - + COUNT 1").await;
    entries.ids.first().map(|entry| entry.id.clone())
}

async fn round(client: &mut MultiplexedConnection, policy: &Policy) -> Status {
    let (status, seen) = watch::channel(Status::default());
    trim::round(client, &keys(), policy, StreamIds::Block, &status).await.unwrap();
    drop(status);
    seen.borrow().clone()
}

async fn read(client: &mut MultiplexedConnection, group: &str, count: u32) {
    run::<redis::Value>(client, &format!("XREADGROUP GROUP {group} c COUNT {count} STREAMS EVENTS >")).await;
}

#[tokio::test]
async fn nothing_goes_before_all_groups_have_read_and_acknowledged_it() {
    let redis = TestRedis::start().await;
    let client = &mut redis.client().await;
    // No stream yet.
    assert_eq!(round(client, &READ_ONLY).await, Status { rounds: 1, ..Status::default() });
    fill(client, 8..=12, 10).await;
    // No group: nothing says what has been read.
    assert_eq!(round(client, &READ_ONLY).await.trimmed, 0);

    run::<()>(client, "XGROUP CREATE EVENTS fast 0").await;
    run::<()>(client, "XGROUP CREATE EVENTS slow 0").await;
    read(client, "fast", 50).await;
    // `slow` has read nothing, and `fast` has acknowledged nothing.
    let status = round(client, &READ_ONLY).await;
    assert_eq!((status.trimmed, status.held_by.as_deref()), (0, Some("slow")));

    // `slow` reads up to 10-4 and acknowledges all but 9-3 and 10-2.
    read(client, "slow", 24).await;
    for (num, entries) in [(8, 10), (9, 10), (10, 4)] {
        for i in (1..=entries).filter(|i| (num, *i) != (9, 3) && (num, *i) != (10, 2)) {
            run::<u64>(client, &format!("XACK EVENTS slow {num}-{i}")).await;
        }
    }
    assert_eq!(round(client, &READ_ONLY).await.held_by.as_deref(), Some("fast"));
    for num in 8..=12 {
        for i in 1..=10 {
            run::<u64>(client, &format!("XACK EVENTS fast {num}-{i}")).await;
        }
    }
    // The pending entry stays, all before it goes. Ids compare as numbers: 9-3 is below 10-2.
    let status = round(client, &READ_ONLY).await;
    assert_eq!(status.bound, Some(EntryId { first: 9, second: 3 }));
    assert_eq!((status.trimmed, first(client).await.as_deref()), (12, Some("9-3")));
    assert_eq!(status.held_by.as_deref(), Some("slow"));
    run::<u64>(client, "XACK EVENTS slow 9-3").await;
    assert_eq!(round(client, &READ_ONLY).await.trimmed, 9);
    assert_eq!(first(client).await.as_deref(), Some("10-2"));
    // With none pending the last one delivered may go too, what was not delivered stays.
    run::<u64>(client, "XACK EVENTS slow 10-2").await;
    assert_eq!(round(client, &READ_ONLY).await.trimmed, 3);
    assert_eq!(first(client).await.as_deref(), Some("10-5"));
    // A new group that starts at the beginning holds everything.
    run::<()>(client, "XGROUP CREATE EVENTS new 0").await;
    read(client, "slow", 100).await;
    let status = round(client, &READ_ONLY).await;
    assert_eq!((status.trimmed, status.held_by.as_deref()), (0, Some("new")));
}

#[tokio::test]
async fn the_newest_blocks_are_kept_whatever_was_read() {
    let redis = TestRedis::start().await;
    let client = &mut redis.client().await;
    fill(client, 101..=120, 3).await;
    let keep = |count| Policy { keep_blocks: Some(count), ..READ_ONLY };
    // With no group at all it alone decides.
    assert_eq!(round(client, &keep(15)).await.trimmed, 15);
    assert_eq!(first(client).await.as_deref(), Some("106-1"));
    // With one the stricter counts.
    run::<()>(client, "XGROUP CREATE EVENTS web 109-3").await;
    assert_eq!(round(client, &keep(5)).await.trimmed, 12);
    assert_eq!(first(client).await.as_deref(), Some("110-1"));
    run::<()>(client, "XGROUP SETID EVENTS web $").await;
    let status = round(client, &keep(5)).await;
    assert_eq!((status.trimmed, status.held_by), (18, None));
    assert_eq!(first(client).await.as_deref(), Some("116-1"));
    // A block in parts is not one of them.
    run::<()>(client, "HSET SYNC block_num 121 part 1").await;
    assert_eq!(round(client, &keep(5)).await.trimmed, 0);
}

#[tokio::test]
async fn with_ids_made_by_redis_block_numbers_are_read_from_the_entries() {
    let redis = TestRedis::start().await;
    let client = &mut redis.client().await;
    // Several blocks in one millisecond, a fork event (no block number), gaps in time.
    let entries: &[(u64, u64, Option<u32>)] = &[
        (1_700_000_000_000, 0, Some(1)),
        (1_700_000_000_000, 1, Some(2)),
        (1_700_000_000_500, 0, Some(3)),
        (1_700_000_000_500, 1, Some(4)),
        (1_700_000_000_500, 2, Some(5)),
        (1_700_000_900_000, 0, None),
        (1_700_000_900_000, 1, Some(5)),
        (1_700_000_900_001, 0, Some(6)),
        (1_700_009_900_000, 0, Some(8)),
        (1_700_009_900_001, 0, None),
    ];
    let mut entries: Vec<(u64, u64, String)> = entries
        .iter()
        .map(|(first, second, block)| {
            let data =
                block.map_or("{\"kind\":\"fork\"}".to_owned(), |num| format!("{{\"block_num\":{num}}}"));
            (*first, *second, data)
        })
        .collect();
    // Published again from dead letters, more of them than one look reaches, in between and at the end.
    for first in [1_700_001_000_000u64, 1_700_009_900_002] {
        for second in 0..20 {
            entries.push((first, second, "{\"block_num\":2,\"replayed\":true}".to_owned()));
        }
    }
    entries.sort();
    for (first, second, data) in &entries {
        run::<String>(client, &format!("XADD EVENTS {first}-{second} data {data}")).await;
    }
    run::<()>(client, "HSET SYNC block_num 9").await;
    let (status, _) = watch::channel(Status::default());
    // Blocks to keep, and the first entry then.
    for (count, left) in [
        (100, "1700000000000-0"),
        (8, "1700000000000-1"),
        (7, "1700000000500-0"),
        (5, "1700000000500-2"),
        (4, "1700000900001-0"),
        (3, "1700001000000-0"),
        (2, "1700001000000-0"),
        (1, "1700009900001-0"),
    ] {
        let policy = Policy { keep_blocks: Some(count), ..READ_ONLY };
        trim::round(client, &keys(), &policy, StreamIds::Auto, &status).await.unwrap();
        assert_eq!(first(client).await.as_deref(), Some(left), "keepBlocks {count}");
    }
}

#[tokio::test]
async fn beyond_the_cap_the_oldest_entries_go_and_are_counted() {
    let redis = TestRedis::start().await;
    let client = &mut redis.client().await;
    fill(client, 1..=50, 10).await;
    run::<()>(client, "XGROUP CREATE EVENTS web 20-10").await;
    let policy = Policy { force_above: Some(450), keep_blocks: Some(40), ..READ_ONLY };
    // 100 go by keepBlocks, which is enough.
    let status = round(client, &policy).await;
    assert_eq!((status.trimmed, status.forced), (100, 0));
    let policy = Policy { force_above: Some(123), ..policy };
    let status = round(client, &policy).await;
    assert_eq!((status.trimmed, status.forced), (0, 277));
    assert_eq!(run::<u64>(client, "XLEN EVENTS").await, 123);
    assert_eq!(first(client).await.as_deref(), Some("38-8"));
}

#[tokio::test]
async fn a_large_stream_is_trimmed_exactly() {
    let redis = TestRedis::start().await;
    let client = &mut redis.client().await;
    let mut entries = redis::pipe();
    for i in 1..=35_000 {
        entries.cmd("XADD").arg((&keys().events, format!("7-{i}"), "data", "x")).ignore();
    }
    entries.exec_async(client).await.unwrap();
    run::<()>(client, "XGROUP CREATE EVENTS web 7-34567").await;
    assert_eq!(round(client, &READ_ONLY).await.trimmed, 34_567);
    assert_eq!(first(client).await.as_deref(), Some("7-34568"));
}

#[tokio::test]
async fn rounds_go_on_over_a_restart_and_come_at_once_when_the_stream_is_full() {
    let mut redis = TestRedis::start_with_aof().await;
    let (progress, watched) = watch::channel(Progress::default());
    let (status, mut seen) = watch::channel(Status::default());
    let server = redis.server();
    let policy = Policy { interval: Duration::from_secs(3600), ..READ_ONLY };
    let task = tokio::spawn(async move {
        trim::run(&server, &keys(), &policy, StreamIds::Block, watched, &status).await;
    });
    seen.wait_for(|status| status.rounds == 1).await.unwrap();
    let client = &mut redis.client().await;
    fill(client, 1..=5, 2).await;
    run::<()>(client, "XGROUP CREATE EVENTS web 3-2").await;
    redis.kill();
    // The writer waits: rounds are tried again and again, until one succeeds.
    progress.send_modify(|progress| progress.paused = true);
    redis.restart().await;
    seen.wait_for(|status| status.trimmed == 6).await.unwrap();
    progress.send_modify(|progress| progress.paused = false);
    assert_eq!(first(&mut redis.client().await).await.as_deref(), Some("4-1"));
    task.abort();
}
