//! Which version of a contract's ABI reads what, rule by rule, with blocks made for each. The versions differ in the name of
//! their one field, or in its type where they must not read the same bytes.

#[path = "support/lines.rs"]
mod lines;
#[path = "support/made.rs"]
mod made;

use std::collections::BTreeMap;
use std::sync::Arc;

use lines::Lines;
use made::{Act, EXECUTED, HARD_FAIL, Made, abi, block, go, name, setabi};
use parser::event::Style;
use parser::history::{Fallback, History, Override, Since, Version};
use parser::plan::Selection;
use serde_json::{Value, json};

/// Actions and contract rows alone.
fn selection() -> Selection {
    Selection { native_deltas: false, ..Selection::default() }
}

async fn events_with(blocks: &[Made], overrides: Vec<Override>) -> Vec<Value> {
    let protocol = made::protocol();
    let frames: Vec<_> = blocks.iter().map(|made| made.frame(&protocol)).collect();
    let history = History::new(None, Fallback::Publish, overrides, BTreeMap::new());
    Lines::with(protocol.into(), made::CHAIN, selection(), Style::default(), history).all(&frames).await
}

async fn events(blocks: &[Made]) -> Vec<Value> {
    events_with(blocks, Vec::new()).await
}

fn field(name: &str) -> Vec<u8> {
    abi(&[(name, "uint32")])
}

/// What became of the data: the decoded value, or why not.
fn said(event: &Value) -> Value {
    match event["decode_error"]["reason"].as_str() {
        Some(reason) => json!(reason),
        None => event.get("data").or(event.get("value")).expect("data").clone(),
    }
}

/// Of the actions `go`, by global sequence.
fn went(events: &[Value]) -> Vec<(u64, Value)> {
    let of =
        |event: &Value| event["global_sequence"].as_str().and_then(|s| s.parse().ok()).expect("a number");
    events.iter().filter(|e| e["name"] == "go").map(|event| (of(event), said(event))).collect()
}

fn rows(events: &[Value]) -> Vec<&Value> {
    events.iter().filter(|event| event["kind"] == "delta").collect()
}

const ONE: &[u8] = &[1, 0, 0, 0];

fn calls(contract: &str, sequences: impl IntoIterator<Item = u64>) -> Vec<Act> {
    sequences.into_iter().map(|sequence| go(contract, sequence, 0, ONE)).collect()
}

#[tokio::test]
async fn setabi_takes_effect_right_after_itself() {
    let call = |sequence| go("game", sequence, 0, ONE);
    let blocks = [
        block(10, 0).acts(&[setabi("game", 100, &field("a")), call(101)]),
        // In the middle of a block.
        block(11, 0).acts(&[call(110), setabi("game", 111, &field("b")), call(112)]),
        // In the middle of a transaction, twice.
        block(12, 0).transaction(
            EXECUTED,
            &[
                call(120),
                setabi("game", 121, &field("c")),
                call(122),
                setabi("game", 123, &field("d")),
                call(124),
            ],
        ),
        block(13, 0).acts(&calls("game", [130])),
    ];
    let a = |name: &str| json!({ name: 1 });
    let expected = [
        (101, a("a")),
        (110, a("a")),
        (112, a("b")),
        (120, a("b")),
        (122, a("c")),
        (124, a("d")),
        (130, a("d")),
    ];
    assert_eq!(went(&events(&blocks).await), expected);
}

#[tokio::test]
async fn order_is_that_of_execution_not_of_the_trace() {
    // The setabi stands second in the transaction and ran last.
    let blocks = [
        block(10, 0).acts(&[setabi("game", 100, &field("a"))]),
        block(11, 0).transaction(
            EXECUTED,
            &[go("game", 110, 0, ONE), setabi("game", 112, &field("b")), go("game", 111, 0, ONE)],
        ),
    ];
    assert_eq!(went(&events(&blocks).await), [(110, json!({"a": 1})), (111, json!({"a": 1}))]);
}

#[tokio::test]
async fn only_an_executed_setabi_of_the_system_contract_counts() {
    let notification = Act { receiver: name("game"), creator: 1, ..setabi("game", 113, &field("no")) };
    let other = Act { account: name("game"), receiver: name("game"), ..setabi("game", 115, &field("no")) };
    let not_run = Act { receipt: false, ..setabi("game", 116, &field("no")) };
    let blocks = [
        block(10, 0).acts(&[setabi("game", 100, &field("a"))]),
        block(11, 0)
            .transaction(HARD_FAIL, &[setabi("game", 110, &field("no"))])
            .transaction(1, &[setabi("game", 111, &field("no"))])
            .transaction(3, &[setabi("game", 112, &field("no"))])
            .transaction(EXECUTED, &[setabi("other", 112, &field("no")), notification, other])
            .transaction(EXECUTED, &[not_run])
            .acts(&calls("game", [119])),
    ];
    assert_eq!(went(&events(&blocks).await), [(119, json!({"a": 1}))]);
}

#[tokio::test]
async fn an_empty_abi_is_no_abi_and_garbage_is_a_version_too() {
    let mut future = abi(&[("a", "uint32")]);
    future[12] = b'9'; // eosio::abi/9.1
    let mut longer = field("long");
    longer.extend([0, 1, 2, 3]); // no action results, then anything
    let call = |sequence| go("game", sequence, 0, ONE);
    let blocks = [
        block(10, 0).acts(&[
            setabi("game", 100, &field("a")),
            call(101),
            setabi("game", 102, &[]),
            call(103),
        ]),
        block(11, 0).acts(&[call(110), setabi("game", 111, b"garbage"), call(112)]),
        block(12, 0).acts(&[call(120), setabi("game", 121, &future), call(122)]),
        block(13, 0).acts(&[setabi("game", 130, &field("b")[..20]), call(131)]),
        // What stands behind the end of an ABI is allowed.
        block(14, 0).acts(&[setabi("game", 140, &longer), call(141)]),
        block(15, 0).acts(&[setabi("game", 150, &field("a")), call(151)]),
    ];
    let expected = [
        (101, json!({"a": 1})),
        (103, json!("no_abi")),
        (110, json!("no_abi")),
        (112, json!("bad_abi")),
        (120, json!("bad_abi")),
        (122, json!("bad_abi")),
        (131, json!("bad_abi")),
        (141, json!({"long": 1})),
        (151, json!({"a": 1})),
    ];
    assert_eq!(went(&events(&blocks).await), expected);
}

#[tokio::test]
async fn an_abi_set_again_leaves_what_was_between() {
    let set = |num: u32, name: &str| {
        let sequence = u64::from(num) * 10;
        block(num, 0).acts(&[setabi("game", sequence, &field(name)), go("game", sequence + 1, 0, ONE)])
    };
    let blocks = [set(10, "a"), set(11, "b"), set(12, "a"), set(13, "a"), set(14, "b")];
    let names: Vec<_> = went(&events(&blocks).await).into_iter().map(|(_, value)| value).collect();
    assert_eq!(names, ["a", "b", "a", "a", "b"].map(|name| json!({ name: 1 })));
}

#[tokio::test]
async fn a_row_is_read_with_the_abi_at_its_blocks_end_or_the_one_before() {
    let (a, b) = (abi(&[("a", "uint32")]), abi(&[("b", "uint64")]));
    let blocks = [
        block(10, 0).acts(&[setabi("game", 100, &a)]).row("game", 1, ONE),
        // Set in the row's own block: the new one reads new rows, the old one old rows.
        block(11, 0).acts(&[setabi("game", 110, &b)]).row("game", 1, ONE).row(
            "game",
            2,
            &[2, 0, 0, 0, 0, 0, 0, 0],
        ),
        block(12, 0).row("game", 3, ONE),
        // The same bytes again hide nothing: the one before is the last with other bytes.
        block(13, 0).acts(&[setabi("game", 130, &b)]).row("game", 1, ONE),
        // Neither reads it: the error is the newest one's.
        block(14, 0).row("game", 4, &[1]),
        // Neither reads it whole: the newest one's value and what is left.
        block(15, 0).row("game", 5, &[5, 0, 0, 0, 0, 0, 0, 0, 9]),
        // The old one reads it in part and the new one not at all.
        block(16, 0).row("game", 6, &[6, 0, 0, 0, 7]),
    ];
    let events = events(&blocks).await;
    let rows = rows(&events);
    let brief: Vec<_> = rows
        .iter()
        .map(|row| (said(row), row.get("abi_block").cloned(), row.get("trailing").cloned()))
        .collect();
    let old = |block: u32| Some(json!(block));
    assert_eq!(
        brief,
        [
            (json!({"a": 1}), None, None),
            (json!({"a": 1}), old(10), None),
            (json!({"b": "2"}), None, None),
            (json!({"a": 1}), old(10), None),
            (json!({"a": 1}), old(10), None),
            (json!("truncated"), None, None),
            (json!({"b": "5"}), None, Some(json!("09"))),
            (json!({"a": 6}), old(10), Some(json!("07"))),
        ]
    );
    let message = rows[5]["decode_error"]["message"].as_str().expect("a message");
    for part in ["game", "rows", "fields", "b"] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn rows_outlive_an_abi_that_was_taken_away_or_broken() {
    for newest in [&b""[..], b"garbage"] {
        let blocks = [
            block(10, 0).acts(&[setabi("game", 100, &field("a"))]),
            block(11, 0).acts(&[setabi("game", 110, newest), go("game", 111, 0, ONE)]).row("game", 1, ONE),
            block(12, 0).row("game", 2, &[1]),
        ];
        let events = events(&blocks).await;
        let rows = rows(&events);
        assert_eq!((said(rows[0]), &rows[0]["abi_block"]), (json!({"a": 1}), &json!(10)));
        // But an action has only the version it ran with.
        let reason = if newest.is_empty() { "no_abi" } else { "bad_abi" };
        assert_eq!(went(&events), [(111, json!(reason))]);
        assert_eq!((said(rows[1]), rows[1].get("abi_block")), (json!(reason), None));
    }
}

#[tokio::test]
async fn the_version_before_can_lie_inside_the_block() {
    let set = |sequence, name: &str, kind| setabi("game", sequence, &abi(&[(name, kind)]));
    let blocks = [
        block(10, 0).acts(&[set(100, "a", "uint16")]),
        block(11, 0).acts(&[set(110, "b", "uint32"), set(111, "c", "uint64")]).row("game", 1, ONE).row(
            "game",
            2,
            &[1, 0],
        ),
    ];
    let events = events(&blocks).await;
    let rows = rows(&events);
    assert_eq!((said(rows[0]), &rows[0]["abi_block"]), (json!({"b": 1}), &json!(11)));
    // The third newest is not asked.
    assert_eq!(said(rows[1]), json!("truncated"));
}

#[tokio::test]
async fn a_first_account_row_holds_before_the_blocks_actions_a_later_one_at_its_end() {
    let blocks = [
        block(10, 0).acts(&calls("game", [100])).account("game", &field("a")).row("game", 1, ONE),
        // Seen to change without a setabi: from the end of the block on.
        block(11, 0).acts(&calls("game", [110])).account("game", &field("b")).row("game", 1, ONE),
        block(12, 0).acts(&calls("game", [120])),
        // The same again is nothing new.
        block(13, 0).acts(&calls("game", [130])).account("game", &field("b")),
        // With a setabi in the same block the row tells nothing new, wherever it stands.
        block(14, 0)
            .acts(&[go("game", 140, 0, ONE), setabi("game", 141, &field("c")), go("game", 142, 0, ONE)])
            .account("game", &field("c")),
        // Nor does it where the account was not known before.
        block(15, 0)
            .acts(&[go("late", 150, 0, ONE), setabi("late", 151, &field("l")), go("late", 152, 0, ONE)])
            .account("late", &field("l")),
    ];
    let events = events(&blocks).await;
    assert_eq!(
        went(&events),
        [
            (100, json!({"a": 1})),
            (110, json!({"a": 1})),
            (120, json!({"b": 1})),
            (130, json!({"b": 1})),
            (140, json!({"b": 1})),
            (142, json!({"c": 1})),
            (150, json!("abi_unknown")),
            (152, json!({"l": 1})),
        ]
    );
    let rows = rows(&events);
    assert_eq!((said(rows[0]), said(rows[1])), (json!({"a": 1}), json!({"b": 1})));
}

#[tokio::test]
async fn filters_keep_no_abi_from_being_learned() {
    let protocol = made::protocol();
    let blocks = [
        block(10, 0).acts(&[setabi("game", 100, &field("a"))]).account("rowed", &field("r")),
        block(11, 0).acts(&[go("game", 110, 0, ONE)]).row("rowed", 1, ONE),
    ];
    let only = |rule: &str| {
        let yaml =
            format!("ship: {{url: ws://n}}\nredis: {{url: redis://r}}\nfilters: {{include: [{rule}]}}\n");
        let config =
            parser::config::Config::parse(&yaml, "".as_ref(), &|_| Err(std::env::VarError::NotPresent));
        config.expect("a configuration").filters
    };
    for (rule, expected) in [
        ("{kind: action, account: game, name: go}", json!({"a": 1})),
        ("{kind: delta, code: rowed}", json!({"r": 1})),
    ] {
        let selection = Selection { filter: only(rule), ..Selection::default() };
        let mut lines = Lines::new(Arc::new(made::protocol()), made::CHAIN, selection, Style::default());
        let frames: Vec<_> = blocks.iter().map(|made| made.frame(&protocol)).collect();
        let events = lines.all(&frames).await;
        assert_eq!(events.iter().map(said).collect::<Vec<_>>(), [expected]);
    }
}

#[tokio::test]
async fn an_override_holds_for_its_contract_and_blocks_alone() {
    let call = |num: u32| {
        let sequence = u64::from(num) * 10;
        block(num, 0)
            .acts(&[go("game", sequence, 0, ONE), go("other", sequence + 1, 0, ONE)])
            .row("game", 1, ONE)
    };
    let mut blocks =
        vec![block(9, 0).acts(&[setabi("game", 90, &field("a")), setabi("other", 91, &field("o"))])];
    blocks.extend((10..=14).map(call));
    // What the chain says meanwhile is learned all the same.
    blocks[3] = call(12).acts(&[setabi("game", 129, &field("b"))]);
    let since = Since { block: 11, sequence: Since::BEFORE };
    let put = Override {
        contract: name("game"),
        blocks: 11..=13,
        abi: Arc::new(Version::new(since, &field("put"))),
    };
    let events = events_with(&blocks, vec![put]).await;
    let of = |account: &str| {
        let events: Vec<_> = events.iter().filter(|event| event["account"] == account).cloned().collect();
        went(&events).into_iter().map(|(_, value)| value).collect::<Vec<_>>()
    };
    assert_eq!(of("game"), ["a", "put", "put", "put", "b"].map(|name| json!({ name: 1 })));
    assert_eq!(of("other"), vec![json!({"o": 1}); 5]);
    let values: Vec<_> = rows(&events).into_iter().map(said).collect();
    assert_eq!(values, ["a", "put", "put", "put", "b"].map(|name| json!({ name: 1 })));
}

#[tokio::test]
async fn an_abi_of_the_lost_branch_reads_nothing_of_the_new_one() {
    let call = |num: u32, branch| block(num, branch).acts(&calls("game", [u64::from(num) * 10 + 5]));
    let lost = |num: u32, name: &str| {
        let sequence = u64::from(num) * 10;
        block(num, 0).acts(&[setabi("game", sequence, &field(name)), go("game", sequence + 5, 0, ONE)])
    };
    let blocks = [
        block(10, 0).acts(&[setabi("game", 100, &field("a"))]),
        call(11, 0),
        lost(12, "lost"),
        lost(13, "lost2").account("fresh", &field("fresh")),
        // Back to 11, and the same account is made later, with another ABI.
        call(12, 1).on(0),
        call(13, 1).acts(&calls("fresh", [139])),
        block(14, 1).acts(&[go("fresh", 140, 0, ONE)]).account("fresh", &field("anew")),
        // And back to the branch that was lost.
        lost(12, "lost").on(0),
        call(13, 0),
        // A fork below the first version leaves nothing of it.
        call(10, 7),
    ];
    let events = events(&blocks).await;
    let expected = [
        (115, json!({"a": 1})),
        (125, json!({"lost": 1})),
        (135, json!({"lost2": 1})),
        (125, json!({"a": 1})),
        (135, json!({"a": 1})),
        (139, json!("abi_unknown")),
        (140, json!({"anew": 1})),
        (125, json!({"lost": 1})),
        (135, json!({"lost": 1})),
        (105, json!("abi_unknown")),
    ];
    assert_eq!(went(&events), expected);
}

#[tokio::test]
async fn a_jump_of_the_abi_sequence_is_counted() {
    let mut history = History::new(None, Fallback::Publish, Vec::new(), BTreeMap::new());
    let protocol = made::protocol();
    let mut gaps = Vec::new();
    for made in [
        // The first receipt seen says where the count stands.
        block(10, 0).acts(&[go("game", 100, 3, ONE)]),
        block(11, 0).acts(&[
            go("game", 110, 3, ONE),
            setabi("game", 111, &field("a")),
            go("game", 112, 4, ONE),
        ]),
        // Set while nobody was looking, twice.
        block(12, 0).acts(&[go("game", 120, 6, ONE)]),
        block(13, 0).acts(&[go("game", 130, 6, ONE)]),
        // The same bytes again count like others.
        block(14, 0).acts(&[setabi("game", 140, &field("a"))]),
        block(15, 0).acts(&[go("game", 150, 7, ONE)]),
        // Inside one block.
        block(16, 0).acts(&[go("game", 160, 7, ONE), go("game", 161, 8, ONE)]),
        // Numbers that cannot be.
        block(17, 0).acts(&[go("game", 170, u32::MAX, ONE), setabi("game", 171, &field("a"))]),
        block(18, 0).acts(&[setabi("game", 180, &field("a")), go("game", 181, 0, ONE)]),
    ] {
        let result = made.result(&protocol);
        let plan = parser::plan::Plan::new(
            &protocol,
            &selection(),
            result.block.as_ref().expect("a block"),
            result.traces.expect("traces"),
            result.deltas.expect("deltas"),
        );
        history.block(made.this.num, &plan.expect("a plan")).await.expect("learned");
        gaps.push(history.sequence_gaps());
    }
    assert_eq!(gaps[..7], [0, 0, 2, 2, 2, 2, 3]);
}
