//! The revisions of this server as last seen, kept up to date by a watch and by the responses to our own writes.

use std::sync::Arc;

use kube::Client;
use kube::core::ObjectMeta;
use polity_api::policies::names;
use polity_api::policies::v1::PolicyRevision;
use polity_reconcile::{Cache, Controller, SharedCache, Watch, resource_version};
use tokio::sync::watch;

use crate::managed::revision::{Revision, Revisions, Uid};

/// The revisions at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// Whether the store has seen a complete list. Before that a missing revision does not mean a deleted one.
    pub(crate) is_complete: bool,
    pub(crate) revisions: Revisions,
}

/// The revisions as last seen. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    server: Arc<str>,
    revisions: SharedCache<Uid, Arc<Revision>>,
}

impl Store {
    /// An empty store for the revisions of a server. [`Self::follow`] must be called before it is read.
    pub(crate) fn new(server: &str) -> Self {
        let newest = Cache::default()
            .newest_by(|revision: &Arc<Revision>| resource_version(&revision.object.metadata));
        Self {
            server: server.into(),
            revisions: SharedCache::new(newest),
        }
    }

    /// Is notified when a revision changes, and when the first list is complete.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.revisions.subscribe()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        // In this order: what is listed after the first line is in the second one.
        let is_complete = self.revisions.is_listed();
        let revisions = self.revisions.read(|revisions| {
            let all = revisions.iter();
            all.map(|(uid, revision)| (uid.clone(), revision.clone()))
                .collect()
        });
        Snapshot {
            is_complete,
            revisions,
        }
    }

    /// One revision, if it still exists.
    pub(crate) fn get(&self, uid: &Uid) -> Option<Arc<Revision>> {
        self.revisions.read(|revisions| revisions.get(uid).cloned())
    }

    /// Stores the response to a write or a read of this process. A deleted revision is not added again.
    pub(crate) fn note(&self, object: PolicyRevision) {
        let uid = uid(&object.metadata);
        let revision = Revision::read(Arc::new(object), &self.server);
        self.revisions.write(|revisions| match revision {
            Some(revision) => revisions.refresh(uid, Arc::new(revision)),
            // It belonged to this server until now.
            None => revisions.delete(&uid),
        });
    }

    /// Keeps the store up to date while the controller runs.
    pub(crate) fn follow(
        &self,
        controller: &mut Controller<Uid>,
        client: &Client,
        namespace: &str,
    ) {
        let label = format!("{}={}", names::REVISION_POLICY_SERVER, self.server);
        let server = self.server.clone();
        controller.keep(
            Watch::<PolicyRevision>::namespaced(client, namespace).labels(&label),
            &self.revisions,
            uid,
            move |object| Revision::read(Arc::new(object.clone()), &server).map(Arc::new),
            |_, _| {},
        );
    }
}

fn uid(metadata: &ObjectMeta) -> Uid {
    metadata.uid.as_deref().unwrap_or_default().into()
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

    /// What a watch reports.
    fn put(store: &Store, object: PolicyRevision) {
        let (uid, revision) = (
            uid(&object.metadata),
            Revision::read(Arc::new(object), "default"),
        );
        let revision = revision.expect("it is a revision of this server");
        store
            .revisions
            .write(|revisions| revisions.apply(uid, Arc::new(revision)));
    }

    fn serving(store: &Store) -> Option<bool> {
        store.get(&"r1".into()).map(|revision| revision.is_serving)
    }

    #[test]
    fn what_is_older_changes_nothing() {
        let store = Store::new("default");
        put(&store, at("5", Sample::new(1)));
        store.note(at("7", Sample::new(1).serving()));
        assert_eq!(serving(&store), Some(true));
        put(&store, at("6", Sample::new(1)));
        assert_eq!(serving(&store), Some(true), "the watch is behind");
        store.note(at("6", Sample::new(1)));
        assert_eq!(serving(&store), Some(true), "so is a response");
        put(&store, at("8", Sample::new(1)));
        assert_eq!(serving(&store), Some(false));
        put(&store, at("x", Sample::new(1).serving()));
        assert_eq!(
            serving(&store),
            Some(true),
            "no number: the last one counts"
        );
    }

    #[test]
    fn what_is_gone_stays_gone() {
        let store = Store::new("default");
        put(&store, at("5", Sample::new(1)));
        store
            .revisions
            .write(|revisions| revisions.delete(&"r1".into()));
        store.note(at("6", Sample::new(1)));
        assert_eq!(serving(&store), None);
        put(&store, at("7", Sample::new(1)));
        store.note(at("8", Sample::new(1).server("other")));
        assert_eq!(serving(&store), None, "it was moved to another server");
    }

    #[test]
    fn readers_are_woken_by_changes_only() {
        let store = Store::new("default");
        let mut reader = store.subscribe();
        put(&store, at("5", Sample::new(1)));
        assert!(reader.has_changed().unwrap());
        reader.mark_unchanged();
        put(&store, at("5", Sample::new(1)));
        store.note(at("5", Sample::new(1)));
        assert!(!reader.has_changed().unwrap());
    }

    #[tokio::test]
    async fn a_store_is_not_complete_before_the_first_list() {
        let store = Store::new("default");
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("no server"))
        });
        let mut controller = Controller::new("test", polity_runtime::Clock::system());
        let client = Client::new(service, "default");
        store.follow(&mut controller, &client, "default");
        assert!(!store.snapshot().is_complete);
    }
}
