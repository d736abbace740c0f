//! A machine as docs/operations.md takes it: a node, and Redis and the parser as services.
//!
//! The service manager is played by a script: starting the parser waits until it has published all that the node has (or
//! what [`Machine::expect`] says), or has ended.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use parser::capture::file::Capture;
use parser::capture::serve::{ServeOptions, Server};
use parser::keys::Keys;
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

use super::book;
use super::support::captures;
use super::support::written::Written;

/// Its services end when it is dropped.
pub struct Machine {
    pub node: Server,
    pub keys: Keys,
    /// Where the commands are typed. Redis' directory is `redis` in it.
    folder: TempDir,
    tools: TempDir,
    port: u16,
}

const SYSTEMCTL: &str = r#"#!/usr/bin/env bash
# usage: systemctl start|stop parser|redis-server
# A process that nobody has waited for is none any more.
running() { grep -q '^State:.[^ZX]' "/proc/$(cat ".$1" 2>/dev/null)/status" 2>/dev/null; }
case "$1 $2" in
"stop parser" | "stop redis-server")
    running "$2" && kill "$(cat ".$2")"
    while running "$2"; do sleep 0.02; done
    rm -f ".$2"
    ;;
"is-active parser" | "is-active redis-server") if running "$2"; then echo active; else echo inactive; fi ;;
"start redis-server")
    redis-server redis.conf >/dev/null 2>&1 </dev/null &
    echo $! >.redis-server
    while running redis-server; do
        [ "$(redis-cli PING 2>&1)" = PONG ] && exit 0
        sleep 0.02
    done
    echo "redis-server does not start"
    ;;
"start parser")
    parser run --config parser.yaml >>log 2>&1 </dev/null &
    echo $! >.parser
    for ((i = 0; i < 3000; i++)); do
        running parser || { rm .parser; exit 0; }
        bash expected >/dev/null 2>&1 && exit 0
        sleep 0.02
    done
    echo "it does not come to that: $(cat expected)"
    tail -n 5 log
    ;;
esac
"#;

const JOURNALCTL: &str = r#"#!/usr/bin/env bash
# usage: journalctl -u parser -o cat -n N
exec tail -n "${@: -1}" log
"#;

const REDIS: &str = "bind 127.0.0.1\ndir redis\nappendonly yes\nappendfsync always\nsave \"\"\n";

impl Machine {
    /// With a node that plays that capture, and a parser that is not running. `yaml`: further lines of its configuration.
    pub async fn new(capture: &Capture, yaml: &str) -> Machine {
        let node = captures::serve(capture, ServeOptions::default()).await;
        let blocks = capture.frames.iter().filter_map(|frame| captures::block(frame, &capture.protocol));
        let last = blocks.last().expect("a block");
        let folder = tempfile::tempdir().expect("a folder");
        let tools = tempfile::tempdir().expect("a folder");
        let keys = Keys::new("parser2", &capture.status.chain_id.expect("a chain id"), "");
        let mut machine = Machine { node, keys, folder, tools, port: 0 };
        machine.tool("systemctl", SYSTEMCTL);
        machine.tool("journalctl", JOURNALCTL);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_parser"), machine.tools.path().join("parser"))
            .expect("a link");
        fs::create_dir(machine.folder().join("redis")).expect("a folder");
        // A port found free can be taken by another test before the server has it.
        for _ in 0..10 {
            machine.port = free_port();
            let command = "command -p redis-cli";
            machine.tool("redis-cli", &format!("#!/bin/sh\n{command} -p {} \"$@\"\n", machine.port));
            machine.file("redis.conf", &format!("{REDIS}port {}\n", machine.port));
            if machine.call("systemctl start redis-server").is_empty() {
                break;
            }
        }
        machine.configure(yaml);
        machine.expect_block(last.num);
        machine
    }

    /// The parser's configuration from now on.
    pub fn configure(&self, yaml: &str) {
        let ship = if yaml.contains("ship:") {
            String::new()
        } else {
            format!("ship: {{url: '{}'}}\n", self.node.url())
        };
        self.file(
            "parser.yaml",
            &format!("{ship}redis: {{url: 'redis://127.0.0.1:{}'}}\nreconnect: {{backoffSeconds: [0.05]}}\n{yaml}\n", self.port),
        );
    }

    /// What the parser's start waits for: a command that succeeds then.
    pub fn expect(&self, condition: &str) {
        self.file("expected", condition);
    }

    /// The parser's start waits until that block is published whole.
    pub fn expect_block(&self, num: u32) {
        self.expect(&format!(
            "[ \"$(redis-cli HMGET {} block_num part | tr '\\n' ' ')\" = '{num}  ' ]",
            self.keys.sync
        ));
    }

    pub fn file(&self, name: &str, text: &str) {
        fs::write(self.folder().join(name), text).expect("written");
    }

    fn tool(&self, name: &str, script: &str) {
        let file = self.tools.path().join(name);
        fs::write(&file, script).expect("written");
        fs::set_permissions(file, Permissions::from_mode(0o755)).expect("executable");
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A command as it is typed on that machine; what it prints.
    pub fn call(&self, command: &str) -> String {
        book::call(command, self.folder(), self.tools.path(), &self.names())
    }

    /// What the page takes as set.
    fn names(&self) -> [(&'static str, String); 5] {
        let chain = self.keys.sync.rsplit(':').next().unwrap_or_default().to_owned();
        [
            ("chain", chain),
            ("events", self.keys.events.clone()),
            ("conf", "redis.conf".to_owned()),
            ("data", "redis".to_owned()),
            ("node", self.node.url().to_owned()),
        ]
    }

    /// A command that prints nothing.
    pub fn quietly(&self, command: &str) {
        let printed = self.call(command);
        assert!(printed.is_empty(), "{command}: {printed}");
    }

    /// Waits until the parser has ended by itself.
    pub fn ended(&self) {
        self.quietly("for ((i = 0; i < 3000; i++)); do [ $(systemctl is-active parser) = inactive ] && exit; sleep 0.02; done; echo not ended");
    }

    /// Does what that section of the page says.
    pub fn follow(&self, section: &str) {
        book::follow(section, self.folder(), self.tools.path(), &self.names());
    }

    pub async fn client(&self) -> MultiplexedConnection {
        let url = format!("redis://127.0.0.1:{}", self.port);
        let server = parser::publish::Server::new(&url, None).expect("a URL");
        server.connect_control().await.expect("a connection")
    }

    pub async fn written(&self) -> Written {
        Written::read(&mut self.client().await, &self.keys).await
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.call("systemctl stop parser; systemctl stop redis-server");
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("an address").port()
}
