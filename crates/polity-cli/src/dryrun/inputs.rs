//! The files a dry run takes for the cluster.

use std::fs;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::manifests;
use polity_source::Manifests;

/// Reads files, the first level of directories, and standard input: where it is named, or where nothing is and
/// something is piped in. A document that cannot be read ends it, since what is missing would change the answer.
pub(super) fn load(inputs: &[PathBuf]) -> anyhow::Result<Manifests> {
    let mut files = Vec::new();
    for input in inputs {
        if input.as_os_str() != "-" && input.is_dir() {
            files.extend(first_level(input)?);
        } else {
            files.push(input.clone());
        }
    }
    if inputs.is_empty() {
        if std::io::stdin().is_terminal() {
            eprintln!("hint: no files were named, so the cluster is taken for an empty one");
        } else {
            files.push(PathBuf::from("-"));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|file| seen.insert(file.clone()));
    let manifests = manifests::load(&files).context("unable to read input resources")?;
    if !manifests.problems.is_empty() {
        let problems: Vec<String> = manifests.problems.iter().map(ToString::to_string).collect();
        anyhow::bail!(
            "unable to read input resources: {}",
            problems.join("\n       ")
        );
    }
    Ok(manifests)
}

/// The manifests in a directory, in the order of their names.
fn first_level(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("{}", directory.display()))?
            .path();
        let is_manifest = path
            .extension()
            .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|it| extension == *it));
        if is_manifest && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
