//! A chain with data that cannot be decoded, published, and the commands over what was published.

use std::process::{Command, Stdio};

use parser::name::Name;
use redis::aio::MultiplexedConnection;
use serde_json::Value;
use tempfile::TempDir;

use crate::made::{CHAIN, Made, position, protocol};
use crate::node::ScriptedNode;
use crate::redis::TestRedis;
use crate::run::{Parser, config, keys, published};

/// Begins at block 10; eosio's own actions are left out.
pub const FROM_10: &str = "startBlock: 10\nfilters: {exclude: [{kind: action, account: eosio}]}";

/// A node that has sent these blocks, and a Redis.
pub struct Stage {
    pub redis: TestRedis,
    pub node: ScriptedNode,
    folder: TempDir,
    further: String,
    last: u32,
}

/// What a command gave: its exit status, stdout and stderr.
pub struct Ended {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Stage {
    pub async fn new(blocks: &[Made], further: &str) -> Stage {
        Stage::with(TestRedis::start().await, blocks, further).await
    }

    /// `further` is more configuration, for parser and commands.
    pub async fn with(redis: TestRedis, blocks: &[Made], further: &str) -> Stage {
        let protocol = protocol();
        let frames = blocks.iter().map(|made| made.frame(&protocol)).collect();
        let last = blocks.last().expect("a block").this.num;
        let head = position(last, 0);
        let node = ScriptedNode::start(head, vec![frames]).await;
        let folder = tempfile::tempdir().expect("a folder");
        Stage { redis, node, folder, further: further.to_owned(), last }
    }

    /// The configuration.
    pub fn yaml(&self) -> String {
        config(&[self.node.url()], &self.redis, &self.further)
    }

    pub fn parser(&self) -> Parser {
        Parser::start(&self.yaml(), &[])
    }

    /// Publishes all, and leaves no parser behind.
    pub async fn publish(&self) {
        let mut parser = self.parser();
        // Else it could be stopped before it listens to signals.
        parser.says("reading blocks").await;
        self.published().await;
        parser.stopped().await;
    }

    /// Waits until all is published.
    pub async fn published(&self) {
        self.node.until(|node| node.counts().1 > 0).await;
        published(&self.redis, &CHAIN, self.last).await;
    }

    /// Runs a command with the stage's configuration.
    pub async fn run(&self, arguments: &[&str]) -> Ended {
        self.run_with(&self.yaml(), arguments).await
    }

    /// With another one.
    pub async fn run_with(&self, yaml: &str, arguments: &[&str]) -> Ended {
        let mut command = self.command(yaml, arguments);
        let ended = tokio::task::spawn_blocking(move || command.output().expect("the parser starts"));
        let output = ended.await.expect("its end");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        Ended {
            status: output.status.code().expect("a status"),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// A command to be started.
    pub fn command(&self, yaml: &str, arguments: &[&str]) -> Command {
        let file = self.folder.path().join(format!("{:016x}.yaml", fastrand::u64(..)));
        std::fs::write(&file, yaml).expect("a configuration file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_parser"));
        command.args(arguments).arg("--config").arg(&file).env_remove("RUST_LOG").stdin(Stdio::null());
        command
    }

    /// A file beside the configuration; gives its path.
    pub fn file(&self, name: &str, content: &[u8]) -> String {
        let file = self.folder.path().join(name);
        std::fs::write(&file, content).expect("written");
        file.display().to_string()
    }

    pub async fn client(&self) -> MultiplexedConnection {
        self.redis.client().await
    }

    /// Puts an ABI into the history.
    pub async fn put_abi(&self, contract: Name, block: u32, abi: &[u8]) {
        let version = parser::history::Version::new(
            parser::history::Since { block, sequence: parser::history::Since::BEFORE },
            abi,
        );
        redis::cmd("ZADD")
            .arg((keys(&CHAIN).abi(contract), block, version.member()))
            .exec_async(&mut self.client().await)
            .await
            .expect("ZADD");
    }
}

impl Ended {
    /// Checks that it went well; what it printed.
    pub fn done(self) -> String {
        assert_eq!(self.status, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// Checks that it failed in that way; what it said.
    pub fn failed(self, status: i32) -> String {
        assert_eq!(self.status, status, "{}{}", self.out, self.err);
        self.err
    }

    /// Its output as lines of JSON.
    pub fn lines(self) -> Vec<Value> {
        self.done().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}
