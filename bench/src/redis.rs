//! A redis-server of the measurement's own: on a free port, in a temporary directory, alone with its data.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use redis::Connection;
use tempfile::TempDir;

use crate::process::PATIENCE;

/// Longer than this a reply is not waited for.
pub const REPLY: Duration = Duration::from_secs(10);

/// When the append-only file is brought to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Once a second.
    EverySecond,
    /// Before every reply.
    Always,
    /// Not by Redis: when the kernel likes.
    Never,
}

/// Killed when dropped.
pub struct Redis {
    /// Where its files lie; removed with it.
    _directory: TempDir,
    port: u16,
    child: Child,
}

// === impl Fsync ===

impl Fsync {
    /// As in `appendfsync`.
    pub fn as_str(self) -> &'static str {
        match self {
            Fsync::EverySecond => "everysec",
            Fsync::Always => "always",
            Fsync::Never => "no",
        }
    }
}

// === impl Redis ===

impl Redis {
    /// An empty server. The append-only file is never rewritten: a rewrite at some moment of one repetition and not of
    /// the other would be measured instead.
    pub fn start(fsync: Fsync) -> Result<Redis> {
        // The port found free can be taken by somebody else before the server has it.
        for _ in 0..10 {
            let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
            if let Some(redis) = Redis::launch(port, fsync)? {
                return Ok(redis);
            }
        }
        bail!("redis-server ends as soon as it is started");
    }

    fn launch(port: u16, fsync: Fsync) -> Result<Option<Redis>> {
        let directory = tempfile::tempdir()?;
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", fsync.as_str()])
            .args(["--auto-aof-rewrite-percentage", "0"])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("failed to start redis-server (scripts/install-redis)")?;
        let mut redis = Redis { _directory: directory, port, child };
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if redis.child.try_wait()?.is_some() {
                return Ok(None);
            }
            if redis.connect().is_ok_and(|mut c| redis::cmd("PING").exec(&mut c).is_ok()) {
                return Ok(Some(redis));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("redis-server does not answer on port {}", redis.port)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://…`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A connection to look into it. It does not wait for ever: [`REPLY`] for each reply, also of those that come together.
    pub fn connect(&self) -> Result<Connection> {
        let connection = redis::Client::open(self.url())?.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(REPLY))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(connection)
    }

    /// Bytes of memory that its data takes (INFO's `used_memory`).
    pub fn used_memory(&self) -> Result<u64> {
        let info: String = redis::cmd("INFO").arg("memory").query(&mut self.connect()?)?;
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        line.and_then(|bytes| bytes.trim().parse().ok()).context("INFO has no used_memory")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
