//! How far publishing has come, as Redis knows it.

use std::collections::HashMap;
use std::str::FromStr;

use redis::aio::MultiplexedConnection;

use super::failure::Failure;
use super::unit::EntryId;
use crate::block::{Checksum, Position};
use crate::keys::Keys;

/// Fields of the hash.
pub(super) type Fields = HashMap<String, String>;

/// The checkpoint: what the last committed transaction left behind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// The newest block of which anything is published; `None` when nothing is.
    pub block: Option<Position>,
    /// `Some` when that block is published only in part: entries of it done. It is gone on with from there.
    pub part: Option<u64>,
    /// What that block's entries were counted by: see [`super::writer::Settings::selection`].
    pub part_selection: Option<String>,
    /// The last irreversible block at that time.
    pub last_irreversible: u32,
    /// Id of the last entry in the events stream. With auto ids the last one known when the transaction
    /// was made, so of an earlier one.
    pub stream_id: Option<EntryId>,
    /// Number of the first block ever published here.
    pub first_block: Option<u32>,
    /// Blocks published whole that a fork could still remove, and the newest whole one, ascending.
    pub positions: Vec<Position>,
}

impl Checkpoint {
    /// Reads it. Before writing on from it the lease must be taken: [`super::startup::begin`] does both.
    pub async fn load(connection: &mut MultiplexedConnection, keys: &Keys) -> Result<Checkpoint, Failure> {
        // No MULTI, which a Redis out of memory refuses. If the hash is the same before and after, no transaction
        // came between.
        let mut tries = 0;
        loop {
            let (fields, blocks, after): (Fields, Vec<(String, f64)>, Fields) = redis::pipe()
                .hgetall(&keys.sync)
                .zrange_withscores(&keys.blocks, 0, -1)
                .hgetall(&keys.sync)
                .query_async(connection)
                .await?;
            tries += 1;
            if fields == after || tries == 10 {
                return parse(keys, &fields, &blocks);
            }
        }
    }
}

pub(super) fn parse(keys: &Keys, fields: &Fields, blocks: &[(String, f64)]) -> Result<Checkpoint, Failure> {
    let num: Option<u32> = field(keys, fields, "block_num")?;
    let id: Option<Checksum> = field(keys, fields, "block_id")?;
    let block = match (num, id) {
        (Some(num), Some(id)) => Some(Position { num, id }),
        (None, None) if fields.is_empty() && blocks.is_empty() => None,
        (None, None) if fields.is_empty() => {
            return Err(unfit(&keys.blocks, "holds published blocks, but there is no checkpoint beside it"));
        }
        _ => return Err(unfit(&keys.sync, "lacks `block_num` or `block_id`")),
    };
    let part = field(keys, fields, "part")?;
    let mut positions = Vec::with_capacity(blocks.len() + 1);
    for (member, score) in blocks {
        // Block numbers have 32 bits, so a score holds them exactly.
        if score.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(score) {
            return Err(unfit(
                &keys.blocks,
                &format!("holds `{member}` with score {score}, no block number"),
            ));
        }
        let id = member.parse().map_err(|e| unfit(&keys.blocks, &format!("holds a foreign member: {e}")))?;
        positions.push(Position { num: *score as u32, id });
    }
    if let Some(block) = block {
        match positions.last() {
            Some(last) if last.num > block.num || (last.num == block.num && last.id != block.id) => {
                return Err(unfit(
                    &keys.blocks,
                    &format!("holds block {last}, but the checkpoint is {block}"),
                ));
            }
            Some(last) if last.num == block.num => {}
            // A checkpoint of the TypeScript version has no positions beside it.
            _ if part.is_none() => positions.push(block),
            _ => {}
        }
    }
    Ok(Checkpoint {
        block,
        part,
        part_selection: fields.get("part_selection").cloned(),
        last_irreversible: field(keys, fields, "last_irreversible")?.unwrap_or(0),
        stream_id: field(keys, fields, "stream_id")?,
        first_block: field(keys, fields, "first_block")?,
        positions,
    })
}

fn field<T: FromStr>(keys: &Keys, fields: &Fields, name: &str) -> Result<Option<T>, Failure> {
    match fields.get(name) {
        None => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|_| unfit(&keys.sync, &format!("holds `{name}` = `{text}`, which cannot be read"))),
    }
}

fn unfit(key: &str, what: &str) -> Failure {
    Failure::Unfit(format!(
        "the Redis key `{key}` {what}: it is damaged or was written by something else; use another `redis.namespace`, or \
         remove the keys of this one to publish from the start"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys::new("ns", &Checksum([1; 32]), "")
    }

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    #[test]
    fn a_checkpoint_is_read_with_its_positions() {
        let id = |byte: u8| Checksum([byte; 32]);
        let all = fields(&[
            ("block_num", "7"),
            ("block_id", &id(7).to_string()),
            ("last_updated", "2024-01-01T00:00:00.000Z"),
            ("last_irreversible", "5"),
            ("stream_id", "7-3"),
            ("first_block", "2"),
        ]);
        let blocks = vec![(id(5).to_string(), 5.0), (id(6).to_string(), 6.0)];
        let checkpoint = parse(&keys(), &all, &blocks).unwrap();
        let at = |num: u32| Position { num, id: id(num as u8) };
        assert_eq!(
            checkpoint,
            Checkpoint {
                block: Some(at(7)),
                part: None,
                part_selection: None,
                last_irreversible: 5,
                stream_id: Some(EntryId { first: 7, second: 3 }),
                first_block: Some(2),
                positions: vec![at(5), at(6), at(7)],
            }
        );

        // A block in parts is no position yet.
        let mut in_parts = all;
        in_parts.insert("part".into(), "40".into());
        let checkpoint = parse(&keys(), &in_parts, &blocks).unwrap();
        assert_eq!((checkpoint.part, checkpoint.positions), (Some(40), vec![at(5), at(6)]));
        assert_eq!(parse(&keys(), &fields(&[]), &[]).unwrap(), Checkpoint::default());
    }

    #[test]
    fn foreign_content_is_refused_by_key() {
        let id = Checksum([7; 32]).to_string();
        let good = [("block_num", "7"), ("block_id", id.as_str())];
        for (fields, blocks, part) in [
            (fields(&[("block_num", "7")]), vec![], "ns:sync:"),
            (fields(&[("block_num", "x"), ("block_id", &id)]), vec![], "`block_num` = `x`"),
            (fields(&[]), vec![(id.clone(), 7.0)], "no checkpoint"),
            (fields(&good), vec![("zz".to_owned(), 7.0)], "`zz`"),
            (fields(&good), vec![(id.clone(), 7.5)], "score 7.5"),
            (fields(&good), vec![(id.clone(), 8.0)], "holds block 8"),
        ] {
            let failure = parse(&keys(), &fields, &blocks).unwrap_err();
            assert!(matches!(&failure, Failure::Unfit(text) if text.contains(part)), "{failure}");
        }
    }
}
