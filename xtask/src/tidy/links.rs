//! Checks that links between documents, and from comments into `docs/spec`, point to an existing file and anchor.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::Problem;

/// Reports the links of a Markdown file to files that do not exist.
pub(super) fn check(root: &Path, place: &str, text: &str) -> Vec<Problem> {
    let folder = Path::new(place).parent().unwrap_or(Path::new(""));
    let links = links(text);
    let dead = links
        .into_iter()
        .filter(|(_, target)| !resolves(root, folder, target));
    dead.map(|(line, target)| Problem {
        place: format!("{place}:{line}"),
        why: format!("the link target {target} does not exist"),
        fix: "correct the path, or write the page".to_owned(),
    })
    .collect()
}

/// The sections of the specification: the anchors of each page of `docs/spec`.
pub(super) struct Sections(BTreeMap<String, Vec<String>>);

impl Sections {
    pub(super) fn read(root: &Path) -> std::io::Result<Self> {
        let mut pages = BTreeMap::new();
        for entry in fs::read_dir(root.join(SPEC))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let anchors = anchors(&fs::read_to_string(&path)?);
            pages.insert(name.into_owned(), anchors);
        }
        Ok(Self(pages))
    }

    /// Reports the references of a file, of any language, to sections that do not exist.
    pub(super) fn check(&self, place: &str, text: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (index, line) in text.lines().enumerate() {
            for (page, anchor) in references(line) {
                let exists = self
                    .0
                    .get(page)
                    .is_some_and(|anchors| anchors.iter().any(|known| known == anchor));
                if !exists {
                    problems.push(Problem {
                        place: format!("{place}:{}", index + 1),
                        why: format!("{SPEC}/{page} has no section #{anchor}"),
                        fix: "use the number of a section, such as #8-10".to_owned(),
                    });
                }
            }
        }
        problems
    }
}

/// The folder of the specification.
const SPEC: &str = "docs/spec";

/// The anchors of a page that are written as `<a id="8-10"></a>`.
fn anchors(text: &str) -> Vec<String> {
    let ids = text.lines().filter_map(|line| {
        let id = line.strip_prefix("<a id=\"")?;
        id.strip_suffix("\"></a>")
    });
    ids.map(str::to_owned).collect()
}

/// The references in a line into the specification, as page and anchor: `docs/spec/PAGE#ANCHOR`, or `spec/PAGE#ANCHOR`
/// in a relative link.
fn references(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split("spec/").skip(1).filter_map(|rest| {
        let (page, rest) = rest.split_once('#')?;
        let is_page = page.strip_suffix(".md").is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase())
        });
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
        let anchor = rest.get(..end.unwrap_or(rest.len()))?;
        is_page.then_some((page, anchor))
    })
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

/// The targets of all links with their lines. Links in code are skipped.
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

/// The line without the text between backticks.
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
    fn references_to_missing_sections_are_named() {
        let page = "# Admission\n\n<a id=\"19-9\"></a>\n\n### 19.9 Cache\n";
        let sections = Sections(BTreeMap::from([("admission.md".to_owned(), anchors(page))]));
        let text = [
            "// See docs/spec/admission.md#19-9.",
            "// docs/spec/admission.md#19-10, [here](../spec/admission.md#19-9), docs/spec/admission.md",
            "//! docs/spec/none.md#1 and another/spec/x.rs#1",
        ];
        let problems = sections.check("a.rs", &text.join("\n"));
        let problems: Vec<_> = problems.iter().map(|it| (&*it.place, &*it.why)).collect();
        assert_eq!(
            problems,
            [
                ("a.rs:2", "docs/spec/admission.md has no section #19-10"),
                ("a.rs:3", "docs/spec/none.md has no section #1"),
            ]
        );
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
            ("src/page.md:2", "the link target gone.md does not exist")
        );
    }
}
