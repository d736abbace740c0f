//! From a definition to a program: every name is resolved and every rule checked once.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::BadAbi;
use super::def::{Definition, Struct};
use super::program::{Alternative, Builtin, Field, Node, NodeId, Plain, Program, SHORT, Text};
use super::style::{Abieos, Json, Style, Wharfkit};
use crate::out::Out;

/// Longest line of structs that are each other's base, as in abieos.
const LONGEST_LINE: usize = 32;

/// Most fields in all structs together, bases' fields counted in every struct that has them: without a bound a
/// small ABI could ask for billions.
const MOST_FIELDS: usize = 1 << 20;

/// What a name stands for.
#[derive(Clone, Copy)]
enum Named {
    /// A typedef, by its place in the definition.
    Typedef(usize),
    /// A struct, a variant or a built-in type.
    Node(NodeId),
}

/// `?`, `[]` or `[N]` behind a type's name.
#[derive(Clone, Copy)]
enum Container {
    Optional,
    Array,
    Fixed(u32),
}

/// A type as written: a name, with one container at most, and `$`.
struct Written {
    named: Named,
    container: Option<Container>,
    extension: bool,
}

/// How far a typedef is resolved.
#[derive(Clone, Copy, PartialEq)]
enum Resolved {
    No,
    UnderWay,
    To(NodeId),
}

/// A program in the making.
pub(super) struct Compiler<'d> {
    definition: &'d Definition<'d>,
    names: FxHashMap<&'d str, Named>,
    typedefs: Vec<Resolved>,
    /// Optionals, arrays and built-in types made so far.
    made: FxHashMap<Node, NodeId>,
    /// Texts of the program written so far.
    texts: FxHashMap<Vec<u8>, Text>,
    program: Program,
}

// === impl Compiler ===

impl<'d> Compiler<'d> {
    /// Compiles all structs, variants and typedefs.
    pub fn new(definition: &'d Definition<'d>, json: Json) -> Result<Compiler<'d>, BadAbi> {
        let mut compiler = Compiler {
            definition,
            names: FxHashMap::default(),
            typedefs: vec![Resolved::No; definition.types.len()],
            made: FxHashMap::default(),
            texts: FxHashMap::default(),
            program: Program { json, ..Program::default() },
        };
        compiler.declare()?;
        for (i, typedef) in definition.types.iter().enumerate() {
            compiler.typedef(i).map_err(|error| error.within("typedef", &typedef.name))?;
        }
        for (i, variant) in definition.variants.iter().enumerate() {
            let node = (definition.structs.len() + i) as NodeId;
            compiler.variant(node, &variant.types).map_err(|error| error.within("variant", &variant.name))?;
        }
        for (i, def) in definition.structs.iter().enumerate() {
            compiler.structure(i, def).map_err(|error| error.within("struct", &def.name))?;
        }
        Ok(compiler)
    }

    /// The node of a type as written anywhere in the ABI.
    pub fn resolve(&mut self, written: &str) -> Result<NodeId, BadAbi> {
        self.node(written).map(|(node, _)| node)
    }

    /// The program, all types being resolved.
    pub fn finish(mut self) -> Program {
        self.program.text.extend_from_slice(&[0; SHORT]);
        self.program
    }

    /// Gives each struct, then each variant, the node of its number, and all names their meaning.
    fn declare(&mut self) -> Result<(), BadAbi> {
        let definition = self.definition;
        for (i, typedef) in definition.types.iter().enumerate() {
            self.name(&typedef.name, Named::Typedef(i))?;
        }
        let structs = definition.structs.iter().map(|def| (&def.name, Node::Struct { first: 0, end: 0 }));
        let variants = definition.variants.iter().map(|def| (&def.name, Node::Variant { first: 0, end: 0 }));
        for (name, node) in structs.chain(variants) {
            let id = self.program.nodes.len() as NodeId;
            self.program.nodes.push(node);
            self.name(name, Named::Node(id))?;
        }
        // The one struct that every ABI knows.
        let asset = self.make(Node::Builtin(Builtin::Asset));
        let name = self.make(Node::Builtin(Builtin::Name));
        let first = self.program.fields.len() as u32;
        self.field("quantity", asset, false)?;
        self.field("contract", name, false)?;
        let id = self.program.nodes.len() as NodeId;
        self.program.nodes.push(Node::Struct { first, end: first + 2 });
        self.name("extended_asset", Named::Node(id))
    }

    fn name(&mut self, name: &'d str, named: Named) -> Result<(), BadAbi> {
        if name.is_empty() {
            return Err(BadAbi("a type without a name".to_owned()));
        }
        let reserved = Builtin::named(name).is_some_and(|(_, free)| !free);
        if reserved || self.names.insert(name, named).is_some() {
            return Err(BadAbi(format!("duplicate type `{name}`")));
        }
        Ok(())
    }

    fn lookup(&mut self, name: &str) -> Option<Named> {
        if let Some(&named) = self.names.get(name) {
            return Some(named);
        }
        let (builtin, _) = Builtin::named(name)?;
        Some(Named::Node(self.make(Node::Builtin(builtin))))
    }

    /// Takes a type's text apart. A name that looks like a container but is defined is a name.
    fn parse(&mut self, written: &str) -> Result<Written, BadAbi> {
        if let Some(named) = self.lookup(written) {
            return Ok(Written { named, container: None, extension: false });
        }
        let (rest, extension) = match written.strip_suffix('$') {
            Some(rest) => (rest, true),
            None => (written, false),
        };
        if let Some(named) = self.lookup(rest) {
            return Ok(Written { named, container: None, extension });
        }
        let unknown = || BadAbi(format!("unknown type `{written}`"));
        let (name, container) = if let Some(name) = rest.strip_suffix('?') {
            (name, Container::Optional)
        } else if let Some(name) = rest.strip_suffix("[]") {
            (name, Container::Array)
        } else if let Some((name, size)) = rest.strip_suffix(']').and_then(|rest| rest.rsplit_once('[')) {
            (name, Container::Fixed(array_size(size).ok_or_else(unknown)?))
        } else if rest.ends_with('$') {
            return Err(BadAbi(format!("`{written}` nests containers directly")));
        } else {
            return Err(unknown());
        };
        match self.lookup(name) {
            Some(named) => Ok(Written { named, container: Some(container), extension }),
            None if name.ends_with(['?', ']', '$']) => {
                Err(BadAbi(format!("`{written}` nests containers directly")))
            }
            None => Err(unknown()),
        }
    }

    /// The node of a type as written, and whether it is an extension.
    fn node(&mut self, written: &str) -> Result<(NodeId, bool), BadAbi> {
        let Written { named, container, extension } = self.parse(written)?;
        let node = match named {
            Named::Typedef(i) => self.typedef(i)?,
            Named::Node(node) => node,
        };
        Ok((self.contain(node, container), extension))
    }

    /// The node of a typedef, followed through other typedefs without recursion: their line can be long.
    fn typedef(&mut self, number: usize) -> Result<NodeId, BadAbi> {
        let definition = self.definition;
        let mut line = Vec::new();
        let mut at = number;
        let mut node = loop {
            let typedef = &definition.types[at];
            match self.typedefs[at] {
                Resolved::To(node) => break node,
                Resolved::UnderWay => return Err(BadAbi(format!("circular type `{}`", typedef.name))),
                Resolved::No => self.typedefs[at] = Resolved::UnderWay,
            }
            let target = self.parse(&typedef.target)?;
            if target.extension {
                return Err(BadAbi(format!(
                    "`{}` stands for the extension `{}`: `$` belongs to a field",
                    typedef.name, typedef.target
                )));
            }
            line.push((at, target.container));
            match target.named {
                Named::Typedef(next) => at = next,
                Named::Node(node) => break node,
            }
        };
        while let Some((at, container)) = line.pop() {
            node = self.contain(node, container);
            self.typedefs[at] = Resolved::To(node);
        }
        Ok(node)
    }

    fn contain(&mut self, node: NodeId, container: Option<Container>) -> NodeId {
        match container {
            None => node,
            Some(Container::Optional) => self.make(Node::Optional(node)),
            Some(Container::Array) => self.make(Node::Array(node)),
            Some(Container::Fixed(size)) => self.make(Node::Fixed(node, size)),
        }
    }

    fn make(&mut self, node: Node) -> NodeId {
        *self.made.entry(node).or_insert_with(|| {
            self.program.nodes.push(node);
            (self.program.nodes.len() - 1) as NodeId
        })
    }

    fn variant(&mut self, id: NodeId, types: &'d [Cow<'d, str>]) -> Result<(), BadAbi> {
        let first = self.program.alternatives.len() as u32;
        for written in types {
            let (node, _) = self.node(written)?;
            let tag = self.text(b'[', written, b',')?;
            self.program.alternatives.push(Alternative { tag, node });
        }
        let end = self.program.alternatives.len() as u32;
        self.program.nodes[id as usize] = Node::Variant { first, end };
        Ok(())
    }

    /// Writes the fields of the bases and then the struct's own.
    fn structure(&mut self, number: usize, def: &'d Struct<'d>) -> Result<(), BadAbi> {
        let definition = self.definition;
        let first = self.program.fields.len() as u32;
        let mut line = vec![def];
        let mut base = &def.base;
        while !base.is_empty() {
            let (node, extension) = self.node(base).map_err(|error| error.within("base", base))?;
            let number = node as usize;
            if extension || !matches!(self.program.nodes[number], Node::Struct { .. }) {
                return Err(BadAbi(format!("base `{base}` is no struct")));
            }
            let Some(struct_) = definition.structs.get(number) else {
                // `extended_asset`, which has no base: its fields come first.
                if let Node::Struct { first, end } = self.program.nodes[number] {
                    self.program.fields.extend_from_within(first as usize..end as usize);
                }
                break;
            };
            if line.iter().any(|other| std::ptr::eq(*other, struct_)) {
                return Err(BadAbi(format!("circular base `{base}`")));
            }
            if line.len() == LONGEST_LINE {
                return Err(BadAbi(format!("more than {LONGEST_LINE} structs are each other's base")));
            }
            line.push(struct_);
            base = &struct_.base;
        }
        for def in line.into_iter().rev() {
            for field in &def.fields {
                let (node, extension) =
                    self.node(&field.type_name).map_err(|error| error.within("field", &field.name))?;
                self.field(&field.name, node, extension)?;
            }
        }
        let end = self.program.fields.len() as u32;
        self.program.nodes[number] = Node::Struct { first, end };
        Ok(())
    }

    fn field(&mut self, name: &str, node: NodeId, extension: bool) -> Result<(), BadAbi> {
        if self.program.fields.len() >= MOST_FIELDS {
            return Err(BadAbi(format!("more than {MOST_FIELDS} fields in all structs with their bases")));
        }
        let key = self.text(b',', name, b':')?;
        let plain = match self.program.nodes[node as usize] {
            Node::Builtin(builtin) if !extension && key.len as usize <= SHORT => {
                let (mut short, text) = ([0; SHORT], self.program.text(key));
                short[..text.len()].copy_from_slice(text);
                Some(Plain { key: short, length: key.len as u8, builtin })
            }
            _ => None,
        };
        self.program.fields.push(Field { plain, key, node, extension });
        Ok(())
    }

    /// A name as a JSON string, between two characters.
    fn text(&mut self, before: u8, name: &str, behind: u8) -> Result<Text, BadAbi> {
        let mut out = Out::default();
        out.push(before);
        match self.program.json {
            Json::Abieos => Abieos::string(&mut out, name.as_bytes()),
            Json::Wharfkit => Wharfkit::string(&mut out, name.as_bytes()),
        };
        out.push(behind);
        let text = &out[..];
        if let Some(&known) = self.texts.get(text) {
            return Ok(known);
        }
        let place = |length: usize| u32::try_from(length).map_err(|_| BadAbi("too many names".to_owned()));
        let new = Text { at: place(self.program.text.len())?, len: place(text.len())? };
        self.program.text.extend_from_slice(text);
        self.texts.insert(text.to_vec(), new);
        Ok(new)
    }
}

/// The number in `[N]`: decimal, above 0, without sign or leading zeros. More items than a count can tell are as
/// impossible to read as that many.
fn array_size(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit()) && !text.starts_with('0');
    let size: u64 = digits.then(|| text.parse().ok()).flatten()?;
    i64::try_from(size).ok().map(|size| u32::try_from(size).unwrap_or(u32::MAX))
}

// === impl BadAbi ===

impl BadAbi {
    fn within(self, kind: &str, name: &str) -> BadAbi {
        BadAbi(format!("{kind} `{name}`: {}", self.0))
    }
}
