//! The replica at work: loads, swaps, lets go, and says so, as its plan has it.

pub(super) mod grants;
pub(super) mod markers;
pub(super) mod places;
pub(super) mod plan;

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

use crate::managed::prepare::failure::{Fault, Trouble};
use crate::managed::prepare::{Loaded, Preparer};
use crate::managed::replica::grants::NamespacedGrants;
use crate::managed::replica::markers::Markers;
use crate::managed::replica::places::{Spot, spots};
use crate::managed::replica::plan::{Again, Local, Locals, Plan, View, after_crashes};
use crate::managed::retry::backoff;
use crate::managed::revision::store::{Snapshot, Store};
use crate::managed::revision::{Revision, Uid};
use crate::managed::status::writer::Writer;
use crate::managed::status::{Change, Says};
use crate::metrics::ServerMetrics;
use crate::table::{Place, PolicyTable};

/// How long a replica that gives up tries to say why.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What a replica needs.
pub(crate) struct ReplicaParts {
    /// Our number.
    pub(crate) replica: i32,
    pub(crate) store: Store,
    pub(crate) preparer: Preparer,
    pub(crate) grants: NamespacedGrants,
    pub(crate) writer: Writer,
    pub(crate) markers: Markers,
    /// What is served.
    pub(crate) table: Arc<ArcSwap<PolicyTable>>,
    /// Whether we are ready.
    pub(crate) readiness: Part,
    pub(crate) metrics: ServerMetrics,
    pub(crate) clock: Clock,
    /// How many revisions are loaded at once.
    pub(crate) parallelism: usize,
}

/// What serves cannot be loaded: the pod must not take requests.
#[derive(Debug, thiserror::Error)]
#[error("policies that serve cannot be loaded: {}", .0.join("; "))]
pub(crate) struct CannotServe(Vec<String>);

/// A replica at work.
pub(crate) struct Replica {
    parts: ReplicaParts,
    snapshots: watch::Receiver<Snapshot>,
    granted: watch::Receiver<()>,
    snapshot: Snapshot,
    locals: Locals,
    loaded: BTreeMap<Uid, Loaded>,
    spots: BTreeMap<Uid, Spot>,
    /// The modules of what is enabled.
    in_use: BTreeSet<Digest>,
    ready_since: Option<Moment>,
    loads: JoinSet<(Uid, Result<Loaded, Trouble>)>,
    loading: BTreeMap<Uid, AbortHandle>,
    places: Arc<Semaphore>,
    writes: JoinSet<Uid>,
    writing: BTreeMap<Uid, (Says, AbortHandle)>,
}

impl Replica {
    pub(crate) fn new(parts: ReplicaParts) -> Self {
        Self {
            snapshots: parts.store.subscribe(),
            granted: parts.grants.subscribe(),
            places: Arc::new(Semaphore::new(parts.parallelism)),
            parts,
            snapshot: Snapshot::default(),
            locals: Locals::new(),
            loaded: BTreeMap::new(),
            spots: BTreeMap::new(),
            in_use: BTreeSet::new(),
            ready_since: None,
            loads: JoinSet::new(),
            loading: BTreeMap::new(),
            writes: JoinSet::new(),
            writing: BTreeMap::new(),
        }
    }

    /// Serves what it is told to until the shutdown. What is served then stays in the table.
    pub(crate) async fn run(mut self, shutdown: Shutdown) -> Result<(), CannotServe> {
        let worked = shutdown.run_until(self.work()).await;
        // An orderly end is no crash.
        for uid in self.loading.keys() {
            self.parts.markers.take_back(uid).await;
        }
        worked.unwrap_or(Ok(()))
    }

    async fn work(&mut self) -> Result<(), CannotServe> {
        loop {
            self.snapshot = self.snapshots.borrow_and_update().clone();
            let mut look_again = None;
            if self.snapshot.is_complete {
                self.remember_crashes();
                let plan = self.plan();
                look_again = plan.look_again;
                self.carry_out(plan).await?;
            }
            tokio::select! {
                // The store lives as long as we do.
                _ = self.snapshots.changed() => {}
                Ok(()) = self.granted.changed() => self.grant_anew(),
                Some(ended) = self.loads.join_next() => self.loaded(ended).await,
                Some(written) = self.writes.join_next() => {
                    if let Ok(uid) = written {
                        self.writing.remove(&uid);
                    }
                }
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
        self.say(plan.say);
        if !plan.give_up.is_empty() {
            return Err(self.give_up(&plan.give_up).await);
        }
        self.be_ready(&plan.missing);
        for uid in plan.load {
            self.load(uid).await;
        }
        Ok(())
    }

    /// Earlier processes may have crashed while they loaded a revision.
    fn remember_crashes(&mut self) {
        if self.ready_since.is_some() {
            return;
        }
        for (uid, revision) in &*self.snapshot.revisions {
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
        let (preparer, places) = (self.parts.preparer.clone(), self.places.clone());
        let task = self.loads.spawn(async move {
            let _place = places.acquire().await;
            let loaded = AssertUnwindSafe(preparer.load(&revision)).catch_unwind();
            let panicked = |_| Err(Trouble::new(Fault::Settings, "loading it panicked"));
            let loaded = loaded.await.unwrap_or_else(panicked);
            (revision.uid.clone(), loaded)
        });
        self.loading.insert(uid.clone(), task);
        self.locals.insert(uid, Local::Loading { n_failures });
    }

    async fn loaded(
        &mut self,
        ended: Result<(Uid, Result<Loaded, Trouble>), tokio::task::JoinError>,
    ) {
        let Ok((uid, outcome)) = ended else {
            // Unloaded while it was loaded.
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
                    // They may have changed meanwhile.
                    Some(revision) if revision.kind.is_namespaced => {
                        loaded.with_capabilities(&self.parts.grants.current.load())
                    }
                    _ => loaded,
                };
                self.loaded.insert(uid.clone(), loaded);
                Local::Loaded
            }
            Err(trouble) => {
                let why = trouble.ready();
                error!(revision = name, reason = %why.reason, message = why.message, "cannot be loaded");
                let delay = backoff(n_failures, random());
                Local::Failed {
                    why,
                    n_failures,
                    again: Again::At(self.parts.clock.moment() + delay),
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
        if let Some((_, task)) = self.writing.remove(uid) {
            task.abort();
        }
        if self.loaded.remove(uid).is_some() {
            info!(revision_uid = %uid, "unloaded");
        }
    }

    /// Serves what is loaded, where it is found now. Requests that run keep the policy they found; the last of them
    /// drops it.
    fn swap(&mut self) {
        let loaded = self.loaded.keys().cloned().collect();
        let spots = spots(&self.snapshot.revisions, &loaded);
        if spots != self.spots {
            self.spots = spots;
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
        let places = self.spots.iter().filter_map(|(uid, spot)| {
            Some(Place {
                ids: spot.ids.clone(),
                generation: spot.generation,
                is_serving: spot.is_serving,
                whole: &self.loaded.get(uid)?.whole,
            })
        });
        let table = PolicyTable::of_generations(places);
        self.parts.metrics.serving(&table);
        self.parts.table.store(Arc::new(table));
    }

    fn grant_anew(&mut self) {
        let granted = self.parts.grants.current.load_full();
        for (uid, loaded) in &mut self.loaded {
            let revision = self.snapshot.revisions.get(uid);
            if revision.is_some_and(|revision| revision.kind.is_namespaced) {
                *loaded = loaded.with_capabilities(&granted);
            }
        }
        self.store_table();
    }

    /// Writes what has to be said, one write for each revision. What was to be written before is overtaken.
    fn say(&mut self, say: Vec<(Uid, Says)>) {
        for (uid, says) in say {
            match self.writing.get(&uid) {
                Some((before, _)) if *before == says => continue,
                Some((_, task)) => task.abort(),
                None => {}
            }
            let change = Change::Ready {
                replica: self.parts.replica,
                says: says.clone(),
            };
            let (writer, key) = (self.parts.writer.clone(), uid.clone());
            let task = self.writes.spawn(async move {
                writer.write(&key, &change, || true).await;
                key
            });
            self.writing.insert(uid, (says, task));
        }
    }

    fn be_ready(&mut self, missing: &[Uid]) {
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

    /// Says why, if that can be said in time: the owner of a policy cannot read our log.
    async fn give_up(&mut self, uids: &[Uid]) -> CannotServe {
        let written = async { while self.writes.join_next().await.is_some() {} };
        tokio::select! {
            () = written => {}
            () = self.parts.clock.sleep(LAST_WORDS) => {}
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
