//! The result of one check.

use serde::Serialize;

use crate::exit::Exit;
use crate::output::{Paint, columns, one_line};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Severity {
    Ok,
    /// Nothing is wrong, but the user may want to know.
    Note,
    /// Something is wrong.
    Problem,
    /// The check does not concern what is looked at.
    NotApplicable,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) severity: Severity,
    /// Where: the object, file or process that the finding is about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) object: String,
    pub(crate) message: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) fix: String,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Severity::Ok, message)
    }

    pub(crate) fn note(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Severity::Note, message)
    }

    pub(crate) fn problem(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Severity::Problem, message)
    }

    pub(crate) fn not_applicable(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Severity::NotApplicable, message)
    }

    fn new(check: &'static str, severity: Severity, message: impl Into<String>) -> Self {
        Self {
            check,
            severity,
            object: String::new(),
            message: message.into(),
            fix: String::new(),
        }
    }

    /// About this object, file or process.
    pub(crate) fn about(mut self, object: impl Into<String>) -> Self {
        self.object = object.into();
        self
    }

    /// Fixed like this.
    pub(crate) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }

    pub(crate) fn is_problem(&self) -> bool {
        self.severity == Severity::Problem
    }
}

/// How a command with these findings ends.
pub(crate) fn exit(findings: &[Finding]) -> Exit {
    if findings.iter().any(Finding::is_problem) {
        Exit::Findings
    } else {
        Exit::Fine
    }
}

/// The findings for people: a mark, the check, the object with the message, and the fix below.
pub(crate) fn table(findings: &[Finding], paint: Paint) -> String {
    let mut rows = Vec::new();
    for finding in findings {
        let mark = match finding.severity {
            Severity::Ok => paint.good("✓"),
            Severity::Note => paint.warn("–"),
            Severity::Problem => paint.bad("✗"),
            Severity::NotApplicable => "·".to_owned(),
        };
        let message = one_line(&finding.message);
        let text = match finding.object.as_str() {
            "" => message,
            object => format!("{}: {message}", one_line(object)),
        };
        rows.push(vec![mark, finding.check.to_owned(), text]);
        if !finding.fix.is_empty() {
            let fix = format!("→ {}", one_line(&finding.fix));
            rows.push(vec![String::new(), String::new(), fix]);
        }
    }
    columns(&rows)
}
