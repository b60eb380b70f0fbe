//! Results as CSV (RFC 4180), one line each.

use polity_source::reports::{Row, result_word, severity_word};

const TITLES: [&str; 12] = [
    "namespace",
    "apiVersion",
    "kind",
    "name",
    "policy",
    "rule",
    "result",
    "severity",
    "category",
    "source",
    "timestamp",
    "message",
];

pub(super) fn text(rows: &[Row]) -> String {
    let mut out = TITLES.join(",");
    out.push_str("\r\n");
    for row in rows {
        let timestamp = row
            .timestamp
            .map(|moment| moment.to_string())
            .unwrap_or_default();
        let cells = [
            &row.namespace,
            &row.api_version,
            &row.kind,
            &row.name,
            &row.policy,
            &row.rule,
            result_word(row.result),
            severity_word(row.severity),
            &row.category,
            &row.source,
            &timestamp,
            &row.message,
        ];
        let line: Vec<String> = cells.into_iter().map(cell).collect();
        out.push_str(&line.join(","));
        out.push_str("\r\n");
    }
    out
}

/// A cell, quoted where it must be. Messages come from policies: a spreadsheet must not take one for a formula.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"no\"", "\"say \"\"no\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
            ("-1", "'-1"),
        ] {
            assert_eq!(cell(text), expected);
        }
    }
}
