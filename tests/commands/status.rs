//! `parser status`.

use serde_json::json;

use crate::captures::id;
use crate::made::CHAIN;
use crate::run::Parser;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn all_that_redis_knows() {
    let (world, _node) = World::mixed("").await;
    let events = &world.keys.events;
    let _: String = world.ask(&["XGROUP", "CREATE", events, "web", "0"]).await;
    let _: String = world.ask(&["XGROUP", "CREATE", events, "search", "90-0"]).await;
    let _: ::redis::Value =
        world.ask(&["XREADGROUP", "GROUP", "web", "c1", "COUNT", "40", "STREAMS", events, ">"]).await;
    // What was trimmed is neither counted as lag nor lost as pending.
    let _: u64 = world.ask(&["XTRIM", events, "MINID", "10-0"]).await;

    let status = world.json(&["status"]).await;
    let length: u64 = world.ask(&["XLEN", events]).await;
    let first: Vec<(String, Vec<(String, String)>)> =
        world.ask(&["XRANGE", events, "-", "+", "COUNT", "1"]).await;
    let first: serde_json::Value = serde_json::from_str(&first[0].1[0].1).expect("an event");
    assert_eq!(
        (&status["stream"]["entries"], &status["stream"]["first_block"], &status["stream"]["last_block"]),
        (&json!(length), &first["block_num"], &json!(100))
    );
    // The block's time in the recording's notes: half a second a block.
    assert_eq!(status["checkpoint"]["block_num"], 100);
    assert_eq!(status["checkpoint"]["first_block"], 1);
    assert_eq!(status["checkpoint"]["last_irreversible"], 96);
    assert_eq!((&status["parser"], &status["state"]), (&json!(null), &json!(null)));
    let groups = status["groups"].as_array().expect("groups");
    assert_eq!(groups.len(), 2);
    assert_eq!((&groups[0]["name"], &groups[0]["lag_blocks"]), (&json!("search"), &json!(11)));
    assert_eq!((&groups[0]["pending"], &groups[0]["idle_ms"]), (&json!(0), &json!(null)));
    assert_eq!((&groups[1]["name"], &groups[1]["consumers"]), (&json!("web"), &json!(1)));
    assert_eq!((&groups[1]["pending"], &groups[1]["oldest_pending_block"]), (&json!(40), &json!(1)));
    let reasons = status["dead_letters"]["by_reason"].as_object().expect("reasons");
    let sum: u64 = reasons.values().map(|count| count.as_u64().expect("a number")).sum();
    let letters: u64 = world.ask(&["XLEN", &world.keys.dead_parser]).await;
    assert_eq!((sum, status["dead_letters"]["entries"].as_u64()), (letters, Some(letters)));
    let histories: Vec<String> = world.ask(&["KEYS", "parser2:abi:*"]).await;
    let mut versions = 0;
    for key in &histories {
        versions += world.ask::<u64>(&["ZCARD", key]).await;
    }
    let history = &status["abi_history"];
    assert_eq!(
        (&history["contracts"], &history["versions"], &history["complete"]),
        (&json!(histories.len()), &json!(versions), &json!(true))
    );

    let shown = world.succeed(&["status"]).await;
    for part in ["parser        none is running", "block 100, irreversible 96", "web "] {
        assert!(shown.contains(part), "{shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_parser_is_named() {
    let (world, _node) = World::mixed("").await;
    let mut parser = Parser::start(world.yaml(), &[]);
    parser.says("reading blocks").await;
    let status = world.json(&["status"]).await;
    let token: String = world.ask(&["GET", &world.keys.writer]).await;
    assert_eq!(status["parser"]["token"], token);
    assert_eq!(status["parser"]["pid"], parser.id());
    parser.stopped().await;
    assert_eq!(world.json(&["status"]).await["parser"], json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_or_chain_the_way_out_is_said() {
    let mut world = World::empty(&CHAIN).await;
    let said = world.fail(1, &["status"]).await;
    for part in ["`parser2:chain`", "no parser has published here yet", "redis.namespace", "chain.id"] {
        assert!(said.contains(part), "{said}");
    }
    // Before the first block there is not much to tell, but no error.
    let _: () = world.ask(&["SET", "parser2:chain", &CHAIN.to_string()]).await;
    let shown = world.succeed(&["status"]).await;
    assert!(shown.contains("none: nothing is published") && shown.contains("No consumer group"), "{shown}");
    let mut other = world.yaml().to_owned();
    other.push_str(&format!("chain: {{id: {}}}\n", id(9, 9)));
    world.write("other.yaml", other);
    let refused = world.call_with(&["status", "--config", "other.yaml"], "").await;
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.err.contains("belongs to chain"), "{refused:?}");

    let _: () = world.ask(&["SET", "parser2:chain", "x\u{1b}[2J"]).await;
    let said = world.fail(1, &["status"]).await;
    assert!(said.contains("no chain id") && !said.contains('\u{1b}'), "{said}");
    world.redis.kill();
    let said = world.fail(1, &["status", "--json"]).await;
    assert!(said.contains("no connection to Redis") && said.lines().count() == 1, "{said}");
    assert!(said.contains(&world.redis.url()), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_in_the_typescript_versions_words() {
    let (world, _node) = World::mixed("").await;
    let here = world.succeed(&["dead-letters", "list", "--sub", "parser", "--limit", "3", "--json"]).await;
    assert_eq!(here.lines().count(), 3, "{here}");
    let there = world.succeed(&["list-dead-letters", "--sub-id", "parser", "--limit", "3", "--json"]).await;
    assert_eq!(there, here);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_something_else_wrote_is_named() {
    let world = World::empty(&CHAIN).await;
    let _: String = world.ask(&["SET", &world.keys.chain, &CHAIN.to_string()]).await;
    let _: String = world.ask(&["SET", &world.keys.events, "no stream"]).await;
    for command in [&["status"][..], &["verify"], &["subscriptions", "list"], &["dead-letters", "list"]] {
        let said = world.fail(1, command).await;
        let expected = format!("`{}` is a string, and a stream is expected", world.keys.events);
        assert!(said.contains(&expected), "{command:?}: {said}");
    }
}
