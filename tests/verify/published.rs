//! A published stream, looked at and changed.

use std::process::Stdio;

use parser::capture::file::Capture;
use parser::capture::serve::Server;
use parser::keys::Keys;
use redis::aio::MultiplexedConnection;
use serde_json::Value;

use crate::support::captures;
use crate::support::redis::TestRedis;
use crate::support::stage::Stage;

/// The small capture with forks that comes with the project.
pub fn bundled() -> Capture {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fork-240.shipcap.zst");
    Capture::load(file.as_ref()).expect("a capture")
}

/// A published stream.
pub struct Published {
    pub node: Server,
    pub redis: TestRedis,
    pub keys: Keys,
    pub yaml: String,
    pub folder: tempfile::TempDir,
}

impl Published {
    /// A capture, published.
    pub async fn new(name: &str, further: &str) -> Option<Published> {
        let stage = Stage::new(&captures::recorded(name)?).await;
        stage.finish(further).await;
        Some(Published::of(stage, further))
    }

    /// The small one, published.
    pub async fn demo(further: &str) -> Published {
        let stage = Stage::new(&bundled()).await;
        stage.finish(further).await;
        Published::of(stage, further)
    }

    pub fn of(stage: Stage, further: &str) -> Published {
        let (ship, redis) = (stage.node.url(), stage.redis.url());
        let yaml = format!("ship: {{url: '{ship}'}}\nredis: {{url: '{redis}'}}\n{further}\n");
        let Stage { node, redis, keys, .. } = stage;
        Published { node, redis, keys, yaml, folder: tempfile::tempdir().expect("a folder") }
    }

    pub async fn client(&self) -> MultiplexedConnection {
        self.redis.client().await
    }

    /// Exit status and report.
    pub async fn verify(&self, arguments: &[&str]) -> (i32, Value) {
        let (status, out, err) = verify(&self.folder, &self.yaml, arguments).await;
        let report = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
        (status, report)
    }

    /// Checks that nothing is wrong; the report.
    pub async fn good(&self, arguments: &[&str]) -> Value {
        let (status, report) = self.verify(arguments).await;
        assert_eq!(report["findings"], serde_json::json!([]), "{arguments:?}");
        assert_eq!(status, 0);
        report
    }

    /// Checks that just these kinds of things are wrong; the report.
    pub async fn wrong(&self, kinds: &[&str]) -> Value {
        let (status, report) = self.verify(&[]).await;
        let found: Vec<&str> =
            report["counts"].as_object().expect("counts").keys().map(String::as_str).collect();
        assert_eq!(found, kinds, "{report:#}");
        assert_eq!(status, 1);
        report
    }
}

/// Exit status, stdout and stderr.
pub async fn verify(folder: &tempfile::TempDir, yaml: &str, arguments: &[&str]) -> (i32, String, String) {
    let config = folder.path().join("parser.yaml");
    std::fs::write(&config, yaml).expect("written");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_parser"));
    command.args(["verify", "--json", "--config"]).arg(&config).args(arguments).stdin(Stdio::null());
    let output =
        tokio::task::spawn_blocking(move || command.output().expect("started")).await.expect("ended");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("a status"), text(output.stdout), text(output.stderr))
}

/// An entry: its id, its fields, and its event's block and kind.
#[derive(Clone)]
pub struct Entry {
    pub id: String,
    pub fields: Vec<(String, String)>,
}

impl Entry {
    pub fn event(&self) -> Value {
        serde_json::from_str(&self.fields[0].1).expect("JSON")
    }

    pub fn block(&self) -> u64 {
        self.event()["block_num"].as_u64().unwrap_or(0)
    }

    pub fn is(&self, kind: &str) -> bool {
        self.event()["kind"] == kind
    }

    pub fn replace(&mut self, from: &str, to: &str) {
        assert!(self.fields[0].1.contains(from), "{from}");
        self.fields[0].1 = self.fields[0].1.replacen(from, to, 1);
    }
}

/// Numbers entries as the parser does.
pub fn renumber(entries: &mut [Entry]) {
    let (mut first, mut second) = (0, 0);
    for i in 0..entries.len() {
        // A fork event goes with the block behind it.
        let block = match entries[i].block() {
            0 => entries.get(i + 1).map_or(0, Entry::block),
            block => block,
        };
        if block > first {
            (first, second) = (block, 0);
        }
        second += 1;
        entries[i].id = format!("{first}-{second}");
    }
}

impl Published {
    pub async fn entries(&self) -> Vec<Entry> {
        let entries: Vec<(String, Vec<(String, String)>)> = redis::cmd("XRANGE")
            .arg((&self.keys.events, "-", "+"))
            .query_async(&mut self.client().await)
            .await
            .expect("XRANGE");
        entries.into_iter().map(|(id, fields)| Entry { id, fields }).collect()
    }

    /// Puts these entries in place of the stream's.
    pub async fn put(&self, entries: &[Entry]) {
        let mut pipe = redis::pipe();
        pipe.del(&self.keys.events).ignore();
        for entry in entries {
            pipe.cmd("XADD").arg(&self.keys.events).arg(&entry.id).arg(&entry.fields).ignore();
        }
        // The checkpoint must not be what gives it away.
        let last = &entries.last().expect("an entry").id;
        pipe.hset(&self.keys.sync, "stream_id", last).ignore();
        pipe.exec_async(&mut self.client().await).await.expect("XADD");
    }
}

/// The place of the first entry that is so.
pub fn place(entries: &[Entry], what: impl Fn(&Entry) -> bool) -> usize {
    entries.iter().position(what).expect("such an entry")
}
