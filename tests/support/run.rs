//! `parser run` as a process, into a real Redis, and what it left there.
#![allow(dead_code)] // Not every test uses all of it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use parser::block::Checksum;
use parser::keys::Keys;
use redis::aio::MultiplexedConnection;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::redis::TestRedis;

/// Nothing here takes so long.
const LIMIT: Duration = Duration::from_secs(60);

/// A running parser; killed when dropped.
pub struct Parser {
    folder: TempDir,
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
    /// What it said so far.
    pub said: String,
}

/// A configuration: node, Redis and further lines of YAML.
pub fn config(nodes: &[&str], redis: &TestRedis, further: &str) -> String {
    format!(
        "ship: {{url: [{}], timeoutMs: 3000}}\nredis: {{url: '{}'}}\nreconnect: {{backoffSeconds: [0.05]}}\n{further}\n",
        nodes.iter().map(|url| format!("'{url}'")).collect::<Vec<_>>().join(", "),
        redis.url()
    )
}

impl Parser {
    pub fn start(config: &str, arguments: &[&str]) -> Parser {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("parser.yaml");
        std::fs::write(&file, config).expect("written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_parser"))
            .arg("run")
            .arg("--config")
            .arg(&file)
            .args(arguments)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the parser starts");
        let stderr = BufReader::new(child.stderr.take().expect("stderr"));
        let (said, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        Parser { folder, child, lines, said: String::new() }
    }

    /// Reads what it says until a line with this in it.
    pub async fn says(&mut self, text: &str) {
        let wait = async {
            while let Some(line) = self.lines.recv().await {
                self.said += &line;
                self.said.push('\n');
                if line.contains(text) {
                    return;
                }
            }
            panic!("it ended without saying `{text}`:\n{}", self.said);
        };
        if tokio::time::timeout(LIMIT, wait).await.is_err() {
            panic!("it does not say `{text}`");
        }
    }

    /// Waits for its end: exit status and all it said.
    pub async fn ended(mut self) -> (Option<i32>, String) {
        let wait = async {
            while let Some(line) = self.lines.recv().await {
                self.said += &line;
                self.said.push('\n');
            }
            // Its stderr is closed: it ends.
            self.child.wait().expect("its end")
        };
        match tokio::time::timeout(LIMIT, wait).await {
            Ok(status) => (status.code(), std::mem::take(&mut self.said)),
            Err(_) => panic!("it does not end:\n{}", self.said),
        }
    }

    /// SIGTERM, and its end.
    pub async fn stopped(self) -> String {
        self.signal("TERM");
        let (status, said) = self.ended().await;
        assert_eq!(status, Some(0), "{said}");
        said
    }

    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let sent = std::process::Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.expect("kill").success());
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Parser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs it to its end, which must be a good one.
pub async fn run(config: &str, arguments: &[&str]) -> String {
    let (status, said) = Parser::start(config, arguments).ended().await;
    assert_eq!(status, Some(0), "{said}");
    said
}

pub fn keys(chain_id: &Checksum) -> Keys {
    Keys::new("parser2", chain_id, "")
}

/// A stream's entries: id and fields.
pub async fn entries(client: &mut MultiplexedConnection, key: &str) -> Vec<(String, Vec<(String, String)>)> {
    redis::cmd("XRANGE").arg((key, "-", "+")).query_async(client).await.expect("XRANGE")
}

/// All events: entry id and JSON.
pub async fn events(redis: &TestRedis, chain_id: &Checksum) -> Vec<(String, Value)> {
    let entries = entries(&mut redis.client().await, &keys(chain_id).events).await;
    let event = |(id, fields): (String, Vec<(String, String)>)| {
        assert_eq!((fields.len(), fields[0].0.as_str()), (1, "data"));
        (id, serde_json::from_str(&fields[0].1).expect("JSON"))
    };
    entries.into_iter().map(event).collect()
}

/// Waits until block `num` is published whole.
pub async fn published(redis: &TestRedis, chain_id: &Checksum, num: u32) {
    let (mut client, sync) = (redis.client().await, keys(chain_id).sync);
    let wait = async {
        loop {
            let fields: (Option<u32>, Option<u64>) = redis::cmd("HMGET")
                .arg((&sync, "block_num", "part"))
                .query_async(&mut client)
                .await
                .expect("HMGET");
            if fields == (Some(num), None) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(LIMIT, wait).await.is_err() {
        panic!("block {num} does not come");
    }
}

/// A sorted set: members with their scores.
pub async fn sorted_set(redis: &TestRedis, key: &str) -> Vec<(String, f64)> {
    let mut client = redis.client().await;
    redis::cmd("ZRANGE").arg((key, 0, -1, "WITHSCORES")).query_async(&mut client).await.expect("ZRANGE")
}
