//! A TCP proxy before a server, whose two directions can be held, cut and recorded.
#![allow(dead_code)]

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// What has passed, in order.
type Log = Arc<Mutex<Vec<(Way, Vec<u8>)>>>;

/// Lets so many bytes pass in each direction. What lies beyond waits, or ends the connections.
#[derive(Debug, Clone, Copy)]
struct Limits {
    up: u64,
    down: u64,
    cut: bool,
}

/// A proxy; it ends when dropped.
pub struct Proxy {
    port: u16,
    limits: watch::Sender<Limits>,
    log: Log,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// One that lets everything pass for the time being.
    pub async fn start(server_port: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (limits, watched) = watch::channel(Limits { up: u64::MAX, down: u64::MAX, cut: false });
        let log = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn({
            let log = log.clone();
            async move {
                loop {
                    let Ok((client, _)) = listener.accept().await else { return };
                    let server = TcpStream::connect(("127.0.0.1", server_port)).await.expect("the server");
                    let (client_in, client_out) = client.into_split();
                    let (server_in, server_out) = server.into_split();
                    let up = forward(client_in, server_out, Way::Up, watched.clone(), log.clone());
                    let down = forward(server_in, client_out, Way::Down, watched.clone(), log.clone());
                    tokio::spawn(async move {
                        tokio::select! { () = up => {} () = down => {} }
                    });
                }
            }
        });
        Proxy { port, limits, log, task }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Holds back what lies beyond so many bytes of a connection in that direction.
    pub fn hold(&self, way: Way, bytes: u64) {
        self.limits.send_modify(|limits| match way {
            Way::Up => limits.up = bytes,
            Way::Down => limits.down = bytes,
        });
    }

    /// Ends a connection after so many bytes in that direction.
    pub fn cut(&self, way: Way, bytes: u64) {
        self.hold(way, bytes);
        self.limits.send_modify(|limits| limits.cut = true);
    }

    /// Lets everything pass.
    pub fn release(&self) {
        self.limits.send_replace(Limits { up: u64::MAX, down: u64::MAX, cut: false });
    }

    /// What has passed, in order.
    pub fn log(&self) -> Vec<(Way, Vec<u8>)> {
        self.log.lock().expect("the log").clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    way: Way,
    mut limits: watch::Receiver<Limits>,
    log: Log,
) {
    let mut buffer = vec![0; 4096];
    let mut passed = 0u64;
    loop {
        let Ok(count) = from.read(&mut buffer).await else { return };
        if count == 0 {
            if way == Way::Down {
                return;
            }
            // What was sent before is still carried out, and answered.
            to.shutdown().await.ok();
            std::future::pending::<()>().await;
        }
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            let now = *limits.borrow_and_update();
            let limit = if way == Way::Up { now.up } else { now.down };
            let room = usize::try_from(limit.saturating_sub(passed)).unwrap_or(usize::MAX).min(rest.len());
            if room > 0 {
                log.lock().expect("the log").push((way, rest[..room].to_vec()));
                if to.write_all(&rest[..room]).await.is_err() {
                    return;
                }
                passed += room as u64;
                rest = &rest[room..];
            } else if now.cut || limits.changed().await.is_err() {
                return;
            }
        }
    }
}
