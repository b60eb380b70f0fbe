//! `polity policy push`: a module published under a tag of a registry.

use std::collections::BTreeMap;
use std::io::Write as _;

use polity_eval::{Limits, Metadata, inspect};
use polity_fetch::ModuleUri;
use serde::Serialize;

use super::sources::SourceArgs;
use super::{progress, reference};
use crate::exit::{Exit, Hinted};

/// Publish a module in a registry
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity policy push ./policy.wasm registry.example.com/policies/mine:v1
  polity policy push ./policy.wasm localhost:5000/mine:v1 \\
      --sources-path sources.yml -o json

Annotations of the module's metadata that fit on one line become annotations of
the manifest.")]
pub(super) struct PushArgs {
    /// A file, a reference, or the beginning of the SHA-256 of a module in the store
    #[arg(value_name = "MODULE")]
    module: String,
    /// Where to: registry://host/name:tag, the scheme may be left out
    #[arg(value_name = "URI")]
    uri: ModuleUri,
    /// Publish a module without metadata, too
    #[arg(short = 'f', long)]
    force: bool,
    /// Output format
    #[arg(short = 'o', long, value_name = "FORMAT", value_enum, default_value_t)]
    output: PushFormat,
    #[command(flatten)]
    sources: SourceArgs,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum PushFormat {
    #[default]
    #[value(alias = "table")]
    Text,
    Json,
    Yaml,
}

/// What was published.
#[derive(Debug, Serialize)]
struct Published {
    /// `host/name@sha256:…`: what it will always be.
    immutable_ref: String,
}

impl PushArgs {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            module,
            uri,
            force,
            output,
            sources,
        } = self;
        let fetcher = sources.fetcher()?;
        let from = reference::module(&module, &fetcher.store)?;
        let now = polity_runtime::Clock::system().now();
        let fetched = fetcher.fetch(&from, now, &()).await?;
        let inspection = inspect(&fetched.bytes, &Limits::default())?;
        let annotations = match &inspection.metadata {
            Some(metadata) => annotations(metadata),
            None if force => BTreeMap::new(),
            None => {
                return Err(Hinted::new(
                    format!("{from} has no metadata"),
                    "a server would refuse it; push it nevertheless with --force",
                )
                .into());
            }
        };
        let pushed = progress::with(&uri.to_string(), |_| {
            fetcher.push(&uri, &fetched.bytes, &annotations)
        })
        .await?;
        let published = Published {
            immutable_ref: pinned(&uri, &pushed.manifest.to_string()),
        };
        let text = match output {
            PushFormat::Text => format!("Policy successfully pushed: {}", published.immutable_ref),
            PushFormat::Json => serde_json::to_string(&published)?,
            PushFormat::Yaml => serde_saphyr::to_string(&published)?.trim_end().to_owned(),
        };
        writeln!(std::io::stdout().lock(), "{text}")?;
        Ok(Exit::Fine)
    }
}

/// Where a module is, whatever becomes of the tag.
pub(super) fn pinned(uri: &ModuleUri, digest: &str) -> String {
    match uri {
        ModuleUri::Registry(registry) => {
            format!("{}/{}@{digest}", registry.host, registry.repository)
        }
        ModuleUri::Web(_) | ModuleUri::File(_) => uri.to_string(),
    }
}

/// What of the metadata stands in the manifest: what fits on one line, and the source under the name that other
/// tools look for.
fn annotations(metadata: &Metadata) -> BTreeMap<String, String> {
    let mut fitting: BTreeMap<String, String> = metadata
        .annotations
        .iter()
        .flatten()
        .map(|(key, value)| (key.clone(), value.trim().to_owned()))
        .filter(|(_, value)| !value.contains('\n'))
        .collect();
    if let Some(source) = fitting.get("io.kubewarden.policy.source").cloned() {
        fitting.insert("org.opencontainers.image.source".to_owned(), source);
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_of_section_16() {
        let metadata = Metadata::parse(
            br#"{"rules":[],"mutating":false,"annotations":{
                "io.kubewarden.policy.title":" psp \n",
                "io.kubewarden.policy.usage":"one\ntwo",
                "io.kubewarden.policy.source":"https://example.com/psp"}}"#,
        )
        .unwrap();
        let expected: BTreeMap<String, String> = [
            ("io.kubewarden.policy.title", "psp"),
            ("io.kubewarden.policy.source", "https://example.com/psp"),
            ("org.opencontainers.image.source", "https://example.com/psp"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        assert_eq!(annotations(&metadata), expected);
    }
}
