//! Puts a server together: ports first, then what follows the cluster.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::{Api, Client};
use polity_eval::{CachedServices, Engine, Environment};
use polity_fetch::{Digest, Fetcher};
use polity_host::{
    CacheBuild, CacheIdentity, Cluster, ClusterLimits, HostServices, ServicesOptions,
};
use polity_runtime::admin::{self, Part, Readiness};
use polity_runtime::changes::ReloadTiming;
use polity_runtime::lease::{Election, Elector};
use polity_runtime::metrics::Metrics;
use polity_runtime::retry::random;
use polity_runtime::serve::{Limits, Server};
use polity_runtime::tls::TlsFiles;
use polity_runtime::{Clock, Shutdown, Tasks, VERSION, parent};
use tracing::info;

use crate::managed::cache::modules::ModuleLoader;
use crate::managed::cache::shared::{CacheOptions, SharedVault};
use crate::managed::cache::upkeep::Upkeep;
use crate::managed::cache::vault::{OwnVault, Vault};
use crate::managed::leader::attempts::{Attempts, Sandbox};
use crate::managed::leader::{self, LeaderParts};
use crate::managed::prepare::Preparer;
use crate::managed::replica::grants::NamespacedGrants;
use crate::managed::replica::markers::Markers;
use crate::managed::replica::{Replica, ReplicaParts};
use crate::managed::revision::store::Store;
use crate::managed::status::Build;
use crate::managed::status::writer::Writer;
use crate::managed::{Managed, ManagedError, ManagedOptions, ReplicaIdentity};
use crate::metrics::ServerMetrics;
use crate::process::{
    DRAIN, ModuleOptions, OffTheWorker, beyond_this_machine, follow_certificate, probe, run_server,
};
use crate::table::PolicyTable;
use crate::webhook::{Webhook, WebhookOptions};

/// The tasks of a server, by when they end.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    /// What follows the cluster: ends first.
    pub(super) control: Tasks,
    pub(super) serving: Tasks,
    /// What tells whether we are ready: ends last.
    pub(super) admin: Tasks,
}

impl Groups {
    pub(super) fn new() -> Self {
        let tasks = || Tasks::new(Shutdown::new());
        Self {
            control: tasks(),
            serving: tasks(),
            admin: tasks(),
        }
    }

    pub(super) fn stop(&self) {
        for tasks in [&self.control, &self.serving, &self.admin] {
            tasks.shutdown().trigger();
        }
    }
}

/// Starts everything.
pub(super) async fn start(
    options: ManagedOptions,
    groups: Groups,
) -> Result<Managed, ManagedError> {
    let ManagedOptions {
        identity,
        client,
        listen,
        readiness_listen,
        tls,
        engine,
        modules,
        cache,
        server_config,
        policy_timeout,
        always_accept_namespace,
        limits,
        shutdown_delay,
        lease,
        metrics,
        clock,
    } = options;
    let replica = identity.ordinal().ok_or_else(|| ManagedError::NoOrdinal {
        pod: identity.pod_name.clone(),
    })?;
    let holder = format!("{}_{}", identity.pod_name, identity.pod_uid);
    let elector = Elector::new(holder, lease)?;
    let sandbox = Sandbox::new(&identity, &parent::identity());
    let markers = Markers::read(modules.store.join("polity-loading"), &sandbox).await;
    let compiling = modules.store.join("polity-compiling");
    let attempts = Arc::new(Attempts::read(compiling, sandbox, random().to_bits()));
    let build = build(&modules).await;
    let fetcher = modules.fetcher(engine.limits.module_size)?;
    let engine = Engine::new(&engine)?;
    let server_metrics = ServerMetrics::new(&metrics.meter("kubewarden"));

    let server = open(listen, tls, &groups, &clock).await?;
    let address = server.address();
    let (readiness, policies) = readiness();
    let readiness_address = open_admin(readiness_listen, &readiness, metrics, &groups).await?;
    let environment = Environment {
        default_timeout: policy_timeout,
        timeouts: policy_timeout.is_some(),
        always_accept_namespace,
        ..environment(client.clone(), &fetcher, &clock)
    };
    let table = Arc::new(ArcSwap::from_pointee(PolicyTable::default()));
    let webhook = Webhook::new(WebhookOptions {
        environment: environment.clone(),
        table: table.clone(),
        limits,
        metrics: server_metrics.clone(),
        clock: clock.clone(),
    });
    run_server(&groups.serving, "webhook", server, webhook);

    let grants = NamespacedGrants::read(server_config).await;
    let own = OwnVault::new(fetcher.store.clone(), &engine);
    let (vault, shared) = vault(own, cache, &identity, &engine).await;
    let preparer = Preparer {
        modules: ModuleLoader::new(
            engine,
            fetcher,
            vault,
            server_metrics.clone(),
            clock.clone(),
        ),
        environment,
        namespaced: grants.current.clone(),
        metrics: server_metrics.clone(),
        clock: clock.clone(),
    };
    let store = Store::new(&identity.server);
    let writer = Writer {
        api: Api::namespaced(client.clone(), &identity.namespace),
        store: store.clone(),
        clock: clock.clone(),
    };
    let control = &groups.control;
    follow_grants(&grants, control, &clock);
    follow_revisions(&store, client.clone(), identity.namespace.clone(), control);
    let parts = ReplicaParts {
        replica,
        store: store.clone(),
        preparer: preparer.clone(),
        grants,
        writer: writer.clone(),
        markers,
        table,
        readiness: policies,
        metrics: server_metrics,
        clock: clock.clone(),
        parallelism: limits.queue.places.max(2),
    };
    let serve = Replica::new(parts).run(control.shutdown().clone());
    control.spawn("replica", serve);
    let lease_name = format!("policy-server-{}", identity.server);
    let leases = Api::namespaced(client.clone(), &identity.namespace);
    let (election, leadership) = Election::new(leases, lease_name, elector, clock.clone());
    let leader = LeaderParts {
        leadership,
        store,
        preparer,
        writer,
        attempts,
        build,
        clock: clock.clone(),
    };
    if let Some(vault) = shared {
        let upkeep = Upkeep {
            leadership: leader.leadership.clone(),
            store: leader.store.clone(),
            vault: vault.clone(),
            stateful_sets: Api::namespaced(client, &identity.namespace),
            stateful_set: identity.stateful_set().to_owned(),
            clock: clock.clone(),
        };
        look_after(vault, upkeep, control);
    }
    take_part(election, leader, control);
    info!(%address, readiness = %readiness_address, server = identity.server, replica, "loading");
    Ok(Managed {
        address,
        readiness_address,
        readiness,
        groups,
        shutdown_delay,
        clock,
    })
}

/// The port for requests.
async fn open(
    listen: SocketAddr,
    tls: Option<TlsFiles>,
    groups: &Groups,
    clock: &Clock,
) -> Result<Server, ManagedError> {
    let server = Server::bind(listen).await?.with_limits(Limits {
        drain_timeout: DRAIN,
        ..Limits::default()
    });
    Ok(follow_certificate(server, tls, &groups.serving, clock).await?)
}

/// Not ready before the policies are.
fn readiness() -> (Readiness, Part) {
    let readiness = Readiness::new();
    let policies = readiness.part("policies", "loading");
    (readiness, policies)
}

/// The port that tells how we are. Answers where it is.
async fn open_admin(
    listen: SocketAddr,
    readiness: &Readiness,
    metrics: Metrics,
    groups: &Groups,
) -> Result<SocketAddr, ManagedError> {
    let server = Server::bind(listen).await?;
    let address = server.address();
    let router = admin::router(readiness.clone(), metrics).merge(probe(readiness.clone()));
    run_server(&groups.admin, "admin port", server, router);
    Ok(address)
}

/// What guests can ask for.
fn environment(client: Client, fetcher: &Fetcher, clock: &Clock) -> Environment {
    let services = HostServices::new(ServicesOptions {
        cluster: Some(Cluster::new(
            client,
            ClusterLimits::default(),
            clock.clone(),
        )),
        fetcher: beyond_this_machine(fetcher),
        runtime: tokio::runtime::Handle::current(),
        clock: clock.clone(),
    });
    Environment::new(Arc::new(CachedServices::new(OffTheWorker(services))))
}

/// Where modules are kept: where the others can read them, if there is such a place.
async fn vault(
    own: OwnVault,
    cache: Option<CacheOptions>,
    identity: &ReplicaIdentity,
    engine: &Engine,
) -> (Arc<dyn Vault>, Option<Arc<SharedVault>>) {
    let Some(options) = cache else {
        return (Arc::new(own), None);
    };
    let identity = CacheIdentity {
        namespace: identity.namespace.clone(),
        server: identity.server.clone(),
    };
    let build = CacheBuild::new(VERSION, engine.compatibility());
    let shared = Arc::new(SharedVault::new(options, identity, build, own));
    shared.look().await;
    (shared.clone(), Some(shared))
}

/// Keeps the cache's signer up to date, and its files in order.
fn look_after(vault: Arc<SharedVault>, upkeep: Upkeep, tasks: &Tasks) {
    let (clock, shutdown) = (upkeep.clock.clone(), tasks.shutdown().clone());
    tasks.spawn("cache signer", async move {
        vault.follow(ReloadTiming::default(), clock, shutdown).await;
        Ok::<_, Infallible>(())
    });
    let upkeep = upkeep.run(tasks.shutdown().clone());
    tasks.spawn("cache upkeep", async move {
        upkeep.await;
        Ok::<_, Infallible>(())
    });
}

/// Who we are, as far as results depend on it: the version, and where modules may come from.
async fn build(modules: &ModuleOptions) -> Build {
    let sources = match &modules.sources {
        Some(path) => tokio::fs::read(path).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let mut config_hash = Digest::of(&sources).hex();
    config_hash.truncate(32);
    Build {
        version: VERSION.to_owned(),
        config_hash,
    }
}

fn follow_grants(grants: &NamespacedGrants, tasks: &Tasks, clock: &Clock) {
    let follow = grants.clone().follow(
        ReloadTiming::default(),
        clock.clone(),
        tasks.shutdown().clone(),
    );
    tasks.spawn("server config", async move {
        follow.await;
        Ok::<_, Infallible>(())
    });
}

fn follow_revisions(store: &Store, client: Client, namespace: String, tasks: &Tasks) {
    let (store, shutdown) = (store.clone(), tasks.shutdown().clone());
    tasks.spawn("revisions", async move {
        shutdown.run_until(store.follow(client, &namespace)).await;
        Ok::<_, Infallible>(())
    });
}

/// Leads when the lease is ours. The lease is given back when all that only a leader does has ended.
fn take_part(election: Election, leader: LeaderParts, tasks: &Tasks) {
    struct TriggerOnDrop(Shutdown);

    impl Drop for TriggerOnDrop {
        fn drop(&mut self) {
            self.0.trigger();
        }
    }

    let (shutdown, led) = (tasks.shutdown().clone(), Shutdown::new());
    let ended = TriggerOnDrop(led.clone());
    tasks.spawn("leader", async move {
        let _ended = ended;
        leader::run(leader, shutdown).await;
        Ok::<_, Infallible>(())
    });
    tasks.spawn("lease", async move {
        election.run(led).await;
        Ok::<_, Infallible>(())
    });
}
