//! Publishing dead letters again where no parser runs: with the lease, and in the parser's own transactions.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::settings::Settings;
use super::{RunError, Task, writer_ended};
use crate::block::Checksum;
use crate::config::Config;
use crate::dead_letters::Requests;
use crate::keys::Keys;
use crate::publish::writer::{self, Progress};
use crate::publish::{Failure, Lease, StreamIds, startup};

/// How often to look for requests, and whether a parser still holds the lease.
const LOOK: Duration = Duration::from_millis(20);
const STAND_BY: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub struct Alone {
    settings: Settings,
    keys: Keys,
    chain_id: Checksum,
    lease: Lease,
}

/// Who publishes what is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// The parser with this token.
    Parser(String),
    /// This process.
    This,
}

// === impl Alone ===

impl Alone {
    /// For a namespace.
    pub fn new(config: &Config, keys: &Keys, chain_id: Checksum) -> Result<Alone, RunError> {
        Ok(Alone { settings: Settings::new(config)?, keys: keys.clone(), chain_id, lease: Lease::new(keys) })
    }

    /// Publishes what is asked for, whenever no parser does, for ever. It can be dropped at any time; then
    /// [`Alone::release`] is due. `tell` is told who publishes, whenever that changes.
    pub async fn serve(&self, mut tell: impl FnMut(Server)) -> Failure {
        let mut told = None;
        loop {
            let failure = self.turn(&mut told, &mut tell).await;
            if !failure.is_transient() {
                return failure;
            }
            tokio::time::sleep(STAND_BY).await;
        }
    }

    /// Gives the lease up, if this process has it.
    pub async fn release(&self) {
        // Where that fails it runs out by itself.
        let _ = self.lease.release(&self.settings.server).await;
    }

    async fn turn(&self, told: &mut Option<Server>, tell: &mut impl FnMut(Server)) -> Failure {
        let published = async {
            let mut control = self.settings.server.connect_control().await?;
            let mut say = |server: Server| {
                if told.as_ref() != Some(&server) {
                    *told = Some(server.clone());
                    tell(server);
                }
            };
            while let Some(holder) = self.lease.try_take(&mut control).await? {
                say(Server::Parser(holder));
                tokio::time::sleep(STAND_BY).await;
            }
            say(Server::This);
            self.publish(Requests::new(control, self.keys.clone())).await
        };
        match published.await {
            Ok(never) => match never {},
            Err(failure) => failure,
        }
    }

    /// With the lease taken.
    async fn publish(&self, mut requests: Requests) -> Result<std::convert::Infallible, Failure> {
        let server = &self.settings.server;
        let (checkpoint, connection) =
            startup::begin(server, &self.keys, &self.chain_id, self.settings.stream_ids, &self.lease, |_| {
                Ok(())
            })
            .await?;
        if let (Some(block), Some(_)) = (checkpoint.block, checkpoint.part) {
            return Err(Failure::Fatal(format!(
                "block {} is published only in part, and nothing may come between its events: start the parser, which \
                 completes it",
                block.num
            )));
        }
        if checkpoint.block.is_none() {
            return Err(Failure::Fatal("no parser has published here yet".to_owned()));
        }
        let (units, mut received) = mpsc::channel(1);
        let (progress, mut committed) = watch::channel(Progress::default());
        let settings = self.settings.writer(&self.keys, &self.lease, Arc::default());
        let mut last_entry = checkpoint.stream_id;
        let mut writing = Task::spawn(async move {
            writer::run(connection, &settings, &checkpoint, &mut received, &progress).await
        });
        let block_ids = self.settings.stream_ids == StreamIds::Block;
        let serving = async {
            let mut handed_on = 0;
            loop {
                let batch = requests.next().await?;
                if batch.entries() > 0 {
                    handed_on += batch.entries();
                    let unit = batch.unit(&self.keys, block_ids, &mut last_entry, None);
                    // Without the writer nothing of this goes on, and the writer says why.
                    let _ = units.send(unit).await;
                    let _ = committed.wait_for(|progress| progress.replayed >= handed_on).await;
                } else if !batch.seen {
                    tokio::time::sleep(LOOK).await;
                }
            }
        };
        tokio::select! {
            biased;
            ended = &mut writing.0 => Err(writer_ended(ended)),
            served = serving => served,
        }
    }
}
