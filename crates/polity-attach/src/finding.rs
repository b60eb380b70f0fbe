//! What the engine has to say about its input: never an error, always a sentence that names the object.

use serde::Serialize;

use crate::object::ObjectRef;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Something is not as its author meant it.
    Warn,
    /// Something takes no part in the results.
    Error,
}

/// One thing that is worth saying about the input.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    pub severity: Severity,
    /// A word for programs, stable over releases.
    pub code: &'static str,
    /// A sentence for people.
    pub message: String,
    /// The objects it is about.
    pub refs: Vec<ObjectRef>,
}

impl Finding {
    pub(crate) fn new(
        severity: Severity,
        code: &'static str,
        about: ObjectRef,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            code,
            message: message.into(),
            refs: vec![about],
        }
    }
}

/// The order in which findings are shown: the gravest first, then by code, objects and text.
pub(crate) fn sort(findings: &mut Vec<Finding>) {
    findings.sort_by(|a, b| {
        b.severity
            .cmp(&a.severity)
            .then_with(|| a.code.cmp(b.code))
            .then_with(|| a.refs.cmp(&b.refs))
            .then_with(|| a.message.cmp(&b.message))
    });
    findings.dedup();
}
