//! The revisions of this server as last seen: kept by a watch, and by the answers to our own writes.

use std::sync::Arc;

use futures::StreamExt as _;
use kube::core::DeserializeGuard;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use polity_api::policies::names;
use polity_api::policies::v1::PolicyRevision;
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::managed::revision::{Revision, Revisions, Uid};

/// What is known at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// Whether there was a complete list. Without one nothing can be said about what is missing.
    pub(crate) is_complete: bool,
    pub(crate) revisions: Arc<Revisions>,
}

/// The revisions as last seen. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    server: Arc<str>,
    snapshot: Arc<watch::Sender<Snapshot>>,
}

impl Store {
    /// A store for the revisions of a server, empty until it is followed.
    pub(crate) fn new(server: &str) -> Self {
        Self {
            server: server.into(),
            snapshot: Arc::new(watch::Sender::new(Snapshot::default())),
        }
    }

    /// What is known, and when that changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Snapshot> {
        self.snapshot.subscribe()
    }

    /// One revision, if it is still there.
    pub(crate) fn get(&self, uid: &Uid) -> Option<Arc<Revision>> {
        self.snapshot.borrow().revisions.get(uid).cloned()
    }

    /// Takes in the answer to a write or a read of ours. What is gone stays gone.
    pub(crate) fn note(&self, object: PolicyRevision) {
        let is_known = object
            .metadata
            .uid
            .as_deref()
            .is_some_and(|uid| self.get(&uid.into()).is_some());
        if is_known {
            self.put(object);
        }
    }

    /// Keeps the store up to date. Never ends: what breaks is taken up again.
    pub(crate) async fn follow(self, client: Client, namespace: &str) {
        let api: Api<DeserializeGuard<PolicyRevision>> = Api::namespaced(client, namespace);
        let label = format!("{}={}", names::REVISION_POLICY_SERVER, self.server);
        // The list is of the most recent state: an old one would start an old set.
        let config = watcher::Config::default().labels(&label);
        let mut events = std::pin::pin!(watcher(api, config).default_backoff());
        let mut listed = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => listed.clear(),
                Ok(watcher::Event::InitApply(object)) => listed.extend(readable(object)),
                Ok(watcher::Event::InitDone) => self.replace(std::mem::take(&mut listed)),
                Ok(watcher::Event::Apply(object)) => {
                    if let Some(object) = readable(object) {
                        self.put(object);
                    }
                }
                Ok(watcher::Event::Delete(object)) => {
                    use kube::Resource as _;
                    self.remove(object.meta().uid.as_deref());
                }
                Err(error) => {
                    debug!(
                        error = &error as &dyn std::error::Error,
                        "the watch of revisions broke"
                    );
                }
            }
        }
    }

    fn replace(&self, objects: Vec<PolicyRevision>) {
        let before = self.snapshot.borrow().revisions.clone();
        let read = objects
            .into_iter()
            .filter_map(|object| Revision::read(Arc::new(object), &self.server));
        let revisions = read.map(|revision| {
            let known = before.get(&revision.uid);
            let newest = match known {
                Some(known) if is_newer(&known.object, &revision.object) => known.clone(),
                _ => Arc::new(revision),
            };
            (newest.uid.clone(), newest)
        });
        self.snapshot.send_replace(Snapshot {
            is_complete: true,
            revisions: Arc::new(revisions.collect()),
        });
    }

    fn put(&self, object: PolicyRevision) {
        let uid = object.metadata.uid.clone();
        let Some(revision) = Revision::read(Arc::new(object), &self.server) else {
            // It may have been ours until now.
            self.remove(uid.as_deref());
            return;
        };
        self.snapshot.send_if_modified(|snapshot| {
            let known = snapshot.revisions.get(&revision.uid);
            if known.is_some_and(|known| !is_newer(&revision.object, &known.object)) {
                return false;
            }
            Arc::make_mut(&mut snapshot.revisions).insert(revision.uid.clone(), Arc::new(revision));
            true
        });
    }

    fn remove(&self, uid: Option<&str>) {
        let Some(uid) = uid.map(Uid::from) else {
            return;
        };
        self.snapshot.send_if_modified(|snapshot| {
            snapshot.revisions.contains_key(&uid)
                && Arc::make_mut(&mut snapshot.revisions)
                    .remove(&uid)
                    .is_some()
        });
    }
}

/// One object that cannot be read is told of and passed over.
fn readable(object: DeserializeGuard<PolicyRevision>) -> Option<PolicyRevision> {
    match object.0 {
        Ok(object) => Some(object),
        Err(invalid) => {
            let name = invalid.metadata.name.unwrap_or_default();
            warn!(name, error = %invalid.error, "a revision cannot be read");
            None
        }
    }
}

/// Whether one is a later state than the other. Watches run behind the answers to our own writes.
fn is_newer(one: &PolicyRevision, other: &PolicyRevision) -> bool {
    let version = |object: &PolicyRevision| {
        let version = object.metadata.resource_version.as_ref()?;
        version.parse::<u128>().ok()
    };
    match (version(one), version(other)) {
        (Some(one), Some(other)) => one > other,
        // Versions that are no numbers cannot be compared: what comes last counts.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managed::revision::samples::Sample;

    fn at(version: &str, sample: Sample) -> PolicyRevision {
        let mut object = sample.object();
        object.metadata.resource_version = Some(version.to_owned());
        object
    }

    fn serving(store: &Store) -> Option<bool> {
        store.get(&"r1".into()).map(|revision| revision.is_serving)
    }

    #[test]
    fn what_is_older_changes_nothing() {
        let store = Store::new("default");
        assert!(!store.subscribe().borrow().is_complete);
        store.replace(vec![at("5", Sample::new(1))]);
        assert!(store.subscribe().borrow().is_complete);

        store.note(at("7", Sample::new(1).serving()));
        assert_eq!(serving(&store), Some(true));
        store.put(at("6", Sample::new(1)));
        assert_eq!(serving(&store), Some(true), "the watch is behind");
        store.replace(vec![at("6", Sample::new(1))]);
        assert_eq!(serving(&store), Some(true), "so is a list");
        store.put(at("8", Sample::new(1)));
        assert_eq!(serving(&store), Some(false));
        store.put(at("x", Sample::new(1).serving()));
        assert_eq!(
            serving(&store),
            Some(true),
            "no number: the last one counts"
        );
    }

    #[test]
    fn what_is_gone_stays_gone() {
        let store = Store::new("default");
        store.put(at("5", Sample::new(1)));
        store.remove(Some("r1"));
        store.note(at("6", Sample::new(1)));
        assert_eq!(serving(&store), None);
        store.put(at("7", Sample::new(1)));
        store.put(at("8", Sample::new(1).server("other")));
        assert_eq!(serving(&store), None, "it was moved to another server");
    }

    #[test]
    fn readers_are_woken_by_changes_only() {
        let store = Store::new("default");
        let mut reader = store.subscribe();
        store.put(at("5", Sample::new(1)));
        assert!(reader.has_changed().unwrap());
        reader.mark_unchanged();
        store.put(at("5", Sample::new(1)));
        store.remove(Some("r9"));
        assert!(!reader.has_changed().unwrap());
    }
}
