//! `polity policy rm`: a module out of the store.

use super::reference;
use super::sources::StoreArgs;
use crate::exit::Exit;

/// Remove a module from the store
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity policy rm registry://ghcr.io/kubewarden/policies/pod-privileged:v1.0.0
  polity policy rm 59e34f482b40")]
pub(super) struct RemoveArgs {
    /// The reference it was fetched by, or the beginning of its SHA-256
    #[arg(value_name = "MODULE")]
    module: String,
    #[command(flatten)]
    store: StoreArgs,
}

impl RemoveArgs {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let Self { module, store } = self;
        let store = store.open()?;
        let uri = reference::stored(&module, &store)?;
        if store.remove(&uri)? {
            eprintln!("removed {uri}");
            return Ok(Exit::Fine);
        }
        Err(reference::not_stored(&module).into())
    }
}
