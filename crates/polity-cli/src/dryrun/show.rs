//! The differences, as users of policies know them.

use std::fmt::Write as _;

use polity_comply::related::Related;

use crate::output::Paint;

/// A headline for every object looked at, then its difference or an empty line.
pub(super) fn diffs(related: &[Related], paint: Paint) -> String {
    let mut out = "# Diffs:\n".to_owned();
    for entry in related {
        let object = &entry.object;
        let slash = if object.namespace.is_empty() { "" } else { "/" };
        _ = writeln!(
            out,
            "{} {} {}{slash}{}:",
            object.api_version, object.kind, object.namespace, object.name
        );
        let diff = entry.properties.as_ref().map_or("", |known| &known.diff);
        let diff = diff.strip_suffix('\n').unwrap_or(diff);
        let lines: Vec<String> = diff.split('\n').map(|line| painted(line, paint)).collect();
        out.push_str(&lines.join("\n"));
        out.push('\n');
    }
    out
}

fn painted(line: &str, paint: Paint) -> String {
    if line.starts_with('-') && !line.starts_with("---") {
        paint.bad(line)
    } else if line.starts_with('+') && !line.starts_with("+++") {
        paint.good(line)
    } else {
        line.to_owned()
    }
}
