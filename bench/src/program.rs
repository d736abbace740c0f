//! `parser run` as a process of its own, and how far it is.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use parser::keys::Keys;
use redis::Connection;
use tempfile::TempDir;

use crate::process::{self, PATIENCE};
use crate::redis::Redis;

/// Time between two looks at the checkpoint.
const LOOK: Duration = Duration::from_millis(5);

/// No run is meant to take as long, however slowly it goes on.
const LONGEST: Duration = Duration::from_secs(120);

/// What differs between runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `workerPool.maxThreads`
    pub threads: usize,
    /// `streamIds`
    pub ids: &'static str,
    /// The first block to publish, if nothing is published yet.
    pub start: u32,
    /// Further lines of the configuration.
    pub more: &'static str,
}

/// A parser at work. Killed when dropped.
pub struct Program {
    child: Child,
    directory: TempDir,
    connection: Connection,
    keys: Keys,
}

/// How far the parser is at one moment, and what was used up until then.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// When.
    pub at: Instant,
    /// The newest block published.
    pub block: u32,
    /// Entries in the events stream.
    pub entries: u64,
    /// CPU time of the parser.
    pub parser: Duration,
    /// CPU time of Redis.
    pub redis: Duration,
}

/// What lies between two moments.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// The block before the first one of the run.
    pub after: u32,
    /// The last block.
    pub to: u32,
    /// Entries published.
    pub events: u64,
    /// How long it took.
    pub time: Duration,
    /// CPU time of the parser.
    pub parser: Duration,
    /// CPU time of Redis.
    pub redis: Duration,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Settings {
        Settings { threads: 2, ids: "block", start: 1, more: "" }
    }
}

// === impl Program ===

impl Program {
    /// Starts it between a node and a Redis. `port` is Redis', or that of something before it.
    pub fn start(
        program: &Path,
        node: &str,
        redis: &Redis,
        port: u16,
        keys: &Keys,
        settings: &Settings,
    ) -> Result<Program> {
        let directory = tempfile::tempdir()?;
        let config = directory.path().join("parser.yaml");
        let Settings { threads, ids, start, more } = settings;
        fs::write(
            &config,
            format!(
                "ship: {{url: '{node}'}}\nredis: {{url: 'redis://127.0.0.1:{port}'}}\nlogger: {{level: error}}\n\
                 workerPool: {{maxThreads: {threads}}}\nstreamIds: {ids}\nstartBlock: {start}\n{more}"
            ),
        )?;
        let child = Command::new(program)
            .args(["run", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(directory.path().join("log"))?)
            .spawn()
            .with_context(|| format!("failed to start {}", program.display()))?;
        Ok(Program { child, directory, connection: redis.connect()?, keys: keys.clone() })
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How far it is.
    pub fn moment(&mut self, redis: &Redis) -> Result<Moment> {
        let (block, entries): (Option<u32>, u64) = redis::pipe()
            .atomic()
            .hget(&self.keys.sync, "block_num")
            .xlen(&self.keys.events)
            .query(&mut self.connection)
            .context("redis-server does not say how far the parser is")?;
        let at = Instant::now();
        Ok(Moment {
            at,
            block: block.unwrap_or(0),
            entries,
            parser: process::cpu(self.pid())?,
            redis: process::cpu(redis.pid())?,
        })
    }

    /// Waits until it has published that block; calls `look` now and then.
    pub fn reach(
        &mut self,
        redis: &Redis,
        block: u32,
        mut look: impl FnMut(&Moment) -> Result<()>,
    ) -> Result<Moment> {
        let began = Instant::now();
        let mut last = (0, began);
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the parser ended before block {block} ({status}): {}", self.log());
            }
            let moment = self.moment(redis)?;
            look(&moment)?;
            if moment.block >= block {
                return Ok(moment);
            }
            if moment.block > last.0 {
                last = (moment.block, moment.at);
            } else if last.1.elapsed() > PATIENCE {
                bail!("the parser stays at block {} for {PATIENCE:?}: {}", moment.block, self.log());
            }
            if began.elapsed() > LONGEST {
                bail!(
                    "the parser is only at block {} of {block} after {LONGEST:?}: {}",
                    moment.block,
                    self.log()
                );
            }
            std::thread::sleep(LOOK);
        }
    }

    /// What it said last.
    pub fn log(&self) -> String {
        let text = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        text.lines().last().unwrap_or("it said nothing").to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Run ===

impl Run {
    /// From one moment to another.
    pub fn between(from: &Moment, to: &Moment) -> Run {
        Run {
            after: from.block,
            to: to.block,
            // With trimming there may be fewer.
            events: to.entries.saturating_sub(from.entries),
            time: to.at - from.at,
            parser: to.parser - from.parser,
            redis: to.redis - from.redis,
        }
    }

    /// How many blocks it is.
    pub fn blocks(&self) -> f64 {
        f64::from(self.to - self.after)
    }

    /// Blocks a second.
    pub fn blocks_per_second(&self) -> f64 {
        self.blocks() / self.time.as_secs_f64()
    }

    /// Events a second.
    pub fn events_per_second(&self) -> f64 {
        self.events as f64 / self.time.as_secs_f64()
    }
}
