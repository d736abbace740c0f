//! What can be expected of a stream, by what is published, and so what verifying it proves.

use super::report::Report;
use crate::name::Name;
use crate::plan::Selection;
use crate::publish::StreamIds;

/// What can be expected of a stream, by what is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expect {
    /// Entry ids begin with the block's number.
    pub block_ids: bool,
    /// Every block has an event: the chain's own `onblock` action, or the `block` event.
    pub every_block: bool,
    /// Every block ends with a `block` event.
    pub block_events: bool,
    /// Every action trace has an event, so that global sequences have no holes.
    pub every_sequence: bool,
}

// === impl Expect ===

impl Expect {
    /// Of a stream with these settings.
    pub fn of(selection: &Selection, stream_ids: StreamIds) -> Expect {
        const EOSIO: Name = Name::literal("eosio");
        const ONBLOCK: Name = Name::literal("onblock");
        let onblock = selection.actions && selection.filter.action(EOSIO, ONBLOCK, EOSIO, &[]);
        Expect {
            block_ids: stream_ids == StreamIds::Block,
            every_block: selection.blocks || onblock,
            block_events: selection.blocks,
            every_sequence: selection.actions && selection.notifications && selection.filter.passes_all(),
        }
    }

    /// Says what the findings rest upon.
    pub(super) fn say(self, report: &mut Report) {
        let Expect { block_ids, every_block, block_events, every_sequence } = self;
        let mut say = |proven: bool, yes: &str, no: &str| {
            let list = if proven { &mut report.proven } else { &mut report.unproven };
            list.push(if proven { yes } else { no }.to_owned());
        };
        say(true, "event ids fit their events; no event twice; events of a block in their order", "");
        say(true, "blocks rise, and go back only behind a fork event that names what it undoes", "");
        say(
            every_block,
            "every block is there: each one has at least one event",
            "whether a block is missing: with these filters a block may have no event (`publish.blocks: true` gives each \
             one)",
        );
        say(
            block_ids,
            "no entry is missing between others of the same block: their numbers have no holes",
            "whether an entry is missing: with `streamIds: auto` their ids tell nothing",
        );
        say(
            block_events,
            "blocks are linked by id, and whole: `block` events name the block before and count the events",
            "whether a block's last entries are missing, and links by id: `publish.blocks: true` proves them",
        );
        if every_sequence {
            say(true, "no action is missing: global sequences have no holes", "");
        }
    }
}
