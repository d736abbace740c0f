//! The replies a transaction's commands are due, and what they must be.

use super::failure::Failure;
use super::replies::{Token, unexpected};
use super::unit::EntryId;
use crate::keys::Keys;

/// A reply awaited.
#[derive(Debug)]
pub(super) enum Due {
    /// `+OK`
    Done,
    /// The lease's token, which must be the own one.
    Holder,
    /// The stream's last entry.
    LastEntry {
        /// Elements still to come.
        left: u64,
        /// Its id, once seen.
        id: Option<EntryId>,
    },
    /// So many `+QUEUED`.
    Queued(usize),
    /// What EXEC answers.
    Executed {
        /// Replies it must hold.
        commands: usize,
        /// Elements still to come, once it has begun.
        left: Option<u64>,
        /// The first error inside.
        error: Option<String>,
        /// The last number inside: XLEN's.
        length: u64,
    },
}

impl Due {
    /// Reads one token of it. `true`: it is complete.
    pub fn accept(&mut self, token: Token<'_>, keys: &Keys, own_token: &str) -> Result<bool, Failure> {
        if let Token::Error(message) = token {
            let message = String::from_utf8_lossy(message).into_owned();
            let Due::Executed { left: Some(left), error, .. } = self else {
                let key = match self {
                    Due::Holder => Some(&keys.writer),
                    Due::LastEntry { .. } => Some(&keys.events),
                    _ => None,
                };
                return Err(Failure::from_reply_about(&message, key.map(String::as_str)));
            };
            *left -= 1;
            error.get_or_insert(message);
            return Ok(*left == 0);
        }
        match (self, token) {
            (Due::Done, Token::Simple(b"OK")) => Ok(true),
            (Due::Holder, Token::Bulk(holder)) if holder == own_token.as_bytes() => Ok(true),
            (Due::Holder, Token::Bulk(holder)) => {
                Err(Failure::LostLease { holder: Some(String::from_utf8_lossy(holder).into_owned()) })
            }
            (Due::Holder, Token::Nil) => Err(Failure::LostLease { holder: None }),
            (Due::LastEntry { left, id }, token) => {
                // [[id, [field, value, ...]]], or an empty array.
                if let (None, Token::Bulk(text)) = (&id, &token) {
                    let text = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                    *id = Some(text.ok_or_else(|| unexpected("an entry's id"))?);
                }
                Ok(count_down(left, &token))
            }
            (Due::Executed { left: None, .. }, Token::Nil) => Err(Failure::LostLease { holder: None }),
            (Due::Executed { left: left @ None, commands, .. }, Token::Array(elements)) => {
                if elements != *commands as u64 {
                    return Err(unexpected("EXEC answers another number of commands"));
                }
                *left = Some(elements);
                Ok(elements == 0)
            }
            (Due::Executed { left: Some(left), length, .. }, token) => {
                if let Token::Integer(number) = token {
                    *length = u64::try_from(number).unwrap_or_default();
                }
                Ok(count_down(left, &token))
            }
            (due, token) => Err(unexpected(&format!("{token:?} where {due:?} was due"))),
        }
    }
}

/// One element less to come, but those of an array more.
fn count_down(left: &mut u64, token: &Token<'_>) -> bool {
    *left -= 1;
    if let Token::Array(elements) = token {
        *left += elements;
    }
    *left == 0
}
