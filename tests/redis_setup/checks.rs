//! What the parser says of how Redis is set up, when it starts and when Redis goes away.

use parser::capture::serve::ServeOptions;

use crate::support::redis::TestRedis;
use crate::support::stage::{Stage, undisturbed};
use crate::support::until;
use crate::{CAP, mixed, run};

/// What a run says of a Redis started like that: level, check, and the line.
async fn findings(redis: TestRedis, yaml: &str) -> Vec<(String, String, String)> {
    let stage = Stage::with(&mixed(), redis, ServeOptions::default()).await;
    let log = stage.parser(&format!("stopBlock: 3\n{yaml}")).ended_with(0).await;
    said(&log)
}

pub fn said(log: &str) -> Vec<(String, String, String)> {
    let lines = log.lines().filter_map(|line| {
        let json: serde_json::Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
        json["check"].is_string().then(|| (text("level"), text("check"), line.to_owned()))
    });
    lines.collect()
}

/// Arguments of the server, the parser's configuration, and what must be said: level, check, parts of the line.
type Case =
    (&'static [&'static str], &'static str, &'static [(&'static str, &'static str, &'static [&'static str])]);

#[tokio::test(flavor = "multi_thread")]
async fn what_evicts_or_forgets_is_said_with_the_setting_to_change() {
    let aof = ["--appendonly", "yes"];
    let cases: [Case; 9] = [
        (&[], CAP, &[]),
        (&["--maxmemory", "1gb"], CAP, &[]),
        (
            &["--appendonly", "no"],
            CAP,
            &[("ERROR", "persistence", &["memory alone", "appendonly yes, appendfsync everysec"])],
        ),
        (
            &["--appendonly", "no", "--save", "3600 1"],
            CAP,
            &[("WARN", "persistence", &["3600 1", "appendonly yes, appendfsync everysec"])],
        ),
        (
            &["--appendfsync", "no"],
            CAP,
            &[("WARN", "persistence", &["appendfsync no", "appendonly yes, appendfsync everysec"])],
        ),
        (
            &["--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru"],
            CAP,
            &[(
                "ERROR",
                "eviction",
                &[
                    "maxmemory-policy allkeys-lru, maxmemory 1073741824, 0 keys",
                    "maxmemory-policy noeviction",
                ],
            )],
        ),
        (
            &["--maxmemory", "1gb", "--maxmemory-policy", "volatile-ttl"],
            CAP,
            &[("WARN", "eviction", &["the writer's lease", "volatile-ttl", "maxmemory-policy noeviction"])],
        ),
        (
            &["--maxmemory-policy", "allkeys-lru"],
            CAP,
            &[("WARN", "eviction", &["as long as maxmemory is 0", "maxmemory-policy noeviction"])],
        ),
        (
            &["--maxmemory", "64mb"],
            "xtrim: {maxEntries: 1000000}",
            &[(
                "WARN",
                "memory",
                &["xtrim.maxEntries 1000000, 1000 bytes an entry", "maxmemory is 64mb", "maxmemory to 95"],
            )],
        ),
    ];
    for (arguments, yaml, expected) in cases {
        let redis = TestRedis::start_with(&[&aof, arguments].concat()).await;
        let found = findings(redis, yaml).await;
        assert_eq!(found.len(), expected.len(), "{arguments:?}: {found:?}");
        for ((level, check, line), (wanted, name, parts)) in found.iter().zip(expected) {
            assert_eq!((level.as_str(), check.as_str()), (*wanted, *name), "{line}");
            for part in *parts {
                assert!(line.contains(part), "`{part}` is missing in {line}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_said_once_however_often_redis_goes_away() {
    let redis = TestRedis::start_with(&["--appendonly", "yes", "--appendfsync", "no"]).await;
    let mut stage = Stage::with(&mixed(), redis, ServeOptions::default()).await;
    let mut parser = stage.parser(CAP);
    for _ in 0..2 {
        parser.says("reading blocks").await;
        stage.done(&mut parser).await;
        stage.redis.restart().await;
    }
    parser.says("Redis is back").await;
    assert_eq!(said(&parser.stopped().await).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_to_look_it_says_so_and_goes_on() {
    let redis = TestRedis::start().await;
    let client = &mut redis.client().await;
    run::<()>(client, &["ACL", "SETUSER", "nosy", "on", ">pw", "~*", "+@all", "-config"])
        .await
        .expect("a user");
    run::<()>(client, &["ACL", "SETUSER", "blind", "on", ">pw", "~*", "+@all", "-config", "-info"])
        .await
        .expect("a user");
    let stage = Stage::with(&mixed(), redis, ServeOptions::default()).await;
    let url =
        |user: &str| stage.redis.url().replace("redis://", &format!("redis://{user}:${{REDIS_PASSWORD}}@"));
    run::<()>(client, &["ACL", "SETUSER", "nosy", ">wr0ng-s3cret"]).await.expect("a password");
    run::<()>(client, &["ACL", "SETUSER", "blind", ">wr0ng-s3cret"]).await.expect("a password");
    // INFO tells that there is no append-only file, but not whether there are snapshots.
    for (user, check, part) in [("nosy", "persistence", "appendonly no\""), ("blind", "permission", "+info")]
    {
        let yaml = format!("redis: {{url: '{}'}}\nstopBlock: 3\n{CAP}", url(user));
        let found = said(&stage.parser(&yaml).ended_with(0).await);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].0.as_str(), found[0].1.as_str()), ("WARN", check));
        assert!(found[0].2.contains(part), "{found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_waited_for_until_it_is_the_master() {
    let master = TestRedis::start().await;
    let replica = TestRedis::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]).await;
    let stage = Stage::with(&mixed(), replica, ServeOptions::default()).await;
    let mut parser = stage.parser(&format!("stopBlock: 3\n{CAP}"));
    let address = format!("127.0.0.1:{}", master.port());
    parser.says(&format!("redis.url to the master, {address}")).await;
    parser.says("READONLY").await;
    run::<()>(&mut stage.client().await, &["REPLICAOF", "NO", "ONE"]).await.expect("a master");
    parser.ended_with(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_the_namespace_needs_a_hash_tag() {
    let redis = TestRedis::start_with(&["--cluster-enabled", "yes"]).await;
    run::<()>(&mut redis.client().await, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await.expect("slots");
    let stage = Stage::with(&mixed(), redis, ServeOptions::default()).await;
    until("a cluster", async || {
        let state: String = run(&mut stage.client().await, &["CLUSTER", "INFO"]).await.ok()?;
        state.contains("cluster_state:ok").then_some(())
    })
    .await;
    let log = stage.parser("").ended_with(2).await;
    assert!(log.lines().last().is_some_and(|last| last.contains("hash tag, as in `{parser2}`")), "{log}");
    let yaml = format!("redis: {{url: '{}', namespace: '{{parser2}}'}}\nstopBlock: 3", stage.redis.url());
    stage.parser(&yaml).ended_with(0).await;
}

/// Redis closes connections that were idle for longer than its `timeout`.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_redis_closed_is_made_anew_quietly() {
    let stage = Stage::new(&mixed()).await;
    stage.slow(std::time::Duration::from_millis(5));
    let mut parser = stage.parser("xtrim: {intervalMs: 20}");
    let client = &mut stage.client().await;
    let mut closed = 0;
    while !stage.is_done(client).await {
        let clients: String = run(client, &["CLIENT", "LIST"]).await.expect("clients");
        // The ABI history's connection, and that for trimming, by what they asked last.
        let last = ["cmd=zrange ", "cmd=zrevrangebyscore ", "cmd=xinfo|groups "];
        for line in clients.lines().filter(|line| last.iter().any(|last| line.contains(last))) {
            let id = line.split(' ').next().and_then(|id| id.strip_prefix("id=")).expect("an id");
            closed += run::<u32>(client, &["CLIENT", "KILL", "ID", id]).await.expect("closed");
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    stage.done(&mut parser).await;
    let log = parser.stopped().await;
    assert!(closed > 5, "{closed}");
    assert!(!log.contains("waiting for Redis") && !log.contains("cannot trim"), "{log}");
    stage.written().await.assert_same(&undisturbed(&mixed(), "").await, "with connections closed");
}
