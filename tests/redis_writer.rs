//! What the writer leaves in Redis, and what makes it stop or wait.

#[path = "support/redis.rs"]
mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parser::block::{Checksum, Position};
use parser::keys::Keys;
use parser::out::Out;
use parser::publish::unit::Tally;
use parser::publish::writer::{self, Progress, Settings};
use parser::publish::{self, Checkpoint, EntryId, Failure, Lease, StreamIds, Unit};
use parser::resp;
use redis::aio::MultiplexedConnection;
use support::TestRedis;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;

const CHAIN: Checksum = Checksum([7; 32]);

fn keys() -> Keys {
    Keys::new("test", &CHAIN, "")
}

fn at(num: u32, branch: u8) -> Position {
    let mut id = [branch; 32];
    id[..4].copy_from_slice(&num.to_be_bytes());
    Position { num, id: Checksum(id) }
}

/// A block with so many entries behind `before` others under its number.
fn block(num: u32, before: u64, entries: u64) -> Unit {
    let mut commands = Out::default();
    let mut last = None;
    for i in before + 1..=before + entries {
        let id = EntryId { first: num.into(), second: i };
        let events = keys().events;
        resp::command(
            &mut commands,
            &[b"XADD", events.as_bytes(), id.to_string().as_bytes(), b"data", b"{}"],
        );
        last = Some(id);
    }
    Unit {
        again: false,
        commands: commands.into(),
        command_count: entries as usize,
        entries,
        block: at(num, 1),
        last_irreversible: 0,
        part: None,
        fork: None,
        last_entry: last,
        first_published: 10,
        permit: None,
        tally: Tally::default(),
    }
}

/// A writer under way.
struct Run {
    sender: mpsc::Sender<Unit>,
    seen: watch::Receiver<Progress>,
    task: JoinHandle<Result<(), Failure>>,
    client: MultiplexedConnection,
    sent: u64,
}

impl Run {
    async fn start(redis: &TestRedis, pause_at: Option<u64>) -> Run {
        let lease = Lease::new(&keys());
        let (checkpoint, connection) =
            publish::begin(&redis.server(), &keys(), &CHAIN, StreamIds::Block, &lease, |_| Ok(()))
                .await
                .expect("it can begin");
        let settings = Settings {
            keys: keys(),
            token: lease.token().to_owned(),
            stream_ids: StreamIds::Block,
            selection: "all".to_owned(),
            pause_at,
            reply_limit: Duration::from_secs(10),
            monitor: Arc::default(),
        };
        let (sender, mut units) = mpsc::channel(2000);
        let (progress, seen) = watch::channel(Progress::default());
        let task = tokio::spawn(async move {
            writer::run(connection, &settings, &checkpoint, &mut units, &progress).await
        });
        Run { sender, seen, task, client: redis.client().await, sent: 0 }
    }

    async fn send(&mut self, unit: Unit) {
        self.sender.send(unit).await.expect("the writer runs");
        self.sent += 1;
    }

    /// Sends one and waits until it is committed.
    async fn commit(&mut self, unit: Unit) {
        self.send(unit).await;
        let sent = self.sent;
        self.seen.wait_for(|progress| progress.units == sent).await.expect("the writer runs");
    }

    async fn end(self) -> Result<(), Failure> {
        drop(self.sender);
        self.task.await.expect("no panic")
    }

    async fn checkpoint(&mut self) -> Checkpoint {
        Checkpoint::load(&mut self.client, &keys()).await.expect("a checkpoint")
    }

    async fn command(&mut self, command: &str) -> redis::Value {
        let mut words = command.split(' ');
        let mut cmd = redis::cmd(words.next().expect("a command"));
        words.for_each(|word| {
            cmd.arg(word);
        });
        cmd.query_async(&mut self.client).await.unwrap_or_else(|e| panic!("{command}: {e}"))
    }
}

#[tokio::test]
async fn the_checkpoint_names_the_block_and_how_much_of_it() {
    let redis = TestRedis::start().await;
    let mut run = Run::start(&redis, None).await;
    run.commit(Unit { last_irreversible: 8, ..block(10, 0, 2) }).await;
    let fields: HashMap<String, String> =
        redis::cmd("HGETALL").arg(&keys().sync).query_async(&mut run.client).await.unwrap();
    let expected = [
        ("block_num", "10".to_owned()),
        ("block_id", at(10, 1).id.to_string()),
        ("last_irreversible", "8".to_owned()),
        ("stream_id", "10-2".to_owned()),
        ("first_block", "10".to_owned()),
    ];
    for (name, value) in expected {
        assert_eq!(fields[name], value);
    }
    let updated = &fields["last_updated"];
    assert!(updated.len() == 24 && updated.starts_with("20") && updated.ends_with('Z'), "{updated}");
    assert_eq!(fields.len(), 6, "{fields:?}");

    // A block in parts; the last of them has no entries of its own.
    for (before, entries, part) in [(0, 3, Some(3)), (3, 4, Some(7)), (7, 0, None)] {
        let last_entry = Some(EntryId { first: 11, second: before + entries });
        run.commit(Unit { part, last_entry, ..block(11, before, entries) }).await;
        let checkpoint = run.checkpoint().await;
        assert_eq!(
            (checkpoint.block, checkpoint.part, checkpoint.stream_id),
            (Some(at(11, 1)), part, last_entry)
        );
        let whole: Vec<_> = if part.is_some() { vec![at(10, 1)] } else { vec![at(10, 1), at(11, 1)] };
        assert_eq!(checkpoint.positions, whole);
    }
    // A block without entries keeps the last id.
    run.commit(block(12, 0, 0)).await;
    assert_eq!(run.checkpoint().await.stream_id, Some(EntryId { first: 11, second: 7 }));
    let progress = *run.seen.borrow();
    assert_eq!((progress.units, progress.entries, progress.stream_length), (5, 9, 9));
    assert_eq!(
        (progress.block, progress.last_entry.unwrap().to_string()),
        (Some(at(12, 1)), "11-7".to_owned())
    );
    run.end().await.unwrap();
}

#[tokio::test]
async fn positions_follow_forks_and_the_last_irreversible_block() {
    let redis = TestRedis::start().await;
    let mut run = Run::start(&redis, None).await;
    for num in 5..=16 {
        run.command(&format!("ZADD {} {num} {num}:contract", keys().abi_blocks)).await;
    }
    for num in 10..=15 {
        run.send(Unit { last_irreversible: 9, ..block(num, 0, 1) }).await;
    }
    // The branch of 13 to 15 is left; its successor comes in parts.
    let fork =
        Unit { block: at(13, 2), fork: Some(12), part: Some(1), last_irreversible: 10, ..block(15, 1, 1) };
    run.commit(fork).await;
    assert_eq!(run.checkpoint().await.positions, [at(10, 1), at(11, 1), at(12, 1)]);
    run.commit(Unit { block: at(13, 2), last_irreversible: 11, ..block(15, 2, 1) }).await;
    let checkpoint = run.checkpoint().await;
    assert_eq!(checkpoint.block, Some(at(13, 2)));
    assert_eq!(checkpoint.positions, [at(11, 1), at(12, 1), at(13, 2)]);
    let abi: Vec<String> =
        redis::cmd("ZRANGE").arg((&keys().abi_blocks, 0, -1)).query_async(&mut run.client).await.unwrap();
    assert_eq!(abi, (11..=16).map(|num| format!("{num}:contract")).collect::<Vec<_>>());

    // Catching up, everything is irreversible: the newest block alone is kept.
    for num in 16..=30 {
        run.send(Unit { last_irreversible: 1000, ..block(num, 0, 1) }).await;
    }
    run.commit(Unit { last_irreversible: 1000, ..block(31, 0, 1) }).await;
    assert_eq!(run.checkpoint().await.positions, [at(31, 1)]);
    run.end().await.unwrap();
}

#[tokio::test]
async fn small_units_share_transactions_and_permits_come_back_when_committed() {
    let redis = TestRedis::start().await;
    let mut run = Run::start(&redis, None).await;
    let semaphore = Arc::new(Semaphore::new(1500));
    for num in 1..=1500 {
        let permit = Some(semaphore.clone().try_acquire_owned().unwrap());
        run.send(Unit { permit, ..block(num, 0, 2) }).await;
    }
    run.seen.wait_for(|progress| progress.units == 1500).await.unwrap();
    let transactions = run.seen.borrow().transactions;
    // 3,000 commands, 1,000 at most in each.
    assert!((3..=20).contains(&transactions), "{transactions} transactions");
    run.end().await.unwrap();
    assert_eq!(semaphore.available_permits(), 1500);
}

#[tokio::test]
async fn the_lease_is_renewed_with_nothing_to_write() {
    let redis = TestRedis::start().await;
    let mut run = Run::start(&redis, None).await;
    run.seen.wait_for(|progress| progress.transactions == 1).await.unwrap();
    run.command(&format!("PEXPIRE {} 5000", keys().writer)).await;
    run.seen.wait_for(|progress| progress.transactions == 2).await.unwrap();
    let redis::Value::Int(left) = run.command(&format!("PTTL {}", keys().writer)).await else { panic!() };
    assert!(left > 9_000, "{left}");
    assert_eq!(run.command(&format!("EXISTS {}", keys().sync)).await, redis::Value::Int(0));
    run.end().await.unwrap();
}

#[tokio::test]
async fn a_lost_lease_stops_the_writer_and_names_the_holder() {
    for (command, holder) in [("SET", Some("elsewhere:1:2")), ("DEL", None)] {
        let redis = TestRedis::start().await;
        let mut run = Run::start(&redis, None).await;
        run.commit(block(10, 0, 1)).await;
        run.command(&format!("{command} {} {}", keys().writer, holder.unwrap_or_default())).await;
        run.send(block(11, 0, 1)).await;
        let mut client = run.client.clone();
        assert_eq!(run.end().await, Err(Failure::LostLease { holder: holder.map(str::to_owned) }));
        let length: u64 = redis::cmd("XLEN").arg(&keys().events).query_async(&mut client).await.unwrap();
        assert_eq!(length, 1);
    }
}

#[tokio::test]
async fn a_full_stream_is_waited_for() {
    let redis = TestRedis::start().await;
    let mut run = Run::start(&redis, Some(10)).await;
    for num in 10..=19 {
        run.send(block(num, 0, 3)).await;
    }
    // Units begun below the cap are completed: 3, 6, 9, 12.
    run.seen.wait_for(|progress| progress.paused).await.unwrap();
    let paused = *run.seen.borrow();
    assert_eq!((paused.units, paused.stream_length), (4, 12));
    // It goes on holding the lease meanwhile, and writes nothing.
    run.seen.wait_for(|progress| progress.transactions > paused.transactions + 1).await.unwrap();
    assert_eq!(run.seen.borrow().units, 4);
    run.command(&format!("XTRIM {} MINID 13-2", keys().events)).await;
    // Two entries are left: three units fit.
    run.seen.wait_for(|progress| progress.units > 4 && progress.paused).await.unwrap();
    assert_eq!((run.seen.borrow().units, run.seen.borrow().stream_length), (7, 11));
    run.command(&format!("XTRIM {} MAXLEN 0", keys().events)).await;
    run.seen.wait_for(|progress| progress.units == 10 && !progress.paused).await.unwrap();
    run.end().await.unwrap();
}

#[tokio::test]
async fn an_entry_of_somebody_else_stops_the_writer_before_anything_is_lost() {
    let redis = TestRedis::start().await;
    let mut run = Run::start(&redis, None).await;
    run.commit(block(10, 0, 2)).await;
    run.command(&format!("XADD {} 500-1 data x", keys().events)).await;
    run.send(block(11, 0, 2)).await;
    let mut client = run.client.clone();
    let failure = run.end().await.unwrap_err();
    let Failure::Unfit(message) = failure else { panic!("{failure}") };
    assert!(message.contains("500-1") && message.contains("10-2"), "{message}");
    let checkpoint = Checkpoint::load(&mut client, &keys()).await.unwrap();
    assert_eq!(checkpoint.block, Some(at(10, 1)));
}

#[tokio::test]
async fn a_command_that_fails_inside_exec_is_fatal_and_names_the_block() {
    let redis = TestRedis::start().await;
    let mut run = Run::start(&redis, None).await;
    run.commit(block(10, 0, 1)).await;
    run.command(&format!("SET {} x", keys().blocks)).await;
    run.send(block(11, 0, 1)).await;
    let failure = run.end().await.unwrap_err();
    let Failure::Fatal(message) = failure else { panic!("{failure}") };
    assert!(message.contains("WRONGTYPE") && message.contains("block 11"), "{message}");
}

#[tokio::test]
async fn a_refused_command_stops_the_writer_with_nothing_of_its_transaction_applied() {
    let redis = TestRedis::start().await;
    let mut run = Run::start(&redis, None).await;
    run.commit(block(10, 0, 1)).await;
    let mut bad = block(11, 0, 2);
    let mut unknown = Out::default();
    resp::command(&mut unknown, &[b"NOSUCHCOMMAND"]);
    bad.commands.append(&unknown);
    bad.command_count += 1;
    run.send(bad).await;
    run.sender.send(block(12, 0, 1)).await.ok();
    let mut client = run.client.clone();
    let failure = run.end().await.unwrap_err();
    assert!(matches!(&failure, Failure::Fatal(message) if message.contains("NOSUCHCOMMAND")), "{failure}");
    let checkpoint = Checkpoint::load(&mut client, &keys()).await.unwrap();
    assert_eq!(
        (checkpoint.block, checkpoint.stream_id.unwrap().to_string()),
        (Some(at(10, 1)), "10-1".to_owned())
    );
    let length: u64 = redis::cmd("XLEN").arg(&keys().events).query_async(&mut client).await.unwrap();
    assert_eq!(length, 1);
}
