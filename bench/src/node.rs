//! The node: `parser capture serve` as a process of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, ensure};

use crate::process::PATIENCE;

/// Killed when dropped.
pub struct Node {
    child: Child,
    url: String,
}

impl Node {
    /// Serves a capture with further arguments, such as `--endless`.
    pub fn serve(program: &Path, capture: &Path, arguments: &[&str]) -> Result<Node> {
        let mut child = Command::new(program)
            .args(["capture", "serve"])
            .arg(capture)
            .args(["--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("failed to start {}", program.display()))?;
        let out = child.stdout.take().context("it has a standard output")?;
        let mut node = Node { child, url: String::new() };
        // Printed once the capture is loaded.
        let (say, said) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = say.send(BufReader::new(out).read_line(&mut line).map(|_| line));
        });
        let line = said.recv_timeout(PATIENCE);
        node.url =
            line.with_context(|| format!("`capture serve {}` does not begin", capture.display()))??;
        node.url.truncate(node.url.trim_end().len());
        ensure!(node.url.starts_with("ws://"), "`capture serve {}` ended", capture.display());
        Ok(node)
    }

    /// `ws://…`
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `HOST:PORT`
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("ws://")
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
