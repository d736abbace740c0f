//! What an event says of itself, taken from its JSON without reading the rest.

use serde::Deserialize;

use crate::event::{self, REPLAYED};

/// The start of an event.
#[derive(Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its kind.
    pub kind: event::Kind,
    /// Its id.
    pub event_id: &'a str,
    /// Its chain.
    pub chain_id: &'a str,
    /// Its block's number; 0 for a fork.
    pub block_num: u32,
    /// Its block's id; empty for a fork.
    pub block_id: &'a str,
    /// Whether it was published again.
    pub replayed: bool,
}

/// What a `fork` event says.
#[derive(Debug, Deserialize)]
pub struct ForkEvent {
    /// The last block that stays.
    pub forked_from_block: u32,
    /// The block behind it now.
    pub new_head_block_id: String,
    /// The newest block before.
    pub old_head_block_num: u32,
    /// Its id.
    pub old_head_block_id: String,
    /// Blocks undone, newest first.
    pub removed: Vec<String>,
}

/// What a `block` event says.
#[derive(Debug, Deserialize)]
pub struct BlockEvent {
    /// The block before.
    pub prev_block_id: String,
    /// How many actions were published.
    pub actions: u64,
    /// How many rows were.
    pub deltas: u64,
}

// === impl Event ===

impl<'a> Event<'a> {
    /// Reads it: as this program writes it, or any JSON that has the fields.
    pub fn read(json: &'a str) -> Result<Event<'a>, String> {
        if !json.ends_with('}') {
            return Err("it does not end".to_owned());
        }
        match Event::as_written(json) {
            Some(event) => Ok(event),
            None => Event::loose(json),
        }
    }

    /// By the order of fields that they always have.
    fn as_written(json: &'a str) -> Option<Event<'a>> {
        let (name, rest) = until_quote(json.strip_prefix("{\"kind\":\"")?)?;
        let kind = event::Kind::named(name)?;
        let (event_id, rest) = until_quote(rest.strip_prefix(",\"event_id\":\"")?)?;
        let (chain_id, rest) = until_quote(rest.strip_prefix(",\"chain_id\":\"")?)?;
        let replayed = json.ends_with(REPLAYED);
        if kind == event::Kind::Fork {
            return Some(Event { kind, event_id, chain_id, block_num: 0, block_id: "", replayed });
        }
        let rest = rest.strip_prefix(",\"block_num\":")?;
        let (digits, rest) = rest.split_at_checked(rest.bytes().take_while(u8::is_ascii_digit).count())?;
        let (_, rest) = until_quote(rest.strip_prefix(",\"block_time\":\"")?)?;
        let (block_id, _) = until_quote(rest.strip_prefix(",\"block_id\":\"")?)?;
        let block_num = digits.parse().ok()?;
        Some(Event { kind, event_id, chain_id, block_num, block_id, replayed })
    }

    fn loose(json: &'a str) -> Result<Event<'a>, String> {
        #[derive(Deserialize)]
        struct Loose<'a> {
            kind: &'a str,
            event_id: &'a str,
            chain_id: &'a str,
            block_num: Option<u32>,
            block_id: Option<&'a str>,
            #[serde(default)]
            replayed: bool,
        }
        let loose: Loose<'a> = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let kind = event::Kind::named(loose.kind).ok_or("its kind is none")?;
        let (block_num, block_id) = match (kind, loose.block_num, loose.block_id) {
            (event::Kind::Fork, ..) => (0, ""),
            (_, Some(num), Some(id)) => (num, id),
            _ => return Err("it names no block".to_owned()),
        };
        Ok(Event {
            kind,
            event_id: loose.event_id,
            chain_id: loose.chain_id,
            block_num,
            block_id,
            replayed: loose.replayed,
        })
    }
}

fn until_quote(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|c| c == b'"' || c == b'\\')?;
    (text.as_bytes()[end] == b'"').then(|| (&text[..end], &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_in_whatever_order_they_stand() {
        let as_written = r#"{"kind":"delta","event_id":"c:d:7:0000000700000000:a:b:c:1","chain_id":"c","block_num":7,"block_time":"2026-01-01T00:00:00.500Z","block_id":"00000007","code":"a","value":{"kind":"fork"},"present":true}"#;
        let other = r#"{"value":{"kind":"fork"}, "block_id":"00000007","block_num":7,"chain_id":"c","event_id":"c:d:7:0000000700000000:a:b:c:1","kind":"delta"}"#;
        let event = Event {
            kind: event::Kind::Delta,
            event_id: "c:d:7:0000000700000000:a:b:c:1",
            chain_id: "c",
            block_num: 7,
            block_id: "00000007",
            replayed: false,
        };
        assert!(Event::as_written(other).is_none());
        assert_eq!(Event::read(as_written), Ok(Event { ..event }));
        assert_eq!(Event::read(other), Ok(event));
        let replayed = as_written.replace("true}", "true,\"replayed\":true}");
        assert!(Event::read(&replayed).expect("an event").replayed);
    }

    #[test]
    fn what_is_no_event_is_refused() {
        for json in ["", "{}", "{\"kind\":\"action\"", r#"{"kind":"x","event_id":"","chain_id":""}"#, "[1]"] {
            assert!(Event::read(json).is_err(), "{json}");
        }
    }
}
