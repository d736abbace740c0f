//! What an ABI says, before any of it is checked: read from `setabi`'s bytes or from the node's JSON.

use std::borrow::Cow;

use serde::Deserialize;

use super::BadAbi;
use super::input::{Fault, Input};
use super::text;
use crate::name::Name;

type Text<'a> = Cow<'a, str>;

/// The parts of an ABI that decoding needs.
pub(super) struct Definition<'a> {
    pub types: Vec<Typedef<'a>>,
    pub structs: Vec<Struct<'a>>,
    pub variants: Vec<Variant<'a>>,
    /// Type by action, by table and by action with a return value.
    pub actions: Vec<(Name, Text<'a>)>,
    pub tables: Vec<(Name, Text<'a>)>,
    pub action_results: Vec<(Name, Text<'a>)>,
}

/// Another name for a type.
#[derive(Deserialize)]
pub(super) struct Typedef<'a> {
    #[serde(rename = "new_type_name")]
    pub name: Text<'a>,
    #[serde(rename = "type")]
    pub target: Text<'a>,
}

#[derive(Deserialize)]
pub(super) struct Struct<'a> {
    pub name: Text<'a>,
    /// The struct whose fields come first; empty for none.
    #[serde(default)]
    pub base: Text<'a>,
    #[serde(default)]
    pub fields: Vec<Field<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Field<'a> {
    pub name: Text<'a>,
    #[serde(rename = "type")]
    pub type_name: Text<'a>,
}

#[derive(Deserialize)]
pub(super) struct Variant<'a> {
    pub name: Text<'a>,
    pub types: Vec<Text<'a>>,
}

/// The node's JSON: its `tables` are no contract tables and are left out.
#[derive(Deserialize)]
struct Document {
    version: String,
    #[serde(default)]
    types: Vec<Typedef<'static>>,
    #[serde(default)]
    structs: Vec<Struct<'static>>,
    #[serde(default)]
    variants: Vec<Variant<'static>>,
}

// === impl Definition ===

impl<'a> Definition<'a> {
    /// Reads `setabi`'s bytes. Whatever follows the last known part is left alone: newer versions put more there.
    pub fn from_binary(bytes: &'a [u8]) -> Result<Definition<'a>, BadAbi> {
        let mut reader = Reader { input: Input::new(bytes), part: "version" };
        reader.definition().map_err(|fault| {
            let (input, part) = (reader.input, reader.part);
            BadAbi(format!("{part}: {} at byte {}", input.explain(fault), bytes.len() - input.left()))
        })?
    }

    /// How many of the bytes the known parts take; `None` where they cannot be read.
    pub fn length(bytes: &[u8]) -> Option<usize> {
        let mut reader = Reader { input: Input::new(bytes), part: "version" };
        reader.definition().ok()?.ok()?;
        Some(bytes.len() - reader.input.left())
    }

    /// Reads the ABI that a node sends first.
    pub fn from_json(text: &str) -> Result<Definition<'static>, BadAbi> {
        let document: Document =
            serde_json::from_str(text).map_err(|error| BadAbi(format!("not an ABI in JSON: {error}")))?;
        check_version(&document.version)?;
        Ok(Definition {
            types: document.types,
            structs: document.structs,
            variants: document.variants,
            actions: Vec::new(),
            tables: Vec::new(),
            action_results: Vec::new(),
        })
    }
}

fn check_version(version: &str) -> Result<(), BadAbi> {
    if version.starts_with("eosio::abi/1.") {
        Ok(())
    } else {
        let shown: String = version.chars().take(40).collect();
        Err(BadAbi(format!("version `{shown}` is unknown: only eosio::abi/1.x is read")))
    }
}

/// Bytes of an ABI and the part being read, for messages.
struct Reader<'a> {
    input: Input<'a>,
    part: &'static str,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    /// The outer error says where the bytes end too early, the inner one what is wrong with whole ones.
    fn definition(&mut self) -> Result<Result<Definition<'a>, BadAbi>, Fault> {
        if let Err(bad) = check_version(&self.text()?) {
            return Ok(Err(bad));
        }
        let types = self.list("types", |r| Ok(Typedef { name: r.text()?, target: r.text()? }))?;
        let structs = self.list("structs", |r| {
            let (name, base) = (r.text()?, r.text()?);
            Ok(Struct {
                name,
                base,
                fields: r.items(|r| Ok(Field { name: r.text()?, type_name: r.text()? }))?,
            })
        })?;
        let actions = self.list("actions", |r| {
            let action = (r.name()?, r.text()?);
            r.input.bytes()?; // the Ricardian contract
            Ok(action)
        })?;
        let tables = self.list("tables", |r| {
            let name = r.name()?;
            r.input.bytes()?; // the index type, always `i64`
            r.items(|r| r.input.bytes())?; // key names
            r.items(|r| r.input.bytes())?; // key types
            Ok((name, r.text()?))
        })?;
        self.list("ricardian_clauses", |r| Ok((r.input.bytes()?, r.input.bytes()?)))?;
        self.list("error_messages", |r| Ok((r.input.u64()?, r.input.bytes()?)))?;
        self.list("abi_extensions", |r| Ok((r.input.u16()?, r.input.bytes()?)))?;
        // The two that came later may be missing.
        let mut variants = Vec::new();
        if !self.input.is_empty() {
            variants =
                self.list("variants", |r| Ok(Variant { name: r.text()?, types: r.items(Reader::text)? }))?;
        }
        let mut action_results = Vec::new();
        if !self.input.is_empty() {
            action_results = self.list("action_results", |r| Ok((r.name()?, r.text()?)))?;
        }
        Ok(Ok(Definition { types, structs, variants, actions, tables, action_results }))
    }

    fn list<T>(
        &mut self,
        part: &'static str,
        item: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        self.part = part;
        self.items(item)
    }

    /// A counted list. Every item takes a byte at least, so that a lying count ends with the bytes; nothing is
    /// set aside for it beforehand.
    fn items<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
        let count = self.input.varuint32()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn text(&mut self) -> Result<Text<'a>, Fault> {
        self.input.bytes().map(text::repaired)
    }

    fn name(&mut self) -> Result<Name, Fault> {
        self.input.u64().map(Name)
    }
}
