//! What becomes an event, and of unusual data: blocks made for each case, with values worked out by hand.

#[path = "support/lines.rs"]
mod lines;
#[path = "support/made.rs"]
mod made;

use lines::Lines;
use made::{Act, CHAIN, EXECUTED, Made, abi, abi_with_result, block, go, name, setabi};
use parser::abi::Deserializer;
use parser::capture::file::Capture;
use parser::config::Config;
use parser::event::Style;
use parser::plan::Selection;
use parser::ship::message::BlockResult;
use serde::Deserialize;
use serde_json::{Value, json};

const ONE: &[u8] = &[1, 0, 0, 0];

async fn events_as(blocks: &[Made], selection: Selection, style: Style) -> Vec<Value> {
    let protocol = made::protocol();
    let frames: Vec<_> = blocks.iter().map(|made| made.frame(&protocol)).collect();
    Lines::new(protocol.into(), CHAIN, selection, style).all(&frames).await
}

async fn events(blocks: &[Made]) -> Vec<Value> {
    let selection = Selection { native_deltas: false, ..Selection::default() };
    events_as(blocks, selection, Style::default())
        .await
        .into_iter()
        .filter(|event| event["name"] != "setabi")
        .collect()
}

/// The text of the only event that `go` with these bytes gives.
async fn text_of(fields: &[(&str, &str)], data: &[u8]) -> String {
    let protocol = made::protocol();
    let made = block(10, 0).acts(&[setabi("game", 100, &abi(fields)), go("game", 101, 1, data)]);
    let mut lines = Lines::new(protocol.into(), CHAIN, Selection::default(), Style::default());
    let result = made.result(&made::protocol());
    let ready = lines.intake.take(&result).await.expect("taken").expect("new");
    let text = String::from_utf8(lines.write(&ready)).expect("text");
    text.lines().find(|line| line.contains("\"name\":\"go\"")).expect("the event").to_owned()
}

#[tokio::test]
async fn values_at_their_limits_are_written_exactly() {
    let name13 = name("zzzzzzzzzzzzj").0.to_le_bytes();
    let cases: &[(&str, &[u8], &str)] = &[
        ("float64", &(-0.0f64).to_le_bytes(), "-0"),
        ("float64", &f64::NAN.to_le_bytes(), "\"NaN\""),
        ("float64", &f64::INFINITY.to_le_bytes(), "\"Infinity\""),
        ("uint64", &u64::MAX.to_le_bytes(), "\"18446744073709551615\""),
        ("int64", &9_007_199_254_740_993i64.to_le_bytes(), "\"9007199254740993\""),
        ("int128", &(-2i128).to_le_bytes(), "\"-2\""),
        // The low half comes first.
        ("uint128", &(1u128 << 64 | 5).to_le_bytes(), "\"18446744073709551621\""),
        ("int32", &(-1i32).to_le_bytes(), "-1"),
        ("name", &name13, "\"zzzzzzzzzzzzj\""),
        ("name", &name("a.b").0.to_le_bytes(), "\"a.b\""),
        ("name", &[0; 8], "\"\""),
        ("symbol", b"\x00SYS\0\0\0\0", "\"0,SYS\""),
        ("asset", b"\x05\0\0\0\0\0\0\0\x00SYS\0\0\0\0", "\"5 SYS\""),
        ("asset", b"\xff\xff\xff\xff\xff\xff\xff\xff\x04SYS\0\0\0\0", "\"-0.0001 SYS\""),
        ("string", "\u{4}😀".as_bytes(), "\"😀\""),
        ("string", b"\x03a\n\"", r#""a\n\"""#),
        ("bytes", &[2, 0xab, 0xcd], "\"ABCD\""),
        ("bool", &[1], "true"),
        ("uint8[]", &[3, 1, 2, 3], "[1,2,3]"),
        ("string?", &[0], "null"),
        ("block_timestamp_type", &[0; 4], "\"2000-01-01T00:00:00.000\""),
    ];
    for (kind, bytes, expected) in cases {
        let text = text_of(&[("v", kind)], bytes).await;
        assert!(
            text.contains(&format!("\"data\":{{\"v\":{expected}}},\"action_ordinal\"")),
            "{kind}: {text}"
        );
    }
}

#[tokio::test]
async fn left_over_bytes_and_text_that_is_none_are_shown() {
    let trailing = text_of(&[("v", "uint8")], &[7, 0xfe, 0xff]).await;
    assert!(trailing.contains("\"data\":{\"v\":7},\"trailing\":\"feff\",\"action_ordinal\""), "{trailing}");
    let repaired = text_of(&[("v", "string")], &[3, b'a', 0xff, b'b']).await;
    assert!(
        repaired.contains("\"data\":{\"v\":\"a?b\"},\"raw\":\"0361ff62\",\"action_ordinal\""),
        "{repaired}"
    );
    let short = text_of(&[("n", "uint8"), ("list", "uint16[]")], &[7, 2, 1, 0, 2]).await;
    let event: Value = serde_json::from_str(&short).expect("JSON");
    assert_eq!((&event["data"], &event["raw"]), (&json!({}), &json!("0702010002")));
    assert_eq!(event["decode_error"]["reason"], "truncated");
    let message = event["decode_error"]["message"].as_str().expect("a message");
    for part in ["game", "action go", "fields", "list", "byte 4"] {
        assert!(message.contains(part), "{message}");
    }
    let none = text_of(&[("v", "uint8")], &[]).await;
    assert!(none.contains("\"data\":{},\"raw\":\"\",\"decode_error\":{\"reason\":\"truncated\""), "{none}");
}

#[tokio::test]
async fn nothing_is_decoded_that_is_not_needed() {
    let loud = Act { console: vec![0xff, 0xfe, 0, 1], ..go("game", 101, 1, ONE) };
    let never = Act { receipt: false, ..go("game", 0, 0, ONE) };
    let blocks = [block(10, 0)
        .acts(&[setabi("game", 100, &abi(&[("a", "uint32")]))])
        .transaction(EXECUTED, &[loud, never])];
    let events = events(&blocks).await;
    assert_eq!(events.len(), 1, "an action without receipt did not take effect");
    assert_eq!(events[0]["data"], json!({"a": 1}));
}

#[tokio::test]
async fn return_values_are_decoded_whole_or_given_raw() {
    let returns =
        |sequence, value: &[u8]| Act { return_value: value.to_vec(), ..go("game", sequence, 1, ONE) };
    let known = abi_with_result(&[("a", "uint32")], "uint16");
    let blocks = [block(10, 0).acts(&[
        returns(99, &[1]),
        setabi("game", 100, &known),
        returns(101, &[7, 0]),
        returns(102, &[7, 0, 1]),
        returns(103, &[7]),
        returns(104, &[]),
    ])];
    let events = events(&blocks).await;
    let values: Vec<_> = events
        .iter()
        .map(|event| (event.get("return_value").cloned(), event.get("return_value_raw").cloned()))
        .collect();
    let raw = |hex: &str| (None, Some(json!(hex)));
    assert_eq!(values, [raw("01"), (Some(json!(7)), None), raw("070001"), raw("07"), (None, None)]);
}

/// A transfer with two notifications, a second one just like it that it sent, and that one's notification.
fn look_alikes() -> Made {
    let told = |receiver: &str, sequence, creator| Act {
        receiver: name(receiver),
        creator,
        return_value: vec![9],
        ..go("game", sequence, 1, ONE)
    };
    let own = go("game", 110, 1, ONE);
    let second = Act { creator: 1, ..go("game", 113, 1, ONE) };
    block(11, 0).transaction(
        EXECUTED,
        &[own, told("alice", 111, 1), told("bob", 112, 1), second, told("alice", 114, 4)],
    )
}

#[tokio::test]
async fn look_alikes_are_told_apart_and_notifications_folded() {
    let first = block(10, 0).acts(&[setabi("game", 100, &abi(&[("a", "uint32")]))]);
    let brief = |events: &[Value]| -> Vec<Value> {
        let fields = ["global_sequence", "receiver", "action_ordinal", "creator_action_ordinal", "notified"];
        events.iter().map(|event| fields.iter().map(|field| event[field].clone()).collect()).collect()
    };
    let folded = events(&[first.clone(), look_alikes()]).await;
    assert_eq!(
        brief(&folded),
        [json!(["110", "game", 1, 0, ["alice", "bob"]]), json!(["113", "game", 4, 1, ["alice"]])]
    );
    let selection = Selection { notifications: true, native_deltas: false, ..Selection::default() };
    let all = events_as(&[first, look_alikes()], selection, Style::default()).await;
    assert_eq!(
        brief(&all[1..]),
        [
            json!(["110", "game", 1, 0, ["alice", "bob"]]),
            json!(["111", "alice", 2, 1, []]),
            json!(["112", "bob", 3, 1, []]),
            json!(["113", "game", 4, 1, ["alice"]]),
            json!(["114", "alice", 5, 4, []])
        ]
    );
    // What a notification returned goes nowhere.
    assert!(all.iter().all(|event| event.get("return_value_raw").is_none()));
}

fn filters(yaml: &str) -> Selection {
    let yaml = format!(
        "ship: {{url: ws://n}}\nredis: {{url: redis://r}}\npublish: {{blocks: true}}\nfilters: {yaml}\n"
    );
    let config = Config::parse(&yaml, "".as_ref(), &|_| Err(std::env::VarError::NotPresent)).expect("good");
    Selection { blocks: config.filters.blocks(), filter: config.filters, ..Selection::default() }
}

/// Kinds, and what names an event of each.
fn named(events: &[Value]) -> Vec<String> {
    let of = |event: &Value| {
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        match event["kind"].as_str().expect("a kind") {
            "action" => format!("action {}", text("global_sequence")),
            "delta" => format!("delta {}", text("code")),
            "native-delta" => format!("native-delta {}", text("lookup_key")),
            "block" => format!("block {}+{}", event["actions"], event["deltas"]),
            kind => kind.to_owned(),
        }
    };
    events.iter().map(of).collect()
}

#[tokio::test]
async fn filters_choose_kinds_and_events_and_never_drop_a_fork() {
    let blocks = [
        block(10, 0).acts(&[setabi("game", 100, &abi(&[("a", "uint32")]))]).account("fresh", &[]),
        look_alikes().row("game", 1, ONE).row("other", 1, ONE).account("late", &[]),
        block(11, 1).on(0).row("game", 2, ONE),
    ];
    for (rules, expected) in [
        (
            "{exclude: []}",
            &[
                "action 100",
                "native-delta fresh",
                "block 1+1",
                "action 110",
                "action 113",
                "delta game",
                "delta other",
                "native-delta late",
                "block 2+3",
                "fork",
                "delta game",
                "block 0+1",
            ][..],
        ),
        ("{include: [{kind: action, receiver: bob}]}", &["action 110", "fork"]),
        (
            "{include: [{kind: action, account: game}], exclude: [{kind: action, receiver: bob}]}",
            &["action 113", "fork"],
        ),
        ("{include: [{kind: action, name: setabi}]}", &["action 100", "fork"]),
        ("{include: [{kind: delta, code: game}]}", &["delta game", "fork", "delta game"]),
        ("{include: [{kind: delta, table: rows, scope: other}]}", &["delta other", "fork"]),
        (
            "{include: [{kind: native-delta, table: account}]}",
            &["native-delta fresh", "native-delta late", "fork"],
        ),
        (
            "{include: [{kind: block}, {kind: delta, code: other}]}",
            &["block 0+0", "delta other", "block 0+1", "fork", "block 0+0"],
        ),
        (
            "{exclude: [{kind: action}, {kind: native-delta, table: '*'}, {kind: fork}]}",
            &["block 0+0", "delta game", "delta other", "block 0+2", "fork", "delta game", "block 0+1"],
        ),
        ("{exclude: [{kind: action}, {kind: delta}, {kind: native-delta}, {kind: block}]}", &["fork"]),
    ] {
        let events = events_as(&blocks, filters(rules), Style::default()).await;
        assert_eq!(named(&events), expected, "{rules}");
        // The ABI is known whatever the rules.
        let decoded =
            events.iter().filter(|event| event["code"] == "game").all(|event| event["value"]["a"] == 1);
        assert!(decoded, "{rules}");
    }
}

#[tokio::test]
async fn code_and_abi_bytes_come_on_request_alone() {
    let mut code = vec![0, 0, 0]; // code_v0, vm_type, vm_version
    code.extend([0xcd; 32]);
    made::bytes(&mut code, b"wasm");
    let blocks = [block(10, 0).account("game", b"abc").delta("code", true, code)];
    let selection = || Selection { actions: false, deltas: false, ..Selection::default() };
    let short = events_as(&blocks, selection(), Style::default()).await;
    // By sha256sum.
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let wasm = "336154bf67f765f8f75d16a0accee61b5ee5f6a75b2a2905703df913bd550f3e";
    assert_eq!(short[0]["data"]["abi"], json!({"size": 3, "sha256": abc}));
    assert_eq!(short[1]["data"]["code"], json!({"size": 4, "sha256": wasm}));
    assert_eq!(
        (&short[1]["data"]["code_hash"], &short[1]["lookup_key"]),
        (&json!("CD".repeat(32)), &json!("cd".repeat(32)))
    );
    let style = Style { code_bytes: true, ..Style::default() };
    let whole = events_as(&blocks, selection(), style).await;
    assert_eq!(whole[0]["data"]["abi"], "616263");
    assert_eq!(whole[1]["data"]["code"], "7761736D");
    assert_eq!(short[0]["data"]["creation_date"], whole[0]["data"]["creation_date"]);
    // In the other style every hash has lower-case digits.
    let wharfkit = Style { deserializer: Deserializer::Wharfkit, ..Style::default() };
    let other = events_as(&blocks, selection(), wharfkit).await;
    assert_eq!(other[1]["data"]["code_hash"], "cd".repeat(32));
    assert_eq!(other[1]["data"]["code"], short[1]["data"]["code"]);
    assert_eq!(other[0], short[0]);
}

/// The events of the bundled recording.
async fn recorded_events(deserializer: Deserializer) -> Vec<String> {
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mixed-100.shipcap.zst");
    let capture = Capture::load(bundled.as_ref()).expect("a capture");
    let chain_id = capture.status.chain_id.expect("a chain id");
    let style = Style { deserializer, ..Style::default() };
    let mut lines = Lines::new(capture.protocol.clone(), chain_id, Selection::default(), style);
    let mut events = Vec::new();
    for frame in &capture.frames {
        let result = BlockResult::decode(frame, &capture.protocol).expect("a block");
        let ready = lines.intake.take(&result).await.expect("taken").expect("new");
        let text = String::from_utf8(lines.write(&ready)).expect("text");
        events.extend(text.lines().map(str::to_owned));
    }
    events
}

#[tokio::test]
async fn abieos_itself_gives_the_same_events_where_it_decodes() {
    let compiled = recorded_events(Deserializer::Compiled).await;
    let abieos = recorded_events(Deserializer::Abieos).await;
    assert_eq!(compiled.len(), abieos.len());
    let (mut same, mut apart) = (0, 0);
    for (own, theirs) in compiled.iter().zip(&abieos) {
        // Where neither reads it, each says so in its words.
        let failed = |event: &str| event.contains("\"decode_error\":");
        if own == theirs || (failed(own) && failed(theirs)) {
            same += 1;
            continue;
        }
        apart += 1;
        // It refuses nested containers, deep values and text that is none, and says nothing of left-over bytes.
        // So it also takes the newest ABI for a row of the one before, where that reads only part of it.
        let shown = ["\"trailing\":", "\"raw\":", "\"abi_block\":"].iter().any(|field| own.contains(field));
        let returned = own.contains("\"return_value") && theirs.contains("\"return_value");
        let known = theirs.contains("\"decode_error\":") || shown || returned;
        assert!(known, "{own}\n{theirs}");
    }
    assert!(same > 2000 && apart < 500, "{same} the same, {apart} apart");
}

#[tokio::test]
async fn the_other_style_changes_decoded_data_and_nothing_else() {
    let abieos = recorded_events(Deserializer::Compiled).await;
    let wharfkit = recorded_events(Deserializer::Wharfkit).await;
    assert_eq!(abieos.len(), wharfkit.len());
    let mut changed = 0;
    for (abieos, wharfkit) in abieos.iter().zip(&wharfkit) {
        changed += usize::from(abieos != wharfkit);
        let envelope = |event: &String| {
            // Nested deeper than the reader's own limit.
            let mut reader = serde_json::Deserializer::from_str(event);
            reader.disable_recursion_limit();
            let mut event = Value::deserialize(&mut reader).expect("JSON");
            for field in ["data", "value", "return_value"] {
                event.as_object_mut().expect("an object").remove(field);
            }
            event
        };
        assert_eq!(envelope(abieos), envelope(wharfkit));
    }
    assert!(changed > 1000, "{changed} changed");
}
