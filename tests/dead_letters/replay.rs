//! `parser dead-letters replay`

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::made::{Act, CHAIN, Made, abi, abi_with_result, block, go, name, position, setabi};
use crate::run::{entries, events, keys, published};
use crate::stage::{FROM_10, Stage};

const ONE: &[u8] = &[1, 0, 0, 0];
const REPLAYED: &str = ",\"replayed\":true}";

/// Blocks 10 to 12 with data of a contract whose ABI is not known: actions, with and without something returned, what is too
/// long, and rows, some of them in the layout of the ABI before.
fn unknown() -> Vec<Made> {
    let returning = |sequence: u64, bytes: &[u8]| Act {
        return_value: bytes.to_vec(),
        ..go("stranger", sequence, 0, ONE)
    };
    vec![
        block(10, 0).acts(&[
            go("stranger", 100, 0, ONE),
            returning(101, &[7, 0, 0, 0]),
            returning(102, &[7]),
        ]),
        block(11, 0)
            .acts(&[
                go("stranger", 110, 0, &[1, 0, 0, 0, 9]),
                Act { receiver: name("other"), ..go("stranger", 111, 0, ONE) },
            ])
            .row("stranger", 1, &[5])
            .scoped_row("stranger", "a", 2, &[6, 0, 0, 0], false),
        block(12, 0).acts(&[go("stranger", 120, 0, ONE)]),
    ]
}

/// The ABIs of that contract, both set before.
fn abis() -> [(u32, Vec<u8>); 2] {
    [(8, abi(&[("old", "uint8")])), (9, abi_with_result(&[("a", "uint32")], "uint32"))]
}

impl Stage {
    async fn put_abis(&self) {
        for (num, abi) in abis() {
            self.put_abi(name("stranger"), num, &abi).await;
        }
    }

    /// The stream's entries as they are: id and JSON.
    async fn texts(&self) -> Vec<(String, String)> {
        let all = entries(&mut self.client().await, &keys(&CHAIN).events).await;
        all.into_iter().map(|(id, mut fields)| (id, fields.remove(0).1)).collect()
    }

    /// The letters there are, and the counters.
    async fn letters(&self) -> (usize, HashMap<String, String>) {
        let mut client = self.client().await;
        let letters = entries(&mut client, &keys(&CHAIN).dead_parser).await.len();
        let counters = redis::cmd("HGETALL")
            .arg(keys(&CHAIN).failures("parser"))
            .query_async(&mut client)
            .await
            .expect("HGETALL");
        (letters, counters)
    }

    /// Everything in Redis.
    async fn digest(&self) -> String {
        redis::cmd("DEBUG").arg("DIGEST").query_async(&mut self.client().await).await.expect("DEBUG DIGEST")
    }

    async fn replay(&self, arguments: &[&str]) -> Value {
        let arguments = [&["dead-letters", "replay", "--json"], arguments].concat();
        serde_json::from_str(&self.run(&arguments).await.done()).expect("JSON")
    }

    /// What the parser writes where it knows the ABIs from the start, by event id.
    async fn written(blocks: &[Made], further: &str) -> HashMap<String, String> {
        let stage = Stage::new(blocks, further).await;
        stage.put_abis().await;
        stage.publish().await;
        let event = |(_, text): (String, String)| {
            let event: Value = serde_json::from_str(&text).expect("JSON");
            (event["event_id"].as_str().expect("an id").to_owned(), text)
        };
        stage.texts().await.into_iter().map(event).collect()
    }
}

/// Checks that the stream ends with all those events, as they would have been written with the ABIs known.
fn assert_replayed(all: &[(String, String)], from: usize, written: &HashMap<String, String>) {
    assert_eq!(all.len() - from, written.len());
    for (id, text) in &all[from..] {
        let event: Value = serde_json::from_str(text).expect("JSON");
        let written = &written[event["event_id"].as_str().expect("an id")];
        let expected = format!("{}{REPLAYED}", &written[..written.len() - 1]);
        assert_eq!(text, &expected, "{id}");
    }
}

#[tokio::test]
async fn letters_are_published_as_if_their_abi_had_been_known_by_command_or_parser() {
    let written = Stage::written(&unknown(), FROM_10).await;
    assert_eq!(written.len(), 8);
    // What is expected is worth something.
    let all: Vec<Value> = written.values().map(|text| serde_json::from_str(text).expect("JSON")).collect();
    assert!(all.iter().all(|event| event.get("decode_error").is_none()));
    for field in ["return_value", "return_value_raw", "trailing", "abi_block"] {
        assert!(all.iter().any(|event| event.get(field).is_some()), "{field}");
    }
    for running in [false, true] {
        for ids in ["block", "auto"] {
            let stage = Stage::new(&unknown(), &format!("{FROM_10}\nstreamIds: {ids}")).await;
            let mut parser = None;
            if running {
                parser = Some(stage.parser());
                stage.published().await;
            } else {
                stage.publish().await;
            }
            let before = stage.texts().await;
            assert_eq!((before.len(), stage.letters().await.0), (8, 8));

            // Without its ABI nothing changes.
            let digest = stage.digest().await;
            if !running {
                let tally = stage.replay(&["--all", "--dry-run"]).await;
                assert_eq!((&tally["letters"], &tally["decoded"]), (&json!(8), &json!(0)));
                assert_eq!(stage.digest().await, digest);
            }
            let tally = stage.replay(&["--all"]).await;
            assert_eq!(
                (&tally["published"], &tally["still"][0]["reason"]),
                (&json!(0), &json!("abi_unknown"))
            );
            assert_eq!(stage.letters().await.0, 8);

            stage.put_abis().await;
            if !running {
                let digest = stage.digest().await;
                let tally = stage.replay(&["--all", "--dry-run"]).await;
                assert_eq!((&tally["letters"], &tally["decoded"]), (&json!(8), &json!(8)));
                assert_eq!(stage.digest().await, digest);
            }
            let tally = stage.replay(&["--all"]).await;
            assert_eq!((&tally["published"], &tally["unpublished"]), (&json!(8), &json!(0)), "{tally}");
            let after = stage.texts().await;
            assert_eq!(after[..8], before);
            assert_replayed(&after, 8, &written);
            let (left, counters) = stage.letters().await;
            assert_eq!((left, counters), (0, HashMap::new()));
            if ids == "block" {
                let numbers: Vec<&str> = after[7..].iter().map(|(id, _)| id.as_str()).collect();
                assert_eq!(numbers, ["12-1", "12-2", "12-3", "12-4", "12-5", "12-6", "12-7", "12-8", "12-9"]);
            }
            let report = stage.run(&["verify", "--json"]).await.done();
            let report: Value = serde_json::from_str(&report).expect("JSON");
            assert_eq!((&report["replayed"], &report["blocks"]), (&json!(8), &json!(3)));
            let again = stage.replay(&["--all"]).await;
            assert_eq!(again["letters"], 0);
            if let Some(parser) = parser {
                parser.stopped().await;
            }
            // Nothing is in the way of the next one.
            published(&stage.redis, &CHAIN, 12).await;
        }
    }
}

#[tokio::test]
async fn one_letter_or_some_are_replayed() {
    let stage = Stage::new(&unknown(), FROM_10).await;
    stage.publish().await;
    stage.put_abis().await;
    let none = stage.run(&["dead-letters", "replay"]).await.failed(2);
    assert!(none.contains("which dead letters?"), "{none}");
    let both = stage.run(&["dead-letters", "replay", "--all", "--from", "7"]).await.failed(2);
    assert!(both.contains("--all"), "{both}");
    let missing = stage.run(&["dead-letters", "replay", "10-9"]).await.failed(1);
    assert!(missing.contains("no dead letter `10-9`"), "{missing}");

    assert_eq!(stage.replay(&["10-2"]).await["published"], 1);
    assert_eq!(stage.letters().await.0, 7);
    let (_, counters) = stage.letters().await;
    let event_id = counters.keys().find(|id| id.ends_with(":120")).expect("a counter");
    assert_eq!(stage.replay(&[event_id]).await["published"], 1);
    assert_eq!(stage.replay(&["--from", "11", "--contract", "stranger"]).await["published"], 4);
    assert_eq!(stage.replay(&["--reason", "bad_abi"]).await["letters"], 0);
    let text = stage.run(&["dead-letters", "replay", "--all"]).await.done();
    assert_eq!(text, "2 of 2 dead letters are published\n");
    assert_eq!(events(&stage.redis, &CHAIN).await.len(), 16);
}

#[tokio::test]
async fn what_still_fails_stays_and_what_the_configuration_leaves_out_is_left() {
    let known = abi(&[("a", "uint32")]);
    let blocks = [
        block(10, 0).acts(&[setabi("game", 100, &known), go("game", 101, 1, &[1]), go("game", 102, 1, &[2])]),
        block(11, 0).acts(&[go("stranger", 110, 0, ONE), go("shop", 111, 0, ONE)]),
    ];
    let stage = Stage::new(&blocks, FROM_10).await;
    stage.publish().await;
    stage.put_abis().await;
    stage.put_abi(name("shop"), 9, &known).await;
    let yaml = stage.yaml().replace("account: eosio}", "account: eosio}, {kind: action, account: shop}");
    let ended = stage.run_with(&yaml, &["dead-letters", "replay", "--all"]).await.done();
    assert_eq!(
        ended,
        "1 of 4 dead letters are published\n1 are such as the configuration does not publish\n2 cannot be decoded now \
         either:\nreason     contract  letters\ntruncated  game            2\n"
    );
    assert_eq!(stage.letters().await.0, 3);
    // An override reads what the chain's own ABI does not.
    let file = stage.file("game.abi", &abi(&[("a", "uint8")]));
    let yaml =
        format!("{}abi: {{overrides: [{{contract: game, fromBlock: 1, file: '{file}'}}]}}\n", stage.yaml());
    let one = stage.run_with(&yaml, &["dead-letters", "replay", "10-2"]).await.done();
    assert_eq!(one, "1 of 1 dead letters are published\n");
    let not = stage.run(&["dead-letters", "replay", "10-1"]).await;
    assert!(not.failed(1).contains("not all of these"));
}

#[tokio::test]
async fn letters_of_a_block_that_a_fork_has_undone_are_not_published() {
    let blocks = [
        block(10, 0).acts(&[go("stranger", 100, 0, ONE)]),
        block(11, 0).acts(&[go("stranger", 110, 0, ONE)]),
        block(12, 0).acts(&[go("stranger", 120, 0, ONE)]),
        // In place of 11 and 12; then 11 comes back.
        block(11, 1).on(0).acts(&[go("stranger", 111, 0, ONE)]),
        block(12, 1).acts(&[go("stranger", 121, 0, ONE)]),
        block(11, 0).acts(&[go("stranger", 110, 0, ONE)]),
        block(12, 2).on(0).acts(&[go("stranger", 122, 0, ONE)]),
        block(13, 2).acts(&[go("stranger", 130, 0, ONE)]),
        block(14, 2).acts(&[go("stranger", 140, 0, ONE)]).irreversible(13),
    ];
    for running in [false, true] {
        let stage = Stage::new(&blocks, FROM_10).await;
        let parser = stage.parser();
        stage.published().await;
        if !running {
            parser.signal("TERM");
        }
        stage.put_abis().await;
        let tally = stage.replay(&["--all"]).await;
        assert_eq!(
            (&tally["letters"], &tally["published"], &tally["undone"]),
            (&json!(9), &json!(5), &json!(4))
        );
        let all = events(&stage.redis, &CHAIN).await;
        let replayed: Vec<&str> = all
            .iter()
            .filter(|(_, event)| event["replayed"] == true)
            .map(|(_, event)| event["global_sequence"].as_str().expect("a number"))
            .collect();
        assert_eq!(replayed, ["100", "110", "122", "130", "140"]);
        let id = |num: u32, branch: u8| position(num, branch).id.to_string();
        assert!(all.iter().all(|(_, event)| event["replayed"] != true || event["block_id"] != id(12, 0)));
        stage.run(&["verify"]).await.done();
        assert_eq!(stage.letters().await.0, 4);
        let shown = stage.run(&["dead-letters", "show", "12-1", "--json"]).await.done();
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(shown["now"]["result"], "undone");
    }
}

#[tokio::test]
async fn a_consumers_letters_are_published_as_they_are() {
    let known = abi(&[("a", "uint32")]);
    let blocks = [block(10, 0).acts(&[setabi("game", 100, &known), go("game", 101, 1, ONE)])];
    let stage = Stage::new(&blocks, FROM_10).await;
    stage.publish().await;
    let event = stage.texts().await[0].1.clone();
    let mut client = stage.client().await;
    let (dead, failures) = (keys(&CHAIN).dead("web"), keys(&CHAIN).failures("web"));
    let event_id =
        serde_json::from_str::<Value>(&event).expect("JSON")["event_id"].as_str().expect("an id").to_owned();
    let fork = format!(
        r#"{{"kind":"fork","event_id":"{CHAIN}:f:9:00","chain_id":"{CHAIN}","forked_from_block":9}}"#
    );
    for data in [event.as_str(), "garbage", &fork] {
        redis::cmd("XADD")
            .arg((&dead, "*", "data", data, "failureCount", 3, "lastError", "no luck", "subId", "web"))
            .exec_async(&mut client)
            .await
            .expect("XADD");
    }
    redis::cmd("HSET").arg((&failures, &event_id, 3)).exec_async(&mut client).await.expect("HSET");
    let listed = stage.run(&["dead-letters", "list", "--all-subs", "--json"]).await.lines();
    let found: Vec<_> = listed.iter().map(|line| (&line["sub"], &line["contract"], &line["error"])).collect();
    assert_eq!(found[0], (&json!("web"), &json!("game"), &json!("no luck")));
    assert_eq!(found.len(), 3);

    let tally = stage.replay(&["--sub", "web", "--all"]).await;
    assert_eq!((&tally["published"], &tally["unfit"]), (&json!(1), &json!(2)), "{tally}");
    let texts = stage.texts().await;
    assert_eq!(texts[1], ("10-2".to_owned(), format!("{}{REPLAYED}", &event[..event.len() - 1])));
    let left: (usize, usize) = redis::pipe()
        .cmd("XLEN")
        .arg(&dead)
        .cmd("HLEN")
        .arg(&failures)
        .query_async(&mut client)
        .await
        .expect("XLEN");
    assert_eq!(left, (2, 0));
}

#[tokio::test]
async fn nothing_comes_between_the_parts_of_a_block() {
    let stage = Stage::new(&unknown(), FROM_10).await;
    stage.publish().await;
    stage.put_abis().await;
    let mut client = stage.client().await;
    redis::cmd("HSET").arg((&keys(&CHAIN).sync, "part", 1)).exec_async(&mut client).await.expect("HSET");
    let refused = stage.run(&["dead-letters", "replay", "--all"]).await.failed(1);
    assert!(refused.contains("block 12 is published only in part"), "{refused}");
    assert_eq!(stage.texts().await.len(), 8);
    let lease: Option<String> =
        redis::cmd("GET").arg(&keys(&CHAIN).writer).query_async(&mut client).await.expect("GET");
    assert_eq!(lease, None);
}

#[tokio::test]
async fn letters_are_removed_when_asked_twice() {
    let stage = Stage::new(&unknown(), FROM_10).await;
    stage.publish().await;
    let purge =
        async |arguments: &[&str]| stage.run(&[&["dead-letters", "purge"], arguments].concat()).await.done();
    let digest = stage.digest().await;
    assert_eq!(
        purge(&["--older-than-block", "11"]).await,
        "3 dead letters of `parser` would be removed (nothing was changed); --yes removes them\n"
    );
    assert_eq!(stage.digest().await, digest);
    assert_eq!(
        purge(&["--older-than-block", "11", "--yes"]).await,
        "3 dead letters of `parser` are removed\n"
    );
    let (left, counters) = stage.letters().await;
    assert_eq!((left, counters.len()), (5, 5));
    assert_eq!(purge(&["12-1", "--yes"]).await, "1 dead letters of `parser` are removed\n");
    assert_eq!(purge(&["--all", "--yes"]).await, "4 dead letters of `parser` are removed\n");
    assert_eq!(stage.letters().await, (0, HashMap::new()));
    assert_eq!(purge(&["--all", "--yes"]).await, "`parser` has no such dead letters\n");
    stage.run(&["dead-letters", "purge", "--yes"]).await.failed(2);
    // The parser can go on behind it.
    stage.publish().await;
}

#[tokio::test]
async fn rows_of_the_nodes_own_tables_stay_and_it_is_said_why() {
    // A permission that ends behind its name.
    let mut row = vec![0];
    row.extend(name("alice").0.to_le_bytes());
    row.extend(name("active").0.to_le_bytes());
    let blocks = [block(10, 0).delta("permission", true, row).acts(&[go("stranger", 100, 0, ONE)])];
    let stage = Stage::new(&blocks, FROM_10).await;
    stage.publish().await;
    stage.put_abis().await;
    let tally = stage.replay(&["--all"]).await;
    assert_eq!(tally["published"], 1, "{tally}");
    assert_eq!((&tally["native"], &tally["still"]), (&json!(1), &json!([])), "{tally}");
    let (letters, _) = stage.letters().await;
    assert_eq!(letters, 1);
    let listed = stage.run(&["dead-letters", "list", "--json"]).await.lines();
    let id = listed[0]["id"].as_str().expect("an id");
    assert_eq!((&listed[0]["kind"], &listed[0]["reason"]), (&json!("native-delta"), &json!("truncated")));
    let shown: Value =
        serde_json::from_str(&stage.run(&["dead-letters", "show", id, "--json"]).await.done()).expect("JSON");
    assert_eq!(shown["now"]["result"], "native");
    // Named by its id it is a failure, and the way out is named.
    let ended = stage.run(&["dead-letters", "replay", id]).await;
    assert!(ended.out.contains("dead-letters purge"), "{}", ended.out);
    ended.failed(1);
    stage.run(&["dead-letters", "purge", id, "--yes"]).await.done();
    assert_eq!(stage.letters().await.0, 0);
}
