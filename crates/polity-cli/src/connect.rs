//! The client of a command: which cluster it talks to.

use std::path::{Path, PathBuf};

use polity_runtime::args::ClientArgs;
use polity_runtime::client::{ConnectError, Connection, Origin, connect_command};

use crate::exit::Hinted;
use crate::local::{DataDirArgs, Local};

/// A client for the cluster of the arguments; without any, for the instance that runs on this machine.
///
/// Prints to stderr which cluster that is when no kubeconfig names it.
pub async fn connect(args: &ClientArgs) -> anyhow::Result<kube::Client> {
    let connection = connect_command(args, local_kubeconfig).await;
    let connection = connection.map_err(|error| not_running(error, usual_instance().as_ref()))?;
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
    // `polity doctor` reports a state file that cannot be read.
    let run = usual_instance()?.running().ok()??;
    Some(run.kubeconfig)
}

/// The usual data directory, or that of `POLITY_DATA_DIR`.
fn usual_instance() -> Option<Local> {
    let data_dir = polity_runtime::env::read(polity_runtime::env::DATA_DIR).map(PathBuf::from);
    let dir = DataDirArgs { data_dir }.resolve().ok()?;
    Some(Local::new(dir))
}

/// The error of a connection. A missing kubeconfig of the local instance, as after `polity reset`, means that no
/// instance has run.
fn not_running(error: ConnectError, local: Option<&Local>) -> anyhow::Error {
    match (&error, local) {
        (ConnectError::Read { path, .. }, Some(local))
            if *path == local.kubeconfig() && !path.exists() =>
        {
            let message = format!(
                "there is no local instance: {} does not exist",
                path.display()
            );
            Hinted::new(message, "start it with `polity up -d`").into()
        }
        _ => error.into(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::{hint_of, in_words};

    #[test]
    fn a_missing_kubeconfig_of_the_local_instance_leads_to_polity_up() {
        let folder = tempfile::tempdir().unwrap();
        let local = Local::new(folder.path());
        let error = |path: PathBuf| ConnectError::Read {
            path,
            error: std::io::Error::from(std::io::ErrorKind::NotFound).into(),
        };
        let reset = not_running(error(local.kubeconfig()), Some(&local));
        assert!(in_words(&reset).starts_with("there is no local instance"));
        let hint = hint_of(&reset).unwrap();
        assert_eq!(hint, "start it with `polity up -d`");
        let other = not_running(error("/nope".into()), Some(&local));
        assert!(in_words(&other).starts_with("cannot read kubeconfig /nope"));
        let hint = hint_of(&other).unwrap();
        assert!(hint.contains("check --kubeconfig"), "{hint}");
    }
}
