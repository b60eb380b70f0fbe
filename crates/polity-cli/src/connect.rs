//! The client of a command: which cluster it talks to.

use std::path::{Path, PathBuf};

use polity_runtime::args::ClientArgs;
use polity_runtime::client::{Connection, Origin, connect_command};

use crate::local::{DataDirArgs, Local};

/// A client for the cluster of the arguments; without any, for the instance that runs on this machine.
///
/// Says on stderr which cluster that is when no kubeconfig names it.
pub async fn connect(args: &ClientArgs) -> anyhow::Result<kube::Client> {
    let connection = connect_command(args, local_kubeconfig).await?;
    if let Some(note) = note(&connection) {
        eprintln!("{note}");
    }
    Ok(connection.client)
}

/// A client for a context of the local instance.
pub(crate) async fn local_client(kubeconfig: &Path, context: &str) -> anyhow::Result<kube::Client> {
    let args = ClientArgs {
        kubeconfig: Some(kubeconfig.to_owned()),
        context: Some(context.to_owned()),
        ..ClientArgs::default()
    };
    connect(&args).await
}

/// The kubeconfig of the instance that runs in the usual data directory, or in that of `POLITY_DATA_DIR`.
fn local_kubeconfig() -> Option<PathBuf> {
    let data_dir = polity_runtime::env::read(polity_runtime::env::DATA_DIR).map(PathBuf::from);
    let dir = DataDirArgs { data_dir }.resolve().ok()?;
    // A state file that cannot be read is for `polity doctor`; here it is no instance.
    let run = Local::new(dir).running().ok()??;
    Some(run.kubeconfig)
}

fn note(connection: &Connection) -> Option<String> {
    let Origin::LocalInstance(kubeconfig) = &connection.origin else {
        return None;
    };
    let server = connection.server.to_string();
    Some(format!(
        "using the local instance at {} (KUBECONFIG={}); choose another cluster with --kubeconfig",
        server.trim_end_matches('/'),
        kubeconfig.display()
    ))
}
