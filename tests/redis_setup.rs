//! How Redis is set up: what the parser says of it when it starts, and the smallest permissions that it and its consumers
//! get along with.

mod support;

use std::collections::BTreeSet;
use std::process::Command;

use parser::capture::file::Capture;
use parser::capture::serve::ServeOptions;
use redis::aio::MultiplexedConnection;
use support::captures;
use support::expected::Recording;
use support::redis::TestRedis;
use support::stage::{Stage, undisturbed};

/// Small enough for any machine's memory.
const CAP: &str = "xtrim: {maxEntries: 100000}";

fn mixed() -> Capture {
    Recording::bundled("mixed-100").capture
}

async fn run<T: redis::FromRedisValue>(
    client: &mut MultiplexedConnection,
    words: &[&str],
) -> redis::RedisResult<T> {
    redis::cmd(words[0]).arg(&words[1..]).query_async(client).await
}

/// What a run says of a Redis started like that: level, check, and the line.
async fn findings(redis: TestRedis, yaml: &str) -> Vec<(String, String, String)> {
    let stage = Stage::with(&mixed(), redis, ServeOptions::default()).await;
    let log = stage.parser(&format!("stopBlock: 3\n{yaml}")).ended_with(0).await;
    said(&log)
}

fn said(log: &str) -> Vec<(String, String, String)> {
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
    support::until("a cluster", async || {
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

// === permissions ===

/// Creates the user whose rules `scripts/redis-acl` prints, with the password that the parser's process has.
async fn permit(redis: &TestRedis, arguments: &[&str]) {
    let rules = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/redis-acl"))
        .args(arguments)
        .env("PASSWORD", "wr0ng-s3cret")
        .output()
        .expect("the script runs");
    let rules = String::from_utf8(rules.stdout).expect("text");
    assert!(rules.starts_with("ACL SETUSER ") && !rules.contains("s3cret"), "{rules}");
    let file = redis.path("rules");
    std::fs::write(&file, rules).expect("written");
    let done = Command::new("redis-cli")
        .args(["-p", &redis.port().to_string()])
        .stdin(std::fs::File::open(&file).expect("the rules"))
        .output()
        .expect("redis-cli runs");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "OK\n");
}

fn as_user(redis: &TestRedis, user: &str) -> String {
    redis.url().replace("redis://", &format!("redis://{user}:${{REDIS_PASSWORD}}@"))
}

/// Commands that were carried out since the statistics were reset, as in an ACL rule.
async fn used(client: &mut MultiplexedConnection) -> BTreeSet<String> {
    let stats: String = run(client, &["INFO", "commandstats"]).await.expect("INFO");
    let command = |line: &str| Some(line.strip_prefix("cmdstat_")?.split_once(':')?.0.to_owned());
    stats.lines().filter_map(command).collect()
}

/// Runs everything under the printed rules: nothing is refused, and no rule is for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_parser_gets_along_with_the_permissions_printed_and_needs_all_of_them() {
    let mixed = mixed();
    let redis = TestRedis::start_with(&["--appendonly", "yes"]).await;
    let chain = mixed.status.chain_id.expect("a chain id").to_string();
    permit(&redis, &["parser", "--chain", &chain, "--prefix", "site[1]:"]).await;
    let stage = Stage::with(&mixed, redis, ServeOptions::default()).await;
    let url = stage.redis.url().replace("redis://", "redis://parser@");
    let redis = format!("redis: {{url: '{url}', password: '${{REDIS_PASSWORD}}', keyPrefix: 'site[1]:'}}");
    let yaml = |further: &str| format!("{redis}\n{further}");
    let client = &mut stage.client().await;
    let keys = parser::keys::Keys::new("parser2", &mixed.status.chain_id.expect("a chain id"), "site[1]:");
    let refused = async |client: &mut MultiplexedConnection| {
        run::<redis::Value>(client, &["ACL", "LOG"]).await.expect("ACL LOG")
    };
    run::<()>(client, &["CONFIG", "RESETSTAT"]).await.expect("reset");

    // From the start, with dead letters; then on from the checkpoint.
    stage.parser(&yaml("stopBlock: 50")).ended_with(0).await;
    stage.parser(&yaml("stopBlock: 60")).ended_with(0).await;
    let mut seen = used(client).await;
    // A group that has read all; then trimming of all kinds, also by what is not read.
    run::<()>(client, &["XGROUP", "CREATE", &keys.events, "web", "0"]).await.expect("a group");
    run::<redis::Value>(
        client,
        &["XREADGROUP", "GROUP", "web", "one", "COUNT", "900", "STREAMS", &keys.events, ">"],
    )
    .await
    .expect("read");
    run::<()>(client, &["CONFIG", "RESETSTAT"]).await.expect("reset");
    let mut parser =
        stage.parser(&yaml("xtrim: {maxEntries: 1000, whenFull: trim, keepBlocks: 10, intervalMs: 50}"));
    parser.says("removed the oldest entries").await;
    parser.stopped().await;
    seen.extend(used(client).await);

    // A dead letter of a consumer is published again.
    run::<()>(client, &["CONFIG", "RESETSTAT"]).await.expect("reset");
    let first: Vec<(String, Vec<String>)> =
        run(client, &["XREVRANGE", &keys.events, "+", "-", "COUNT", "1"]).await.expect("an entry");
    let letter = ["XADD", &keys.dead("web"), "*", "data", &first[0].1[1]];
    run::<String>(client, &letter).await.expect("a dead letter");
    let file = stage.redis.path("replay.yaml");
    std::fs::write(&file, format!("ship: {{url: 'ws://127.0.0.1:9'}}\n{redis}\n")).expect("written");
    let replayed = Command::new(env!("CARGO_BIN_EXE_parser"))
        .args(["dead-letters", "replay", "--sub", "web", "--all", "--config"])
        .arg(&file)
        .env("REDIS_PASSWORD", "wr0ng-s3cret")
        .output()
        .expect("the command runs");
    assert_eq!(
        String::from_utf8_lossy(&replayed.stdout),
        "1 of 1 dead letters are published\n",
        "{replayed:?}"
    );
    let mut parser = stage.parser(&yaml(""));
    parser.says("reading blocks").await;
    support::until("a look for dead letters to publish again", async || {
        used(&mut client.clone()).await.contains("exists").then_some(())
    })
    .await;
    parser.stopped().await;
    seen.extend(used(client).await);

    // CONFIG is asked for and left out where it is forbidden; nothing else is refused.
    let log = format!("{:?}", refused(client).await);
    let others: Vec<&str> = log
        .split("\"object\"")
        .skip(1)
        .map(|rest| rest.get(..60).unwrap_or(rest))
        .filter(|rest| !rest.contains("config|get"))
        .collect();
    assert!(others.is_empty(), "{others:?}");

    // Forks leave something behind, too.
    let fork = Recording::bundled("fork-240").capture;
    let forked = TestRedis::start().await;
    permit(&forked, &["parser"]).await;
    let yaml = format!("redis: {{url: '{}'}}", as_user(&forked, "parser"));
    let with_forks = Stage::with(&fork, forked, ServeOptions::default()).await;
    let mut parser = with_forks.parser(&yaml);
    with_forks.done(&mut parser).await;

    let user: Vec<redis::Value> = run(client, &["ACL", "GETUSER", "parser"]).await.expect("the user");
    let rules: String = redis::from_redis_value(user[5].clone()).expect("its commands");
    let printed = std::fs::read_to_string(stage.redis.path("rules")).expect("the rules");
    for rule in printed.split_whitespace().filter_map(|word| word.strip_prefix('+')) {
        // The last one is sent when another parser takes the lease between two commands.
        assert!(
            seen.contains(rule) || rule == "unwatch",
            "`{rule}` is permitted for nothing; used: {seen:?}\n{rules}"
        );
    }
}

/// The commands over what is published, beside a running parser and without one.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_gets_along_with_the_permissions_printed_and_needs_all_of_them() {
    let redis = TestRedis::start().await;
    permit(&redis, &["operator"]).await;
    let rules = std::fs::read_to_string(redis.path("rules")).expect("the rules");
    let stage = Stage::with(&mixed(), redis, ServeOptions::default()).await;
    let mut parser = stage.parser("");
    parser.says("reading blocks").await;
    stage.done(&mut parser).await;
    let client = &mut stage.client().await;
    let (events, id) = (stage.keys.events.clone(), stage.keys.sync.rsplit(':').next().expect("a chain id"));
    for group in ["web", "old"] {
        run::<()>(client, &["XGROUP", "CREATE", &events, group, "0"]).await.expect("a group");
    }
    run::<u64>(client, &["HSET", "parser2:subs", "web", r#"{"subId":"web","filters":[],"startFrom":1}"#])
        .await
        .expect("set");
    let read = ["XREADGROUP", "GROUP", "web", "one", "COUNT", "9", "STREAMS", &events, ">"];
    run::<redis::Value>(client, &read).await.expect("read");
    let file = stage.redis.path("operator.yaml");
    let (ship, url) = (stage.node.url(), as_user(&stage.redis, "operator"));
    std::fs::write(&file, format!("ship: {{url: '{ship}'}}\nredis: {{url: '{url}'}}\nchain: {{id: {id}}}\n"))
        .expect("written");
    let abi = stage.redis.path("abi.json");
    let fields =
        r#"{"name":"id","type":"uint64"},{"name":"owner","type":"name"},{"name":"memo","type":"string"}"#;
    let structs = format!(r#"{{"name":"put","base":"","fields":[{fields}]}}"#);
    let actions = r#"{"name":"put","type":"put","ricardian_contract":""}"#;
    let text = format!(r#"{{"version":"eosio::abi/1.1","structs":[{structs}],"actions":[{actions}]}}"#);
    std::fs::write(&abi, text).expect("written");
    let abi = abi.display().to_string();
    run::<()>(client, &["CONFIG", "RESETSTAT"]).await.expect("reset");
    let call = async |words: &str| {
        let words = words.replace("FILE", &abi);
        let called = Command::new(env!("CARGO_BIN_EXE_parser"))
            .args(words.split(' '))
            .arg("--config")
            .arg(&file)
            .env("REDIS_PASSWORD", "wr0ng-s3cret")
            .output()
            .expect("the command runs");
        // Findings are not the question here.
        let said = String::from_utf8_lossy(&called.stderr).into_owned();
        assert!(called.status.code() != Some(2) && !said.contains("NOPERM"), "{words}: {said}");
    };
    for words in [
        "status",
        "subscriptions list",
        "subscriptions reset web --to-block 50",
        "subscriptions remove old",
        "abi list",
        "abi show eosio",
        "abi check --stream",
        "abi put truncabi1111 --block 69 FILE",
        "abi preload --ship --from 1 --to 20",
        "abi prune",
        "dead-letters list",
        "dead-letters replay --all",
        "verify",
    ] {
        call(words).await;
    }
    parser.stopped().await;
    // What nothing needs any more goes.
    run::<u64>(client, &["XTRIM", &events, "MINID", "90"]).await.expect("trimmed");
    for words in ["dead-letters replay --all", "dead-letters purge --all --yes", "abi prune", "verify"] {
        call(words).await;
    }
    let used = used(client).await;
    let log = format!("{:?}", run::<redis::Value>(client, &["ACL", "LOG"]).await.expect("ACL LOG"));
    assert!(!log.contains("operator"), "{log}");
    for rule in rules.split_whitespace().filter_map(|word| word.strip_prefix('+')) {
        assert!(
            used.contains(rule) || rule == "unwatch",
            "`{rule}` is permitted for nothing; used: {used:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_reads_acknowledges_and_writes_nothing_else() {
    let mixed = mixed();
    let redis = TestRedis::start().await;
    let stage = Stage::with(&mixed, redis, ServeOptions::default()).await;
    stage.parser("stopBlock: 20").ended_with(0).await;
    permit(&stage.redis, &["consumer", "--subscription", "web"]).await;
    let url = stage.redis.url().replace("redis://", "redis://consumer-web:wr0ng-s3cret@");
    let server = parser::publish::Server::new(&url, None).expect("a URL");
    let client = &mut server.connect_control().await.expect("logged in");
    let (events, sync) = (stage.keys.events.as_str(), stage.keys.sync.as_str());
    let (dead, failures, lock) = (stage.keys.dead("web"), stage.keys.failures("web"), stage.keys.lock("web"));
    let abi = stage.keys.abi("eosio".parse().expect("a name"));
    // docs/consumers.md, and what client libraries do.
    for words in [
        &["GET", "parser2:chain"][..],
        &["XGROUP", "CREATE", events, "web", "0"],
        &["XREADGROUP", "GROUP", "web", "one", "COUNT", "2", "STREAMS", events, ">"],
        &["XACK", events, "web", "1-1"],
        &["XREADGROUP", "GROUP", "web", "one", "COUNT", "10", "STREAMS", events, "0"],
        &["XAUTOCLAIM", events, "web", "two", "0", "0"],
        &["XPENDING", events, "web"],
        &["XGROUP", "SETID", events, "web", "16-0"],
        &["XREAD", "COUNT", "1", "STREAMS", events, "0"],
        &["XRANGE", events, "18", "18"],
        &["XREVRANGE", events, "+", "-", "COUNT", "1"],
        &["XINFO", "GROUPS", events],
        &["XLEN", events],
        &["HMGET", sync, "last_irreversible", "stream_id"],
        &["HSET", "parser2:subs", "web", "{}"],
        &["SET", &lock, "me", "NX", "PX", "10000"],
        &["PEXPIRE", &lock, "10000"],
        &["GET", &lock],
        &["DEL", &lock],
        &["HINCRBY", &failures, "event", "1"],
        &["EXPIRE", &failures, "86400"],
        &["HDEL", &failures, "event"],
        &["XADD", &dead, "*", "data", "{}"],
    ] {
        run::<redis::Value>(client, words).await.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }
    for words in [
        &["XADD", events, "*", "data", "{}"][..],
        &["XTRIM", events, "MAXLEN", "0"],
        &["XDEL", events, "1-1"],
        &["DEL", events],
        &["XGROUP", "DESTROY", events, "web"],
        &["SET", "parser2:chain", "x"],
        &["HSET", sync, "block_num", "1"],
        &["DEL", sync],
        &["ZADD", &abi, "0", "x"],
        &["XADD", &stage.keys.dead("other"), "*", "data", "{}"],
        &["SET", &stage.keys.lock("other"), "me"],
        &["SET", &stage.keys.writer, "me"],
        &["FLUSHALL"],
        &["CONFIG", "GET", "*"],
        &["KEYS", "*"],
    ] {
        let refused = run::<redis::Value>(client, words).await.expect_err(&format!("{words:?}"));
        assert_eq!(refused.code(), Some("NOPERM"), "{words:?}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_permitted_and_what_is_in_the_way_are_named() {
    let stage = Stage::new(&mixed()).await;
    let client = &mut stage.client().await;
    permit(&stage.redis, &["parser", "--namespace", "other"]).await;
    let yaml = format!("redis: {{url: '{}'}}", as_user(&stage.redis, "parser"));
    let log = stage.parser(&yaml).ended_with(1).await;
    let last = |log: &str| log.lines().last().unwrap_or_default().to_owned();
    for part in ["`parser2:chain`", "scripts/redis-acl"] {
        assert!(last(&log).contains(part), "{log}");
    }
    permit(&stage.redis, &["parser"]).await;
    for (rule, part) in
        [("-watch", "'watch'"), ("-xadd", "'xadd'"), ("-xrevrange", "'xrevrange'"), ("-hgetall", "'hgetall'")]
    {
        run::<()>(client, &["ACL", "SETUSER", "parser", rule]).await.expect("less");
        let log = stage.parser(&yaml).ended_with(1).await;
        assert!(last(&log).contains(part) && last(&log).contains("scripts/redis-acl"), "{log}");
        run::<()>(client, &["ACL", "SETUSER", "parser", &rule.replace('-', "+")]).await.expect("more");
    }
    // Keys that something else uses.
    let keys = &stage.keys;
    for key in [
        keys.chain.clone(),
        keys.writer.clone(),
        keys.failures("parser"),
        keys.abi("eosio".parse().expect("a name")),
    ] {
        run::<()>(client, &["FLUSHALL"]).await.expect("empty");
        run::<()>(client, &["LPUSH", &key, "x"]).await.expect("a list");
        let log = stage.parser("").ended_with(2).await;
        assert!(last(&log).contains(&format!("`{key}` is of another type")), "{log}");
    }
}

// === the chain ===

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_another_chain_is_passed_by_also_as_the_first_one() {
    let stage = Stage::new(&mixed()).await;
    let other = Recording::bundled("fork-240").capture;
    let node = captures::serve(&other, ServeOptions::default()).await;
    stage.parser("stopBlock: 2").ended_with(0).await;
    let yaml = format!("ship: {{url: ['{}', '{}']}}\nstopBlock: 5", node.url(), stage.node.url());
    let log = stage.parser(&yaml).ended_with(0).await;
    assert!(log.contains("the node cannot be used now") && log.contains("parser2:chain"), "{log}");
}
