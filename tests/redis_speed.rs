//! How near the writer comes to a bare pipeline. Run with
//! `cargo test --release --test redis_speed -- --ignored --nocapture`.

#[path = "support/redis.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parser::block::{Checksum, Position};
use parser::keys::Keys;
use parser::out::Out;
use parser::publish::unit::Tally;
use parser::publish::writer::{self, Progress, Settings};
use parser::publish::{self, EntryId, Lease, StreamIds, Unit};
use parser::resp;
use support::TestRedis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

const CHAIN: Checksum = Checksum([7; 32]);
const UNITS: u32 = 256;
const ENTRIES: u64 = 240;

fn commands(keys: &Keys, num: u32) -> Out {
    let data = vec![b'x'; 700];
    let mut out = Out::default();
    for i in 1..=ENTRIES {
        let id = EntryId { first: num.into(), second: i }.to_string();
        resp::command(&mut out, &[b"XADD", keys.events.as_bytes(), id.as_bytes(), b"data", &data]);
    }
    out
}

/// The same commands, written as fast as the socket takes them.
async fn bare(keys: &Keys) -> Duration {
    let redis = TestRedis::start().await;
    let all: Vec<Out> = (1..=UNITS).map(|num| commands(keys, num)).collect();
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", redis.port())).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let start = Instant::now();
    let write = async {
        for piece in &all {
            writer.write_all(piece).await.unwrap();
        }
    };
    let read = async {
        // Each reply, a string, has two line ends.
        let mut left = 2 * u64::from(UNITS) * ENTRIES;
        let mut buffer = vec![0; 64 * 1024];
        while left > 0 {
            let count = reader.read(&mut buffer).await.unwrap();
            left -= buffer[..count].iter().filter(|byte| **byte == b'\n').count() as u64;
        }
    };
    tokio::join!(write, read);
    start.elapsed()
}

async fn transactions(keys: &Keys) -> (Duration, u64) {
    let redis = TestRedis::start().await;
    let lease = Lease::new(keys);
    let (checkpoint, connection) =
        publish::begin(&redis.server(), keys, &CHAIN, StreamIds::Block, &lease, |_| Ok(())).await.unwrap();
    let settings = Settings {
        keys: keys.clone(),
        token: lease.token().to_owned(),
        stream_ids: StreamIds::Block,
        selection: "all".to_owned(),
        pause_at: None,
        reply_limit: Duration::from_secs(10),
        monitor: Arc::default(),
    };
    let (sender, mut units) = mpsc::channel(UNITS as usize);
    for num in 1..=UNITS {
        let unit = Unit {
            again: false,
            commands: commands(keys, num).into(),
            command_count: ENTRIES as usize,
            entries: ENTRIES,
            block: Position { num, id: CHAIN },
            last_irreversible: 0,
            part: None,
            fork: None,
            last_entry: Some(EntryId { first: num.into(), second: ENTRIES }),
            first_published: 1,
            permit: None,
            tally: Tally::default(),
        };
        sender.try_send(unit).unwrap();
    }
    drop(sender);
    let (progress, seen) = watch::channel(Progress::default());
    let start = Instant::now();
    writer::run(connection, &settings, &checkpoint, &mut units, &progress).await.unwrap();
    let elapsed = start.elapsed();
    assert_eq!(seen.borrow().stream_length, u64::from(UNITS) * ENTRIES);
    (elapsed, seen.borrow().transactions)
}

#[tokio::test]
#[ignore = "a measurement"]
async fn events_per_second() {
    let keys = Keys::new("test", &CHAIN, "");
    let events = f64::from(UNITS) * ENTRIES as f64;
    let per_second = |time: Duration| events / time.as_secs_f64();
    let (mut best_bare, mut best) = (0f64, 0f64);
    for _ in 0..7 {
        best_bare = best_bare.max(per_second(bare(&keys).await));
        let (time, count) = transactions(&keys).await;
        best = best.max(per_second(time));
        println!("{:.0} events/s in {count} transactions", per_second(time));
    }
    println!("bare {best_bare:.0}, transactions {best:.0} events/s: {:.2}", best / best_bare);
}
