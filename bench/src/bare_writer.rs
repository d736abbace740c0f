//! The limit of publishing: the parser's own commands pushed into a Redis by something that does nothing else. One thread
//! writes them from memory as fast as the socket takes them, another reads the replies and drops them. No lease, no node, no
//! decoding, and no waiting: a transaction does not depend on the one before it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, PATIENCE};
use crate::recording::Recording;
use crate::redis::Redis;

/// Bytes of one write.
const CHUNK: usize = 256 << 10;

/// Which bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// In the parser's own transactions: `MULTI`, commands, `EXEC`.
    Transactions,
    /// The commands alone.
    Plain,
}

/// How it went.
#[derive(Debug, Clone, Copy)]
pub struct Push {
    /// Events written.
    pub events: u64,
    /// Until the last reply.
    pub time: Duration,
    /// CPU time of Redis.
    pub redis: Duration,
}

/// Counts commands that were carried out.
#[derive(Debug, Default)]
struct Replies {
    done: u64,
    /// Replies inside an EXEC's still to come.
    inside: u64,
    /// Whether those outside of one count.
    plain: bool,
    line: Vec<u8>,
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

/// Pushes a recording into an empty Redis up to the transaction that block `to` is whole with, and measures what comes behind
/// the one that block `after` is whole with.
pub fn push(redis: &Redis, recording: &Recording, form: Form, after: u32, to: u32) -> Result<Push> {
    let (first, last) = (recording.whole_with(after)?, recording.whole_with(to)?);
    let (from, end) = (recording.transactions[first], recording.transactions[last]);
    ensure!(from.end < end.end, "blocks {after} to {to} are in one transaction");
    let stream = TcpStream::connect(("127.0.0.1", redis.port()))?;
    stream.set_nodelay(true)?;
    // Nothing is measured by a Redis that hangs.
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reading = stream.try_clone()?;
    thread::scope(|scope| {
        let writing = scope.spawn(|| -> Result<()> {
            let all = match form {
                Form::Transactions => vec![&recording.bytes[..end.end]],
                Form::Plain => {
                    let commands = recording.transactions[..=last].iter().map(|one| one.commands_at);
                    commands.map(|(from, to)| &recording.bytes[from..to]).collect()
                }
            };
            for chunk in all.into_iter().flat_map(|bytes| bytes.chunks(CHUNK)) {
                (&stream)
                    .write_all(chunk)
                    .context("redis-server does not take what the bare writer sends")?;
            }
            Ok(())
        });
        let mut replies = Replies { plain: form == Form::Plain, ..Replies::default() };
        let mut buffer = vec![0; 64 << 10];
        let mut wait_for = |commands: u64| -> Result<(Instant, Duration)> {
            while replies.done < commands {
                let count =
                    reading.read(&mut buffer).context("redis-server does not answer the bare writer")?;
                ensure!(count > 0, "Redis closed the connection of the bare writer");
                replies.read(&buffer[..count])?;
            }
            Ok((Instant::now(), process::cpu(redis.pid())?))
        };
        let (began, before) = wait_for(from.commands)?;
        let (ended, now) = wait_for(end.commands)?;
        match writing.join() {
            Ok(written) => written?,
            Err(_) => bail!("the bare writer's thread panicked"),
        }
        Ok(Push { events: end.events - from.events, time: ended - began, redis: now - before })
    })
}

// === impl Replies ===

impl Replies {
    /// Replies of XADD, ZADD, HSET and their like, and of EXEC around them: a line, or a string of one line behind its length.
    fn read(&mut self, bytes: &[u8]) -> Result<()> {
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let first = self.line.first().copied().unwrap_or_default();
            match first {
                _ if self.string => {
                    self.string = false;
                    self.complete();
                }
                b'$' => self.string = true,
                b'*' => {
                    let count =
                        std::str::from_utf8(&self.line[1..]).ok().and_then(|n| n.trim_end().parse().ok());
                    self.inside = count.context("a transaction of the recording was refused")?;
                }
                b'-' => bail!("a command was refused: {}", String::from_utf8_lossy(&self.line)),
                _ => self.complete(),
            }
            self.line.clear();
        }
        Ok(())
    }

    fn complete(&mut self) {
        if self.inside > 0 {
            self.inside -= 1;
            self.done += 1;
        } else if self.plain {
            self.done += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(plain: bool, bytes: &[u8], cut: usize) -> u64 {
        let mut replies = Replies { plain, ..Replies::default() };
        replies.read(&bytes[..cut]).expect("replies");
        replies.read(&bytes[cut..]).expect("replies");
        replies.done
    }

    #[test]
    fn replies_are_counted_however_they_are_cut() {
        let plain = b"$3\r\n1-1\r\n:1\r\n+OK\r\n$4\r\n12-1\r\n";
        let inside = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$3\r\n1-1\r\n:1\r\n+OK\r\n+QUEUED\r\n*1\r\n:7\r\n";
        for cut in 0..plain.len() {
            assert_eq!(done(true, plain, cut), 4, "cut at {cut}");
        }
        for cut in 0..inside.len() {
            assert_eq!(done(false, inside, cut), 3, "cut at {cut}");
        }
        assert!(Replies::default().read(b"-OOM\r\n").is_err());
        assert!(Replies::default().read(b"*-1\r\n").is_err());
    }
}
