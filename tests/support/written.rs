//! What lies in Redis after a run.

use std::collections::BTreeMap;

use parser::keys::Keys;
use redis::Value;
use redis::aio::MultiplexedConnection;

/// Everything but what differs from run to run: the lease and the time of the checkpoint.
#[derive(PartialEq)]
pub struct Written {
    /// Ids and data of the events stream.
    pub events: Vec<(String, String)>,
    /// The other keys with what they hold.
    pub rest: BTreeMap<String, Value>,
}

type Entry = (String, Vec<(String, String)>);

impl Written {
    pub async fn read(client: &mut MultiplexedConnection, keys: &Keys) -> Written {
        let mut all: Vec<String> = redis::cmd("KEYS").arg("*").query_async(client).await.expect("KEYS");
        // What a process says of itself, and for how long, is no outcome.
        all.retain(|key| ![&keys.events, &keys.writer, &keys.state].contains(&key));
        let mut rest = BTreeMap::new();
        for key in all {
            let kind: String = redis::cmd("TYPE").arg(&key).query_async(client).await.expect("TYPE");
            let mut command = match kind.as_str() {
                "string" => redis::cmd("GET").arg(&key).to_owned(),
                "hash" => redis::cmd("HGETALL").arg(&key).to_owned(),
                "zset" => redis::cmd("ZRANGE").arg((&key, 0, -1, "WITHSCORES")).to_owned(),
                "stream" => redis::cmd("XRANGE").arg((&key, "-", "+")).to_owned(),
                other => panic!("{key} is a {other}"),
            };
            let value = if kind == "hash" {
                // In no order of its own.
                let mut fields: BTreeMap<String, String> = command.query_async(client).await.expect("a hash");
                if key == keys.sync {
                    fields.remove("last_updated").expect("a time");
                }
                let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
                Value::Array(fields.iter().flat_map(|(k, v)| [text(k), text(v)]).collect())
            } else {
                command.query_async(client).await.expect("a value")
            };
            command.clear();
            rest.insert(key, value);
        }
        Written { events: entries(client, &keys.events).await, rest }
    }

    /// The events without their ids.
    pub fn data(&self) -> impl Iterator<Item = &str> {
        self.events.iter().map(|(_, data)| data.as_str())
    }

    /// Checks that all is the same, ids and bytes.
    pub fn assert_same(&self, other: &Written, what: &str) {
        for (i, (here, there)) in self.events.iter().zip(&other.events).enumerate() {
            assert!(here == there, "{what}, entry {i}:\n{here:?}\nthe undisturbed run's:\n{there:?}");
        }
        assert_eq!(self.events.len(), other.events.len(), "{what}: entries");
        for key in self.rest.keys().chain(other.rest.keys()) {
            let (here, there) = (self.rest.get(key), other.rest.get(key));
            assert!(here == there, "{what}: {key}:\n{here:?}\nthe undisturbed run's:\n{there:?}");
        }
    }

    /// Checks that the events are the same, under whatever ids.
    pub fn assert_same_data(&self, other: &Written, what: &str) {
        for (i, (here, there)) in self.data().zip(other.data()).enumerate() {
            assert!(here == there, "{what}, entry {i}:\n{here}\nthe other run's:\n{there}");
        }
        assert_eq!(self.events.len(), other.events.len(), "{what}: entries");
    }
}

/// Ids and data of the events stream, read in pieces.
async fn entries(client: &mut MultiplexedConnection, stream: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut from = "-".to_owned();
    loop {
        let some: Vec<Entry> = redis::cmd("XRANGE")
            .arg((stream, &from, "+", "COUNT", 5000))
            .query_async(client)
            .await
            .expect("XRANGE");
        let Some((last, _)) = some.last() else { return all };
        from = format!("({last}");
        all.extend(some.into_iter().map(|(id, mut fields)| {
            assert_eq!(fields.len(), 1, "{id}");
            let (name, data) = fields.remove(0);
            assert_eq!(name, "data", "{id}");
            (id, data)
        }));
    }
}

/// The parser's dead letters: ids and fields.
pub async fn dead_letters(client: &mut MultiplexedConnection, keys: &Keys) -> Vec<Entry> {
    redis::cmd("XRANGE").arg((&keys.dead_parser, "-", "+")).query_async(client).await.expect("XRANGE")
}
