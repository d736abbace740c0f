//! A node whose every connection goes by a script, and that keeps what it was asked.
#![allow(dead_code)] // Not every test uses all of it.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use parser::block::Position;
use parser::ship::message::{BlocksRequest, Request, StatusResult};
use parser::ship::protocol::Protocol;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Message;

use super::made;

/// What one connection sends after a request for blocks, whatever was asked.
pub type Script = Vec<Bytes>;

#[derive(Default)]
struct Seen {
    asked: Vec<BlocksRequest>,
    sent: usize,
    acked: u64,
}

/// Ends when dropped.
pub struct ScriptedNode {
    url: String,
    seen: Arc<Mutex<Seen>>,
    changed: watch::Receiver<()>,
    task: tokio::task::JoinHandle<()>,
}

impl ScriptedNode {
    /// The first connection that asks for blocks gets the first script, the last script is for all that come after. With
    /// frames left and no credit it waits; behind the last frame it stays silent. Scripts before the last end with the connection cut.
    pub async fn start(head: Position, scripts: Vec<Script>) -> ScriptedNode {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("ws://{}", listener.local_addr().expect("an address"));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (tell, changed) = watch::channel(());
        let (tell, protocol, scripts) = (Arc::new(tell), Arc::new(made::protocol()), Arc::new(scripts));
        let state = seen.clone();
        let task = tokio::spawn(async move {
            let mut sessions = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let session = Session {
                    seen: state.clone(),
                    tell: tell.clone(),
                    protocol: protocol.clone(),
                    scripts: scripts.clone(),
                    head,
                };
                sessions.spawn(session.run(stream));
            }
        });
        ScriptedNode { url, seen, changed, task }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// What was asked for, in order.
    pub fn asked(&self) -> Vec<BlocksRequest> {
        self.seen.lock().expect("seen").asked.clone()
    }

    /// How many results were sent, and how many acknowledged.
    pub fn counts(&self) -> (usize, u64) {
        let seen = self.seen.lock().expect("seen");
        (seen.sent, seen.acked)
    }

    /// Waits until what was seen is so.
    pub async fn until(&self, what: impl Fn(&ScriptedNode) -> bool) {
        let mut changed = self.changed.clone();
        while !what(self) {
            changed.changed().await.expect("the node runs");
        }
    }
}

impl Drop for ScriptedNode {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Session {
    seen: Arc<Mutex<Seen>>,
    tell: Arc<watch::Sender<()>>,
    protocol: Arc<Protocol>,
    scripts: Arc<Vec<Script>>,
    head: Position,
}

impl Session {
    async fn run(self, stream: TcpStream) -> Option<()> {
        let mut socket = tokio_tungstenite::accept_async(stream).await.ok()?;
        socket.send(Message::text(self.protocol.abi.to_string())).await.ok()?;
        let (mut frames, mut last, mut credit) = (None, false, 0u64);
        loop {
            while credit > 0
                && let Some(frame) = frames.as_mut().and_then(std::vec::IntoIter::<Bytes>::next)
            {
                socket.send(Message::Binary(frame)).await.ok()?;
                credit -= 1;
                self.note(|seen| seen.sent += 1);
            }
            if frames.as_ref().is_some_and(|left| left.len() == 0) && !last {
                // With acks unread, closing at once would reset the connection and take back what was sent.
                socket.get_mut().shutdown().await.ok()?;
                while socket.next().await?.is_ok() {}
                return None;
            }
            let Message::Binary(bytes) = socket.next().await?.ok()? else { continue };
            match Request::decode(&bytes, &self.protocol).ok()? {
                Request::Status => {
                    let status = self.status().encode(&self.protocol);
                    socket.send(Message::Binary(status)).await.ok()?;
                }
                Request::Ack(count) => {
                    credit += u64::from(count);
                    self.note(|seen| seen.acked += u64::from(count));
                }
                Request::Blocks(request) => {
                    credit = request.max_messages_in_flight.into();
                    let place = self.seen.lock().expect("seen").asked.len().min(self.scripts.len() - 1);
                    last = place + 1 == self.scripts.len();
                    frames = Some(self.scripts[place].clone().into_iter());
                    self.note(|seen| seen.asked.push(request));
                }
            }
        }
    }

    fn note(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().expect("seen"));
        self.tell.send_replace(());
    }

    fn status(&self) -> StatusResult {
        let end = self.head.num + 1;
        StatusResult {
            head: self.head,
            last_irreversible: made::position(1, 0),
            trace_begin_block: 2,
            trace_end_block: end,
            chain_state_begin_block: 1,
            chain_state_end_block: end,
            chain_id: Some(made::CHAIN),
        }
    }
}
