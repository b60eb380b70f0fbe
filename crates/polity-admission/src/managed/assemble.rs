//! Starts a server in a cluster: ports first, then the tasks that follow the cluster.

use std::convert::Infallible;
use std::sync::Arc;

use kube::Api;
use polity_eval::Engine;
use polity_fetch::Digest;
use polity_host::{CacheBuild, CacheIdentity, Cluster, ClusterLimits};
use polity_reconcile::{Controller, ControllerMetrics, LeaderElection, Term};
use polity_runtime::changes::ReloadTiming;
use polity_runtime::lease::Elector;
use polity_runtime::retry::random;
use polity_runtime::{Clock, Tasks, VERSION, parent};
use tokio::sync::Mutex;
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
use crate::managed::replica::reports::{self, Reports};
use crate::managed::replica::{Replica, ReplicaParts};
use crate::managed::revision::Uid;
use crate::managed::revision::store::Store;
use crate::managed::status::Build;
use crate::managed::status::writer::StatusWriter;
use crate::managed::{ManagedError, ManagedOptions, ReplicaIdentity};
use crate::server::{ModuleOptions, OpenServer, RunningServer, TaskGroups};

/// Opens the ports, then starts the tasks that follow the cluster.
pub(super) async fn start(
    options: ManagedOptions,
    tasks: TaskGroups,
) -> Result<RunningServer, ManagedError> {
    let ManagedOptions {
        server,
        identity,
        client,
        cache,
        server_config,
        lease,
    } = options;
    let replica = identity.ordinal().ok_or_else(|| ManagedError::NoOrdinal {
        pod: identity.pod_name.clone(),
    })?;
    let holder = format!("{}_{}", identity.pod_name, identity.pod_uid);
    // A bad timing is reported before a port is opened.
    Elector::new(holder.as_str(), lease)?;
    let sandbox = Sandbox::new(&identity, &parent::identity());
    let markers = Markers::read(server.modules.store.join("polity-loading"), &sandbox).await;
    let compiling = server.modules.store.join("polity-compiling");
    let attempts = Arc::new(Attempts::read(compiling, sandbox, random().to_bits()));
    let build = build(&server.modules).await;

    let controller_metrics = ControllerMetrics::new(&server.metrics.meter("kubewarden"));
    let open = OpenServer::open(server, tasks).await?;
    let (engine, fetcher) = (open.engine.clone(), open.fetcher.clone());
    let (table, metrics) = (open.table.clone(), open.metrics.clone());
    let (policies, parallelism) = (open.policies.clone(), open.parallelism);
    let (control, clock) = (open.tasks.control.clone(), open.clock.clone());
    let cluster = Cluster::new(client.clone(), ClusterLimits::default(), clock.clone());
    let environment = open.environment(Some(cluster));
    let server = open.serve(environment.clone());

    let grants = NamespacedGrants::read(server_config).await;
    let own = OwnVault::new(fetcher.store.clone(), &engine);
    let (vault, shared) = vault(own, cache, &identity, &engine).await;
    let preparer = Preparer {
        modules: ModuleLoader::new(engine, fetcher, vault, metrics.clone(), clock.clone()),
        environment,
        namespaced: grants.current.clone(),
        metrics: metrics.clone(),
        clock: clock.clone(),
    };
    let store = Store::new(&identity.server);
    let mut controller = Controller::new("policy-server", clock.clone())
        .with_backoff(reports::BACKOFF)
        .with_workers(reports::AT_ONCE)
        .with_metrics(controller_metrics);
    store.follow(&mut controller, &client, &identity.namespace);
    let writer = StatusWriter::new(&client, store.clone(), clock.clone());
    let reports = Reports::new(replica, writer, &controller);
    follow_grants(&grants, &control, &clock);
    follow_revisions(controller, reports.clone(), &control);
    let parts = ReplicaParts {
        replica,
        store: store.clone(),
        preparer: preparer.clone(),
        grants,
        reports,
        markers,
        table,
        readiness: policies,
        metrics,
        clock: clock.clone(),
        parallelism,
    };
    let serve = Replica::new(parts).run(control.shutdown().clone());
    control.spawn("replica", serve);
    let upkeep = shared.map(|vault| {
        follow_signer(vault.clone(), &clock, &control);
        Upkeep {
            store: store.clone(),
            vault,
            stateful_sets: Api::namespaced(client.clone(), &identity.namespace),
            stateful_set: identity.stateful_set().to_owned(),
            clock: clock.clone(),
            signed_with: Mutex::default(),
        }
    });
    let election = LeaderElection {
        client: client.clone(),
        clock: clock.clone(),
        namespace: identity.namespace.clone(),
        lease: format!("policy-server-{}", identity.server),
        identity: holder,
        timing: lease,
    };
    let leader = LeaderParts {
        client,
        store,
        preparer,
        attempts,
        build,
        clock,
    };
    let lead = leader::run(leader, upkeep, election, control.shutdown().clone());
    control.spawn("leader", lead);
    info!(
        address = %server.address(),
        readiness = %server.readiness_address(),
        server = identity.server,
        replica,
        "loading"
    );
    Ok(server)
}

/// Where modules are kept: on the volume that the replicas share, if there is one.
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

/// Starts the task that keeps the signer of the shared cache up to date.
fn follow_signer(vault: Arc<SharedVault>, clock: &Clock, tasks: &Tasks) {
    let (clock, shutdown) = (clock.clone(), tasks.shutdown().clone());
    tasks.spawn("cache signer", async move {
        vault.follow(ReloadTiming::default(), clock, shutdown).await;
        Ok::<_, Infallible>(())
    });
}

/// What results of the leader depend on besides the revision: the version, and the sources of modules.
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

/// Starts the watch of the revisions, and the workers that write the reports of this replica.
fn follow_revisions(controller: Controller<Uid>, reports: Reports, tasks: &Tasks) {
    let term = Term::without_election(tasks.shutdown());
    tasks.spawn("revisions", async move {
        reports.run(controller, term).await;
        Ok::<_, Infallible>(())
    });
}
