//! Reconciles StatefulSets: observes, plans, writes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt as _};
use polity_runtime::Shutdown;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tracing::{info, warn};

use super::{RETRY, Shared, WRITE_PATIENCE, absence, events};
use crate::claims;
use crate::permit::{Refusal, policy_server_of};
use crate::set::{Plan, Seen, Step, plan};

/// Reconciles every set after each change, until the shutdown.
pub(super) async fn run(shared: &Arc<Shared>, shutdown: &Shutdown) {
    let mut changes = shared.objects.changes();
    let mut sets = Sets {
        shared,
        written: BTreeMap::new(),
        refused: BTreeMap::new(),
    };
    while !shutdown.is_triggered() {
        changes.borrow_and_update();
        let look_again_at = sets.look().await;
        tokio::select! {
            () = shutdown.triggered() => {}
            _ = changes.changed() => {}
            () = shared.sleep_until(look_again_at) => {}
        }
    }
}

/// A write that did not happen.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("the API server refused or was not there")]
    Api(#[source] Box<kube::Error>),
    #[error("the API server did not answer in time")]
    Late,
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

struct Sets<'a> {
    shared: &'a Arc<Shared>,
    /// The statuses this process wrote, by uid: what is watched comes a little later.
    written: BTreeMap<String, StatefulSetStatus>,
    /// Why sets of our images are left alone, by uid, as the last Event about each says.
    refused: BTreeMap<String, Refusal>,
}

impl Sets<'_> {
    async fn look(&mut self) -> Option<Timestamp> {
        let retry = self.shared.now().checked_add(RETRY).ok();
        let (sets, all_known) = self.ours().await;
        let mut look_again_at = if all_known { None } else { retry };
        self.written
            .retain(|uid, _| sets.iter().any(|set| set.uid().as_ref() == Some(uid)));
        for set in &sets {
            let at = match tokio::time::timeout(WRITE_PATIENCE, self.reconcile(set)).await {
                Ok(Ok(at)) => at,
                Ok(Err(error)) => {
                    log_failure(set, &error);
                    retry
                }
                Err(_) => {
                    log_failure(set, &WriteError::Late);
                    retry
                }
            };
            look_again_at = [look_again_at, at].into_iter().flatten().min();
        }
        if let Err(error) = self.bind_claims().await {
            warn!(
                error = &error as &dyn std::error::Error,
                "binding a claim failed"
            );
            look_again_at = retry;
        }
        look_again_at
    }

    /// The StatefulSets of our images that belong to policy servers, and whether all others are known not to. The others
    /// are left alone, and an Event tells why.
    async fn ours(&mut self) -> (Vec<Arc<StatefulSet>>, bool) {
        let images = &self.shared.options.images;
        let is_of_our_image = |set: &StatefulSet| {
            let spec = set.spec.template.spec.as_ref();
            let container = spec.and_then(|spec| spec.containers.first());
            let image = container.and_then(|container| container.image.as_deref());
            image.is_some_and(|image| images.binary(image).is_some())
        };
        let permit = &self.shared.options.permit;
        let owners = self.shared.objects.owners(&permit.namespace);
        let mut ours = Vec::new();
        let mut refused = BTreeMap::new();
        let mut all_known = true;
        for set in self.shared.objects.sets.state_filter(is_of_our_image) {
            let uid = set.uid().unwrap_or_default();
            match policy_server_of(&set, &owners, permit) {
                Ok(_) => ours.push(set),
                Err(refusal) if self.refused.get(&uid) == Some(&refusal) => {
                    refused.insert(uid, refusal);
                }
                Err(refusal) if absence::is_final(self.shared, &refusal).await => {
                    events::forbidden(self.shared, &*set, &refusal.to_string()).await;
                    refused.insert(uid, refusal);
                }
                // The cache of PolicyServers is behind.
                Err(_) => all_known = false,
            }
        }
        self.refused = refused;
        (ours, all_known)
    }

    async fn reconcile(&mut self, set: &StatefulSet) -> Result<Option<Timestamp>, WriteError> {
        let uid = set.uid().unwrap_or_default();
        let mut set = set.clone();
        if let Some(status) = self.written.get(&uid) {
            set.status = Some(status.clone());
        }
        let Plan {
            steps,
            status,
            look_again_at,
        } = self.plan(&set);
        // Whatever is refused, the status tells what there is.
        let mut outcome = Ok(());
        for step in steps {
            outcome = self.write(&set, step).await;
            if outcome.is_err() {
                break;
            }
        }
        if set.status.as_ref() != Some(&status) {
            let api: Api<StatefulSet> = self.api(&set);
            let body = json!({"metadata": {"uid": uid}, "status": status});
            let patch = Patch::Merge(body);
            gone_is_fine(
                api.patch_status(&set.name_any(), &PatchParams::default(), &patch)
                    .await,
            )?;
            self.written.insert(uid, status);
        }
        outcome.map(|()| look_again_at)
    }

    fn plan(&self, set: &StatefulSet) -> Plan {
        let objects = &self.shared.objects;
        let is_controlled = |meta: &ObjectMeta| {
            let owners = meta.owner_references.iter().flatten();
            owners
                .filter(|owner| owner.controller == Some(true))
                .any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
        };
        let pods: Vec<Arc<Pod>> = objects.pods.state();
        let pods: Vec<&Pod> = pods
            .iter()
            .map(|object| &**object)
            .filter(|pod| is_controlled(&pod.metadata))
            .collect();
        let revisions = objects.revisions.state();
        let revisions: Vec<&ControllerRevision> = revisions
            .iter()
            .map(|object| &**object)
            .filter(|revision| is_controlled(&revision.metadata))
            .collect();
        let claims = objects.claims.state();
        let claims: Vec<&PersistentVolumeClaim> = claims
            .iter()
            .map(|object| &**object)
            .filter(|claim| claim.metadata.namespace == set.metadata.namespace)
            .collect();
        let seen = Seen {
            set,
            pods: &pods,
            revisions: &revisions,
            claims: &claims,
            node: &self.shared.options.node,
        };
        plan(&seen, self.shared.now())
    }

    async fn write(&self, set: &StatefulSet, step: Step) -> Result<(), WriteError> {
        match step {
            Step::CreateRevision(revision) => self.create(set, &*revision).await,
            Step::RenumberRevision { name, revision } => {
                let api: Api<ControllerRevision> = self.api(set);
                let patch = Patch::Merge(json!({"revision": revision}));
                gone_is_fine(api.patch(&name, &PatchParams::default(), &patch).await)
            }
            Step::DeleteRevision { name, uid } => {
                let api: Api<ControllerRevision> = self.api(set);
                gone_is_fine(api.delete(&name, &this_one(uid)).await)
            }
            Step::CreateClaim(claim) => self.create(set, &*claim).await,
            Step::CreatePod(pod) => {
                info!(
                    namespace = set.namespace(),
                    name = pod.name_any(),
                    "creating a pod"
                );
                self.create(set, &*pod).await
            }
            Step::DeletePod { name, uid } => {
                info!(namespace = set.namespace(), name, "deleting a pod");
                let api: Api<Pod> = self.api(set);
                gone_is_fine(api.delete(&name, &this_one(uid)).await)
            }
        }
    }

    /// Creates what belongs to a set. It may be there already, made by a look whose answer was lost or is not
    /// watched yet.
    async fn create<K>(&self, set: &StatefulSet, object: &K) -> Result<(), WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let api: Api<K> = self.api(set);
        match api.create(&PostParams::default(), object).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            other => other.map(drop).map_err(Into::into),
        }
    }

    /// Claims that Pods of this node use are bound at once.
    async fn bind_claims(&self) -> Result<(), WriteError> {
        for pod in self.shared.objects.pods.state() {
            let namespace = pod.namespace().unwrap_or_default();
            for name in claims::used_by(&pod) {
                let claim = self.shared.objects.claim(&namespace, name);
                let Some(status) = claim.as_deref().and_then(claims::bind) else {
                    continue;
                };
                let api: Api<PersistentVolumeClaim> =
                    Api::namespaced(self.shared.client.clone(), &namespace);
                let patch = Patch::Merge(json!({"status": status}));
                gone_is_fine(
                    api.patch_status(name, &PatchParams::default(), &patch)
                        .await,
                )?;
            }
        }
        Ok(())
    }

    fn api<K>(&self, set: &StatefulSet) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let namespace = set.namespace().unwrap_or_default();
        Api::namespaced(self.shared.client.clone(), &namespace)
    }
}

fn log_failure(set: &StatefulSet, error: &WriteError) {
    let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
    warn!(%namespace, %name, error = error as &dyn std::error::Error, "StatefulSet reconcile failed");
}

fn this_one(uid: String) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: Some(uid),
        resource_version: None,
    })
}

/// It went, or another one of its name came.
fn gone_is_fine<T>(answer: kube::Result<T>) -> Result<(), WriteError> {
    match answer {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other.map(drop).map_err(Into::into),
    }
}
