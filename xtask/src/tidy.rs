//! `cargo xtask tidy`: what the compiler does not check and a reviewer should not have to.

mod arrows;
mod links;
mod manifests;
mod sources;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Args {}

/// Something to mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The file, relative to the root, with a line where there is one.
    place: String,
    /// What is wrong.
    why: String,
    /// What to do about it.
    mend: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    {}", self.place, self.why, self.mend)
    }
}

impl Args {
    #[expect(clippy::unused_self, reason = "every command is called the same way")]
    pub(crate) fn run(self) -> Result<()> {
        let (problems, took) = shell::timed(check);
        let problems = problems?;
        for problem in &problems {
            eprintln!("{problem}");
        }
        match problems.len() {
            0 => {
                eprintln!("tidy ({})", shell::duration(took));
                Ok(())
            }
            1 => bail!("1 thing to mend"),
            n_problems => bail!("{n_problems} things to mend"),
        }
    }
}

fn check() -> Result<Vec<Problem>> {
    let root = shell::root();
    let metadata = shell::metadata(true)?;
    let mut problems = arrows::check(&arrows::Package::from_metadata(&metadata));
    problems.extend(manifests::check_single_versions(&metadata));
    let sections = links::Sections::read(&root).context("reading docs/spec")?;
    for folder in ["crates", "tests", "xtask"] {
        for path in files(&root.join(folder), "toml")? {
            if path.ends_with("Cargo.toml") {
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

/// A file with its path as a message shows it.
fn read(root: &Path, path: &Path) -> Result<(String, String)> {
    let place = path
        .strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {place}"))?;
    Ok((place, text))
}

/// The files with this extension under `folder`, sorted; none if there is no such folder.
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

    /// So that `cargo test` alone finds what CI would.
    #[test]
    fn the_tree_is_tidy() {
        let problems = check().unwrap();
        let text: Vec<_> = problems.iter().map(Problem::to_string).collect();
        assert!(problems.is_empty(), "\n{}", text.join("\n"));
    }
}
