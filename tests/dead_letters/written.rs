//! What the parser writes.

use std::collections::HashMap;

use crate::made::{self, CHAIN, abi, block, go, position, setabi};
use crate::node::ScriptedNode;
use crate::redis::TestRedis;
use crate::run::{Parser, config, entries, events, keys, published};

const FROM_10: &str = "startBlock: 10\nfilters: {exclude: [{kind: action, account: eosio}]}";
const ONE: &[u8] = &[1, 0, 0, 0];

#[tokio::test]
async fn what_could_not_be_decoded_is_a_dead_letter_under_its_events_id() {
    let known = abi(&[("a", "uint32")]);
    let blocks = [
        block(10, 0).acts(&[
            setabi("game", 100, &known),
            go("game", 101, 1, &[1]),
            go("game", 102, 1, ONE),
            setabi("bare", 103, &[]),
            go("bare", 104, 1, ONE),
            setabi("bad", 105, b"garbage"),
            go("bad", 106, 1, ONE),
        ]),
        block(11, 0)
            .acts(&[
                made::Act { name: made::name("other"), ..go("game", 110, 1, &[]) },
                go("stranger", 111, 0, ONE),
            ])
            .row("game", 1, &[9]),
        // A branch in place of that: the letters of the lost one stay, like its events.
        block(11, 1).on(0).acts(&[go("game", 112, 1, &[2])]),
    ];
    for (further, no_abi) in [("", false), ("publish: {noAbiDeadLetters: true}", true)] {
        let redis = TestRedis::start().await;
        let protocol = made::protocol();
        let frames = blocks.iter().map(|made| made.frame(&protocol)).collect();
        let served = ScriptedNode::start(position(11, 0), vec![frames]).await;
        let parser = Parser::start(&config(&[served.url()], &redis, &format!("{FROM_10}\n{further}")), &[]);
        served.until(|node| node.counts().1 == 3).await;
        published(&redis, &CHAIN, 11).await;
        parser.stopped().await;

        let mut client = redis.client().await;
        let letters = entries(&mut client, &keys(&CHAIN).dead_parser).await;
        let raw: HashMap<String, Vec<(String, String)>> =
            entries(&mut client, &keys(&CHAIN).events).await.into_iter().collect();
        let mut found = Vec::new();
        for (id, fields) in &letters {
            let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(
                names,
                [
                    "data",
                    "failureCount",
                    "lastError",
                    "subId",
                    "reason",
                    "contract",
                    "type",
                    "raw",
                    "abi_block"
                ]
            );
            let field: HashMap<&str, &str> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            assert_eq!(field["data"], raw[id][0].1, "its event, byte for byte, under the same id");
            assert_eq!((field["failureCount"], field["subId"]), ("1", "parser"));
            let event: serde_json::Value = serde_json::from_str(field["data"]).expect("JSON");
            assert_eq!(event["decode_error"]["reason"], field["reason"]);
            assert_eq!(event["decode_error"]["message"], field["lastError"]);
            assert_eq!(event["raw"], field["raw"]);
            found.push(["reason", "contract", "type", "raw", "abi_block"].map(|name| field[name].to_owned()));
            // Counted once.
            let event_id = event["event_id"].as_str().expect("an id");
            let counter = keys(&CHAIN).failures("parser");
            let count: String =
                ::redis::cmd("HGET").arg((&counter, event_id)).query_async(&mut client).await.expect("HGET");
            assert_eq!(count, "1");
        }
        let mut expected = vec![
            ["truncated", "game", "fields", "01", "10"],
            ["no_abi", "bare", "", "01000000", "10"],
            ["bad_abi", "bad", "", "01000000", "10"],
            ["unknown_type", "game", "", "", "10"],
            ["abi_unknown", "stranger", "", "01000000", ""],
            ["truncated", "game", "fields", "09", "10"],
            ["truncated", "game", "fields", "02", "10"],
        ];
        if !no_abi {
            expected.remove(1);
        }
        assert_eq!(found, expected);
        let counter = keys(&CHAIN).failures("parser");
        let (count, ttl): (usize, i64) = ::redis::pipe()
            .cmd("HLEN")
            .arg(&counter)
            .cmd("TTL")
            .arg(&counter)
            .query_async(&mut client)
            .await
            .expect("HLEN, TTL");
        assert_eq!(count, expected.len());
        assert!((86_300..=86_400).contains(&ttl), "{ttl}");
        // The data of a contract without ABI is marked in its event in any case.
        let all = events(&redis, &CHAIN).await;
        let marked = all.iter().filter(|(_, event)| event["decode_error"]["reason"] == "no_abi").count();
        assert_eq!(marked, 1);
    }
}
