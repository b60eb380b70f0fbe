//! The Go program under tools/template-oracle: built once, asked in batches.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};

use crate::tools::{cache, in_ci};

/// The program; `None` after saying that it cannot be built.
///
/// # Panics
/// With `CI=true`: a check that was meant to run must not be skipped there.
pub fn find() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(|| match build() {
        Ok(path) => Some(path),
        Err(error) => {
            assert!(
                !in_ci(),
                "the template oracle (fails with CI=true): {error:#}"
            );
            eprintln!("left out: templates against Go: {error:#}; install Go to run them");
            None
        }
    });
    built.as_deref()
}

/// Builds the program. Go builds only what changed, so that asking it every time is cheap.
pub fn build() -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/template-oracle");
    let program = cache().join("template-oracle").join("template-oracle");
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(&source)
        .status()
        .context("go is not there")?;
    ensure!(status.success(), "go build failed in {}", source.display());
    Ok(program)
}

/// What the program, called with `flags`, answers to a JSON list of cases: a line of JSON for each.
pub fn ask(program: &Path, flags: &[&str], cases: Vec<u8>) -> Result<String> {
    let mut child = Command::new(program)
        .args(flags)
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("the oracle has a stdin")?;
    let writer = std::thread::spawn(move || stdin.write_all(&cases));
    let output = child.wait_with_output()?;
    writer.join().ok().context("writing to the oracle")??;
    ensure!(output.status.success(), "the oracle failed");
    Ok(String::from_utf8(output.stdout)?)
}
