//! YAML as a tree of keys, lists and texts with their lines.
//!
//! Texts stay as they are written: `12345` can be an account and `1e5` too, so what a value is depends on its key.

use std::collections::HashMap;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle};

use super::error::Problem;
use super::substitution::{self, Environment, Text};

/// A value and the line it begins on.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub line: usize,
    pub value: Value,
}

/// What stands at a place.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Nothing: no value, `~` or `null`.
    Null,
    /// Anything that is one text: strings, numbers, booleans.
    Text(Text),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub key: String,
    pub line: usize,
    pub node: Node,
}

/// Far more than any configuration needs; keeps nesting and aliases from using up memory.
const MOST_NODES: usize = 100_000;
const MOST_LEVELS: usize = 32;

/// Reads one YAML document. Everything wrong with variables goes to `problems`; a syntax error ends the reading.
pub(super) fn read(
    yaml: &str,
    environment: Environment<'_>,
    problems: &mut Vec<Problem>,
) -> Result<Node, Problem> {
    let mut builder =
        Builder { environment, problems, open: Vec::new(), done: None, anchors: HashMap::new() };
    let mut documents = 0;
    let mut nodes = 0;
    for event in Parser::new_from_str(yaml) {
        let (event, span) =
            event.map_err(|error| syntax_problem(yaml, error.marker().line(), &error.info()))?;
        let line = span.start.line();
        if let Some(tag) = event.tag().filter(|tag| !tag.is_yaml_core_schema()) {
            let tag = format!("{}{}", tag.original_handle(), tag.suffix());
            return Err(problem(line, format!("the YAML tag `{tag}` has no meaning here")));
        }
        match event {
            Event::DocumentStart(..) => {
                documents += 1;
                if documents > 1 {
                    return Err(problem(line, "a second YAML document begins here: one is expected"));
                }
            }
            Event::Scalar(text, style, anchor, _) => {
                nodes += 1;
                builder.scalar(line, &text, style, anchor)?;
            }
            Event::SequenceStart(_, anchor, _) => builder.open(line, anchor, Value::List(Vec::new()))?,
            Event::MappingStart(_, anchor, _) => builder.open(line, anchor, Value::Map(Vec::new()))?,
            Event::SequenceEnd | Event::MappingEnd => {
                nodes += 1;
                builder.close();
            }
            Event::Alias(anchor) => nodes += builder.alias(line, anchor)?,
            _ => {}
        }
        if nodes > MOST_NODES {
            return Err(problem(line, format!("more than {MOST_NODES} values")));
        }
    }
    Ok(builder.done.unwrap_or(Node { line: 1, value: Value::Map(Vec::new()) }))
}

/// A collection that is not complete yet.
struct Open {
    node: Node,
    anchor: usize,
    key: Option<(String, usize)>,
}

struct Builder<'a> {
    environment: Environment<'a>,
    problems: &'a mut Vec<Problem>,
    open: Vec<Open>,
    done: Option<Node>,
    anchors: HashMap<usize, Node>,
}

// === impl Builder ===

impl Builder<'_> {
    fn scalar(&mut self, line: usize, text: &str, style: ScalarStyle, anchor: usize) -> Result<(), Problem> {
        if self.expects_key() {
            return self.key(line, text);
        }
        let quoted = style != ScalarStyle::Plain;
        let value = if !quoted && matches!(text, "" | "~" | "null" | "Null" | "NULL") {
            Value::Null
        } else {
            match substitution::replace(text, quoted, self.environment) {
                Ok(text) => Value::Text(text),
                Err(message) => {
                    let message = format!("{}: {message}", self.path());
                    self.problems.push(problem(line, message));
                    // Not looked at any further: the problem stands.
                    Value::Null
                }
            }
        };
        self.put(Node { line, value }, anchor);
        Ok(())
    }

    fn open(&mut self, line: usize, anchor: usize, value: Value) -> Result<(), Problem> {
        if self.expects_key() {
            return Err(problem(line, "a key must be a plain text"));
        }
        if self.open.len() == MOST_LEVELS {
            return Err(problem(line, format!("nested more than {MOST_LEVELS} levels deep")));
        }
        self.open.push(Open { node: Node { line, value }, anchor, key: None });
        Ok(())
    }

    fn close(&mut self) {
        if let Some(open) = self.open.pop() {
            self.put(open.node, open.anchor);
        }
    }

    /// Puts a copy of what the anchor names; returns how many values that is.
    fn alias(&mut self, line: usize, anchor: usize) -> Result<usize, Problem> {
        if self.expects_key() {
            return Err(problem(line, "a key must be a plain text"));
        }
        let node = self.anchors.get(&anchor).cloned();
        let node = node.ok_or_else(|| problem(line, "this alias stands inside the value that it names"))?;
        let (nodes, levels) = size(&node);
        if self.open.len() + levels > MOST_LEVELS {
            return Err(problem(line, format!("nested more than {MOST_LEVELS} levels deep")));
        }
        self.put(node, 0);
        Ok(nodes)
    }

    fn expects_key(&self) -> bool {
        self.open.last().is_some_and(|open| matches!(open.node.value, Value::Map(_)) && open.key.is_none())
    }

    fn key(&mut self, line: usize, key: &str) -> Result<(), Problem> {
        let path = self.path();
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        if let Some(Open { node: Node { value: Value::Map(entries), .. }, key: open_key, .. }) =
            self.open.last_mut()
        {
            if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                return Err(problem(line, format!("{path} is given twice, first in line {}", first.line)));
            }
            *open_key = Some((key.to_owned(), line));
        }
        Ok(())
    }

    fn put(&mut self, node: Node, anchor: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.done = Some(node),
            Some(Open { node: Node { value: Value::List(items), .. }, .. }) => items.push(node),
            Some(Open { node: Node { value: Value::Map(entries), .. }, key, .. }) => {
                if let Some((key, line)) = key.take() {
                    entries.push(Entry { key, line, node });
                }
            }
            Some(_) => {}
        }
    }

    /// Where the next value goes, such as `filters.include[2].name`.
    fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.open {
            match (&open.node.value, &open.key) {
                (Value::List(items), _) => path.push_str(&format!("[{}]", items.len())),
                (_, Some((key, _))) if path.is_empty() => path.push_str(key),
                (_, Some((key, _))) => path.push_str(&format!(".{key}")),
                _ => {}
            }
        }
        path
    }
}

/// How many values a node holds, itself included, and how many levels.
fn size(node: &Node) -> (usize, usize) {
    let children: Vec<&Node> = match &node.value {
        Value::List(items) => items.iter().collect(),
        Value::Map(entries) => entries.iter().map(|entry| &entry.node).collect(),
        _ => Vec::new(),
    };
    children.into_iter().map(size).fold((1, 1), |(n, l), (nodes, levels)| (n + nodes, l.max(levels + 1)))
}

fn problem(line: usize, message: impl Into<String>) -> Problem {
    Problem { line: Some(line), message: message.into() }
}

fn syntax_problem(yaml: &str, line: usize, info: &str) -> Problem {
    let text = yaml.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    // A bare `*` begins a YAML alias; the filters' "matches all" is the place where people meet this.
    let hint = if text.contains(": *") || text.trim_start().starts_with("- *") {
        " (a `*` must be written in quotes: '*')"
    } else if text.contains('\t') {
        " (YAML is indented with spaces, not tabs)"
    } else {
        ""
    };
    problem(line, format!("not valid YAML: {info}{hint}"))
}
