//! A real redis-server of the test's own, on a free port, in a temporary directory.
#![allow(dead_code)]

use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use parser::publish::{Failure, Server};
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

/// Kills the server when dropped.
pub struct TestRedis {
    directory: TempDir,
    port: u16,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl TestRedis {
    /// A server without persistence.
    pub async fn start() -> TestRedis {
        TestRedis::start_with(&[]).await
    }

    /// One that writes every change to its append-only file before it answers.
    pub async fn start_with_aof() -> TestRedis {
        TestRedis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).await
    }

    /// A server with further arguments.
    pub async fn start_with(arguments: &[&str]) -> TestRedis {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let arguments = arguments.iter().map(|a| a.to_string()).collect();
        let mut redis = TestRedis { directory, port: 0, arguments, child: None };
        // The port found free can be taken by another test before the server has it.
        for _ in 0..10 {
            redis.port = free_port();
            if redis.launch().await {
                return redis;
            }
        }
        panic!("redis-server does not start (is it installed?)");
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn server(&self) -> Server {
        Server::new(&self.url(), None).expect("a Redis URL")
    }

    /// A file in the server's directory.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// A new connection to look into it.
    pub async fn client(&self) -> MultiplexedConnection {
        self.server().connect_control().await.expect("a connection")
    }

    /// CONFIG SET
    pub async fn config(&self, name: &str, value: &str) {
        let command = redis::cmd("CONFIG").arg(("SET", name, value)).to_owned();
        command.exec_async(&mut self.client().await).await.expect("CONFIG SET");
    }

    /// Like `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("the server runs");
            child.wait().expect("the server has ended");
        }
    }

    /// Starts it again on the same port and files.
    pub async fn restart(&mut self) {
        self.kill();
        self.mend();
        assert!(self.launch().await, "redis-server does not come back");
    }

    /// Starts it again without waiting until it has loaded its data.
    pub async fn restart_loading(&mut self, arguments: &[&str]) {
        self.kill();
        self.arguments.extend(arguments.iter().map(|a| a.to_string()));
        self.spawn();
        let deadline = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not listen");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Takes a transaction that was cut off in the middle out of the append-only file. At its start Redis (7.0, as Valkey
    /// before its pull request 4342) cuts off no more than the broken command: what was whole of the
    /// transaction stays in the file, and is carried out together with the next one at the start after that.
    fn mend(&self) {
        let manifest = self.path("appendonlydir/appendonly.aof.manifest");
        if !manifest.exists() {
            return;
        }
        let mut check = Command::new("redis-check-aof")
            .arg("--fix")
            .arg(manifest)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-check-aof is installed");
        // It asks only where there is something to mend, and may have ended without reading.
        let _ = check.stdin.take().expect("its input").write_all(b"y\n");
        assert!(check.wait().expect("it ends").success());
    }

    fn spawn(&mut self) {
        let child = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--enable-debug-command", "yes"])
            .args(["--unixsocket", &self.path("socket").display().to_string()])
            .args(&self.arguments)
            .current_dir(self.directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        self.child = Some(child);
    }

    /// `false` if it ended again.
    async fn launch(&mut self) -> bool {
        self.spawn();
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if let Some(Ok(Some(_))) = self.child.as_mut().map(Child::try_wait) {
                return false;
            }
            if self.answers().await {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("redis-server does not answer");
    }

    async fn answers(&self) -> bool {
        match self.server().connect_control().await {
            Ok(mut client) => redis::cmd("PING").exec_async(&mut client).await.is_ok(),
            // It is there, but asks for a password.
            Err(failure) => matches!(failure, Failure::Fatal(_)),
        }
    }
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("an address").port()
}
