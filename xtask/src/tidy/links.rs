//! Links between documents point at something.

use std::path::Path;

use super::Problem;

/// Says which links of a Markdown file lead to no file.
pub(super) fn check(root: &Path, place: &str, text: &str) -> Vec<Problem> {
    let folder = Path::new(place).parent().unwrap_or(Path::new(""));
    let links = links(text);
    let dead = links
        .into_iter()
        .filter(|(_, target)| !resolves(root, folder, target));
    dead.map(|(line, target)| Problem {
        place: format!("{place}:{line}"),
        why: format!("the link to {target} leads nowhere"),
        mend: "correct the path, or write the page".to_owned(),
    })
    .collect()
}

fn resolves(root: &Path, folder: &Path, target: &str) -> bool {
    let path = target.split(['#', '?']).next().unwrap_or_default();
    let elsewhere = target.contains("://") || target.starts_with("mailto:");
    if elsewhere || path.is_empty() {
        return true;
    }
    match path.strip_prefix('/') {
        Some(from_root) => root.join(from_root).exists(),
        None => root.join(folder).join(path).exists(),
    }
}

/// The targets of all links with their lines; code is left out.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code || line.starts_with("    ") {
            continue;
        }
        let line = without_code(line);
        for rest in line.split("](").skip(1) {
            if let Some(target) = rest.split([')', ' ']).next() {
                found.push((index + 1, target.trim_matches(['<', '>']).to_owned()));
            }
        }
        // `[name]: target`
        if let Some((name, target)) = line.split_once("]: ")
            && name.starts_with('[')
        {
            let target = target.split_whitespace().next().unwrap_or_default();
            found.push((index + 1, target.trim_matches(['<', '>']).to_owned()));
        }
    }
    found
}

/// The line without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "See [a](docs/a.md) and [b](b.md#part \"title\").\n\
            ```\n[code](nothing.md)\n```\n`[x](y)` [c]\n\n[c]: <docs/c.md>\n    [indented](z.md)\n";
        let targets: Vec<_> = links(text)
            .into_iter()
            .map(|(line, target)| format!("{line} {target}"))
            .collect();
        assert_eq!(targets, ["1 docs/a.md", "1 b.md#part", "7 docs/c.md"]);
    }

    #[test]
    fn dead_links_are_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "[manifest](../Cargo.toml) [source](/src/main.rs#L1) [web](https://example.com) [here](#here)\n\
            [gone](gone.md)\n";
        let problems = check(root, "src/page.md", text);
        assert_eq!(problems.len(), 1);
        assert_eq!(
            (problems[0].place.as_str(), problems[0].why.as_str()),
            ("src/page.md:2", "the link to gone.md leads nowhere")
        );
    }
}
