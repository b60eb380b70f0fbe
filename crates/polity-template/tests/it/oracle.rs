//! The Go program under tools/template-oracle: built once, asked in batches.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};
use peers::tools::{cache, in_ci};
use serde_json::{Value, json};

/// What Go made of a case.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub(crate) struct Answer {
    pub(crate) output: String,
    #[serde(default)]
    pub(crate) error: String,
}

impl Answer {
    /// The output, or the error.
    pub(crate) fn result(self) -> Result<String, String> {
        if self.error.is_empty() {
            Ok(self.output)
        } else {
            Err(self.error)
        }
    }
}

/// The program; `None` after saying that it cannot be built. With `CI=true` that is a failure.
pub(crate) fn find() -> Option<&'static Path> {
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

fn build() -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/template-oracle");
    let program = cache().join("template-oracle").join("template-oracle");
    // Go builds only what changed, so that asking it every time is cheap.
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

/// What Go makes of these cases, in their order.
pub(crate) fn ask(program: &Path, cases: &[Value]) -> Result<Vec<Answer>> {
    let mut child = Command::new(program)
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let input = serde_json::to_vec(cases)?;
    let mut stdin = child.stdin.take().context("the oracle has a stdin")?;
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output()?;
    writer.join().ok().context("writing to the oracle")??;
    ensure!(output.status.success(), "the oracle failed");
    let lines = String::from_utf8(output.stdout)?;
    let answers: Result<Vec<Answer>, _> = lines.lines().map(serde_json::from_str).collect();
    let answers = answers?;
    ensure!(
        answers.len() == cases.len(),
        "the oracle answered all cases"
    );
    Ok(answers)
}

/// A template with its data.
pub(crate) fn template(text: &str, data: &Value) -> Value {
    json!({"kind": "template", "template": text, "data": data})
}
