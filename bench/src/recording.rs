//! The commands that the parser writes, recorded on their way to Redis: what the bare writer sends again.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

/// Stands between parser and Redis and keeps what the parser sends, each connection by itself.
pub struct Relay {
    port: u16,
    /// By connection.
    sent: Arc<Mutex<Vec<Sent>>>,
}

/// What one connection has sent so far.
type Sent = Arc<Mutex<Vec<u8>>>;

/// What was published, in the order it was sent: transactions of `MULTI`, commands, `EXEC`, and nothing between them.
#[derive(Debug, Default)]
pub struct Recording {
    /// The transactions, one behind the other.
    pub bytes: Vec<u8>,
    /// Where each ends.
    pub transactions: Vec<Transaction>,
    /// How far each block goes, in order of the blocks.
    marks: Vec<Mark>,
}

/// A transaction, and everything up to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transaction {
    /// Where its commands stand.
    pub commands_at: (usize, usize),
    /// Where it ends.
    pub end: usize,
    /// Commands up to its end, those that make transactions of them not counted.
    pub commands: u64,
    /// Entries in the events stream up to its end.
    pub events: u64,
    /// The last block with an entry up to its end.
    pub block: u32,
}

/// Everything up to the end of a block's entries and what follows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// The block.
    pub block: u32,
    /// Where it ends.
    at: usize,
    /// Bytes of commands.
    pub bytes: u64,
    /// Entries in the events stream.
    pub events: u64,
    /// Those of kind `action`.
    pub actions: u64,
    /// Those of kind `delta`.
    pub rows: u64,
    /// Bytes of the entries' JSON.
    pub json: u64,
}

// === impl Relay ===

impl Relay {
    /// Listens for parsers and hands on to the Redis at `port`. It ends with the process.
    pub fn start(port: u16) -> Result<Relay> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let relay = Relay { port: listener.local_addr()?.port(), sent: Arc::default() };
        let sent = relay.sent.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let kept = Sent::default();
                sent.lock().unwrap_or_else(|e| e.into_inner()).push(kept.clone());
                // A side that goes away ends both directions.
                let _ = Relay::join(client, port, kept);
            }
        });
        Ok(relay)
    }

    fn join(mut client: TcpStream, port: u16, kept: Sent) -> Result<()> {
        let mut server = TcpStream::connect(("127.0.0.1", port))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
        thread::spawn(move || {
            let _ = std::io::copy(&mut from_server, &mut to_client);
            let _ = to_client.shutdown(std::net::Shutdown::Both);
        });
        thread::spawn(move || {
            let mut buffer = vec![0; 256 << 10];
            while let Ok(count @ 1..) = client.read(&mut buffer) {
                kept.lock().unwrap_or_else(|e| e.into_inner()).extend_from_slice(&buffer[..count]);
                if server.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            let _ = server.shutdown(std::net::Shutdown::Both);
        });
        Ok(())
    }

    /// Where the parser is to connect.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What the connection that wrote events has sent.
    pub fn recording(self) -> Result<Recording> {
        let sent = self.sent.lock().unwrap_or_else(|e| e.into_inner());
        for connection in sent.iter() {
            let bytes = std::mem::take(&mut *connection.lock().unwrap_or_else(|e| e.into_inner()));
            let recording = Recording::of(&bytes)?;
            // Others ask in transactions too.
            if !recording.marks.is_empty() {
                return Ok(recording);
            }
        }
        bail!("nothing was published")
    }
}

// === impl Recording ===

impl Recording {
    /// Takes the transactions out of what one connection sent. What comes behind the last whole one is left out, as are
    /// the parser's questions between them.
    pub fn of(sent: &[u8]) -> Result<Recording> {
        let mut recording = Recording::default();
        let (mut mark, mut open) = (Mark::default(), Transaction::default());
        let (mut inside, mut committed) = (false, (0, 0));
        let mut rest = sent;
        while let Some(command) = Command::next(&mut rest)? {
            inside |= command.name == b"MULTI";
            if !inside {
                continue;
            }
            recording.bytes.extend_from_slice(command.bytes);
            let at = recording.bytes.len();
            match command.name {
                b"MULTI" => open.commands_at = (at, at),
                b"EXEC" => {
                    inside = false;
                    open = Transaction { end: at, events: mark.events, block: mark.block, ..open };
                    recording.transactions.push(open);
                    committed = (recording.marks.len(), at);
                }
                _ => {
                    open.commands += 1;
                    open.commands_at.1 = at;
                    mark.at = at;
                    mark.bytes += command.bytes.len() as u64;
                    if let Some(json) = command.event() {
                        let block = block_of(json)?;
                        if block != mark.block {
                            mark.block = block;
                            recording.marks.push(mark);
                        }
                        mark.events += 1;
                        mark.actions += u64::from(json.starts_with(b"{\"kind\":\"action\""));
                        mark.rows += u64::from(json.starts_with(b"{\"kind\":\"delta\""));
                        mark.json += json.len() as u64;
                    }
                    if let Some(last) = recording.marks.last_mut() {
                        *last = mark;
                    }
                }
            }
        }
        recording.marks.truncate(committed.0);
        recording.bytes.truncate(committed.1);
        ensure!(recording.marks.is_sorted_by_key(|mark| mark.block), "the blocks are not in order");
        Ok(recording)
    }

    /// Everything up to the end of block `num`.
    pub fn up_to(&self, num: u32) -> Mark {
        match self.marks.partition_point(|mark| mark.block <= num).checked_sub(1) {
            Some(last) => self.marks[last],
            None => Mark::default(),
        }
    }

    /// The first transaction that block `num` is whole with.
    pub fn whole_with(&self, num: u32) -> Result<usize> {
        let events = self.up_to(num).events;
        let place = self.transactions.partition_point(|transaction| transaction.events < events);
        ensure!(place < self.transactions.len(), "the recording ends before block {num}");
        Ok(place)
    }

    /// The commands of one block, without what makes transactions of them.
    pub fn block(&self, num: u32) -> Vec<u8> {
        let mut rest = &self.bytes[self.up_to(num - 1).at..self.up_to(num).at];
        let commands = std::iter::from_fn(|| Command::next(&mut rest).ok().flatten());
        let plain = commands.filter(|command| !matches!(command.name, b"MULTI" | b"EXEC"));
        plain.flat_map(|command| command.bytes.iter().copied()).collect()
    }

    /// Bytes of JSON that an entry has on average.
    pub fn json_per_event(&self) -> f64 {
        let all = self.up_to(u32::MAX);
        all.json as f64 / all.events as f64
    }

    /// The JSON of the entries, one by one.
    pub fn events(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || Command::next(&mut rest).ok().flatten())
            .filter_map(|command| command.event())
    }
}

/// The number in an event's id: `{"kind":"…","event_id":"CHAIN:a:NUM:…`.
fn block_of(json: &[u8]) -> Result<u32> {
    const ID: &[u8] = b"\"event_id\":\"";
    let head = &json[..json.len().min(160)];
    let at = head.windows(ID.len()).position(|window| window == ID).map(|at| at + ID.len() + 64 + 3);
    let digits = at.and_then(|at| head.get(at..)).unwrap_or_default();
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let num = digits.fold(0, |num: u32, digit| num.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')));
    ensure!(num > 0, "an event without a block: {}", String::from_utf8_lossy(head));
    Ok(num)
}

/// One command: an array of strings.
struct Command<'a> {
    bytes: &'a [u8],
    name: &'a [u8],
    key: &'a [u8],
    last: &'a [u8],
}

impl<'a> Command<'a> {
    /// The next one, `None` where it is not whole.
    fn next(rest: &mut &'a [u8]) -> Result<Option<Command<'a>>> {
        let whole = *rest;
        let mut at = 0;
        let Some(parts) = length(whole, &mut at, b'*')? else { return Ok(None) };
        let mut command = Command { bytes: &[], name: &[], key: &[], last: &[] };
        for part in 0..parts {
            let Some(len) = length(whole, &mut at, b'$')? else { return Ok(None) };
            let Some(value) = whole.get(at..at + len) else { return Ok(None) };
            at += len + 2;
            match part {
                0 => command.name = value,
                1 => command.key = value,
                _ => command.last = value,
            }
        }
        let Some(bytes) = whole.get(..at) else { return Ok(None) };
        *rest = &whole[at..];
        Ok(Some(Command { bytes, ..command }))
    }

    /// The JSON, where it adds an event.
    fn event(&self) -> Option<&'a [u8]> {
        (self.name == b"XADD" && self.key.ends_with(b":events")).then_some(self.last)
    }
}

/// Reads a length behind its sign.
fn length(bytes: &[u8], at: &mut usize, sign: u8) -> Result<Option<usize>> {
    let line = bytes.get(*at..).unwrap_or_default();
    let Some(end) = line.iter().take(32).position(|byte| *byte == b'\n') else { return Ok(None) };
    let digits = line[..end].strip_prefix(&[sign]).and_then(|line| line.strip_suffix(b"\r"));
    let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok()).context("no Redis command")?;
    *at += end + 1;
    Ok(Some(digits.parse().context("no length")?))
}

#[cfg(test)]
mod tests {
    use parser::out::Out;
    use parser::resp;

    use super::*;

    fn xadd(out: &mut Out, block: u32, kind: &str) {
        let id = "ab".repeat(32);
        let json = format!("{{\"kind\":\"{kind}\",\"event_id\":\"{id}:a:{block}:0011:7\"}}");
        resp::command(out, &[b"XADD", b"ce:ns:events", b"*", b"data", json.as_bytes()]);
    }

    #[test]
    fn whole_transactions_are_kept_and_nothing_between_them() {
        let (mut sent, mut commands) = (Out::default(), Out::default());
        let (mut multi, mut exec) = (Out::default(), Out::default());
        resp::command(&mut multi, &[b"MULTI"]);
        resp::command(&mut exec, &[b"EXEC"]);
        for block in [7, 7, 8] {
            xadd(&mut commands, block, if block == 7 { "action" } else { "delta" });
        }
        resp::command(&mut commands, &[b"HSET", b"sync", b"block_num", b"8"]);
        let expected = [&multi[..], &commands[..], &exec[..]].concat();
        resp::command(&mut sent, &[b"WATCH", b"writer"]);
        sent.append(&expected);
        // Not whole: not committed, as far as is known.
        sent.append(&multi);
        xadd(&mut sent, 9, "action");
        sent.append(b"*3\r\n$4\r\nHS");

        let recording = Recording::of(&sent).expect("commands");
        assert_eq!(recording.bytes, expected);
        let [only] = recording.transactions[..] else { panic!("one transaction: {recording:?}") };
        assert_eq!((only.commands, only.events, only.block, only.end), (4, 3, 8, expected.len()));
        assert_eq!(&recording.bytes[only.commands_at.0..only.commands_at.1], &commands[..]);
        let (seven, eight) = (recording.up_to(7), recording.up_to(8));
        assert_eq!((seven.events, seven.actions, seven.rows), (2, 2, 0));
        assert_eq!((eight.events, eight.actions, eight.rows), (3, 2, 1));
        assert_eq!(eight.bytes, commands.len() as u64);
        assert_eq!([recording.block(7), recording.block(8)].concat(), commands[..]);
        assert_eq!(recording.up_to(6), Mark::default());
        assert_eq!(recording.up_to(100), eight);
        assert_eq!(recording.events().count(), 3);
        assert_eq!(recording.whole_with(7).expect("a transaction"), 0);
    }
}
