//! `polity policy run`: what a policy says about a request.

use std::io::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use polity_eval::AdmissionResponse;

use super::Refusal;
use super::judge::{Judge, JudgeArgs};
use crate::exit::Exit;
use crate::output::{Format, Paint};

/// Run a policy on a request, without a server
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # A module and a request
  polity policy run ./policy.wasm -r request.json \\
      --settings-json '{\"exempt\": [\"edge\"]}'

  # A policy that reads the cluster: record what it reads, run it without one
  polity policy run ./policy.wasm -r request.json --allow-context-aware \\
      --record-host-capabilities-interactions talk.yml
  polity policy run ./policy.wasm -r request.json --allow-context-aware \\
      --replay-host-capabilities-interactions talk.yml

  # All policies of a file, a group among them
  polity policy run policies.yml -r request.json -o table

Prints an AdmissionResponse, one a line for each policy.

Exit codes: 0 all accept, 1 one refuses (0 when called as `kwctl`), 2 error.")]
pub(super) struct RunArgs {
    /// Output format
    #[arg(short = 'o', long, value_name = "FORMAT", value_enum, default_value_t = Format::Json)]
    output: Format,
    #[command(flatten)]
    judge: JudgeArgs,
}

impl RunArgs {
    pub(super) async fn run(self, refusal: Refusal) -> anyhow::Result<Exit> {
        let Self { judge, output } = self;
        let judge = Arc::new(judge.prepare().await?);
        // Guests block, and may wait for what this runtime does.
        let (text, all_accept) =
            tokio::task::spawn_blocking(move || judge_all(&judge, output)).await??;
        std::io::stdout().lock().write_all(text.as_bytes())?;
        Ok(if all_accept || refusal == Refusal::Answer {
            Exit::Fine
        } else {
            Exit::Findings
        })
    }
}

fn judge_all(judge: &Judge, output: Format) -> anyhow::Result<(String, bool)> {
    let mut text = String::new();
    let mut all_accept = true;
    for ready in &judge.policies {
        let response = judge.ask(ready)?.response;
        all_accept &= response.allowed;
        let shown = match output {
            // One line, as scripts expect it.
            Format::Json => serde_json::to_string(&response)?,
            Format::Yaml => format!("---\n{}", serde_saphyr::to_string(&response)?.trim_end()),
            Format::Table => in_words(&ready.name, &response, Paint::for_stdout()),
        };
        text.push_str(&shown);
        text.push('\n');
    }
    judge.finish()?;
    Ok((text, all_accept))
}

/// The verdict for people: the changes written out, one a line.
fn in_words(name: &str, response: &AdmissionResponse, paint: Paint) -> String {
    let verdict = if response.allowed {
        paint.good("accepted")
    } else {
        paint.bad("refused")
    };
    let mut lines = vec![format!("{name}: {verdict}")];
    if let Some(status) = &response.status {
        let code = status
            .code
            .map(|code| format!(" ({code})"))
            .unwrap_or_default();
        let message = status.message.as_deref().unwrap_or("no message");
        lines.push(format!("  {message}{code}"));
        let causes = status.details.iter().flat_map(|details| &details.causes);
        for cause in causes {
            let message = cause.message.as_deref().unwrap_or("no message");
            let field = cause.field.as_deref().unwrap_or_default();
            lines.push(format!("  - {field}: {message}"));
        }
    }
    for warning in response.warnings.iter().flatten() {
        lines.push(format!("  {} {warning}", paint.warn("warning:")));
    }
    for (key, value) in response.audit_annotations.iter().flatten() {
        lines.push(format!("  audit: {key}={value}"));
    }
    for operation in operations(response) {
        lines.push(format!("  change: {operation}"));
    }
    lines.join("\n")
}

/// The operations of the patch.
fn operations(response: &AdmissionResponse) -> Vec<String> {
    let Some(patch) = &response.patch else {
        return Vec::new();
    };
    let decoded = base64::engine::general_purpose::STANDARD.decode(patch);
    let operations: Vec<serde_json::Value> = decoded
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    operations.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use polity_eval::{Cause, Details, Status};

    use super::*;

    #[test]
    fn a_verdict_in_words() {
        let response = AdmissionResponse {
            uid: "u".to_owned(),
            allowed: false,
            status: Some(Status {
                message: Some("not here".to_owned()),
                code: Some(403),
                details: Some(Details {
                    causes: vec![Cause {
                        message: Some("no probe".to_owned()),
                        field: Some("spec.policies.probes".to_owned()),
                        ..Cause::default()
                    }],
                }),
            }),
            warnings: Some(vec!["soon".to_owned()]),
            ..AdmissionResponse::default()
        };
        insta::assert_snapshot!(in_words("p", &response, Paint::plain()), @r"
        p: refused
          not here (403)
          - spec.policies.probes: no probe
          warning: soon
        ");
        let patch = br#"[{"op":"add","path":"/a","value":1}]"#;
        let response = AdmissionResponse {
            patch: Some(base64::engine::general_purpose::STANDARD.encode(patch)),
            ..AdmissionResponse::allow("u")
        };
        insta::assert_snapshot!(in_words("p", &response, Paint::plain()), @r#"
        p: accepted
          change: {"op":"add","path":"/a","value":1}
        "#);
    }
}
