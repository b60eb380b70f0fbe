//! The commands people type that are not processes, and what they share: how answers are printed, and
//! where a running Polity on this machine is found.

pub mod attachment;
pub mod doctor;
pub mod down;
pub mod dryrun;
pub mod exit;
pub mod findings;
mod governance;
pub mod lint;
pub mod local;
pub mod logs;
pub mod manifests;
pub mod output;
pub mod placement;
pub mod policy;
pub mod report;
pub mod reset;
pub mod rollout;
pub mod status;
pub mod template;
pub mod version;

use std::path::Path;

use polity_runtime::args::ClientArgs;

/// A client for a context of the local Polity.
async fn local_client(kubeconfig: &Path, context: &str) -> anyhow::Result<kube::Client> {
    let args = ClientArgs {
        kubeconfig: Some(kubeconfig.to_owned()),
        context: Some(context.to_owned()),
        ..ClientArgs::default()
    };
    connect(&args).await
}

/// A client for the cluster that is meant; an error comes with a hint.
async fn connect(args: &ClientArgs) -> anyhow::Result<kube::Client> {
    let connected = polity_runtime::client::connect(args).await;
    connected.map_err(|error| {
        let hint = error.hint();
        exit::Hinted::new(exit::in_words(&error.into()), hint).into()
    })
}
