//! `polity policy digest`: what a tag stands for now.

use anyhow::bail;
use polity_fetch::ModuleUri;
use serde::Serialize;

use super::sources::SourceArgs;
use crate::exit::Exit;
use crate::output::OutputArgs;

/// Print the digest of a reference in a registry
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity policy digest ghcr.io/kubewarden/policies/pod-privileged:v1.0.0

The module is not fetched.")]
pub(super) struct DigestArgs {
    /// registry://host/name:tag, the scheme may be left out
    #[arg(value_name = "URI")]
    uri: ModuleUri,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    sources: SourceArgs,
}

#[derive(Debug, Serialize)]
struct Resolved {
    uri: String,
    digest: String,
}

impl DigestArgs {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            uri,
            sources,
            output,
        } = self;
        let ModuleUri::Registry(registry) = &uri else {
            bail!("only a module in a registry has a manifest: {uri} does not");
        };
        let digest = sources.fetcher()?.resolve(registry).await?;
        let resolved = Resolved {
            uri: uri.to_string(),
            digest: digest.to_string(),
        };
        output.print(&resolved, |resolved| {
            // The tag stays for the reader, a digest that was given already is not repeated.
            let uri = resolved.uri.split('@').next().unwrap_or_default();
            format!("{uri}@{}", resolved.digest)
        })?;
        Ok(Exit::Fine)
    }
}
