//! A place in the configuration, read as the type its key asks for. What does not fit is noted as a problem with
//! key and line, and reading goes on, so that one run shows everything that is wrong.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::address::{Schemes, ServerUrl};
use super::error::Problem;
use super::substitution::Text;
use super::tree::{Node, Value};

/// A key's value, or the lack of one.
pub(super) struct Place<'a> {
    problems: &'a RefCell<Vec<Problem>>,
    /// The key in full, such as `filters.include[2].name`; empty at the top.
    pub path: String,
    node: Option<&'a Node>,
}

// === impl Place ===

impl<'a> Place<'a> {
    pub fn top(node: &'a Node, problems: &'a RefCell<Vec<Problem>>) -> Place<'a> {
        Place { problems, path: String::new(), node: Some(node) }
    }

    /// The place of a key below this one; `key` may be several levels deep (`ship.url`).
    pub fn at(&self, key: &str) -> Place<'a> {
        let mut node = self.node;
        for part in key.split('.') {
            node = match node {
                Some(Node { value: Value::Map(entries), .. }) => {
                    entries.iter().find(|entry| entry.key == part).map(|entry| &entry.node)
                }
                _ => None,
            };
        }
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Place { problems: self.problems, path, node }
    }

    /// Notes a problem at this place.
    pub fn problem(&self, message: impl std::fmt::Display) {
        let message =
            if self.path.is_empty() { message.to_string() } else { format!("{}: {message}", self.path) };
        self.problems.borrow_mut().push(Problem { line: self.node.map(|node| node.line), message });
    }

    /// Notes that a value must be there, if there is none.
    pub fn require(&self) {
        if !self.is_given() && !self.has_problem() {
            self.problem("is missing");
        }
    }

    /// Whether a problem of this place is noted already: a variable that is not set, for example.
    fn has_problem(&self) -> bool {
        let of_this = format!("{}: ", self.path);
        self.problems.borrow().iter().any(|problem| problem.message.starts_with(&of_this))
    }

    /// Whether there is anything; nothing, `null` and an empty text are the same as the key not being there.
    pub fn is_given(&self) -> bool {
        match self.node.map(|node| &node.value) {
            None | Some(Value::Null) => false,
            Some(Value::Text(text)) => !text.text.is_empty(),
            Some(_) => true,
        }
    }

    /// Whether the key stands there without a value.
    pub fn is_null(&self) -> bool {
        matches!(self.node, Some(Node { value: Value::Null, .. }))
    }

    /// The key's entries, if it is a map; anything else is a problem.
    pub fn keys(&self) -> Vec<(&'a str, usize)> {
        match self.node.map(|node| &node.value) {
            Some(Value::Map(entries)) => {
                entries.iter().map(|entry| (entry.key.as_str(), entry.line)).collect()
            }
            None | Some(Value::Null) => Vec::new(),
            Some(_) => {
                self.problem("keys are expected here (`key: value`)");
                Vec::new()
            }
        }
    }

    /// Notes each key that is not one of `known`, with the nearest of them.
    pub fn check_keys(&self, known: &[&str]) {
        let full = |key: &str| format!("{}.{key}", self.path);
        for (key, line) in self.keys() {
            if !known.contains(&key) {
                let hint = nearest(key, known.iter().copied()).map_or_else(
                    || format!("the keys here are {}", known.join(", ")),
                    |near| format!("did you mean `{}`?", full(near)),
                );
                self.unknown_key(&full(key), line, &hint);
            }
        }
    }

    /// Notes an unknown key.
    pub fn unknown_key(&self, path: &str, line: usize, hint: &str) {
        let message = format!("unknown key `{path}`: {hint}");
        self.problems.borrow_mut().push(Problem { line: Some(line), message });
    }

    /// The items of a list; a single text counts as a list of one where `or_one`.
    pub fn items(&self, or_one: bool) -> Vec<Place<'a>> {
        match self.node.map(|node| &node.value) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::List(items)) => items
                .iter()
                .enumerate()
                .map(|(i, node)| Place {
                    problems: self.problems,
                    path: format!("{}[{i}]", self.path),
                    node: Some(node),
                })
                .collect(),
            Some(Value::Text(_)) if or_one => {
                vec![Place { problems: self.problems, path: self.path.clone(), node: self.node }]
            }
            Some(_) => {
                self.problem("a list is expected here");
                Vec::new()
            }
        }
    }

    /// The text, also an empty one.
    pub fn text(&self) -> Option<&'a Text> {
        match self.node.map(|node| &node.value) {
            None | Some(Value::Null) => None,
            Some(Value::Text(text)) => Some(text),
            Some(_) => {
                self.problem("a single value is expected here, not a list or keys");
                None
            }
        }
    }

    /// The text, if there is one that is not empty.
    pub fn given(&self) -> Option<&'a Text> {
        self.text().filter(|text| !text.text.is_empty())
    }

    /// A value of a type that reads itself from text; `what` is said before its own error.
    pub fn parsed<T: FromStr<Err: std::fmt::Display>>(&self) -> Option<T> {
        let text = self.given()?;
        match text.text.parse() {
            Ok(value) => Some(value),
            Err(error) if !text.has_env() => {
                self.problem(error);
                None
            }
            // The error repeats the text, which might be a secret put into the wrong variable.
            Err(_) => {
                self.problem("the value from the environment does not fit here");
                None
            }
        }
    }

    /// A whole number.
    pub fn number(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let text = self.given()?;
        let number = text.text.parse::<u64>().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let (from, to) = (range.start(), range.end());
            let to = if *to == u64::MAX { String::new() } else { format!(" to {to}") };
            self.problem(format!("{} is not a whole number from {from}{to}", shown(text)));
        }
        number
    }

    /// A whole number of 32 bits, from `least`.
    pub fn number32(&self, least: u32) -> Option<u32> {
        self.number(u64::from(least)..=u64::from(u32::MAX)).and_then(|number| u32::try_from(number).ok())
    }

    /// A duration in milliseconds, at least one and at most a day.
    pub fn millis(&self) -> Option<Duration> {
        self.number(1..=86_400_000).map(Duration::from_millis)
    }

    /// A duration in seconds, which may have a fraction, at most a day.
    pub fn seconds(&self) -> Option<Duration> {
        let text = self.given()?;
        let seconds = text.text.parse::<f64>().ok().filter(|s| (0.0..=86_400.0).contains(s));
        if seconds.is_none() {
            self.problem(format!("{} is not a number of seconds from 0 to 86400", shown(text)));
        }
        seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }

    /// `true` or `false`.
    pub fn bool(&self) -> Option<bool> {
        self.choice(&[("true", true), ("false", false)])
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.given()?;
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(&text.text));
        if found.is_none() {
            let words: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            self.problem(format!("{} is not one of {}", shown(text), words.join(", ")));
        }
        found.map(|(_, value)| *value)
    }

    /// A URL with one of the schemes.
    pub fn url(&self, schemes: Schemes) -> Option<ServerUrl> {
        ServerUrl::parse(self.given()?, schemes).map_err(|error| self.problem(error)).ok()
    }
}

/// The value for a message: what came from the environment may be a secret and is not repeated.
pub(super) fn shown(text: &Text) -> String {
    if text.has_env() { "the value from the environment".into() } else { format!("`{}`", text.text) }
}

/// The candidate most like `text`, if any is near.
pub(super) fn nearest<'c>(text: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let likeness = |candidate: &str| {
        strsim::normalized_damerau_levenshtein(&text.to_lowercase(), &candidate.to_lowercase())
    };
    candidates
        .map(|candidate| (likeness(candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
