//! One dead letter.

use std::collections::HashMap;

use redis::{FromRedisValue, ParsingError, Value, from_redis_value};

use crate::block::Checksum;
use crate::event::{Past, PastError};
use crate::publish::EntryId;

/// An entry of a dead-letter stream. The parser's have all fields, those of consumers `data`, `failureCount`, `lastError`
/// and `subId`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Its entry id.
    pub id: EntryId,
    fields: HashMap<String, String>,
}

/// A field's name and what it holds.
type Field = (Vec<u8>, Vec<u8>);

// === impl Letter ===

impl Letter {
    /// A field, empty where it is not there.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// Bytes of its fields.
    pub fn bytes(&self) -> usize {
        self.fields.values().map(String::len).sum()
    }

    /// The event.
    pub fn event(&self, chain_id: &Checksum) -> Result<Past<'_>, PastError> {
        Past::read(self.field("data"), chain_id)
    }
}

impl FromRedisValue for Letter {
    fn from_redis_value(value: Value) -> Result<Letter, ParsingError> {
        let (id, fields): (String, Vec<Field>) = from_redis_value(value)?;
        // What is no text is not the parser's, and is shown as far as it can be.
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Letter {
            id: id.parse().map_err(|error| ParsingError::from(format!("{error}")))?,
            fields: fields.into_iter().map(|(name, value)| (text(name), text(value))).collect(),
        })
    }
}
