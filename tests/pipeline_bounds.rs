//! Blocks at the edge of what one transaction holds: data that decodes to many times its size, a fork with
//! large ABIs, a block published in part by other settings.

mod captures;
#[path = "support/made.rs"]
mod made;
#[path = "support/redis.rs"]
mod redis;
#[path = "support/run.rs"]
mod run;

use std::time::Duration;

use captures::serve;
use made::{Act, CHAIN, EXECUTED, abi, block, capture, go, name, setabi, varuint};
use parser::capture::serve::{Faults, ServeOptions};
use redis::TestRedis;
use run::{Parser, config, events, keys, published, sorted_set};
use serde_json::json;

/// `go` has a list of structs without fields: items that take no bytes.
fn abi_of_nothing() -> Vec<u8> {
    let mut out = Vec::new();
    let text = |out: &mut Vec<u8>, text: &str| made::bytes(out, text.as_bytes());
    text(&mut out, "eosio::abi/1.1");
    out.extend([0, 2]);
    text(&mut out, "nothing");
    text(&mut out, "");
    out.push(0);
    text(&mut out, "fields");
    text(&mut out, "");
    out.push(1);
    text(&mut out, "list");
    text(&mut out, "nothing[]");
    out.push(1);
    out.extend(name("go").0.to_le_bytes());
    text(&mut out, "fields");
    text(&mut out, "");
    out.extend([0; 5]);
    out
}

fn list(length: u64) -> Vec<u8> {
    let mut data = Vec::new();
    varuint(&mut data, length);
    data
}

#[tokio::test(flavor = "multi_thread")]
async fn data_that_decodes_to_much_more_is_published_in_order_up_to_a_limit() {
    let mut acts: Vec<Act> = (0..700).map(|i| go("bad", 100 + i, 1, &list(5000))).collect();
    acts.push(go("bad", 800, 1, &list(400_000)));
    let capture = capture(&[
        block(1, 0),
        block(2, 0).acts(&[setabi("bad", 50, &abi_of_nothing())]),
        block(3, 0).transaction(EXECUTED, &acts),
        block(4, 0),
    ]);
    assert!(capture.frames[2].len() < 200_000);
    let node = serve(&capture, ServeOptions::default()).await;
    let redis = TestRedis::start().await;
    run::run(&config(&[node.url()], &redis, "startBlock: 1"), &["--stop-block", "4"]).await;
    let found: Vec<_> =
        events(&redis, &CHAIN).await.into_iter().filter(|(_, event)| event["block_num"] == 3).collect();
    assert_eq!(found.len(), 701);
    let nothings = vec![json!({}); 5000];
    for (i, (id, event)) in found.iter().enumerate() {
        assert_eq!(*id, format!("3-{}", i + 1));
        assert_eq!(event["global_sequence"], (100 + i).to_string());
        if i < 700 {
            assert_eq!(event["data"]["list"].as_array(), Some(&nothings));
        }
    }
    let refused = &found[700].1;
    assert_eq!((&refused["data"], &refused["raw"]), (&json!({}), &json!("80b518")));
    assert_eq!(refused["decode_error"]["reason"], "invalid");
}

/// Small blocks are decoded as they are read, large ones by other threads, and the largest in parts there: none may
/// overtake another.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_of_very_different_size_keep_their_order() {
    let data = |length: usize, fill: u8| {
        let mut data = Vec::new();
        made::bytes(&mut data, &vec![fill; length]);
        data
    };
    let mut blocks = vec![block(1, 0), block(2, 0).acts(&[setabi("data", 1, &abi(&[("b", "bytes")]))])];
    let mut sequence = 1;
    // What is expected: the block, which of its entries, its global sequence, and how many bytes.
    let mut expected = Vec::new();
    for num in 3..=80u32 {
        let lengths = match num % 6 {
            0 => vec![],
            2 => vec![400_000],
            5 => vec![700_000, 10, 700_000],
            _ => vec![1, 2, 3],
        };
        let acts: Vec<Act> = lengths
            .iter()
            .enumerate()
            .map(|(i, &length)| {
                sequence += 1;
                expected.push((num, i + 1, sequence, length));
                go("data", sequence, 1, &data(length, num as u8))
            })
            .collect();
        blocks.push(block(num, 0).acts(&acts));
    }
    let node = serve(&capture(&blocks), ServeOptions::default()).await;
    for ids in ["block", "auto"] {
        let redis = TestRedis::start().await;
        let further = format!("startBlock: 1\nstreamIds: {ids}\nworkerPool: {{maxThreads: 4}}");
        run::run(&config(&[node.url()], &redis, &further), &["--stop-block", "80"]).await;
        let found: Vec<_> = events(&redis, &CHAIN)
            .await
            .into_iter()
            .filter(|(_, event)| event["name"] == "go")
            .map(|(id, event)| {
                let num = event["block_num"].as_u64().expect("a number") as u32;
                let hex = event["data"]["b"].as_str().expect("bytes");
                assert!(hex.as_bytes().chunks(2).all(|digits| digits == format!("{num:02X}").as_bytes()));
                (id, num, event["global_sequence"].as_str().and_then(|s| s.parse().ok()), hex.len() / 2)
            })
            .collect();
        assert_eq!(found.len(), expected.len());
        for ((id, num, sequence, length), (block, entry, global, bytes)) in found.iter().zip(&expected) {
            assert_eq!((num, *sequence, length), (block, Some(*global), bytes));
            if ids == "block" {
                assert_eq!(*id, format!("{block}-{entry}"));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_undone_before_the_large_abis_of_its_block_are_kept() {
    // Bytes behind an ABI's end are allowed.
    let large = [abi(&[("new", "uint8")]), vec![0; 5 << 20]].concat();
    let capture = capture(&[
        block(1, 0),
        block(2, 0),
        block(3, 0).acts(&[setabi("ccc", 30, &abi(&[("old", "uint8")]))]),
        block(3, 1).on(0).acts(&[setabi("ccc", 30, &large), setabi("ddd", 31, &abi(&[("x", "uint8")]))]),
        block(4, 1),
    ]);
    let node = serve(&capture, ServeOptions::default()).await;
    let redis = TestRedis::start().await;
    let nothing_else = "startBlock: 1\nfilters: {include: [{kind: delta, code: nobody}]}";
    run::run(&config(&[node.url()], &redis, nothing_else), &["--stop-block", "4"]).await;
    let kinds: Vec<_> =
        events(&redis, &CHAIN).await.into_iter().map(|(_, event)| event["kind"].clone()).collect();
    assert_eq!(kinds, ["fork"]);
    let keys = keys(&CHAIN);
    for (contract, start) in [("ccc", "3:00000000000000000030:"), ("ddd", "3:00000000000000000031:")] {
        let history = sorted_set(&redis, &keys.abi(name(contract))).await;
        assert_eq!(history.len(), 1, "{contract}");
        assert!(history[0].0.starts_with(start), "{contract}");
    }
    assert!(sorted_set(&redis, &keys.abi(name("ccc"))).await[0].0.len() > 5 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_published_in_part_is_not_gone_on_with_by_other_settings() {
    let capture = capture(&[block(1, 0), block(2, 0), block(3, 0).row("ccc", 1, &[5])]);
    let node = serve(&capture, ServeOptions::default()).await;
    let redis = TestRedis::start().await;
    let config = config(&[node.url()], &redis, "startBlock: 1");
    run::run(&config, &["--stop-block", "3"]).await;
    // As if other filters had counted its first entry.
    let sync = keys(&CHAIN).sync;
    let mut client = redis.client().await;
    let set = ::redis::cmd("HSET").arg((&sync, "part", 1, "part_selection", "0123456789abcdef")).to_owned();
    set.exec_async(&mut client).await.expect("HSET");
    ::redis::cmd("ZREMRANGEBYSCORE")
        .arg((keys(&CHAIN).blocks, 3, 3))
        .exec_async(&mut client)
        .await
        .expect("ZREMRANGEBYSCORE");
    let (status, said) = Parser::start(&config, &[]).ended().await;
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("block 3 was published in part (1 of its entries) with other"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_of_many_accounts_passes_in_bounded_memory() {
    // The first block after a snapshot has a row for each account of the chain, most of them without ABI.
    const ACCOUNTS: u64 = 100_000;
    let mut many = block(2, 0);
    for i in 1..=ACCOUNTS {
        let mut row = vec![0];
        row.extend((i << 4).to_le_bytes());
        row.extend([0; 5]); // creation date, no ABI
        many = many.delta("account", true, row);
    }
    let node = serve(&capture(&[block(1, 0), many, block(3, 0)]), ServeOptions::default()).await;
    let redis = TestRedis::start().await;
    let parser =
        Parser::start(&config(&[node.url()], &redis, "startBlock: 1\nmaxInFlightBytes: 32000000"), &[]);
    published(&redis, &CHAIN, 3).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", parser.id())).expect("a running process");
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).expect("VmHWM");
    let kib: u64 = peak.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    assert!(kib < 160_000, "{kib} KiB");
    let mut client = redis.client().await;
    let entries: u64 =
        ::redis::cmd("XLEN").arg(keys(&CHAIN).events).query_async(&mut client).await.expect("XLEN");
    assert_eq!(entries, ACCOUNTS);
    let name = parser::name::Name(7 << 4);
    let history = sorted_set(&redis, &keys(&CHAIN).abi(name)).await;
    assert_eq!(history, [("2:00000000000000000000:".to_owned(), 2.0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_lost_everything_is_not_begun_anew_in_silence() {
    let blocks: Vec<_> = (1..=200).map(|num| block(num, 0)).collect();
    let faults = Faults { delay: Duration::from_millis(300), ..Faults::default() };
    let node = serve(&capture(&blocks), ServeOptions { faults, ..ServeOptions::default() }).await;
    let redis = TestRedis::start().await;
    let parser = Parser::start(&config(&[node.url()], &redis, "startBlock: 1"), &[]);
    published(&redis, &CHAIN, 3).await;
    ::redis::cmd("FLUSHALL").exec_async(&mut redis.client().await).await.expect("FLUSHALL");
    let (status, said) = parser.ended().await;
    // A service manager that starts it again would begin anew.
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("Redis has no checkpoint any more"), "{said}");
    let left: Vec<String> =
        ::redis::cmd("KEYS").arg("*events").query_async(&mut redis.client().await).await.expect("KEYS");
    assert!(left.is_empty(), "nothing is published behind the gap");

    // It is started again all the same: not to begin with the node's newest block, but with one that is named.
    let (status, said) = Parser::start(&config(&[node.url()], &redis, ""), &[]).ended().await;
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("a parser that ran before had published block"), "{said}");
    let parser = Parser::start(&config(&[node.url()], &redis, ""), &["--start-block", "1"]);
    published(&redis, &CHAIN, 3).await;
    parser.stopped().await;
}

/// What a standby has seen of the other's work it knows, even where it is quicker than the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_noticed_by_a_standby_whoever_writes_next() {
    let blocks: Vec<_> = (1..=9).map(|num| block(num, 0)).collect();
    let node = serve(&capture(&blocks), ServeOptions::default()).await;
    let redis = TestRedis::start().await;
    let first = Parser::start(&config(&[node.url()], &redis, "startBlock: 1\nstopBlock: 9"), &[]);
    assert_eq!(first.ended().await.0, Some(0));
    let start = || Parser::start(&config(&[node.url()], &redis, ""), &[]);
    let mut writes = start();
    writes.says("reading blocks").await;
    let mut stands_by = start();
    stands_by.says("holds the lease").await;
    let client = &mut redis.client().await;
    ::redis::cmd("FLUSHALL").exec_async(client).await.expect("FLUSHALL");
    for parser in [stands_by, writes] {
        let (status, said) = parser.ended().await;
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains("block 9 (") && said.contains("Redis has no checkpoint any more"), "{said}");
    }
    let anew: bool = ::redis::cmd("EXISTS").arg(keys(&CHAIN).sync).query_async(client).await.expect("EXISTS");
    assert!(!anew, "nobody begins with the node's newest block");

    // Another one, elsewhere, that knew nothing of it has begun anew.
    let again = config(&[node.url()], &redis, "startBlock: 1\nstopBlock: 9");
    let first = Parser::start(&again, &["--start-block", "1"]);
    assert_eq!(first.ended().await.0, Some(0));
    let keys = keys(&CHAIN);
    let lease = (&keys.writer, "elsewhere/boot:1:0123456789abcdef", "PX", 100_000);
    ::redis::cmd("SET").arg(lease).exec_async(client).await.expect("SET");
    let mut stands_by = start();
    stands_by.says("holds the lease").await;
    ::redis::cmd("HSET").arg((&keys.sync, "first_block", 30)).exec_async(client).await.expect("HSET");
    let (status, said) = stands_by.ended().await;
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("begun anew with block 30"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_noticed_also_by_a_parser_that_has_published_nothing_itself() {
    let blocks: Vec<_> = (1..=9).map(|num| block(num, 0)).collect();
    let node = serve(&capture(&blocks), ServeOptions::default()).await;
    let redis = TestRedis::start().await;
    let parser = Parser::start(&config(&[node.url()], &redis, "startBlock: 1\nstopBlock: 9"), &[]);
    assert_eq!(parser.ended().await.0, Some(0));
    // At the head there is nothing more to publish.
    let mut parser = Parser::start(&config(&[node.url()], &redis, ""), &[]);
    parser.says("reading blocks").await;
    ::redis::cmd("FLUSHALL").exec_async(&mut redis.client().await).await.expect("FLUSHALL");
    let (status, said) = parser.ended().await;
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("block 9 (") && said.contains("Redis has no checkpoint any more"), "{said}");
}
