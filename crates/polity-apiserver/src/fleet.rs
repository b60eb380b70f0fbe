//! Several clusters in one process, on one listener: the hub at the root, and each cluster behind
//! `/clusters/{name}`.

mod addresses;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures::future::try_join_all;
use jiff::Timestamp;
use polity_pki::{Authority, ServerNames};
use polity_runtime::clock::Clock;
use polity_runtime::serve::{BindError, Limits, Server};
use polity_runtime::shutdown::Tasks;
use polity_runtime::tls::{ClientAuthMode, ServerTls, TlsError, TlsMaterial};
use polity_store::{OpenError, Options};
use tracing::info;

use crate::cluster::identity::{self, Identity, IdentityError, KeyStorage};
use crate::cluster::{Cluster, ClusterOptions};
use crate::controllers::{self, bootstrap};
use crate::http_api::{self, Incoming, respond};
use crate::metrics::RequestMetrics;
use crate::request::body::BodyBudget;
use crate::served::Compiler;
use polity_auth::AuthorizationMode;
use polity_kinds::status::ApiError;

/// The validity of the serving certificate, which is created at every start.
const SERVING_LIFE: Duration = Duration::from_hours(397 * 24);

/// The options of a fleet.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// `None`: nothing outlives the process.
    pub data_dir: Option<PathBuf>,
    pub listen: SocketAddr,
    /// The cluster served at the root.
    pub hub: String,
    /// The names of the member clusters.
    pub members: Vec<String>,
    pub authorization: AuthorizationMode,
    pub clock: Clock,
    pub limits: Limits,
}

/// A fleet that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    #[error("opening the store of cluster {cluster:?}")]
    Store { cluster: String, source: OpenError },
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("creating the serving certificate")]
    Certificate(#[source] polity_pki::AuthorityError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error("setting up cluster {cluster:?}")]
    Bootstrap { cluster: String, source: ApiError },
}

/// A listening, serving fleet.
pub struct Fleet {
    address: SocketAddr,
    authority_pem: String,
    hub: String,
    clusters: Arc<BTreeMap<String, Arc<Cluster>>>,
}

impl Fleet {
    /// Binds, opens, sets up and serves; everything ends with the shutdown of `tasks`.
    pub async fn start(
        options: FleetOptions,
        tasks: &Tasks,
        metrics: RequestMetrics,
    ) -> Result<Self, FleetError> {
        // Bound first: a taken port is known before anything is written.
        let server = Server::bind(options.listen)
            .await?
            .with_limits(options.limits);
        let address = server.address();
        let now = options.clock.now();
        let root_storage = options.data_dir.as_ref().map_or(KeyStorage::Memory, |dir| {
            KeyStorage::Directory(dir.join("pki"))
        });
        let authority = root_storage.keep_authority("ca.pem", "polity", now)?;
        let authority_pem = authority.certificate().to_pem();
        let compiler = Compiler::default();
        let body_budget = BodyBudget::default();
        let mut clusters = BTreeMap::new();
        for name in std::iter::once(&options.hub).chain(&options.members) {
            clusters.insert(
                name.clone(),
                open(name, &options, &compiler, &body_budget, &authority_pem, now)?,
            );
        }
        let tls = serving_tls(&authority, address, clusters.values(), now)?;
        // All at once: most of it is waiting for disks.
        try_join_all(clusters.values().map(async |cluster| {
            let failed = |source| FleetError::Bootstrap {
                cluster: cluster.name().to_owned(),
                source,
            };
            bootstrap::run(cluster).await.map_err(failed)
        }))
        .await?;
        for cluster in clusters.values() {
            controllers::start(cluster, tasks);
        }
        let fleet = Self {
            address,
            authority_pem,
            hub: options.hub,
            clusters: Arc::new(clusters),
        };
        fleet.serve(server.with_tls(tls), tasks, metrics);
        info!(%address, n_clusters = fleet.clusters.len(), "serving");
        Ok(fleet)
    }

    fn serve(&self, server: Server, tasks: &Tasks, metrics: RequestMetrics) {
        let router = router(self.hub.clone(), self.clusters.clone(), metrics);
        let shutdown = tasks.shutdown().clone();
        tasks.spawn("api server", async move {
            server.run(router, shutdown).await;
            Ok::<(), std::convert::Infallible>(())
        });
        let (shutdown, clusters) = (tasks.shutdown().clone(), self.clusters.clone());
        tasks.spawn_finite("watch closer", async move {
            shutdown.triggered().await;
            // Open watches end, or the drain would wait for them.
            for cluster in clusters.values() {
                cluster.shut_down();
            }
            Ok::<(), std::convert::Infallible>(())
        });
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The CA of the serving certificate.
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    pub fn hub(&self) -> &Arc<Cluster> {
        &self.clusters[&self.hub]
    }

    /// All clusters by name, the hub among them.
    pub fn clusters(&self) -> &BTreeMap<String, Arc<Cluster>> {
        &self.clusters
    }

    /// The URL of a cluster, for clients of this machine.
    pub fn url(&self, cluster: &str) -> String {
        let root = format!("https://{}", addresses::reached_at(self.address));
        if cluster == self.hub {
            root
        } else {
            format!("{root}/clusters/{cluster}")
        }
    }

    /// Flushes and closes every store, after the shutdown.
    pub async fn close(self) {
        for cluster in self.clusters.values() {
            cluster.store().clone().close().await;
        }
    }
}

fn open(
    name: &str,
    options: &FleetOptions,
    compiler: &Compiler,
    body_budget: &BodyBudget,
    authority_pem: &str,
    now: Timestamp,
) -> Result<Arc<Cluster>, FleetError> {
    let directory = options
        .data_dir
        .as_ref()
        .map(|dir| identity::directory_of(dir, name));
    let storage = directory
        .as_ref()
        .map_or(KeyStorage::Memory, |dir| KeyStorage::Directory(dir.clone()));
    let store = directory.map_or_else(Options::memory, |dir| Options::directory(dir.join("store")));
    // Open the store first: it detects whether another process uses this directory.
    let failed = |source| FleetError::Store {
        cluster: name.to_owned(),
        source,
    };
    let identity = Identity::load(name, &storage, authority_pem, now)?;
    Cluster::open(ClusterOptions {
        name: name.to_owned(),
        store,
        authorization: options.authorization,
        clock: options.clock.clone(),
        identity,
        compiler: compiler.clone(),
        body_budget: body_budget.clone(),
    })
    .map_err(failed)
}

/// A fresh certificate under the kept CA.
fn serving_tls<'a>(
    authority: &Authority,
    address: SocketAddr,
    clusters: impl Iterator<Item = &'a Arc<Cluster>>,
    now: Timestamp,
) -> Result<ServerTls, FleetError> {
    let mut names = ServerNames::new("polity-apiserver")
        .dns("localhost")
        .dns("kubernetes")
        .dns("kubernetes.default")
        .dns("kubernetes.default.svc")
        .dns("kubernetes.default.svc.cluster.local")
        .ip([127, 0, 0, 1])
        .ip(std::net::Ipv6Addr::LOCALHOST);
    for address in addresses::served(address.ip()) {
        names = names.ip(address);
    }
    if let Ok(name) = rustix::system::uname()
        .nodename()
        .to_str()
        .map(str::to_lowercase)
        && polity_core::name::dns_subdomain(&name).is_ok()
    {
        names = names.dns(name);
    }
    let issued = authority
        .issue_server(&names, SERVING_LIFE, now)
        .map_err(FleetError::Certificate)?;
    let client_authorities: String = clusters
        .filter_map(|cluster| cluster.identity().client_authority())
        .map(polity_pki::Certificate::to_pem)
        .collect();
    let material = TlsMaterial::new(issued.certificate.to_pem(), issued.key.to_pem())
        .with_client_auth(ClientAuthMode::Optional, client_authorities);
    Ok(ServerTls::new(&material)?)
}

/// The whole HTTP surface, without a socket.
pub fn router(
    hub: String,
    clusters: Arc<BTreeMap<String, Arc<Cluster>>>,
    metrics: RequestMetrics,
) -> Router {
    Router::new().fallback(handle).with_state(Arc::new(App {
        hub,
        clusters,
        metrics,
    }))
}

struct App {
    hub: String,
    clusters: Arc<BTreeMap<String, Arc<Cluster>>>,
    metrics: RequestMetrics,
}

async fn handle(State(app): State<Arc<App>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let (name, path) = match path.strip_prefix("/clusters/") {
        None => (app.hub.clone(), path),
        Some(rest) => match rest.find('/') {
            Some(at) => (rest[..at].to_owned(), rest[at..].to_owned()),
            None => (rest.to_owned(), "/".to_owned()),
        },
    };
    let Some(cluster) = app.clusters.get(&name) else {
        return respond::page_not_found();
    };
    let started = cluster.clock().moment();
    let incoming = Incoming::new(request.map(Body::new), path);
    let (response, labels) = http_api::handle(cluster, incoming, &app.metrics).await;
    let took = cluster.clock().moment().since(started);
    app.metrics.observe(&labels, response.status(), took);
    response
}
