//! Runs the replica: it loads and unloads revisions, swaps the table that is served, and writes its `Ready` conditions, as
//! planned.

pub(super) mod grants;
pub(super) mod markers;
pub(super) mod plan;
pub(super) mod reports;
pub(super) mod routes;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use polity_fetch::Digest;
use polity_runtime::admin::Part;
use polity_runtime::retry::random;
use polity_runtime::{Clock, Moment, Shutdown};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{error, info, warn};

use crate::managed::prepare::failure::{Fault, PrepareError};
use crate::managed::prepare::{Loaded, Preparer};
use crate::managed::replica::grants::NamespacedGrants;
use crate::managed::replica::markers::Markers;
use crate::managed::replica::plan::{Local, Locals, Plan, Retry, View, after_crashes};
use crate::managed::replica::reports::Reports;
use crate::managed::replica::routes::{RevisionRoute, routes};
use crate::managed::retry::backoff;
use crate::managed::revision::store::{Snapshot, Store};
use crate::managed::revision::{Revision, Uid};
use crate::metrics::ServerMetrics;
use crate::table::{PolicyTable, RoutedPolicy};

/// How long a replica that gives up waits for its reports to be written.
const LAST_REPORTS: Duration = Duration::from_secs(5);

/// The parts that a replica is built from.
pub(crate) struct ReplicaParts {
    /// The ordinal of this replica.
    pub(crate) replica: i32,
    pub(crate) store: Store,
    pub(crate) preparer: Preparer,
    pub(crate) grants: NamespacedGrants,
    pub(crate) reports: Reports,
    pub(crate) markers: Markers,
    /// The policies that are served.
    pub(crate) table: Arc<ArcSwap<PolicyTable>>,
    /// The readiness of this replica.
    pub(crate) readiness: Part,
    pub(crate) metrics: ServerMetrics,
    pub(crate) clock: Clock,
    /// How many revisions are loaded at once.
    pub(crate) parallelism: usize,
}

/// Revisions that serve cannot be loaded: the pod must not receive requests.
#[derive(Debug, thiserror::Error)]
#[error("policies that serve cannot be loaded: {}", .0.join("; "))]
pub(crate) struct CannotServe(Vec<String>);

/// The state of the replica loop.
pub(crate) struct Replica {
    parts: ReplicaParts,
    changed: watch::Receiver<()>,
    granted: watch::Receiver<()>,
    snapshot: Snapshot,
    locals: Locals,
    loaded: BTreeMap<Uid, Loaded>,
    routes: BTreeMap<Uid, RevisionRoute>,
    /// The modules of enabled revisions.
    in_use: BTreeSet<Digest>,
    ready_since: Option<Moment>,
    loads: JoinSet<(Uid, Result<Loaded, PrepareError>)>,
    loading: BTreeMap<Uid, AbortHandle>,
    /// Limits how many revisions are loaded at once.
    load_slots: Arc<Semaphore>,
}

impl Replica {
    pub(crate) fn new(parts: ReplicaParts) -> Self {
        Self {
            changed: parts.store.subscribe(),
            granted: parts.grants.subscribe(),
            load_slots: Arc::new(Semaphore::new(parts.parallelism)),
            parts,
            snapshot: Snapshot::default(),
            locals: Locals::new(),
            loaded: BTreeMap::new(),
            routes: BTreeMap::new(),
            in_use: BTreeSet::new(),
            ready_since: None,
            loads: JoinSet::new(),
            loading: BTreeMap::new(),
        }
    }

    /// Follows the revisions until the shutdown. The table then keeps the policies that it has.
    pub(crate) async fn run(mut self, shutdown: Shutdown) -> Result<(), CannotServe> {
        let worked = shutdown.run_until(self.work()).await;
        // An orderly stop is not a crash.
        for uid in self.loading.keys() {
            self.parts.markers.take_back(uid).await;
        }
        worked.unwrap_or(Ok(()))
    }

    async fn work(&mut self) -> Result<(), CannotServe> {
        loop {
            self.changed.mark_unchanged();
            self.snapshot = self.parts.store.snapshot();
            let mut look_again = None;
            if self.snapshot.is_complete {
                self.remember_crashes();
                let plan = self.plan();
                look_again = plan.look_again;
                self.carry_out(plan).await?;
            }
            tokio::select! {
                // The store lives as long as this task.
                _ = self.changed.changed() => {}
                Ok(()) = self.granted.changed() => self.apply_grants(),
                Some(ended) = self.loads.join_next() => self.loaded(ended).await,
                () = sleep_until(&self.parts.clock, look_again) => {}
            }
        }
    }

    fn plan(&self) -> Plan {
        Plan::of(View {
            revisions: &self.snapshot.revisions,
            locals: &self.locals,
            replica: self.parts.replica,
            ready_since: self.ready_since,
            now: self.parts.clock.moment(),
        })
    }

    async fn carry_out(&mut self, plan: Plan) -> Result<(), CannotServe> {
        for uid in &plan.unload {
            self.unload(uid).await;
        }
        self.swap();
        for (uid, report) in plan.reports {
            self.parts.reports.set(uid, report);
        }
        if !plan.give_up.is_empty() {
            return Err(self.give_up(&plan.give_up).await);
        }
        self.set_readiness(&plan.missing);
        for uid in plan.load {
            self.load(uid).await;
        }
        Ok(())
    }

    /// Marks revisions as failed whose loading crashed earlier processes.
    fn remember_crashes(&mut self) {
        if self.ready_since.is_some() {
            return;
        }
        for (uid, revision) in &self.snapshot.revisions {
            let local = after_crashes(revision, self.parts.markers.n_crashes(uid));
            if let Some(local) = local
                && !self.locals.contains_key(uid)
                && revision.is_wanted()
            {
                warn!(
                    revision = revision.name(),
                    "an earlier process crashed while it loaded this revision"
                );
                self.locals.insert(uid.clone(), local);
            }
        }
    }

    async fn load(&mut self, uid: Uid) {
        let Some(revision) = self.snapshot.revisions.get(&uid).cloned() else {
            return;
        };
        let n_failures = match self.locals.get(&uid) {
            Some(Local::Failed { n_failures, .. }) => *n_failures,
            _ => 0,
        };
        if !revision.is_serving {
            self.parts.markers.put(&uid).await;
        }
        let (preparer, load_slots) = (self.parts.preparer.clone(), self.load_slots.clone());
        let task = self.loads.spawn(async move {
            let _slot = load_slots.acquire().await;
            let loaded = AssertUnwindSafe(preparer.load(&revision)).catch_unwind();
            let panicked = |_| Err(PrepareError::new(Fault::Settings, "loading it panicked"));
            let loaded = loaded.await.unwrap_or_else(panicked);
            (revision.uid.clone(), loaded)
        });
        self.loading.insert(uid.clone(), task);
        self.locals.insert(uid, Local::Loading { n_failures });
    }

    async fn loaded(
        &mut self,
        ended: Result<(Uid, Result<Loaded, PrepareError>), tokio::task::JoinError>,
    ) {
        let Ok((uid, outcome)) = ended else {
            // It was unloaded while it was being loaded.
            return;
        };
        if self.loading.remove(&uid).is_none() {
            return;
        }
        self.parts.markers.remove(&uid).await;
        let Some(Local::Loading { n_failures }) = self.locals.get(&uid) else {
            return;
        };
        let n_failures = n_failures + 1;
        let revision = self.snapshot.revisions.get(&uid).cloned();
        let name = revision.as_deref().map_or("", Revision::name);
        let local = match outcome {
            Ok(loaded) => {
                info!(revision = name, "loaded");
                let loaded = match &revision {
                    // The grants may have changed while it was being loaded.
                    Some(revision) if revision.kind.is_namespaced() => {
                        loaded.with_capabilities(&self.parts.grants.current.load())
                    }
                    _ => loaded,
                };
                self.loaded.insert(uid.clone(), loaded);
                Local::Loaded
            }
            Err(failure) => {
                let why = failure.ready();
                error!(revision = name, reason = %why.reason, message = why.message, "loading failed");
                let delay = backoff(n_failures, random());
                Local::Failed {
                    why,
                    n_failures,
                    retry: Retry::At(self.parts.clock.moment() + delay),
                }
            }
        };
        self.locals.insert(uid, local);
    }

    async fn unload(&mut self, uid: &Uid) {
        self.locals.remove(uid);
        if let Some(task) = self.loading.remove(uid) {
            task.abort();
            self.parts.markers.remove(uid).await;
        }
        self.parts.reports.drop_report(uid);
        if self.loaded.remove(uid).is_some() {
            info!(revision_uid = %uid, "unloaded");
        }
    }

    /// Serves the loaded revisions under their current routes. Running requests keep the policy that they found; the last
    /// of them drops it.
    fn swap(&mut self) {
        let loaded = self.loaded.keys().cloned().collect();
        let routes = routes(&self.snapshot.revisions, &loaded);
        if routes != self.routes {
            self.routes = routes;
            self.store_table();
        }
        let enabled = self.snapshot.revisions.values();
        let in_use: BTreeSet<Digest> = enabled
            .filter(|revision| revision.is_enabled)
            .flat_map(|revision| revision.modules())
            .filter_map(|module| module.digest.parse().ok())
            .collect();
        let unused = self.in_use.difference(&in_use);
        let modules = &self.parts.preparer.modules;
        modules.forget(unused);
        self.parts.metrics.modules(modules.n_loaded());
        self.in_use = in_use;
    }

    fn store_table(&self) {
        let routes = self.routes.iter().filter_map(|(uid, route)| {
            Some(RoutedPolicy {
                ids: route.ids.clone(),
                generation: route.generation,
                is_serving: route.is_serving,
                entry: &self.loaded.get(uid)?.entry,
            })
        });
        let table = PolicyTable::of_generations(routes);
        self.parts.metrics.serving(&table);
        self.parts.table.store(Arc::new(table));
    }

    fn apply_grants(&mut self) {
        let granted = self.parts.grants.current.load_full();
        for (uid, loaded) in &mut self.loaded {
            let revision = self.snapshot.revisions.get(uid);
            if revision.is_some_and(|revision| revision.kind.is_namespaced()) {
                *loaded = loaded.with_capabilities(&granted);
            }
        }
        self.store_table();
    }

    fn set_readiness(&mut self, missing: &[Uid]) {
        if !missing.is_empty() {
            self.parts.readiness.not_ready("loading");
            return;
        }
        self.parts.readiness.ready("loaded");
        if self.ready_since.is_none() {
            info!(n_policies = self.loaded.len(), "ready");
            self.ready_since = Some(self.parts.clock.moment());
        }
    }

    /// Waits for the reports of the failures to be written, for a while: the owner of a policy cannot read our log.
    async fn give_up(&mut self, uids: &[Uid]) -> CannotServe {
        tokio::select! {
            () = self.parts.reports.written() => {}
            () = self.parts.clock.sleep(LAST_REPORTS) => {}
        }
        let reasons = uids.iter().filter_map(|uid| {
            let Some(Local::Failed { why, .. }) = self.locals.get(uid) else {
                return None;
            };
            let id = self
                .snapshot
                .revisions
                .get(uid)
                .map(|revision| &*revision.id);
            Some(format!("{}: {}", id.unwrap_or_default(), why.message))
        });
        CannotServe(reasons.collect())
    }
}

/// Sleeps until a moment, or for ever.
pub(crate) async fn sleep_until(clock: &Clock, moment: Option<Moment>) {
    match moment {
        Some(moment) => clock.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
