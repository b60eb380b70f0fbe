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

/// Why a client cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A kubeconfig file could not be read.
    #[error("cannot read kubeconfig {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The kubeconfig cannot be used, for example because it lacks the requested context.
    #[error("cannot use kubeconfig {}", path.display())]
    Use {
        /// The file, or the list of files.
        path: PathBuf,
        #[source]
        error: Box<KubeconfigError>,
    },
    /// No kubeconfig has the context that was asked for.
    #[error("there is no context {context:?} in {}", paths(known))]
    NoContext {
        /// The context.
        context: String,
        /// The kubeconfigs that were searched, with their contexts.
        known: Vec<(PathBuf, Vec<String>)>,
    },
    /// Neither a kubeconfig, nor the service account of a Pod, nor a local instance.
    #[error(
        "no cluster to talk to: no kubeconfig was given, ~/.kube/config does not exist, this is not a Pod, and no local instance runs"
    )]
    NoCluster,
    #[error("cannot create a client for {url}")]
    Client {
        url: Uri,
        #[source]
        error: Box<kube::Error>,
    },
}

impl ConnectError {
    /// What the user can do, for a line `hint: …`.
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::Read { error, .. } if is_missing(error.as_ref()) => {
                "check --kubeconfig and the variable KUBECONFIG; `polity up` starts a local instance and writes its kubeconfig"
            }
            Self::Read { .. } => "check --kubeconfig and the variable KUBECONFIG",
            Self::Use { .. } => {
                "`kubectl config get-contexts` lists the contexts; choose one with --context"
            }
            Self::NoContext { known, .. } => {
                let mut contexts: Vec<&str> = known
                    .iter()
                    .flat_map(|(_, contexts)| contexts.iter().map(String::as_str))
                    .collect();
                contexts.dedup();
                if contexts.is_empty() {
                    "that kubeconfig has no contexts; name another with --kubeconfig"
                } else {
                    return format!("choose one with --context: {}", contexts.join(", "));
                }
            }
            Self::NoCluster => {
                "pass --kubeconfig FILE, or start a local instance with `polity up`; for one that runs with --data-dir DIR: export KUBECONFIG=DIR/kubeconfig"
            }
            Self::Client { .. } => "check the certificates and credentials in the kubeconfig",
        };
        hint.to_owned()
    }
}

fn is_missing(error: &(dyn std::error::Error + 'static)) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn paths(known: &[(PathBuf, Vec<String>)]) -> String {
    let paths: Vec<String> = known
        .iter()
        .map(|(path, _)| path.display().to_string())
        .collect();
    paths.join(" or ")
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

/// The client of a command, with the address of its cluster.
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

/// Creates a client for a command that a user typed. It connects at its first request, and its errors contain the
/// address of the server.
///
/// `local_instance` finds the kubeconfig of an instance on this machine. It is called last.
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

/// The configuration of a client: the given kubeconfig, else the one in the home directory, else the ServiceAccount of
/// the Pod, else the instance on this machine. Kubeconfigs without a context are skipped.
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
    let local = local_instance();
    if let Some(path) = local.clone()
        && offers(&path, context)?
    {
        let config = from_files(&path, context).await?;
        return Ok((config, Origin::LocalInstance(path)));
    }
    if let Some(context) = context {
        let searched: Vec<PathBuf> = home.into_iter().chain(local).collect();
        return Err(no_context(context, searched)?);
    }
    let path = home.ok_or(ConnectError::NoCluster)?;
    Ok((from_files(&path, context).await?, Origin::Home(path)))
}

/// The error for a context that none of these kubeconfigs has.
fn no_context(context: &str, searched: Vec<PathBuf>) -> Result<ConnectError, ConnectError> {
    if searched.is_empty() {
        return Ok(ConnectError::NoCluster);
    }
    let mut known = Vec::new();
    for path in searched {
        let contexts = names_of_contexts(&read(&path)?);
        known.push((path, contexts));
    }
    Ok(ConnectError::NoContext {
        context: context.to_owned(),
        known,
    })
}

fn names_of_contexts(kubeconfig: &Kubeconfig) -> Vec<String> {
    let contexts = kubeconfig.contexts.iter();
    contexts.map(|context| context.name.clone()).collect()
}

/// Whether a kubeconfig has the requested context, or a current one if none is requested.
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

/// The `User-Agent` of our requests.
pub fn user_agent() -> String {
    format!("polity/{VERSION}")
}

/// Reads the files of a variable, which may be a list as in kubectl. A missing file of such a list is skipped.
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
    if let Some(context) = context {
        let known = names_of_contexts(&merged);
        if !known.iter().any(|name| name == context) {
            return Err(ConnectError::NoContext {
                context: context.to_owned(),
                known: vec![(paths.to_owned(), known)],
            });
        }
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
