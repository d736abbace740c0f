//! A node, a Redis, and parsers between them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parser::block::Position;
use parser::capture::file::Capture;
use parser::capture::serve::{Faults, ServeOptions, Server};
use parser::keys::Keys;
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

use super::captures;
use super::process::Process;
use super::redis::TestRedis;
use super::until;
use super::written::Written;

pub struct Stage {
    pub node: Server,
    pub redis: TestRedis,
    pub keys: Keys,
    /// The last block that the node sends.
    last: Position,
    folder: TempDir,
    processes: AtomicUsize,
}

impl Stage {
    /// A node that plays that capture, and an empty Redis.
    pub async fn new(capture: &Capture) -> Stage {
        Stage::with(capture, TestRedis::start().await, ServeOptions::default()).await
    }

    pub async fn with(capture: &Capture, redis: TestRedis, options: ServeOptions) -> Stage {
        let blocks: Vec<Position> =
            capture.frames.iter().filter_map(|frame| captures::block(frame, &capture.protocol)).collect();
        let last = *blocks.last().expect("a block");
        // Else it could not be told when all is published.
        assert_eq!(blocks.iter().filter(|block| **block == last).count(), 1);
        Stage {
            node: captures::serve(capture, options).await,
            redis,
            keys: Keys::new("parser2", &capture.status.chain_id.expect("a chain id"), ""),
            last,
            folder: tempfile::tempdir().expect("a folder"),
            processes: AtomicUsize::default(),
        }
    }

    /// The node waits so long before each result.
    pub fn slow(&self, delay: Duration) {
        self.node.set_faults(Faults { delay, ..Faults::default() });
    }

    /// Starts a parser that reads from block 1 on. `yaml` are further lines of its configuration.
    pub fn parser(&self, yaml: &str) -> Process {
        self.parser_with(&format!("startBlock: 1\n{yaml}"), &[])
    }

    /// Starts a parser with other words on its command line.
    pub fn parser_with(&self, yaml: &str, arguments: &[&str]) -> Process {
        let (ship, redis) = (self.node.url(), self.redis.url());
        let number = self.processes.fetch_add(1, Ordering::Relaxed);
        // A file written before is as good.
        let backoff = if yaml.contains("reconnect:") { "" } else { "reconnect: {backoffSeconds: [0.05]}\n" };
        let ship = if yaml.contains("ship:") { String::new() } else { format!("ship: {{url: '{ship}'}}\n") };
        let redis =
            if yaml.contains("redis:") { String::new() } else { format!("redis: {{url: '{redis}'}}\n") };
        let yaml = format!("{ship}{redis}{backoff}{yaml}");
        Process::start(self.folder.path(), &format!("parser-{number}"), &yaml, arguments)
    }

    pub async fn client(&self) -> MultiplexedConnection {
        self.redis.client().await
    }

    /// How many entries the events stream has.
    pub async fn entries(&self, client: &mut MultiplexedConnection) -> u64 {
        redis::cmd("XLEN").arg(&self.keys.events).query_async(client).await.expect("XLEN")
    }

    /// The checkpoint: block, its id, entries of it done where it is not whole.
    pub async fn checkpoint(
        &self,
        client: &mut MultiplexedConnection,
    ) -> (Option<u32>, Option<String>, Option<u64>) {
        let fields = ("block_num", "block_id", "part");
        redis::cmd("HMGET")
            .arg((&self.keys.sync, fields.0, fields.1, fields.2))
            .query_async(client)
            .await
            .expect("HMGET")
    }

    pub async fn is_done(&self, client: &mut MultiplexedConnection) -> bool {
        let (_, id, part) = self.checkpoint(client).await;
        id == Some(self.last.id.to_string()) && part.is_none()
    }

    /// Waits until the stream has so many entries or all is published. Says whether it is not all.
    pub async fn reached(&self, process: &mut Process, entries: u64) -> bool {
        let client = self.client().await;
        until("so many entries", async || {
            let client = &mut client.clone();
            if self.entries(client).await >= entries {
                return Some(!self.is_done(client).await);
            }
            assert!(process.is_running(), "the parser ended:\n{}", process.log());
            self.is_done(client).await.then_some(false)
        })
        .await
    }

    /// Waits until all is published.
    pub async fn done(&self, process: &mut Process) {
        let client = self.client().await;
        until("the last block", async || {
            assert!(process.is_running(), "the parser ended:\n{}", process.log());
            self.is_done(&mut client.clone()).await.then_some(())
        })
        .await;
    }

    /// Lets a parser publish what is left, and gives what lies in Redis then.
    pub async fn finish(&self, yaml: &str) -> Written {
        let mut parser = self.parser(yaml);
        // Else it could be stopped before it listens to signals.
        parser.says("reading blocks").await;
        self.done(&mut parser).await;
        parser.stopped().await;
        self.written().await
    }

    pub async fn written(&self) -> Written {
        Written::read(&mut self.client().await, &self.keys).await
    }
}

/// What an undisturbed run writes.
pub async fn undisturbed(capture: &Capture, yaml: &str) -> Written {
    Stage::new(capture).await.finish(yaml).await
}
