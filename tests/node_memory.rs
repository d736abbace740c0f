//! The largest messages: the first block after a snapshot holds the whole chain state.

mod captures;

use captures::{options, plain, serve};
use parser::capture::edit;
use parser::capture::serve::ServeOptions;
use parser::ship::node::Node;

const FRAME: usize = 300 << 20;

/// A line of `/proc/self/status`, in bytes; none on systems without it.
fn memory(line: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|l| l.strip_prefix(line))?;
    Some(value.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<usize>().ok()? << 10)
}

// Alone in its file: the peak is that of the whole process.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_300_mb_takes_little_more_than_its_size() {
    let mut capture = plain(2);
    capture.frames[0] = edit::change(&capture.frames[0], &capture.protocol, |result| {
        result.deltas = Some(vec![0xda; FRAME].into());
    });
    for fragment_bytes in [None, Some(4096), Some(1 << 20)] {
        let server = serve(&capture, ServeOptions { fragment_bytes, ..ServeOptions::default() }).await;
        let connection = Node::new(options(&[server.url()])).connect().await.expect("connected");
        let before = memory("VmRSS");
        // Sets the peak back to what is used now, where that is allowed.
        let measured = std::fs::write("/proc/self/clear_refs", "5").is_ok();
        let started = std::time::Instant::now();
        let (mut frames, _acks) = connection.request(1, None, &[]).await.expect("asked");
        let frame = frames.next().await.expect("a large block");
        assert!(frame.result.deltas.as_ref().is_some_and(|deltas| deltas.len() == FRAME));
        if let (true, Some(before), Some(peak)) = (measured, before, memory("VmHWM")) {
            let grown = peak.saturating_sub(before);
            println!("fragments {fragment_bytes:?}: {} MB in {:?}", grown >> 20, started.elapsed());
            assert!(grown < FRAME + (64 << 20), "{} MB for a frame of {} MB", grown >> 20, FRAME >> 20);
        }
    }
}
