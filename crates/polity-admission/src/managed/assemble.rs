//! Starts a server in a cluster: ports first, then the tasks that follow the cluster.

use std::convert::Infallible;
use std::sync::Arc;

use kube::{Api, Client};
use polity_eval::Engine;
use polity_fetch::Digest;
use polity_host::{CacheBuild, CacheIdentity, Cluster, ClusterLimits};
use polity_runtime::changes::ReloadTiming;
use polity_runtime::lease::{Election, Elector};
use polity_runtime::retry::random;
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
    let elector = Elector::new(holder, lease)?;
    let sandbox = Sandbox::new(&identity, &parent::identity());
    let markers = Markers::read(server.modules.store.join("polity-loading"), &sandbox).await;
    let compiling = server.modules.store.join("polity-compiling");
    let attempts = Arc::new(Attempts::read(compiling, sandbox, random().to_bits()));
    let build = build(&server.modules).await;

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
    let writer = Writer {
        api: Api::namespaced(client.clone(), &identity.namespace),
        store: store.clone(),
        clock: clock.clone(),
    };
    follow_grants(&grants, &control, &clock);
    follow_revisions(&store, client.clone(), identity.namespace.clone(), &control);
    let parts = ReplicaParts {
        replica,
        store: store.clone(),
        preparer: preparer.clone(),
        grants,
        writer: writer.clone(),
        markers,
        table,
        readiness: policies,
        metrics,
        clock: clock.clone(),
        parallelism,
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
        look_after(vault, upkeep, &control);
    }
    take_part(election, leader, &control);
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

/// Starts the tasks that keep the signer of the shared cache up to date and clean the cache up.
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

fn follow_revisions(store: &Store, client: Client, namespace: String, tasks: &Tasks) {
    let (store, shutdown) = (store.clone(), tasks.shutdown().clone());
    tasks.spawn("revisions", async move {
        shutdown.run_until(store.follow(client, &namespace)).await;
        Ok::<_, Infallible>(())
    });
}

/// Takes part in the leader election. The lease is released when everything that only a leader does has ended.
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
