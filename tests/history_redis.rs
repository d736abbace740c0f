//! The ABI history in Redis: what is written there, what is read from there, and what comes from the chain API.

mod captures;
#[path = "support/chain_api.rs"]
mod chain_api;
#[path = "support/made.rs"]
mod made;
#[path = "support/node.rs"]
mod node;
#[path = "support/redis.rs"]
mod redis;
#[path = "support/run.rs"]
mod run;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use captures::{recorded, serve, shared};
use chain_api::{chain_api, current};
use made::{CHAIN, Made, abi, block, go, name, position, setabi};
use node::ScriptedNode;
use parser::capture::serve::ServeOptions;
use parser::history::{Fallback, History, Store};
use parser::plan::{Plan, Selection};
use redis::TestRedis;
use run::{Parser, config, entries, events, keys, published, sorted_set};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const FROM_10: &str = "startBlock: 10\npublish: {nativeDeltas: false}";
const ONE: &[u8] = &[1, 0, 0, 0];

fn field(name: &str) -> Vec<u8> {
    abi(&[(name, "uint32")])
}

async fn node(blocks: &[Made]) -> ScriptedNode {
    let protocol = made::protocol();
    let frames = blocks.iter().map(|made| made.frame(&protocol)).collect();
    let last = blocks.last().expect("a block").this;
    ScriptedNode::start(position(last.num, 0), vec![frames]).await
}

/// Publishes these blocks and stops.
async fn publish(redis: &TestRedis, blocks: &[Made], further: &str) -> String {
    let served = node(blocks).await;
    let parser = Parser::start(&config(&[served.url()], redis, further), &[]);
    published(redis, &CHAIN, blocks.last().expect("a block").this.num).await;
    parser.stopped().await
}

async fn put(redis: &TestRedis, contract: &str, score: u32, member: &str) {
    let key = keys(&CHAIN).abi(name(contract));
    ::redis::cmd("ZADD").arg((key, score, member)).exec_async(&mut redis.client().await).await.expect("ZADD");
}

async fn members(redis: &TestRedis, contract: &str) -> Vec<(String, f64)> {
    sorted_set(redis, &keys(&CHAIN).abi(name(contract))).await
}

/// Data or value, or why there is none.
fn said(events: &[(String, Value)]) -> Vec<Value> {
    let of = |event: &Value| match event["decode_error"]["reason"].as_str() {
        Some(reason) => json!(reason),
        None => event.get("data").or(event.get("value")).expect("data").clone(),
    };
    events.iter().filter(|(_, e)| e["name"] == "go" || e["kind"] == "delta").map(|(_, e)| of(e)).collect()
}

#[tokio::test]
async fn the_members_are_those_of_the_contract() {
    let redis = TestRedis::start().await;
    let (a, b, c) = (field("a"), field("b"), field("c"));
    let blocks = [
        block(10, 0).account("game", &a),
        block(11, 0).acts(&[setabi("game", 110, &b), setabi("game", 111, &[])]).account("game", &[]),
        block(12, 0).account("game", &c),
        block(13, 0).acts(&[setabi("game", 130, &a)]),
    ];
    publish(&redis, &blocks, FROM_10).await;
    let base64 = |abi: &[u8]| STANDARD.encode(abi);
    assert_eq!(
        members(&redis, "game").await,
        [
            (format!("10:00000000000000000000:{}", base64(&a)), 10.0),
            (format!("11:00000000000000000110:{}", base64(&b)), 11.0),
            ("11:00000000000000000111:".to_owned(), 11.0),
            (format!("12:18446744073709551615:{}", base64(&c)), 12.0),
            (format!("13:00000000000000000130:{}", base64(&a)), 13.0),
        ]
    );
    let blocks = sorted_set(&redis, &keys(&CHAIN).abi_blocks).await;
    let expected = [10, 11, 12, 13].map(|num| (format!("game:{num}"), f64::from(num)));
    assert_eq!(blocks, expected);
}

#[tokio::test]
async fn after_a_restart_the_history_comes_from_redis() {
    let redis = TestRedis::start().await;
    let narrow = abi(&[("narrow", "uint16")]);
    let mut first = vec![block(10, 0).acts(&[
        setabi("game", 100, &narrow),
        setabi("none", 101, b"x"),
        setabi("none", 102, &[]),
    ])];
    // Set again and again: the version before with other bytes lies far behind.
    first.extend(
        (11..=40).map(|num| block(num, 0).acts(&[setabi("game", u64::from(num) * 10, &field("wide"))])),
    );
    publish(&redis, &first, FROM_10).await;
    let then =
        [block(41, 0).acts(&[go("game", 410, 0, ONE), go("none", 411, 0, ONE)]).row("game", 1, &[7, 0])];
    publish(&redis, &then, FROM_10).await;
    let all = events(&redis, &CHAIN).await;
    assert_eq!(said(&all), [json!({"wide": 1}), json!("no_abi"), json!({"narrow": 7})]);
    assert_eq!(all.last().expect("the row").1["abi_block"], 10);
}

#[tokio::test]
async fn plain_members_of_the_typescript_version_are_read() {
    let redis = TestRedis::start().await;
    put(&redis, "game", 3, &STANDARD.encode(field("old"))).await;
    put(&redis, "game", 8, STANDARD.encode(field("plain")).trim_end_matches('=')).await;
    let blocks = [
        block(10, 0).acts(&[
            go("game", 100, 0, ONE),
            setabi("game", 101, &field("new")),
            go("game", 102, 0, ONE),
        ]),
        block(11, 0).row("game", 1, ONE),
    ];
    publish(&redis, &blocks, FROM_10).await;
    assert_eq!(
        said(&events(&redis, &CHAIN).await),
        [json!({"plain": 1}), json!({"new": 1}), json!({"new": 1})]
    );
}

#[tokio::test]
async fn a_foreign_member_is_an_error_that_names_the_key() {
    for member in ["{\"version\":1}", "1:2", "10:x:YWJp"] {
        let redis = TestRedis::start().await;
        put(&redis, "game", 9, member).await;
        let served = node(&[block(10, 0).acts(&[go("game", 100, 0, ONE)])]).await;
        let (status, said) = Parser::start(&config(&[served.url()], &redis, FROM_10), &[]).ended().await;
        assert_eq!(status, Some(1), "{said}");
        let last = said.lines().last().expect("a message");
        for part in ["ERROR", "`parser2:abi:game`", "at block 9", "BLOCK:SEQUENCE:BASE64", "ZREMRANGEBYSCORE"]
        {
            assert!(last.contains(part), "{last}");
        }
        assert!(events(&redis, &CHAIN).await.is_empty());
    }
}

#[tokio::test]
async fn more_contracts_than_are_kept_in_memory() {
    let redis = TestRedis::start().await;
    // Each with an ABI of its own, so that one taken for another would show.
    let contracts: Vec<String> = (0..1500u32)
        .map(|i| {
            let digit = |n: u32| char::from(b'a' + (n % 26) as u8);
            format!("game{}{}{}", digit(i / 676), digit(i / 26), digit(i))
        })
        .collect();
    let per_block =
        contracts.iter().fold(block(10, 0).irreversible(10), |made, c| made.account(c, &field(c)));
    let mut blocks = vec![per_block];
    for round in 0..20u32 {
        let num = 11 + round;
        let made = block(num, 0).irreversible(num - 1);
        let here = contracts.iter().enumerate().filter(|(i, _)| *i as u32 % 3 != round % 3);
        blocks.push(here.fold(made, |made, (_, c)| made.row(c, 1, &[round as u8, 0, 0, 0])));
    }
    // One block at a time, so that what is settled gives way before it is wanted again.
    publish(&redis, &blocks, &format!("{FROM_10}\nmaxMessagesInFlight: 1")).await;
    let all = events(&redis, &CHAIN).await;
    assert_eq!(all.len(), 20 * 1000);
    for (_, event) in &all {
        let code = event["code"].as_str().expect("a name");
        let round = event["block_num"].as_u64().expect("a number") - 11;
        assert_eq!(event["value"], json!({ code: round }));
    }
}

#[tokio::test]
async fn what_a_fork_undid_does_not_come_back_from_redis_before_it_is_published() {
    // Redis as it stands while the fork's transaction is still to come: both lost versions are there.
    let redis = TestRedis::start().await;
    for (num, name) in [(10, "a"), (12, "lost"), (13, "lost2")] {
        let member = format!("{num}:{:020}:{}", num * 10, STANDARD.encode(field(name)));
        put(&redis, "game", num, &member).await;
    }
    let store = Store::connect(&redis.server(), Arc::new(keys(&CHAIN))).await.expect("a connection");
    let reversible = BTreeMap::from([(12, vec![name("game")]), (13, vec![name("game")])]);
    let mut history = History::new(Some(store), Fallback::Publish, Vec::new(), reversible);
    let protocol = made::protocol();
    let plan = |made: &Made| {
        let result = made.result(&protocol);
        let (block, traces) = (result.block.expect("a block"), result.traces.expect("traces"));
        Plan::new(&protocol, &Selection::default(), &block, traces, result.deltas.expect("deltas"))
            .expect("a plan")
    };
    let call = |num: u32| block(num, 1).acts(&[go("game", u64::from(num) * 10 + 5, 0, ONE)]);
    let reads = async |history: &mut History, made: Made| {
        let num = made.this.num;
        let abis = history.block(num, &plan(&made)).await.expect("learned");
        let sequence = u64::from(num) * 10 + 5;
        abis.contracts[&name("game")].at(sequence).expect("a version").bytes().to_vec()
    };
    assert_eq!(reads(&mut history, call(14)).await, field("lost2"));
    assert_eq!(history.fork(11).await.expect("undone"), [name("game")]);
    assert_eq!(reads(&mut history, call(12)).await, field("a"));
    let new = block(13, 1).acts(&[setabi("game", 130, &field("new")), go("game", 135, 0, ONE)]);
    assert_eq!(reads(&mut history, new).await, field("new"));
    // Another one, above the first: Redis still has the version of the lost block 12.
    history.fork(12).await.expect("undone");
    assert_eq!(reads(&mut history, call(13)).await, field("a"));
}

// === the chain API ===

/// What is needed of the recording's notes. Other parts of them hold text that is no Unicode.
#[derive(serde::Deserialize)]
struct Notes {
    setabi: Vec<NotedSetabi>,
}

#[derive(serde::Deserialize)]
struct NotedSetabi {
    block: u64,
    global_sequence: String,
    account: String,
    effective: bool,
}

#[tokio::test(flavor = "multi_thread")]
async fn started_in_the_middle_the_chain_api_fills_in() {
    let (Some(capture), Some(raw), Some(notes), Some(expected)) = (
        recorded("mixed"),
        shared("mixed.rawabi.json"),
        shared("mixed.notes.json"),
        shared("mixed.expected.ndjson.zst"),
    ) else {
        return;
    };
    let raw: Value = serde_json::from_slice(&std::fs::read(raw).expect("a file")).expect("JSON");
    let notes: Notes = serde_json::from_slice(&std::fs::read(notes).expect("a file")).expect("JSON");
    let chain_id = capture.status.chain_id.expect("a chain id");
    let start = 100;
    let redis = TestRedis::start().await;
    let mut abis: HashMap<String, String> =
        serde_json::from_value(raw.clone()).expect("accounts with base64");
    // The recording lists accounts with an ABI; for the others a node answers with an empty one.
    for account in ["noabi1111111", "eosio.null", "fakesystem11", "late11111111"] {
        abis.entry(account.to_owned()).or_default();
    }
    let url = chain_api(abis, 0).await;
    let server = serve(&capture, ServeOptions::default()).await;
    let further = format!(
        "startBlock: {start}\nstopBlock: 648\nchain: {{url: '{url}'}}\npublish: {{nativeDeltas: false}}"
    );
    run::run(&config(&[server.url()], &redis, &further), &[]).await;

    // When each contract's ABI was set from the start on, by the recording's notes.
    let mut set: HashMap<String, Vec<u64>> = HashMap::new();
    for setabi in notes.setabi.iter().filter(|setabi| setabi.effective && setabi.block >= start) {
        let sequence = setabi.global_sequence.parse().expect("a number");
        set.entry(setabi.account.clone()).or_default().push(sequence);
    }
    let found: HashMap<String, Value> = events(&redis, &chain_id)
        .await
        .into_iter()
        .map(|(_, event)| (event["event_id"].as_str().expect("an id").to_owned(), event))
        .collect();
    let (mut compared, mut unknown, mut later) = (0, 0, 0);
    for line in
        zstd::decode_all(std::fs::File::open(expected).expect("a file")).expect("zstd").split(|b| *b == b'\n')
    {
        let Ok(mut event) = serde_json::from_slice::<Value>(line) else { continue };
        if event["kind"] == "native-delta" || event["block_num"].as_u64().is_some_and(|num| num < start) {
            continue;
        }
        let mut found = found[event["event_id"].as_str().expect("an id")].clone();
        for event in [&mut event, &mut found] {
            if let Some(error) = event.get_mut("decode_error") {
                error["message"] = json!("");
            }
        }
        let contract =
            event.get("account").or(event.get("code")).expect("a contract").as_str().expect("a name");
        let never_set = !set.contains_key(contract);
        let sequence = event["global_sequence"].as_str().and_then(|text| text.parse::<u64>().ok());
        // The same ABI from the start to the end, or one that was seen to be set.
        let known = never_set || sequence.is_some_and(|at| set[contract].iter().any(|&set| set < at));
        if known && found["decode_error"]["reason"] != "invalid" {
            assert_eq!(found, event);
            compared += 1;
            later += usize::from(!never_set);
        }
        unknown += usize::from(found["decode_error"]["reason"] == "abi_unknown");
    }
    assert!(compared > 5000 && later > 50, "{compared} {later}");
    assert_eq!(unknown, 0);

    // Each contract with events and without a setabi before them has the current ABI, below all others.
    let eosio = sorted_set(&redis, &keys(&chain_id).abi(name("eosio.token"))).await;
    // The node of the recording writes one `=` too many.
    let base64 = raw["eosio.token"].as_str().expect("base64").trim_end_matches('=');
    let padded = format!("0:00000000000000000000:rpc:{base64}{}", "=".repeat((4 - base64.len() % 4) % 4));
    assert_eq!(eosio, [(padded, 0.0)]);
}

#[tokio::test]
async fn an_abi_of_the_chain_api_hides_none_of_the_blocks() {
    let redis = TestRedis::start().await;
    let url = chain_api(current(&[("game", &field("now")), ("none", &[])]), 0).await;
    let further = format!("{FROM_10}\nchain: {{url: '{url}'}}");
    let blocks = [
        block(10, 0).acts(&[go("game", 100, 0, ONE), go("none", 101, 0, ONE), go("nobody", 102, 0, ONE)]),
        block(11, 0).acts(&[setabi("game", 110, &field("a")), go("game", 111, 0, ONE)]),
        // An account's row is of the blocks, too.
        block(12, 0).account("none", &field("row")).acts(&[go("none", 120, 0, ONE)]),
    ];
    publish(&redis, &blocks, &further).await;
    // And after a restart.
    publish(&redis, &[block(13, 0).acts(&[go("game", 130, 0, ONE), go("none", 131, 0, ONE)])], &further)
        .await;
    assert_eq!(
        said(&events(&redis, &CHAIN).await),
        [
            json!({"now": 1}),
            json!("no_abi"),
            json!("abi_unknown"),
            json!({"a": 1}),
            json!({"row": 1}),
            json!({"a": 1}),
            json!({"row": 1})
        ]
    );
    assert_eq!(members(&redis, "none").await[0], ("0:00000000000000000000:rpc:".to_owned(), 0.0));
    assert!(members(&redis, "nobody").await.is_empty());
}

#[tokio::test]
async fn a_chain_api_that_is_down_is_waited_for() {
    let redis = TestRedis::start().await;
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let further = format!("{FROM_10}\nchain: {{url: 'http://127.0.0.1:{port}'}}");
    let blocks = [block(10, 0), block(11, 0).acts(&[go("game", 110, 0, ONE)]), block(12, 0)];
    let served = node(&blocks).await;
    let mut parser = Parser::start(&config(&[served.url()], &redis, &further), &[]);
    parser.says("waiting for the chain API").await;
    let last = events(&redis, &CHAIN).await;
    assert!(last.is_empty(), "nothing is published undecoded");
    chain_api(current(&[("game", &field("now"))]), port).await;
    published(&redis, &CHAIN, 12).await;
    let said_all = parser.stopped().await;
    assert!(said_all.contains("the chain API answers again"), "{said_all}");
    assert_eq!(said_all.matches("waiting for the chain API").count(), 1);
    assert_eq!(said(&events(&redis, &CHAIN).await), [json!({"now": 1})]);
}

#[tokio::test]
async fn without_a_chain_api_unknown_abis_are_said_and_become_dead_letters() {
    let redis = TestRedis::start().await;
    let blocks = [block(10, 0).acts(&[go("game", 100, 0, ONE)]).row("rowed", 7, ONE)];
    publish(&redis, &blocks, FROM_10).await;
    let all = events(&redis, &CHAIN).await;
    assert_eq!(said(&all), [json!("abi_unknown"), json!("abi_unknown")]);
    assert_eq!((&all[0].1["data"], &all[0].1["raw"]), (&json!({}), &json!("01000000")));
    assert!(members(&redis, "game").await.is_empty());
    let mut client = redis.client().await;
    let letters = entries(&mut client, &keys(&CHAIN).dead_parser).await;
    assert_eq!(letters.iter().map(|(id, _)| id).collect::<Vec<_>>(), ["10-1", "10-2"]);
    let fields: HashMap<_, _> =
        letters[0].1.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        (fields["reason"], fields["contract"], fields["type"], fields["raw"], fields["abi_block"]),
        ("abi_unknown", "game", "", "01000000", "")
    );
}

#[tokio::test]
async fn a_missing_version_is_told_with_contract_and_block() {
    let redis = TestRedis::start().await;
    let blocks = [
        block(10, 0).acts(&[setabi("game", 100, &field("a")), go("game", 101, 1, ONE)]),
        block(11, 0).acts(&[go("game", 110, 3, ONE)]),
    ];
    let said = publish(&redis, &blocks, FROM_10).await;
    let line = said.lines().find(|line| line.contains("has not seen")).expect("a warning");
    let line: Value = serde_json::from_str(line).expect("a structured line");
    let text = line.to_string();
    for part in ["\"contract\":\"game\"", "\"block\":11", "\"expected\":1", "\"found\":3"] {
        assert!(text.contains(part), "{text}");
    }
}
