//! Reports as one page: no script, no asset from elsewhere, light and dark, and fit to be printed.

use jiff::Timestamp;
use polity_report::{Outcome, Summary};

use super::table::plural;
use polity_source::reports::{Dimension, Row, View, groups, result_word, severity_word};

const STYLE: &str = include_str!("page.css");

/// The most rows of one table; more is for machines, and slow to look at.
const MOST_ROWS: usize = 2000;

pub(super) fn page(view: &View, now: Timestamp) -> String {
    let violations: Vec<&Row> = view
        .results
        .iter()
        .filter(|row| row.is_violation())
        .collect();
    let others: Vec<&Row> = view
        .results
        .iter()
        .filter(|row| !row.is_violation())
        .collect();
    let mut html = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
    );
    html.push_str(&format!(
        "<title>Policy reports: {} violations</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        violations.len()
    ));
    html.push_str(&header(view, now));
    html.push_str(&top(view));
    html.push_str(&counts(
        "By namespace",
        "Namespace",
        &view.results,
        Dimension::Namespace,
    ));
    html.push_str(&counts(
        "By policy",
        "Policy",
        &view.results,
        Dimension::Policy,
    ));
    if !violations.is_empty() {
        html.push_str("<h2>Violations</h2>\n");
        html.push_str(&list(&violations));
    }
    if !others.is_empty() {
        html.push_str(&format!(
            "<details>\n<summary>{}</summary>\n{}</details>\n",
            plural(others.len(), "other result"),
            list(&others)
        ));
    }
    html.push_str(&format!(
        "<footer>Written by polity {}.</footer>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    ));
    html
}

fn header(view: &View, now: Timestamp) -> String {
    let mut html = format!(
        "<header>\n<h1>Policy reports</h1>\n<p class=\"soft\">{} in {}, as of {}</p>\n",
        plural(view.results.len(), "result"),
        plural(view.reports, "report"),
        now.strftime("%Y-%m-%d %H:%M UTC")
    );
    if view.hidden > 0 {
        html.push_str(&format!(
            "<p class=\"soft\">Not shown: {}.</p>\n",
            plural(view.hidden, "other result")
        ));
    }
    html.push_str("<ul class=\"tiles\">\n");
    for outcome in Outcome::ALL {
        let word = outcome.as_str();
        html.push_str(&format!(
            "<li class=\"tile {word}\"><b>{}</b><span>{word}</span></li>\n",
            view.summary.get(outcome)
        ));
    }
    html.push_str(&format!("</ul>\n{}</header>\n", bar(&view.summary)));
    if !view.unreadable.is_empty() {
        html.push_str("<div class=\"notice\"><p>Not everything could be read:</p>\n");
        for complaint in view.unreadable.iter().take(MOST_ROWS) {
            html.push_str(&format!("<p>{}</p>\n", escaped(complaint)));
        }
        html.push_str("</div>\n");
    }
    html
}

/// The shares of the outcomes, told in words too.
fn bar(summary: &Summary) -> String {
    let total = summary.total();
    if total == 0 {
        return String::new();
    }
    let mut parts = String::new();
    let mut words = Vec::new();
    for outcome in Outcome::ALL {
        let count = summary.get(outcome);
        if count > 0 {
            let percent = count as f64 * 100.0 / total as f64;
            let word = outcome.as_str();
            parts.push_str(&format!(
                "<i class=\"{word}\" style=\"width:{percent:.2}%\"></i>"
            ));
            words.push(format!("{count} {word}"));
        }
    }
    let words = words.join(", ");
    format!(
        "<div class=\"bar\" role=\"img\" aria-label=\"{words}\" title=\"{words}\">{parts}</div>\n"
    )
}

fn top(view: &View) -> String {
    if view.top_violations.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    for violation in &view.top_violations {
        rows.push_str(&format!(
            "<tr><td>{}</td><td class=\"name\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"message\">{}</td></tr>\n",
            badge(severity_word(violation.severity)),
            escaped(&violation.policy),
            violation.violations,
            violation.objects,
            violation.namespaces,
            escaped(&violation.example),
        ));
    }
    let titles = [
        ("Severity", ""),
        ("Policy", ""),
        ("Violations", "n"),
        ("Objects", "n"),
        ("Namespaces", "n"),
        ("For example", ""),
    ];
    format!("<h2>Top violations</h2>\n{}", table(&titles, &rows))
}

fn counts(heading: &str, title: &str, results: &[Row], by: Dimension) -> String {
    let groups = groups(results, &[by]);
    if groups.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    for group in groups.iter().take(MOST_ROWS) {
        let name = match group.of.first().map(|(_, value)| value.as_str()) {
            None | Some("") => "<span class=\"soft\">cluster-wide</span>".to_owned(),
            Some(name) => escaped(name),
        };
        rows.push_str(&format!("<tr><td class=\"name\">{name}</td>"));
        for outcome in Outcome::ALL {
            let count = group.summary.get(outcome);
            let class = if count == 0 {
                "n zero".to_owned()
            } else {
                format!("n {}", outcome.as_str())
            };
            rows.push_str(&format!("<td class=\"{class}\">{count}</td>"));
        }
        rows.push_str(&format!(
            "<td class=\"share\">{}</td></tr>\n",
            bar(&group.summary).trim_end()
        ));
    }
    let titles = [
        (title, ""),
        ("Pass", "n"),
        ("Fail", "n"),
        ("Warn", "n"),
        ("Error", "n"),
        ("Skip", "n"),
        ("Share", "share"),
    ];
    format!(
        "<h2>{heading}</h2>\n{}{}",
        table(&titles, &rows),
        beyond(groups.len())
    )
}

fn list(rows: &[&Row]) -> String {
    let mut body = String::new();
    for row in rows.iter().take(MOST_ROWS) {
        let namespace = if row.namespace.is_empty() {
            "<span class=\"soft\">cluster-wide</span>".to_owned()
        } else {
            escaped(&row.namespace)
        };
        body.push_str(&format!(
            "<tr><td>{}</td><td>{}</td><td class=\"nowrap\">{namespace}</td><td class=\"name\">{}</td>\
             <td class=\"name\">{}</td><td class=\"message\">{}</td></tr>\n",
            badge(severity_word(row.severity)),
            badge(result_word(row.result)),
            escaped(&row.resource()).replace('/', "/<wbr>"),
            escaped(&row.policy_and_rule()),
            escaped(&row.message),
        ));
    }
    let titles = [
        ("Severity", ""),
        ("Result", ""),
        ("Namespace", ""),
        ("Object", ""),
        ("Policy", ""),
        ("Message", ""),
    ];
    format!("{}{}", table(&titles, &body), beyond(rows.len()))
}

fn beyond(n_rows: usize) -> String {
    if n_rows <= MOST_ROWS {
        return String::new();
    }
    format!(
        "<p class=\"soft\">{} more are left out here; <code>-o csv</code> and <code>-o json</code> have them.</p>\n",
        n_rows - MOST_ROWS
    )
}

fn table(titles: &[(&str, &str)], rows: &str) -> String {
    let titles: Vec<String> = titles
        .iter()
        .map(|(title, class)| format!("<th scope=\"col\" class=\"{class}\">{title}</th>"))
        .collect();
    let titles = titles.concat();
    format!(
        "<div class=\"scroll\"><table>\n<thead><tr>{titles}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// A word out of a closed set, in its colour.
fn badge(word: &str) -> String {
    format!("<span class=\"badge {word}\">{word}</span>")
}

/// A text of anybody, as text and nothing else.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_report_becomes_markup() {
        assert_eq!(
            escaped("<script>alert('x')</script> & \"y\"\u{1b}\n"),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;y&quot;\u{fffd}\n"
        );
    }
}
