//! `polity policy modules`: the modules in the store.

use jiff::Timestamp;
use polity_eval::{Limits, inspect};
use polity_fetch::{LocalStore, Stored};
use serde::Serialize;

use super::inspect::size;
use super::sources::StoreArgs;
use crate::exit::Exit;
use crate::output::{OutputArgs, columns};

/// As much of a digest as tells modules apart.
const SHORT_DIGEST: usize = 12;

/// List the fetched modules
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity policy modules
  polity policy modules -o json")]
pub(super) struct ListArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// One module.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    uri: String,
    sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<String>,
    /// `None`: it carries no metadata that can be read.
    mutating: Option<bool>,
    context_aware: Option<bool>,
    bytes: u64,
    fetched: Timestamp,
}

impl ListArgs {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let Self { store, output } = self;
        let store = store.open()?;
        let listed: Vec<Listed> = store
            .list()?
            .into_iter()
            .map(|stored| listed(&store, stored))
            .collect();
        output.print(&listed, |listed| table(listed))?;
        Ok(Exit::Fine)
    }
}

fn listed(store: &LocalStore, stored: Stored) -> Listed {
    let metadata = store
        .read(&stored.digest)
        .ok()
        .flatten()
        .and_then(|bytes| inspect(&bytes, &Limits::default()).ok())
        .and_then(|inspection| inspection.metadata);
    Listed {
        uri: stored.uri,
        sha256: stored.digest.hex(),
        manifest: stored.manifest.map(|digest| digest.to_string()),
        mutating: metadata.as_ref().map(|metadata| metadata.mutating),
        context_aware: metadata
            .as_ref()
            .map(|metadata| !metadata.context_aware_resources.is_empty()),
        bytes: stored.bytes,
        fetched: stored.fetched,
    }
}

fn table(listed: &[Listed]) -> String {
    let head = ["POLICY", "MUTATING", "CONTEXT AWARE", "SHA-256", "SIZE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let known = |value: Option<bool>| match value {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    for module in listed {
        rows.push(vec![
            module.uri.clone(),
            known(module.mutating).to_owned(),
            known(module.context_aware).to_owned(),
            module.sha256.chars().take(SHORT_DIGEST).collect(),
            size(module.bytes),
        ]);
    }
    columns(&rows)
}
