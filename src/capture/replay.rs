//! Which frame of a capture a node would send next: by start block, positions, forks and laps.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use crate::block::{Checksum, Position};
use crate::ship::message::{BlockResult, BlocksRequest, StatusResult};
use crate::ship::protocol::Protocol;

use super::edit;
use super::endless::Endless;
use super::file::Capture;

/// A capture made ready for playing.
pub struct Replay {
    /// The capture's protocol.
    pub protocol: Arc<Protocol>,
    status: StatusResult,
    frames: Vec<Recorded>,
    /// The chain that stands at the end: number to place in `frames`.
    chain: BTreeMap<u32, usize>,
    /// Every block ever sent: id to its last place in `frames`.
    places: HashMap<Checksum, usize>,
    endless: Option<Endless>,
    /// A block's time is when it is sent.
    now: bool,
}

/// A frame and what it says.
pub(super) struct Recorded {
    bytes: Bytes,
    pub(super) result: BlockResult,
}

/// One client's way through a capture.
#[derive(Debug)]
pub struct Player {
    request: BlocksRequest,
    next: Next,
}

#[derive(Debug)]
enum Next {
    /// The frame at this place, lost branches included.
    Place(usize),
    /// The block of this number, on the chain that stands at the end.
    Number(u64),
}

/// A frame to send, in two pieces: what was changed and what is as recorded.
pub struct Outgoing {
    /// First piece.
    pub begin: Bytes,
    /// Second piece.
    pub rest: Bytes,
    /// The block's number, if it is one.
    pub num: Option<u32>,
}

/// How a block is told otherwise than recorded.
pub(super) struct Restated {
    pub(super) head: Position,
    pub(super) last_irreversible: Position,
    pub(super) this: Position,
    pub(super) prev: Option<Position>,
    /// Half seconds added to its time.
    pub(super) later: u32,
}

/// Why a capture cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A frame that is no block result.
    #[error("result frame {place} cannot be read: {what}")]
    Frame {
        /// Counted from 0.
        place: usize,
        /// What is wrong.
        what: String,
    },
    /// Nothing to play.
    #[error("the capture holds no block")]
    Empty,
    /// The part to repeat is empty.
    #[error("nothing to repeat from block {from} on: the capture ends with block {last}")]
    NothingToRepeat {
        /// Where to begin.
        from: u32,
        /// The capture's last block.
        last: u32,
    },
}

// === impl Replay ===

impl Replay {
    /// Makes a capture ready. With `repeat_from`, the blocks from that number on are played again and again,
    /// renumbered and relinked (see [`Endless`]); lost branches are left out then.
    pub fn new(capture: &Capture, repeat_from: Option<u32>) -> Result<Replay, ReplayError> {
        let mut frames = Vec::with_capacity(capture.frames.len());
        let mut chain = BTreeMap::new();
        let mut places = HashMap::new();
        for (place, frame) in capture.frames.iter().enumerate() {
            let result = BlockResult::decode(frame, &capture.protocol)
                .map_err(|e| ReplayError::Frame { place, what: e.to_string() })?;
            if let Some(this) = result.this_block {
                // A lower number undoes all from there on.
                chain.split_off(&this.num);
                chain.insert(this.num, place);
                places.insert(this.id, place);
            }
            frames.push(Recorded { bytes: frame.clone(), result });
        }
        let last = *chain.keys().next_back().ok_or(ReplayError::Empty)?;
        let endless = match repeat_from {
            None => None,
            Some(from) => {
                let blocks = chain.range(from..).map(|(_, place)| &frames[*place]);
                let endless = Endless::new(blocks);
                Some(endless.ok_or(ReplayError::NothingToRepeat { from, last })?)
            }
        };
        let (protocol, status) = (capture.protocol.clone(), capture.status.clone());
        Ok(Replay { protocol, status, frames, chain, places, endless, now: false })
    }

    /// Gives each block of an endless chain the time at which it is sent, as if the chain were being made now.
    pub fn as_of_now(self) -> Replay {
        Replay { now: true, ..self }
    }

    /// The block of that number on the chain that stands at the end.
    pub fn position(&self, num: u32) -> Option<Position> {
        let (num, lap) = self.endless.as_ref().map_or((num, 0), |endless| endless.recorded(num));
        let this = self.recorded(num)?.result.this_block?;
        self.endless.as_ref().map_or(Some(this), |endless| endless.in_lap(this, lap))
    }

    /// The status as recorded, but for head and ranges: they are what the capture holds.
    pub fn status(&self) -> StatusResult {
        let first = self.chain.keys().next().copied().unwrap_or_default();
        let traced = self.chain.iter().find(|(_, place)| self.frames[**place].result.traces.is_some());
        let head = self.last();
        let end = head.num.saturating_add(1);
        StatusResult {
            head,
            last_irreversible: self.irreversible(),
            trace_begin_block: traced.map_or(end, |(num, _)| *num),
            trace_end_block: end,
            chain_state_begin_block: first,
            chain_state_end_block: end,
            chain_id: self.status.chain_id,
        }
    }

    /// The status as recorded.
    pub fn recorded_status(&self) -> &StatusResult {
        &self.status
    }

    /// Where a client begins that asks so.
    ///
    /// As nodeos does it: at the first position that is not on the chain that stands at the end, else at the start
    /// block. But a client whose last position was sent from this capture goes on behind that very frame, so
    /// that lost branches are played again; and one that has no position begins where its start block comes
    /// first. A start below the first block is the first block, as with Leap.
    pub fn player(&self, request: BlocksRequest) -> Player {
        let below = || request.have_positions.iter().filter(|p| p.num < request.start);
        let unknown = below().filter(|p| self.position(p.num) != Some(**p)).map(|p| p.num).min();
        let next = if self.endless.is_some() || request.irreversible_only {
            Next::Number(unknown.unwrap_or(request.start).into())
        } else {
            let behind = below().next_back().filter(|p| p.num.checked_add(1) == Some(request.start));
            Next::Place(match (behind.and_then(|p| self.places.get(&p.id)), unknown) {
                (Some(place), _) => place + 1,
                (None, Some(num)) => self.chain.range(num..).next().map_or(self.frames.len(), |(_, p)| *p),
                (None, None) => {
                    let is_there = |f: &Recorded| f.result.this_block.is_some_and(|b| b.num >= request.start);
                    self.frames.iter().position(is_there).unwrap_or(self.frames.len())
                }
            })
        };
        Player { request, next }
    }

    /// The next frame for that client; none at the capture's end.
    pub fn next(&self, player: &mut Player) -> Option<Outgoing> {
        let request = &player.request;
        match &mut player.next {
            Next::Place(place) => loop {
                let frame = self.frames.get(*place)?;
                *place += 1;
                if frame.result.this_block.is_none_or(|block| block.num < request.end) {
                    return Some(self.outgoing(frame, None, request));
                }
            },
            Next::Number(number) => {
                let wanted = u32::try_from(*number).ok()?;
                let (num, lap) = self.endless.as_ref().map_or((wanted, 0), |e| e.recorded(wanted));
                let (found, place) = self.chain.range(num..).next()?;
                let frame = &self.frames[*place];
                let wanted = wanted.checked_add(found - num)?;
                if wanted >= request.end || (self.endless.is_none() && wanted > self.irreversible().num) {
                    return None;
                }
                let restated = self.restated(frame, lap, request.irreversible_only)?;
                *number = u64::from(wanted) + 1;
                Some(self.outgoing(frame, restated, request))
            }
        }
    }

    fn restated(&self, frame: &Recorded, lap: u32, irreversible: bool) -> Option<Option<Restated>> {
        if lap == 0 && !irreversible && !self.now {
            return Some(None);
        }
        let this = frame.result.this_block?;
        let mut restated = match &self.endless {
            Some(endless) => endless.restated(&frame.result, this, lap, |num| {
                self.recorded(num).and_then(|frame| frame.result.this_block)
            })?,
            None => Restated {
                head: self.last(),
                last_irreversible: self.irreversible(),
                this,
                prev: frame.result.prev_block,
                later: 0,
            },
        };
        if irreversible && restated.last_irreversible.num < restated.this.num {
            restated.last_irreversible = restated.this;
        }
        if self.now {
            let time = frame.result.block.as_deref().and_then(edit::time).unwrap_or_default();
            restated.later = edit::now().wrapping_sub(time);
        }
        Some(Some(restated))
    }

    fn outgoing(&self, frame: &Recorded, restated: Option<Restated>, request: &BlocksRequest) -> Outgoing {
        let whole = request.fetch_block && request.fetch_traces && request.fetch_deltas;
        let Some(restated) = restated else {
            let num = frame.result.this_block.map(|this| this.num);
            let begin = if whole {
                frame.bytes.clone()
            } else {
                without_parts(frame.result.clone(), request).encode(&self.protocol)
            };
            return Outgoing { begin, rest: Bytes::new(), num };
        };
        let mut result = BlockResult {
            head: restated.head,
            last_irreversible: restated.last_irreversible,
            this_block: Some(restated.this),
            prev_block: restated.prev,
            ..frame.result.clone()
        };
        let num = Some(restated.this.num);
        let previous = restated.prev.map(|prev| prev.id);
        if !whole {
            result.block = result.block.map(|block| edit::with_header(&block, previous, restated.later));
            let begin = without_parts(result, request).encode(&self.protocol);
            return Outgoing { begin, rest: Bytes::new(), num };
        }
        // Only the positions and the header's first bytes differ: the rest is not copied.
        let mut positions = Vec::new();
        frame.result.write_positions(&mut positions, &self.protocol);
        let body = positions.len();
        positions.clear();
        result.write_positions(&mut positions, &self.protocol);
        let mut rest = body;
        if let Some(block) = &frame.result.block {
            let at = block.as_ptr().addr() - frame.bytes.as_ptr().addr();
            rest = at + block.len().min(edit::HEADER);
            let header = positions.len() + at - body;
            positions.extend_from_slice(&frame.bytes[body..rest]);
            edit::patch_header(&mut positions[header..], previous, restated.later);
        }
        Outgoing { begin: positions.into(), rest: frame.bytes.slice(rest..), num }
    }

    fn recorded(&self, num: u32) -> Option<&Recorded> {
        self.chain.get(&num).map(|place| &self.frames[*place])
    }

    fn last(&self) -> Position {
        let last = self.chain.values().next_back();
        last.and_then(|place| self.frames[*place].result.this_block).unwrap_or_default()
    }

    fn irreversible(&self) -> Position {
        let last = self.chain.values().next_back();
        let said = last.map(|place| self.frames[*place].result.last_irreversible).unwrap_or_default();
        if said.num > self.last().num { self.last() } else { said }
    }
}

/// The result with only those parts that were asked for.
fn without_parts(mut result: BlockResult, request: &BlocksRequest) -> BlockResult {
    result.block = result.block.filter(|_| request.fetch_block);
    result.traces = result.traces.filter(|_| request.fetch_traces);
    result.deltas = result.deltas.filter(|_| request.fetch_deltas);
    result
}
