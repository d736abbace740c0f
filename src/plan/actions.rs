//! Which action traces are events: notifications are folded into the action they tell of, events
//! come in order of execution, and ABIs that the block sets are noted.

use super::{Action, Contract, Plan, Selection, SetAbi};
use crate::cursor::{Cursor, CursorError};
use crate::name::Name;
use crate::ship::protocol::Protocol;
use crate::walk::{ActionTrace, transactions};

const EOSIO: Name = Name::literal("eosio");
const SETABI: Name = Name::literal("setabi");

/// An action's trace takes about so many bytes, or more: room for what comes of it is made at once, not bit by bit.
const TRACE_BYTES: usize = 300;

/// Space used again for each transaction.
#[derive(Default)]
struct Scratch {
    /// See [`own_actions`].
    own: Vec<usize>,
    /// Who was told of which action: its index, the notification's global sequence, and who.
    told: Vec<(usize, u64, Name)>,
}

impl Plan {
    pub(super) fn add_actions(
        &mut self,
        protocol: &Protocol,
        selection: &Selection,
        traces: &[u8],
    ) -> Result<(), CursorError> {
        let likely = traces.len() / TRACE_BYTES;
        let mut all = Vec::with_capacity(likely);
        self.actions.reserve(likely);
        self.notified.reserve(likely);
        let mut scratch = Scratch::default();
        let mut bad_setabi = None;
        transactions(traces, &protocol.walk, &mut all, |id, all, first| {
            let actions = &all[first..];
            for action in actions {
                if action.receiver == EOSIO && action.account == EOSIO && action.name == SETABI {
                    match set_abi(traces, action) {
                        Ok(set) => self.setabis.push(set),
                        Err(error) => bad_setabi = bad_setabi.take().or(Some(error)),
                    }
                }
            }
            let events = self.actions.len();
            if selection.actions {
                self.add_events(selection, actions, first, &mut scratch);
            }
            self.note_contracts(actions, first, events);
            in_order_of_execution(&mut self.actions[events..], all);
            self.transactions.push(id);
        })?;
        if let Some(error) = bad_setabi {
            return Err(error);
        }
        // Transactions run one after the other, so this is the order already; the promise of order does not rest on it.
        in_order_of_execution(&mut self.actions, &all);
        self.setabis.sort_by_key(|set| set.global_sequence);
        self.action_traces = all;
        Ok(())
    }

    /// Adds the events of one transaction, whose actions are in order of their ordinals; `first` is the first one's place.
    fn add_events(
        &mut self,
        selection: &Selection,
        actions: &[ActionTrace],
        first: usize,
        scratch: &mut Scratch,
    ) {
        let Scratch { own, told } = scratch;
        own_actions(actions, own);
        // In order of execution.
        told.clear();
        told.extend(
            (0..actions.len())
                .filter(|&i| own[i] != i)
                .map(|i| (own[i], actions[i].receipt.global_sequence, actions[i].receiver)),
        );
        told.sort_unstable_by_key(|&(index, sequence, _)| (index, sequence));
        let mut told = told.iter().peekable();
        let transaction = self.transactions.len() as u32;
        for (index, trace) in actions.iter().enumerate() {
            let names = self.notified.len();
            if own[index] == index {
                while let Some((_, _, receiver)) = told.next_if(|(of, _, _)| *of == index) {
                    self.notified.push(*receiver);
                }
            } else if !selection.notifications {
                continue;
            }
            let notified = &self.notified[names..];
            if selection.filter.action(trace.account, trace.name, trace.receiver, notified) {
                let notified = (names as u32, notified.len() as u32);
                self.actions.push(Action { trace: (first + index) as u32, transaction, notified });
            } else {
                self.notified.truncate(names);
            }
        }
    }

    /// Notes a transaction's contracts: their ABI sequences, and which of them its events, from place `events` on, need
    /// the ABI of.
    fn note_contracts(&mut self, actions: &[ActionTrace], first: usize, events: usize) {
        let mut events = self.actions[events..].iter().map(|event| event.trace as usize - first).peekable();
        let mut end = 0;
        // Notifications stand behind what they tell of.
        for run in actions.chunk_by(|one, next| one.account == next.account) {
            end += run.len();
            let contract = self.contracts.entry(run[0].account).or_default();
            while events.next_if(|&event| event < end).is_some() {
                contract.decoded = true;
                contract.events += 1;
            }
            for action in run {
                contract.note_sequence(action.receipt.global_sequence, action.receipt.abi_sequence);
            }
        }
    }
}

impl Contract {
    #[inline]
    fn note_sequence(&mut self, global: u64, abi: u32) {
        let seen = (global, abi);
        match &mut self.abi_sequence {
            None => self.abi_sequence = Some([seen, seen]),
            Some([first, last]) => {
                if seen.0 < first.0 {
                    *first = seen;
                }
                if seen.0 > last.0 {
                    *last = seen;
                }
            }
        }
    }
}

/// Sorts events; mostly they are in order already.
fn in_order_of_execution(events: &mut [Action], traces: &[ActionTrace]) {
    let sequence = |event: &Action| traces[event.trace as usize].receipt.global_sequence;
    if !events.is_sorted_by_key(sequence) {
        events.sort_by_key(sequence);
    }
}

/// Writes for each action the index of the action whose event it belongs to: its own, or for a
/// notification the action it tells of. That one is the notification's creator, or the creator's
/// creator where a notified contract notified another; where there is none above (nodeos runs
/// `eosio::onerror` at the sender of a deferred transaction), the trace is an event of its own.
fn own_actions(actions: &[ActionTrace], own: &mut Vec<usize>) {
    own.clear();
    for (index, action) in actions.iter().enumerate() {
        let above = (action.receiver != action.account && action.creator != 0)
            .then(|| find(actions, index, action.creator))
            .flatten()
            .filter(|&i| actions[i].account == action.account && actions[i].name == action.name);
        // A creator stands before what it creates, so its own answer is there already.
        own.push(above.map_or(index, |i| own[i]));
    }
}

/// The action of that ordinal among those before `index`.
fn find(actions: &[ActionTrace], index: usize, ordinal: u32) -> Option<usize> {
    let guess = ordinal as usize - 1;
    if guess < index && actions[guess].ordinal == ordinal {
        return Some(guess);
    }
    actions[..index].iter().position(|action| action.ordinal == ordinal)
}

fn set_abi(traces: &[u8], action: &ActionTrace) -> Result<SetAbi, CursorError> {
    let data = action.data.of(traces);
    let mut cursor = Cursor::new(data);
    let account = cursor.name()?;
    let abi = cursor.bytes()?;
    let abi = action.data.part(cursor.at() - abi.len(), abi.len());
    Ok(SetAbi { account, global_sequence: action.receipt.global_sequence, abi })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::{Receipt, Span};

    const TOKEN: Name = Name::literal("eosio.token");
    const TRANSFER: Name = Name::literal("transfer");

    fn action(
        ordinal: u32,
        creator: u32,
        sequence: u64,
        receiver: Name,
        account: Name,
        name: Name,
    ) -> ActionTrace {
        let receipt = Receipt {
            receiver,
            act_digest: Span::default(),
            global_sequence: sequence,
            recv_sequence: 1,
            auth_sequence: Span::default(),
            code_sequence: 1,
            abi_sequence: 1,
        };
        ActionTrace {
            ordinal,
            creator,
            receipt,
            receiver,
            account,
            name,
            authorization: Span::default(),
            data: Span::default(),
            context_free: false,
            return_value: Span::default(),
        }
    }

    fn own(actions: &[ActionTrace]) -> Vec<usize> {
        let mut own = Vec::new();
        own_actions(actions, &mut own);
        own
    }

    #[test]
    fn notifications_belong_to_the_action_they_tell_of() {
        let [alice, bob, carol] = ["alice", "bob", "carol"].map(Name::literal);
        let actions = [
            action(1, 0, 10, TOKEN, TOKEN, TRANSFER),
            action(2, 1, 11, alice, TOKEN, TRANSFER),
            action(3, 1, 12, bob, TOKEN, TRANSFER),
            // bob's contract notifies carol, and sends a transfer that looks just like the first one.
            action(4, 3, 13, carol, TOKEN, TRANSFER),
            action(5, 3, 14, TOKEN, TOKEN, TRANSFER),
            action(6, 5, 15, alice, TOKEN, TRANSFER),
        ];
        assert_eq!(own(&actions), [0, 0, 0, 0, 4, 4]);
    }

    #[test]
    fn an_action_run_for_another_without_one_above_it_is_its_own() {
        let [sender, bob] = ["sender", "bob"].map(Name::literal);
        let onerror = Name::literal("onerror");
        let actions = [
            action(1, 0, 20, sender, EOSIO, onerror),
            action(2, 1, 21, bob, EOSIO, onerror),
            action(3, 1, 22, sender, sender, Name::literal("log")),
        ];
        assert_eq!(own(&actions), [0, 0, 2]);
    }

    #[test]
    fn ordinals_may_have_gaps() {
        let alice = Name::literal("alice");
        let actions = [action(2, 0, 10, TOKEN, TOKEN, TRANSFER), action(5, 2, 11, alice, TOKEN, TRANSFER)];
        assert_eq!(own(&actions), [0, 0]);
        assert_eq!(own(&[action(2, 7, 10, alice, TOKEN, TRANSFER)]), [0]);
    }
}
