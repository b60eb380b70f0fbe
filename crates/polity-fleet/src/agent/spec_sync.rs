//! Copies the replicas of the hub to the managed cluster, and the key that decrypts their values.

pub mod plan;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Secret};
use kube::{Client, Resource as _};
use polity_api::policy::v1;
use polity_core::governance::names;
use polity_reconcile::{ObjectEvent, Requeue, WriteError, Writer, publish_event};
use polity_runtime::Clock;

use self::plan::SpecSync;
use super::Agent;
use super::model::{AgentModel, PolicyCopy};
use super::watches::{AgentQueues, SECRET_KEY};

/// The field manager of these writes.
const MANAGER: &str = "polity/spec-sync";
/// The reason of Events about copies.
const REASON: &str = "PolicySpecSync";

/// The controller of copies.
#[derive(Clone)]
pub(crate) struct SpecSyncer {
    namespace: String,
    clock: Clock,
    client: Client,
    model: Arc<AgentModel>,
    queues: AgentQueues,
    policies: Writer<v1::Policy>,
    secrets: Writer<Secret>,
}

impl SpecSyncer {
    pub(super) fn new(
        agent: &Agent,
        client: &Client,
        model: Arc<AgentModel>,
        queues: AgentQueues,
    ) -> Self {
        Self {
            namespace: agent.namespace.clone(),
            clock: agent.clock.clone(),
            client: client.clone(),
            model,
            queues,
            policies: Writer::new(client, MANAGER),
            secrets: Writer::new(client, MANAGER),
        }
    }

    /// Reconciles the copy of one policy, or the encryption key.
    pub(super) async fn reconcile(&self, name: String) -> Result<Requeue, WriteError> {
        if name == SECRET_KEY {
            return self.reconcile_secret().await;
        }
        self.model.hub_policies.listed().await;
        self.model.policies.listed().await;
        let hub = self.model.hub_policy(&name).filter(|it| !it.is_deleting());
        let copy = self.model.policy(&name);
        let plan = plan::plan(
            hub.as_ref().map(|it| &it.policy),
            copy.as_ref().map(|it| &it.policy),
            &self.namespace,
        );
        match plan {
            SpecSync::UpToDate => {
                // The status of the hub may be that of an earlier copy.
                self.queues.statuses.add(name);
            }
            SpecSync::Create(policy) => {
                let created = self
                    .policies
                    .create(&v1::Policy::from(policy.as_ref()))
                    .await?;
                let note = format!(
                    "Policy {name} was synchronized to cluster namespace {}",
                    self.namespace
                );
                self.publish(
                    reference(&name, &self.namespace, created.metadata.uid.as_ref()),
                    &note,
                )
                .await;
            }
            SpecSync::Update(policy) => {
                let mut object = v1::Policy::from(policy.as_ref());
                if let Some(copy) = &copy {
                    // A replace must carry everything of the metadata that is to stay.
                    let metadata = &copy.object.metadata;
                    object.metadata.finalizers.clone_from(&metadata.finalizers);
                    object
                        .metadata
                        .owner_references
                        .clone_from(&metadata.owner_references);
                }
                let updated = self.policies.update(&object).await?;
                let note = format!(
                    "Policy {name} was updated in cluster namespace {}",
                    self.namespace
                );
                self.publish(
                    reference(&name, &self.namespace, updated.metadata.uid.as_ref()),
                    &note,
                )
                .await;
            }
            SpecSync::Delete => {
                if let Some(copy) = copy.filter(|copy| !copy.is_deleting()) {
                    self.policies.delete(&copy.object.metadata).await?;
                }
            }
        }
        Ok(Requeue::Slowly)
    }

    async fn publish(&self, about: ObjectReference, note: &str) {
        let event = ObjectEvent {
            about,
            reason: REASON,
            note,
            is_warning: false,
            manager: MANAGER,
            rank: 0,
        };
        publish_event(&self.client, &event, self.clock.now()).await;
    }

    /// Copies the data of the encryption key, and nothing else of the Secret.
    async fn reconcile_secret(&self) -> Result<Requeue, WriteError> {
        self.model.hub_secret.listed().await;
        self.model.secret.listed().await;
        let name = names::ENCRYPTION_SECRET.to_owned();
        let hub = self.model.hub_secret.read(|all| all.get(&name).cloned());
        let copy = self.model.secret.read(|all| all.get(&name).cloned());
        match (hub, copy) {
            (Some(hub), copy) => {
                if copy.as_ref().is_some_and(|copy| copy.data == hub.data) {
                    return Ok(Requeue::Slowly);
                }
                let mut wanted = Secret {
                    data: hub.data.clone(),
                    ..Secret::default()
                };
                wanted.meta_mut().name = Some(name);
                wanted.meta_mut().namespace = Some(self.namespace.clone());
                self.secrets.apply(&wanted).await?;
            }
            (None, Some(copy)) => {
                self.secrets.delete(&copy.metadata).await?;
            }
            (None, None) => {}
        }
        Ok(Requeue::Slowly)
    }
}

fn reference(name: &str, namespace: &str, uid: Option<&String>) -> ObjectReference {
    ObjectReference {
        api_version: Some(names::V1.to_owned()),
        kind: Some(v1::Policy::kind(&()).into_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        uid: uid.cloned(),
        ..ObjectReference::default()
    }
}

/// The policy that Events of the agent are about.
pub(super) fn policy_reference(copy: &PolicyCopy) -> ObjectReference {
    let policy = &copy.policy;
    reference(&policy.name, &policy.namespace, Some(&policy.uid))
}
