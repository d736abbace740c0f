//! A Redis with what a parser left in it, and the program as a person calls it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ::redis::FromRedisValue;
use ::redis::aio::MultiplexedConnection;
use parser::block::Checksum;
use parser::capture::file::Capture;
use parser::capture::serve::{ServeOptions, Server};
use parser::keys::Keys;
use serde_json::Value;
use tempfile::TempDir;

use crate::captures::serve;
use crate::redis::TestRedis;
use crate::run;

pub struct World {
    pub redis: TestRedis,
    pub client: MultiplexedConnection,
    pub keys: Keys,
    pub folder: TempDir,
    yaml: String,
}

/// How a call ended.
#[derive(Debug)]
pub struct Called {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

/// A recording that is in the repository.
pub fn bundled(name: &str) -> Capture {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.shipcap.zst"));
    Capture::load(&path).expect("a capture")
}

// === impl World ===

impl World {
    /// An empty Redis.
    pub async fn empty(chain_id: &Checksum) -> World {
        World::new(TestRedis::start().await, chain_id, "ws://127.0.0.1:1", "").await
    }

    /// What a parser publishes of blocks 1 to 100 of the mixed recording; the node stays.
    pub async fn mixed(further: &str) -> (World, Server) {
        let capture = bundled("mixed-100");
        let node = serve(&capture, ServeOptions::default()).await;
        let redis = TestRedis::start().await;
        let chain_id = capture.status.chain_id.expect("a chain id");
        let world = World::new(redis, &chain_id, node.url(), &format!("startBlock: first\n{further}")).await;
        run::run(&world.yaml, &["--stop-block", "100"]).await;
        (world, node)
    }

    pub async fn new(redis: TestRedis, chain_id: &Checksum, node: &str, further: &str) -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let yaml = run::config(&[node], &redis, further);
        std::fs::write(folder.path().join("parser.yaml"), &yaml).expect("written");
        let client = redis.client().await;
        World { redis, client, keys: run::keys(chain_id), folder, yaml }
    }

    pub fn yaml(&self) -> &str {
        &self.yaml
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).expect("written");
    }

    /// A Redis command.
    pub async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = ::redis::cmd(words[0]);
        command.arg(&words[1..]);
        command
            .query_async(&mut self.client.clone())
            .await
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Calls the program with these words, in the folder of its configuration; `--config` goes behind the words.
    pub async fn call(&self, words: &[&str]) -> Called {
        self.call_with(&[words, &["--config", "parser.yaml"]].concat(), "").await
    }

    /// Calls the program with exactly these words and that input.
    pub async fn call_with(&self, words: &[&str], input: &str) -> Called {
        self.write("stdin", input);
        let mut command = Command::new(env!("CARGO_BIN_EXE_parser"));
        command
            .args(words)
            .current_dir(self.folder.path())
            .env_remove("RUST_LOG")
            .stdin(std::fs::File::open(self.path("stdin")).expect("written"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // The node of this test must be able to answer meanwhile.
        let done =
            tokio::task::spawn_blocking(move || command.output().expect("it starts")).await.expect("it ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Called { status: done.status.code(), out: text(done.stdout), err: text(done.stderr) }
    }

    /// Calls it with `--json`; it must succeed.
    pub async fn json(&self, words: &[&str]) -> Value {
        let out = self.succeed(&[words, &["--json"]].concat()).await;
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{words:?}: {error}: {out}"))
    }

    /// What it prints; it must succeed.
    pub async fn succeed(&self, words: &[&str]) -> String {
        let called = self.call(words).await;
        assert_eq!(called.status, Some(0), "{words:?}: {called:?}");
        called.out
    }

    /// What it says on stderr; it must end with that status.
    pub async fn fail(&self, status: i32, words: &[&str]) -> String {
        let called = self.call(words).await;
        assert_eq!(called.status, Some(status), "{words:?}: {called:?}");
        called.err
    }
}
