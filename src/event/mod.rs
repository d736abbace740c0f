//! Events as JSON: every event is written once, straight into the buffer that goes to Redis. The
//! field order and spellings are the promise to consumers (`docs/events.md`).

mod action;
mod again;
mod control;
mod decoded;
mod envelope;
mod native;
mod row;
mod sink;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::abi::{Abi, BadAbi, Deserializer, TypeId};
use crate::filter::Filter;
use crate::history::InForce;
use crate::name::Name;
use crate::plan::Plan;
use crate::ship::protocol::Protocol;

pub use again::{Past, PastError, REPLAYED, StillUndecoded, Undecodable};
pub use control::{write_block, write_fork};
pub use decoded::Reason;
pub use envelope::{Envelope, Kind};
pub use sink::{Chunk, Counts, EntryIds, Letters, Sink, Written};

/// How events are written, the same for all blocks.
#[derive(Debug, Clone, Default)]
pub struct Style {
    /// What decodes ABI data, and in which style.
    pub deserializer: Deserializer,
    /// Give a code's wasm and an account's ABI whole, instead of their size and hash.
    pub code_bytes: bool,
    /// Send actions and rows of contracts without ABI to the dead letters too.
    pub no_abi_dead_letters: bool,
}

/// The types of the node's own tables.
pub struct ShipTypes {
    abi: Abi,
    tables: FxHashMap<String, Vec<RowType>>,
}

struct RowType {
    /// As in the event's `version`, such as `permission_v0`.
    version: String,
    id: TypeId,
}

/// All that a block's events are made of.
pub struct Block {
    /// What is published.
    pub plan: Plan,
    /// What contracts' data is read with.
    pub abis: FxHashMap<Name, InForce>,
    /// What all its events say of it.
    pub envelope: Envelope,
    /// How.
    pub style: Style,
    /// What the node's tables are read with.
    pub ship: Arc<ShipTypes>,
    /// Which rows pass.
    pub filter: Arc<Filter>,
}

// === impl ShipTypes ===

impl ShipTypes {
    /// From the node's protocol, its rows to be written as that deserializer writes.
    pub fn new(protocol: &Protocol, deserializer: Deserializer) -> Result<ShipTypes, BadAbi> {
        let abi = Abi::from_json(&protocol.abi, deserializer)?;
        let tables = protocol
            .tables
            .iter()
            .map(|(name, table)| {
                let types = table
                    .versions
                    .iter()
                    .filter_map(|version| {
                        Some(RowType { version: version.clone(), id: abi.type_named(version)? })
                    })
                    .collect();
                (name.clone(), types)
            })
            .collect();
        Ok(ShipTypes { abi, tables })
    }
}

// === impl Block ===

impl Block {
    /// Writes the events of one part.
    pub fn write_part(&self, part: usize, sink: &mut Sink) {
        let Some(part) = self.plan.parts.get(part) else { return };
        for action in &self.plan.actions[part.actions.clone()] {
            self.write_action(action, sink);
        }
        for run in &part.rows {
            self.write_rows(run, sink);
        }
    }
}
