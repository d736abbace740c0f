//! A made-up chain to publish: what every block's commands are, from any checkpoint on.
#![allow(dead_code)]

use std::sync::Arc;
use std::time::Duration;

use parser::block::{Checksum, Position};
use parser::keys::Keys;
use parser::out::Out;
use parser::publish::connection::Connection;
use parser::publish::unit::Tally;
use parser::publish::writer::{self, Progress, Settings};
use parser::publish::{self, Checkpoint, EntryId, Failure, Lease, Server, StreamIds, Unit};
use parser::resp;
use redis::aio::MultiplexedConnection;
use tokio::sync::{mpsc, watch};

/// The chain's id.
pub const CHAIN: Checksum = Checksum([7; 32]);

/// Blocks 1 to `blocks` with a few entries each; one in ten is large and comes in parts.
#[derive(Debug, Clone)]
pub struct Feed {
    pub keys: Keys,
    pub stream_ids: StreamIds,
    pub blocks: u32,
}

/// Entries of one part of a large block.
const PART: u64 = 50;

impl Feed {
    pub fn new(stream_ids: StreamIds, blocks: u32) -> Feed {
        Feed { keys: Keys::new("test", &CHAIN, ""), stream_ids, blocks }
    }

    pub fn position(num: u32) -> Position {
        let mut id = [0; 32];
        id[..4].copy_from_slice(&num.to_be_bytes());
        Position { num, id: Checksum(id) }
    }

    fn entries(num: u32) -> u64 {
        if num % 10 == 5 { 180 } else { u64::from(num * 7 % 4) }
    }

    fn data(num: u32, entry: u64) -> String {
        format!("{{\"block_num\":{num},\"entry\":{entry},\"text\":\"{:0>80}\"}}", num)
    }

    /// What the events stream must hold in the end: ids (with block ids) and data.
    pub fn expected(&self) -> Vec<(String, String)> {
        (1..=self.blocks)
            .flat_map(|num| (1..=Self::entries(num)).map(move |i| (format!("{num}-{i}"), Self::data(num, i))))
            .collect()
    }

    /// The units that follow a checkpoint.
    pub fn units(&self, checkpoint: &Checkpoint) -> Vec<Unit> {
        let mut units = Vec::new();
        let mut last_entry = checkpoint.stream_id;
        let (mut num, mut done) = match (checkpoint.block, checkpoint.part) {
            (None, _) => (1, 0),
            (Some(block), None) => (block.num + 1, 0),
            (Some(block), Some(part)) => (block.num, part),
        };
        while num <= self.blocks {
            let all = Self::entries(num);
            let upto = all.min(done + PART);
            let mut commands = Out::default();
            for i in done + 1..=upto {
                let id = EntryId { first: num.into(), second: i };
                let text = if self.stream_ids == StreamIds::Auto { "*".to_owned() } else { id.to_string() };
                let data = Self::data(num, i);
                let events = self.keys.events.as_bytes();
                resp::command(&mut commands, &[b"XADD", events, text.as_bytes(), b"data", data.as_bytes()]);
                last_entry = Some(id);
            }
            units.push(Unit {
                commands: commands.into(),
                command_count: (upto - done) as usize,
                entries: upto - done,
                again: false,
                block: Self::position(num),
                last_irreversible: num.saturating_sub(3),
                part: (upto < all).then_some(upto),
                fork: None,
                last_entry: last_entry.filter(|_| self.stream_ids == StreamIds::Block),
                first_published: 1,
                permit: None,
                tally: Tally::default(),
            });
            (num, done) = if upto < all { (num, upto) } else { (num + 1, 0) };
        }
        units
    }

    pub fn settings(&self, lease: &Lease) -> Settings {
        Settings {
            keys: self.keys.clone(),
            token: lease.token().to_owned(),
            stream_ids: self.stream_ids,
            selection: "all".to_owned(),
            pause_at: None,
            reply_limit: Duration::from_secs(10),
            monitor: Arc::default(),
        }
    }

    /// Publishes from the checkpoint to the end, or until something fails.
    pub async fn publish(&self, server: &Server, lease: &Lease) -> Result<(), Failure> {
        let (checkpoint, connection) =
            publish::begin(server, &self.keys, &CHAIN, self.stream_ids, lease, |_| Ok(())).await?;
        self.publish_from(checkpoint, connection, lease).await
    }

    /// Publishes after a beginning made.
    pub async fn publish_from(
        &self,
        checkpoint: Checkpoint,
        connection: Connection,
        lease: &Lease,
    ) -> Result<(), Failure> {
        let (sender, mut receiver) = mpsc::channel(4);
        let (progress, _) = watch::channel(Progress::default());
        let units = self.units(&checkpoint);
        let feed = async move {
            for unit in units {
                if sender.send(unit).await.is_err() {
                    return;
                }
            }
        };
        let settings = self.settings(lease);
        let run = async {
            let result = writer::run(connection, &settings, &checkpoint, &mut receiver, &progress).await;
            drop(receiver);
            result
        };
        tokio::join!(run, feed).0
    }

    /// Publishes to the end, going on after each failure that passes.
    pub async fn publish_through(&self, server: &Server, lease: &Lease) {
        for _ in 0..1000 {
            match self.publish(server, lease).await {
                Ok(()) => return,
                Err(failure) if failure.is_transient() => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(failure) => panic!("{failure}"),
            }
        }
        panic!("does not come to an end");
    }

    /// All there is in the events stream.
    pub async fn stream(&self, client: &mut MultiplexedConnection) -> Vec<(String, String)> {
        let entries: Vec<(String, Vec<(String, String)>)> = redis::cmd("XRANGE")
            .arg((&self.keys.events, "-", "+"))
            .query_async(client)
            .await
            .expect("XRANGE");
        entries.into_iter().map(|(id, fields)| (id, fields[0].1.clone())).collect()
    }

    /// Checks that the stream holds everything once, in order, and that the checkpoint says so.
    pub async fn assert_complete(&self, client: &mut MultiplexedConnection) {
        let (stream, expected) = (self.stream(client).await, self.expected());
        match self.stream_ids {
            StreamIds::Block => assert_eq!(stream, expected),
            StreamIds::Auto => {
                let data = |list: Vec<(String, String)>| list.into_iter().map(|e| e.1).collect::<Vec<_>>();
                assert_eq!(data(stream), data(expected));
            }
        }
        let checkpoint = Checkpoint::load(client, &self.keys).await.expect("a checkpoint");
        assert_eq!((checkpoint.block, checkpoint.part), (Some(Self::position(self.blocks)), None));
        let first = self.blocks - 3;
        assert_eq!(checkpoint.positions, (first..=self.blocks).map(Self::position).collect::<Vec<_>>());
    }

    /// Checks that the stream holds the beginning of it, and how much the checkpoint says it does.
    pub async fn assert_prefix(&self, client: &mut MultiplexedConnection) -> usize {
        let (stream, expected) = (self.stream(client).await, self.expected());
        assert_eq!(stream, expected[..stream.len()]);
        let checkpoint = Checkpoint::load(client, &self.keys).await.expect("a checkpoint");
        assert_eq!(
            checkpoint.stream_id.map(|id| id.to_string()),
            stream.last().map(|(id, _)| id.clone()),
            "the checkpoint goes with the stream"
        );
        stream.len()
    }
}
