//! Publishing dead letters again between the blocks, where `dead-letters replay` asks for it.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::{Notify, watch};
use tracing::{info, warn};

use super::dispatch::{Dispatch, WriterGone};
use crate::dead_letters::requests::{Batch, Requests};
use crate::keys::Keys;
use crate::publish::writer::Progress;
use crate::publish::{Failure, Server};

/// How often it is looked whether anything is asked for.
const LOOK: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub struct Replays {
    server: Server,
    keys: Keys,
    /// Told by [`look`].
    asked: Arc<Notify>,
    requests: Option<Requests>,
    /// Blocks published before this turn.
    blocks_before: u64,
    /// Events published again or on their way, those of earlier turns included.
    handed_on: u64,
    /// Whether the newest block is published only in part: nothing may come between its events.
    pub in_part: bool,
    /// Whether there may be more than was taken.
    more: bool,
    /// Whether it was said that there is something to do.
    busy: bool,
}

/// Looks whether anything is asked for, for ever. While Redis does not answer nothing is seen; the writer says that.
pub async fn look(server: Server, keys: Keys, asked: Arc<Notify>) {
    let mut connection = None;
    loop {
        tokio::time::sleep(LOOK).await;
        match is_asked(&mut connection, &server, &keys).await {
            Ok(true) => asked.notify_one(),
            Ok(false) => {}
            Err(failure) if failure.is_transient() => connection = None,
            Err(failure) => {
                warn!(key = keys.replay, reason = %failure, "what `dead-letters replay` asks for is not seen");
                return;
            }
        }
    }
}

async fn is_asked(
    connection: &mut Option<MultiplexedConnection>,
    server: &Server,
    keys: &Keys,
) -> Result<bool, Failure> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(server.connect_control().await?),
    };
    Ok(redis::cmd("EXISTS").arg(&keys.replay).query_async(connection).await?)
}

// === impl Replays ===

impl Replays {
    /// For one turn, after what `progress` says.
    pub fn new(
        server: Server,
        keys: Keys,
        asked: Arc<Notify>,
        progress: &Progress,
        in_part: bool,
    ) -> Replays {
        Replays {
            server,
            keys,
            asked,
            requests: None,
            blocks_before: progress.blocks,
            handed_on: progress.replayed,
            in_part,
            more: false,
            busy: false,
        }
    }

    /// Returns when there is something to do. Nothing is lost if it is given up.
    pub async fn asked(&self) {
        if !self.more {
            self.asked.notified().await;
        }
    }

    /// Publishes what is asked for, or some of it.
    ///
    /// What may be published is decided by what lies in Redis. So all that was handed on goes there first.
    pub async fn publish(
        &mut self,
        dispatch: &mut Dispatch,
        progress: &watch::Receiver<Progress>,
    ) -> Result<(), WriterGone> {
        self.more = false;
        if self.in_part {
            return Ok(());
        }
        let (blocks, replayed) = (self.blocks_before + dispatch.blocks(), self.handed_on);
        let committed = |progress: &Progress| progress.blocks >= blocks && progress.replayed >= replayed;
        progress.clone().wait_for(committed).await.map_err(|_| WriterGone)?;
        let batch = match self.next().await {
            Ok(batch) => batch,
            Err(failure) => {
                // Asked again in a second; where Redis is gone the writer says it.
                if !failure.is_transient() {
                    warn!(%failure, "dead letters cannot be published again");
                }
                self.requests = None;
                return Ok(());
            }
        };
        self.more = batch.seen;
        self.busy &= batch.seen;
        if batch.entries() > 0 {
            if !self.busy {
                info!("publishing dead letters again, as `dead-letters replay` asks for");
            }
            self.handed_on += batch.entries();
            self.busy = true;
            dispatch.again(batch).await?;
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Batch, Failure> {
        let requests = match &mut self.requests {
            Some(requests) => requests,
            none => none.insert(Requests::new(self.server.connect_control().await?, self.keys.clone())),
        };
        requests.next().await
    }
}
