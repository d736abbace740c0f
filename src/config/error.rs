//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// Everything found wrong with a configuration; the program ends with exit status 2.
///
/// Also for what can only be checked at start, against the node or Redis, and must be put right by a person
/// ([`ConfigError::new`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    file: Option<PathBuf>,
    problems: Vec<Problem>,
}

/// One thing that is wrong. Never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line of the file, from 1, where the problem has one.
    pub line: Option<usize>,
    /// What is wrong and what to do about it.
    pub message: String,
}

// === impl ConfigError ===

impl ConfigError {
    /// A single problem without a place in the file.
    pub fn new(message: impl Into<String>) -> ConfigError {
        ConfigError { file: None, problems: vec![Problem { line: None, message: message.into() }] }
    }

    pub(super) fn several(mut problems: Vec<Problem>) -> ConfigError {
        problems.sort_by_key(|problem| problem.line);
        ConfigError { file: None, problems }
    }

    pub(super) fn in_file(mut self, file: &Path) -> ConfigError {
        self.file = Some(file.to_owned());
        self
    }

    /// All problems, in the order of their lines.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: the configuration cannot be used", file.display())?;
        }
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 || self.file.is_some() {
                f.write_str("\n  ")?;
            }
            if let Some(line) = problem.line {
                write!(f, "line {line}: ")?;
            }
            f.write_str(&problem.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
