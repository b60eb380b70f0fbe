//! Findings: problems that a check found in manifests or in a cluster.
//!
//! All checks use this type, so that commands print text, JSON and SARIF in one form, and a service can show them.

use std::cmp::Ordering;

use serde::Serialize;

/// How bad a finding is, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The object does not work, or not as intended.
    Error,
    /// The object works, with an effect that its author may not expect.
    Warning,
    /// Information only.
    Note,
}

impl Level {
    /// The name of the level, which is the same in SARIF.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// One problem: where it is, which rule found it, why it matters and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub level: Level,
    /// The rule that found it. Identifiers such as `dependency-cycle` never change.
    pub rule: String,
    /// The file it is about, as the user would name it; empty when it is about no file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The line in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The object, and the field in it: `Policy/shop/tls spec.dependencies[0]`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// What is wrong and why it matters.
    pub why: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mend: String,
}

impl Finding {
    /// A finding without a file or object.
    pub fn new(level: Level, rule: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            level,
            rule: rule.into(),
            file: String::new(),
            line: None,
            place: String::new(),
            why: why.into(),
            mend: String::new(),
        }
    }

    pub fn error(rule: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Level::Error, rule, why)
    }

    pub fn warning(rule: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Level::Warning, rule, why)
    }

    pub fn note(rule: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Level::Note, rule, why)
    }

    /// Sets the file and line.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<String>, line: Option<usize>) -> Self {
        self.file = file.into();
        self.line = line;
        self
    }

    /// Sets the object, or a field of it.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = place.into();
        self
    }

    /// Sets what to do about the finding.
    #[must_use]
    pub fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = mend.into();
        self
    }

    /// `file:line`, as editors and terminals make it a link.
    pub fn link(&self) -> String {
        match self.line {
            Some(line) => format!("{}:{line}", self.file),
            None => self.file.clone(),
        }
    }

    /// Orders findings by file and line; in one line, the worst first.
    pub fn reading_order(&self, other: &Self) -> Ordering {
        (&self.file, self.line, self.level, &self.rule)
            .cmp(&(&other.file, other.line, other.level, &other.rule))
            .then_with(|| (&self.place, &self.why).cmp(&(&other.place, &other.why)))
    }
}

/// A rule and its documentation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rule {
    pub id: String,
    /// What it looks for, in a sentence.
    pub summary: String,
    /// Why that matters and what to do, in a paragraph; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub help: String,
}

impl Rule {
    pub fn new(id: impl Into<String>, summary: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            summary: summary.into(),
            help: String::new(),
        }
    }

    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }
}
