//! Violations as findings, so that editors and code hosts show them where the object was written.

use std::collections::BTreeMap;

use polity_report::{Outcome, Severity};

use crate::findings::{Finding, Findings, Level, Rule};
use polity_source::reports::Row;

pub(super) fn findings(rows: &[Row]) -> Findings {
    let violations = || rows.iter().filter(|row| row.is_violation());
    let rules: BTreeMap<String, &Row> = violations().map(|row| (rule_id(row), row)).collect();
    let rules = rules.into_iter().map(|(id, row)| {
        let about = if row.category.is_empty() {
            format!("Policy {}", row.policy)
        } else {
            format!("Policy {} ({})", row.policy, row.category)
        };
        Rule::new(id, about).help(format!("Found by {}.", row.source))
    });
    Findings::new(rules, violations().map(finding))
}

fn rule_id(row: &Row) -> String {
    if row.rule.is_empty() {
        row.policy.clone()
    } else {
        format!("{}/{}", row.policy, row.rule)
    }
}

fn finding(row: &Row) -> Finding {
    let level = match (row.result, row.severity) {
        (Some(Outcome::Warn), _) => Level::Warning,
        (Some(Outcome::Error), _) | (_, Some(Severity::Critical | Severity::High)) => Level::Error,
        (_, Some(Severity::Low | Severity::Info)) => Level::Note,
        (_, Some(Severity::Medium) | None) => Level::Warning,
    };
    let why = match (row.result, row.message.as_str()) {
        (Some(Outcome::Error), message) => format!("could not be evaluated: {message}"),
        (_, "") => format!("does not meet {}", row.policy),
        (_, message) => message.to_owned(),
    };
    let place = match row.namespace.as_str() {
        "" => row.resource(),
        namespace => format!("{}/{namespace}/{}", row.kind, row.name),
    };
    let finding = Finding::new(level, rule_id(row), why).at(place);
    match &row.origin {
        Some(origin) => finding.in_file(origin.file.to_string(), Some(origin.line)),
        None => finding,
    }
}
