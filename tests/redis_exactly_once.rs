//! Nothing is lost and nothing doubled, whatever happens to the connection, the server or the lease.

#[path = "support/feed.rs"]
mod feed;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/redis.rs"]
mod support;

use std::time::Duration;

use feed::{CHAIN, Feed};
use parser::publish::connection::Connection;
use parser::publish::writer::{self, Progress};
use parser::publish::{self, Failure, Lease, Server, StreamIds};
use proxy::{Proxy, Way};
use support::TestRedis;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

const BOTH: [StreamIds; 2] = [StreamIds::Block, StreamIds::Auto];

#[tokio::test]
async fn all_is_published_and_the_checkpoint_follows() {
    for ids in BOTH {
        let redis = TestRedis::start().await;
        let feed = Feed::new(ids, 40);
        let lease = Lease::new(&feed.keys);
        feed.publish(&redis.server(), &lease).await.unwrap();
        let client = &mut redis.client().await;
        feed.assert_complete(client).await;
        // Once more: there is nothing to do.
        feed.publish(&redis.server(), &lease).await.unwrap();
        feed.assert_complete(client).await;
    }
}

#[tokio::test]
async fn a_connection_cut_at_any_byte_loses_and_doubles_nothing() {
    for (ids, seed) in BOTH.into_iter().zip([11, 12]) {
        let redis = TestRedis::start().await;
        let proxy = Proxy::start(redis.port()).await;
        let through = Server::new(&proxy.url(), None).unwrap();
        let feed = Feed::new(ids, 120);
        let lease = Lease::new(&feed.keys);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut cuts = 0;
        loop {
            // Each connection gets somewhat further than the last before it is cut.
            if random.bool() {
                proxy.cut(Way::Up, random.u64(100..60_000));
            } else {
                proxy.cut(Way::Down, random.u64(100..12_000));
            }
            match feed.publish(&through, &lease).await {
                Ok(()) => break,
                Err(Failure::Disconnected(_)) => cuts += 1,
                Err(other) => panic!("{other}"),
            }
            assert!(cuts < 10_000, "does not come to an end");
            proxy.release();
            if ids == StreamIds::Block {
                feed.assert_prefix(&mut redis.client().await).await;
            }
        }
        assert!(cuts > 3, "{cuts} cuts");
        println!("{ids:?}: {cuts} cuts");
        feed.assert_complete(&mut redis.client().await).await;
    }
}

/// Begins and starts a writer whose connection alone passes through the proxy, with all units waiting.
async fn start_through(
    proxy: &Proxy,
    redis: &TestRedis,
    feed: &Feed,
    lease: &Lease,
) -> (JoinHandle<Result<(), Failure>>, watch::Receiver<Progress>) {
    let (checkpoint, _) =
        publish::begin(&redis.server(), &feed.keys, &CHAIN, feed.stream_ids, lease, |_| Ok(()))
            .await
            .unwrap();
    let through = Server::new(&proxy.url(), None).unwrap();
    let connection = Connection::open(&through, "held").await.unwrap();
    let (sender, mut receiver) = mpsc::channel(1000);
    for unit in feed.units(&checkpoint) {
        sender.try_send(unit).unwrap();
    }
    let (progress, seen) = watch::channel(Progress::default());
    let settings = feed.settings(lease);
    let task = tokio::spawn(async move {
        writer::run(connection, &settings, &checkpoint, &mut receiver, &progress).await
    });
    (task, seen)
}

/// Bytes that a writer has sent when each EXEC begins: the same in each run, as all units wait from the start.
async fn places_of_exec(ids: StreamIds) -> Vec<u64> {
    let redis = TestRedis::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let feed = Feed::new(ids, 60);
    start_through(&proxy, &redis, &feed, &Lease::new(&feed.keys)).await.0.await.unwrap().unwrap();
    let sent: Vec<u8> =
        proxy.log().into_iter().filter(|(way, _)| *way == Way::Up).flat_map(|(_, bytes)| bytes).collect();
    let mark = b"*1\r\n$4\r\nEXEC\r\n";
    let places = (0..sent.len()).filter(|at| sent[*at..].starts_with(mark));
    places.map(|at| at as u64).collect()
}

/// A writer is held up at many points, its lease runs out, another takes over, and then the first goes on; or its
/// process gives it up, begins anew with the same token, and what it had sent arrives after that.
#[tokio::test]
async fn a_writer_that_was_held_up_commits_nothing_once_the_lease_was_taken() {
    for ids in BOTH {
        let mut places = places_of_exec(ids).await;
        assert!(places.len() > 10, "{places:?}");
        let mut random = fastrand::Rng::with_seed(5);
        random.shuffle(&mut places);
        places.truncate(8);
        places.extend((0..8).map(|_| random.u64(300..40_000)));
        for (place, same_process) in places.into_iter().flat_map(|place| [(place, false), (place, true)]) {
            let redis = TestRedis::start().await;
            let proxy = Proxy::start(redis.port()).await;
            let feed = Feed::new(ids, 60);
            let lease = Lease::new(&feed.keys);
            proxy.hold(Way::Up, place);
            let (first, mut seen) = start_through(&proxy, &redis, &feed, &lease).await;
            // Until it stands still: no commit for a while.
            while let Ok(Ok(())) = tokio::time::timeout(Duration::from_millis(100), seen.changed()).await {}
            let client = &mut redis.client().await;
            if same_process {
                first.abort();
                assert!(first.await.is_err(), "it was under way");
                let (checkpoint, connection) =
                    publish::begin(&redis.server(), &feed.keys, &CHAIN, ids, &lease, |_| Ok(()))
                        .await
                        .unwrap();
                proxy.release();
                // All it had sent is carried out when Redis has closed its connection.
                let list = || redis::cmd("CLIENT").arg("LIST").to_owned();
                while list().query_async::<String>(client).await.unwrap().contains("name=held") {
                    tokio::task::yield_now().await;
                }
                feed.publish_from(checkpoint, connection, &lease).await.unwrap();
            } else {
                redis::cmd("PEXPIRE").arg((&feed.keys.writer, 0)).exec_async(client).await.unwrap();
                feed.publish(&redis.server(), &Lease::new(&feed.keys)).await.unwrap();
                proxy.release();
                let failure = first.await.unwrap().unwrap_err();
                assert!(matches!(failure, Failure::LostLease { .. }), "{failure}");
            }
            feed.assert_complete(client).await;
        }
    }
}

#[tokio::test]
async fn a_stopped_and_continued_redis_loses_nothing() {
    // The writer gives up on a server that does not answer, and what it had sent to it is carried out
    // late or not at all.
    let redis = TestRedis::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let through = Server::new(&proxy.url(), None).unwrap();
    let feed = Feed::new(StreamIds::Block, 60);
    let lease = Lease::new(&feed.keys);
    let (checkpoint, _) =
        publish::begin(&redis.server(), &feed.keys, &CHAIN, feed.stream_ids, &lease, |_| Ok(()))
            .await
            .unwrap();
    let connection = Connection::open(&through, "parser-writer").await.unwrap();
    proxy.hold(Way::Down, 400);
    let (sender, mut receiver) = mpsc::channel(1000);
    for unit in feed.units(&checkpoint) {
        sender.try_send(unit).unwrap();
    }
    let (progress, _) = watch::channel(Progress::default());
    let settings = writer::Settings { reply_limit: Duration::from_millis(300), ..feed.settings(&lease) };
    let failure =
        writer::run(connection, &settings, &checkpoint, &mut receiver, &progress).await.unwrap_err();
    assert!(matches!(failure, Failure::Disconnected(_)), "{failure}");
    feed.publish(&redis.server(), &lease).await.unwrap();
    proxy.release();
    feed.assert_complete(&mut redis.client().await).await;
}

#[tokio::test]
async fn exec_waits_for_the_reply_before_while_the_next_commands_do_not() {
    let redis = TestRedis::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let through = Server::new(&proxy.url(), None).unwrap();
    let feed = Feed::new(StreamIds::Block, 60);
    feed.publish(&through, &Lease::new(&feed.keys)).await.unwrap();

    // What marks the beginning of a transaction, its EXEC, and the beginning of EXEC's reply (which comes right behind
    // the last +QUEUED), in the order they passed.
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut events: Vec<&str> = Vec::new();
    for (way, bytes) in proxy.log() {
        let (seen, marks): (&mut Vec<u8>, &[(&[u8], &str)]) = match way {
            Way::Up => (&mut up, &[(b"$9\r\nXREVRANGE\r\n", "begin"), (b"*1\r\n$4\r\nEXEC\r\n", "exec")]),
            Way::Down => (&mut down, &[(b"+QUEUED\r\n*", "done")]),
        };
        for byte in bytes {
            seen.push(byte);
            events.extend(marks.iter().filter(|(mark, _)| seen.ends_with(mark)).map(|(_, name)| *name));
        }
    }
    // The control connections' transactions come before.
    let from = events.iter().position(|event| *event == "begin").unwrap();
    let (mut begun, mut executed, mut done, mut ahead) = (0, 0, 0, 0);
    for event in &events[from..] {
        match *event {
            "begin" => {
                begun += 1;
                ahead += usize::from(executed > done);
            }
            "exec" => {
                executed += 1;
                assert_eq!(executed, done + 1, "an EXEC before the reply to the last: {events:?}");
            }
            _ => done += 1,
        }
        assert!(begun <= done + 2, "{events:?}");
    }
    assert!(begun > 10 && executed == begun && done == begun, "{events:?}");
    assert!(ahead * 2 > begun, "{ahead} of {begun} transactions were begun ahead: {events:?}");
}

#[tokio::test]
async fn a_redis_killed_again_and_again_loses_nothing_with_its_append_only_file() {
    for ids in BOTH {
        let mut redis = TestRedis::start_with_aof().await;
        let feed = Feed::new(ids, 100);
        let lease = Lease::new(&feed.keys);
        let mut random = fastrand::Rng::with_seed(3);
        let mut kills = 0;
        loop {
            let server = redis.server();
            let patience = Duration::from_millis(random.u64(1..20));
            tokio::select! {
                result = feed.publish(&server, &lease) => match result {
                    Ok(()) => break,
                    Err(failure) => assert!(failure.is_transient(), "{failure}"),
                },
                () = tokio::time::sleep(patience) => {}
            }
            redis.kill();
            kills += 1;
            redis.restart().await;
            if ids == StreamIds::Block {
                feed.assert_prefix(&mut redis.client().await).await;
            }
            assert!(kills < 200);
        }
        println!("{ids:?}: {kills} kills");
        redis.restart().await;
        feed.assert_complete(&mut redis.client().await).await;
    }
}

#[tokio::test]
async fn a_redis_without_memory_refuses_and_is_waited_for() {
    let redis = TestRedis::start().await;
    let feed = Feed::new(StreamIds::Block, 200);
    let lease = Lease::new(&feed.keys);
    let client = &mut redis.client().await;
    let info: String = redis::cmd("INFO").arg("memory").query_async(client).await.unwrap();
    let used: u64 = info.lines().find_map(|l| l.strip_prefix("used_memory:")).unwrap().parse().unwrap();
    let mut refusals = 0;
    let mut limit = used + 300_000;
    redis.config("maxmemory", &limit.to_string()).await;
    loop {
        match feed.publish(&redis.server(), &lease).await {
            Ok(()) => break,
            Err(Failure::Refused(message)) => assert!(message.contains("OOM"), "{message}"),
            Err(other) => panic!("{other}"),
        }
        refusals += 1;
        limit += 100_000;
        redis.config("maxmemory", &limit.to_string()).await;
        feed.assert_prefix(client).await;
        assert!(refusals < 100);
    }
    println!("{refusals} refusals");
    assert!(refusals > 0);
    feed.assert_complete(client).await;
}

#[tokio::test]
async fn a_redis_that_became_a_replica_is_waited_for() {
    let redis = TestRedis::start().await;
    let feed = Feed::new(StreamIds::Block, 100);
    let lease = Lease::new(&feed.keys);
    let client = &mut redis.client().await;
    let (checkpoint, connection) =
        publish::begin(&redis.server(), &feed.keys, &CHAIN, feed.stream_ids, &lease, |_| Ok(()))
            .await
            .unwrap();
    let (sender, mut receiver) = mpsc::channel(1000);
    let (progress, mut seen) = watch::channel(Progress::default());
    let settings = feed.settings(&lease);
    let run = tokio::spawn(async move {
        writer::run(connection, &settings, &checkpoint, &mut receiver, &progress).await
    });
    let mut units = feed.units(&Default::default()).into_iter();
    for unit in units.by_ref().take(30) {
        sender.send(unit).await.unwrap();
    }
    seen.wait_for(|progress| progress.units == 30).await.unwrap();
    redis::cmd("REPLICAOF").arg(("127.0.0.1", 1)).exec_async(client).await.unwrap();
    for unit in units {
        sender.send(unit).await.ok();
    }
    let failure = run.await.unwrap().unwrap_err();
    assert!(matches!(&failure, Failure::Refused(message) if message.contains("READONLY")), "{failure}");
    let failure = feed.publish(&redis.server(), &lease).await.unwrap_err();
    assert!(matches!(&failure, Failure::Refused(message) if message.contains("READONLY")), "{failure}");
    redis::cmd("REPLICAOF").arg(("NO", "ONE")).exec_async(client).await.unwrap();
    feed.publish(&redis.server(), &lease).await.unwrap();
    feed.assert_complete(client).await;
}

#[tokio::test]
async fn a_redis_that_loads_its_data_is_waited_for() {
    let mut redis = TestRedis::start().await;
    let feed = Feed::new(StreamIds::Block, 60);
    let lease = Lease::new(&feed.keys);
    let client = &mut redis.client().await;
    for i in 0..300 {
        redis::cmd("SET").arg((format!("filler:{i}"), "x".repeat(1000))).exec_async(client).await.unwrap();
    }
    redis::cmd("SAVE").exec_async(client).await.unwrap();
    // 300 keys of 5 ms each, answering in between.
    redis
        .restart_loading(&["--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024"])
        .await;
    let failure = feed.publish(&redis.server(), &lease).await.unwrap_err();
    assert!(matches!(&failure, Failure::Refused(message) if message.contains("LOADING")), "{failure}");
    feed.publish_through(&redis.server(), &lease).await;
    feed.assert_complete(&mut redis.client().await).await;
}
