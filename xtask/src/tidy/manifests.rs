//! Rules for manifests and the lock file.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Problem;

/// Crates of which two versions in one binary do not work together or cost too much.
const SINGLE: &[&str] = &[
    "aws-lc-rs",
    "axum",
    "h2",
    "http",
    "hyper",
    "jsonwebtoken",
    "k8s-openapi",
    "kube",
    "prost",
    "reqwest",
    "rustls",
    "schemars",
    "serde_json",
    "tokio",
    "wasmparser",
    "wasmtime",
];

/// Reports crates of the list that the lock file contains in two versions.
pub(super) fn check_single_versions(metadata: &Value) -> Vec<Problem> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        if let (Some(name), Some(version)) = (package["name"].as_str(), package["version"].as_str())
        {
            versions.entry(name).or_default().push(version);
        }
    }
    let several = versions
        .iter()
        .filter(|(name, versions)| SINGLE.contains(name) && versions.len() > 1);
    several
        .map(|(name, versions)| Problem {
            place: "Cargo.lock".to_owned(),
            why: format!("{name} is locked in the versions {}", versions.join(" and ")),
            fix: format!(
                "cargo tree --invert {name} shows the dependents of each; use the version that the others use"
            ),
        })
        .collect()
}

/// Checks that versions and lints are defined in the workspace, not in the members.
pub(super) fn check(place: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut section = "";
    let mut has_lints = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if is_dependency_section(section) && names_its_own_version(line) {
            problems.push(Problem {
                place: format!("{place}:{}", index + 1),
                why: format!("`{line}` has its own version"),
                fix: "put version and path into [workspace.dependencies] and write `name.workspace = true`".to_owned(),
            });
        } else if section == "lints" && line == "workspace = true" {
            has_lints = true;
        }
    }
    if !has_lints {
        problems.push(Problem {
            place: place.to_owned(),
            why: "the lints of the workspace do not apply".to_owned(),
            fix: "add `[lints]` with `workspace = true`".to_owned(),
        });
    }
    problems
}

fn is_dependency_section(section: &str) -> bool {
    section.ends_with("dependencies")
}

/// Whether a line such as `serde = "1"` has a version. Continuation lines of a feature list have no key.
fn names_its_own_version(line: &str) -> bool {
    let Some((key, value)) = line.split_once('=') else {
        return false;
    };
    let is_comment = line.starts_with('#');
    let from_workspace = key.trim().ends_with(".workspace") || value.contains("workspace = true");
    !is_comment && !from_workspace
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_stand_in_the_workspace() {
        let lints = "[lints]\nworkspace = true\n";
        let cases = [
            (
                "workspace key",
                "[dependencies]\nserde.workspace = true\n",
                0,
            ),
            (
                "workspace table",
                "[dependencies]\nserde = { workspace = true, features = [\"rc\"] }\n",
                0,
            ),
            ("version", "[dependencies]\nserde = \"1\"\n", 1),
            (
                "version in a table",
                "[dev-dependencies]\nserde = { version = \"1\" }\n",
                1,
            ),
            (
                "path",
                "[build-dependencies]\nours = { path = \"../ours\" }\n",
                1,
            ),
            (
                "for one target",
                "[target.'cfg(unix)'.dependencies]\nnix = \"1\"\n",
                1,
            ),
            (
                "elsewhere",
                "[package]\nname = \"x\"\n[features]\na = []\n",
                0,
            ),
            ("comment", "[dependencies]\n# serde = \"1\"\n", 0),
        ];
        for (name, text, expected) in cases {
            let problems = check("Cargo.toml", &format!("{text}{lints}"));
            assert_eq!(problems.len(), expected, "{name}: {problems:?}");
        }
        assert_eq!(check("Cargo.toml", "[package]\n").len(), 1, "no lints");
    }

    #[test]
    fn single_versions() {
        let metadata = json!({"packages": [
            {"name": "http", "version": "0.2.1"}, {"name": "http", "version": "1.0.0"},
            {"name": "syn", "version": "1.0.0"}, {"name": "syn", "version": "2.0.0"},
            {"name": "tokio", "version": "1.54.0"},
        ]});
        let problems = check_single_versions(&metadata);
        assert_eq!(problems.len(), 1);
        assert_eq!(
            problems[0].why,
            "http is locked in the versions 0.2.1 and 1.0.0"
        );
    }
}
