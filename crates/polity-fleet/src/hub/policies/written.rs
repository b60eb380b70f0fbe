//! The replicas that this process has written and that the cache does not show yet.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use polity_api::policy::v1;
use polity_core::{ClusterName, ObjectKey};
use polity_govern::objects::Policy;

/// How long a write is believed that no watch has shown: the object may have been deleted before the watch saw it.
const WATCH_LAG: SignedDuration = SignedDuration::from_secs(30);

/// Own writes of replicas, by root policy and cluster.
#[derive(Debug, Default)]
pub(super) struct WrittenReplicas {
    by_root: Mutex<BTreeMap<ObjectKey, BTreeMap<ClusterName, WrittenReplica>>>,
}

/// One write. Every write names the version that it replaces, so there is no version between the two: once the cache
/// shows another one than that, it shows this write or a later one.
#[derive(Debug)]
struct WrittenReplica {
    /// The resource version that was replaced; `None` for a create.
    replaced: Option<String>,
    /// The replica after the write; `None` after a deletion.
    replica: Option<Policy>,
    at: Timestamp,
}

impl WrittenReplicas {
    /// Notes a replica that was created, or that replaced a version.
    pub(super) fn note(
        &self,
        root: &ObjectKey,
        replica: &Policy,
        replaced: Option<&str>,
        written: &v1::Policy,
        now: Timestamp,
    ) {
        let replica = Policy {
            uid: written.uid().unwrap_or_default(),
            resource_version: written.resource_version().unwrap_or_default(),
            ..replica.clone()
        };
        let cluster = ClusterName::from(replica.namespace.as_str());
        let write = WrittenReplica {
            replaced: replaced.map(str::to_owned),
            replica: Some(replica),
            at: now,
        };
        self.lock()
            .entry(root.clone())
            .or_default()
            .insert(cluster, write);
    }

    /// Notes a replica that was deleted.
    pub(super) fn note_deleted(&self, root: &ObjectKey, replica: &Policy, now: Timestamp) {
        let cluster = ClusterName::from(replica.namespace.as_str());
        let write = WrittenReplica {
            replaced: Some(replica.resource_version.clone()),
            replica: None,
            at: now,
        };
        self.lock()
            .entry(root.clone())
            .or_default()
            .insert(cluster, write);
    }

    /// Puts the writes over what the cache shows, and forgets those that it shows already.
    pub(super) fn overlay(
        &self,
        root: &ObjectKey,
        replicas: &mut BTreeMap<ClusterName, Policy>,
        now: Timestamp,
    ) {
        let mut by_root = self.lock();
        let Some(writes) = by_root.get_mut(root) else {
            return;
        };
        writes.retain(|cluster, write| {
            let cached = replicas.get(cluster).map(|it| it.resource_version.as_str());
            now.duration_since(write.at) < WATCH_LAG && cached == write.replaced.as_deref()
        });
        for (cluster, write) in writes.iter() {
            match &write.replica {
                Some(replica) => _ = replicas.insert(cluster.clone(), replica.clone()),
                None => _ = replicas.remove(cluster),
            }
        }
        if writes.is_empty() {
            by_root.remove(root);
        }
    }

    /// Forgets a root policy that does not exist any more.
    pub(super) fn forget(&self, root: &ObjectKey) {
        self.lock().remove(root);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, BTreeMap<ClusterName, WrittenReplica>>> {
        // Every change is a single insertion or removal.
        self.by_root.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
