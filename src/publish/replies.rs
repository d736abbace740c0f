//! Reading Redis' replies (RESP2) without building them: one token at a time, straight from the buffer.

use super::failure::Failure;

/// A piece of a reply. The elements of an array follow it, each a reply of its own.
#[derive(Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// `+OK`, `+QUEUED`
    Simple(&'a [u8]),
    /// An error, without its `-`.
    Error(&'a [u8]),
    /// A whole number.
    Integer(i64),
    /// A string.
    Bulk(&'a [u8]),
    /// An array of so many elements.
    Array(u64),
    /// Nothing: a missing string, or an EXEC that was not carried out.
    Nil,
}

/// Bytes received, read as tokens.
#[derive(Debug, Default)]
pub struct Replies {
    /// Received, of which `..start` has been read.
    pub(super) buffer: Vec<u8>,
    start: usize,
}

const QUEUED: &[u8] = b"+QUEUED\r\n";

impl Replies {
    /// Whether all that was received has been read.
    pub fn is_empty(&self) -> bool {
        self.start == self.buffer.len()
    }

    /// Forgets what has been read, to make room before more is received.
    pub fn compact(&mut self) {
        self.buffer.drain(..self.start);
        self.start = 0;
    }

    /// Passes over up to `limit` replies `+QUEUED` and says how many they were.
    pub fn skip_queued(&mut self, limit: usize) -> usize {
        let unread = &self.buffer[self.start..];
        let count =
            unread.chunks_exact(QUEUED.len()).take(limit).take_while(|chunk| *chunk == QUEUED).count();
        self.start += count * QUEUED.len();
        count
    }

    /// Whether [`Replies::token`] has one.
    pub fn has_token(&self) -> Result<bool, Failure> {
        let unread = &self.buffer[self.start..];
        let Some(end) = unread.windows(2).position(|pair| pair == b"\r\n") else { return Ok(false) };
        let length = match &unread[..end] {
            [b'$', digits @ ..] => usize::try_from(integer(digits)?).unwrap_or(0),
            _ => return Ok(true),
        };
        Ok(length == 0 || unread.len() - end - 2 >= length.saturating_add(2))
    }

    /// The next token, or `None` as long as it has not come whole.
    pub fn token(&mut self) -> Result<Option<Token<'_>>, Failure> {
        let unread = &self.buffer[self.start..];
        let Some(end) = unread.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
        let (kind, line) = match &unread[..end] {
            [kind, line @ ..] => (*kind, line),
            [] => return Err(unexpected("an empty line")),
        };
        let after = self.start + end + 2;
        let token = match kind {
            b'+' => Token::Simple(line),
            b'-' => Token::Error(line),
            b':' => Token::Integer(integer(line)?),
            b'*' => match integer(line)? {
                -1 => Token::Nil,
                count => Token::Array(u64::try_from(count).map_err(|_| unexpected("an array's length"))?),
            },
            b'$' => match integer(line)? {
                -1 => Token::Nil,
                length => {
                    let length = usize::try_from(length).map_err(|_| unexpected("a string's length"))?;
                    let bytes = &self.buffer[after..];
                    if bytes.len() < length.saturating_add(2) {
                        return Ok(None);
                    }
                    self.start = after + length + 2;
                    return Ok(Some(Token::Bulk(&bytes[..length])));
                }
            },
            other => return Err(unexpected(&format!("a reply of kind {:?}", char::from(other)))),
        };
        self.start = after;
        Ok(Some(token))
    }
}

fn integer(digits: &[u8]) -> Result<i64, Failure> {
    std::str::from_utf8(digits)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| unexpected("a number that is none"))
}

/// The server does not speak as Redis does.
pub(super) fn unexpected(what: &str) -> Failure {
    Failure::Fatal(format!("unexpected reply ({what}): is this a Redis server, version 6.2 or newer?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_whole_however_they_are_cut() {
        let bytes = b"+OK\r\n$-1\r\n$4\r\na\r\nb\r\n*2\r\n:-7\r\n*0\r\n*-1\r\n-OOM no\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n";
        for cut in 0..bytes.len() {
            let mut replies = Replies::default();
            replies.buffer.extend_from_slice(&bytes[..cut]);
            let mut seen = Vec::new();
            for rest in [&bytes[cut..], b""] {
                while let Some(token) = replies.token().unwrap() {
                    seen.push(format!("{token:?}"));
                }
                replies.compact();
                replies.buffer.extend_from_slice(rest);
            }
            while let Some(token) = replies.token().unwrap() {
                seen.push(format!("{token:?}"));
            }
            let mut expected: Vec<String> = [
                Token::Simple(b"OK"),
                Token::Nil,
                Token::Bulk(b"a\r\nb"),
                Token::Array(2),
                Token::Integer(-7),
                Token::Array(0),
                Token::Nil,
                Token::Error(b"OOM no"),
            ]
            .iter()
            .map(|token| format!("{token:?}"))
            .collect();
            expected.extend(std::iter::repeat_n(format!("{:?}", Token::Simple(b"QUEUED")), 3));
            assert_eq!(seen, expected, "cut at {cut}");
            assert!(replies.is_empty());
        }
    }

    #[test]
    fn queued_replies_are_counted_up_to_the_limit() {
        let mut replies = Replies::default();
        replies.buffer.extend_from_slice(b"+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n-OOM x\r\n+QUE");
        assert_eq!(replies.skip_queued(2), 2);
        assert_eq!(replies.skip_queued(9), 1);
        assert_eq!(replies.token().unwrap(), Some(Token::Error(b"OOM x")));
        assert_eq!((replies.skip_queued(9), replies.token().unwrap()), (0, None));
    }

    #[test]
    fn other_protocols_are_refused() {
        for bytes in [b"HTTP/1.1 400 Bad Request\r\n".as_slice(), b"\r\n", b":x\r\n", b"*-2\r\n", b"$-5\r\n"]
        {
            let mut replies = Replies::default();
            replies.buffer.extend_from_slice(bytes);
            assert!(matches!(replies.token(), Err(Failure::Fatal(_))), "{bytes:?}");
        }
    }
}
