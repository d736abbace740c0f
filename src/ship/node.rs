//! The node as a whole: one or more endpoints, tried in turn for as long as it takes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_tungstenite::tungstenite::Message;
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::block::Checksum;

use super::connection::Connection;
use super::endpoint::Endpoint;
use super::message::MessageError;
use super::protocol::ProtocolError;

/// How to reach the node and what to ask of it.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Tried in turn.
    pub endpoints: Vec<Endpoint>,
    /// For connecting with the handshake, and for the answer of a node that went silent.
    pub timeout: Duration,
    /// The chain it must be on; any if none.
    pub chain: Option<ExpectedChain>,
    /// The longest message taken, and the longest WebSocket frame (`maxMessageBytes`).
    pub max_message_bytes: usize,
    /// Nothing received for so long, though the node may send: ask it for its status.
    pub silence: Duration,
    /// How many results may be under way without an ack (`maxMessagesInFlight`).
    pub window: u32,
    /// Only blocks that cannot be undone.
    pub irreversible_only: bool,
    /// What is asked for of each block.
    pub fetch: Fetch,
    /// The longest waits after one, two, … rounds without success.
    pub backoff: Vec<Duration>,
    /// Attempts in a row after which [`Node::connect`] gives up; without end if none.
    pub max_attempts: Option<u32>,
}

/// What is asked for of each block, beside its id and its parent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetch {
    /// The block, its traces and its table deltas.
    All,
    /// The table deltas.
    Deltas,
    /// Nothing more.
    Nothing,
}

/// The chain that all endpoints must be on.
#[derive(Debug, Clone)]
pub struct ExpectedChain {
    /// Its id.
    pub id: Checksum,
    /// Why that one, as said of a node that is on another: a clause behind "but".
    pub reason: String,
}

/// The endpoints and how it went with them.
pub struct Node {
    options: Arc<NodeOptions>,
    backoff: Backoff,
    /// The endpoint to try next.
    next: usize,
    /// Attempts since the last wait: after one for each endpoint it is time for another.
    round: usize,
    /// Attempts since a node last delivered a block.
    attempts: u32,
    /// Per endpoint, what was last wrong with it: the same again is not logged.
    said: Vec<Option<String>>,
    /// Told after a round without success what is wrong with the endpoints.
    listener: Option<Listener>,
    /// A connection made since [`Node::connect`] was last called delivered a block.
    progressed: Arc<AtomicBool>,
}

type Listener = Arc<dyn Fn(&str) + Send + Sync>;

/// Why there is no connection, or no more. [`NodeError::is_fatal`] tells whether to try again.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Nobody there.
    #[error("failed to connect: {0}")]
    Connect(#[source] io::Error),
    /// The handshake took too long.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The node or something between closed the connection: ordinary when a node stops.
    #[error("the node closed the connection ({0})")]
    Closed(String),
    /// The connection stands, the node's chain goes on, and nothing comes.
    #[error("the node stopped sending: {0}")]
    Silent(String),
    /// Not WebSocket, or broken.
    #[error("WebSocket: {0}")]
    WebSocket(String),
    /// A frame that does not belong here.
    #[error("the node sent {0}")]
    Unexpected(String),
    /// A frame that cannot be read.
    #[error("the node sent a frame that cannot be read: {0}")]
    Message(#[from] MessageError),
    /// Longer than allowed: it would be so again.
    #[error(
        "the node sent a message of {size} bytes or more, and `maxMessageBytes` is {limit}: raise it \
         (the first block after a snapshot holds the whole chain state)"
    )]
    TooLarge {
        /// How long it is, as far as known.
        size: usize,
        /// What is allowed.
        limit: usize,
    },
    /// Another chain.
    #[error("the node is on chain {found}, but {reason}")]
    WrongChain {
        /// [`ExpectedChain::reason`]
        reason: String,
        /// The node's.
        found: Checksum,
    },
    /// The node does not say which chain it is of.
    #[error("the node does not tell its chain id: give it as `chain.id`")]
    NoChainId,
    /// A protocol this program does not know.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// There is no endpoint to connect to.
    #[error("no endpoint is given")]
    NoEndpoint,
    /// Tried often enough.
    #[error("gave up after {attempts} attempts (`reconnect.maxAttempts`); the last one: {last}")]
    GaveUp {
        /// How often.
        attempts: u32,
        /// What went wrong last.
        last: Box<NodeError>,
    },
    /// All endpoints have faults that trying again does not mend; this is the last one's.
    #[error("{endpoint}: {source}")]
    Unusable {
        /// Which one.
        endpoint: String,
        /// Its fault.
        source: Box<NodeError>,
    },
}

// === impl NodeOptions ===

impl NodeOptions {
    /// The defaults, for these endpoints.
    pub fn new(endpoints: Vec<Endpoint>) -> NodeOptions {
        NodeOptions {
            endpoints,
            timeout: Duration::from_secs(10),
            chain: None,
            // More than the whole state of a large chain in one block.
            max_message_bytes: 16 << 30,
            silence: Duration::from_secs(15),
            window: 64,
            irreversible_only: false,
            fetch: Fetch::All,
            backoff: [1, 2, 5, 15, 60].map(Duration::from_secs).to_vec(),
            max_attempts: None,
        }
    }
}

// === impl ExpectedChain ===

impl ExpectedChain {
    /// The one that the configuration names.
    pub fn configured(id: Checksum) -> ExpectedChain {
        ExpectedChain { id, reason: format!("`chain.id` is {id}") }
    }

    /// The one that is being published since this program was started.
    pub fn published(id: Checksum) -> ExpectedChain {
        ExpectedChain { id, reason: format!("chain {id} is being published") }
    }
}

// === impl Node ===

impl Node {
    /// Nothing is connected yet.
    pub fn new(options: NodeOptions) -> Node {
        Node {
            backoff: Backoff::new(options.backoff.clone(), None),
            next: 0,
            round: 0,
            attempts: 0,
            said: vec![None; options.endpoints.len()],
            progressed: Arc::default(),
            listener: None,
            options: Arc::new(options),
        }
    }

    /// How to reach it.
    pub fn options(&self) -> &NodeOptions {
        &self.options
    }

    /// From now on all endpoints must be on this chain.
    pub fn expect_chain(&mut self, chain: ExpectedChain) {
        Arc::make_mut(&mut self.options).chain = Some(chain);
    }

    /// Has `listener` told what is wrong after each round without success. The fault of an only endpoint is not logged here then.
    pub fn tell(&mut self, listener: impl Fn(&str) + Send + Sync + 'static) {
        self.listener = Some(Arc::new(listener));
    }

    /// Connects to the next endpoint that answers, trying for ever (or [`NodeOptions::max_attempts`] times) with
    /// a wait after each round. Called again after a connection is lost, it begins with the endpoint behind that one.
    /// Each change is logged once, not each attempt.
    ///
    /// Fails only for good: when every endpoint is unusable (wrong chain, unknown protocol), or after the last attempt.
    pub async fn connect(&mut self) -> Result<Connection, NodeError> {
        let count = self.options.endpoints.len();
        if count == 0 {
            return Err(NodeError::NoEndpoint);
        }
        if self.progressed.swap(false, Ordering::Relaxed) {
            self.backoff.reset();
            self.attempts = 0;
        }
        let mut unusable = 0;
        loop {
            if self.round == count {
                let faults = self.faults();
                if let Some(listener) = self.listener.as_ref().filter(|_| !faults.is_empty()) {
                    listener(&faults);
                }
                tokio::time::sleep(self.backoff.next_wait().unwrap_or_default()).await;
                self.round = 0;
            }
            let place = self.next;
            self.next = (place + 1) % count;
            self.round += 1;
            self.attempts = self.attempts.saturating_add(1);
            let endpoint = &self.options.endpoints[place];
            let error = match Connection::open(endpoint, self.options.clone(), self.progressed.clone()).await
            {
                Ok(connection) => {
                    if self.listener.is_none() {
                        info!(
                            endpoint = %endpoint,
                            chain_id = %connection.chain_id(),
                            head = connection.status().head.num,
                            "connected to the node"
                        );
                    }
                    self.said[place] = None;
                    return Ok(connection);
                }
                Err(error) => error,
            };
            unusable = if error.is_fatal() { unusable + 1 } else { 0 };
            if unusable == count {
                let endpoint = endpoint.to_string();
                return Err(NodeError::Unusable { endpoint, source: Box::new(error) });
            }
            if self.options.max_attempts.is_some_and(|most| self.attempts >= most) {
                let attempts = self.attempts;
                return Err(NodeError::GaveUp { attempts, last: Box::new(error) });
            }
            self.say(place, &error);
        }
    }

    /// Says why a connection was lost, once, before the next [`Node::connect`].
    pub fn lost(&self, endpoint: &Endpoint, error: &NodeError) {
        warn!(endpoint = %endpoint, reason = %error, "the connection to the node is lost");
    }

    /// An endpoint that connects turned out to be of no use: the next [`Node::connect`] begins with the one behind it.
    pub fn useless(&mut self, endpoint: &Endpoint, fault: String) {
        if let Some(place) = self.options.endpoints.iter().position(|one| one == endpoint) {
            warn!(endpoint = %endpoint, reason = %fault, "this node cannot be used: trying the next one");
            self.said[place] = Some(fault);
        }
    }

    /// The connection was given up on this side: the next [`Node::connect`] tries at once.
    pub fn given_up(&mut self) {
        self.round = 0;
        self.backoff.reset();
    }

    /// What is wrong with each endpoint.
    fn faults(&self) -> String {
        let faults = self.options.endpoints.iter().zip(&self.said);
        let faults = faults.filter_map(|(endpoint, fault)| Some(format!("{endpoint}: {}", fault.as_ref()?)));
        faults.collect::<Vec<_>>().join("; ")
    }

    fn say(&mut self, place: usize, error: &NodeError) {
        let text = error.to_string();
        if self.said[place].as_ref() != Some(&text) {
            let endpoint = &self.options.endpoints[place];
            // Of several, one can be passed by for good while another serves.
            if self.listener.is_none() || self.said.len() > 1 {
                warn!(endpoint = %endpoint, reason = %text, "the node cannot be used now");
            }
            self.said[place] = Some(text);
        }
    }
}

// === impl NodeError ===

impl NodeError {
    /// Whether it would be the same with every further attempt, until somebody changes something.
    pub fn is_fatal(&self) -> bool {
        match self {
            NodeError::WrongChain { .. }
            | NodeError::NoChainId
            | NodeError::Protocol(_)
            | NodeError::TooLarge { .. }
            | NodeError::NoEndpoint
            | NodeError::GaveUp { .. }
            | NodeError::Unusable { .. } => true,
            NodeError::Connect(_)
            | NodeError::Timeout(_)
            | NodeError::Closed(_)
            | NodeError::Silent(_)
            | NodeError::WebSocket(_)
            | NodeError::Unexpected(_)
            | NodeError::Message(_) => false,
        }
    }

    /// Something came where `wanted` was to come.
    pub(super) fn unexpected(wanted: &str, message: &Message) -> NodeError {
        match message {
            Message::Text(text) => {
                let begin: String = text.chars().take(60).collect();
                NodeError::Unexpected(format!("a text frame instead of {wanted}: {begin:?}"))
            }
            Message::Binary(bytes) => {
                NodeError::Unexpected(format!("a binary frame of {} bytes instead of {wanted}", bytes.len()))
            }
            Message::Close(frame) => NodeError::Closed(
                frame.as_ref().map_or_else(|| "no reason given".into(), ToString::to_string),
            ),
            other => NodeError::Unexpected(format!("{other:?} instead of {wanted}")),
        }
    }
}
