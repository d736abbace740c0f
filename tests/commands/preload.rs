//! `parser abi preload`.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parser::capture::serve::{Faults, ServeOptions};
use parser::hex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::captures::serve;
use crate::made::{self, CHAIN, abi, block, go, setabi};
use crate::redis::TestRedis;
use crate::run;
use crate::world::{World, bundled};

const ONE: &[u8] = &[1, 0, 0, 0];

fn field(name: &str) -> Vec<u8> {
    abi(&[(name, "uint32")])
}

fn current(abi: &[u8]) -> (String, f64) {
    (format!("0:{:020}:rpc:{}", 0, STANDARD.encode(abi)), 0.0)
}

fn at_end(block: u32, abi: &[u8]) -> (String, f64) {
    (format!("{block}:18446744073709551615:{}", STANDARD.encode(abi)), f64::from(block))
}

async fn members(world: &World, contract: &str) -> Vec<(String, f64)> {
    world.ask(&["ZRANGE", &format!("parser2:abi:{contract}"), "0", "-1", "WITHSCORES"]).await
}

/// A chain API that knows these accounts.
async fn chain_api(abis: BTreeMap<&'static str, Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = String::new();
            let account = loop {
                let mut bytes = vec![0; 4096];
                let count = socket.read(&mut bytes).await.expect("a request");
                request += std::str::from_utf8(&bytes[..count]).expect("text");
                let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
                if let Ok(body) = serde_json::from_str::<Value>(body) {
                    break body["account_name"].as_str().expect("an account").to_owned();
                }
            };
            let (status, body) = match abis.get(account.as_str()) {
                Some(abi) => (200, json!({"account_name": account, "abi": STANDARD.encode(abi)})),
                None => (
                    400,
                    json!({"code": 400, "error": {"code": 3_060_002, "what": "Account Query Exception", "details": []}}),
                ),
            };
            let body = body.to_string();
            let head =
                format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = socket.write_all((head + &body).as_bytes()).await;
        }
    });
    url
}

/// A world that has published a block with a known contract and one with an unknown one.
async fn published(further: &str) -> World {
    let redis = TestRedis::start().await;
    let blocks = [
        block(10, 0).acts(&[setabi("known", 100, &field("a")), go("known", 101, 1, ONE)]),
        block(11, 0).acts(&[go("unknown", 110, 1, ONE)]),
    ];
    let node = serve(&made::capture(&blocks), ServeOptions::default()).await;
    let world = World::new(redis, &CHAIN, node.url(), &format!("startBlock: 10\n{further}")).await;
    let plain = run::config(&[node.url()], &world.redis, "startBlock: 10\npublish: {nativeDeltas: false}");
    run::run(&plain, &["--stop-block", "11"]).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chain_api_fills_in_what_has_no_history() {
    let api = chain_api(BTreeMap::from([
        ("eosio", field("s")),
        ("known", field("now")),
        ("unknown", field("b")),
        ("none", Vec::new()),
    ]))
    .await;
    let world = published(&format!("chain: {{url: '{api}'}}")).await;
    let before = members(&world, "known").await;
    let done = world.json(&["abi", "preload", "--seen"]).await;
    assert_eq!((&done["added"], &done["failed"]), (&json!(2), &json!(0)), "{done}");
    assert_eq!(members(&world, "unknown").await, [current(&field("b"))]);
    assert_eq!(members(&world, "known").await, before, "what was learned from blocks stays alone");
    assert_eq!(world.ask::<String>(&["GET", "parser2:abi-edits"]).await, "1");

    let called = world.call(&["abi", "preload", "none", "nobody", "unknown"]).await;
    assert_eq!(called.status, Some(1), "{called:?}");
    assert!(called.err.contains("nobody: the chain has no such account"), "{called:?}");
    assert!(called.out.contains("1 ABIs added, 1 known already, 1 failed"), "{called:?}");
    assert_eq!(members(&world, "none").await, [current(&[])]);

    let newer = chain_api(BTreeMap::from([("known", field("now")), ("unknown", field("c"))])).await;
    world.write("newer.yaml", world.yaml().replace(&api, &newer));
    for (words, expected) in [(&["unknown", "known"][..], "b"), (&["unknown", "known", "--replace"], "c")] {
        let words = [&["abi", "preload"], words, &["--config", "newer.yaml"]].concat();
        let called = world.call_with(&words, "").await;
        assert_eq!(called.status, Some(0), "{called:?}");
        assert_eq!(members(&world, "unknown").await, [current(&field(expected))]);
        assert_eq!(members(&world, "known").await, before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_chain_api_or_source_the_call_is_wrong() {
    let world = published("").await;
    let said = world.fail(2, &["abi", "preload", "unknown"]).await;
    assert!(said.contains("chain.url"), "{said}");
    world.fail(2, &["abi", "preload"]).await;
    world.fail(2, &["abi", "preload", "unknown", "--seen"]).await;
    world.fail(2, &["abi", "preload", "--ship", "--from", "3"]).await;
    world.fail(2, &["abi", "preload", "--ship", "--from", "3", "--to", "2"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_gives_an_abi_a_file() {
    let world = published("").await;
    let folder = world.path("abis");
    std::fs::create_dir(&folder).expect("a folder");
    let write = |name: &str, contents: &[u8]| std::fs::write(folder.join(name), contents).expect("written");
    write("one.abi", &field("a"));
    write("two.hex", hex::lower(&field("b")).as_bytes());
    write(
        "three.json",
        br#"{"version": "eosio::abi/1.1", "structs": [{"name": "s", "base": "", "fields": []}]}"#,
    );
    write("known.abi", &field("other"));
    write("README.md", b"not one of them");
    let done = world.json(&["abi", "preload", "--directory", "abis"]).await;
    assert_eq!(done, json!({"added": 3, "known": 1, "contradicting": 0, "failed": 0}));
    assert_eq!(members(&world, "one").await, [current(&field("a"))]);
    assert_eq!(members(&world, "two").await, [current(&field("b"))]);
    assert_eq!(world.json(&["abi", "show", "three"]).await["abi"]["structs"][0]["name"], "s");
    write("four.abi", b"garbage");
    write("No.Name.abi", &field("a"));
    let called = world.call(&["abi", "preload", "--directory", "abis"]).await;
    assert_eq!(called.status, Some(1), "{called:?}");
    assert!(called.err.contains("four.abi: no ABI that can be used"), "{called:?}");
    assert!(called.err.contains("No.Name.abi") && called.out.contains("2 failed"), "{called:?}");
    let said = world.fail(1, &["abi", "preload", "--directory", "nowhere"]).await;
    assert!(said.contains("nowhere"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_give_versions_with_blocks() {
    let world = published("").await;
    let known = members(&world, "known").await;
    let line = |account: &str, block: u32, abi: &[u8]| {
        json!({"account": account, "block": block, "abi_hex": hex::lower(abi)}).to_string()
    };
    let shape = json!({"version": "eosio::abi/1.1", "structs": [{"name": "s", "base": "", "fields": []}]});
    let input = [
        line("game", 3, &field("a")),
        line("game", 5, &field("b")),
        // The same again says nothing new, a block the parser has read itself is known better.
        line("game", 6, &field("b")),
        line("known", 10, &field("a")),
        line("known", 11, &field("other")),
        String::new(),
        json!({"account": "shaped", "block": 4, "abi": shape}).to_string(),
        json!({"account": "shaped", "block": 5, "abi": shape.to_string()}).to_string(),
        json!({"account": "shaped", "block": 6, "abi": STANDARD.encode(field("c"))}).to_string(),
        json!({"account": "gone", "block": 6, "abi": null, "abi_hex": ""}).to_string(),
        "{\"account\": \"game\"}".to_owned(),
        "not JSON".to_owned(),
    ]
    .join("\n");
    let called = world
        .call_with(&["abi", "preload", "--ndjson", "-", "--json", "--config", "parser.yaml"], &input)
        .await;
    assert_eq!(called.status, Some(1), "{called:?}");
    let done: Value = serde_json::from_str(&called.out).expect("JSON");
    assert_eq!(done, json!({"added": 5, "known": 3, "contradicting": 1, "failed": 2}), "{called:?}");
    for part in ["line 5: known: the parser has read block 11 itself", "line 11: ", "line 12: "] {
        assert!(called.err.contains(part), "{called:?}");
    }
    assert_eq!(members(&world, "game").await, [at_end(3, &field("a")), at_end(5, &field("b"))]);
    assert_eq!(members(&world, "known").await, known);
    assert_eq!(members(&world, "gone").await, [at_end(6, &[])]);
    assert_eq!(members(&world, "shaped").await.len(), 2);
}

/// Of each account that ABI, and how often it changed, as the parser learns them from all that the blocks hold.
async fn learned(world: &World) -> BTreeMap<String, Vec<String>> {
    let mut learned = BTreeMap::new();
    for key in world.ask::<Vec<String>>(&["KEYS", "parser2:abi:*"]).await {
        let members: Vec<String> = world.ask(&["ZRANGE", &key, "0", "-1"]).await;
        // What a block leaves behind: its last version, and that only where it says something new.
        let mut ends: Vec<(String, String)> = Vec::new();
        for member in members {
            let mut parts = member.splitn(3, ':').map(str::to_owned);
            let (block, abi) = (parts.next().expect("a block"), parts.nth(1).expect("an ABI"));
            match ends.last_mut() {
                Some(last) if last.0 == block => last.1 = abi,
                _ => ends.push((block, abi)),
            }
        }
        ends.dedup_by(|later, earlier| later.1 == earlier.1);
        learned.insert(key, ends.into_iter().map(|(block, abi)| format!("{block} {abi}")).collect());
    }
    learned
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nodes_account_rows_tell_what_its_blocks_tell() {
    let (published, _node) = World::mixed("").await;
    let expected = learned(&published).await;
    let capture = bundled("mixed-100");
    let chain_id = capture.status.chain_id.expect("a chain id");
    let node = serve(&capture, ServeOptions::default()).await;
    let world = World::new(TestRedis::start().await, &chain_id, node.url(), "").await;
    let last = 96; // the last irreversible one
    let called = world.call(&["abi", "preload", "--ship", "--from", "1", "--to", "96"]).await;
    assert_eq!(called.status, Some(0), "{called:?}");
    let found = learned(&world).await;
    let by_then = |versions: &Vec<String>| -> Vec<String> {
        let num = |version: &String| version.split(' ').next().and_then(|num| num.parse::<u32>().ok());
        versions.iter().filter(|version| num(version).is_some_and(|num| num <= last)).cloned().collect()
    };
    for (key, versions) in &expected {
        assert_eq!(found.get(key).map(by_then), Some(by_then(versions)), "{key}");
    }
    assert_eq!(world.ask::<String>(&["GET", "parser2:chain"]).await, chain_id.to_string());
    assert_eq!(world.ask::<u64>(&["EXISTS", &world.keys.abi_preload]).await, 0);
    // Again: all is known.
    let again = world.json(&["abi", "preload", "--ship", "--from", "1", "--to", "96"]).await;
    assert_eq!(again["added"], 0, "{again}");
    let said = world.fail(1, &["abi", "preload", "--ship", "--from", "1", "--to", "5000"]).await;
    assert!(said.contains("blocks 1 to"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_range_is_gone_on_with() {
    let capture = bundled("mixed-100");
    let chain_id = capture.status.chain_id.expect("a chain id");
    // The node goes away for good after some blocks.
    let faults = Faults { drop_after_frames: Some(40), ..Faults::default() };
    let node = serve(&capture, ServeOptions { faults, ..ServeOptions::default() }).await;
    let world = World::new(TestRedis::start().await, &chain_id, node.url(), "").await;
    let words = ["abi", "preload", "--ship", "--from", "1", "--to", "96"];
    let called = world.call(&words).await;
    // It comes again as long as the node lets it.
    assert_eq!(called.status, Some(0), "{called:?}");
    assert!(called.err.contains("reading goes on"), "{called:?}");
    let whole = learned(&world).await;

    let _: () = world.ask(&["FLUSHALL"]).await;
    let place = ["HSET", &world.keys.abi_preload, "from", "1", "to", "96", "next", "60"];
    let _: u64 = world.ask(&place).await;
    let called = world.call(&words).await;
    assert_eq!(called.status, Some(0), "{called:?}");
    assert!(called.err.contains("going on where an earlier call"), "{called:?}");
    let rest = learned(&world).await;
    assert!(!rest.is_empty() && rest.len() < whole.len(), "only blocks 60 to 96 were read");
}
