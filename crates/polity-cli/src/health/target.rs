//! What `polity doctor` and `polity status` look at: the instance on this machine, or the cluster of a kubeconfig.

use polity_runtime::args::ClientArgs;

use crate::local::{DataDirArgs, Local};

/// What is looked at.
#[derive(Debug)]
pub(crate) enum Target {
    /// The instance in a data directory.
    Local(Local),
    /// A cluster, of which nothing on this machine is known.
    Cluster(ClientArgs),
}

impl Target {
    /// A data directory that was named, else a kubeconfig or context of another cluster, else the usual data directory.
    pub(crate) fn of(data_dir: &DataDirArgs, client: ClientArgs) -> anyhow::Result<Self> {
        let local = Local::new(data_dir.resolve()?);
        let is_elsewhere = match (&client.kubeconfig, &client.context) {
            (Some(files), _) => {
                let own = local.kubeconfig();
                !std::env::split_paths(files).any(|file| file == own)
            }
            (None, Some(context)) => {
                let run = local.last_run().ok().flatten();
                let mut clusters = run.iter().flat_map(|run| &run.clusters);
                !clusters.any(|cluster| cluster.context == *context)
            }
            (None, None) => false,
        };
        Ok(if is_elsewhere && data_dir.data_dir.is_none() {
            Self::Cluster(client)
        } else {
            Self::Local(local)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_comes_before_a_kubeconfig_and_that_before_the_usual_instance() {
        let folder = tempfile::tempdir().unwrap();
        let here = DataDirArgs {
            data_dir: Some(folder.path().to_owned()),
        };
        let args = |kubeconfig: Option<&str>, context: Option<&str>| ClientArgs {
            kubeconfig: kubeconfig.map(Into::into),
            context: context.map(str::to_owned),
            ..ClientArgs::default()
        };
        let is_local = |data_dir: &DataDirArgs, client: ClientArgs| {
            matches!(Target::of(data_dir, client).unwrap(), Target::Local(_))
        };
        let usual = DataDirArgs::default();
        let own = Local::new(usual.resolve().unwrap()).kubeconfig();
        assert!(is_local(&usual, args(None, None)));
        assert!(is_local(&usual, args(own.to_str(), None)));
        assert!(!is_local(&usual, args(Some("/elsewhere/config"), None)));
        assert!(!is_local(&usual, args(None, Some("no-such-context"))));
        assert!(is_local(&here, args(Some("/elsewhere/config"), None)));
    }
}
