//! The walk over real frames cut anywhere, with lengths that lie, and over a frame of a public chain.

mod captures;
#[path = "support/lines.rs"]
mod lines;
#[path = "support/made.rs"]
mod made;

use bytes::Bytes;
use captures::shared;
use lines::Lines;
use parser::capture::file::Capture;
use parser::event::Style;
use parser::plan::{Plan, PlanError, Selection};
use parser::ship::message::BlockResult;
use parser::ship::protocol::Protocol;
use serde_json::{Value, json};

/// Recorded frames that are not too long to be cut at every byte.
fn frames() -> (std::sync::Arc<Protocol>, Vec<Bytes>) {
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mixed-100.shipcap.zst");
    let capture = Capture::load(bundled.as_ref()).expect("a capture");
    let frames = capture.frames.into_iter().filter(|frame| frame.len() < 6000);
    (capture.protocol, frames.collect())
}

fn plan(protocol: &Protocol, block: &[u8], traces: Bytes, deltas: Bytes) -> Result<Plan, PlanError> {
    Plan::new(protocol, &Selection::default(), block, traces, deltas)
}

#[test]
fn every_shortened_frame_is_an_error_with_its_offset() {
    let (protocol, frames) = frames();
    assert!(frames.len() > 50);
    let mut cuts = 0;
    for frame in &frames {
        let result = BlockResult::decode(frame, &protocol).expect("a block");
        for end in 0..frame.len() {
            let error =
                BlockResult::decode(&frame.slice(..end), &protocol).expect_err("cut short").to_string();
            assert!(error.contains("byte"), "{error}");
        }
        let (block, none) = (result.block.expect("a block"), Bytes::new());
        for end in 0..12 {
            let error = plan(&protocol, &block[..end], none.clone(), none.clone()).err().expect("no header");
            assert!(matches!(error, PlanError::Header(_)) && error.to_string().contains("byte"), "{error}");
        }
        let (traces, deltas) = (result.traces.unwrap_or_default(), result.deltas.expect("deltas"));
        for end in 1..traces.len() {
            let error = plan(&protocol, &block, traces.slice(..end), none.clone()).err().expect("cut short");
            assert!(matches!(error, PlanError::Traces(_)) && error.to_string().contains("byte"), "{error}");
        }
        for end in 1..deltas.len() {
            let error = plan(&protocol, &block, none.clone(), deltas.slice(..end)).err().expect("cut short");
            assert!(matches!(error, PlanError::Deltas(_)) && error.to_string().contains("byte"), "{error}");
        }
        // And too long.
        let longer: Bytes = [&deltas[..], &[0]].concat().into();
        let error = plan(&protocol, &block, none.clone(), longer).err().expect("too long");
        assert!(error.to_string().contains("1 bytes behind the end of the deltas"), "{error}");
        cuts += frame.len() + traces.len() + deltas.len();
    }
    assert!(cuts > 100_000, "{cuts}");
}

#[test]
fn a_table_whose_name_would_break_the_events_is_refused() {
    let protocol = made::protocol();
    for table in ["a\"b", "a\\b", "a\nb", "a b", "ä"] {
        let result = made::block(10, 0).delta(table, true, vec![0]).result(&protocol);
        let block = result.block.expect("a block");
        let error =
            plan(&protocol, &block, Bytes::new(), result.deltas.expect("deltas")).err().expect("refused");
        assert!(error.to_string().ends_with("a table's name is no plain text at byte 2"), "{error}");
    }
}

#[test]
fn a_contracts_row_that_is_not_whole_is_an_error_and_not_left_out() {
    let protocol = made::protocol();
    let whole = made::block(10, 0).row("game", 1, &[1, 2, 3]).tables[0].1[0].1.clone();
    let rows = |row: &[u8]| {
        let result = made::block(10, 0).delta("contract_row", true, row.to_vec()).result(&protocol);
        let block = result.block.expect("a block");
        plan(&protocol, &block, Bytes::new(), result.deltas.expect("deltas")).map(|plan| plan.entries())
    };
    assert_eq!(rows(&whole).ok(), Some(1));
    for end in 0..whole.len() {
        let error = rows(&whole[..end]).expect_err("cut short").to_string();
        assert!(
            error.contains("bytes needed at byte") && error.contains("a row that does not read"),
            "{error}"
        );
    }
    let error = rows(&[&whole[..], &[0]].concat()).expect_err("too long").to_string();
    assert!(error.contains("1 bytes behind the end of the row"), "{error}");
    let mut later = whole;
    later[0] = 1;
    let error = rows(&later).expect_err("unknown").to_string();
    assert!(error.contains("contract_row of unknown variant 1"), "{error}");
}

#[test]
fn lengths_that_lie_cost_no_memory() {
    let (protocol, frames) = frames();
    let huge = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let before = peak_kib();
    for frame in frames.iter().step_by(3) {
        let result = BlockResult::decode(frame, &protocol).expect("a block");
        let block = result.block.expect("a block");
        let parts = [result.traces.unwrap_or_default(), result.deltas.expect("deltas")];
        // The largest number, in place of every byte and those behind it, or of the byte alone.
        let lie = |bytes: &[u8], at: usize, wide: bool| -> Bytes {
            let rest = if wide { bytes.get(at + huge.len()..).unwrap_or_default() } else { &bytes[at + 1..] };
            [&bytes[..at], &huge, rest].concat().into()
        };
        for wide in [false, true] {
            for at in 0..frame.len() {
                let _ = BlockResult::decode(&lie(frame, at, wide), &protocol);
            }
            for at in 0..parts[0].len() {
                let _ = plan(&protocol, &block, lie(&parts[0], at, wide), Bytes::new());
            }
            for at in 0..parts[1].len() {
                let _ = plan(&protocol, &block, Bytes::new(), lie(&parts[1], at, wide));
            }
        }
    }
    if let (Some(before), Some(after)) = (before, peak_kib()) {
        assert!(after - before < 64 << 10, "{before} KiB before, {after} KiB after");
    }
}

/// The most memory this process ever had.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[tokio::test]
async fn a_block_of_a_public_chain_is_read_as_by_another_decoder() {
    let (Some(hex), Some(apart)) = (shared("public/wax_300000000.hex"), shared("public/wax_300000000.json"))
    else {
        return;
    };
    let hex = std::fs::read_to_string(hex).expect("text");
    let frame = parser::hex::parse(hex.trim()).expect("hex");
    let apart: Value = serde_json::from_slice(&std::fs::read(apart).expect("a file")).expect("JSON");
    let mut lines = Lines::new(made::protocol().into(), made::CHAIN, Selection::default(), Style::default());
    let events = lines.take(&frame.into()).await.expect("taken").expect("new");

    // Rows of contracts: what names them, and their bytes (no ABI of theirs is known here).
    let table = |name: &str| {
        let tables = apart["deltas"].as_array().expect("a list").iter();
        tables
            .filter(|t| t["name"] == name)
            .flat_map(|t| t["rows"].as_array().expect("rows"))
            .collect::<Vec<_>>()
    };
    let rows: Vec<&Value> = events.iter().filter(|event| event["kind"] == "delta").collect();
    let expected = table("contract_row");
    assert_eq!((rows.len(), expected.len()), (11, 11));
    for (row, expected) in rows.iter().zip(expected) {
        let fields = &expected["row"][1];
        for field in ["code", "scope", "table", "payer"] {
            assert_eq!(row[field], fields[field]);
        }
        assert_eq!(row["primary_key"], json!(fields["primary_key"].to_string()));
        assert_eq!(row["present"], expected["present"]);
        assert_eq!(row["raw"], fields["value"]);
    }
    assert!(rows.iter().any(|row| row["scope"] == ""), "an empty scope");

    // Actions: all with a receipt, in order of execution; notifications are told of.
    let traces = apart["traces"].as_array().expect("a list").iter().filter(|trace| trace[1]["status"] == 0);
    let actions = traces.flat_map(|trace| trace[1]["action_traces"].as_array().expect("a list"));
    let mut ran: Vec<&Value> = actions.map(|action| &action[1]).filter(|a| !a["receipt"].is_null()).collect();
    ran.sort_by_key(|action| action["receipt"][1]["global_sequence"].as_u64());
    let of = |action: &Value| action["receipt"][1]["global_sequence"].to_string();
    let published: Vec<&Value> = events.iter().filter(|event| event["kind"] == "action").collect();
    let told: usize = published.iter().map(|event| event["notified"].as_array().expect("a list").len()).sum();
    assert_eq!(published.len() + told, ran.len());
    for event in published {
        let action = ran.iter().find(|action| event["global_sequence"] == json!(of(action))).expect("it ran");
        assert_eq!((&event["account"], &event["name"]), (&action["act"]["account"], &action["act"]["name"]));
        assert_eq!(event["raw"], action["act"]["data"]);
        let receipt = &action["receipt"][1];
        assert_eq!(event["receipt"]["actDigest"], receipt["act_digest"]);
        assert_eq!(event["receipt"]["recvSequence"], json!(receipt["recv_sequence"].to_string()));
    }
    assert_eq!(events[0]["producer"], Value::Null);
    assert_eq!(events[0]["block_num"], 300_000_000);
    let slot = apart["block"]["timestamp_slot"].as_u64().expect("a number");
    // 946684800 is 2000-01-01; the time by `date -u -d @1694958762`.
    assert_eq!(946_684_800 + slot / 2, 1_694_958_762);
    assert_eq!(events[0]["block_time"], "2023-09-17T13:52:42.000Z");
}
