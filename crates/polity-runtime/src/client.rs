//! The Kubernetes client a command or service starts with.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use http::header::USER_AGENT;
use http::{HeaderValue, Uri};
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::args::ClientArgs;
use crate::{VERSION, env, tls};

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A kubeconfig file could not be read.
    #[error("reading kubeconfig {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        error: Box<KubeconfigError>,
    },
    /// What the kubeconfig says cannot be used, for example a context that is not there.
    #[error("using kubeconfig {}", path.display())]
    Use {
        /// The file, or the list of files.
        path: PathBuf,
        /// What went wrong.
        #[source]
        error: Box<KubeconfigError>,
    },
    /// Neither a kubeconfig nor a Pod's service account.
    #[error("no cluster to talk to")]
    NoCluster(#[source] Box<InClusterError>),
    /// The HTTP client could not be made.
    #[error("making a client for {url}")]
    Client {
        /// The API server.
        url: Uri,
        /// What went wrong.
        #[source]
        error: Box<kube::Error>,
    },
}

impl ConnectError {
    /// What the user can do about it, for a line `hint: …`.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } => "pass --kubeconfig FILE, or set KUBECONFIG",
            Self::Use { .. } => {
                "`kubectl config get-contexts` lists the contexts; choose one with --context"
            }
            Self::NoCluster(_) => {
                "pass --kubeconfig FILE, or start a cluster of your own with `polity up`"
            }
            Self::Client { .. } => "check the certificates and credentials in the kubeconfig",
        }
    }
}

/// Makes a client from the arguments. It connects at its first request.
pub async fn connect(args: &ClientArgs) -> Result<Client, ConnectError> {
    tls::install_provider();
    let config = config(args, home_kubeconfig()).await?;
    let url = config.cluster_url.clone();
    Client::try_from(config).map_err(|error| ConnectError::Client {
        url,
        error: error.into(),
    })
}

fn home_kubeconfig() -> Option<PathBuf> {
    let path = Path::new(&env::read(env::HOME)?).join(".kube/config");
    path.exists().then_some(path)
}

/// The given kubeconfig, else the one in the home directory, else the Pod's service account.
async fn config(args: &ClientArgs, home: Option<PathBuf>) -> Result<Config, ConnectError> {
    let ClientArgs {
        kubeconfig,
        context,
        as_user,
        as_group,
    } = args;
    let mut config = match kubeconfig.clone().or(home) {
        Some(path) => from_files(path, context.clone()).await?,
        None => Config::incluster().map_err(|error| ConnectError::NoCluster(error.into()))?,
    };
    if let Some(user) = as_user {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups =
            Some(as_group.clone()).filter(|groups| !groups.is_empty());
    }
    let user_agent = HeaderValue::from_str(&user_agent()).expect("a version is visible ASCII");
    config.headers.push((USER_AGENT, user_agent));
    Ok(config)
}

/// How we call ourselves.
pub fn user_agent() -> String {
    format!("polity/{VERSION}")
}

/// The variable may hold a list of files, as kubectl knows it; those that are missing in such a
/// list are passed over.
async fn from_files(paths: PathBuf, context: Option<String>) -> Result<Config, ConnectError> {
    let list: Vec<PathBuf> = std::env::split_paths(&paths)
        .filter(|path| path.as_os_str() != OsStr::new(""))
        .collect();
    let is_list = list.len() > 1;
    let mut merged = Kubeconfig::default();
    for path in list.into_iter().filter(|path| !is_list || path.exists()) {
        merged = Kubeconfig::read_from(&path)
            .and_then(|next| merged.merge(next))
            .map_err(|error| ConnectError::Read {
                path,
                error: error.into(),
            })?;
    }
    let options = KubeConfigOptions {
        context,
        ..KubeConfigOptions::default()
    };
    Config::from_custom_kubeconfig(merged, &options)
        .await
        .map_err(|error| ConnectError::Use {
            path: paths,
            error: error.into(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(name: &str, port: u16) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {name}\n\
             clusters: [{{name: {name}, cluster: {{server: 'https://127.0.0.1:{port}'}}}}]\n\
             users: [{{name: {name}, user: {{token: secret}}}}]\n\
             contexts: [{{name: {name}, context: {{cluster: {name}, user: {name}, namespace: ns-{name}}}}}]\n"
        )
    }

    /// Two files, "hub" on port 1 and "edge" on port 2.
    fn files() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let (hub, edge) = (directory.path().join("hub"), directory.path().join("edge"));
        std::fs::write(&hub, kubeconfig("hub", 1)).unwrap();
        std::fs::write(&edge, kubeconfig("edge", 2)).unwrap();
        (directory, hub, edge)
    }

    #[tokio::test]
    async fn the_right_cluster_is_found() {
        let (directory, hub, edge) = files();
        let missing = directory.path().join("missing");
        let both = std::env::join_paths([&missing, &hub, &edge]).unwrap();
        for (given, context, home, expected) in [
            (
                Some(hub.clone()),
                None,
                Some(edge.clone()),
                "https://127.0.0.1:1/ ns-hub",
            ),
            (None, None, Some(edge), "https://127.0.0.1:2/ ns-edge"),
            (
                Some(both.clone().into()),
                None,
                None,
                "https://127.0.0.1:1/ ns-hub",
            ),
            (
                Some(both.into()),
                Some("edge"),
                None,
                "https://127.0.0.1:2/ ns-edge",
            ),
        ] {
            let args = ClientArgs {
                kubeconfig: given,
                context: context.map(str::to_owned),
                ..ClientArgs::default()
            };
            let config = config(&args, home).await.unwrap();
            assert_eq!(
                format!("{} {}", config.cluster_url, config.default_namespace),
                expected
            );
            assert_eq!(
                config.headers,
                [(USER_AGENT, HeaderValue::from_str(&user_agent()).unwrap())]
            );
        }
    }

    #[tokio::test]
    async fn another_user_is_impersonated() {
        let (_directory, hub, _) = files();
        let args = ClientArgs {
            kubeconfig: Some(hub),
            as_user: Some("alice".to_owned()),
            as_group: vec!["devs".to_owned()],
            ..ClientArgs::default()
        };
        let config = config(&args, None).await.unwrap();
        assert_eq!(config.auth_info.impersonate.as_deref(), Some("alice"));
        assert_eq!(
            config.auth_info.impersonate_groups,
            Some(vec!["devs".to_owned()])
        );
        connect(&args).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_wrong_is_said_with_a_hint() {
        let (directory, hub, _) = files();
        let broken = directory.path().join("broken");
        std::fs::write(&broken, "clusters: [").unwrap();
        let missing = directory.path().join("missing");
        let case = async |kubeconfig: Option<PathBuf>, context: Option<&str>| {
            let context = context.map(str::to_owned);
            let args = ClientArgs {
                kubeconfig,
                context,
                ..ClientArgs::default()
            };
            let error = config(&args, None).await.expect_err("it is wrong");
            (error.to_string(), error.hint())
        };
        assert_eq!(
            case(Some(missing.clone()), None).await.0,
            format!("reading kubeconfig {}", missing.display())
        );
        assert_eq!(
            case(Some(broken.clone()), None).await.0,
            format!("reading kubeconfig {}", broken.display())
        );
        let (message, hint) = case(Some(hub.clone()), Some("nowhere")).await;
        assert_eq!(message, format!("using kubeconfig {}", hub.display()));
        assert!(hint.contains("--context"));
        let (message, hint) = case(None, None).await;
        assert_eq!(message, "no cluster to talk to");
        assert!(hint.contains("polity up"));
    }
}
