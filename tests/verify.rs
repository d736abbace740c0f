//! `parser verify`: whole streams pass, and whatever is done to one is named.

mod support;

use std::process::Stdio;

use parser::capture::file::Capture;
use parser::capture::serve::{ServeOptions, Server};
use parser::keys::Keys;
use redis::aio::MultiplexedConnection;
use serde_json::Value;
use support::captures;
use support::redis::TestRedis;
use support::stage::Stage;

/// The small capture with forks that comes with the project.
fn bundled() -> Capture {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fork-240.shipcap.zst");
    Capture::load(file.as_ref()).expect("a capture")
}

/// A published stream.
struct Published {
    node: Server,
    redis: TestRedis,
    keys: Keys,
    yaml: String,
    folder: tempfile::TempDir,
}

impl Published {
    /// A capture, published.
    async fn new(name: &str, further: &str) -> Option<Published> {
        let stage = Stage::new(&captures::recorded(name)?).await;
        stage.finish(further).await;
        Some(Published::of(stage, further))
    }

    /// The small one, published.
    async fn demo(further: &str) -> Published {
        let stage = Stage::new(&bundled()).await;
        stage.finish(further).await;
        Published::of(stage, further)
    }

    fn of(stage: Stage, further: &str) -> Published {
        let (ship, redis) = (stage.node.url(), stage.redis.url());
        let yaml = format!("ship: {{url: '{ship}'}}\nredis: {{url: '{redis}'}}\n{further}\n");
        let Stage { node, redis, keys, .. } = stage;
        Published { node, redis, keys, yaml, folder: tempfile::tempdir().expect("a folder") }
    }

    async fn client(&self) -> MultiplexedConnection {
        self.redis.client().await
    }

    /// Exit status and report.
    async fn verify(&self, arguments: &[&str]) -> (i32, Value) {
        let (status, out, err) = verify(&self.folder, &self.yaml, arguments).await;
        let report = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
        (status, report)
    }

    /// Checks that nothing is wrong; the report.
    async fn good(&self, arguments: &[&str]) -> Value {
        let (status, report) = self.verify(arguments).await;
        assert_eq!(report["findings"], serde_json::json!([]), "{arguments:?}");
        assert_eq!(status, 0);
        report
    }

    /// Checks that just these kinds of things are wrong; the report.
    async fn wrong(&self, kinds: &[&str]) -> Value {
        let (status, report) = self.verify(&[]).await;
        let found: Vec<&str> =
            report["counts"].as_object().expect("counts").keys().map(String::as_str).collect();
        assert_eq!(found, kinds, "{report:#}");
        assert_eq!(status, 1);
        report
    }
}

/// Exit status, stdout and stderr.
async fn verify(folder: &tempfile::TempDir, yaml: &str, arguments: &[&str]) -> (i32, String, String) {
    let config = folder.path().join("parser.yaml");
    std::fs::write(&config, yaml).expect("written");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_parser"));
    command.args(["verify", "--json", "--config"]).arg(&config).args(arguments).stdin(Stdio::null());
    let output =
        tokio::task::spawn_blocking(move || command.output().expect("started")).await.expect("ended");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("a status"), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn whole_streams_of_all_recordings_pass() {
    for name in ["mixed", "fork", "spring"] {
        for further in ["", "publish: {blocks: true, notifications: true}", "streamIds: auto"] {
            let Some(published) = Published::new(name, further).await else { continue };
            let mut client = published.client().await;
            let length: u64 =
                redis::cmd("XLEN").arg(&published.keys.events).query_async(&mut client).await.expect("XLEN");
            let report = published.good(&[]).await;
            assert_eq!(report["entries"], length, "{name} {further}");
            let all = further.contains("blocks");
            assert_eq!(report["unproven"].as_array().expect("a list").is_empty(), all, "{report:#}");
        }
    }
}

/// An entry: its id, its fields, and its event's block and kind.
#[derive(Clone)]
struct Entry {
    id: String,
    fields: Vec<(String, String)>,
}

impl Entry {
    fn event(&self) -> Value {
        serde_json::from_str(&self.fields[0].1).expect("JSON")
    }

    fn block(&self) -> u64 {
        self.event()["block_num"].as_u64().unwrap_or(0)
    }

    fn is(&self, kind: &str) -> bool {
        self.event()["kind"] == kind
    }

    fn replace(&mut self, from: &str, to: &str) {
        assert!(self.fields[0].1.contains(from), "{from}");
        self.fields[0].1 = self.fields[0].1.replacen(from, to, 1);
    }
}

/// Numbers entries as the parser does.
fn renumber(entries: &mut [Entry]) {
    let (mut first, mut second) = (0, 0);
    for i in 0..entries.len() {
        // A fork event goes with the block behind it.
        let block = match entries[i].block() {
            0 => entries.get(i + 1).map_or(0, Entry::block),
            block => block,
        };
        if block > first {
            (first, second) = (block, 0);
        }
        second += 1;
        entries[i].id = format!("{first}-{second}");
    }
}

impl Published {
    async fn entries(&self) -> Vec<Entry> {
        let entries: Vec<(String, Vec<(String, String)>)> = redis::cmd("XRANGE")
            .arg((&self.keys.events, "-", "+"))
            .query_async(&mut self.client().await)
            .await
            .expect("XRANGE");
        entries.into_iter().map(|(id, fields)| Entry { id, fields }).collect()
    }

    /// Puts these entries in place of the stream's.
    async fn put(&self, entries: &[Entry]) {
        let mut pipe = redis::pipe();
        pipe.del(&self.keys.events).ignore();
        for entry in entries {
            pipe.cmd("XADD").arg(&self.keys.events).arg(&entry.id).arg(&entry.fields).ignore();
        }
        // The checkpoint must not be what gives it away.
        let last = &entries.last().expect("an entry").id;
        pipe.hset(&self.keys.sync, "stream_id", last).ignore();
        pipe.exec_async(&mut self.client().await).await.expect("XADD");
    }
}

/// The place of the first entry that is so.
fn place(entries: &[Entry], what: impl Fn(&Entry) -> bool) -> usize {
    entries.iter().position(what).expect("such an entry")
}

#[tokio::test]
async fn what_is_done_to_a_stream_is_named() {
    let published = Published::demo("").await;
    let whole = published.entries().await;
    published.good(&[]).await;
    let in_block = |num: u64| move |entry: &Entry| entry.block() == num;
    // The first fork of this recording is at block 120: 121 and 122 come again behind it.
    let fork = place(&whole, |entry| entry.is("fork"));
    assert_eq!(
        (whole[fork].event()["forked_from_block"].as_u64(), whole[fork + 1].block()),
        (Some(120), 121)
    );
    type Harm = Box<dyn Fn(&mut Vec<Entry>)>;
    let cases: Vec<(&str, &[&str], Harm)> = vec![
        (
            "an entry removed",
            &["missing_entry"],
            Box::new(move |all| drop(all.remove(place(all, in_block(50)) + 1))),
        ),
        ("a block removed", &["missing_block"], Box::new(move |all| all.retain(|entry| entry.block() != 50))),
        (
            "a row doubled",
            &["repeated_event"],
            Box::new(|all| {
                let row = place(all, |entry| entry.is("native-delta") && entry.block() == 50);
                all.insert(row, all[row].clone());
                renumber(all);
            }),
        ),
        (
            "an action doubled",
            &["repeated_event"],
            Box::new(|all| {
                let action = place(all, |entry| entry.is("action") && entry.block() == 50);
                all.insert(action, all[action].clone());
                renumber(all);
            }),
        ),
        (
            "a block doubled",
            &["repeated_block"],
            Box::new(move |all| {
                let block: Vec<Entry> = all.iter().filter(|entry| entry.block() == 50).cloned().collect();
                let before = place(all, in_block(52));
                all.splice(before..before, block);
                renumber(all);
            }),
        ),
        (
            "two actions swapped",
            &["wrong_order"],
            Box::new(|all| {
                let two = |pair: &[Entry]| pair.iter().all(|entry| entry.is("action") && entry.block() > 30);
                let pair = all.windows(2).position(two).expect("two actions");
                all.swap(pair, pair + 1);
                renumber(all);
            }),
        ),
        (
            "a row before an action",
            &["wrong_order"],
            Box::new(|all| {
                let two = |pair: &[Entry]| pair[0].is("action") && pair[1].is("delta");
                let pair = all.windows(2).position(two).expect("an action and a row");
                all.swap(pair, pair + 1);
                renumber(all);
            }),
        ),
        (
            "the fork event removed",
            &["wrong_branch"],
            Box::new(move |all| {
                all.remove(fork);
                renumber(all);
            }),
        ),
        (
            "the old branch left behind the fork event",
            &["wrong_branch"],
            Box::new(move |all| {
                let old: Vec<Entry> =
                    all[..fork].iter().filter(|entry| [121, 122].contains(&entry.block())).cloned().collect();
                let end = fork + place(&all[fork..], in_block(123));
                all.splice(fork + 1..end, old);
                renumber(all);
            }),
        ),
        (
            "a fork event that undoes another block",
            &["wrong_fork"],
            Box::new(move |all| {
                let removed = all[fork].event()["removed"][0].as_str().expect("an id").to_owned();
                let other = removed.replace('a', "b");
                let at = all[fork].fields[0].1.rfind(&removed).expect("an id");
                all[fork].fields[0].1.replace_range(at..at + 64, &other);
            }),
        ),
        (
            "a fork event that names another head",
            &["wrong_fork"],
            Box::new(move |all| {
                all[fork].replace("\"old_head_block_num\":122", "\"old_head_block_num\":121")
            }),
        ),
        (
            "an event with the id of another block",
            &["wrong_event_id"],
            Box::new(move |all| all[fork - 1].replace("4335:n:122:", "4335:n:121:")),
        ),
        (
            "an event of another chain",
            &["wrong_chain"],
            Box::new(move |all| {
                all[fork - 1].replace("\"chain_id\":\"20c1", "\"chain_id\":\"20c2");
            }),
        ),
        ("a foreign entry", &["foreign_entry"], Box::new(|all| all[9].fields[0].0 = "other".to_owned())),
        ("an event cut short", &["foreign_entry"], Box::new(|all| all[9].fields[0].1.truncate(200))),
        (
            "entries under the wrong number",
            &["wrong_entry_id"],
            Box::new(move |all| {
                let last = all.len() - 1;
                all[last].id = format!("{}-1", all[last].block() + 7);
            }),
        ),
        (
            "the last block removed",
            &["wrong_end"],
            Box::new(|all| {
                let last = all.last().expect("an entry").block();
                while all.last().is_some_and(|entry| entry.block() == last) {
                    all.pop();
                }
            }),
        ),
    ];
    for (what, kinds, harm) in cases {
        let mut entries = whole.clone();
        harm(&mut entries);
        println!("{what}");
        published.put(&entries).await;
        let report = published.wrong(kinds).await;
        // The fork event that undoes another block lacks one and has one too many.
        assert!(report["findings"].as_array().expect("a list").len() <= 2, "{what}: {report:#}");
    }
    published.put(&whole).await;
    published.good(&[]).await;
}

#[tokio::test]
async fn block_events_prove_links_and_counts() {
    let published = Published::demo("publish: {blocks: true, notifications: true}").await;
    let whole = published.entries().await;
    let at = place(&whole, |entry| entry.is("block") && entry.block() == 50);
    // The last row of a block removed, without a trace.
    let mut entries = whole.clone();
    entries.remove(at - 1);
    renumber(&mut entries);
    published.put(&entries).await;
    published.wrong(&["wrong_count"]).await;
    // The event that closes it.
    let mut entries = whole.clone();
    entries.remove(at);
    renumber(&mut entries);
    published.put(&entries).await;
    published.wrong(&["missing_entry"]).await;
    // Another block before it.
    let mut entries = whole.clone();
    let before = entries[at].event()["prev_block_id"].as_str().expect("an id").to_owned();
    entries[at].replace(
        &format!("\"prev_block_id\":\"{before}"),
        &format!("\"prev_block_id\":\"{}", "0".repeat(64)),
    );
    published.put(&entries).await;
    published.wrong(&["wrong_link"]).await;
    // An action, and it is not counted.
    let mut entries = whole.clone();
    let action = place(&entries, |entry| entry.is("action") && entry.block() == 50);
    entries.remove(action);
    let at = at - 1;
    let count = entries[at].event()["actions"].as_u64().expect("a number");
    entries[at].replace(&format!("\"actions\":{count}"), &format!("\"actions\":{}", count - 1));
    renumber(&mut entries);
    published.put(&entries).await;
    published.wrong(&["missing_action"]).await;
}

#[tokio::test]
async fn a_range_is_looked_at_alone() {
    let published = Published::demo("").await;
    let report = published.good(&["--from", "50", "--to", "60"]).await;
    assert_eq!(
        (&report["first_block"], &report["last_block"], &report["blocks"]),
        (&50.into(), &60.into(), &11.into())
    );
    let report = published.good(&["--from", "119", "--to", "122"]).await;
    assert_eq!((&report["blocks"], &report["forks"]), (&6.into(), &1.into()));

    // More than there is.
    let last = published.entries().await.last().expect("an entry").block();
    let (status, report) = published.verify(&["--from", "200", "--to", &(last + 1).to_string()]).await;
    assert_eq!((status, &report["counts"]["missing_block"]), (1, &1.into()));

    let (status, report) = published.verify(&["--from", "5000"]).await;
    assert_eq!(status, 1);
    assert!(
        report["findings"][0]["message"].as_str().is_some_and(|text| text == "block 5000 is not published")
    );

    // What is trimmed is said, and is no fault.
    redis::cmd("XTRIM")
        .arg((&published.keys.events, "MINID", "100-3"))
        .exec_async(&mut published.client().await)
        .await
        .expect("XTRIM");
    let report = published.good(&[]).await;
    let unproven = report["unproven"].to_string();
    assert!(unproven.contains("begins with entry 100-3"), "{unproven}");

    // A fault elsewhere is none here.
    let mut entries = published.entries().await;
    entries.retain(|entry| entry.block() != 150);
    published.put(&entries).await;
    published.wrong(&["missing_block"]).await;
    published.good(&["--from", "160"]).await;
    published.good(&["--to", "149"]).await;
    let (status, _) = published.verify(&["--from", "150", "--to", "150"]).await;
    assert_eq!(status, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_are_compared_with_the_nodes() {
    let published = Published::demo("").await;
    let whole = published.entries().await;
    // Blocks that can still be undone are not compared, nor those that were undone.
    let capture = bundled();
    let last = capture.frames.last().expect("a frame");
    let irreversible = captures::result(last, &capture.protocol).last_irreversible.num;
    let report = published.good(&["--ship"]).await;
    let (proven, unproven) = (report["proven"].to_string(), report["unproven"].to_string());
    assert!(proven.contains(&format!("{irreversible} blocks have the ids")), "{irreversible}: {proven}");
    let others = report["blocks"].as_u64().expect("a number") - u64::from(irreversible);
    assert!(unproven.contains(&format!("the other {others} blocks")), "{others}: {unproven}");
    let report = published.good(&["--ship", "--from", "40", "--to", "60"]).await;
    assert!(report["proven"].to_string().contains("21 blocks have the ids"), "{report:#}");

    // A block of another branch, which fits into the stream as well.
    let mut entries = whole.clone();
    let at = place(&entries, |entry| entry.block() == 50);
    let id = entries[at].event()["block_id"].as_str().expect("an id").to_owned();
    let other = format!("{}{}", &id[..8], id[8..].chars().rev().collect::<String>());
    for entry in entries.iter_mut().filter(|entry| entry.fields[0].1.contains(&id[..16])) {
        entry.fields[0].1 = entry.fields[0].1.replace(&id, &other).replace(&id[..16], &other[..16]);
    }
    published.put(&entries).await;
    published.good(&[]).await;
    let (status, report) = published.verify(&["--ship"]).await;
    assert_eq!((status, &report["counts"]), (1, &serde_json::json!({"not_the_nodes": 1})), "{report:#}");
    let finding = &report["findings"][0];
    assert_eq!(finding["block"], 50);
    assert_eq!(finding["message"], format!("{other} is published, the node has {id}"));
    // A fault elsewhere is none here.
    published.good(&["--ship", "--from", "51"]).await;

    // What an event holds is not compared, and that is said.
    let mut entries = whole.clone();
    let at = place(&entries, |entry| entry.is("action") && entry.block() == 50);
    entries[at].replace("\"name\":\"onblock\"", "\"name\":\"transfer\"");
    published.put(&entries).await;
    let report = published.good(&["--ship"]).await;
    assert!(report["unproven"].to_string().contains("what the events hold"), "{report:#}");
    published.put(&whole).await;

    // A node of another chain, and none at all.
    let stranger = captures::serve(&captures::plain(3), ServeOptions::default()).await;
    let yaml = published.yaml.replace(published.node.url(), stranger.url());
    let (status, _, said) = verify(&published.folder, &yaml, &["--ship"]).await;
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("the node is on chain"), "{said}");
    let Published { node, yaml, folder, redis: _redis, .. } = published;
    drop(node);
    let (status, _, said) =
        verify(&folder, &(yaml + "reconnect: {backoffSeconds: [0.01]}\n"), &["--ship"]).await;
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("gave up after 3 attempts"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_stream_is_told_from_one_that_is_gone() {
    let published = Published::demo("").await;
    let mut client = published.client().await;
    redis::cmd("XTRIM")
        .arg((&published.keys.events, "MAXLEN", 0))
        .exec_async(&mut client)
        .await
        .expect("XTRIM");
    let report = published.good(&[]).await;
    assert!(report["unproven"].to_string().contains("all are trimmed"), "{report:#}");
    redis::cmd("DEL").arg(&published.keys.events).exec_async(&mut client).await.expect("DEL");
    let report = published.wrong(&["wrong_end"]).await;
    let message = report["findings"][0]["message"].as_str().expect("text");
    assert!(message.contains(&published.keys.events), "{message}");
    redis::cmd("DEL")
        .arg((&published.keys.sync, &published.keys.blocks))
        .exec_async(&mut client)
        .await
        .expect("DEL");
    let report = published.good(&[]).await;
    assert!(report["unproven"].to_string().contains("nothing is published"), "{report:#}");
}
