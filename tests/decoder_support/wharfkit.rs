//! @wharfkit/antelope in a process of node's: `tests/wharfkit/decode.mjs`.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use parser::hex;
use serde_json::json;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wharfkit/decode.mjs");

/// The library, waiting for questions.
pub struct Library {
    node: Child,
    ask: Option<BufWriter<ChildStdin>>,
    answers: BufReader<ChildStdout>,
}

// === impl Library ===

impl Library {
    /// Starts it; none, and that is said, where node or the library is missing.
    pub fn start() -> Option<Library> {
        let ready = Command::new("node").arg(SCRIPT).stdin(Stdio::null()).output();
        if !ready.as_ref().is_ok_and(|output| output.status.success()) {
            println!(
                "skipped: node or @wharfkit/antelope is missing: `npm install` in tests/wharfkit, or elsewhere, \
                 PARSER_WHARFKIT naming its node_modules"
            );
            assert!(std::env::var_os("PARSER_WHARFKIT").is_none(), "PARSER_WHARFKIT is set: {ready:?}");
            return None;
        }
        let mut node = Command::new("node")
            .arg(SCRIPT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was started before");
        let (ask, answers) = (node.stdin.take().expect("piped"), node.stdout.take().expect("piped"));
        Some(Library { node, ask: Some(BufWriter::new(ask)), answers: BufReader::new(answers) })
    }

    /// The ABI of what is asked next, in JSON.
    pub fn abi(&mut self, json: &str) {
        self.write(&format!("{}\n", json!({"abi": json})));
    }

    /// The ABI of what is asked next, as `setabi` takes it.
    pub fn packed_abi(&mut self, bytes: &[u8]) {
        self.write(&format!("{}\n", json!({"abi": hex::lower(bytes), "packed": true})));
    }

    /// What it makes of bytes, each of a type: JSON, or what it says against them.
    pub fn ask(&mut self, values: &[(&str, &[u8])]) -> Vec<Result<String, String>> {
        let (ask, answers) = (self.ask.as_mut().expect("open"), &mut self.answers);
        std::thread::scope(|scope| {
            // Written apart: neither side may wait for the other with full pipes.
            scope.spawn(move || {
                for (kind, data) in values {
                    let line = json!({"type": kind, "data": hex::lower(data)});
                    writeln!(ask, "{line}").expect("written");
                }
                ask.flush().expect("written");
            });
            let answer = |_| {
                let mut line = String::new();
                answers.read_line(&mut line).expect("an answer");
                let line = line.trim_end_matches('\n');
                match line.strip_prefix('!') {
                    Some(message) => Err(message.to_owned()),
                    None => Ok(line.to_owned()),
                }
            };
            values.iter().map(answer).collect()
        })
    }

    fn write(&mut self, text: &str) {
        self.ask.as_mut().expect("open").write_all(text.as_bytes()).expect("written");
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        drop(self.ask.take());
        let _ = self.node.wait();
    }
}
