//! `polity policy annotate`: a module gets the description of itself that servers ask for.

mod rules;
mod section;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use polity_eval::{Engine, EngineOptions, ExecutionMode, Metadata};
use serde_json::{Value, json};

use super::pull;
use crate::exit::Exit;

/// Write metadata into a module
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity policy annotate target/wasm32-wasip1/release/mine.wasm \\
      -m metadata.yml -u README.md -o mine.wasm

The metadata holds the requests that the policy is for (rules), whether it
changes objects (mutating), the kind of guest, and annotations for servers and
catalogues. The protocol is read from the module itself.")]
pub(super) struct AnnotateArgs {
    /// The module, as the compiler made it
    #[arg(value_name = "FILE")]
    wasm_path: PathBuf,
    /// The metadata, YAML or JSON
    #[arg(short = 'm', long, value_name = "FILE")]
    metadata_path: PathBuf,
    /// How the policy is used, as text or Markdown
    #[arg(short = 'u', long, value_name = "FILE")]
    usage_path: Option<PathBuf>,
    /// Where the annotated module goes
    #[arg(short = 'o', long, value_name = "FILE")]
    output_path: PathBuf,
}

impl AnnotateArgs {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            wasm_path,
            metadata_path,
            usage_path,
            output_path,
        } = self;
        let wasm = std::fs::read(&wasm_path)
            .with_context(|| format!("reading {}", wasm_path.display()))?;
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
        };
        let usage = usage_path.as_ref().map(read).transpose()?;
        let written = read(&metadata_path)?;
        let annotated = tokio::task::spawn_blocking(move || {
            let metadata = metadata(&written, usage, &wasm)
                .with_context(|| format!("the metadata {}", metadata_path.display()))?;
            section::replace(&wasm, &metadata)
                .with_context(|| format!("{} is not a Wasm module", wasm_path.display()))
        });
        pull::write(&output_path, &annotated.await??)
            .with_context(|| format!("writing {}", output_path.display()))?;
        Ok(Exit::Fine)
    }
}

/// The metadata as it is kept in the module, checked.
fn metadata(written: &str, usage: Option<String>, wasm: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut value: Value = serde_saphyr::from_str(written)?;
    let Value::Object(fields) = &mut value else {
        bail!("a map of fields is meant");
    };
    let annotations = fields
        .entry("annotations")
        .and_modify(|value| {
            if value.is_null() {
                *value = json!({});
            }
        })
        .or_insert_with(|| json!({}));
    let Value::Object(annotations) = annotations else {
        bail!("annotations: a map of texts is meant");
    };
    if let Some(usage) = usage {
        annotations.insert("io.kubewarden.policy.usage".to_owned(), usage.into());
    }
    let version = format!("polity {}", polity_runtime::VERSION);
    annotations.insert("io.kubewarden.kwctl".to_owned(), version.into());
    let described = Metadata::parse(value.to_string().as_bytes())?;
    rules::check(&described.rules)?;
    if described.execution_mode == ExecutionMode::Wapc {
        value["protocolVersion"] = protocol(wasm)?.into();
    }
    let metadata = Metadata::parse(value.to_string().as_bytes())?;
    Ok(serde_json::to_vec(&metadata)?)
}

/// The protocol that the module speaks, in its own words.
fn protocol(wasm: &[u8]) -> anyhow::Result<String> {
    let options = EngineOptions {
        instances: 1,
        warm_instances: 1,
        ..EngineOptions::default()
    };
    let module = Engine::new(&options)?.compile(wasm, Some(ExecutionMode::Wapc))?;
    polity_host::protocol_version(&module).context("asking the module for its protocol")
}
