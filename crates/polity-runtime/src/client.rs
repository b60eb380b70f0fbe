//! The Kubernetes client a command or service starts with.

mod address;
mod failure;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Uri};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

pub use self::address::Unreachable;
pub use self::failure::{Failure, connection_reason, describe, describe_status, one_line};
use crate::args::ClientArgs;
use crate::{VERSION, env, tls};

/// How long a command waits for a connection. A person waits for it, so it is shorter than for a service.
const COMMAND_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A kubeconfig file could not be read.
    #[error("cannot read kubeconfig {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The kubeconfig cannot be used, for example because it lacks the context that was asked for.
    #[error("cannot use kubeconfig {}", path.display())]
    Use {
        /// The file, or the list of files.
        path: PathBuf,
        /// What went wrong.
        #[source]
        error: Box<KubeconfigError>,
    },
    /// Neither a kubeconfig, nor the service account of a Pod, nor a local instance.
    #[error(
        "no cluster to talk to: no kubeconfig was given, ~/.kube/config does not exist, this is not a Pod, and no local instance runs"
    )]
    NoCluster,
    /// The HTTP client could not be made.
    #[error("cannot make a client for {url}")]
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
            Self::NoCluster => {
                "pass --kubeconfig FILE, or start a local instance with `polity up`; for one that runs with --data-dir DIR: export KUBECONFIG=DIR/kubeconfig"
            }
            Self::Client { .. } => "check the certificates and credentials in the kubeconfig",
        }
    }
}

/// How the cluster of a client was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// By `--kubeconfig` or `KUBECONFIG`.
    Given,
    /// `~/.kube/config`.
    Home(PathBuf),
    /// The service account of the Pod that this process runs in.
    Pod,
    /// The kubeconfig of the instance that runs on this machine.
    LocalInstance(PathBuf),
}

/// A client of a command, with the cluster that it talks to.
#[derive(Clone)]
pub struct Connection {
    /// The client. Its failures name the server: see [`describe`].
    pub client: Client,
    /// The address of the API server.
    pub server: Uri,
    /// How the cluster was chosen.
    pub origin: Origin,
}

/// Makes a client for a service. It connects at its first request.
pub async fn connect(args: &ClientArgs) -> Result<Client, ConnectError> {
    tls::install_provider();
    let (config, _) = config(args, home_kubeconfig(), || None).await?;
    let url = config.cluster_url.clone();
    Client::try_from(config).map_err(|error| ConnectError::Client {
        url,
        error: error.into(),
    })
}

/// Makes a client for a command that a person typed. It connects at its first request, and its failures name the
/// server.
///
/// `local_instance` finds the kubeconfig of an instance on this machine. It is asked last.
pub async fn connect_command(
    args: &ClientArgs,
    local_instance: impl FnOnce() -> Option<PathBuf>,
) -> Result<Connection, ConnectError> {
    tls::install_provider();
    let (mut config, origin) = config(args, home_kubeconfig(), local_instance).await?;
    config.connect_timeout = Some(COMMAND_CONNECT_TIMEOUT);
    let server = config.cluster_url.clone();
    let builder = ClientBuilder::try_from(config).map_err(|error| ConnectError::Client {
        url: server.clone(),
        error: error.into(),
    })?;
    let client = builder.with_layer(&address::layer(&server)).build();
    Ok(Connection {
        client,
        server,
        origin,
    })
}

fn home_kubeconfig() -> Option<PathBuf> {
    let path = Path::new(&env::read(env::HOME)?).join(".kube/config");
    path.exists().then_some(path)
}

/// The configuration of a client: the given kubeconfig, else the one in the home directory, else the service account of
/// the Pod, else the instance on this machine. What names no context is passed over.
async fn config(
    args: &ClientArgs,
    home: Option<PathBuf>,
    local_instance: impl FnOnce() -> Option<PathBuf>,
) -> Result<(Config, Origin), ConnectError> {
    let ClientArgs {
        kubeconfig,
        context,
        as_user,
        as_group,
    } = args;
    let (mut config, origin) = chosen(
        kubeconfig.as_ref(),
        context.as_deref(),
        home,
        local_instance,
    )
    .await?;
    if let Some(user) = as_user {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups =
            Some(as_group.clone()).filter(|groups| !groups.is_empty());
    }
    let user_agent = HeaderValue::from_str(&user_agent()).expect("a version is visible ASCII");
    config.headers.push((USER_AGENT, user_agent));
    Ok((config, origin))
}

async fn chosen(
    given: Option<&PathBuf>,
    context: Option<&str>,
    home: Option<PathBuf>,
    local_instance: impl FnOnce() -> Option<PathBuf>,
) -> Result<(Config, Origin), ConnectError> {
    if let Some(path) = given {
        return Ok((from_files(path, context).await?, Origin::Given));
    }
    if let Some(path) = home.clone()
        && offers(&path, context)?
    {
        return Ok((from_files(&path, context).await?, Origin::Home(path)));
    }
    // A service account has no contexts.
    if context.is_none()
        && let Ok(config) = Config::incluster()
    {
        return Ok((config, Origin::Pod));
    }
    if let Some(path) = local_instance()
        && offers(&path, context)?
    {
        let config = from_files(&path, context).await?;
        return Ok((config, Origin::LocalInstance(path)));
    }
    let path = home.ok_or(ConnectError::NoCluster)?;
    Ok((from_files(&path, context).await?, Origin::Home(path)))
}

/// Whether a kubeconfig has the context, or a current one if none is asked for.
fn offers(path: &Path, context: Option<&str>) -> Result<bool, ConnectError> {
    let kubeconfig = read(path)?;
    Ok(match context {
        Some(context) => kubeconfig
            .contexts
            .iter()
            .any(|named| named.name == context),
        None => kubeconfig
            .current_context
            .is_some_and(|context| !context.is_empty()),
    })
}

fn read(path: &Path) -> Result<Kubeconfig, ConnectError> {
    Kubeconfig::read_from(path).map_err(|error| ConnectError::Read {
        path: path.to_owned(),
        error: match error {
            // Its message would name the file again.
            KubeconfigError::ReadConfig(error, _) => error.into(),
            other => other.into(),
        },
    })
}

/// How we call ourselves.
pub fn user_agent() -> String {
    format!("polity/{VERSION}")
}

/// Reads the files of a variable, which may be a list as kubectl knows it. A file of such a list that is missing is
/// passed over.
async fn from_files(paths: &Path, context: Option<&str>) -> Result<Config, ConnectError> {
    let list: Vec<PathBuf> = std::env::split_paths(&paths)
        .filter(|path| path.as_os_str() != OsStr::new(""))
        .collect();
    let is_list = list.len() > 1;
    let mut merged = Kubeconfig::default();
    for path in list.into_iter().filter(|path| !is_list || path.exists()) {
        let next = read(&path)?;
        merged = merged.merge(next).map_err(|error| ConnectError::Use {
            path,
            error: error.into(),
        })?;
    }
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    Config::from_custom_kubeconfig(merged, &options)
        .await
        .map_err(|error| ConnectError::Use {
            path: paths.to_owned(),
            error: error.into(),
        })
}

#[cfg(test)]
mod tests;
