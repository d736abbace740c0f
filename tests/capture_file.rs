//! Capture files: whole ones, broken ones, recorded ones.

mod captures;

use std::io::Write;
use std::path::Path;

use captures::{id, made_up, options, plain, position, recorded, serve, shared};
use parser::capture::edit;
use parser::capture::file::{Capture, CaptureReader, CaptureWriter};
use parser::capture::info::{Info, info};
use parser::capture::record::{RecordOptions, record};
use parser::capture::serve::{Faults, ServeOptions};
use parser::config::StartBlock;
use parser::ship::message::BlockResult;

#[test]
fn a_file_is_read_as_it_was_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.shipcap.zst");
    let capture = plain(7);
    capture.save(&path).expect("written");
    let read = Capture::load(&path).expect("read");
    assert_eq!((read.abi, read.status, read.frames), (capture.abi, capture.status, capture.frames));
    assert!(!directory.path().join("a.shipcap.zst.part").exists());
}

#[test]
fn a_file_that_is_not_finished_holds_what_was_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.shipcap.zst");
    let capture = plain(7);
    let status = capture.status.encode(&capture.protocol);
    let mut writer = CaptureWriter::create(&path, &capture.abi, &status).expect("created");
    for frame in &capture.frames[..3] {
        writer.frame(frame).expect("written");
    }
    drop(writer);
    assert!(!path.exists());
    let read = Capture::load(&directory.path().join("a.shipcap.zst.part")).expect("read");
    assert_eq!(read.frames, capture.frames[..3]);
}

#[test]
fn a_directory_is_refused_before_anything_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a");
    std::fs::create_dir(&path).expect("a directory");
    let capture = plain(2);
    assert!(capture.save(&path).is_err());
    assert!(!directory.path().join("a.part").exists());
}

#[test]
fn every_recorded_frame_is_read_to_its_last_byte_and_packed_the_same() {
    for name in ["mixed", "spring", "fork", "load"] {
        let Some(path) = shared(&format!("{name}.shipcap.zst")) else { continue };
        let reader = CaptureReader::open(&path).expect("a capture");
        let protocol = reader.protocol.clone();
        for frame in reader {
            let frame = frame.expect("whole");
            let result = BlockResult::decode(&frame, &protocol).expect("to the last byte");
            assert!(result.encode(&protocol) == frame, "{name}: {:?}", result.this_block);
        }
    }
}

#[test]
fn the_numbers_are_those_noted_at_the_recording() {
    for name in ["mixed", "spring", "fork", "load"] {
        let (Some(path), Some(notes)) =
            (shared(&format!("{name}.shipcap.zst")), shared(&format!("{name}.notes.json")))
        else {
            continue;
        };
        let notes = std::fs::read_to_string(notes).expect("notes");
        let notes: Notes = serde_json::from_str(&notes).expect("JSON");
        let found = info(&path).expect("a capture");
        assert_eq!(found.chain_id, Some(notes.chain_id), "{name}");
        assert_eq!((found.frames, found.blocks), (notes.block_results, notes.distinct_block_nums), "{name}");
        assert_eq!((found.first_block, found.last_block), (Some(notes.first_block), Some(notes.last_block)));
        assert_eq!(found.empty_results, notes.results_without_this_block, "{name}");
        assert_eq!(found.without_traces, notes.blocks_without_traces, "{name}");
        assert_eq!(found.without_deltas, notes.blocks_without_deltas, "{name}");
        assert_eq!(found.largest_frame, notes.largest_frame, "{name}");
        if let Some(forks) = notes.forks {
            assert_eq!(found.forks, forks.len() as u64, "{name}");
        }
    }
}

/// The parts of a capture's notes that are numbers of it; others hold texts that are not UTF-8.
#[derive(serde::Deserialize)]
struct Notes {
    chain_id: String,
    block_results: u64,
    first_block: u32,
    last_block: u32,
    distinct_block_nums: u64,
    blocks_without_traces: u64,
    blocks_without_deltas: u64,
    results_without_this_block: u64,
    largest_frame: u64,
    forks: Option<Vec<serde::de::IgnoredAny>>,
}

#[test]
fn the_numbers_as_text() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.shipcap.zst");
    let mut capture = made_up(&[(5, 0), (6, 0), (6, 1), (7, 1)], 5);
    capture.frames[3] = edit::change(&capture.frames[3], &capture.protocol, |result| {
        result.this_block = None;
        result.deltas = None;
    });
    capture.save(&path).expect("written");
    let info = info(&path).expect("a capture");
    let expected = Info {
        chain_id: Some("07".repeat(32)),
        frames: 4,
        blocks: 2,
        first_block: Some(5),
        last_block: Some(6),
        last_irreversible: Some(5),
        forks: 1,
        empty_results: 1,
        ..info.clone()
    };
    assert_eq!(info, expected);
    let text = info.to_string();
    assert!(
        text.contains("blocks             2 (5 to 6)\n") && text.contains("forks              1\n"),
        "{text}"
    );
}

#[test]
fn relinked_frames() {
    let capture = plain(3);
    let frame = edit::relink(&capture.frames[2], &capture.protocol, position(9, 1), position(8, 1));
    let result = BlockResult::decode(&frame, &capture.protocol).expect("a block");
    assert_eq!((result.this_block, result.prev_block), (Some(position(9, 1)), Some(position(8, 1))));
    assert_eq!(result.block.expect("a block")[14..46], id(8, 1).0);
    assert_eq!(edit::marked(position(3, 4), 3, 0), position(3, 4));
    assert_ne!(edit::marked(position(3, 4), 3, 1), position(3, 4));
}

#[test]
fn broken_files_say_what_and_where() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("broken.shipcap.zst");
    let capture = plain(3);
    capture.save(&path).expect("written");
    let packed = std::fs::read(&path).expect("read");
    let plain = zstd::decode_all(&packed[..]).expect("zstd");
    let third = 5 + capture.abi.len() + 5 + 121;

    let fault = |bytes: &[u8]| -> String {
        std::fs::write(&path, bytes).expect("written");
        Capture::load(&path).expect_err("broken").to_string()
    };
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 0).expect("zstd");
    let mut no_kind = plain.clone();
    no_kind[third] = 3;
    let mut lying = plain.clone();
    lying[third + 1..third + 5].fill(0xff);
    let mut text = plain.clone();
    text[third] = 1;
    let record_2 = format!("record 2 at byte {third} (uncompressed): ");
    for (bytes, part) in [
        (b"{\"json\": true}".to_vec(), "does not begin as a zstd file does".to_owned()),
        (b"".to_vec(), "does not begin as a zstd file does".to_owned()),
        (packed[..packed.len() / 2].to_vec(), "the file is cut short here".to_owned()),
        (zstd(&plain[..third + 7]), format!("{record_2}the file is cut short here")),
        (zstd(&plain[..third + 2]), format!("{record_2}the file is cut short here")),
        (zstd(&no_kind), format!("{record_2}its kind is 3")),
        (zstd(&lying), format!("{record_2}the file is cut short here")),
        (zstd(&text), format!("{record_2}a text where a result frame should be")),
        (zstd(b""), "record 0 at byte 0 (uncompressed): the file ends where the protocol's ABI".to_owned()),
        (
            zstd(&plain[5 + capture.abi.len()..]),
            "record 0 at byte 0 (uncompressed): the protocol's ABI".to_owned(),
        ),
        (
            zstd(b"\x01\x02\0\0\0{}"),
            "record 0 at byte 0 (uncompressed): the node's first frame is not".to_owned(),
        ),
        (
            zstd(&[&plain[..5 + capture.abi.len()], &plain[third..]].concat()),
            "a block where the status result should be".to_owned(),
        ),
    ] {
        let error = fault(&bytes);
        assert!(error.contains(&part) && error.starts_with(&path.display().to_string()), "{error}\n{part}");
    }
    let missing = anyhow::Error::from(Capture::load(Path::new("no/such/file")).expect_err("missing"));
    assert_eq!(format!("{missing:#}"), "no/such/file: No such file or directory (os error 2)");

    // A file of several zstd frames is one file all the same.
    let mut file = std::fs::File::create(&path).expect("created");
    file.write_all(&zstd(&plain[..third])).expect("written");
    file.write_all(&zstd(&plain[third..])).expect("written");
    assert_eq!(Capture::load(&path).expect("whole").frames, capture.frames);
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_through_cut_connections_it_is_the_same_capture() {
    let Some(capture) = recorded("fork") else { return };
    let faults = Faults { cut_after_bytes: Some(0..300_000), ..Faults::default() };
    let server =
        serve(&capture, ServeOptions { faults, status_as_recorded: true, ..ServeOptions::default() }).await;
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("out.shipcap.zst");
    let mut last = Default::default();
    let options = RecordOptions {
        node: options(&[server.url()]),
        start: StartBlock::Number(1),
        stop: 469,
        out: out.clone(),
    };
    let done = record(options, |progress| last = progress).await.expect("recorded");
    assert_eq!((done, done.block, done.frames), (last, 469, 560));
    let again = Capture::load(&out).expect("whole");
    assert!(again.frames == capture.frames);
    assert_eq!((again.abi, again.status.chain_id), (capture.abi, capture.status.chain_id));
    assert!(server.connections() > 5);
}

#[tokio::test]
async fn what_cannot_be_recorded_is_said_and_leaves_no_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("out.shipcap.zst");
    let mut capture = plain(9);
    capture.frames.drain(..4);
    let server = serve(&capture, ServeOptions::default()).await;
    let options = |start, stop| RecordOptions {
        node: options(&[server.url()]),
        start: StartBlock::Number(start),
        stop,
        out: out.clone(),
    };
    let error = record(options(2, 9), |_| ()).await.expect_err("pruned").to_string();
    assert!(error.contains("block 2 is wanted, but the node's first one is 5"), "{error}");
    let error = record(options(9, 2), |_| ()).await.expect_err("backwards").to_string();
    assert_eq!(error, "the stop block 2 lies before the start block 9");
    assert!(!out.exists());
    record(options(6, 8), |_| ()).await.expect("recorded");
    assert_eq!(Capture::load(&out).expect("whole").frames, capture.frames[1..4]);
}
