//! One cluster: its store, its served kinds, its permissions, and the commits that keep them consistent.

pub mod identity;
pub mod signals;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use polity_runtime::clock::Clock;
use polity_store::{Change, CommitError, Expect, Key, Options, Revision, Store, Write};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::cluster::identity::Identity;
use crate::cluster::signals::Signals;
use crate::custom::serve::ServeContext;
use crate::custom::{self, Summaries, Summary, names};
use crate::logs::LogSource;
use crate::object::index::ObjectIndex;
use crate::object::{Snapshot, Stored};
use crate::object::{encode, meta};
use crate::openapi::Documents;
use crate::registry::Registry;
use crate::request::body::BodyBudget;
use crate::served::{Compiler, ServedResource};
use polity_auth::authorize::{AuthorizationMode, Authorizer};
use polity_auth::rbac::Roles;
use polity_auth::token::{BoundKind, Objects};
use polity_auth::{Attributes, UserInfo};
use polity_kinds::status::ApiError;
use polity_webhooks::configurations::Configs;

/// The failure of a commit.
pub type CommitFailure = CommitError<ObjectIndex>;

pub(crate) const RBAC_BUCKETS: [&str; 4] = [
    "clusterrolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
];
const WEBHOOK_BUCKETS: [&str; 2] = [
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
];

/// How a cluster is opened.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Also its path prefix, `/clusters/{name}`; the hub's is served without one too.
    pub name: String,
    pub store: Options,
    pub authorization: AuthorizationMode,
    pub clock: Clock,
    pub identity: Identity,
    /// Shared by the clusters of a fleet.
    pub compiler: Compiler,
    /// Shared by the clusters of a fleet.
    pub body_budget: BodyBudget,
}

/// One named check and whether it passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub passes: bool,
}

/// A running cluster.
pub struct Cluster {
    name: String,
    store: Store<ObjectIndex>,
    clock: Clock,
    authorization: AuthorizationMode,
    identity: Identity,
    compiler: Compiler,
    body_budget: BodyBudget,
    registry: ArcSwap<Registry>,
    summaries: Mutex<Summaries>,
    roles: ArcSwap<Roles>,
    webhooks: ArcSwap<Configs>,
    /// Held while one of the three above is rebuilt, so that an older view never replaces a newer one.
    refreshing: tokio::sync::Mutex<()>,
    pub(crate) signals: Signals,
    shutdown: CancellationToken,
    logs: OnceLock<Arc<dyn LogSource>>,
    /// Built on the first request after the registry changed.
    openapi: Mutex<Option<(Arc<Registry>, Arc<Documents>)>>,
    ready: AtomicBool,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// Opens the store and loads its content. No controller runs yet.
    pub fn open(options: ClusterOptions) -> Result<Arc<Self>, polity_store::OpenError> {
        let store = Store::open(&options.store)?;
        let shutdown = CancellationToken::new();
        let cluster = Self {
            name: options.name,
            store,
            clock: options.clock,
            authorization: options.authorization,
            identity: options.identity,
            compiler: options.compiler,
            body_budget: options.body_budget,
            registry: ArcSwap::default(),
            summaries: Mutex::default(),
            roles: ArcSwap::default(),
            webhooks: ArcSwap::default(),
            refreshing: tokio::sync::Mutex::new(()),
            signals: Signals::default(),
            shutdown,
            logs: OnceLock::new(),
            openapi: Mutex::default(),
            ready: AtomicBool::new(false),
        };
        cluster.refresh_registry();
        cluster.refresh_roles();
        cluster.refresh_webhooks();
        Ok(Arc::new(cluster))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn store(&self) -> &Store<ObjectIndex> {
        &self.store
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The memory limit for the bodies of all requests together.
    pub fn body_budget(&self) -> &BodyBudget {
        &self.body_budget
    }

    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    pub fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    pub fn webhooks(&self) -> Arc<Configs> {
        self.webhooks.load_full()
    }

    pub fn roles(&self) -> Arc<Roles> {
        self.roles.load_full()
    }

    /// The source of Pod logs, if a runtime is attached.
    pub fn log_source(&self) -> Option<&Arc<dyn LogSource>> {
        self.logs.get()
    }

    /// Plugs in the source of Pod logs; the first one stays.
    pub fn set_log_source(&self, source: Arc<dyn LogSource>) {
        let _ = self.logs.set(source);
    }

    /// The OpenAPI documents of the kinds that are served now.
    pub fn openapi(&self) -> Arc<Documents> {
        let registry = self.registry();
        let mut kept = self.openapi.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((of, documents)) if Arc::ptr_eq(of, &registry) => documents.clone(),
            _ => {
                let documents = Arc::new(Documents::of(&registry));
                *kept = Some((registry, documents.clone()));
                documents
            }
        }
    }

    /// The objects that tokens may be bound to, from the newest snapshot.
    pub fn bound_objects(&self) -> impl Objects {
        let snapshot = self.store.current();
        move |kind: BoundKind, namespace: &str, name: &str| {
            let bucket = match kind {
                BoundKind::ServiceAccount => "serviceaccounts",
                BoundKind::Pod => "pods",
                BoundKind::Secret => "secrets",
                BoundKind::Node => "nodes",
            };
            let stored = snapshot.get(&Key::new(bucket, namespace, name))?;
            serde_json::from_slice(&stored.bytes).ok().map(Arc::new)
        }
    }

    /// Marks the cluster as ready, which `/readyz` reports.
    pub fn mark_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// The health of this cluster, check by check.
    pub fn health(&self) -> [Check; 4] {
        [
            Check {
                name: "ping",
                passes: true,
            },
            Check {
                name: "store",
                passes: self.store.health().is_ok(),
            },
            Check {
                name: "readiness",
                passes: self.ready.load(Ordering::Acquire),
            },
            Check {
                name: "shutdown",
                passes: !self.shutdown.is_cancelled(),
            },
        ]
    }

    /// Ends all watches and background work.
    pub fn shut_down(&self) {
        self.shutdown.cancel();
    }

    pub fn shutdown(&self) -> &CancellationToken {
        &self.shutdown
    }

    /// The token that ends the watches of a kind.
    pub fn watch_shutdown(&self, def: &ServedResource) -> CancellationToken {
        match &def.custom {
            Some(custom) => custom.gone.clone(),
            None => self.shutdown.clone(),
        }
    }

    pub fn namespace(&self, name: &str) -> Option<Stored> {
        self.get("namespaces", "", name)
    }

    /// A stored object.
    pub fn get(&self, bucket: &str, namespace: &str, name: &str) -> Option<Stored> {
        self.store
            .current()
            .get(&Key::new(bucket, namespace, name))
            .cloned()
    }

    /// May this user do that? 403 if not.
    pub fn authorize(&self, user: &UserInfo, request: &Attributes<'_>) -> Result<(), ApiError> {
        let roles = self.roles.load();
        Authorizer {
            mode: self.authorization,
            roles: &roles,
        }
        .require(user, request)
    }

    pub fn authorization(&self) -> AuthorizationMode {
        self.authorization
    }

    /// [`Self::authorize`] for a verb on a kind.
    pub fn authorize_resource(
        &self,
        user: &UserInfo,
        def: &ServedResource,
        verb: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
    ) -> Result<(), ApiError> {
        self.authorize(
            user,
            &Attributes::Resource {
                verb,
                group: &def.gvk.group,
                version: &def.gvk.version,
                resource: &def.plural,
                subresource,
                name,
                namespace,
            },
        )
    }

    /// Commits a write. When this resolves, its consequences (served kinds, permissions, webhooks) are in effect too.
    pub async fn commit(&self, write: Write) -> Result<Stored, CommitFailure> {
        let deleted = matches!(write.change, Change::Delete(_));
        let bucket = write.key.bucket.clone();
        let stored = self.store.commit(write).await?;
        self.signals.committed(self, &stored, deleted);
        if RBAC_BUCKETS.contains(&&*bucket) {
            let _guard = self.refreshing.lock().await;
            self.refresh_role(&stored);
        } else if WEBHOOK_BUCKETS.contains(&&*bucket) {
            let _guard = self.refreshing.lock().await;
            self.refresh_webhooks();
        } else if &*bucket == custom::DEFINITIONS {
            let _guard = self.refreshing.lock().await;
            self.settle_definitions().await?;
        }
        Ok(stored)
    }

    pub(crate) fn values(&self, bucket: &str) -> Vec<(Revision, Value)> {
        let snapshot = self.store.current();
        snapshot
            .range(bucket, None, None)
            .filter_map(|stored| {
                Some((stored.revision, serde_json::from_slice(&stored.bytes).ok()?))
            })
            .collect()
    }

    fn refresh_roles(&self) {
        let objects: Vec<Value> = RBAC_BUCKETS
            .iter()
            .flat_map(|bucket| self.values(bucket))
            .map(|(_, value)| value)
            .collect();
        self.roles.store(Arc::new(Roles::from_objects(&objects)));
    }

    /// Reads one changed role or binding from the store again.
    fn refresh_role(&self, changed: &Stored) {
        let snapshot = self.store.current();
        let (object, present) = snapshot
            .get(&changed.key)
            .map_or((changed, false), |current| (current, true));
        let Ok(object) = serde_json::from_slice::<Value>(&object.bytes) else {
            return;
        };
        let roles = self.roles.load();
        self.roles.store(Arc::new(if present {
            roles.with(&object)
        } else {
            roles.without(&object)
        }));
    }

    fn refresh_webhooks(&self) {
        let objects: Vec<Value> = WEBHOOK_BUCKETS
            .iter()
            .flat_map(|bucket| self.values(bucket))
            .map(|(_, value)| value)
            .collect();
        let known = self.webhooks.load();
        self.webhooks.store(Arc::new(known.refreshed(&objects)));
    }

    /// Accepts names and establishes definitions, serving each before anyone can see that it is established.
    async fn settle_definitions(&self) -> Result<(), CommitFailure> {
        loop {
            let (snapshot, mut definitions) = self.definitions();
            let next = definitions.iter().enumerate().find_map(|(at, definition)| {
                if definition.is_settled {
                    return None;
                }
                let crd = stored_definition(&snapshot, definition)?;
                let others = definitions.iter().map(|other| &**other);
                let taken = names::Taken::of_others(definition, others);
                let mut next = names::accept(&crd, &taken, self.now())?;
                names::record(&crd, &mut next, self.now());
                Some((at, next))
            });
            let Some((at, next)) = next else {
                self.serve(&snapshot, &definitions, None);
                return Ok(());
            };
            let revision = definitions[at].revision;
            definitions[at] = Arc::new(Summary::of(revision, &next));
            self.serve(&snapshot, &definitions, Some(&next));
            let key = Key::new(custom::DEFINITIONS, "", meta::name(&next));
            let payload = encode::payload(next.as_object().expect("a stored object is an object"));
            let write = Write {
                key,
                expect: Expect::Exactly(revision),
                change: Change::Put(payload),
            };
            match self.store.commit(write).await {
                Ok(stored) => self.signals.committed(self, &stored, false),
                // Another writer changed it: read again and retry.
                Err(CommitError::Changed { .. } | CommitError::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn refresh_registry(&self) {
        let (snapshot, definitions) = self.definitions();
        self.serve(&snapshot, &definitions, None);
    }

    /// The kind in which the objects of a definition are stored; the one that is served, if any is.
    pub fn stored_kind(&self, definition: &str) -> Result<Arc<ServedResource>, ApiError> {
        let registry = self.registry();
        let of_definition = |def: &&Arc<ServedResource>| {
            let custom = def.custom.as_ref();
            custom.is_some_and(|custom| custom.definition == definition)
        };
        if let Some(def) = registry.custom().find(of_definition) {
            return Ok(def.clone());
        }
        let stored = self.get(custom::DEFINITIONS, "", definition);
        let crd = stored.as_ref().and_then(custom::summary::read);
        let (Some(stored), Some(crd)) = (stored, crd) else {
            return Err(ApiError::internal(format!(
                "the definition {definition} cannot be read"
            )));
        };
        let context = ServeContext {
            known: &registry,
            compiler: &self.compiler,
            shutdown: &self.shutdown,
        };
        let def = custom::serve::stored(stored.revision, &crd, &context);
        def.map(Arc::new).map_err(ApiError::internal)
    }

    /// The definitions as the store has them now.
    fn definitions(&self) -> (Snapshot, Vec<Arc<Summary>>) {
        let snapshot = self.store.current();
        let mut summaries = self
            .summaries
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let definitions = summaries.follow(&snapshot);
        (snapshot, definitions)
    }

    /// Serves these definitions, of which one is about to be written. A definition whose schema did not change keeps
    /// its kinds and their watches.
    fn serve(&self, snapshot: &Snapshot, definitions: &[Arc<Summary>], changed: Option<&Value>) {
        let known = self.registry.load();
        let context = ServeContext {
            known: &known,
            compiler: &self.compiler,
            shutdown: &self.shutdown,
        };
        let mut defs: Vec<Arc<ServedResource>> = Vec::new();
        for definition in definitions {
            let crd = || match changed {
                Some(changed) if meta::name(changed) == definition.name => {
                    Some(Cow::Borrowed(changed))
                }
                _ => stored_definition(snapshot, definition).map(Cow::Owned),
            };
            match custom::serve::resources(definition, crd, &context) {
                Ok(of_crd) => defs.extend(of_crd),
                Err(error) => warn!(
                    cluster = self.name,
                    error = &error as &dyn std::error::Error,
                    "definition cannot be served"
                ),
            }
        }
        let next = Registry::new(defs);
        for old in known.custom() {
            let Some(before) = &old.custom else { continue };
            let now = next
                .get(&old.gvk.group, &old.gvk.version, &old.plural)
                .and_then(|new| new.custom.as_ref());
            if !now.is_some_and(|now| now.continues(before)) {
                before.gone.cancel();
            }
        }
        self.registry.store(Arc::new(next));
    }
}

fn stored_definition(snapshot: &Snapshot, definition: &Summary) -> Option<Value> {
    let key = Key::new(custom::DEFINITIONS, "", definition.name.as_str());
    custom::summary::read(snapshot.get(&key)?)
}
