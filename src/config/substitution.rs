//! `${VAR}` and `${VAR:-default}` in values, replaced from the environment.
//!
//! This happens after the YAML is read, value by value: what a variable holds can never become a key, a list or a
//! comment. Each replaced part is remembered, so that a password taken from the environment can be told from one
//! that is written into the file.

use std::env::VarError;
use std::ops::Range;

/// Looks an environment variable up.
pub type Environment<'a> = &'a dyn Fn(&str) -> Result<String, VarError>;

/// A value with its variables replaced.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Text {
    /// The value.
    pub text: String,
    /// Written in quotes or as a block, so never a null.
    pub quoted: bool,
    /// Which bytes of `text` came from a variable (defaults stand in the file, so they do not count).
    pub from_env: Vec<Range<usize>>,
}

/// Replaces the variables in `raw`. The error says what is wrong, not where.
pub(super) fn replace(raw: &str, quoted: bool, environment: Environment<'_>) -> Result<Text, String> {
    let mut out = Text { quoted, ..Text::default() };
    let mut rest = raw;
    while let Some(at) = rest.find('$') {
        let (before, from_dollar) = rest.split_at(at);
        out.text.push_str(before);
        if let Some(after) = from_dollar.strip_prefix("$${") {
            out.text.push_str("${");
            rest = after;
        } else if let Some(after) = from_dollar.strip_prefix("${") {
            let end = after.find('}').ok_or("`${` without its `}` (write `$${` for a literal `${`)")?;
            variable(&mut out, &after[..end], environment)?;
            rest = &after[end + 1..];
        } else {
            out.text.push('$');
            rest = &from_dollar[1..];
        }
    }
    out.text.push_str(rest);
    Ok(out)
}

fn variable(out: &mut Text, inside: &str, environment: Environment<'_>) -> Result<(), String> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let first_fits = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !first_fits || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(format!("`${{{name}}}` is no variable: a name has letters, digits and `_` only"));
    }
    // As in a shell, `:-` also stands in for a variable that is set but empty.
    match (environment(name), default) {
        (Ok(value), default) if !value.is_empty() || default.is_none() => {
            let start = out.text.len();
            out.text.push_str(&value);
            out.from_env.push(start..out.text.len());
            Ok(())
        }
        (Ok(_) | Err(VarError::NotPresent), Some(default)) => {
            out.text.push_str(default);
            Ok(())
        }
        (Err(VarError::NotUnicode(_)), _) => {
            Err(format!("the environment variable {name} is not valid UTF-8"))
        }
        (_, None) => Err(format!(
            "the environment variable {name} is not set (set it, or give a default: `${{{name}:-default}}`)"
        )),
    }
}

// === impl Text ===

impl Text {
    /// Whether any part came from a variable.
    pub fn has_env(&self) -> bool {
        self.from_env.iter().any(|range| !range.is_empty())
    }

    /// Whether all of `range` came from variables.
    pub fn is_env(&self, range: Range<usize>) -> bool {
        let mut at = range.start;
        for part in &self.from_env {
            if part.start <= at {
                at = at.max(part.end);
            }
        }
        at >= range.end
    }

    /// Whether some of `range` came from a variable.
    pub fn touches_env(&self, range: Range<usize>) -> bool {
        self.from_env.iter().any(|part| part.start < range.end && range.start < part.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Result<String, VarError> {
        match name {
            "HOST" => Ok("node".into()),
            "EMPTY" => Ok(String::new()),
            "TRICKY" => Ok("a: ${HOST}\n- b # c".into()),
            _ => Err(VarError::NotPresent),
        }
    }

    fn text(raw: &str) -> Result<String, String> {
        replace(raw, false, &environment).map(|t| t.text)
    }

    #[test]
    fn variables_defaults_and_escapes() {
        assert_eq!(text("ws://${HOST}:8080/${PATH_:-x}"), Ok("ws://node:8080/x".into()));
        assert_eq!(text("${EMPTY}|${EMPTY:-d}|${NONE:-}"), Ok("|d|".into()));
        assert_eq!(text("$${HOST} costs $5 $"), Ok("${HOST} costs $5 $".into()));
        assert_eq!(text("${NONE:-a:-b}"), Ok("a:-b".into()));
    }

    #[test]
    fn a_value_is_not_read_again() {
        assert_eq!(text("${TRICKY}"), Ok("a: ${HOST}\n- b # c".into()));
    }

    #[test]
    fn errors_name_the_variable() {
        assert!(text("${NONE}").is_err_and(|e| e.contains("NONE is not set")));
        assert!(text("${NONE").is_err_and(|e| e.contains("without its `}`")));
        assert!(text("${a b}").is_err_and(|e| e.contains("`${a b}` is no variable")));
        assert!(text("${}").is_err_and(|e| e.contains("is no variable")));
    }

    #[test]
    fn what_came_from_the_environment_is_known() {
        let text = replace("a${HOST}${HOST}${NONE:-d}", false, &environment).expect("all given");
        assert_eq!(text.from_env, [1..5, 5..9]);
        assert!(text.is_env(1..9) && text.is_env(2..4) && !text.is_env(0..3) && !text.is_env(5..10));
        assert!(text.touches_env(8..10) && !text.touches_env(9..10));
    }
}
