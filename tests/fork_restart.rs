//! Forks and gaps through the whole program: a real Redis, a real socket, the process itself.

mod captures;
#[path = "support/lines.rs"]
mod lines;
#[path = "support/made.rs"]
mod made;
#[path = "support/node.rs"]
mod node;
#[path = "support/redis.rs"]
mod redis;
#[path = "support/run.rs"]
mod run;

use std::collections::{BTreeMap, HashMap};

use captures::{recorded, serve};
use lines::Lines;
use made::{CHAIN, Made, abi, block, go, position, setabi};
use node::ScriptedNode;
use parser::block::{Checksum, Position};
use parser::capture::file::Capture;
use parser::capture::serve::ServeOptions;
use parser::event::Style;
use parser::plan::Selection;
use parser::ship::message::BlockResult;
use redis::TestRedis;
use run::{Parser, config, events, keys, published, sorted_set};
use serde_json::{Value, json};

const BLOCKS: &str = "publish: {blocks: true}\nstartBlock: 10";

fn frames(blocks: &[Made]) -> Vec<bytes::Bytes> {
    let protocol = made::protocol();
    blocks.iter().map(|made| made.frame(&protocol)).collect()
}

async fn node(head: u32, scripts: &[&[Made]]) -> ScriptedNode {
    ScriptedNode::start(position(head, 0), scripts.iter().map(|blocks| frames(blocks)).collect()).await
}

/// Kinds with what names them, shortly: `fork 12`, `10` for a block that is closed.
fn told(events: &[(String, Value)]) -> Vec<String> {
    let of = |event: &Value| match event["kind"].as_str() {
        Some("fork") => Some(format!("fork {}", event["forked_from_block"])),
        Some("block") => Some(event["block_num"].to_string()),
        _ => None,
    };
    events.iter().filter_map(|(_, event)| of(event)).collect()
}

fn call(num: u32, branch: u8) -> Made {
    block(num, branch).irreversible(11).acts(&[go("game", u64::from(num) * 10 + 5, 0, &[1, 0, 0, 0])])
}

fn set(num: u32, branch: u8, name: &str) -> Made {
    let sequence = u64::from(num) * 10;
    let made = block(num, branch).irreversible(11);
    made.acts(&[
        setabi("game", sequence, &abi(&[(name, "uint32")])),
        go("game", sequence + 5, 0, &[1, 0, 0, 0]),
    ])
}

fn data(events: &[(String, Value)]) -> Vec<(u64, Value)> {
    let gone = events.iter().filter(|(_, event)| event["name"] == "go");
    gone.map(|(_, event)| (event["block_num"].as_u64().expect("a number"), event["data"].clone())).collect()
}

async fn abi_blocks(redis: &TestRedis) -> Vec<(String, f64)> {
    sorted_set(redis, &keys(&CHAIN).abi_blocks).await
}

#[tokio::test]
async fn a_fork_that_happened_while_the_parser_was_away() {
    let redis = TestRedis::start().await;
    let before =
        node(14, &[&[set(10, 0, "a"), call(11, 0), call(12, 0), set(13, 0, "lost"), call(14, 0)]]).await;
    let parser = Parser::start(&config(&[before.url()], &redis, BLOCKS), &[]);
    published(&redis, &CHAIN, 14).await;
    parser.stopped().await;
    assert_eq!(abi_blocks(&redis).await, [("game:13".to_owned(), 13.0)]);
    let old = events(&redis, &CHAIN).await;

    let after = node(15, &[&[call(13, 3).on(0), call(14, 3), call(15, 3)]]).await;
    let parser = Parser::start(&config(&[after.url()], &redis, BLOCKS), &[]);
    published(&redis, &CHAIN, 15).await;
    parser.stopped().await;

    // Asked for the next block, with all that could still be undone.
    let asked = &after.asked()[0];
    assert_eq!(asked.start, 15);
    assert_eq!(asked.have_positions, (11..=14).map(|num| position(num, 0)).collect::<Vec<_>>());

    let all = events(&redis, &CHAIN).await;
    assert_eq!(all[..old.len()], old);
    let new = &all[old.len()..];
    assert_eq!(told(new), ["fork 12", "13", "14", "15"]);
    assert_eq!(new[0].1["kind"], "fork");
    assert_eq!(new[0].1["old_head_block_id"], position(14, 0).id.to_string());
    assert_eq!(new[0].1["new_head_block_id"], position(13, 3).id.to_string());
    assert_eq!(new[0].1["removed"], json!([14, 13].map(|num| position(num, 0).id.to_string())));
    // Ids go on under the highest number used, and under their own as soon as that is higher.
    let ids: Vec<&str> = new.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["14-3", "14-4", "14-5", "14-6", "14-7", "15-1", "15-2"]);
    assert_eq!(old.last().map(|(id, _)| id.as_str()), Some("14-2"));
    // The ABI set on the lost branch is gone, here and in the history.
    assert_eq!(data(new), [13, 14, 15].map(|num| (num, json!({"a": 1}))));
    assert_eq!(abi_blocks(&redis).await, []);
    let history = sorted_set(&redis, &keys(&CHAIN).abi(made::name("game"))).await;
    assert_eq!(history.iter().map(|(_, score)| *score).collect::<Vec<_>>(), [10.0]);
    let kept = sorted_set(&redis, &keys(&CHAIN).blocks).await;
    let standing = [(11, 0), (12, 0), (13, 3), (14, 3), (15, 3)];
    let standing = standing.map(|(num, branch)| (position(num, branch).id.to_string(), f64::from(num)));
    assert_eq!(kept, standing);
}

#[tokio::test]
async fn an_abi_of_the_lost_branch_is_gone_also_when_the_fork_comes_while_running() {
    let redis = TestRedis::start().await;
    let blocks = [
        set(10, 0, "a"),
        set(11, 0, "b"),
        set(12, 0, "lost"),
        set(13, 0, "lost2"),
        call(12, 3).on(0),
        set(13, 3, "new"),
        // And once more, back over the new one.
        call(13, 4).on(3),
        call(14, 4),
    ];
    let served = node(14, &[&blocks]).await;
    let parser = Parser::start(&config(&[served.url()], &redis, BLOCKS), &[]);
    published(&redis, &CHAIN, 14).await;
    parser.stopped().await;
    let all = events(&redis, &CHAIN).await;
    let field = |num, name: &str| (num, json!({ name: 1 }));
    assert_eq!(
        data(&all),
        [
            field(10, "a"),
            field(11, "b"),
            field(12, "lost"),
            field(13, "lost2"),
            field(12, "b"),
            field(13, "new"),
            field(13, "b"),
            field(14, "b")
        ]
    );
    let history = sorted_set(&redis, &keys(&CHAIN).abi(made::name("game"))).await;
    assert_eq!(history.iter().map(|(_, score)| *score).collect::<Vec<_>>(), [10.0, 11.0]);
    assert_eq!(abi_blocks(&redis).await, []);
}

#[tokio::test]
async fn a_fork_never_announced_is_asked_for_again() {
    let redis = TestRedis::start().await;
    let unlinked = [call(10, 0), call(11, 0), call(12, 0), call(13, 0), call(14, 8), call(15, 8)];
    let whole = [call(13, 8).on(0), call(14, 8), call(15, 8)];
    let served = node(15, &[&unlinked, &unlinked[4..], &whole]).await;
    let mut parser = Parser::start(&config(&[served.url()], &redis, BLOCKS), &[]);
    parser.says("asking the node again").await;
    published(&redis, &CHAIN, 15).await;
    let said = parser.stopped().await;
    assert!(
        said.contains(&format!("block {} does not follow block {}", position(14, 8), position(13, 0))),
        "{said}"
    );
    let asked = served.asked();
    assert_eq!(asked.len(), 3);
    for again in &asked[1..] {
        assert_eq!((again.start, again.have_positions.last()), (14, Some(&position(13, 0))));
    }
    assert_eq!(told(&events(&redis, &CHAIN).await), ["10", "11", "12", "13", "fork 12", "13", "14", "15"]);
}

#[tokio::test]
async fn a_fork_below_the_last_irreversible_block_has_its_own_message() {
    let redis = TestRedis::start().await;
    let blocks: Vec<Made> = (10..=13).map(|num| call(num, 0)).collect();
    // While running, and after a restart.
    let foreign = [call(11, 6).on(0), call(12, 6), call(13, 6), call(14, 6)];
    let served = node(14, &[&[&blocks[..], &foreign[..]].concat(), &foreign]).await;
    for _ in 0..2 {
        let mut parser = Parser::start(&config(&[served.url()], &redis, BLOCKS), &[]);
        parser.says("fork-too-deep").await;
        let said = parser.stopped().await;
        let last = said.lines().find(|line| line.contains("fork-too-deep")).expect("a message");
        for part in [
            "ERROR",
            "the node replaces block 11",
            "only blocks from 12 on",
            "irreversible",
            "redis.namespace",
        ] {
            assert!(last.contains(part), "{last}");
        }
        assert_eq!(told(&events(&redis, &CHAIN).await), ["10", "11", "12", "13"], "{said}");
    }
    // Tried as often as wanted, it ends.
    let further = format!("{BLOCKS}\nreconnect: {{maxAttempts: 2, backoffSeconds: [0.05]}}");
    let config =
        config(&[served.url()], &redis, "").replace("reconnect: {backoffSeconds: [0.05]}\n", &further);
    let (status, said) = Parser::start(&config, &[]).ended().await;
    assert_eq!(status, Some(1), "{said}");
    let last = said.lines().last().expect("a message");
    assert!(last.contains("the node replaces block 11"), "{last}");
}

/// The frames of the chain that stands at the end.
fn final_chain(capture: &Capture) -> Vec<bytes::Bytes> {
    let mut chain: BTreeMap<u32, bytes::Bytes> = BTreeMap::new();
    let mut by_id: HashMap<Checksum, (Position, bytes::Bytes)> = HashMap::new();
    let mut last = None;
    for frame in &capture.frames {
        let result = BlockResult::decode(frame, &capture.protocol).expect("a block");
        let this = result.this_block.expect("a block");
        by_id.insert(this.id, (result.prev_block.unwrap_or_default(), frame.clone()));
        last = Some(this);
    }
    let mut at = last.expect("a block");
    while let Some((parent, frame)) = by_id.remove(&at.id) {
        chain.insert(at.num, frame);
        at = parent;
    }
    chain.into_values().collect()
}

async fn events_of(capture: &Capture, frames: &[bytes::Bytes]) -> Vec<Value> {
    let chain_id = capture.status.chain_id.expect("a chain id");
    Lines::new(capture.protocol.clone(), chain_id, Selection::default(), Style::default()).all(frames).await
}

fn replay(events: &[(String, Value)]) -> Vec<Value> {
    let mut standing: Vec<Value> = Vec::new();
    for (_, event) in events {
        if event["kind"] == "fork" {
            let common = event["forked_from_block"].as_u64().expect("a number");
            standing.retain(|event| event["block_num"].as_u64().expect("a number") <= common);
        } else {
            standing.push(event.clone());
        }
    }
    standing
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_on_each_lost_branch_of_a_recording() {
    let Some(capture) = recorded("fork") else { return };
    let chain_id = capture.status.chain_id.expect("a chain id");
    let standing = final_chain(&capture);
    let last = Capture { frames: standing.clone(), ..capture.clone() };
    let expected = events_of(&capture, &standing).await;
    // The places where a lower number comes: stop in front of it, go on with the final chain alone.
    let num =
        |frame| BlockResult::decode(frame, &capture.protocol).expect("a block").this_block.expect("one").num;
    let nums: Vec<u32> = capture.frames.iter().map(num).collect();
    let cuts = (1..nums.len()).filter(|&i| nums[i] <= nums[i - 1]);
    for cut in cuts.step_by(2) {
        let redis = TestRedis::start().await;
        let first = Capture { frames: capture.frames[..cut].to_vec(), ..capture.clone() };
        let server = serve(&first, ServeOptions::default()).await;
        let parser = Parser::start(&config(&[server.url()], &redis, "startBlock: 1"), &[]);
        published(&redis, &chain_id, nums[cut - 1]).await;
        parser.stopped().await;
        drop(server);

        let server = serve(&last, ServeOptions::default()).await;
        run::run(&config(&[server.url()], &redis, ""), &["--stop-block", "469"]).await;
        let all = events(&redis, &chain_id).await;
        assert!(replay(&all) == expected, "cut at {cut}");
        let history = abi_history(&redis, &capture, &standing).await;
        assert_eq!(history.0, history.1);
    }
}

/// The members of all contracts' histories, and those that the frames' own setabis and rows make in memory.
async fn abi_history(
    redis: &TestRedis,
    capture: &Capture,
    frames: &[bytes::Bytes],
) -> (Vec<String>, Vec<String>) {
    use parser::history::{Fallback, History};
    let mut history = History::new(None, Fallback::Publish, Vec::new(), BTreeMap::new());
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    let mut names = std::collections::BTreeSet::new();
    for frame in frames {
        let result = BlockResult::decode(frame, &capture.protocol).expect("a block");
        let (block, num) = (result.block.expect("a block"), result.this_block.expect("a block").num);
        let (traces, deltas) = (result.traces.unwrap_or_default(), result.deltas.expect("deltas"));
        let plan = parser::plan::Plan::new(&capture.protocol, &Selection::default(), &block, traces, deltas);
        for (name, version) in history.block(num, &plan.expect("a plan")).await.expect("learned").learned {
            names.insert(name);
            expected.push(format!("{name} {}", version.member()));
        }
    }
    for name in names {
        let chain_id = capture.status.chain_id.expect("a chain id");
        for (member, _) in sorted_set(redis, &keys(&chain_id).abi(name)).await {
            found.push(format!("{name} {member}"));
        }
    }
    expected.sort();
    found.sort();
    (found, expected)
}

#[tokio::test(flavor = "multi_thread")]
async fn with_confirmations_short_forks_leave_no_trace() {
    let Some(capture) = recorded("fork") else { return };
    let chain_id = capture.status.chain_id.expect("a chain id");
    let standing = final_chain(&capture);
    let stop = 430;
    let expected = events_of(&capture, &standing[..stop]).await;
    // By the recording's notes the forks are 2, 1, 3, 24, 11, 2, 24, 23 and 1 blocks deep.
    for (confirmations, removed) in [(2, &[1, 22, 9, 22, 21][..]), (30, &[])] {
        let redis = TestRedis::start().await;
        let server = serve(&capture, ServeOptions::default()).await;
        let further = format!(
            "startBlock: 1\nstopBlock: {stop}\nconfirmations: {confirmations}\nmaxMessagesInFlight: 2"
        );
        run::run(&config(&[server.url()], &redis, &further), &[]).await;
        let all = events(&redis, &chain_id).await;
        let forks = all.iter().filter(|(_, event)| event["kind"] == "fork");
        let depths: Vec<usize> = forks.map(|(_, f)| f["removed"].as_array().expect("a list").len()).collect();
        assert_eq!(depths, removed);
        assert!(replay(&all) == expected);
    }
}

#[tokio::test]
async fn blocks_held_back_may_be_larger_than_what_may_be_in_flight() {
    let redis = TestRedis::start().await;
    let value = vec![1; 1 << 20];
    let blocks: Vec<Made> = (10..=30).map(|num| call(num, 0).row("data", 1, &value)).collect();
    let served = node(30, &[&blocks]).await;
    let further = format!("{BLOCKS}\nconfirmations: 6\nmaxInFlightBytes: 2097152\nstopBlock: 24");
    run::run(&config(&[served.url()], &redis, &further), &[]).await;
    assert_eq!(told(&events(&redis, &CHAIN).await).last().map(String::as_str), Some("24"));
}

#[tokio::test]
async fn a_fork_of_a_block_that_was_published_in_part() {
    let mut redis = TestRedis::start_with_aof().await;
    let large = |branch| {
        let mut made = call(12, branch);
        let mut random = fastrand::Rng::with_seed(u64::from(branch));
        for key in 0..24_000 {
            made = made.row("data", key, &std::array::from_fn::<u8, 1000, _>(|_| random.u8(..)));
        }
        made
    };
    let begin = [set(10, 0, "a"), call(11, 0)];
    let lost = large(0).acts(&[setabi("game", 126, &abi(&[("lost", "uint32")]))]);
    let before = node(12, &[&[&begin[..], &[lost]].concat()]).await;
    redis.config("maxmemory", "50mb").await;
    let mut parser = Parser::start(&config(&[before.url()], &redis, BLOCKS), &[]);
    parser.says("waiting for Redis").await;
    parser.stopped().await;
    redis.config("maxmemory", "0").await;
    redis.restart().await;
    let sync = keys(&CHAIN).sync;
    let part: Option<u64> =
        ::redis::cmd("HGET").arg((&sync, "part")).query_async(&mut redis.client().await).await.expect("HGET");
    let part = part.expect("stopped in the middle of the block");
    let old = events(&redis, &CHAIN).await;
    let in_part = old.iter().filter(|(_, event)| event["block_num"] == 12).count() as u64;
    assert_eq!(in_part, part);

    // First another large block in its place, that is published whole; then a small one in place of that.
    let after = node(13, &[&[large(5).on(0), call(12, 6).on(0), call(13, 6)]]).await;
    let parser = Parser::start(&config(&[after.url()], &redis, BLOCKS), &[]);
    published(&redis, &CHAIN, 13).await;
    parser.stopped().await;
    let asked = &after.asked()[0];
    assert_eq!((asked.start, asked.have_positions.last()), (12, Some(&position(11, 0))));
    let all = events(&redis, &CHAIN).await;
    let new = &all[old.len()..];
    assert_eq!(told(new), ["fork 11", "12", "fork 11", "12", "13"]);
    assert_eq!(new[0].1["removed"], json!([position(12, 0).id.to_string()]));
    assert_eq!(new[0].0, format!("12-{}", part + 1));
    let rows = new.iter().filter(|(_, event)| event["block_id"] == position(12, 5).id.to_string());
    assert_eq!(rows.count(), 24_000 + 2);
    assert_eq!(data(new), [12, 12, 13].map(|num| (num, json!({"a": 1}))));
    let replayed = replay(&all);
    assert_eq!(replayed.iter().filter(|event| event["kind"] == "action").count(), 4 + 1);
    assert!(
        replayed
            .iter()
            .all(|event| event["block_num"] != 12 || event["block_id"] == position(12, 6).id.to_string())
    );
}
