//! Where events are written to: whole XADD commands in a buffer for the socket, or JSON lines.

use crate::out::Out;
use std::ops::Range;

use super::decoded::{Failure, Reason};
use super::envelope::{Head, Kind};
use crate::hex;
use crate::keys::Keys;
use crate::name::Name;
use crate::publish::{Buffer, EntryId};
use crate::resp;

/// The ids that entries get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryIds {
    /// `FIRST-SECOND`, the second rising by one an entry, from this one on.
    Block {
        /// The first part of the ids.
        first: u64,
        /// The second part of the next id.
        next: u64,
    },
    /// `*`: Redis chooses.
    Auto,
}

/// What a sink was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Redis commands.
    pub commands: usize,
    /// Events.
    pub entries: u64,
    /// What kinds of events, and what became of them.
    pub counts: Counts,
}

/// Numbers of events, for those who watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// By kind: [`Kind::ALL`].
    pub kinds: [u64; Kind::ALL.len()],
    /// Those that could not be decoded, by reason: [`Reason::ALL`].
    pub failures: [u64; Reason::ALL.len()],
    /// Those of them that went to the dead letters too.
    pub letters: [u64; Reason::ALL.len()],
}

/// Dead letters, by contract and reason.
pub type Letters = Vec<(Name, Reason, u64)>;

/// Commands or lines, and what they are.
pub struct Chunk {
    /// The commands or lines.
    pub bytes: Buffer,
    /// How much they are.
    pub written: Written,
    /// Which dead letters are among them; not more than some contracts'.
    pub letters: Letters,
}

/// See the module's documentation.
pub struct Sink {
    /// The commands or lines of the chunk being written.
    pub(super) out: Buffer,
    /// Chunks that are full.
    full: Vec<Chunk>,
    framing: Framing,
    /// How many entries to leave out still.
    skip: u64,
    written: Written,
    letters: Letters,
    kind: Kind,
    /// Where the event being written begins, with its command.
    start: usize,
    /// Where its JSON begins.
    json: usize,
    /// Its event id.
    event_id: Range<usize>,
}

enum Framing {
    Lines,
    Stream(Box<Stream>),
}

struct Stream {
    /// An XADD to the events up to the id.
    events: Out,
    /// An XADD to the dead letters up to the id.
    dead: Out,
    /// An HINCRBY of the failure counters up to the field.
    failures: Out,
    /// An EXPIRE of the failure counters.
    expire: Out,
    ids: EntryIds,
    /// How many digits the length of the last event had: the next one's is likely to have as many.
    digits: usize,
    /// The dead letters, to go behind the events.
    letters: Out,
    letter_commands: usize,
}

/// Commands are cut into chunks of about so many bytes: data can decode to many times its size, and what goes to
/// Redis at once must be sent well within the lease's time.
const CHUNK_BYTES: usize = 4 << 20;

/// Failure counters are kept for a day.
const FAILURES_TTL_SECONDS: u64 = 24 * 60 * 60;

// === impl Sink ===

impl Sink {
    /// One JSON object a line.
    pub fn lines() -> Sink {
        Sink::with(Framing::Lines, Buffer::default())
    }

    /// Commands for Redis, behind those in `out`.
    pub fn stream(keys: &Keys, ids: EntryIds, out: Buffer) -> Sink {
        let mut events = Out::default();
        resp::start(&mut events, 5);
        resp::bulk(&mut events, b"XADD");
        resp::bulk(&mut events, keys.events.as_bytes());
        let mut dead = Out::default();
        resp::start(&mut dead, 3 + 2 * LETTER_FIELDS);
        resp::bulk(&mut dead, b"XADD");
        resp::bulk(&mut dead, keys.dead_parser.as_bytes());
        let counters = keys.failures("parser");
        let mut failures = Out::default();
        resp::start(&mut failures, 4);
        resp::bulk(&mut failures, b"HINCRBY");
        resp::bulk(&mut failures, counters.as_bytes());
        let mut expire = Out::default();
        resp::start(&mut expire, 3);
        resp::bulk(&mut expire, b"EXPIRE");
        resp::bulk(&mut expire, counters.as_bytes());
        resp::number(&mut expire, FAILURES_TTL_SECONDS);
        let stream = Stream {
            events,
            dead,
            failures,
            expire,
            ids,
            digits: 3,
            letters: Out::default(),
            letter_commands: 0,
        };
        Sink::with(Framing::Stream(Box::new(stream)), out)
    }

    /// Leaves out the next `count` entries, as if they were not there.
    pub fn skip(&mut self, count: u64) {
        self.skip = count;
    }

    fn with(framing: Framing, out: Buffer) -> Sink {
        Sink {
            out,
            full: Vec::new(),
            framing,
            skip: 0,
            written: Written::default(),
            letters: Letters::new(),
            kind: Kind::Action,
            start: 0,
            json: 0,
            event_id: 0..0,
        }
    }

    /// Starts an event.
    #[inline]
    pub(super) fn begin(&mut self, head: &Head) {
        // Not between what goes before a block's events and the first of them: where that is a fork's, what the fork undoes
        // would be committed without it.
        if self.written.entries > 0
            && self.out.len() > CHUNK_BYTES
            && matches!(self.framing, Framing::Stream(_))
        {
            let next = self.out.another();
            self.cut(next);
        }
        self.kind = head.kind;
        self.start = self.out.len();
        if let Framing::Stream(stream) = &self.framing {
            self.out.append(&stream.events);
            stream.ids.write(&mut self.out);
            self.out.append(b"$4\r\ndata\r\n$");
            self.out.append(&b"0000000000"[..stream.digits]);
            self.out.append(b"\r\n");
        }
        self.json = self.out.len();
        self.event_id.start = self.json + head.id_at;
        self.out.append(&head.json);
    }

    /// The event's id is complete.
    #[inline]
    pub(super) fn end_id(&mut self) {
        self.event_id.end = self.out.len();
    }

    /// The event is complete. `failure` is what could not be decoded in it.
    #[inline]
    pub(super) fn end(&mut self, failure: Option<&Failure<'_>>) {
        if self.skip > 0 {
            self.skip -= 1;
            self.out.truncate(self.start);
            return;
        }
        if let Some(failure) = failure {
            self.fail(failure);
        }
        self.written.entries += 1;
        self.written.counts.kinds[self.kind as usize] += 1;
        match &mut self.framing {
            Framing::Lines => self.out.push(b'\n'),
            Framing::Stream(stream) => {
                set_length(&mut self.out, self.json, &mut stream.digits);
                self.out.append(b"\r\n");
                stream.ids.advance();
                self.written.commands += 1;
            }
        }
    }

    #[cold]
    fn fail(&mut self, failure: &Failure<'_>) {
        let counts = &mut self.written.counts;
        counts.failures[failure.reason as usize] += 1;
        let Framing::Stream(stream) = &mut self.framing else { return };
        if !failure.dead_letter {
            return;
        }
        counts.letters[failure.reason as usize] += 1;
        let known = self.letters.len();
        match self.letters.iter_mut().find(|of| (of.0, of.1) == (failure.contract, failure.reason)) {
            Some((_, _, count)) => *count += 1,
            None if known < LETTERS_OF => self.letters.push((failure.contract, failure.reason, 1)),
            None => {}
        }
        let (event_id, json) = (&self.out[self.event_id.clone()], &self.out[self.json..]);
        let letters = &mut stream.letters;
        letters.append(&stream.dead);
        stream.ids.write(letters);
        let (contract, raw) = (failure.contract.to_string(), hex::lower(failure.raw));
        let abi_block = failure.abi_block.map(|block| block.to_string()).unwrap_or_default();
        let fields: [(&str, &[u8]); LETTER_FIELDS] = [
            ("data", json),
            ("failureCount", b"1"),
            ("lastError", failure.message.as_bytes()),
            ("subId", b"parser"),
            ("reason", failure.reason.as_str().as_bytes()),
            ("contract", contract.as_bytes()),
            ("type", failure.type_name.as_bytes()),
            ("raw", raw.as_bytes()),
            ("abi_block", abi_block.as_bytes()),
        ];
        for (name, value) in fields {
            resp::bulk(letters, name.as_bytes());
            resp::bulk(letters, value);
        }
        letters.append(&stream.failures);
        resp::bulk(letters, event_id);
        resp::bulk(letters, b"1");
        stream.letter_commands += 2;
    }

    /// Ends the chunk, with its dead letters; what comes then goes into `next`.
    #[cold]
    fn cut(&mut self, next: Buffer) {
        if let Framing::Stream(stream) = &mut self.framing
            && !stream.letters.is_empty()
        {
            self.out.append(&stream.letters);
            stream.letters.clear();
            self.out.append(&stream.expire);
            self.written.commands += std::mem::take(&mut stream.letter_commands) + 1;
        }
        let (bytes, written) = (std::mem::replace(&mut self.out, next), std::mem::take(&mut self.written));
        self.full.push(Chunk { bytes, written, letters: std::mem::take(&mut self.letters) });
    }

    /// What was written: at least one chunk, and one alone of lines.
    pub fn finish(mut self) -> Vec<Chunk> {
        self.cut(Buffer::default());
        self.full
    }
}

const LETTER_FIELDS: usize = 9;

/// Dead letters of so many contracts and reasons at most are told apart in a chunk.
const LETTERS_OF: usize = 32;

/// Writes the length of the JSON behind `json` into the zeros before it, making room or closing up
/// where it has not `digits` digits.
fn set_length(out: &mut Out, json: usize, digits: &mut usize) {
    let end = out.len();
    let mut buffer = itoa::Buffer::new();
    let length = buffer.format(end - json).as_bytes();
    let at = json - 2 - *digits;
    if length.len() != *digits {
        let moved = at + length.len() + 2;
        out.space(moved.saturating_sub(json));
        out.copy_within(json..end, moved);
        out.truncate(end + moved - json);
        out[moved - 2..moved].copy_from_slice(b"\r\n");
        *digits = length.len();
    }
    out[at..at + length.len()].copy_from_slice(length);
}

// === impl EntryIds ===

impl EntryIds {
    /// The ids `count` entries further on.
    pub fn after(self, count: u64) -> EntryIds {
        match self {
            EntryIds::Block { first, next } => EntryIds::Block { first, next: next + count },
            EntryIds::Auto => EntryIds::Auto,
        }
    }

    /// The next id, where it is known.
    pub fn first_id(self) -> Option<EntryId> {
        match self {
            EntryIds::Block { first, next } => Some(EntryId { first, second: next }),
            EntryIds::Auto => None,
        }
    }

    #[inline]
    fn advance(&mut self) {
        *self = self.after(1);
    }

    #[inline]
    fn write(&self, out: &mut Out) {
        match self {
            EntryIds::Auto => resp::bulk(out, b"*"),
            EntryIds::Block { first, next } => {
                let (mut a, mut b) = (itoa::Buffer::new(), itoa::Buffer::new());
                let (first, next) = (a.format(*first).as_bytes(), b.format(*next).as_bytes());
                out.push(b'$');
                resp::decimal(out, (first.len() + 1 + next.len()) as u64);
                out.append(b"\r\n");
                out.append(first);
                out.push(b'-');
                out.append(next);
                out.append(b"\r\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_before_an_event_is_right_whatever_was_guessed() {
        for (guess, length) in [(3, 5), (3, 50), (3, 500), (3, 5000), (1, 12345), (6, 7)] {
            let mut digits = guess;
            let mut out = Out::default();
            out.append(b"before$");
            out.append(&b"0000000000"[..guess]);
            out.append(b"\r\n");
            let json = out.len();
            out.space(length).fill(b'x');
            set_length(&mut out, json, &mut digits);
            let expected = format!("before${length}\r\n{}", "x".repeat(length));
            assert_eq!(String::from_utf8_lossy(&out), expected);
            assert_eq!(digits, length.to_string().len());
        }
    }

    #[test]
    fn the_first_event_stays_with_what_goes_before_it() {
        let keys = Keys::new("ns", &crate::block::Checksum([1; 32]), "");
        let mut before = Buffer::default();
        before.space(CHUNK_BYTES + 1);
        let mut sink = Sink::stream(&keys, EntryIds::Block { first: 7, next: 1 }, before);
        for kind in [Kind::Fork, Kind::Action, Kind::Action] {
            sink.begin(&Head::new(kind, b"chain", b"7"));
            sink.end(None);
        }
        let entries: Vec<u64> = sink.finish().iter().map(|chunk| chunk.written.entries).collect();
        assert_eq!(entries, [1, 2]);
    }
}
