//! `parser dead-letters list` and `show`.

use serde_json::{Value, json};

use crate::made::{Made, abi, block, go, name, setabi};
use crate::stage::{FROM_10, Stage};

const ONE: &[u8] = &[1, 0, 0, 0];

/// Blocks 10 and 11 with letters of four kinds.
fn blocks() -> Vec<Made> {
    let known = abi(&[("a", "uint32")]);
    vec![
        block(10, 0).acts(&[
            setabi("game", 100, &known),
            go("game", 101, 1, &[1]),
            go("game", 102, 1, ONE),
            setabi("bad", 103, b"garbage"),
            go("bad", 104, 1, ONE),
        ]),
        block(11, 0).acts(&[go("stranger", 111, 0, ONE)]).row("game", 1, &[9]),
    ]
}

fn pick(line: &Value) -> Value {
    json!([line["id"], line["reason"], line["contract"], line["name"], line["kind"], line["block_num"]])
}

#[tokio::test]
async fn letters_are_listed_by_reason_contract_and_block() {
    let stage = Stage::new(&blocks(), FROM_10).await;
    let nothing = stage.run(&["dead-letters", "list"]).await;
    assert!(nothing.failed(1).contains("no parser has published here yet"));
    stage.publish().await;

    let all = stage.run(&["dead-letters", "list", "--json"]).await.lines();
    let expected = [
        json!(["10-1", "truncated", "game", "go", "action", 10]),
        json!(["10-3", "bad_abi", "bad", "go", "action", 10]),
        json!(["11-1", "abi_unknown", "stranger", "go", "action", 11]),
        json!(["11-2", "truncated", "game", "rows", "delta", 11]),
    ];
    assert_eq!(all.iter().map(pick).collect::<Vec<_>>(), expected);
    assert_eq!(
        (&all[0]["type"], &all[0]["abi_block"], &all[0]["sub"]),
        (&json!("fields"), &json!(10), &json!("parser"))
    );
    assert!(all[0]["event_id"].as_str().expect("an id").ends_with(":101"));

    for (filter, meant) in [
        (&["--reason", "truncated"][..], &[0, 3][..]),
        (&["--contract", "game", "--to", "10"], &[0]),
        (&["--from", "11"], &[2, 3]),
        (&["--from", "12"], &[]),
        (&["--reason", "bad_abi", "--contract", "game"], &[]),
        (&["--limit", "2"], &[0, 1]),
        (&["--sub", "web"], &[]),
        (&["--all-subs"], &[0, 1, 2, 3]),
    ] {
        let arguments = [&["dead-letters", "list", "--json"], filter].concat();
        let lines = stage.run(&arguments).await.lines();
        let expected: Vec<&Value> = meant.iter().map(|place| &expected[*place]).collect();
        assert_eq!(
            lines.iter().map(pick).collect::<Vec<_>>().iter().collect::<Vec<_>>(),
            expected,
            "{filter:?}"
        );
    }

    let table = stage.run(&["dead-letters", "list", "--limit", "1"]).await.done();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("entry"), "{table}");
    assert!(lines[1].starts_with("10-1") && lines[1].contains("game action go (type fields)"), "{table}");
    assert_eq!(lines.len(), 3);
    assert!(lines[2].contains("has 4 dead letters"), "{table}");
    let none = stage.run(&["dead-letters", "list", "--sub", "web"]).await.done();
    assert_eq!(none, "no dead letters of `web`\n");
}

#[tokio::test]
async fn a_letter_is_shown_with_what_decoding_it_now_gives() {
    let stage = Stage::new(&blocks(), FROM_10).await;
    stage.publish().await;
    let show = async |id: &str| -> Value {
        let shown = stage.run(&["dead-letters", "show", id, "--json"]).await.done();
        serde_json::from_str(&shown).expect("JSON")
    };
    // By entry and by event.
    let truncated = show("10-1").await;
    assert_eq!(truncated["raw"], "01");
    assert_eq!(truncated["counter"], 1);
    assert_eq!(truncated["event"]["decode_error"]["reason"], "truncated");
    assert_eq!(truncated["now"]["result"], "truncated");
    assert_eq!(
        (&truncated["now"]["abi_block"], &truncated["now"]["abi_sequence"]),
        (&json!(10), &json!("100"))
    );
    assert_eq!(show(truncated["event_id"].as_str().expect("an id")).await, truncated);

    assert_eq!(show("11-1").await["now"]["result"], "abi_unknown");
    // In force at block 11, but not in force yet; then in force.
    stage.put_abi(name("stranger"), 12, &abi(&[("b", "uint16"), ("c", "uint16")])).await;
    assert_eq!(show("11-1").await["now"]["result"], "abi_unknown");
    stage.put_abi(name("stranger"), 11, &abi(&[("a", "uint32")])).await;
    let now = show("11-1").await;
    assert_eq!(now["now"]["result"], "decoded");
    assert_eq!(now["now"]["event"]["data"], json!({"a": 1}));
    assert_eq!(now["now"]["event"]["replayed"], true);
    let text = stage.run(&["dead-letters", "show", "11-1"]).await.done();
    assert!(text.contains("\nreason        abi_unknown\n"), "{text}");
    assert!(text.contains("\nnow           decoded\n"), "{text}");

    let missing = stage.run(&["dead-letters", "show", "11-9"]).await.failed(1);
    assert!(missing.contains("no dead letter `11-9`"), "{missing}");
}

#[tokio::test]
async fn the_typescript_versions_spellings_do_the_same() {
    let stage = Stage::new(&blocks(), FROM_10).await;
    stage.publish().await;
    let listed =
        stage.run(&["list-dead-letters", "--sub-id", "parser", "--from", "10-3", "--json"]).await.lines();
    let ids: Vec<&Value> = listed.iter().map(|line| &line["id"]).collect();
    assert_eq!(ids, ["10-3", "11-1", "11-2"]);
    assert_eq!(stage.run(&["list-dead-letters", "--all", "--limit", "1", "--json"]).await.lines().len(), 1);
    stage.put_abi(name("stranger"), 11, &abi(&[("a", "uint32")])).await;
    let event_id = listed[1]["event_id"].as_str().expect("an id");
    let dry = ["replay-dead-letter", "--sub-id", "parser", "--event-id", event_id, "--dry-run"];
    assert!(stage.run(&dry).await.done().starts_with("1 of 1 dead letters would be published"));
    let one = ["replay-dead-letter", "--sub-id", "parser", "--event-id", event_id];
    assert_eq!(stage.run(&one).await.done(), "1 of 1 dead letters are published\n");
    stage.run(&["replay-dead-letter", "--sub-id", "parser"]).await.failed(2);
    let all = stage.run(&["replay-dead-letter", "--sub-id", "parser", "--all"]).await.done();
    assert!(all.starts_with("0 of 3 dead letters are published"), "{all}");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let stage = Stage::new(&[block(10, 0).acts(&[go("stranger", 100, 0, &[1])])], FROM_10).await;
    stage.publish().await;
    let cases: [(&[&str], i32, &str); 8] = [
        (&["list", "--reason", "nosuch"], 2, "possible values: no_abi, abi_unknown"),
        (&["list", "--contract", ""], 2, "the name of a contract is expected"),
        (&["list", "--contract", "Game"], 2, "not an Antelope name"),
        (&["list", "--from", "5", "--to", "4"], 2, "--from 5 is above --to 4"),
        (&["show", "1-1"], 1, "no dead letter `1-1`"),
        (&["replay", "1-1"], 1, "no dead letter `1-1`"),
        (&["purge", "1-1", "--yes"], 1, "no dead letter `1-1`"),
        (&["purge", "--yes"], 2, "which dead letters?"),
    ];
    for (arguments, status, said) in cases {
        let error = stage.run(&[&["dead-letters"], arguments].concat()).await.failed(status);
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
    // An id given twice is one letter.
    let listed = stage.run(&["dead-letters", "list", "--json"]).await.lines();
    let id = listed[0]["id"].as_str().expect("an id");
    stage.run(&["dead-letters", "purge", id, id, "--yes"]).await.done();
}
