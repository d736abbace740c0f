//! The limit of publishing: the parser's own commands pushed into a Redis by something that does nothing else. One thread
//! writes them from memory as fast as the socket takes them, another reads the replies. No transactions, no lease, no node,
//! no decoding.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::recording::Recording;
use crate::redis::Redis;

/// Bytes of one write.
const CHUNK: usize = 256 << 10;

/// How it went behind some block.
#[derive(Debug, Clone, Copy)]
pub struct Push {
    /// Events written.
    pub events: u64,
    /// Until the last reply.
    pub time: Duration,
    /// CPU time of Redis.
    pub redis: Duration,
}

/// Counts whole replies.
#[derive(Debug, Default)]
struct Replies {
    count: u64,
    /// The begin of the line that is being read.
    sign: u8,
    /// Whether the line holds a string whose length was on the line before.
    string: bool,
}

// === impl Push ===

impl Push {
    /// Events a second.
    pub fn events_per_second(&self) -> f64 {
        self.events as f64 / self.time.as_secs_f64()
    }
}

/// Pushes a recording up to block `to` into an empty Redis, and measures what comes behind block `after`.
pub fn push(redis: &Redis, recording: &Recording, after: u32, to: u32) -> Result<Push> {
    let (from, end) = (recording.up_to(after), recording.up_to(to));
    let stream = TcpStream::connect(("127.0.0.1", redis.port()))?;
    stream.set_nodelay(true)?;
    let mut reading = stream.try_clone()?;
    // Nothing is measured by a Redis that hangs.
    reading.set_read_timeout(Some(Duration::from_secs(60)))?;
    thread::scope(|scope| {
        let writing = scope.spawn(|| -> Result<()> {
            for chunk in recording.bytes[..end.bytes].chunks(CHUNK) {
                (&stream).write_all(chunk)?;
            }
            Ok(())
        });
        let mut replies = Replies::default();
        let mut began = None;
        let mut buffer = vec![0; 64 << 10];
        let pushed = loop {
            if began.is_none() && replies.count >= from.commands {
                began = Some((Instant::now(), process::cpu(redis.pid())?, replies.count));
            }
            if let Some((at, cpu, count)) = began
                && replies.count >= end.commands
            {
                let time = at.elapsed();
                // Replies come many at a time: those already there when it began do not count.
                let late = (end.commands - count) as f64 / (end.commands - from.commands) as f64;
                let events = ((end.events - from.events) as f64 * late) as u64;
                break Push { events, time, redis: process::cpu(redis.pid())? - cpu };
            }
            let count = reading.read(&mut buffer).context("the bare writer waits for replies")?;
            ensure!(count > 0, "Redis closed the connection of the bare writer");
            replies.read(&buffer[..count])?;
        };
        match writing.join() {
            Ok(written) => written?,
            Err(_) => bail!("the bare writer's thread panicked"),
        }
        Ok(pushed)
    })
}

// === impl Replies ===

impl Replies {
    /// Replies of XADD, ZADD, HSET and their like: a line, or a string of one line behind its length.
    fn read(&mut self, bytes: &[u8]) -> Result<()> {
        for &byte in bytes {
            if self.sign == 0 {
                self.sign = byte;
            }
            if byte == b'\n' {
                match self.sign {
                    b'$' if !self.string => self.string = true,
                    b'-' if !self.string => bail!("a command of the recording was refused"),
                    _ => {
                        self.string = false;
                        self.count += 1;
                    }
                }
                self.sign = 0;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_counted_however_they_are_cut() {
        let bytes = b"$3\r\n1-1\r\n:1\r\n+OK\r\n$4\r\n12-1\r\n";
        for cut in 0..bytes.len() {
            let mut replies = Replies::default();
            replies.read(&bytes[..cut]).expect("replies");
            replies.read(&bytes[cut..]).expect("replies");
            assert_eq!(replies.count, 4, "cut at {cut}");
        }
        assert!(Replies::default().read(b"-OOM\r\n").is_err());
    }
}
