//! The server over a file of policies: bind, load, ready; not ready, drain, end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use polity_eval::{
    CachedServices, Engine, EngineError, EngineOptions, Environment, PolicyConfig, parse_policies,
};
use polity_fetch::SourcesError;
use polity_host::{Cluster, ClusterLimits, HostServices, Modules, ServicesOptions};
use polity_runtime::admin::{self, Readiness};
use polity_runtime::args::ClientArgs;
use polity_runtime::changes::ReloadTiming;
use polity_runtime::client::{self, ConnectError};
use polity_runtime::metrics::Metrics;
use polity_runtime::serve::{BindError, Limits, Server};
use polity_runtime::shutdown::{self, TaskEnd};
use polity_runtime::tls::{TlsError, TlsFiles};
use polity_runtime::{Clock, Shutdown, Tasks};
use tracing::{debug, info, warn};

use crate::load::{LoadError, Loader};
use crate::metrics::ServerMetrics;
use crate::process::{
    DRAIN, ModuleOptions, OffTheWorker, beyond_this_machine, follow_certificate, probe, run_server,
};
use crate::reload::Follower;
use crate::review::{RequestLimits, ReviewService, ReviewServiceOptions};
use crate::table::PolicyTable;

/// How long a cluster may take to say that it is there.
const CLUSTER_PATIENCE: Duration = Duration::from_secs(10);

/// Everything a server is told.
#[derive(Debug, Clone)]
pub struct StandaloneOptions {
    /// The file with the policies.
    pub policies: PathBuf,
    /// Where requests come in.
    pub listen: SocketAddr,
    /// Where readiness, liveness and metrics are told.
    pub readiness_listen: SocketAddr,
    /// Without: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Limits of guests.
    pub engine: EngineOptions,
    /// Where modules come from and are kept.
    pub modules: ModuleOptions,
    /// The cluster that policies may ask about.
    pub cluster: ClusterChoice,
    /// How long an evaluation may take; `None`: nothing is limited in time.
    pub policy_timeout: Option<Duration>,
    /// Requests for this namespace are let through unseen.
    pub always_accept_namespace: Option<String>,
    /// What requests may take.
    pub limits: RequestLimits,
    /// Whether policies that are not ready are served as such.
    pub continue_on_errors: bool,
    /// How long to go on serving after the order to stop, while callers learn of it.
    pub shutdown_delay: Duration,
    /// Where things are counted.
    pub metrics: Metrics,
    /// What time it is.
    pub clock: Clock,
}

/// Which cluster, and whether it must be there.
#[derive(Debug, Clone, Default)]
pub struct ClusterChoice {
    /// How it is found.
    pub client: ClientArgs,
    /// Whether policies that read it are served without it.
    pub may_be_missing: bool,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StandaloneError {
    /// The file cannot be read.
    #[error("reading {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        error: std::io::Error,
    },
    /// The file cannot be served.
    #[error("serving {}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        error: LoadError,
    },
    /// `sources.yml` cannot be used.
    #[error(transparent)]
    Sources(#[from] SourcesError),
    /// The certificate cannot be used.
    #[error("setting up TLS")]
    Tls(#[from] TlsError),
    /// A port is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The Wasm engine cannot be made.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Signals cannot be heard.
    #[error("listening to signals")]
    Signals(#[source] std::io::Error),
    /// Policies read the cluster, and it is not known where it is.
    #[error("policies in the file read the cluster")]
    NoCluster(#[source] ConnectError),
    /// Policies read the cluster, and it does not answer.
    #[error("policies in the file read the cluster, and it does not answer: {reason}")]
    ClusterSilent {
        /// What went wrong.
        reason: String,
    },
}

/// A server that serves.
#[derive(Debug)]
pub struct Standalone {
    address: SocketAddr,
    readiness_address: SocketAddr,
    readiness: Readiness,
    serving: Tasks,
    admin: Tasks,
    shutdown_delay: Duration,
    clock: Clock,
}

impl Standalone {
    /// Starts: when this returns, requests are answered.
    pub async fn start(options: StandaloneOptions) -> Result<Self, StandaloneError> {
        let (serving, admin) = (Tasks::new(Shutdown::new()), Tasks::new(Shutdown::new()));
        let started = start(options, serving.clone(), admin.clone()).await;
        if started.is_err() {
            serving.shutdown().trigger();
            admin.shutdown().trigger();
        }
        started
    }

    /// Where requests come in.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where readiness, liveness and metrics are told.
    pub fn readiness_address(&self) -> SocketAddr {
        self.readiness_address
    }

    /// Serves until the shutdown, then: not ready, goes on for a while, finishes what runs, ends.
    /// Answers what went wrong first, if anything did.
    pub async fn run_until(self, shutdown: Shutdown) -> Result<(), TaskEnd> {
        let failed = self.serving.shutdown().clone();
        let stopping = failed.run_until(shutdown.triggered()).await;
        self.readiness.drain();
        if stopping.is_some() {
            info!(delay = ?self.shutdown_delay, "not ready any more, serving on for a while");
            failed
                .run_until(self.clock.sleep(self.shutdown_delay))
                .await;
        }
        failed.trigger();
        let mut ends = self
            .serving
            .finish(&self.clock, DRAIN + Duration::from_secs(2))
            .await;
        self.admin.shutdown().trigger();
        ends.extend(self.admin.finish(&self.clock, Duration::from_secs(2)).await);
        info!("stopped");
        ends.into_iter().next().map_or(Ok(()), Err)
    }
}

async fn start(
    options: StandaloneOptions,
    serving: Tasks,
    admin_tasks: Tasks,
) -> Result<Standalone, StandaloneError> {
    let StandaloneOptions {
        policies: path,
        listen,
        readiness_listen,
        tls,
        engine,
        modules,
        cluster,
        policy_timeout,
        always_accept_namespace,
        limits,
        continue_on_errors,
        shutdown_delay,
        metrics,
        clock,
    } = options;
    let text = read(&path).await?;
    let fetcher = modules.fetcher(engine.limits.module_size)?;
    let server = Server::bind(listen).await?.with_limits(Limits {
        drain_timeout: DRAIN,
        ..Limits::default()
    });
    let server = follow_certificate(server, tls, &serving, &clock).await?;
    let readiness = Readiness::new();
    let part = readiness.part("policies", "loading");
    let admin_server = Server::bind(readiness_listen).await?;
    let readiness_address = admin_server.address();
    let router = admin::router(readiness.clone(), metrics.clone()).merge(probe(readiness.clone()));
    run_server(&admin_tasks, "admin port", admin_server, router);

    let cluster = find_cluster(cluster, needs_cluster(&text), &clock).await?;
    let services = HostServices::new(ServicesOptions {
        cluster,
        fetcher: beyond_this_machine(&fetcher),
        runtime: tokio::runtime::Handle::current(),
        clock: clock.clone(),
    });
    let environment = Environment {
        default_timeout: policy_timeout,
        timeouts: policy_timeout.is_some(),
        always_accept_namespace,
        ..Environment::new(Arc::new(CachedServices::new(OffTheWorker(services))))
    };
    let server_metrics = ServerMetrics::new(&metrics.meter("kubewarden"));
    let loader = Loader {
        modules: Modules::new(Engine::new(&engine)?, fetcher),
        environment: environment.clone(),
        parallelism: limits.queue.places.max(2),
        continue_on_errors,
        metrics: server_metrics.clone(),
    };
    let loaded = loader.load(&text).await;
    let loaded = loaded.map_err(|error| StandaloneError::Load {
        path: path.clone(),
        error,
    })?;
    server_metrics.serving(&loaded);
    let (n_policies, n_failed) = (loaded.n_policies(), loaded.n_failed());
    let table = Arc::new(ArcSwap::from_pointee(loaded));

    let address = server.address();
    let reviews = ReviewService::new(ReviewServiceOptions {
        environment,
        table: table.clone(),
        limits,
        metrics: server_metrics,
        clock: clock.clone(),
    });
    run_server(&serving, "review endpoint", server, reviews);
    follow_file(path, text, loader, table, &serving, &clock)?;
    part.ready("loaded");
    info!(%address, readiness = %readiness_address, n_policies, n_failed, "serving");
    Ok(Standalone {
        address,
        readiness_address,
        readiness,
        serving,
        admin: admin_tasks,
        shutdown_delay,
        clock,
    })
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

/// Whether a policy was granted a look at the cluster. What cannot be parsed is told of later.
fn needs_cluster(text: &str) -> bool {
    parse_policies(text).is_ok_and(|configs| {
        configs
            .values()
            .flat_map(PolicyConfig::guests)
            .any(|(_, guest)| !guest.resources.is_empty())
    })
}

/// The cluster that policies ask about. Nobody is asked anything unless a policy reads it.
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
        let answer = tokio::select! {
            answer = client.apiserver_version() => answer.map(drop).map_err(|error| error.to_string()),
            () = clock.sleep(CLUSTER_PATIENCE) => Err("no answer in time".to_owned()),
        };
        match answer {
            Ok(()) => {}
            Err(reason) if choice.may_be_missing => {
                warn!(%reason, "the cluster does not answer, policies that read it will not get far");
            }
            Err(reason) => return Err(StandaloneError::ClusterSilent { reason }),
        }
    }
    let cluster = Cluster::new(client, ClusterLimits::default(), clock.clone());
    Ok(Some(cluster))
}
