//! What a block will publish, found out before anything is decoded: which actions are events of
//! their own, in which order, which rows pass the filters, which contracts' ABIs are needed, and
//! which ABIs the block itself brings. All of it are offsets into the frame.

mod actions;
mod rows;

use std::ops::Range;

use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use sha2::{Digest, Sha256};

use crate::block::Checksum;
use crate::cursor::CursorError;
use crate::filter::Filter;
use crate::hex;
use crate::name::Name;
use crate::ship::protocol::Protocol;
use crate::walk::{ActionTrace, Header, Span};

pub use rows::{RowKey, TableKind};

/// Which events are published.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Events of kind `action`.
    pub actions: bool,
    /// An event for each notification too.
    pub notifications: bool,
    /// Events of kind `delta`.
    pub deltas: bool,
    /// Events of kind `native-delta`.
    pub native_deltas: bool,
    /// An event of kind `block` behind each block.
    pub blocks: bool,
    /// Which of them pass.
    pub filter: Filter,
    /// A block whose actions and rows hold more bytes than this, and 256 for each of them, is published in several parts.
    pub part_bytes: usize,
}

/// A block with more bytes of data than this, and 256 for each event, is published in parts: what makes transactions of
/// about 1.5 MB, which Redis carries out at the cost of small ones. See docs/performance.md.
const PART_BYTES: usize = 384 << 10;

impl Default for Selection {
    /// All kinds but `block`, notifications folded.
    fn default() -> Selection {
        Selection {
            actions: true,
            notifications: false,
            deltas: true,
            native_deltas: true,
            blocks: false,
            filter: Filter::default(),
            part_bytes: PART_BYTES,
        }
    }
}

impl Selection {
    /// What tells selections apart: entries of a block counted by one mean nothing to another. It stands for what decides a
    /// block's events and their order, and nothing else: where parts end does not. As it is kept in Redis it must be the same
    /// in the next version.
    pub fn mark(&self) -> String {
        let Selection { actions, notifications, deltas, native_deltas, blocks, filter, part_bytes: _ } = self;
        // Names and flags: there is always JSON of them.
        let text = serde_json::to_vec(&(actions, notifications, deltas, native_deltas, blocks, filter))
            .unwrap_or_default();
        hex::lower(&Sha256::digest(text)[..8])
    }
}

/// A block's events to be.
pub struct Plan {
    /// From the block's header.
    pub header: Header,
    /// The packed `transaction_trace[]`.
    pub traces: Bytes,
    /// The packed `table_delta[]`.
    pub deltas: Bytes,
    /// Ids of the transactions that `actions` points to.
    pub transactions: Vec<Checksum>,
    /// The actions that took effect, those of a transaction in order of their ordinals.
    pub action_traces: Vec<ActionTrace>,
    /// The action events, in order of execution.
    pub actions: Vec<Action>,
    /// Who was notified, by ranges in `actions`.
    pub notified: Vec<Name>,
    /// The tables that `parts` point to.
    pub tables: Vec<Table>,
    /// The block's events in order, cut where a part ends. At least one.
    pub parts: Vec<Part>,
    /// The contracts whose ABI is needed or whose ABI sequence was seen.
    pub contracts: FxHashMap<Name, Contract>,
    /// ABIs set in this block, in order of execution.
    pub setabis: Vec<SetAbi>,
    /// The block's rows of `account`, in order: the name, and where in `deltas` its ABI stands.
    pub account_rows: Vec<(Name, Range<usize>)>,
    /// How many events of kind `action`, and of kinds `delta` and `native-delta` there will be.
    pub counts: Counts,
}

/// Numbers of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Of kind `action`.
    pub actions: u64,
    /// Of kinds `delta` and `native-delta`.
    pub deltas: u64,
}

/// An action event.
pub struct Action {
    /// Index of the trace it is made of.
    pub trace: u32,
    /// Index of its transaction's id.
    pub transaction: u32,
    /// Index of the first name, and number of names, in `notified`.
    pub notified: (u32, u32),
}

/// A table with changes.
pub struct Table {
    /// The SHiP table.
    pub kind: TableKind,
    /// Its name.
    pub name: String,
    /// Keys of the rows that were removed: one made again in the same block is its twin.
    pub removed: FxHashSet<RowKey>,
}

/// Rows that stand behind one another in a table.
pub struct RowRun {
    /// Index of the table.
    pub table: u32,
    /// Offset of the first row in the deltas.
    pub at: usize,
    /// How many rows there are.
    pub rows: u32,
    /// How many of them pass the filters.
    pub entries: u64,
}

/// A share of a block's events that goes into one transaction.
#[derive(Default)]
pub struct Part {
    /// Its actions.
    pub actions: Range<usize>,
    /// Its rows, behind the actions.
    pub rows: Vec<RowRun>,
    /// How many events it holds.
    pub entries: u64,
    /// How many bytes they are made of: their data, and something for each event.
    pub bytes: usize,
}

/// What a block has to do with a contract.
#[derive(Debug, Clone, Copy, Default)]
pub struct Contract {
    /// Whether an event needs its ABI.
    pub decoded: bool,
    /// How many events it has.
    pub events: u32,
    /// The first and the last action's global sequence and its receipt's `abiSequence`.
    pub abi_sequence: Option<[(u64, u32); 2]>,
}

/// An ABI set by an action that took effect.
#[derive(Debug, Clone, Copy)]
pub struct SetAbi {
    /// Whose it is.
    pub account: Name,
    /// When: in force for actions with a higher one.
    pub global_sequence: u64,
    /// Where in the traces it stands.
    pub abi: Span,
}

/// Why a block cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The block's header does not read.
    #[error("the block's header does not read: {0}")]
    Header(CursorError),
    /// The traces do not read.
    #[error("the block's transaction traces do not read: {0}")]
    Traces(CursorError),
    /// The deltas do not read.
    #[error("the block's table deltas do not read: {0}")]
    Deltas(CursorError),
}

// === impl Plan ===

impl Plan {
    /// Walks the block. `traces` and `deltas` are empty where the node has none.
    pub fn new(
        protocol: &Protocol,
        selection: &Selection,
        block: &[u8],
        traces: Bytes,
        deltas: Bytes,
    ) -> Result<Plan, PlanError> {
        let header = Header::read(block).map_err(PlanError::Header)?;
        let mut plan = Plan {
            header,
            traces: Bytes::new(),
            deltas: Bytes::new(),
            transactions: Vec::new(),
            action_traces: Vec::new(),
            actions: Vec::new(),
            notified: Vec::new(),
            tables: Vec::new(),
            parts: Vec::new(),
            contracts: FxHashMap::default(),
            setabis: Vec::new(),
            account_rows: Vec::new(),
            counts: Counts::default(),
        };
        let mut parts = Parts { limit: selection.part_bytes, done: Vec::new(), open: Part::default() };
        if !traces.is_empty() {
            plan.add_actions(protocol, selection, &traces).map_err(PlanError::Traces)?;
            for (i, action) in plan.actions.iter().enumerate() {
                let trace = &plan.action_traces[action.trace as usize];
                let bytes = trace.data.len() + trace.return_value.len() + EVENT_BYTES;
                parts.open(bytes).add_action(i, bytes);
            }
        }
        if !deltas.is_empty() {
            let runs = plan.add_rows(protocol, selection, &deltas).map_err(PlanError::Deltas)?;
            for (run, bytes) in runs {
                parts.open(bytes).add_rows(run, bytes);
            }
        }
        plan.counts.actions = plan.actions.len() as u64;
        plan.parts = parts.finish();
        plan.counts.deltas = plan.entries() - plan.counts.actions;
        plan.traces = traces;
        plan.deltas = deltas;
        Ok(plan)
    }

    /// How many events of actions and rows there will be.
    pub fn entries(&self) -> u64 {
        self.parts.iter().map(|part| part.entries).sum()
    }

    fn contract(&mut self, name: Name) -> &mut Contract {
        self.contracts.entry(name).or_default()
    }
}

impl Contract {
    /// So many of its rows are events.
    fn has_rows(&mut self, count: u32) {
        self.decoded = true;
        self.events += count;
    }
}

/// What an event takes beside its data, about.
const EVENT_BYTES: usize = 256;

/// Cuts a block's events into parts of about `limit` bytes.
struct Parts {
    limit: usize,
    done: Vec<Part>,
    open: Part,
}

impl Parts {
    /// The part that takes the next `bytes`.
    fn open(&mut self, bytes: usize) -> &mut Part {
        if self.open.entries > 0 && self.open.bytes + bytes > self.limit {
            let actions = self.open.actions.end..self.open.actions.end;
            self.done.push(std::mem::replace(&mut self.open, Part { actions, ..Part::default() }));
        }
        &mut self.open
    }

    fn finish(mut self) -> Vec<Part> {
        if self.open.entries > 0 || self.done.is_empty() {
            self.done.push(self.open);
        }
        self.done
    }
}

impl Part {
    fn add_action(&mut self, index: usize, bytes: usize) {
        self.actions.end = index + 1;
        self.entries += 1;
        self.bytes += bytes;
    }

    fn add_rows(&mut self, run: RowRun, bytes: usize) {
        self.entries += run.entries;
        self.bytes += bytes;
        self.rows.push(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{ActionRule, Rule};

    /// A block published in part by one version must be completed by the next.
    #[test]
    fn the_mark_of_a_selection_stays_what_it_is() {
        // sha256 of `[true,false,true,true,false,{"include":[],"exclude":[]}]`.
        let selection = Selection::default();
        assert_eq!(selection.mark(), "97c369380756acc1");
        assert_eq!(Selection { part_bytes: 1, ..selection }.mark(), "97c369380756acc1");
        // Of `[true,true,false,true,false,{"include":[{"kind":"action","account":"eosio.token","name":"transfer","receiver":"*"}],"exclude":[]}]`.
        let rule = ActionRule {
            account: Some(Name::literal("eosio.token")),
            name: Some(Name::literal("transfer")),
            receiver: None,
        };
        let filter = Filter::new(vec![Rule::Action(rule)], Vec::new());
        let selection = Selection { notifications: true, deltas: false, filter, ..Selection::default() };
        assert_eq!(selection.mark(), "1e98675c48b51a94");
    }
}
