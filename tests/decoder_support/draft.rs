//! ABIs made by tests: a description and its packed form.

use parser::name::Name;

/// Fields by name and type.
pub type Fields = Vec<(String, String)>;

/// An ABI, valid or not.
#[derive(Clone, Debug)]
pub struct Draft {
    pub version: String,
    pub types: Vec<(String, String)>,
    /// Name, base, fields.
    pub structs: Vec<(String, String, Fields)>,
    pub variants: Vec<(String, Vec<String>)>,
    pub actions: Vec<(Name, String)>,
    pub tables: Vec<(Name, String)>,
    pub results: Vec<(Name, String)>,
}

impl Default for Draft {
    fn default() -> Draft {
        Draft {
            version: "eosio::abi/1.2".to_owned(),
            types: Vec::new(),
            structs: Vec::new(),
            variants: Vec::new(),
            actions: Vec::new(),
            tables: Vec::new(),
            results: Vec::new(),
        }
    }
}

// === impl Draft ===

impl Draft {
    pub fn version(mut self, version: &str) -> Draft {
        self.version = version.to_owned();
        self
    }

    pub fn typedef(mut self, name: &str, target: &str) -> Draft {
        self.types.push((name.to_owned(), target.to_owned()));
        self
    }

    /// A struct; `base` may be empty.
    pub fn structure(mut self, name: &str, base: &str, fields: &[(&str, &str)]) -> Draft {
        let fields = fields.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
        self.structs.push((name.to_owned(), base.to_owned(), fields));
        self
    }

    pub fn variant(mut self, name: &str, types: &[&str]) -> Draft {
        self.variants.push((name.to_owned(), types.iter().map(|kind| (*kind).to_owned()).collect()));
        self
    }

    pub fn action(mut self, name: Name, kind: &str) -> Draft {
        self.actions.push((name, kind.to_owned()));
        self
    }

    /// As `setabi` takes it.
    pub fn packed(&self) -> Vec<u8> {
        let mut out = Vec::new();
        text(&mut out, &self.version);
        list(&mut out, &self.types, |out, (name, target)| {
            text(out, name);
            text(out, target);
        });
        list(&mut out, &self.structs, |out, (name, base, fields)| {
            text(out, name);
            text(out, base);
            list(out, fields, |out, (name, kind)| {
                text(out, name);
                text(out, kind);
            });
        });
        list(&mut out, &self.actions, |out, (name, kind)| {
            out.extend_from_slice(&name.0.to_le_bytes());
            text(out, kind);
            text(out, "# a Ricardian contract");
        });
        list(&mut out, &self.tables, |out, (name, kind)| {
            out.extend_from_slice(&name.0.to_le_bytes());
            text(out, "i64");
            list(out, &["key".to_owned()], |out, name| text(out, name));
            list(out, &["uint64".to_owned()], |out, kind| text(out, kind));
            text(out, kind);
        });
        // Ricardian clauses, error messages, extensions: one each, to be read over.
        list(&mut out, &["clause"], |out, id| {
            text(out, id);
            text(out, "its text");
        });
        list(&mut out, &["message"], |out, message| {
            out.extend_from_slice(&7u64.to_le_bytes());
            text(out, message);
        });
        list(&mut out, &["extension"], |out, extension| {
            out.extend_from_slice(&9u16.to_le_bytes());
            text(out, extension);
        });
        list(&mut out, &self.variants, |out, (name, types)| {
            text(out, name);
            list(out, types, |out, kind| text(out, kind));
        });
        list(&mut out, &self.results, |out, (name, kind)| {
            out.extend_from_slice(&name.0.to_le_bytes());
            text(out, kind);
        });
        out
    }
}

/// Appends a `varuint32`.
pub fn varuint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends bytes behind their length.
pub fn counted(out: &mut Vec<u8>, bytes: &[u8]) {
    varuint(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn text(out: &mut Vec<u8>, text: &str) {
    counted(out, text.as_bytes());
}

fn list<T>(out: &mut Vec<u8>, items: &[T], mut item: impl FnMut(&mut Vec<u8>, &T)) {
    varuint(out, items.len());
    for each in items {
        item(out, each);
    }
}
