//! A policy server over a file of policies.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use polity_eval::{PolicyConfig, parse_policies};
use polity_host::{Cluster, ClusterLimits, Modules};
use polity_runtime::args::ClientArgs;
use polity_runtime::changes::ReloadTiming;
use polity_runtime::client::{self, ConnectError};
use polity_runtime::{Clock, Tasks, shutdown};
use tracing::{debug, info, warn};

use crate::load::{LoadError, Loader};
use crate::reload::Follower;
use crate::server::{OpenServer, RunningServer, ServerOptions, StartError, TaskGroups};
use crate::table::PolicyTable;

/// How long a cluster may take to respond.
const CLUSTER_PATIENCE: Duration = Duration::from_secs(10);

/// The options of a server over a file of policies.
#[derive(Debug, Clone)]
pub struct StandaloneOptions {
    /// The options that every server has.
    pub server: ServerOptions,
    /// The file with the policies.
    pub policies: PathBuf,
    /// The cluster that policies may read.
    pub cluster: ClusterChoice,
    /// Whether to serve when policies are not ready: their requests are then refused with the reason.
    pub continue_on_errors: bool,
}

/// The cluster that policies may read, and whether it must be there.
#[derive(Debug, Clone, Default)]
pub struct ClusterChoice {
    /// How to connect to it.
    pub client: ClientArgs,
    /// Whether to serve policies that read it without it.
    pub may_be_missing: bool,
}

/// Why a server over a file did not start.
#[derive(Debug, thiserror::Error)]
pub enum StandaloneError {
    /// The file cannot be read.
    #[error("reading {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        #[source]
        error: std::io::Error,
    },
    /// The policies in the file cannot be served.
    #[error("serving {}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        error: LoadError,
    },
    /// A part that every server has did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The process cannot receive signals.
    #[error("listening to signals")]
    Signals(#[source] std::io::Error),
    /// Policies read the cluster, and there is no configuration for it.
    #[error("cannot reach the cluster that these policies need")]
    NoCluster(#[source] ConnectError),
    /// Policies read the cluster, and it does not respond.
    #[error("cannot reach the cluster that these policies need: {reason}")]
    ClusterSilent {
        /// Why the request to it failed.
        reason: String,
    },
}

impl StandaloneOptions {
    /// Starts a server. When this returns, the policies are loaded and requests are answered.
    pub async fn start(self) -> Result<RunningServer, StandaloneError> {
        TaskGroups::start(async |tasks| start(self, tasks).await).await
    }
}

async fn start(
    options: StandaloneOptions,
    tasks: TaskGroups,
) -> Result<RunningServer, StandaloneError> {
    let StandaloneOptions {
        server,
        policies: path,
        cluster,
        continue_on_errors,
    } = options;
    let text = read(&path).await?;
    let open = OpenServer::open(server, tasks).await?;
    let cluster = find_cluster(cluster, needs_cluster(&text), &open.clock).await?;
    let environment = open.environment(cluster);
    let loader = Loader {
        modules: Modules::new(open.engine.clone(), open.fetcher.clone()),
        environment: environment.clone(),
        parallelism: open.parallelism,
        continue_on_errors,
        metrics: open.metrics.clone(),
    };
    let loaded = loader.load(&text).await;
    let loaded = loaded.map_err(|error| StandaloneError::Load {
        path: path.clone(),
        error,
    })?;
    open.metrics.serving(&loaded);
    let (n_policies, n_failed) = (loaded.n_policies(), loaded.n_failed());
    open.table.store(Arc::new(loaded));

    let (table, policies) = (open.table.clone(), open.policies.clone());
    let (control, clock) = (open.tasks.control.clone(), open.clock.clone());
    let server = open.serve(environment);
    follow_file(path, text, loader, table, &control, &clock)?;
    policies.ready("loaded");
    info!(
        address = %server.address(),
        readiness = %server.readiness_address(),
        n_policies,
        n_failed,
        "serving"
    );
    Ok(server)
}

async fn read(path: &PathBuf) -> Result<String, StandaloneError> {
    tokio::fs::read_to_string(path)
        .await
        .map_err(|error| StandaloneError::Read {
            path: path.clone(),
            error,
        })
}

fn follow_file(
    path: PathBuf,
    current: String,
    loader: Loader,
    table: Arc<ArcSwap<PolicyTable>>,
    tasks: &Tasks,
    clock: &Clock,
) -> Result<(), StandaloneError> {
    let hangups = shutdown::hangups().map_err(StandaloneError::Signals)?;
    let follower = Follower {
        path,
        current,
        loader,
        table,
    };
    tasks.spawn(
        "policies file",
        follower.run(
            hangups,
            ReloadTiming::default(),
            clock.clone(),
            tasks.shutdown().clone(),
        ),
    );
    Ok(())
}

/// Whether a policy may read the cluster. A file that cannot be parsed is refused later, when it is loaded.
fn needs_cluster(text: &str) -> bool {
    parse_policies(text).is_ok_and(|configs| {
        configs
            .values()
            .flat_map(PolicyConfig::guests)
            .any(|(_, guest)| !guest.resources.is_empty())
    })
}

/// The cluster that policies read. A request is sent to it only if a policy reads it.
async fn find_cluster(
    choice: ClusterChoice,
    is_needed: bool,
    clock: &Clock,
) -> Result<Option<Cluster>, StandaloneError> {
    let client = match client::connect(&choice.client).await {
        Ok(client) => client,
        Err(error) if is_needed && !choice.may_be_missing => {
            return Err(StandaloneError::NoCluster(error));
        }
        Err(error) => {
            debug!(error = &error as &dyn std::error::Error, "no cluster");
            return Ok(None);
        }
    };
    if is_needed {
        let responds = tokio::select! {
            version = client.apiserver_version() => version.map(drop).map_err(|error| error.to_string()),
            () = clock.sleep(CLUSTER_PATIENCE) => Err(format!("no response within {CLUSTER_PATIENCE:?}")),
        };
        match responds {
            Ok(()) => {}
            Err(reason) if choice.may_be_missing => {
                warn!(%reason, "cannot reach the cluster, host calls that read it will fail");
            }
            Err(reason) => return Err(StandaloneError::ClusterSilent { reason }),
        }
    }
    let cluster = Cluster::new(client, ClusterLimits::default(), clock.clone());
    Ok(Some(cluster))
}
