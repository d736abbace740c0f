//! The numbers, against what is known of the recordings.

use std::collections::HashMap;

use parser::capture::serve::{Faults, ServeOptions};
use serde::Deserialize;
use serde_json::Value;

use super::made::{self, block, go};
use super::support::captures;
use super::support::expected::Recording;
use super::support::redis::TestRedis;
use super::support::stage::Stage;
use super::support::until;
use super::{free_port, metrics, served, until_json};

/// Deeper than the library goes by itself.
fn read(event: &str) -> Value {
    let mut reader = serde_json::Deserializer::from_str(event);
    reader.disable_recursion_limit();
    Value::deserialize(&mut reader).expect("JSON")
}

/// How many of the expected events are so, by kind and by reason.
fn count(events: &[String]) -> (HashMap<String, f64>, HashMap<String, f64>) {
    let (mut kinds, mut reasons) = (HashMap::new(), HashMap::new());
    for event in events {
        let event = read(event);
        *kinds.entry(event["kind"].as_str().expect("a kind").to_owned()).or_default() += 1.0;
        if let Some(reason) = event["decode_error"]["reason"].as_str() {
            *reasons.entry(reason.to_owned()).or_default() += 1.0;
        }
    }
    (kinds, reasons)
}

fn of(told: &HashMap<String, f64>, name: &str, key: &str, value: &str) -> f64 {
    *told.get(&format!("{name}{{{key}=\"{value}\"}}")).unwrap_or(&0.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_are_what_the_recordings_hold() {
    for name in ["mixed-100", "fork-240"] {
        let recording = Recording::bundled(name);
        let stage = Stage::new(&recording.capture).await;
        let port = free_port();
        let mut parser = stage.parser(&served(port));
        stage.done(&mut parser).await;
        let results = recording.capture.frames.len() as f64;
        let told = until("all counted", async || {
            let told = metrics(port).await;
            (told["parser2_blocks_processed_total"] == results).then_some(told)
        })
        .await;
        let (kinds, reasons) = count(&recording.events);
        for kind in ["action", "delta", "native-delta", "fork", "block"] {
            let expected = kinds.get(kind).copied().unwrap_or(0.0);
            assert_eq!(of(&told, "parser2_events_published_total", "kind", kind), expected, "{name} {kind}");
        }
        let mut letters = 0.0;
        for reason in ["no_abi", "abi_unknown", "bad_abi", "unknown_type"] {
            let expected = reasons.get(reason).copied().unwrap_or(0.0);
            assert_eq!(
                of(&told, "parser2_decode_failures_total", "reason", reason),
                expected,
                "{name} {reason}"
            );
            letters += if reason == "no_abi" { 0.0 } else { expected };
        }
        // Where one of these two can be said, the other can, too.
        let (mut cut, mut cut_letters) = (0.0, 0.0);
        for reason in ["truncated", "invalid"] {
            cut += of(&told, "parser2_decode_failures_total", "reason", reason);
            cut_letters += of(&told, "parser2_dead_letters_total", "reason", reason);
        }
        let expected: f64 = ["truncated", "invalid"].iter().filter_map(|reason| reasons.get(*reason)).sum();
        assert_eq!((cut, cut_letters), (expected, expected), "{name}");
        let dead: u64 = redis::cmd("XLEN")
            .arg(&stage.keys.dead_parser)
            .query_async(&mut stage.client().await)
            .await
            .expect("XLEN");
        assert_eq!(dead as f64, letters + cut, "{name}");
        assert_eq!(told["parser2_forks_total"], kinds.get("fork").copied().unwrap_or(0.0), "{name}");
        let removed = recording.events.iter().map(|event| {
            let event = read(event);
            event["removed"].as_array().map_or(0, Vec::len)
        });
        assert_eq!(told["parser2_fork_removed_blocks_total"], removed.sum::<usize>() as f64, "{name}");
        let bytes: usize = recording.capture.frames.iter().map(bytes::Bytes::len).sum();
        assert_eq!(told["parser2_received_bytes_total"], bytes as f64, "{name}");
        let length = stage.entries(&mut stage.client().await).await;
        assert_eq!(told["parser2_stream_length"], length as f64, "{name}");
        assert_eq!(length as usize, recording.events.len());
        // Which stage is slow: each block is seen in all of them.
        for stage in ["receive", "prepare", "decode", "wait", "publish"] {
            let seen = of(&told, "parser2_stage_duration_seconds_count", "stage", stage);
            assert!(seen >= results, "{name} {stage}: {seen}");
        }
        assert_eq!(told["parser2_block_processing_duration_seconds_count"], results, "{name}");
        assert!(of(&told, "parser2_queue_depth_count", "stage", "decode") >= results);
        assert_eq!(told["parser2_worker_pool_queue_depth"], 0.0, "{name}");
        assert!(told["parser2_redis_transaction_duration_seconds_count"] > 0.0);
        assert!(
            told["process_resident_memory_bytes"] > 1e6 && told.contains_key("process_cpu_seconds_total")
        );
        let last_frame = recording.capture.frames.last().expect("a frame");
        let last = captures::block(last_frame, &recording.capture.protocol);
        assert_eq!(told["parser2_published_block"], f64::from(last.expect("a block").num), "{name}");
        assert_eq!(told["parser2_indexing_lag_blocks"], 0.0, "{name}");
        let header = captures::result(last_frame, &recording.capture.protocol).block.expect("a block");
        let slot = u32::from_le_bytes(header[..4].try_into().expect("four bytes"));
        let age = parser::time::now().as_secs_f64() - (946_684_800.0 + f64::from(slot) / 2.0);
        let lag = told["parser2_indexing_lag_seconds"];
        assert!((0.0..60.0).contains(&(age - lag)), "{name}: {lag} of {age}");
        let (_, document) = until_json(port, "/state.json", "the document", |_| true).await;
        assert!(!document["contracts"].as_array().expect("contracts").is_empty());
        assert_eq!(document["forks"].as_array().expect("forks").is_empty(), name == "mixed-100");
        assert!(!document["abi_changes"].as_array().expect("changes").is_empty());
        parser.stopped().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_falls_silent_is_counted_and_its_successor_named() {
    let call = |num: u32| block(num, 0).acts(&[go("game", num.into(), 0, &[])]);
    let capture = made::capture(&(1..=60).map(call).collect::<Vec<_>>());
    let faults = Faults { stall_after_frames: Some(20), connections: Some(1), ..Faults::default() };
    let silent = captures::serve(&capture, ServeOptions { faults, ..ServeOptions::default() }).await;
    let stage = Stage::with(&capture, TestRedis::start().await, ServeOptions::default()).await;
    let port = free_port();
    let yaml = format!(
        "ship: {{url: ['{}', '{}'], timeoutMs: 300, silenceSeconds: 0.2}}\n{}",
        silent.url(),
        stage.node.url(),
        served(port)
    );
    let mut parser = stage.parser(&yaml);
    stage.done(&mut parser).await;
    let told = metrics(port).await;
    assert_eq!(told["parser2_node_reconnects_total"], 1.0);
    assert_eq!(of(&told, "parser2_node_endpoint_info", "endpoint", stage.node.url()), 1.0);
    let log = parser.stopped().await;
    assert_eq!(log.matches("the node stopped sending").count(), 1, "{log}");
}
