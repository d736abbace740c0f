//! Beginning to write: logging in, the lease, and what is refused.

#[path = "support/feed.rs"]
mod feed;
#[path = "support/redis.rs"]
mod support;

use std::time::Duration;

use feed::{CHAIN, Feed};
use parser::block::Checksum;
use parser::keys::Keys;
use parser::publish::connection::Connection;
use parser::publish::{self, Failure, Lease, Server, StreamIds};
use redis::aio::MultiplexedConnection;
use support::TestRedis;

async fn run(client: &mut MultiplexedConnection, command: &str) -> redis::Value {
    let mut words = command.split(' ');
    let mut cmd = redis::cmd(words.next().unwrap());
    words.for_each(|word| {
        cmd.arg(word);
    });
    cmd.query_async(client).await.unwrap_or_else(|e| panic!("{command}: {e}"))
}

async fn begin(redis: &TestRedis, feed: &Feed) -> Result<(), Failure> {
    let lease = Lease::new(&feed.keys);
    publish::begin(&redis.server(), &feed.keys, &CHAIN, feed.stream_ids, &lease, |_| Ok(())).await.map(drop)
}

/// Checks that beginning is refused for the reasons given and leaves Redis as it was.
async fn assert_refused(redis: &TestRedis, feed: &Feed, parts: &[&str]) {
    let client = &mut redis.client().await;
    let before = run(client, "DEBUG DIGEST").await;
    match begin(redis, feed).await {
        Err(Failure::Unfit(message)) => {
            for part in parts {
                assert!(message.contains(part), "`{part}` is missing in: {message}");
            }
        }
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(run(client, "DEBUG DIGEST").await, before, "something was written");
}

const WAYS_OUT: [&str; 3] = ["redis.namespace", "streamIds: auto", "compat: parser2"];

#[tokio::test]
async fn a_stream_with_foreign_ids_is_refused_and_left_alone() {
    let feed = Feed::new(StreamIds::Block, 20);
    let events = &feed.keys.events;

    // Written with `*`, and no checkpoint of this parser; also when it has been trimmed to nothing.
    let redis = TestRedis::start().await;
    let client = &mut redis.client().await;
    run(client, &format!("XADD {events} * data x")).await;
    assert_refused(
        &redis,
        &feed,
        &[events, "checkpoint knows nothing", WAYS_OUT[0], WAYS_OUT[1], WAYS_OUT[2]],
    )
    .await;
    run(client, &format!("XTRIM {events} MAXLEN 0")).await;
    assert_refused(&redis, &feed, &WAYS_OUT).await;

    // Published with `streamIds: auto` before.
    let redis = TestRedis::start().await;
    let auto = Feed::new(StreamIds::Auto, 20);
    let lease = Lease::new(&auto.keys);
    auto.publish(&redis.server(), &lease).await.unwrap();
    lease.release(&redis.server()).await.unwrap();
    assert_refused(&redis, &feed, &WAYS_OUT).await;

    // Something added behind this parser's back. With `streamIds: auto` it goes on.
    let redis = TestRedis::start().await;
    let lease = Lease::new(&feed.keys);
    feed.publish(&redis.server(), &lease).await.unwrap();
    lease.release(&redis.server()).await.unwrap();
    run(&mut redis.client().await, &format!("XADD {events} 20-100 data x")).await;
    assert_refused(&redis, &feed, &["20-100", WAYS_OUT[0]]).await;
    begin(&redis, &auto).await.unwrap();

    // Dead letters under ids that would be needed.
    let redis = TestRedis::start().await;
    let dead = &feed.keys.dead_parser;
    run(&mut redis.client().await, &format!("XADD {dead} * data x")).await;
    assert_refused(&redis, &feed, &[dead]).await;
}

#[tokio::test]
async fn an_empty_or_removed_stream_is_none_of_that() {
    let feed = Feed::new(StreamIds::Block, 20);
    let redis = TestRedis::start().await;
    let client = &mut redis.client().await;
    // Consumers may come first.
    run(client, &format!("XGROUP CREATE {} web 0 MKSTREAM", feed.keys.events)).await;
    let lease = Lease::new(&feed.keys);
    feed.publish(&redis.server(), &lease).await.unwrap();
    feed.assert_complete(client).await;
    // Trimmed to nothing, its last id is still known; removed, the checkpoint knows.
    run(client, &format!("XTRIM {} MAXLEN 0", feed.keys.events)).await;
    let longer = Feed { blocks: 30, ..feed.clone() };
    longer.publish(&redis.server(), &lease).await.unwrap();
    run(client, &format!("DEL {}", feed.keys.events)).await;
    let longest = Feed { blocks: 40, ..feed.clone() };
    longest.publish(&redis.server(), &lease).await.unwrap();
    let stream = longest.stream(client).await;
    let expected: Vec<_> = longest.expected().split_off(longer.expected().len());
    assert_eq!(stream, expected);
}

#[tokio::test]
async fn a_namespace_of_another_chain_is_refused() {
    let redis = TestRedis::start().await;
    let feed = Feed::new(StreamIds::Block, 5);
    let lease = Lease::new(&feed.keys);
    feed.publish(&redis.server(), &lease).await.unwrap();
    let chain: String =
        redis::cmd("GET").arg("test:chain").query_async(&mut redis.client().await).await.unwrap();
    assert_eq!(chain, CHAIN.to_string());

    let other = Checksum([9; 32]);
    let keys = Keys::new("test", &other, "");
    let lease = Lease::new(&keys);
    let client = &mut redis.client().await;
    let before = run(client, "DEBUG DIGEST").await;
    let failure =
        publish::begin(&redis.server(), &keys, &other, StreamIds::Block, &lease, |_| Ok(())).await.err();
    let Some(Failure::Unfit(message)) = failure else { panic!("not refused: {failure:?}") };
    for part in [CHAIN.to_string(), other.to_string(), "redis.namespace".to_owned()] {
        assert!(message.contains(&part), "{message}");
    }
    assert_eq!(run(client, "DEBUG DIGEST").await, before);
}

#[tokio::test]
async fn keys_of_another_type_are_refused_by_name() {
    let feed = Feed::new(StreamIds::Block, 5);
    let keys = &feed.keys;
    for key in [&keys.events, &keys.dead_parser, &keys.sync, &keys.blocks, &keys.abi_blocks] {
        let redis = TestRedis::start().await;
        run(&mut redis.client().await, &format!("SET {key} x")).await;
        assert_refused(&redis, &feed, &[key, "another type"]).await;
    }
}

#[tokio::test]
async fn the_lease_is_stood_by_for_until_it_is_free() {
    let redis = TestRedis::start().await;
    let keys = Keys::new("test", &CHAIN, "");
    let client = &mut redis.client().await;
    let (first, second) = (Lease::new(&keys), Lease::new(&keys));
    assert_eq!(first.try_take(client).await.unwrap(), None);
    let left: i64 = redis::cmd("PTTL").arg(&keys.writer).query_async(client).await.unwrap();
    assert!((9_000..=10_000).contains(&left), "{left}");
    assert_eq!(second.try_take(client).await.unwrap().as_deref(), Some(first.token()));
    // One's own is taken again; what another holds is not given up.
    assert_eq!(first.try_take(client).await.unwrap(), None);
    second.release(&redis.server()).await.unwrap();
    assert_eq!(second.try_take(client).await.unwrap().as_deref(), Some(first.token()));

    let (told, mut holders) = tokio::sync::mpsc::unbounded_channel();
    let server = redis.server();
    let held_by = async |_: &mut _, holder: &str| {
        told.send(holder.to_owned()).unwrap();
        Ok(())
    };
    let releases = async {
        assert_eq!(holders.recv().await.as_deref(), Some(first.token()));
        first.release(&server).await
    };
    let (taken, released) = tokio::join!(second.acquire(&server, held_by), releases);
    taken.unwrap();
    released.unwrap();
    assert_eq!(first.try_take(client).await.unwrap().as_deref(), Some(second.token()));
}

#[tokio::test]
async fn a_holder_of_this_host_whose_process_is_gone_is_replaced_at_once() {
    let redis = TestRedis::start().await;
    let keys = Keys::new("test", &CHAIN, "");
    let client = &mut redis.client().await;
    let lease = Lease::new(&keys);
    let host = lease.token().rsplitn(3, ':').nth(2).unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let token = format!("{host}:{}:0123456789abcdef", child.id());
    redis::cmd("SET").arg((&keys.writer, &token, "PX", 10_000)).exec_async(client).await.unwrap();
    assert_eq!(lease.try_take(client).await.unwrap(), Some(token));
    // Killed, it is gone even before its exit status was asked for.
    child.kill().unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
        tokio::task::yield_now().await;
    }
    assert_eq!(lease.try_take(client).await.unwrap(), None);
    child.wait().unwrap();
}

/// What makes the order "lease, then checkpoint" safe: whatever a lost connection has sent and Redis has not yet
/// carried out fails once the lease has been taken again, also by the same process.
#[tokio::test]
async fn taking_the_lease_again_dooms_what_an_earlier_connection_began() {
    let redis = TestRedis::start().await;
    let keys = Keys::new("test", &CHAIN, "");
    let lease = Lease::new(&keys);
    let client = &mut redis.client().await;
    for doomed in ["taken again", "ran out"] {
        assert_eq!(lease.try_take(client).await.unwrap(), None);
        let old = &mut redis.client().await;
        run(old, &format!("WATCH {}", keys.writer)).await;
        run(old, "MULTI").await;
        run(old, "SET written yes").await;
        if doomed == "ran out" {
            run(client, &format!("PEXPIRE {} 1", keys.writer)).await;
            while run(client, &format!("EXISTS {}", keys.writer)).await != redis::Value::Int(0) {
                tokio::task::yield_now().await;
            }
        } else {
            assert_eq!(lease.try_take(client).await.unwrap(), None);
        }
        assert_eq!(run(old, "EXEC").await, redis::Value::Nil, "{doomed}");
        assert_eq!(run(client, "EXISTS written").await, redis::Value::Int(0));
    }
}

#[tokio::test]
async fn passwords_users_databases_and_unix_sockets() {
    let redis = TestRedis::start_with(&["--requirepass", "s3cret"]).await;
    let open = async |url: &str, password: Option<&str>| {
        let server = Server::new(url, password).unwrap();
        Connection::open(&server, "test").await.map(drop)?;
        server.connect_control().await
    };
    let url = redis.url();
    for (password, part) in [(None, "redis.password"), (Some("wrong"), "password")] {
        let failure = open(&url, password).await.err();
        let Some(Failure::Fatal(message)) = failure else { panic!("{failure:?}") };
        assert!(message.contains(part) && !message.contains("wrong "), "{message}");
    }
    let mut client = open(&url, Some("s3cret")).await.unwrap();
    run(&mut client, "ACL SETUSER reader on >pw ~* +@all -watch").await;
    let with_user = url.replace("redis://", "redis://reader:pw@");
    let client = &mut open(&format!("{with_user}/3"), None).await.unwrap();
    run(client, "SET here 1").await;
    let socket = format!("unix://{}?db=3&user=reader&pass=pw", redis.path("socket").display());
    let client = &mut open(&socket, None).await.unwrap();
    assert_eq!(run(client, "EXISTS here").await, redis::Value::Int(1));

    // Missing permission, no such database: no use waiting.
    let keys = Keys::new("test", &CHAIN, "");
    let server = Server::new(&with_user, None).unwrap();
    let lease = Lease::new(&keys);
    let begun = publish::begin(&server, &keys, &CHAIN, StreamIds::Block, &lease, |_| Ok(())).await;
    let (checkpoint, connection) = begun.unwrap();
    let (_sender, mut units) = tokio::sync::mpsc::channel(1);
    let (progress, _) = tokio::sync::watch::channel(Default::default());
    let settings = Feed::new(StreamIds::Block, 1).settings(&lease);
    let failure = publish::writer::run(connection, &settings, &checkpoint, &mut units, &progress).await;
    assert!(matches!(&failure, Err(Failure::Fatal(message)) if message.contains("NOPERM")), "{failure:?}");
    let failure = open(&format!("{url}/99"), Some("s3cret")).await.err();
    assert!(matches!(&failure, Some(Failure::Fatal(message)) if message.contains("DB index")), "{failure:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_or_does_not_answer_is_waited_for() {
    let nobody = {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    let server = Server::new(&format!("redis://127.0.0.1:{nobody}"), None).unwrap();
    assert!(matches!(server.connect_control().await.err(), Some(Failure::Disconnected(_))));
    // Accepted, but silent.
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let server = Server::new(&format!("redis://{}", listener.local_addr().unwrap()), None).unwrap();
    tokio::time::pause();
    let failure = Connection::open(&server, "test").await.err();
    assert!(
        matches!(&failure, Some(Failure::Disconnected(message)) if message.contains("10 seconds")),
        "{failure:?}"
    );
    tokio::time::resume();
    tokio::time::sleep(Duration::ZERO).await;
}
