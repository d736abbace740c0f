//! A capture as a SHiP endpoint: what a node would send to a client, from a file.
//!
//! It behaves as nodeos does: the ABI frame, then answers to status requests, and results from the start block on, as
//! many as there are credits (`max_messages_in_flight`, then acks). A new request for blocks replaces request and
//! credits. Behind the capture's last block it stays silent and open, as a node does at its head. Any
//! number of clients, each on its own. `irreversible_only` sends the chain that stands at the end, up to its last
//! irreversible block. Faults can be ordered, at the start and while it runs.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tracing::{debug, warn};

use crate::transport::Stream;

use super::file::Capture;
use super::replay::{Replay, ReplayError};
use super::session;

/// How a capture is served.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    /// Play the blocks from this number on again and again, as one chain that grows for ever.
    pub repeat_from: Option<u32>,
    /// With `repeat_from`: each block's time is when it is sent.
    pub now: bool,
    /// Answer status requests as recorded, instead of with what the capture holds.
    pub status_as_recorded: bool,
    /// Send each message in WebSocket frames of at most so many bytes (in one, if none).
    pub fragment_bytes: Option<usize>,
    /// What goes wrong.
    pub faults: Faults,
}

/// What goes wrong, for each connection. Frames and bytes count from the moment the fault is ordered, or from the
/// connection's begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// Close every new connection at once.
    pub refuse: bool,
    /// Close the connection after so many result frames, without a close frame.
    pub drop_after_frames: Option<u64>,
    /// Close it after a number of bytes drawn from this range: most often in the middle of a frame.
    pub cut_after_bytes: Option<Range<u64>>,
    /// Send no more results after so many, while the status says that the chain goes on.
    pub stall_after_frames: Option<u64>,
    /// Wait before each result frame.
    pub delay: Duration,
    /// Only the next so many connections are affected, with those that are open; all if none.
    pub connections: Option<u64>,
}

/// Where clients connect.
pub enum Listener {
    /// A port.
    Tcp(TcpListener),
    /// A socket file.
    Unix(UnixListener),
}

/// A capture being served. Dropped, it stops at once, with all connections.
pub struct Server {
    shared: Arc<Shared>,
    url: String,
    accepting: JoinHandle<()>,
}

/// What all sessions know.
pub(super) struct Shared {
    pub(super) replay: Replay,
    /// The ABI frame as it is sent.
    pub(super) abi: String,
    pub(super) options: ServeOptions,
    pub(super) faults: watch::Sender<Faults>,
    /// Connections affected by the current faults.
    pub(super) affected: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) frames: AtomicU64,
    /// The highest block number sent.
    pub(super) furthest: AtomicU32,
}

// === impl Listener ===

impl Listener {
    /// Listens on `HOST:PORT`, or on the socket file of `unix:PATH`.
    pub async fn bind(address: &str) -> io::Result<Listener> {
        match address.strip_prefix("unix:") {
            Some(path) => UnixListener::bind(path.strip_prefix("//").unwrap_or(path)).map(Listener::Unix),
            None => TcpListener::bind(address).await.map(Listener::Tcp),
        }
    }

    fn url(&self) -> io::Result<String> {
        match self {
            Listener::Tcp(listener) => Ok(url(listener.local_addr()?)),
            Listener::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().map(PathBuf::from).unwrap_or_default();
                Ok(format!("ws+unix://{}", path.display()))
            }
        }
    }

    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
            Listener::Unix(listener) => Ok(Box::new(listener.accept().await?.0)),
        }
    }
}

fn url(mut address: SocketAddr) -> String {
    // Bound to all addresses of the machine, it is reached by this one from here.
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    format!("ws://{address}")
}

// === impl Server ===

impl Server {
    /// Serves `capture` on `listener` until dropped. Call it inside a tokio runtime.
    pub fn start(capture: &Capture, listener: Listener, options: ServeOptions) -> Result<Server, ServeError> {
        let mut replay = Replay::new(capture, options.repeat_from)?;
        if options.now {
            replay = replay.as_of_now();
        }
        let url = listener.url().map_err(ServeError::Listener)?;
        let shared = Arc::new(Shared {
            replay,
            abi: capture.abi.clone(),
            faults: watch::Sender::new(options.faults.clone()),
            options,
            affected: AtomicU64::default(),
            connections: AtomicU64::default(),
            frames: AtomicU64::default(),
            furthest: AtomicU32::default(),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Ok(Server { shared, url, accepting })
    }

    /// The address clients use: `ws://…` or `ws+unix://…`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Orders other faults, for open connections too.
    pub fn set_faults(&self, faults: Faults) {
        self.shared.affected.store(0, Ordering::Relaxed);
        self.shared.faults.send_replace(faults);
    }

    /// How many connections were accepted (refused ones included).
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// How many result frames were sent, in all connections.
    pub fn frames(&self) -> u64 {
        self.shared.frames.load(Ordering::Relaxed)
    }

    /// Serves until the listener fails; with `select!`, until something else happens.
    pub async fn wait(&mut self) {
        // It ends only when it is aborted or the listener fails, which it says itself.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Why a capture cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Its frames cannot be played.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The listener has no address.
    #[error("failed to listen: {0}")]
    Listener(#[source] io::Error),
}

async fn accept(listener: Listener, shared: Arc<Shared>) {
    // Aborts the sessions when it is dropped.
    let mut sessions = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = sessions.join_next() => continue,
        };
        match accepted {
            Ok(stream) => {
                let number = shared.connections.fetch_add(1, Ordering::Relaxed);
                let shared = shared.clone();
                sessions.spawn(async move {
                    match session::run(stream, shared).await {
                        Ok(end) => debug!(connection = number, end = %end, "client connection ended"),
                        Err(error) => {
                            debug!(connection = number, reason = %error, "client connection failed")
                        }
                    }
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: it passes.
                warn!(reason = %error, "failed to accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
