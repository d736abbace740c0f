//! The expected events beside each capture, and what in them is left open.

use std::path::{Path, PathBuf};

use parser::capture::file::Capture;
use serde::Deserialize;

use super::captures;
use super::json::Json;

/// A capture and the events it must give.
pub struct Recording {
    pub name: &'static str,
    pub capture: Capture,
    pub events: Vec<String>,
}

impl Recording {
    /// One that comes with the project.
    pub fn bundled(name: &'static str) -> Recording {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        Recording::load(name, &path.join(format!("{name}.shipcap.zst")))
    }

    /// One of those beside the project; none where they are missing.
    pub fn shared(name: &'static str) -> Option<Recording> {
        let mut recording = Recording::load(name, &captures::shared(&format!("{name}.shipcap.zst"))?);
        if name == "load" {
            // Its expected events end there.
            recording.capture = until_block(&recording.capture, 600);
        }
        Some(recording)
    }

    fn load(name: &'static str, path: &Path) -> Recording {
        let capture = Capture::load(path).expect("a capture");
        let file = std::fs::File::open(path.with_file_name(format!("{name}.expected.ndjson.zst")));
        let bytes = zstd::decode_all(file.expect("its expected events")).expect("zstd");
        let events = String::from_utf8(bytes).expect("text").lines().map(str::to_owned).collect();
        Recording { name, capture, events }
    }
}

/// The frames up to the first one of that block. For captures without forks.
pub fn until_block(capture: &Capture, last: u32) -> Capture {
    let mut cut = capture.clone();
    let beyond =
        |frame: &bytes::Bytes| captures::block(frame, &capture.protocol).is_some_and(|b| b.num > last);
    let end = cut.frames.iter().position(beyond).unwrap_or(cut.frames.len());
    cut.frames.truncate(end);
    cut
}

/// What an event says of itself.
#[derive(Deserialize)]
pub struct Envelope {
    pub event_id: String,
    pub block_num: Option<u64>,
    pub forked_from_block: Option<u64>,
    pub account: Option<String>,
    pub code: Option<String>,
    pub raw: Option<String>,
    pub decode_error: Option<DecodeError>,
}

#[derive(Deserialize)]
pub struct DecodeError {
    pub reason: String,
    pub message: String,
}

impl Envelope {
    pub fn read(event: &str) -> Envelope {
        serde_json::from_str(event).unwrap_or_else(|error| panic!("{error}: {event}"))
    }
}

/// The event as far as it must be equal.
pub fn comparable(event: &str) -> Json {
    let mut json = Json::parse(event);
    if let Some(error) = json.get_mut("decode_error") {
        if let Some(Json::Text(reason)) = error.get_mut("reason")
            && reason == "invalid"
        {
            *reason = "truncated".to_owned();
        }
        if let Some(Json::Text(message)) = error.get_mut("message") {
            message.clear();
        }
    }
    json
}

/// Checks that these are the expected events, in order, with their fields in order.
pub fn assert_expected<'a>(what: &str, events: impl IntoIterator<Item = &'a str>, expected: &[String]) {
    let mut count = 0;
    for (i, event) in events.into_iter().enumerate() {
        let Some(expected) = expected.get(i) else { panic!("{what}: more than the expected: {event}") };
        // Mostly they are equal to the byte. (And the reader goes no deeper than 128 levels.)
        let equal = event == expected || comparable(event) == comparable(expected);
        assert!(equal, "{what}, event {i}:\n{event}\nexpected:\n{expected}");
        count += 1;
    }
    assert_eq!(count, expected.len(), "{what}: events");
}
