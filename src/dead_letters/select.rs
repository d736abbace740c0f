//! Which dead letters are meant.

use super::Letter;
use crate::event::Past;
use crate::publish::EntryId;

/// A choice of dead letters: those that have all that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Select {
    /// With one of these entry ids or event ids; none: whichever.
    pub ids: Vec<String>,
    /// With this reason.
    pub reason: Option<String>,
    /// Of this contract.
    pub contract: Option<String>,
    /// Of this block or a later one.
    pub from: Option<u32>,
    /// Of this block or an earlier one.
    pub to: Option<u32>,
}

// === impl Select ===

impl Select {
    /// Whether it is all there are.
    pub fn is_all(&self) -> bool {
        *self == Select::default()
    }

    /// Whether it needs the event, not only the letter's own fields.
    pub fn needs_event(&self) -> bool {
        self.from.is_some()
            || self.to.is_some()
            || self.contract.is_some()
            || self.event_ids().next().is_some()
    }

    /// Whether a letter is meant. `event` is its event, `None` where that does not read.
    pub fn takes(&self, letter: &Letter, event: Option<&Past<'_>>) -> bool {
        let named = self.ids.is_empty()
            || self.entry_ids().any(|id| id == letter.id)
            || event.is_some_and(|event| self.event_ids().any(|id| id == event.event_id()));
        let contract = || match letter.field("contract") {
            "" => event.and_then(Past::contract).map(|name| name.to_string()).unwrap_or_default(),
            contract => contract.to_owned(),
        };
        let block = || event.map(Past::block_num);
        named
            && self.reason.as_ref().is_none_or(|reason| reason == letter.field("reason"))
            && self.contract.as_ref().is_none_or(|wanted| *wanted == contract())
            && self.from.is_none_or(|from| block().is_some_and(|num| num >= from))
            && self.to.is_none_or(|to| block().is_some_and(|num| num <= to))
    }

    /// The entry id before which no letter can be one that is meant.
    ///
    /// Entry ids begin with the block's number or a higher one, or with milliseconds, which are far higher.
    pub fn first(&self) -> EntryId {
        let block = |num: u32| EntryId { first: num.into(), second: 0 };
        let from = self.from.map_or(EntryId::ZERO, block);
        let ids = self.ids.iter().map(|id| match id.parse::<EntryId>() {
            Ok(id) => id,
            // CHAIN:LETTER:BLOCK:...
            Err(_) => id.split(':').nth(2).and_then(|num| num.parse().ok()).map_or(EntryId::ZERO, block),
        });
        ids.min().unwrap_or(EntryId::ZERO).max(from)
    }

    /// The entry id behind which none can be one that is meant, if there is such.
    pub fn last(&self) -> Option<EntryId> {
        let ids: Option<Vec<EntryId>> = self.ids.iter().map(|id| id.parse().ok()).collect();
        ids.and_then(|ids| ids.into_iter().max())
    }

    fn entry_ids(&self) -> impl Iterator<Item = EntryId> {
        self.ids.iter().filter_map(|id| id.parse().ok())
    }

    fn event_ids(&self) -> impl Iterator<Item = &str> {
        self.ids.iter().filter(|id| id.contains(':')).map(String::as_str)
    }
}
