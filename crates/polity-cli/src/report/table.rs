//! Reports on a terminal.

use polity_report::{Outcome, Severity, Summary};

use crate::output::{Paint, columns, one_line};
use polity_source::reports::{Row, View, result_word, severity_word};

/// The longest message in a table; the other forms have all of it.
const MESSAGE_WIDTH: usize = 72;

pub(super) fn page(view: &View, lists_all: bool, paint: Paint) -> String {
    let mut text = format!(
        "{} in {}: {}\n",
        plural(view.results.len(), "result"),
        plural(view.reports, "report"),
        summary(&view.summary, paint)
    );
    if view.hidden > 0 {
        text.push_str(&format!(
            "{} not shown\n",
            plural(view.hidden, "other result")
        ));
    }
    if !view.groups.is_empty() {
        text.push('\n');
        text.push_str(&groups(view, paint));
    }
    if !view.top_violations.is_empty() {
        text.push_str(&format!("\n{}\n", paint.bold("Top violations")));
        text.push_str(&top(view, paint));
    }
    if lists_all && !view.results.is_empty() {
        text.push_str(&format!("\n{}\n", paint.bold("Results")));
        text.push_str(&list(&view.results, paint));
    }
    text
}

fn summary(summary: &Summary, paint: Paint) -> String {
    let parts: Vec<String> = Outcome::ALL
        .into_iter()
        .map(|outcome| {
            let text = format!("{} {}", summary.get(outcome), outcome.as_str());
            if summary.get(outcome) == 0 {
                text
            } else {
                painted(paint, Some(outcome), &text)
            }
        })
        .collect();
    parts.join(", ")
}

fn groups(view: &View, paint: Paint) -> String {
    let mut rows = vec![
        view.by
            .iter()
            .map(|field| field.to_uppercase())
            .collect::<Vec<_>>(),
    ];
    rows[0].extend(Outcome::ALL.map(|outcome| outcome.as_str().to_uppercase()));
    for group in &view.groups {
        let mut row: Vec<String> = group
            .of
            .iter()
            .map(|(_, value)| {
                if value.is_empty() {
                    "-".to_owned()
                } else {
                    one_line(value)
                }
            })
            .collect();
        row.extend(
            Outcome::ALL.map(|outcome| match group.summary.get(outcome) {
                0 => "0".to_owned(),
                count => painted(paint, Some(outcome), &count.to_string()),
            }),
        );
        rows.push(row);
    }
    columns(&rows)
}

fn top(view: &View, paint: Paint) -> String {
    let titles = [
        "SEVERITY",
        "POLICY",
        "VIOLATIONS",
        "OBJECTS",
        "NAMESPACES",
        "MESSAGE",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for violation in &view.top_violations {
        rows.push(vec![
            rated(paint, violation.severity),
            one_line(&violation.policy),
            violation.violations.to_string(),
            violation.objects.to_string(),
            violation.namespaces.to_string(),
            short(&violation.example),
        ]);
    }
    columns(&rows)
}

fn list(results: &[Row], paint: Paint) -> String {
    let titles = [
        "SEVERITY",
        "RESULT",
        "NAMESPACE",
        "RESOURCE",
        "POLICY",
        "MESSAGE",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for row in results {
        let namespace = if row.namespace.is_empty() {
            "-"
        } else {
            &row.namespace
        };
        rows.push(vec![
            rated(paint, row.severity),
            painted(paint, row.result, result_word(row.result)),
            one_line(namespace),
            one_line(&row.resource()),
            one_line(&row.policy_and_rule()),
            short(&row.message),
        ]);
    }
    columns(&rows)
}

fn painted(paint: Paint, outcome: Option<Outcome>, text: &str) -> String {
    match outcome {
        Some(Outcome::Pass) => paint.good(text),
        Some(Outcome::Fail | Outcome::Error) => paint.bad(text),
        Some(Outcome::Warn) => paint.warn(text),
        Some(Outcome::Skip) | None => text.to_owned(),
    }
}

fn rated(paint: Paint, severity: Option<Severity>) -> String {
    let word = severity_word(severity);
    match severity {
        Some(Severity::Critical | Severity::High) => paint.bad(word),
        Some(Severity::Medium) => paint.warn(word),
        _ => word.to_owned(),
    }
}

/// A number and what there are of it.
pub(super) fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

fn short(message: &str) -> String {
    let line = one_line(message);
    if line.chars().count() <= MESSAGE_WIDTH {
        return line;
    }
    let mut cut: String = line.chars().take(MESSAGE_WIDTH - 1).collect();
    cut.push('…');
    cut
}
