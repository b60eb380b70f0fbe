//! The objects of the cluster as they were last seen.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::reflector::store::WriterDropped;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::debug;

use crate::container::Sources;
use crate::endpoints::{MANAGED_BY_LABEL, MANAGER};

/// Every object this runtime looks at.
pub(super) struct Objects {
    pub(super) sets: Store<StatefulSet>,
    pub(super) revisions: Store<ControllerRevision>,
    /// Those of this node.
    pub(super) pods: Store<Pod>,
    pub(super) claims: Store<PersistentVolumeClaim>,
    pub(super) services: Store<Service>,
    /// Those written here.
    pub(super) slices: Store<EndpointSlice>,
    maps: Store<ConfigMap>,
    secrets: Store<Secret>,
    changed: watch::Sender<u64>,
}

impl Objects {
    /// Watches everything, in tasks of `tasks`.
    pub(super) fn watch(client: &Client, node: &str, tasks: &mut JoinSet<()>) -> Self {
        let changed = watch::Sender::new(0);
        let mut follow = Follow {
            client,
            changed: &changed,
            tasks,
        };
        let all = watcher::Config::default;
        let ours = all().labels(&format!("{MANAGED_BY_LABEL}={MANAGER}"));
        let here = all().fields(&format!("spec.nodeName={node}"));
        Self {
            sets: follow.kind(all()),
            revisions: follow.kind(all()),
            pods: follow.kind(here),
            claims: follow.kind(all()),
            services: follow.kind(all()),
            slices: follow.kind(ours),
            maps: follow.kind(all()),
            secrets: follow.kind(all()),
            changed,
        }
    }

    /// Waits until everything was listed once.
    pub(super) async fn known(&self) -> Result<(), WriterDropped> {
        self.sets.wait_until_ready().await?;
        self.revisions.wait_until_ready().await?;
        self.pods.wait_until_ready().await?;
        self.claims.wait_until_ready().await?;
        self.services.wait_until_ready().await?;
        self.slices.wait_until_ready().await?;
        self.maps.wait_until_ready().await?;
        self.secrets.wait_until_ready().await
    }

    /// Moves whenever anything may have changed.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Makes everyone look again.
    pub(super) fn look_again(&self) {
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
    }

    pub(super) fn in_namespace<'a>(&'a self, namespace: &'a str) -> InNamespace<'a> {
        InNamespace {
            objects: self,
            namespace,
        }
    }

    pub(super) fn claim(&self, namespace: &str, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims.get(&ObjectRef::new(name).within(namespace))
    }
}

/// What a Pod of a namespace may refer to.
pub(super) struct InNamespace<'a> {
    objects: &'a Objects,
    namespace: &'a str,
}

impl Sources for InNamespace<'_> {
    fn config_map(&self, name: &str) -> Option<ConfigMap> {
        let found = self
            .objects
            .maps
            .get(&ObjectRef::new(name).within(self.namespace))?;
        Some(ConfigMap::clone(&found))
    }

    fn secret(&self, name: &str) -> Option<Secret> {
        let found = self
            .objects
            .secrets
            .get(&ObjectRef::new(name).within(self.namespace))?;
        Some(Secret::clone(&found))
    }
}

struct Follow<'a> {
    client: &'a Client,
    changed: &'a watch::Sender<u64>,
    tasks: &'a mut JoinSet<()>,
}

impl Follow<'_> {
    fn kind<K>(&mut self, config: watcher::Config) -> Store<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let (store, writer) = reflector::store();
        let events = watcher(Api::<K>::all(self.client.clone()), config);
        let events = reflector(writer, events).default_backoff();
        let changed = self.changed.clone();
        self.tasks.spawn(async move {
            let mut events = pin!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(_) => changed.send_modify(|n| *n = n.wrapping_add(1)),
                    // It goes on by itself, a little later each time.
                    Err(error) => {
                        let kind = K::kind(&());
                        debug!(%kind, error = &error as &dyn std::error::Error, "watch interrupted");
                    }
                }
            }
        });
        store
    }
}
