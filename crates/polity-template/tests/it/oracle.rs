//! Runs cases through the Go program in `tools/template-oracle`.

use std::path::Path;

use anyhow::{Result, ensure};
pub(crate) use peers::templates::find;
use serde_json::{Value, json};

/// The output of Go's text/template for a case.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub(crate) struct GoOutput {
    pub(crate) output: String,
    #[serde(default)]
    pub(crate) error: String,
}

impl GoOutput {
    /// The output, or the error.
    pub(crate) fn result(self) -> Result<String, String> {
        if self.error.is_empty() {
            Ok(self.output)
        } else {
            Err(self.error)
        }
    }
}

/// Go's results for these cases, in order.
pub(crate) fn ask(program: &Path, cases: &[Value]) -> Result<Vec<GoOutput>> {
    let lines = peers::templates::run_cases(program, &[], serde_json::to_vec(cases)?)?;
    let answers: Result<Vec<GoOutput>, _> = lines.lines().map(serde_json::from_str).collect();
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
