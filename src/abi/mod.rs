//! ABIs, and decoding with them.
//!
//! An ABI is checked and compiled once into a program that never changes and that all threads share. Decoding runs it
//! over packed bytes and writes JSON straight into the output, in one of two styles: byte for byte what `rs_abieos` writes,
//! wherever that decodes, or what @wharfkit/antelope gives. Beyond them, containers lie in containers (by way of a typedef), values are nested to 512
//! levels, bytes that are no text are repaired as C++ abieos repairs them, and errors say field and byte.

mod abieos;
mod builtin;
mod compile;
mod decode;
mod def;
pub mod file;
mod input;
mod key;
mod program;
mod style;
mod text;
mod value;

use std::fmt;

use rustc_hash::FxHashMap;

use crate::name::Name;
use crate::out::Out;
use compile::Compiler;
use def::Definition;
use program::{NodeId, Program};
use style::Json;
pub(crate) use value::block_timestamp;

/// What decodes, and how its JSON looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deserializer {
    /// The compiled program, in abieos's style.
    #[default]
    Compiled,
    /// The compiled program, in the style of @wharfkit/antelope 1.x.
    Wharfkit,
    /// `rs_abieos` itself, for comparison: slower, without repaired text, left-over bytes and nested containers.
    Abieos,
}

/// A type of one [`Abi`]; means nothing to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeId(u32);

/// What was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes read. Fewer than there were: the rest trails behind the value.
    pub consumed: usize,
    /// A `?` was written for bytes that are no text.
    pub repaired: bool,
}

/// Why bytes could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// They end too early.
    Truncated,
    /// They mean nothing in this type.
    Invalid,
}

/// Bytes that could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// Which kind of failure.
    pub reason: Reason,
    /// The field, as in `quantity` or `list[3].key`; empty for the whole value.
    pub path: String,
    /// Offset in the data of what could not be read.
    pub offset: usize,
    /// What was wrong there.
    pub message: String,
}

/// An ABI that cannot be used, and what is wrong with it where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadAbi(String);

/// An ABI ready to decode.
pub struct Abi {
    program: Program,
    types: Vec<Type>,
    by_name: FxHashMap<Box<str>, TypeId>,
    actions: FxHashMap<Name, TypeId>,
    tables: FxHashMap<Name, TypeId>,
    action_results: FxHashMap<Name, TypeId>,
    abieos: Option<abieos::Handles>,
}

/// A type by the name that the ABI calls it.
struct Type {
    name: Box<str>,
    node: NodeId,
}

// === impl Deserializer ===

impl Deserializer {
    fn json(self) -> Json {
        match self {
            Deserializer::Compiled | Deserializer::Abieos => Json::Abieos,
            Deserializer::Wharfkit => Json::Wharfkit,
        }
    }
}

// === impl Abi ===

impl Abi {
    /// Reads and compiles the bytes that `setabi` takes: any `eosio::abi/1.x`; bytes after its end are allowed.
    pub fn from_binary(bytes: &[u8], with: Deserializer) -> Result<Abi, BadAbi> {
        let mut abi = Abi::compile(&Definition::from_binary(bytes)?, with.json())?;
        if with == Deserializer::Abieos {
            abi.abieos = Some(abieos::Handles::new(bytes)?);
        }
        Ok(abi)
    }

    /// Reads and compiles the ABI of its protocol that a node sends first, in JSON. Its types are found by
    /// [`Abi::type_named`]. `rs_abieos` is not used for them.
    pub fn from_json(text: &str, with: Deserializer) -> Result<Abi, BadAbi> {
        Abi::compile(&Definition::from_json(text)?, with.json())
    }

    fn compile(definition: &Definition, json: Json) -> Result<Abi, BadAbi> {
        let mut compiler = Compiler::new(definition, json)?;
        let mut abi = Abi {
            program: Program::default(),
            types: Vec::new(),
            by_name: FxHashMap::default(),
            actions: FxHashMap::default(),
            tables: FxHashMap::default(),
            action_results: FxHashMap::default(),
            abieos: None,
        };
        let structs = definition.structs.iter().map(|def| &def.name);
        let variants = definition.variants.iter().map(|def| &def.name);
        let typedefs = definition.types.iter().map(|def| &def.name);
        for name in structs.chain(variants).chain(typedefs) {
            abi.add(&mut compiler, name);
        }
        // An action or table whose type does not exist is no fault of the whole ABI: that one has no type. Of two
        // with the same name the last counts, as in abieos.
        for (name, written) in &definition.actions {
            let id = abi.add(&mut compiler, written);
            set(&mut abi.actions, *name, id);
        }
        for (name, written) in &definition.tables {
            let id = abi.add(&mut compiler, written);
            set(&mut abi.tables, *name, id);
        }
        for (name, written) in &definition.action_results {
            let id = abi.add(&mut compiler, written);
            set(&mut abi.action_results, *name, id);
        }
        abi.program = compiler.finish();
        Ok(abi)
    }

    fn add(&mut self, compiler: &mut Compiler, written: &str) -> Option<TypeId> {
        if let Some(&known) = self.by_name.get(written) {
            return Some(known);
        }
        let node = compiler.resolve(written).ok()?;
        let id = TypeId(self.types.len() as u32);
        self.types.push(Type { name: written.into(), node });
        self.by_name.insert(written.into(), id);
        Some(id)
    }

    /// The type of an action's data; none if the ABI lacks the action or the type.
    pub fn action_type(&self, action: Name) -> Option<TypeId> {
        self.actions.get(&action).copied()
    }

    /// The type of a table's rows; none if the ABI lacks the table or the type.
    pub fn table_type(&self, table: Name) -> Option<TypeId> {
        self.tables.get(&table).copied()
    }

    /// The type of an action's return value; none if the ABI tells none.
    pub fn action_result_type(&self, action: Name) -> Option<TypeId> {
        self.action_results.get(&action).copied()
    }

    /// A struct, variant or typedef of the ABI by its name.
    pub fn type_named(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    /// All types that the ABI defines or names for an action, table or result.
    pub fn types(&self) -> impl Iterator<Item = TypeId> + use<> {
        (0..self.types.len() as u32).map(TypeId)
    }

    /// What the ABI calls a type.
    ///
    /// # Panics
    /// With the id of another ABI, possibly.
    pub fn type_name(&self, id: TypeId) -> &str {
        &self.types[id.0 as usize].name
    }

    /// Reads a value from the start of `data` and appends its JSON to `out`, which is left as it was on an error.
    ///
    /// # Panics
    /// With the id of another ABI, possibly.
    #[inline]
    pub fn decode(&self, id: TypeId, data: &[u8], out: &mut Out) -> Result<Decoded, DecodeError> {
        let Type { name, node } = &self.types[id.0 as usize];
        let Some(handles) = &self.abieos else {
            return decode::decode(&self.program, *node, data, out, decode::LEVELS);
        };
        // Values that rs_abieos would crash on or never come back from are found out first.
        let from = out.len();
        match decode::decode(&self.program, *node, data, out, abieos::LEVELS) {
            Err(error) if error.reason == Reason::Invalid => return Err(error),
            _ => out.truncate(from),
        }
        handles.decode(name, data, out)
    }
}

fn set(types: &mut FxHashMap<Name, TypeId>, name: Name, id: Option<TypeId>) {
    match id {
        Some(id) => types.insert(name, id),
        None => types.remove(&name),
    };
}

impl fmt::Debug for Abi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Abi").field("types", &self.types.len()).field("actions", &self.actions.len()).finish()
    }
}

// === impl DecodeError ===

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{} at byte {}", self.message, self.offset)
    }
}

impl std::error::Error for DecodeError {}
