//! The Go program in `tools/template-oracle`, which is built once and called with batches of cases.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};

use crate::tools::{cache, in_ci};

/// The path of the program. Returns `None` after printing that it cannot be built.
///
/// # Panics
/// With `CI=true`, where no test may be skipped.
pub fn find() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(|| match build() {
        Ok(path) => Some(path),
        Err(error) => {
            assert!(
                !in_ci(),
                "the template oracle (fails with CI=true): {error:#}"
            );
            eprintln!("skipped: templates against Go: {error:#}; install Go to run them");
            None
        }
    });
    built.as_deref()
}

/// Builds the program. Go only rebuilds changes, so this can be called every time.
pub fn build() -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/template-oracle");
    let program = cache().join("template-oracle").join("template-oracle");
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(&source)
        .status()
        .context("go does not exist")?;
    ensure!(status.success(), "go build failed in {}", source.display());
    Ok(program)
}

/// Runs the program with `flags` on a JSON list of cases. Returns one line of JSON per case.
pub fn run_cases(program: &Path, flags: &[&str], cases: Vec<u8>) -> Result<String> {
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
