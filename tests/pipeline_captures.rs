//! Every capture there is, from a node over a real socket into a real Redis: what comes out are the expected events.

mod support;

use std::collections::HashMap;
use std::process::Command;

use parser::capture::file::Capture;
use parser::keys::Keys;
use parser::ship::message::BlockResult;
use redis::aio::MultiplexedConnection;
use support::expected::{Envelope, Recording, assert_expected};
use support::stage::{Stage, undisturbed};
use support::written::{self, Written};

/// Runs a capture with each worker count and both kinds of ids.
async fn comes_out_as_expected(recording: &Recording) {
    let mut first: Option<Written> = None;
    for workers in [1, 2, 8] {
        let yaml = format!("workerPool: {{maxThreads: {workers}}}");
        let what = format!("{} with {workers} workers", recording.name);

        let stage = Stage::new(&recording.capture).await;
        let written = stage.finish(&yaml).await;
        match &first {
            None => {
                assert_expected(&what, written.data(), &recording.events);
                assert_ids_are_the_blocks(&written);
                let client = &mut stage.client().await;
                assert_dead_letters(client, &stage.keys, &written).await;
            }
            Some(first) => written.assert_same(first, &what),
        }
        let first = first.get_or_insert(written);

        let stage = Stage::new(&recording.capture).await;
        let written = stage.finish(&format!("{yaml}\nstreamIds: auto")).await;
        written.assert_same_data(first, &format!("{what}, auto ids"));
    }

    let first = first.expect("a run");
    assert_decoded_alike(recording.name, &recording.capture, &first);
}

/// `capture decode` gives the same events without Redis.
fn assert_decoded_alike(name: &str, capture: &Capture, written: &Written) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.shipcap.zst");
    capture.save(&file).expect("saved");
    let decoded = Command::new(env!("CARGO_BIN_EXE_parser")).args(["capture", "decode"]).arg(&file).output();
    let decoded = decoded.expect("the command runs");
    assert!(decoded.status.success(), "{}", String::from_utf8_lossy(&decoded.stderr));
    let lines = std::str::from_utf8(&decoded.stdout).expect("text").lines();
    assert!(written.data().eq(lines), "{}: `capture decode` gives something else", name);
}

/// The first part of an id is the block's number, or, where a fork goes back, the highest one before it; the second
/// one counts from 1.
fn assert_ids_are_the_blocks(written: &Written) {
    let (mut highest, mut count) = (0, 0);
    for (id, data) in &written.events {
        let event = Envelope::read(data);
        // A fork's entry goes with the block that follows the one it names.
        let block = event.block_num.or(event.forked_from_block.map(|num| num + 1)).expect("a block");
        count = if block > highest { 1 } else { count + 1 };
        highest = highest.max(block);
        assert_eq!(*id, format!("{highest}-{count}"));
    }
}

/// Whatever could not be decoded is a dead letter under its event's id, but for contracts known to have no ABI.
async fn assert_dead_letters(client: &mut MultiplexedConnection, keys: &Keys, written: &Written) {
    let letters = written::dead_letters(client, keys).await;
    let mut letters = letters.iter();
    let mut failures = std::collections::BTreeMap::<String, u64>::new();
    for (id, data) in &written.events {
        let event = Envelope::read(data);
        let Some(error) = event.decode_error.filter(|error| error.reason != "no_abi") else { continue };
        let (letter_id, fields) = letters.next().unwrap_or_else(|| panic!("no dead letter for {data}"));
        assert_eq!(letter_id, id);
        let field = |name: &str| fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        for (name, expected) in [
            ("data", Some(data.as_str())),
            ("failureCount", Some("1")),
            ("lastError", Some(error.message.as_str())),
            ("subId", Some("parser")),
            ("reason", Some(error.reason.as_str())),
            ("contract", event.account.or(event.code).as_deref()),
            ("raw", event.raw.as_deref()),
        ] {
            assert_eq!(field(name), expected, "{name} of {data}");
        }
        *failures.entry(event.event_id).or_default() += 1;
    }
    assert_eq!(letters.next(), None);
    let counted: std::collections::BTreeMap<String, u64> =
        redis::cmd("HGETALL").arg(keys.failures("parser")).query_async(client).await.expect("HGETALL");
    assert_eq!(counted, failures);
}

#[tokio::test(flavor = "multi_thread")]
async fn bundled_mixed() {
    comes_out_as_expected(&Recording::bundled("mixed-100")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bundled_fork() {
    comes_out_as_expected(&Recording::bundled("fork-240")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_mixed() {
    if let Some(recording) = Recording::shared("mixed") {
        comes_out_as_expected(&recording).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_fork() {
    if let Some(recording) = Recording::shared("fork") {
        comes_out_as_expected(&recording).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_spring() {
    if let Some(recording) = Recording::shared("spring") {
        comes_out_as_expected(&recording).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_load() {
    if let Some(recording) = Recording::shared("load") {
        comes_out_as_expected(&recording).await;
    }
}

/// The expected events cover only its beginning: the rest must be the same with any number of workers.
#[tokio::test(flavor = "multi_thread")]
async fn shared_load_to_its_end() {
    let Some(capture) = support::captures::recorded("load") else { return };
    let written = undisturbed(&capture, "workerPool: {maxThreads: 1}").await;
    undisturbed(&capture, "workerPool: {maxThreads: 8}").await.assert_same(&written, "load, 8 workers");
    assert_decoded_alike("load", &capture, &written);
}

#[tokio::test(flavor = "multi_thread")]
async fn irreversible_blocks_alone_have_no_forks() {
    let Recording { capture, events, .. } = Recording::bundled("fork-240");
    let irreversible = |frame| {
        BlockResult::decode(frame, &capture.protocol).map_or(0, |result| result.last_irreversible.num)
    };
    let last = capture.frames.iter().map(irreversible).max().expect("blocks");
    let stage = Stage::new(&capture).await;
    let stop = last.to_string();
    stage.parser_with("startBlock: 1\nirreversibleOnly: true", &["--stop-block", &stop]).ended_with(0).await;

    // CHAIN:KIND:BLOCK:ID16:…; of a height that came more than once, the block that came last stands.
    let block = |event: &str| {
        let event_id = Envelope::read(event).event_id;
        let mut parts = event_id.split(':').skip(1);
        let (kind, num) =
            (parts.next().unwrap_or("").to_owned(), parts.next().and_then(|num| num.parse().ok()));
        (kind, num.unwrap_or(0u32), parts.next().unwrap_or("").to_owned())
    };
    let mut standing = HashMap::new();
    for (_, num, id) in events.iter().map(|event| block(event)).filter(|(kind, ..)| kind != "f") {
        standing.insert(num, id);
    }
    let stands = |event: &String| {
        let (kind, num, id) = block(event);
        kind != "f" && num <= last && standing.get(&num) == Some(&id)
    };
    let expected: Vec<String> = events.iter().filter(|event| stands(event)).cloned().collect();
    assert!(expected.len() > 1000);
    assert_expected("irreversible blocks", stage.written().await.data(), &expected);
}
