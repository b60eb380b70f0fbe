//! The objects of the cluster as they were last seen.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::store::WriterDropped;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use polity_api::policies::v1::PolicyServer;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::debug;

use crate::container::Sources;
use crate::endpoints::{MANAGED_BY_LABEL, MANAGER};
use crate::permit::Owners;

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
    servers: Store<PartialObjectMeta<PolicyServer>>,
    /// Whether PolicyServers were listed, or cannot be: a cluster need not have the kind.
    servers_tried: watch::Receiver<bool>,
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
        let (servers, servers_tried) = follow.policy_servers();
        Self {
            servers,
            servers_tried,
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
        self.secrets.wait_until_ready().await?;
        // An end of the watch is noticed by the owner of the task.
        self.servers_tried
            .clone()
            .wait_for(|tried| *tried)
            .await
            .ok();
        Ok(())
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

impl Objects {
    /// The owners of Pods in the deployment namespace.
    pub(super) fn owners<'a>(&'a self, namespace: &'a str) -> OwnersIn<'a> {
        OwnersIn {
            objects: self,
            namespace,
        }
    }
}

/// The live owners of Pods of a namespace.
pub(super) struct OwnersIn<'a> {
    objects: &'a Objects,
    namespace: &'a str,
}

impl Owners for OwnersIn<'_> {
    fn stateful_set(&self, name: &str) -> Option<StatefulSet> {
        let key = ObjectRef::new(name).within(self.namespace);
        let found = self.objects.sets.get(&key)?;
        Some(StatefulSet::clone(&found))
    }

    fn policy_server_uid(&self, name: &str) -> Option<String> {
        self.objects.servers.get(&ObjectRef::new(name))?.uid()
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
        let events = watcher(Api::<K>::all(self.client.clone()), config);
        self.store(events).0
    }

    /// Their metadata, and whether they were listed or cannot be.
    fn policy_servers(
        &mut self,
    ) -> (
        Store<PartialObjectMeta<PolicyServer>>,
        watch::Receiver<bool>,
    ) {
        let api = Api::<PartialObjectMeta<PolicyServer>>::all(self.client.clone());
        self.store(watcher(api, watcher::Config::default()))
    }

    /// Follows events in a task; what they tell of, and whether anything was heard.
    fn store<K>(
        &mut self,
        events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
    ) -> (Store<K>, watch::Receiver<bool>)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    {
        let (store, writer) = reflector::store();
        let events = reflector(writer, events).default_backoff();
        let changed = self.changed.clone();
        let (tried, is_tried) = watch::channel(false);
        self.tasks.spawn(async move {
            let mut events = pin!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => {
                        changed.send_modify(|n| *n = n.wrapping_add(1));
                        if !matches!(event, watcher::Event::Init | watcher::Event::InitApply(_)) {
                            tried.send_replace(true);
                        }
                    }
                    // It goes on by itself, a little later each time.
                    Err(error) => {
                        let kind = K::kind(&());
                        debug!(%kind, error = &error as &dyn std::error::Error, "watch interrupted");
                        tried.send_replace(true);
                    }
                }
            }
        });
        (store, is_tried)
    }
}
