//! Which action traces are events: notifications are folded into the action they tell of, events
//! come in order of execution, and ABIs that the block sets are noted.

use super::{Action, Plan, Selection, SetAbi};
use crate::cursor::{Cursor, CursorError};
use crate::name::Name;
use crate::ship::protocol::Protocol;
use crate::walk::{ActionTrace, transactions};

const EOSIO: Name = Name::literal("eosio");
const SETABI: Name = Name::literal("setabi");

impl Plan {
    pub(super) fn add_actions(
        &mut self,
        protocol: &Protocol,
        selection: &Selection,
        traces: &[u8],
    ) -> Result<(), CursorError> {
        let mut scratch = Vec::new();
        let mut own = Vec::new();
        let mut bad_setabi = None;
        transactions(traces, &protocol.walk, &mut scratch, |id, actions| {
            own_actions(actions, &mut own);
            for action in actions.iter() {
                self.note_sequence(action);
                if action.receiver == EOSIO && action.account == EOSIO && action.name == SETABI {
                    match set_abi(traces, action) {
                        Ok(set) => self.setabis.push(set),
                        Err(error) => bad_setabi = bad_setabi.take().or(Some(error)),
                    }
                }
            }
            let transaction = self.transactions.len() as u32;
            self.transactions.push(id);
            if selection.actions {
                self.add_events(selection, transaction, actions, &own);
            }
        })?;
        if let Some(error) = bad_setabi {
            return Err(error);
        }
        // Transactions run one after the other, so this is the order already; the promise of order does not rest on it.
        self.actions.sort_by_key(|action| action.trace.receipt.global_sequence);
        self.setabis.sort_by_key(|set| set.global_sequence);
        for action in &self.actions {
            let contract = self.contracts.entry(action.trace.account).or_default();
            contract.decoded = true;
            contract.events += 1;
        }
        Ok(())
    }

    /// Adds the events of one transaction, whose actions are in order of their ordinals.
    fn add_events(
        &mut self,
        selection: &Selection,
        transaction: u32,
        actions: &[ActionTrace],
        own: &[usize],
    ) {
        // Who was told of which action, in order of execution.
        let mut told: Vec<_> = (0..actions.len())
            .filter(|&i| own[i] != i)
            .map(|i| (own[i], actions[i].receipt.global_sequence, actions[i].receiver))
            .collect();
        told.sort_unstable_by_key(|&(index, sequence, _)| (index, sequence));
        let mut told = told.into_iter().peekable();
        for (index, trace) in actions.iter().enumerate() {
            let first = self.notified.len();
            if own[index] == index {
                while let Some((_, _, receiver)) = told.next_if(|&(of, _, _)| of == index) {
                    self.notified.push(receiver);
                }
            } else if !selection.notifications {
                continue;
            }
            let notified = &self.notified[first..];
            if selection.filter.action(trace.account, trace.name, trace.receiver, notified) {
                let notified = (first as u32, notified.len() as u32);
                self.actions.push(Action { trace: *trace, transaction, notified });
            } else {
                self.notified.truncate(first);
            }
        }
    }

    fn note_sequence(&mut self, action: &ActionTrace) {
        let seen = (action.receipt.global_sequence, action.receipt.abi_sequence);
        let sequences = &mut self.contract(action.account).abi_sequence;
        match sequences {
            None => *sequences = Some([seen, seen]),
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
