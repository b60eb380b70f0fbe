//! `cargo xtask generate`: writes the files that are generated from code.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if a file is stale
    #[arg(long)]
    pub(crate) check: bool,
}

/// The hidden command of the binary that prints its complete help as Markdown.
const HELP_COMMAND: &str = "markdown-help";
const HELP_PAGE: &str = "docs/reference/commands.md";
/// The install manifests other than the CRDs.
const INSTALL_FOLDER: &str = "config/install";

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let before = snapshot()?;
        shell::with_progress(
            "writing config/crd",
            "a minute when the types must be compiled",
            write_definitions,
        )?;
        write_help_page()?;
        write_manifests()?;
        let after = snapshot()?;
        let changed: Vec<_> = after
            .iter()
            .filter(|(path, text)| before.get(*path) != Some(text))
            .collect();
        for (path, _) in &changed {
            eprintln!(
                "  {} {path}",
                if self.check { "was stale:" } else { "wrote" }
            );
        }
        if changed.is_empty() {
            eprintln!("  everything was up to date");
        } else if self.check {
            restore(&before, &after)?;
            bail!("generated files are stale; run: cargo xtask generate");
        }
        Ok(())
    }
}

/// The generated files by path, relative to the root.
fn snapshot() -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for folder in ["config/crd", INSTALL_FOLDER] {
        let path = shell::root().join(folder);
        if !path.is_dir() {
            continue;
        }
        for entry in fs::read_dir(path)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            files.insert(format!("{folder}/{name}"), fs::read_to_string(&path)?);
        }
    }
    if let Ok(text) = fs::read_to_string(shell::root().join(HELP_PAGE)) {
        files.insert(HELP_PAGE.to_owned(), text);
    }
    Ok(files)
}

fn restore(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Result<()> {
    for path in after.keys() {
        let absolute = shell::root().join(path);
        match before.get(path) {
            Some(text) => fs::write(&absolute, text)?,
            None => fs::remove_file(&absolute)?,
        }
    }
    Ok(())
}

/// Runs an example of polity-api, so that xtask itself does not compile the Kubernetes types.
fn write_definitions() -> Result<()> {
    let example = build(&["--example", "write-crds"], "debug/examples/write-crds")?;
    shell::run(
        Command::new(example)
            .arg("config/crd")
            .current_dir(shell::root()),
    )
}

fn write_help_page() -> Result<()> {
    let source = shell::root().join("crates/polity/src");
    if !mentions(&source, HELP_COMMAND)? {
        eprintln!("skipped {HELP_PAGE}: the binary has no command {HELP_COMMAND}");
        return Ok(());
    }
    let how_long = "a minute when polity must be compiled";
    let page = shell::with_progress("writing docs/reference", how_long, || {
        let polity = build(&["--bin", "polity"], "debug/polity")?;
        let output = Command::new(polity)
            .arg(HELP_COMMAND)
            .output()
            .context("running polity")?;
        if !output.status.success() {
            bail!(
                "polity {HELP_COMMAND} failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8(output.stdout)?)
    })?;
    let path = shell::root().join(HELP_PAGE);
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    fs::write(path, page).context("writing the page")
}

/// Runs the binary, which prints the same manifests that it applies.
fn write_manifests() -> Result<()> {
    let polity = build(&["--bin", "polity"], "debug/polity")?;
    shell::run(
        Command::new(polity)
            .args(["install", "--folder", INSTALL_FOLDER])
            .current_dir(shell::root()),
    )
}

/// Builds with the features of the whole workspace, as the tests do, so that no crate is compiled twice.
fn build(target: &[&str], program: &str) -> Result<PathBuf> {
    shell::run(shell::cargo(["build", "--quiet", "--workspace"]).args(target))?;
    Ok(shell::target_folder()?.join(program))
}

/// Whether any Rust file in `folder` contains `word`.
fn mentions(folder: &Path, word: &str) -> Result<bool> {
    for path in crate::tidy::files(folder, "rs")? {
        if fs::read_to_string(path)?.contains(word) {
            return Ok(true);
        }
    }
    Ok(false)
}
