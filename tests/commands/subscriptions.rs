//! `parser subscriptions`.

use ::redis::streams::{StreamId, StreamPendingReply, StreamRangeReply, StreamReadReply};
use serde_json::{Value, json};

use crate::world::World;

/// The next block number that a group is given.
async fn next(world: &World, group: &str) -> Option<u64> {
    let reply: Option<StreamReadReply> = world
        .ask(&["XREADGROUP", "GROUP", group, "c1", "COUNT", "1", "STREAMS", &world.keys.events, ">"])
        .await;
    let reply = reply?;
    let data: String = reply.keys[0].ids[0].get("data").expect("data");
    let event: Value = serde_json::from_str(&data).expect("an event");
    event["block_num"].as_u64()
}

async fn registered() -> (World, parser::capture::serve::Server) {
    let (world, node) = World::mixed("").await;
    let _: String = world.ask(&["XGROUP", "CREATE", &world.keys.events, "web", "0"]).await;
    // As the TypeScript version's client writes it.
    let entry = json!({"subId": "web", "filters": [{"kind": "action", "account": "eosio.token", "name": "transfer"}],
        "startFrom": "last_known", "registeredAt": "2024-01-01T00:00:00.000Z"});
    let _: u64 = world.ask(&["HSET", "parser2:subs", "web", &entry.to_string(), "broken", "{not JSON"]).await;
    (world, node)
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_and_registrations_are_one_list() {
    let (world, _node) = registered().await;
    let _: String = world.ask(&["XGROUP", "CREATE", &world.keys.events, "bare", "$"]).await;
    let _: () = world.ask(&["SET", "parser2:sub:web:lock", "box:12:34", "PX", "60000"]).await;
    let dead = world.keys.dead("web");
    let _: String = world.ask(&["XADD", &dead, "*", "data", "{}", "failureCount", "3"]).await;
    let all = world.json(&["subscriptions", "list"]).await;
    let all = all.as_array().expect("a list");
    let names: Vec<&Value> = all.iter().map(|subscription| &subscription["name"]).collect();
    assert_eq!(names, ["bare", "broken", "web"]);
    assert_eq!((&all[0]["registered"], &all[0]["group"]["lag_blocks"]), (&json!(null), &json!(0)));
    assert_eq!((&all[1]["registered"], &all[1]["group"]), (&json!("{not JSON"), &json!(null)));
    assert_eq!((&all[2]["lock"], &all[2]["dead_letters"]), (&json!("box:12:34"), &json!(1)));
    assert_eq!(all[2]["group"]["lag_blocks"], 100);
    assert_eq!(world.json(&["list-subscriptions"]).await, json!(all));
    let shown = world.succeed(&["subscriptions", "list"]).await;
    assert!(shown.contains("action eosio.token/transfer") && shown.contains("{not JSON"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_gives_every_block_from_there_on_once() {
    let (world, _node) = registered().await;
    let _: ::redis::Value = world
        .ask(&["XREADGROUP", "GROUP", "web", "c1", "COUNT", "300", "STREAMS", &world.keys.events, ">"])
        .await;
    let _: u64 = world.ask(&["HSET", "parser2:sub:web:failures", "x", "2"]).await;
    // Only told.
    let told = world.json(&["subscriptions", "reset", "web", "--to-block", "50", "--dry-run"]).await;
    assert_eq!(told, json!({"id": "50-0", "first_block": 50, "trimmed": false, "released": 300}));
    assert_ne!(next(&world, "web").await, Some(50));

    world.succeed(&["subscriptions", "reset", "web", "--to-block", "50"]).await;
    let pending: StreamPendingReply = world.ask(&["XPENDING", &world.keys.events, "web"]).await;
    assert_eq!(pending.count(), 0, "nothing comes twice");
    assert_eq!(world.ask::<u64>(&["EXISTS", "parser2:sub:web:failures"]).await, 0);
    assert_eq!(next(&world, "web").await, Some(50));
    world.succeed(&["subscriptions", "reset", "web", "--to-start"]).await;
    assert_eq!(next(&world, "web").await, Some(1));
    world.succeed(&["subscriptions", "reset", "web", "--to-end"]).await;
    assert_eq!(next(&world, "web").await, None);
    // As the TypeScript version spells it: block 0 is the end there.
    world.succeed(&["reset-subscription", "--sub-id", "web", "--to-block", "7"]).await;
    assert_eq!(next(&world, "web").await, Some(7));
    world.succeed(&["reset-subscription", "--sub-id", "web", "--to-block", "0"]).await;
    assert_eq!(next(&world, "web").await, None);
    // Blocks that are gone.
    let _: u64 = world.ask(&["XTRIM", &world.keys.events, "MINID", "60-0"]).await;
    let shown = world.succeed(&["subscriptions", "reset", "web", "--to-block", "20"]).await;
    assert!(shown.contains("with block 60") && shown.contains("no longer in the stream"), "{shown}");
    // Blocks to come.
    let shown = world.succeed(&["subscriptions", "reset", "web", "--to-block", "101"]).await;
    assert!(shown.contains("with what is published next"), "{shown}");
    let said = world.fail(1, &["subscriptions", "reset", "web", "--to-block", "102"]).await;
    assert!(said.contains("the newest is 100") && said.contains("--to-end"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_ids_made_by_redis_the_block_is_searched_for() {
    let (world, _node) = World::mixed("streamIds: auto").await;
    let events = &world.keys.events;
    let all: StreamRangeReply = world.ask(&["XRANGE", events, "-", "+"]).await;
    let begins = |block: u64| {
        let of = |entry: &&StreamId| {
            let data: String = entry.get("data").expect("data");
            data.contains(&format!("\"block_num\":{block},"))
        };
        all.ids.iter().find(of).expect("an entry").id.clone()
    };
    let _: String = world.ask(&["XGROUP", "CREATE", events, "end", "$"]).await;
    // Published again from dead letters: old blocks at the end.
    let mut again = String::new();
    for _ in 0..20 {
        let data = json!({"block_num": 3, "block_time": "2020-01-01T00:00:00.000", "replayed": true});
        let id: String = world.ask(&["XADD", events, "*", "data", &data.to_string()]).await;
        if again.is_empty() {
            again = id;
        }
    }
    let _: String = world.ask(&["XGROUP", "CREATE", events, "web", "$"]).await;
    let _: String = world.ask(&["XGROUP", "CREATE", events, "early", &begins(60)]).await;
    let status = world.json(&["status"]).await;
    let lags: Vec<_> =
        status["groups"].as_array().expect("groups").iter().map(|group| &group["lag_blocks"]).collect();
    assert_eq!(lags, [40, 0, 0], "early, end, web");
    assert_eq!(status["stream"]["last_block"], 100);
    for block in [1, 2, 37, 38, 99, 100] {
        world.succeed(&["subscriptions", "reset", "web", "--to-block", &block.to_string()]).await;
        let reply: StreamReadReply =
            world.ask(&["XREADGROUP", "GROUP", "web", "c1", "COUNT", "1", "STREAMS", events, ">"]).await;
        assert_eq!(reply.keys[0].ids[0].id, begins(block), "block {block}");
    }
    // Behind the last block: what was published again since comes once more.
    world.succeed(&["subscriptions", "reset", "web", "--to-block", "101"]).await;
    let reply: StreamReadReply =
        world.ask(&["XREADGROUP", "GROUP", "web", "c1", "STREAMS", events, ">"]).await;
    assert_eq!((reply.keys[0].ids.len(), &reply.keys[0].ids[0].id), (20, &again));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_at_work_is_not_disturbed() {
    let (world, _node) = registered().await;
    let _: () = world.ask(&["SET", "parser2:sub:web:lock", "box:12:34"]).await;
    for words in [&["subscriptions", "reset", "web", "--to-start"][..], &["subscriptions", "remove", "web"]] {
        let said = world.fail(1, words).await;
        assert!(said.contains("box:12:34") && said.contains("--force"), "{said}");
    }
    assert_eq!(next(&world, "web").await, Some(1));
    world.succeed(&["subscriptions", "remove", "web", "--force"]).await;
    let all = world.json(&["subscriptions", "list"]).await;
    assert_eq!(all.as_array().map(Vec::len), Some(1), "{all}");
    assert_eq!(world.ask::<u64>(&["HLEN", "parser2:subs"]).await, 1);

    let said = world.fail(1, &["subscriptions", "reset", "wbe", "--to-start"]).await;
    assert!(said.contains("no subscription `wbe`") && said.contains("broken"), "{said}");
    let said = world.fail(1, &["subscriptions", "reset", "broken", "--to-start"]).await;
    assert!(said.contains("no consumer group yet"), "{said}");
    let said = world.fail(2, &["subscriptions", "reset", "web", "--to-block", "x"]).await;
    assert!(said.contains("`x` is no block number"), "{said}");
    world.fail(2, &["subscriptions", "reset", "web"]).await;
    world.fail(2, &["subscriptions", "reset", "web", "--to-start", "--to-end"]).await;
}
