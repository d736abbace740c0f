//! What a recording holds of each contract: all ABIs that it ever had, and all that is to be decoded with one of them.

use std::collections::HashMap;

use parser::abi::Abi;
use parser::name::Name;

use super::Block;

/// See the module's documentation.
#[derive(Default)]
pub struct Contracts(HashMap<Name, Contract>);

/// One of them.
#[derive(Default)]
pub struct Contract {
    /// Packed, each once.
    pub abis: Vec<Vec<u8>>,
    values: Vec<(Part, Name, Vec<u8>)>,
}

/// What a name and its bytes are of.
enum Part {
    Action,
    Result,
    Table,
}

// === impl Contracts ===

impl Contracts {
    /// Counts a block's in.
    pub fn add(&mut self, block: Block) {
        for (account, abi) in block.accounts {
            self.of(account).abis.push(abi);
        }
        for action in block.actions {
            let values = &mut self.of(action.account).values;
            values.push((Part::Action, action.name, action.data));
            values.push((Part::Result, action.name, action.return_value));
        }
        for row in block.rows {
            self.of(row.code).values.push((Part::Table, row.table, row.value));
        }
    }

    /// All of them.
    pub fn all(self) -> impl Iterator<Item = Contract> {
        self.0.into_values().map(|mut contract| {
            contract.abis.sort();
            contract.abis.dedup();
            contract
        })
    }

    fn of(&mut self, account: Name) -> &mut Contract {
        self.0.entry(account).or_default()
    }
}

// === impl Contract ===

impl Contract {
    /// What that ABI has a type for: the type and the bytes.
    pub fn typed<'a>(&'a self, abi: &'a Abi) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.values.iter().filter_map(|(part, name, data)| {
            let id = match part {
                Part::Action => abi.action_type(*name),
                Part::Result => abi.action_result_type(*name),
                Part::Table => abi.table_type(*name),
            };
            Some((abi.type_name(id?), &data[..]))
        })
    }
}
