//! The garbage collector deletes dependents after their owners.
//!
//! Its only state is an index of objects by owner uid. Every decision uses the newest snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use polity_core::GroupVersion;
use polity_store::{Key, Snapshot};
use serde_json::{Value, json};
use tracing::{debug, warn};

use super::Actor;
use crate::cluster::Cluster;
use crate::engine::delete::{DeleteOptions, Propagation};
use crate::object::Stored;
use crate::object::index::{ObjectIndex, OwnerReference};
use crate::object::meta;
use crate::registry::Registry;
use crate::request::query::WriteOptions;
use crate::served::ServedResource;
use polity_kinds::status::ApiError;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Runs until the cluster ends.
pub async fn run(cluster: Arc<Cluster>) {
    let mut collector = Collector {
        actor: Actor::named("generic-garbage-collector"),
        dependents: HashMap::new(),
        owners: HashMap::new(),
        cluster,
    };
    let mut work = collector.scan();
    loop {
        let failed = collector.work_off(work).await;
        let bell = collector.cluster.signals.garbage.bell.notified();
        if failed.is_empty() {
            bell.await;
        } else {
            let _ = tokio::time::timeout(Duration::from_secs(1), bell).await;
        }
        work = failed;
        work.extend(collector.read_inbox());
    }
}

struct Collector {
    cluster: Arc<Cluster>,
    actor: Actor,
    /// Owner uid → objects that name it, or once did.
    dependents: HashMap<String, BTreeSet<Key>>,
    /// Object → the owners it named when it was last seen.
    owners: HashMap<Key, Vec<OwnerReference>>,
}

/// The state of the owner in an owner reference.
#[derive(Debug, PartialEq, Eq)]
enum Owner {
    /// Exists and is not being deleted.
    Solid,
    /// There, and waiting for its dependents to go.
    Waiting,
    Absent,
    /// Of a kind that is not served: the reference is ignored.
    Unknown,
}

impl Collector {
    /// Everything there is, after a start or an overflow.
    fn scan(&mut self) -> BTreeSet<Key> {
        let snapshot = self.cluster.store().current();
        let buckets: Vec<Arc<str>> = snapshot.buckets().cloned().collect();
        let mut work = BTreeSet::new();
        for bucket in buckets {
            for stored in snapshot.range(&bucket, None, None) {
                self.note(stored);
                if !stored.index.owner_references.is_empty() || stored.index.is_deleting() {
                    work.insert(stored.key.clone());
                }
            }
        }
        work
    }

    fn read_inbox(&mut self) -> BTreeSet<Key> {
        let (changes, overflowed) = self.cluster.signals.garbage.take();
        let mut work = if overflowed {
            self.scan()
        } else {
            BTreeSet::new()
        };
        for (stored, deleted) in changes {
            if deleted {
                work.extend(self.forget(&stored));
            } else {
                work.extend(self.note(&stored));
                let waits = stored.index.is_deleting() && !stored.index.finalizers.is_empty();
                if waits || !stored.index.owner_references.is_empty() {
                    work.insert(stored.key.clone());
                }
            }
        }
        work
    }

    /// Records an object that was created or changed. Returns owners that may no longer have to wait for it.
    fn note(&mut self, stored: &Stored) -> BTreeSet<Key> {
        let named = &stored.index.owner_references;
        for owner in named {
            self.dependents
                .entry(owner.uid.clone())
                .or_default()
                .insert(stored.key.clone());
        }
        let before = if named.is_empty() {
            self.owners.remove(&stored.key)
        } else {
            self.owners.insert(stored.key.clone(), named.clone())
        };
        let before = before.unwrap_or_default();
        if before == *named {
            return BTreeSet::new();
        }
        let registry = self.cluster.registry();
        before
            .iter()
            .filter_map(|owner| owner_key(&registry, owner, &stored.key).ok().flatten())
            .collect()
    }

    /// Records a deleted object. Its dependents are checked, and so are owners that waited for it.
    fn forget(&mut self, stored: &Stored) -> BTreeSet<Key> {
        let mut work = self
            .dependents
            .remove(&stored.index.uid)
            .unwrap_or_default();
        self.owners.remove(&stored.key);
        let registry = self.cluster.registry();
        for owner in &stored.index.owner_references {
            if let Some(of_owner) = self.dependents.get_mut(&owner.uid) {
                of_owner.remove(&stored.key);
                if of_owner.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
            work.extend(owner_key(&registry, owner, &stored.key).ok().flatten());
        }
        work
    }

    /// Processes each object. Failed ones are queued again.
    async fn work_off(&mut self, work: BTreeSet<Key>) -> BTreeSet<Key> {
        let mut failed = BTreeSet::new();
        for key in work {
            if let Err(error) = self.look_at(&key).await {
                warn!(cluster = self.cluster.name(), %key, error = &error as &dyn std::error::Error, "garbage collection failed, retrying");
                failed.insert(key);
            }
        }
        failed
    }

    async fn look_at(&mut self, key: &Key) -> Result<(), ApiError> {
        let snapshot = self.cluster.store().current();
        let Some(stored) = snapshot.get(key).cloned() else {
            return Ok(());
        };
        let registry = self.cluster.registry();
        let Some(def) = registry
            .stored()
            .into_iter()
            .find(|def| def.bucket == key.bucket)
            .cloned()
        else {
            return Ok(());
        };
        if stored.index.is_deleting() && stored.index.has_finalizer(ORPHAN) {
            return self.orphan(&def, &stored).await;
        }
        if stored.index.is_deleting() && stored.index.has_finalizer(FOREGROUND) {
            self.foreground(&def, &stored, &snapshot).await?;
        }
        if stored.index.owner_references.is_empty()
            || (stored.index.is_deleting() && !stored.index.has_finalizer(FOREGROUND))
        {
            return Ok(());
        }
        self.follow_owners(&registry, &def, &stored, &snapshot)
            .await
    }

    async fn follow_owners(
        &self,
        registry: &Registry,
        def: &Arc<ServedResource>,
        stored: &Stored,
        snapshot: &Snapshot<ObjectIndex>,
    ) -> Result<(), ApiError> {
        let mut by_state: BTreeMap<u8, Vec<&OwnerReference>> = BTreeMap::new();
        for owner in &stored.index.owner_references {
            let state = match owner_state(registry, owner, &stored.key, snapshot) {
                Owner::Unknown => return Ok(()),
                Owner::Solid => 0,
                Owner::Waiting if owner.block_owner_deletion => 1,
                Owner::Waiting | Owner::Absent => 2,
            };
            by_state.entry(state).or_default().push(owner);
        }
        let of = |state: u8| by_state.get(&state).map_or(&[][..], Vec::as_slice);
        let (solid, waiting, absent) = (of(0), of(1), of(2));
        if !solid.is_empty() {
            let loose: Vec<&str> = absent
                .iter()
                .chain(waiting)
                .map(|owner| owner.uid.as_str())
                .collect();
            return if loose.is_empty() {
                Ok(())
            } else {
                self.drop_owners(def, stored, &loose).await
            };
        }
        if stored.index.is_deleting() {
            return Ok(());
        }
        let dependents = self.dependents_of(&stored.index.uid, snapshot);
        if !waiting.is_empty() && !dependents.is_empty() {
            // Two that wait for each other would wait forever.
            let cycle = dependents.iter().any(|dependent| {
                dependent.index.is_deleting() && dependent.index.has_finalizer(FOREGROUND)
            });
            if cycle {
                self.stop_blocking(def, stored).await?;
            }
            return self.delete(def, stored, Propagation::Foreground).await;
        }
        let policy = if stored.index.has_finalizer(ORPHAN) {
            Propagation::Orphan
        } else if stored.index.has_finalizer(FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        self.delete(def, stored, policy).await
    }

    /// The owner stays until no dependent blocks it.
    async fn foreground(
        &self,
        def: &Arc<ServedResource>,
        owner: &Stored,
        snapshot: &Snapshot<ObjectIndex>,
    ) -> Result<(), ApiError> {
        let registry = self.cluster.registry();
        let mut blocked = false;
        for dependent in self.dependents_of(&owner.index.uid, snapshot) {
            // An object that owns itself does not wait for itself.
            let blocks = |reference: &OwnerReference| {
                reference.uid == owner.index.uid && reference.block_owner_deletion
            };
            blocked |=
                dependent.key != owner.key && dependent.index.owner_references.iter().any(blocks);
            let Some(dependent_def) = registry
                .stored()
                .into_iter()
                .find(|def| def.bucket == dependent.key.bucket)
                .cloned()
            else {
                continue;
            };
            Box::pin(self.follow_owners(&registry, &dependent_def, &dependent, snapshot)).await?;
        }
        if blocked {
            return Ok(());
        }
        self.remove_finalizer(def, owner, FOREGROUND).await
    }

    async fn orphan(&self, def: &Arc<ServedResource>, owner: &Stored) -> Result<(), ApiError> {
        let snapshot = self.cluster.store().current();
        let registry = self.cluster.registry();
        for dependent in self.dependents_of(&owner.index.uid, &snapshot) {
            let Some(dependent_def) = registry
                .stored()
                .into_iter()
                .find(|def| def.bucket == dependent.key.bucket)
                .cloned()
            else {
                continue;
            };
            self.drop_owners(&dependent_def, &dependent, &[&owner.index.uid])
                .await?;
        }
        self.remove_finalizer(def, owner, ORPHAN).await
    }

    fn dependents_of(&self, uid: &str, snapshot: &Snapshot<ObjectIndex>) -> Vec<Stored> {
        let keys = self.dependents.get(uid).into_iter().flatten();
        keys.filter_map(|key| snapshot.get(key))
            .filter(|stored| {
                stored
                    .index
                    .owner_references
                    .iter()
                    .any(|owner| owner.uid == uid)
            })
            .cloned()
            .collect()
    }

    async fn delete(
        &self,
        def: &Arc<ServedResource>,
        stored: &Stored,
        propagation: Propagation,
    ) -> Result<(), ApiError> {
        debug!(cluster = self.cluster.name(), key = %stored.key, ?propagation, "deleting an object without owners");
        let options = DeleteOptions {
            uid: Some(stored.index.uid.clone()),
            propagation: Some(propagation),
            ..DeleteOptions::default()
        };
        let call = self
            .actor
            .call(&self.cluster, def, &stored.key.namespace, &stored.key.name);
        gone_is_fine(call.delete(&options).await.map(|_| ()))
    }

    async fn drop_owners(
        &self,
        def: &Arc<ServedResource>,
        stored: &Stored,
        uids: &[&str],
    ) -> Result<(), ApiError> {
        self.change_owners(def, stored, |owners| {
            owners.retain(|owner| !uids.contains(&owner["uid"].as_str().unwrap_or_default()));
        })
        .await
    }

    async fn stop_blocking(
        &self,
        def: &Arc<ServedResource>,
        stored: &Stored,
    ) -> Result<(), ApiError> {
        self.change_owners(def, stored, |owners| {
            for owner in owners {
                owner["blockOwnerDeletion"] = json!(false);
            }
        })
        .await
    }

    async fn change_owners(
        &self,
        def: &Arc<ServedResource>,
        stored: &Stored,
        change: impl Fn(&mut Vec<Value>) + Sync,
    ) -> Result<(), ApiError> {
        self.change(def, stored, |object| {
            let mut owners = meta::of(object)
                .get("ownerReferences")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            change(&mut owners);
            meta::set(object, "ownerReferences", json!(owners));
        })
        .await
    }

    async fn remove_finalizer(
        &self,
        def: &Arc<ServedResource>,
        stored: &Stored,
        finalizer: &str,
    ) -> Result<(), ApiError> {
        self.change(def, stored, |object| {
            let rest: Vec<String> = meta::finalizers(object)
                .into_iter()
                .filter(|known| *known != finalizer)
                .map(str::to_owned)
                .collect();
            meta::set(object, "finalizers", json!(rest));
        })
        .await
    }

    /// Changes the object, if it has not changed since it was read.
    async fn change(
        &self,
        def: &Arc<ServedResource>,
        stored: &Stored,
        change: impl Fn(&mut Value) + Sync,
    ) -> Result<(), ApiError> {
        let call = self
            .actor
            .call(&self.cluster, def, &stored.key.namespace, &stored.key.name);
        let changed = call
            .change(&WriteOptions::internal(), |live| {
                if meta::uid(live) != stored.index.uid {
                    return Ok(None);
                }
                let mut next = live.clone();
                change(&mut next);
                meta::of_mut(&mut next).remove("resourceVersion");
                Ok(Some(next))
            })
            .await;
        gone_is_fine(changed.map(|_| ()))
    }
}

fn gone_is_fine(result: Result<(), ApiError>) -> Result<(), ApiError> {
    match result {
        Err(error) if matches!(error.reason.as_str(), "NotFound" | "Conflict") => Ok(()),
        other => other,
    }
}

/// Where an owner would be; `Err` when its kind is not served, `Ok(None)` when it cannot be an owner.
fn owner_key(
    registry: &Registry,
    owner: &OwnerReference,
    dependent: &Key,
) -> Result<Option<Key>, ()> {
    let gv: GroupVersion = owner.api_version.parse().map_err(|_| ())?;
    let def = registry.of_kind(&gv.group, &owner.kind).ok_or(())?;
    if def.is_namespaced() && dependent.namespace.is_empty() {
        return Ok(None);
    }
    let namespace = if def.is_namespaced() {
        dependent.namespace.clone()
    } else {
        "".into()
    };
    Ok(Some(Key {
        bucket: def.bucket.clone(),
        namespace,
        name: owner.name.as_str().into(),
    }))
}

fn owner_state(
    registry: &Registry,
    owner: &OwnerReference,
    dependent: &Key,
    snapshot: &Snapshot<ObjectIndex>,
) -> Owner {
    let key = match owner_key(registry, owner, dependent) {
        Err(()) => return Owner::Unknown,
        Ok(None) => return Owner::Absent,
        Ok(Some(key)) => key,
    };
    match snapshot
        .get(&key)
        .filter(|stored| stored.index.uid == owner.uid)
    {
        None => Owner::Absent,
        Some(stored) if stored.index.is_deleting() && stored.index.has_finalizer(FOREGROUND) => {
            Owner::Waiting
        }
        Some(_) => Owner::Solid,
    }
}
