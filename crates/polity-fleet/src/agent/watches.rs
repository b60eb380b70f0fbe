//! Which kinds the agent always watches, and which policies a change queues.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, ResourceExt as _};
use polity_api::cluster::v1alpha1::ClusterClaim;
use polity_api::policy::v1;
use polity_core::governance::names;
use polity_govern::objects::Policy;
use polity_reconcile::{Cache, Controller, Queue, SharedCache, Watch};
use serde_json::json;

use super::Agent;
use super::configuration::ChangedReads;
use super::model::{AgentModel, PolicyCopy, PolicyEvent};
use super::objects::ManagedObjects;
use super::status_sync::history::ComplianceEvent;

/// The key of the encryption key in the queue of copies. No policy has this name: those of replicas contain a dot.
pub(super) const SECRET_KEY: &str = names::ENCRYPTION_SECRET;

/// The queues of the controllers of an agent, by the name of the policy.
#[derive(Clone)]
pub(crate) struct AgentQueues {
    pub(super) specs: Queue<String>,
    pub(super) templates: Queue<String>,
    pub(super) statuses: Queue<String>,
    /// By the name of the configuration policy.
    pub(super) configurations: Queue<String>,
    pub(super) changed_reads: ChangedReads,
}

impl AgentQueues {
    /// Queues a configuration policy because something changed that it has read.
    pub(super) fn read_changed(&self, name: &str) {
        self.changed_reads.note(name);
        self.configurations.add(name.to_owned());
    }
}

/// The watches of an agent.
pub(super) struct AgentWatches<'a> {
    pub(super) agent: &'a Agent,
    pub(super) model: Arc<AgentModel>,
    pub(super) objects: Arc<ManagedObjects>,
    pub(super) queues: AgentQueues,
}

impl AgentWatches<'_> {
    /// Lets a controller run all watches.
    pub(super) fn attach(self, controller: &mut Controller<String>) {
        self.watch_policies(controller);
        self.watch_secret(controller);
        self.watch_events(controller);
        self.watch_claims(controller);
        self.watch_definitions(controller);
    }

    fn watch_policies(&self, controller: &mut Controller<String>) {
        let Agent {
            cluster,
            namespace,
            hub_client,
            managed_client,
            ..
        } = self.agent;
        let queues = self.queues.clone();
        controller.keep(
            Watch::<v1::Policy>::namespaced(hub_client, cluster),
            &self.model.hub_policies,
            name,
            |object: &v1::Policy| Some(policy_copy(object)),
            move |_, change| queues.specs.add(change.key),
        );
        let queues = self.queues.clone();
        controller.keep(
            Watch::<v1::Policy>::namespaced(managed_client, namespace),
            &self.model.policies,
            name,
            |object: &v1::Policy| Some(policy_copy(object)),
            move |_, change| {
                queues.specs.add(change.key.clone());
                queues.templates.add(change.key.clone());
                queues.statuses.add(change.key);
            },
        );
    }

    fn watch_secret(&self, controller: &mut Controller<String>) {
        let sides = [
            (
                &self.agent.hub_client,
                &self.agent.cluster,
                &self.model.hub_secret,
            ),
            (
                &self.agent.managed_client,
                &self.agent.namespace,
                &self.model.secret,
            ),
        ];
        for (client, namespace, cache) in sides {
            let specs = self.queues.specs.clone();
            controller.keep(
                secret_watch(client, namespace),
                cache,
                name,
                |secret: &Secret| Some(Arc::new(secret.clone())),
                move |_, _| specs.add(SECRET_KEY.to_owned()),
            );
        }
    }

    fn watch_events(&self, controller: &mut Controller<String>) {
        let statuses = self.queues.statuses.clone();
        controller.keep(
            Watch::<Event>::namespaced(&self.agent.managed_client, &self.agent.namespace)
                .fields("involvedObject.kind=Policy"),
            &self.model.events,
            name,
            policy_event,
            move |_, change| {
                // An Event that expires stays in the history of the policy.
                if let Some(event) = change.now {
                    statuses.add(event.policy.clone());
                }
            },
        );
    }

    fn watch_claims(&self, controller: &mut Controller<String>) {
        controller.keep(
            Watch::<ClusterClaim>::all(&self.agent.managed_client),
            &self.model.claims,
            name,
            |claim: &ClusterClaim| Some(claim.spec.value.clone()),
            |_, _| {},
        );
    }

    /// Definitions say which kinds are allowed as templates, and when a kind is served.
    fn watch_definitions(&self, controller: &mut Controller<String>) {
        let objects = Arc::clone(&self.objects);
        let cache: SharedCache<String, Arc<Definition>> = SharedCache::new(Cache::default());
        controller.keep(
            Watch::<CustomResourceDefinition>::all(&self.agent.managed_client),
            &cache,
            name,
            |definition: &CustomResourceDefinition| Some(Arc::new(Definition::of(definition))),
            move |_, change| {
                let Some(definition) = change.now.as_ref().or(change.before.as_ref()) else {
                    return;
                };
                let is_deleted = change.now.is_none();
                objects.definition_changed(&change.key, definition, is_deleted);
                objects.kinds_changed(&definition.group, &definition.kind, is_deleted);
            },
        );
    }
}

/// What is needed of a definition.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) group: String,
    pub(super) kind: String,
    /// Whether it is established: only then its kind is served.
    is_served: bool,
    pub(super) versions: Vec<String>,
    pub(super) is_template: bool,
}

impl Definition {
    fn of(definition: &CustomResourceDefinition) -> Self {
        let conditions = definition
            .status
            .iter()
            .flat_map(|status| &status.conditions);
        let is_served = conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Established" && condition.status == "True");
        let label = definition.labels().get(names::POLICY_TYPE);
        let served = definition
            .spec
            .versions
            .iter()
            .filter(|version| version.served);
        Self {
            group: definition.spec.group.clone(),
            kind: definition.spec.names.kind.clone(),
            is_served,
            versions: served.map(|version| version.name.clone()).collect(),
            is_template: label.is_some_and(|label| label == names::POLICY_TYPE_TEMPLATE),
        }
    }

    /// The part of the object that the sync of templates reads.
    pub(super) fn object(&self, name: &str) -> serde_json::Value {
        let label = match self.is_template {
            true => names::POLICY_TYPE_TEMPLATE,
            false => "",
        };
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "labels": {names::POLICY_TYPE: label}},
        })
    }
}

fn secret_watch(client: &Client, namespace: &str) -> Watch<Secret> {
    // The agent may read the Secret of this name only, which a field selector asks for.
    let selector = format!("metadata.name={}", names::ENCRYPTION_SECRET);
    Watch::<Secret>::namespaced(client, namespace).fields(&selector)
}

fn policy_copy(object: &v1::Policy) -> Arc<PolicyCopy> {
    let mut object = object.clone();
    object.metadata.managed_fields = None;
    Arc::new(PolicyCopy {
        policy: Policy::from(&object),
        object,
    })
}

fn policy_event(event: &Event) -> Option<Arc<PolicyEvent>> {
    let reason = event.reason.as_deref()?;
    let time: Option<Timestamp> = event.last_timestamp.as_ref().map(|time| time.0);
    Some(Arc::new(PolicyEvent {
        policy: event.involved_object.name.clone()?,
        policy_uid: event.involved_object.uid.clone()?,
        event: ComplianceEvent {
            name: event.name_any(),
            template: ComplianceEvent::template_of_reason(reason)?.to_owned(),
            message: event.message.clone().unwrap_or_default(),
            at: time,
        },
    }))
}

fn name(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}
