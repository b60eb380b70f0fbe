//! What `polity doctor` and `polity status` look at: the instance on this machine, or the cluster of a kubeconfig.

use std::path::{Path, PathBuf};

use polity_runtime::args::ClientArgs;
use polity_runtime::env;

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
    /// A cluster that `--kubeconfig` or `--context` name, else the data directory of `--data-dir`, else a cluster that
    /// variables name, else the usual data directory.
    pub(crate) fn of(data_dir: &DataDirArgs, client: ClientArgs) -> anyhow::Result<Self> {
        Self::choose(data_dir, client, &Variables::read())
    }

    fn choose(
        data_dir: &DataDirArgs,
        client: ClientArgs,
        variables: &Variables,
    ) -> anyhow::Result<Self> {
        let local = Local::new(data_dir.resolve()?);
        let is_chosen_by_flag = data_dir.data_dir != variables.data_dir;
        // Next to the flag of a data directory only flags count, not variables.
        let kubeconfig = client
            .kubeconfig
            .as_ref()
            .filter(|files| !is_chosen_by_flag || variables.kubeconfig.as_ref() != Some(files));
        let context = client
            .context
            .as_ref()
            .filter(|context| !is_chosen_by_flag || variables.context.as_ref() != Some(context));
        let is_local = kubeconfig.is_none_or(|files| names_kubeconfig(files, &local))
            && context.is_none_or(|context| has_context(context, &local));
        Ok(if is_local {
            Self::Local(local)
        } else {
            Self::Cluster(client)
        })
    }
}

/// The variables behind the flags. A value that is equal to its variable counts as that of the variable.
#[derive(Debug, Default)]
struct Variables {
    data_dir: Option<PathBuf>,
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
}

impl Variables {
    fn read() -> Self {
        Self {
            data_dir: env::read(env::DATA_DIR).map(PathBuf::from),
            kubeconfig: env::read(env::KUBECONFIG).map(PathBuf::from),
            context: env::read(env::CONTEXT).and_then(|name| name.into_string().ok()),
        }
    }
}

/// Whether the kubeconfig of the instance is one of these files.
fn names_kubeconfig(files: &Path, local: &Local) -> bool {
    let own = local.kubeconfig();
    std::env::split_paths(files).any(|file| std::path::absolute(file).is_ok_and(|file| file == own))
}

/// Whether a cluster of the instance has this context.
fn has_context(context: &str, local: &Local) -> bool {
    let run = local.last_run().ok().flatten();
    let mut clusters = run.iter().flat_map(|run| &run.clusters);
    clusters.any(|cluster| cluster.context == context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::{ClusterState, RunState};

    fn args(kubeconfig: Option<&str>, context: Option<&str>) -> ClientArgs {
        ClientArgs {
            kubeconfig: kubeconfig.map(Into::into),
            context: context.map(str::to_owned),
            ..ClientArgs::default()
        }
    }

    fn is_local(data_dir: &DataDirArgs, client: ClientArgs, variables: &Variables) -> bool {
        let target = Target::choose(data_dir, client, variables).unwrap();
        matches!(target, Target::Local(_))
    }

    #[test]
    fn a_kubeconfig_and_a_context_come_before_the_usual_instance() {
        let usual = DataDirArgs::default();
        let own = Local::new(usual.resolve().unwrap()).kubeconfig();
        let none = Variables::default();
        assert!(is_local(&usual, args(None, None), &none));
        assert!(is_local(&usual, args(own.to_str(), None), &none));
        for (kubeconfig, context) in [
            (Some("/elsewhere/config"), None),
            (None, Some("no-such-context")),
            (own.to_str(), Some("no-such-context")),
        ] {
            assert!(!is_local(&usual, args(kubeconfig, context), &none));
        }
    }

    #[test]
    fn a_data_directory_comes_before_variables_but_not_before_flags() {
        let folder = tempfile::tempdir().unwrap();
        let local = Local::new(folder.path());
        let hub = ClusterState {
            name: "hub".into(),
            server: "https://127.0.0.1:6443".into(),
            context: "polity".into(),
        };
        local
            .write_run(&RunState {
                pid: 42,
                version: "0.1.0".into(),
                started: "2026-01-01T00:00:00Z".parse().unwrap(),
                kubeconfig: local.kubeconfig(),
                clusters: vec![hub],
            })
            .unwrap();
        let here = DataDirArgs {
            data_dir: Some(folder.path().to_owned()),
        };
        let by_flag = Variables {
            kubeconfig: Some("/elsewhere/config".into()),
            ..Variables::default()
        };
        let by_variable = Variables {
            data_dir: here.data_dir.clone(),
            ..Variables::default()
        };
        for variables in [&by_flag, &by_variable] {
            assert!(!is_local(&here, args(Some("/nope"), None), variables));
            assert!(!is_local(&here, args(None, Some("nope")), variables));
            assert!(is_local(&here, args(None, None), variables));
            assert!(is_local(&here, args(None, Some("polity")), variables));
        }
        let elsewhere = || args(Some("/elsewhere/config"), None);
        assert!(is_local(&here, elsewhere(), &by_flag));
        assert!(!is_local(&here, elsewhere(), &by_variable));
    }
}
