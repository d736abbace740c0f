//! Decoding dead letters again and having those published that can be decoded now.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::again::AgainError;
use super::requests::{Request, Requests};
use super::{Again, Letters, Now, Select};
use crate::publish::EntryId;
use crate::shutdown::Shutdown;

/// Requests are made in such numbers, and of about so many bytes.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 1 << 20;

/// So many requests wait at most.
const WAITING: usize = 2_000;

/// How long to wait before looking again whether requests are carried out.
const LOOK: Duration = Duration::from_millis(10);

/// How it went.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// Letters that were meant.
    pub letters: u64,
    /// Those that can be decoded now.
    pub decoded: u64,
    /// Those published, and removed from the dead letters.
    pub published: u64,
    /// Those that were to be published and were not: a fork has undone their block meanwhile, or the command was stopped.
    pub unpublished: u64,
    /// Those that still cannot be decoded, by reason and contract.
    #[serde(serialize_with = "by_reason")]
    pub still: BTreeMap<(String, String), u64>,
    /// Those of rows of the node's own tables, which cannot be decoded again.
    pub native: u64,
    /// Those of blocks that a fork has undone.
    pub undone: u64,
    /// Those that the configuration does not publish any more.
    pub filtered: u64,
    /// Those that cannot be published for another reason.
    pub unfit: u64,
    /// One such reason.
    pub unfit_reason: Option<String>,
    /// Whether the command was stopped before the end.
    pub stopped: bool,
}

/// Letters of one subscription being replayed.
pub struct Replay<'a> {
    /// The letters.
    pub letters: &'a mut Letters,
    /// Whose they are.
    pub subscription: &'a str,
    /// Decodes them.
    pub again: &'a mut Again,
    /// Where they go; `None`: nowhere, it is only looked at what would happen.
    pub requests: Option<&'a mut Requests>,
    /// Asks to stop.
    pub shutdown: &'a Shutdown,
}

/// Requests made and not yet seen to be done.
#[derive(Default)]
struct Waiting {
    /// Not made yet.
    next: Vec<Request>,
    bytes: usize,
    /// Each with its letter.
    made: VecDeque<(EntryId, EntryId)>,
}

// === impl Replay ===

impl Replay<'_> {
    /// Replays those that are meant. `progress` is told how it goes.
    pub async fn run(
        mut self,
        select: &Select,
        mut progress: impl FnMut(&Tally),
    ) -> Result<Tally, AgainError> {
        let mut tally = Tally::default();
        let mut waiting = Waiting::default();
        let mut walk = self.letters.walk(select);
        while !self.shutdown.is_requested()
            && let Some(letter) = walk.next().await?
        {
            tally.letters += 1;
            match self.again.letter(&letter).await? {
                Now::Event { event, event_id, block_id } => {
                    tally.decoded += 1;
                    if let Some(requests) = &mut self.requests {
                        let subscription = self.subscription.to_owned();
                        waiting.add(Request { subscription, letter: letter.id, event_id, block_id, event });
                        waiting.put(requests, false).await?;
                        while waiting.made.len() > WAITING && !self.shutdown.is_requested() {
                            waiting.settle(requests, self.subscription, &mut tally).await?;
                            progress(&tally);
                        }
                    }
                }
                Now::Still(still) => {
                    let contract = letter.field("contract").to_owned();
                    *tally.still.entry((still.reason.to_owned(), contract)).or_default() += 1;
                }
                Now::Native => tally.native += 1,
                Now::Undone => tally.undone += 1,
                Now::Filtered => tally.filtered += 1,
                Now::Unfit(why) => {
                    tally.unfit += 1;
                    tally.unfit_reason.get_or_insert(why);
                }
            }
            progress(&tally);
        }
        if let Some(requests) = &mut self.requests {
            if !self.shutdown.is_requested() {
                waiting.put(requests, true).await?;
            }
            while !waiting.made.is_empty() && !self.shutdown.is_requested() {
                waiting.settle(requests, self.subscription, &mut tally).await?;
                progress(&tally);
            }
            if self.shutdown.is_requested() {
                waiting.withdraw(requests, self.subscription, &mut tally).await?;
            }
        }
        tally.stopped = self.shutdown.is_requested();
        Ok(tally)
    }
}

// === impl Waiting ===

impl Waiting {
    fn add(&mut self, request: Request) {
        self.bytes += request.event.len();
        self.next.push(request);
    }

    /// Makes the requests, once there are enough or where there will be no more.
    async fn put(&mut self, requests: &mut Requests, all: bool) -> Result<(), AgainError> {
        let enough = self.next.len() >= BATCH || self.bytes >= BATCH_BYTES;
        if self.next.is_empty() || !(all || enough) {
            return Ok(());
        }
        let ids = requests.put(&self.next).await?;
        self.made.extend(ids.into_iter().zip(self.next.drain(..).map(|request| request.letter)));
        self.bytes = 0;
        Ok(())
    }

    /// Waits a little for requests to be carried out.
    async fn settle(
        &mut self,
        requests: &mut Requests,
        subscription: &str,
        tally: &mut Tally,
    ) -> Result<(), AgainError> {
        let first = requests.first().await?;
        // They are carried out in their order.
        let done = self.made.partition_point(|(id, _)| first.is_none_or(|first| *id < first));
        if done == 0 {
            tokio::time::sleep(LOOK).await;
            return Ok(());
        }
        let letters: Vec<EntryId> = self.made.drain(..done).map(|(_, letter)| letter).collect();
        count(requests, subscription, &letters, tally).await
    }

    /// Takes back what was not carried out yet.
    async fn withdraw(
        &mut self,
        requests: &mut Requests,
        subscription: &str,
        tally: &mut Tally,
    ) -> Result<(), AgainError> {
        let (ids, letters): (Vec<EntryId>, Vec<EntryId>) = self.made.drain(..).unzip();
        requests.withdraw(&ids).await?;
        tally.unpublished += self.next.len() as u64;
        count(requests, subscription, &letters, tally).await
    }
}

/// Counts letters whose requests are gone: those that are gone too were published.
async fn count(
    requests: &mut Requests,
    subscription: &str,
    letters: &[EntryId],
    tally: &mut Tally,
) -> Result<(), AgainError> {
    let left = requests.left(subscription, letters).await?.len() as u64;
    tally.unpublished += left;
    tally.published += letters.len() as u64 - left;
    Ok(())
}

fn by_reason<S: Serializer>(
    still: &BTreeMap<(String, String), u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Still<'a> {
        reason: &'a str,
        contract: &'a str,
        letters: u64,
    }
    serializer.collect_seq(still.iter().map(|((reason, contract), letters)| Still {
        reason,
        contract,
        letters: *letters,
    }))
}
