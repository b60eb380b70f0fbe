//! `cargo xtask tidy`: checks repository rules that the compiler does not check.

mod arrows;
mod links;
mod manifests;
mod sources;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{features, shell};

/// The manifest that `cargo xtask features` writes. It contains its own versions.
const GENERATED_MANIFEST: &str = "workspace-hack/Cargo.toml";

#[derive(clap::Args)]
pub(crate) struct Args {}

/// A problem in the repository, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The file, relative to the root, and the line if known.
    place: String,
    why: String,
    fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    {}", self.place, self.why, self.fix)
    }
}

impl Args {
    #[expect(clippy::unused_self, reason = "every command is called the same way")]
    pub(crate) fn run(self) -> Result<()> {
        let (problems, took) = shell::timed(|| {
            let mut problems = check()?;
            problems.extend(check_features()?);
            anyhow::Ok(problems)
        });
        let problems = problems?;
        for problem in &problems {
            eprintln!("{problem}");
        }
        match problems.len() {
            0 => {
                eprintln!("tidy ({})", shell::duration(took));
                Ok(())
            }
            1 => bail!("1 problem found"),
            n_problems => bail!("{n_problems} problems found"),
        }
    }
}

/// Checks that every member compiles third-party crates with the features of the whole workspace.
fn check_features() -> Result<Vec<Problem>> {
    let problem = |difference: features::Difference| {
        Problem {
        place: difference.package,
        why: format!(
            "compiles {} with other features than the workspace",
            difference.crates.join(", ")
        ),
        fix: "run `cargo xtask features`; the crate must depend on workspace-hack, most crates with the feature `full`".to_owned(),
    }
    };
    Ok(features::check()?.into_iter().map(problem).collect())
}

fn check() -> Result<Vec<Problem>> {
    let root = shell::root();
    let metadata = shell::metadata(true)?;
    let mut problems = arrows::check(&arrows::Package::from_metadata(&metadata));
    problems.extend(manifests::check_single_versions(&metadata));
    let sections = links::Sections::read(&root).context("reading docs/spec")?;
    for folder in ["crates", "tests", "xtask"] {
        for path in files(&root.join(folder), "toml")? {
            if path.ends_with("Cargo.toml") && !path.ends_with(GENERATED_MANIFEST) {
                let (place, text) = read(&root, &path)?;
                problems.extend(manifests::check(&place, &text));
            }
        }
        for path in files(&root.join(folder), "rs")? {
            let (place, text) = read(&root, &path)?;
            problems.extend(sources::check(&place, &text));
            if place != "xtask/src/tidy/links.rs" {
                problems.extend(sections.check(&place, &text));
            }
        }
    }
    for path in documents(&root)? {
        let (place, text) = read(&root, &path)?;
        problems.extend(links::check(&root, &place, &text));
        problems.extend(sections.check(&place, &text));
    }
    Ok(problems)
}

/// The Markdown files at the root and under `docs`.
fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = files(&root.join("docs"), "md")?;
    for entry in std::fs::read_dir(root)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads a file. Returns its path as shown in messages, and its text.
fn read(root: &Path, path: &Path) -> Result<(String, String)> {
    let place = path
        .strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {place}"))?;
    Ok((place, text))
}

/// The files with this extension in `folder`, sorted. Empty if there is no such folder.
pub(crate) fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test, so that `cargo test` finds the same problems as CI.
    #[test]
    fn the_tree_is_tidy() {
        let problems = check().unwrap();
        let text: Vec<_> = problems.iter().map(Problem::to_string).collect();
        assert!(problems.is_empty(), "\n{}", text.join("\n"));
    }
}
