//! `parser abi list|show|put|prune|check`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parser::capture::serve::ServeOptions;
use parser::hex;
use serde_json::{Value, json};

use crate::captures::serve;
use crate::made::{self, CHAIN, abi, block, go, setabi};
use crate::redis::TestRedis;
use crate::run::{self, Parser, published};
use crate::world::World;

const ONE: &[u8] = &[1, 0, 0, 0];
const END: u64 = u64::MAX;

/// An ABI whose action `go` and table `rows` have one field of that name.
fn field(name: &str) -> Vec<u8> {
    abi(&[(name, "uint32")])
}

fn member(block: u32, sequence: u64, abi: &[u8]) -> String {
    format!("{block}:{sequence:020}:{}", STANDARD.encode(abi))
}

/// A history as it lies in Redis: score and member.
async fn history(world: &World, contract: &str, members: &[(u32, String)]) {
    for (score, member) in members {
        let key = format!("parser2:abi:{contract}");
        let _: u64 = world.ask(&["ZADD", &key, &score.to_string(), member]).await;
    }
}

async fn members(world: &World, contract: &str) -> Vec<(String, f64)> {
    world.ask(&["ZRANGE", &format!("parser2:abi:{contract}"), "0", "-1", "WITHSCORES"]).await
}

async fn of_chain() -> World {
    let world = World::empty(&CHAIN).await;
    let _: () = world.ask(&["SET", "parser2:chain", &CHAIN.to_string()]).await;
    world
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_listed_with_where_they_come_from() {
    let world = of_chain().await;
    let usable = field("a");
    history(
        &world,
        "game",
        &[
            (0, format!("0:{:020}:rpc:{}", 0, STANDARD.encode(&usable))),
            (7, member(7, 0, &usable)),
            (8, STANDARD.encode(field("b"))),
            (9, member(9, 93, b"\x0eeosio::abi/2.0")),
            (9, member(9, END, b"")),
        ],
    )
    .await;
    history(&world, "other", &[(3, member(3, 30, &usable))]).await;
    let out = world.succeed(&["abi", "list", "--json"]).await;
    let rows = lines(&out);
    let told: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row["contract"].as_str(),
                row["block"].as_u64(),
                row["source"].as_str(),
                row["sequence"].as_str(),
            )
        })
        .map(|(contract, block, source, sequence)| {
            (contract.unwrap(), block.unwrap(), source.unwrap(), sequence)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("game", 0, "chain-api", Some("0")),
            ("game", 7, "row", Some("0")),
            ("game", 8, "plain", None),
            ("game", 9, "setabi", Some("93")),
            ("game", 9, "row", Some("18446744073709551615")),
            ("other", 3, "setabi", Some("30")),
        ]
    );
    // sha256sum of the bytes; that of nothing is well known.
    assert_eq!(rows[4]["sha256"], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(
        (&rows[1]["size"], &rows[1]["usable"], &rows[1]["error"]),
        (&json!(usable.len()), &json!(true), &json!(null))
    );
    assert!(rows[3]["error"].as_str().expect("why").contains("eosio::abi/2.0"), "{}", rows[3]);
    assert_eq!((&rows[4]["usable"], &rows[4]["error"]), (&json!(false), &json!(null)));
    let some = world.succeed(&["abi", "list", "other"]).await;
    assert!(some.contains("setabi 30") && !some.contains("game"), "{some}");
    world.fail(2, &["abi", "list", "Not.A.Name"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_abi_at_a_block_is_the_last_one_set_by_its_end() {
    let world = of_chain().await;
    history(
        &world,
        "game",
        &[
            (5, member(5, 50, &field("a"))),
            (7, member(7, 70, &field("b"))),
            (7, member(7, 75, &field("c"))),
            (9, member(9, END, &[])),
        ],
    )
    .await;
    for (at, expected) in [("5", "a"), ("6", "a"), ("7", "c"), ("8", "c")] {
        let shown = world.json(&["abi", "show", "game", "--at", at]).await;
        assert_eq!(shown["abi"]["structs"][0]["fields"][0]["name"], expected, "at {at}");
    }
    let shown = world.json(&["abi", "show", "game", "--at", "8"]).await;
    assert_eq!((&shown["block"], &shown["next_version_block"]), (&json!(7), &json!(9)));
    assert_eq!(world.json(&["abi", "show", "game", "--at", "4000000000"]).await["abi"], json!(null));
    assert_eq!(world.json(&["abi", "show", "game"]).await["size"], json!(0));
    let said = world.fail(1, &["abi", "show", "game", "--at", "4"]).await;
    assert!(said.contains("begins with block 5"), "{said}");
    let said = world.fail(1, &["abi", "show", "nobody"]).await;
    assert!(said.contains("no ABI of `nobody`"), "{said}");
    // In the order in which nodeos writes it.
    let shown = world.succeed(&["abi", "show", "game", "--at", "6"]).await;
    let places: Vec<_> = ["\"version\"", "\"types\"", "\"structs\"", "\"actions\"", "\"tables\""]
        .map(|key| shown.find(key).expect(key))
        .into();
    assert!(places.is_sorted(), "{shown}");
    assert!(shown.contains("from inside block 5, until block 7"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abi_is_put_from_every_form() {
    let world = of_chain().await;
    let packed = field("a");
    world.write("packed", &packed);
    world.write("digits", hex::lower(&packed) + "\n");
    world.write("base64", STANDARD.encode(&packed));
    // What nodeos' get_abi and get_raw_abi answer.
    let shape = json!({
        "____comment": "made by hand",
        "version": "eosio::abi/1.1", "types": [],
        "structs": [{"name": "fields", "base": "", "fields": [{"name": "a", "type": "uint32"}]}],
        "actions": [{"name": "go", "type": "fields", "ricardian_contract": ""}],
        "tables": [{"name": "rows", "index_type": "i64", "key_names": [], "key_types": [], "type": "fields"}],
        "ricardian_clauses": [], "error_messages": [], "abi_extensions": [], "variants": [],
    });
    world.write("json", shape.to_string());
    world.write("get_abi", json!({"account_name": "game", "abi": shape}).to_string());
    world.write("get_raw_abi", json!({"account_name": "game", "abi": STANDARD.encode(&packed)}).to_string());
    for (block, file) in (10..).zip(["packed", "digits", "base64", "get_raw_abi"]) {
        world.succeed(&["abi", "put", "game", "--block", &block.to_string(), file]).await;
        assert_eq!(
            members(&world, "game").await.last(),
            Some(&(member(block, 0, &packed), f64::from(block))),
            "{file}"
        );
    }
    // Packed from JSON it has all parts, also those that may be left out at the end.
    let whole = [&packed[..], &[0]].concat();
    for (block, file) in (20..).zip(["json", "get_abi"]) {
        world.succeed(&["abi", "put", "game", "--block", &block.to_string(), file]).await;
        assert_eq!(
            members(&world, "game").await.last(),
            Some(&(member(block, 0, &whole), f64::from(block))),
            "{file}"
        );
    }
    // A character outside of the first plane, escaped as JSON can.
    world.write("escaped", shape.to_string().replace("\"name\":\"a\"", "\"name\":\"\\ud83d\\ude42\""));
    world.succeed(&["abi", "put", "game", "--block", "30", "escaped"]).await;
    assert_eq!(world.json(&["abi", "show", "game"]).await["abi"]["structs"][0]["fields"][0]["name"], "🙂");
    let piped = world
        .call_with(
            &["abi", "put", "game", "--block", "31", "-", "--config", "parser.yaml"],
            &shape.to_string(),
        )
        .await;
    assert_eq!(piped.status, Some(0), "{piped:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_that_harms_needs_force() {
    let world = of_chain().await;
    for (file, contents, part) in [
        ("garbage", &b"\x05hello"[..], "no ABI that can be used"),
        ("empty", b"", "is empty"),
        ("cut.json", b"{\"version\":", "not JSON"),
        ("other.json", b"{\"version\": 7}", "not an ABI in JSON"),
    ] {
        world.write(file, contents);
        let said = world.fail(1, &["abi", "put", "game", "--block", "5", file]).await;
        assert!(said.contains(part) && said.contains(file), "{said}");
    }
    let said = world.fail(1, &["abi", "put", "game", "--block", "5", "missing"]).await;
    assert!(said.contains("missing"), "{said}");
    assert!(members(&world, "game").await.is_empty());
    for (block, file) in [("5", "garbage"), ("6", "empty")] {
        world.succeed(&["abi", "put", "game", "--block", block, file, "--force"]).await;
    }
    world.write("a", field("a"));
    let said = world.fail(1, &["abi", "put", "game", "--block", "5", "a"]).await;
    assert!(said.contains("another version") && said.contains("--force"), "{said}");
    world.succeed(&["abi", "put", "game", "--block", "5", "a", "--force"]).await;
    let there = world.succeed(&["abi", "put", "game", "--block", "5", "a"]).await;
    assert!(there.contains("was there already") && there.contains("until block 6"), "{there}");
    assert_eq!(members(&world, "game").await, [(member(5, 0, &field("a")), 5.0), (member(6, 0, b""), 6.0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_parser_takes_notice() {
    let redis = TestRedis::start().await;
    // Of one contract the version can still be undone, of the other it is settled.
    let mut blocks = vec![
        block(10, 0).irreversible(10).account("game", &field("old")),
        block(11, 0).irreversible(11).row("game", 1, ONE),
        block(12, 0).irreversible(11).acts(&[setabi("fresh", 120, &field("old")), go("fresh", 121, 0, ONE)]),
    ];
    let first = serve(&made::capture(&blocks), ServeOptions::default()).await;
    blocks
        .extend((13..=16).map(|num| block(num, 0).irreversible(11).row("game", 1, ONE).row("fresh", 1, ONE)));
    let second = serve(&made::capture(&blocks), ServeOptions::default()).await;
    let yaml =
        run::config(&[first.url(), second.url()], &redis, "startBlock: 10\npublish: {nativeDeltas: false}");
    let world = World::new(redis, &CHAIN, first.url(), "").await;
    let mut parser = Parser::start(&yaml, &[]);
    published(&world.redis, &CHAIN, 12).await;
    world.write("now", field("now"));
    world.write("later", field("later"));
    for contract in ["game", "fresh"] {
        world.succeed(&["abi", "put", contract, "--block", "14", "now"]).await;
        world.succeed(&["abi", "put", contract, "--block", "16", "later"]).await;
    }
    parser.says("the ABI history was changed from outside").await;
    drop(first);
    published(&world.redis, &CHAIN, 16).await;
    parser.stopped().await;
    let events = run::events(&world.redis, &CHAIN).await;
    for contract in ["game", "fresh"] {
        let values: Vec<(u64, &Value)> = events
            .iter()
            .filter(|(_, event)| event["code"] == contract)
            .map(|(_, event)| (event["block_num"].as_u64().expect("a number"), &event["value"]))
            .filter(|(num, _)| *num > 12)
            .collect();
        let expected = [json!({"old": 1}), json!({"now": 1}), json!({"now": 1}), json!({"later": 1})];
        assert_eq!(values, (13..).zip(&expected).collect::<Vec<_>>(), "{contract}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_ahead_of_a_start_holds_from_its_block_on() {
    let world = of_chain().await;
    world.write("now", field("now"));
    world.succeed(&["abi", "put", "game", "--block", "12", "now"]).await;
    let call = |num: u32| block(num, 0).acts(&[go("game", u64::from(num) * 10 + 1, 0, ONE)]);
    let blocks = [block(10, 0).account("game", &field("old")), call(11), call(12), call(13)];
    let node = serve(&made::capture(&blocks), ServeOptions::default()).await;
    let yaml = run::config(&[node.url()], &world.redis, "startBlock: 10\npublish: {nativeDeltas: false}");
    run::run(&yaml, &["--stop-block", "13"]).await;
    let events = run::events(&world.redis, &CHAIN).await;
    let data: Vec<&Value> = events.iter().map(|(_, event)| &event["data"]).collect();
    assert_eq!(data, [&json!({"old": 1}), &json!({"now": 1}), &json!({"now": 1})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pruning_keeps_what_anything_can_still_ask_for() {
    let world = of_chain().await;
    let said = world.fail(1, &["abi", "prune"]).await;
    assert!(said.contains("nothing is published"), "{said}");
    let id = made::position(30, 0).id.to_string();
    let _: u64 = world
        .ask(&["HSET", &world.keys.sync, "block_num", "30", "block_id", &id, "last_irreversible", "29"])
        .await;
    let event = |num: u32| {
        json!({"kind": "block", "block_num": num, "block_time": "2024-01-01T00:00:00.000Z"}).to_string()
    };
    for num in [20, 25, 30] {
        let _: String =
            world.ask(&["XADD", &world.keys.events, &format!("{num}-1"), "data", &event(num)]).await;
    }
    let (a, b, c) = (field("a"), field("b"), field("c"));
    let versions = [(1, &a), (5, &b), (9, &a), (12, &c), (15, &c), (20, &a), (25, &b)];
    history(&world, "game", &versions.map(|(num, abi)| (num, member(num, num.into(), abi)))).await;
    history(&world, "still", &[(3, member(3, 3, &a))]).await;
    history(&world, "cached", &[(0, format!("0:{:020}:rpc:{}", 0, STANDARD.encode(&a)))]).await;
    let key = "parser2:abi:game";
    let told = world.json(&["abi", "prune", "--dry-run"]).await;
    assert_eq!((&told["block"], &told["needed"]["block"]), (&json!(20), &json!(20)));
    let removed = &told["contracts"].as_array().expect("contracts")[0];
    assert_eq!(
        (&removed["contract"], &removed["removed"], &removed["kept"]),
        (&json!("game"), &json!(3), &json!(4))
    );
    assert_eq!(world.ask::<u64>(&["ZCARD", key]).await, 7);
    // At the start of block 20 c is in force, set last in block 15; rows can still be in a's layout.
    world.succeed(&["abi", "prune"]).await;
    let scores =
        |members: Vec<(String, f64)>| members.into_iter().map(|(_, score)| score).collect::<Vec<_>>();
    assert_eq!(scores(members(&world, "game").await), [9.0, 15.0, 20.0, 25.0]);
    assert_eq!(scores(members(&world, "still").await), [3.0]);
    assert_eq!(scores(members(&world, "cached").await), [0.0]);

    // Later, with an older dead letter, and with another limit.
    let _: u64 = world.ask(&["XTRIM", &world.keys.events, "MINID", "30-0"]).await;
    let dead = [&world.keys.dead_parser, "16-1", "data", &event(16)];
    let _: String = world.ask(&[&["XADD"], &dead[..]].concat()).await;
    let shown = world.succeed(&["abi", "prune"]).await;
    assert!(shown.contains("block 16 (the oldest block among the dead letters)"), "{shown}");
    assert_eq!(scores(members(&world, "game").await), [9.0, 15.0, 20.0, 25.0]);
    let _: u64 = world.ask(&["XDEL", &world.keys.dead_parser, "16-1"]).await;
    let shown = world.succeed(&["abi-prune", "--contract", "game", "--older-than", "21"]).await;
    assert!(shown.contains("all of block 21 and later stayed"), "{shown}");
    assert_eq!(scores(members(&world, "game").await), [15.0, 20.0, 25.0]);
    world.succeed(&["abi-prune", "--all-contracts", "--older-than", "1000"]).await;
    assert_eq!(scores(members(&world, "game").await), [20.0, 25.0]);
    assert_eq!(scores(members(&world, "still").await), [3.0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pruned_or_not_the_recording_goes_on_the_same() {
    // Half of it is published and trimmed, the history pruned: the rest comes as ever.
    let capture = crate::world::bundled("mixed-100");
    let chain_id = capture.status.chain_id.expect("a chain id");
    let mut rest = Vec::new();
    for prune in [false, true] {
        let node = serve(&capture, ServeOptions::default()).await;
        let world = World::new(TestRedis::start().await, &chain_id, node.url(), "startBlock: first").await;
        run::run(world.yaml(), &["--stop-block", "70"]).await;
        let _: u64 = world.ask(&["XTRIM", &world.keys.events, "MINID", "66-0"]).await;
        let _: u64 = world.ask(&["DEL", &world.keys.dead_parser]).await;
        if prune {
            let pruned = world.json(&["abi", "prune"]).await;
            assert!(!pruned["contracts"].as_array().expect("contracts").is_empty(), "{pruned}");
        }
        run::run(world.yaml(), &["--stop-block", "100"]).await;
        rest.push(run::events(&world.redis, &chain_id).await);
    }
    assert!(rest[0].len() > 500);
    assert!(rest[0] == rest[1], "what was published differs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_names_what_is_wrong() {
    let world = of_chain().await;
    history(&world, "good", &[(5, member(5, 50, &field("a"))), (7, member(7, 70, &field("b")))]).await;
    let fine = world.succeed(&["abi", "check"]).await;
    assert_eq!(fine, "2 versions of 1 contracts looked at.\n");
    history(
        &world,
        "bad",
        &[
            (5, member(5, 50, b"\x0eeosio::abi/2.0")),
            (6, "{\"version\":1}".to_owned()),
            (7, member(8, 80, &field("a"))),
            (9, STANDARD.encode(field("b"))),
            (10, member(10, 100, &field("a"))),
            (10, member(10, 100, &field("b"))),
            (11, member(11, 99, &field("a"))),
        ],
    )
    .await;
    let _: u64 = world.ask(&["ZADD", "parser2:abi:NoName", "1", "x"]).await;
    let called = world.call(&["abi", "check", "--json"]).await;
    assert_eq!(called.status, Some(1), "{called:?}");
    let found: Value = serde_json::from_str(&called.out).expect("JSON");
    let problems: Vec<_> = found["problems"]
        .as_array()
        .expect("problems")
        .iter()
        .map(|p| {
            (
                p["contract"].as_str().expect("text"),
                p["block"].as_u64().expect("a number"),
                p["kind"].as_str().expect("text"),
            )
        })
        .collect();
    assert_eq!(
        problems,
        [
            ("bad", 5, "bad-abi"),
            ("bad", 6, "unreadable"),
            ("bad", 7, "out-of-order"),
            ("bad", 9, "plain"),
            ("bad", 10, "duplicate"),
            ("bad", 11, "out-of-order"),
            ("parser2:abi:NoName", 0, "unreadable"),
        ]
    );
    let shown = world.call(&["abi", "check", "good"]).await;
    assert_eq!((shown.status, shown.err.as_str()), (Some(0), ""), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_version_is_found_by_the_receipts() {
    let world = of_chain().await;
    let abi = field("a");
    let blocks = [
        block(10, 0).acts(&[go("game", 100, 1, ONE), setabi("game", 101, &abi), go("game", 102, 2, ONE)]),
        block(11, 0).acts(&[go("game", 110, 2, ONE), go("other", 111, 5, ONE)]),
        block(12, 0).acts(&[go("game", 120, 4, ONE), go("other", 121, 5, ONE)]),
    ];
    let node = serve(&made::capture(&blocks), ServeOptions::default()).await;
    let yaml = run::config(&[node.url()], &world.redis, "startBlock: 10\npublish: {nativeDeltas: false}");
    run::run(&yaml, &["--stop-block", "12"]).await;
    world.succeed(&["abi", "check"]).await;
    let called = world.call(&["abi", "check", "--stream", "--json"]).await;
    assert_eq!(called.status, Some(1), "{called:?}");
    let found: Value = serde_json::from_str(&called.out).expect("JSON");
    assert_eq!(found["problems"].as_array().map(Vec::len), Some(1), "{found}");
    let gap = &found["problems"][0];
    assert_eq!((&gap["contract"], &gap["block"], &gap["kind"]), (&json!("game"), &json!(12), &json!("gap")));
    assert!(
        gap["message"].as_str().expect("text").contains("counted 2 ABIs between block 11 and block 12"),
        "{gap}"
    );
}
