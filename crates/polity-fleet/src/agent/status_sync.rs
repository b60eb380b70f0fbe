//! Reports the compliance of policies: on the managed cluster first, then on the hub. See docs/spec/governance.md#10-5.

pub mod history;

use std::sync::Arc;

use kube::Client;
use polity_api::policy::v1;
use polity_core::governance::names;
use polity_govern::objects::{Policy, PolicyStatus, TemplateStatus};
use polity_govern::report::{Evidence, TemplateReport, compliance, rollout_status};
use polity_reconcile::{ObjectEvent, Requeue, WriteError, WriteOutcome, Writer, publish_event};
use polity_runtime::Clock;
use serde_json::Value;

use self::history::{ComplianceEvent, RememberedMessage, Sources, template_status};
use super::Agent;
use super::model::{AgentModel, PolicyCopy, PolicyEvent};
use super::spec_sync::policy_reference;
use super::template_sync::{SyncPass, TemplateOutcome, TemplateSyncer};

/// The field manager of these writes.
const MANAGER: &str = "polity/status-sync";
/// The reason of Events about the status.
const REASON: &str = "PolicyStatusSync";

/// The controller of the status.
#[derive(Clone)]
pub(crate) struct StatusSyncer {
    cluster: String,
    clock: Clock,
    hub_client: Client,
    managed_client: Client,
    model: Arc<AgentModel>,
    templates: TemplateSyncer,
    hub_policies: Writer<v1::Policy>,
    policies: Writer<v1::Policy>,
}

impl StatusSyncer {
    pub(super) fn new(
        agent: &Agent,
        hub_client: &Client,
        managed_client: &Client,
        model: Arc<AgentModel>,
        templates: TemplateSyncer,
    ) -> Self {
        Self {
            cluster: agent.cluster.clone(),
            clock: agent.clock.clone(),
            hub_client: hub_client.clone(),
            managed_client: managed_client.clone(),
            model,
            templates,
            hub_policies: Writer::new(hub_client, MANAGER),
            policies: Writer::new(managed_client, MANAGER),
        }
    }

    /// Reconciles the status of one policy.
    pub(super) async fn reconcile(&self, name: String) -> Result<Requeue, WriteError> {
        self.model.policies.listed().await;
        self.model.hub_policies.listed().await;
        self.model.events.listed().await;
        let (Some(copy), Some(hub)) = (self.model.policy(&name), self.model.hub_policy(&name))
        else {
            // The controller of copies creates or deletes the policy first.
            return Ok(Requeue::Never);
        };
        if copy.is_deleting() || hub.is_deleting() || !is_copy_of(&copy.policy, &hub.policy) {
            return Ok(Requeue::Never);
        }
        let status = self.status(&copy);
        let wire = v1::PolicyStatus::from(&status);
        let change = |policy: &v1::Policy| Some(merged(policy, &wire));
        let written = self
            .policies
            .change_status(&self.clock, &copy.object, change)
            .await?;
        if let WriteOutcome::Written(_) = written {
            let namespace = &copy.policy.namespace;
            let note = format!("Policy {name} status was updated in cluster namespace {namespace}");
            self.publish(&self.managed_client, &copy, &note).await;
        }
        let written = self
            .hub_policies
            .change_status(&self.clock, &hub.object, change)
            .await?;
        if let WriteOutcome::Written(_) = written {
            let state = status.compliant.map_or("", |state| state.as_str());
            let note = format!(
                "Policy {name} status was updated to {state} in cluster namespace {}",
                self.cluster
            );
            self.publish(&self.hub_client, &hub, &note).await;
        }
        Ok(Requeue::Slowly)
    }

    fn status(&self, copy: &PolicyCopy) -> PolicyStatus {
        let policy = &copy.policy;
        let events: Vec<Arc<PolicyEvent>> = self.model.events.read(|all| {
            let names = all.find(&policy.uid);
            names.filter_map(|name| all.get(name).cloned()).collect()
        });
        let pass = self.templates.pass(copy);
        let mut details = Vec::new();
        let mut reports = Vec::new();
        for (index, template) in policy.spec.templates.iter().enumerate() {
            let name = match template.name() {
                "" => format!("template-{index}"),
                name => name.to_owned(),
            };
            let object = self
                .templates
                .object(template.api_version(), template.kind(), &name);
            let found = status_of_template(policy, &name, object.as_deref(), &events);
            reports.push(TemplateReport {
                compliant: found.compliant,
                synced: pass.is_some(),
                evidence: evidence(pass.as_ref(), index, object.as_deref(), &found),
            });
            details.push(found);
        }
        PolicyStatus {
            compliant: compliance(&reports),
            rollout_status: Some(rollout_status(policy, &reports)),
            rollout_step: policy.annotations.get(names::ROLLOUT_STEP).cloned(),
            details,
            ..PolicyStatus::default()
        }
    }

    async fn publish(&self, client: &Client, copy: &PolicyCopy, note: &str) {
        let event = ObjectEvent {
            about: policy_reference(copy),
            reason: REASON,
            note,
            is_warning: false,
            manager: MANAGER,
            rank: 0,
        };
        publish_event(client, &event, self.clock.now()).await;
    }
}

/// The status of one template, from its Events, its object and what was known before.
fn status_of_template(
    policy: &Policy,
    name: &str,
    object: Option<&Value>,
    events: &[Arc<PolicyEvent>],
) -> TemplateStatus {
    let events: Vec<&ComplianceEvent> = events
        .iter()
        .map(|event| &event.event)
        .filter(|event| event.template == name)
        .collect();
    let is_foreign = object.is_some_and(|object| !belongs_to(object, policy));
    let remembered = match object.filter(|_| !is_foreign) {
        Some(object) => remembered(object),
        None => Vec::new(),
    };
    let mut details = policy.status.details.iter();
    let previous = details.find(|details| details.name == name && !is_foreign);
    let sources = Sources {
        policy: &policy.name,
        events: &events,
        remembered: &remembered,
        previous: previous.map_or(&[], |details| details.history.as_slice()),
    };
    template_status(name, sources)
}

/// The status to write: only the fields that this controller owns, and a transition time that moves with the rollout.
fn merged(policy: &v1::Policy, wanted: &v1::PolicyStatus) -> v1::PolicyStatus {
    let current = policy.status.clone().unwrap_or_default();
    v1::PolicyStatus {
        placement: current.placement,
        status: current.status,
        rollout_last_transition_time: current.rollout_last_transition_time,
        ..wanted.clone()
    }
}

/// Whether the copy is that of the replica as the hub has it now: a report about another one must not be written.
fn is_copy_of(copy: &Policy, hub: &Policy) -> bool {
    let step = |policy: &Policy| policy.annotations.get(names::ROLLOUT_STEP).cloned();
    copy.spec == hub.spec && step(copy) == step(hub)
}

/// Why the state of a template is about the template as it is now.
fn evidence(
    pass: Option<&SyncPass>,
    index: usize,
    object: Option<&Value>,
    found: &TemplateStatus,
) -> Evidence {
    let outcome = pass.and_then(|pass| pass.templates.get(index));
    match outcome {
        Some(TemplateOutcome::Error) => Evidence::TemplateError,
        Some(TemplateOutcome::Pending) => Evidence::Pending,
        Some(TemplateOutcome::IgnoredPending) => Evidence::IgnoredPending,
        Some(TemplateOutcome::Applied) | None => match object {
            Some(object) => evaluated(object, found),
            None => Evidence::ReportedSinceWrite(false),
        },
    }
}

fn evaluated(object: &Value, found: &TemplateStatus) -> Evidence {
    let status = &object["status"];
    let evaluated = match object["kind"].as_str().unwrap_or_default() {
        "ConfigurationPolicy" => &status["lastEvaluatedGeneration"],
        "OperatorPolicy" => &status["observedGeneration"],
        // Other kinds do not report a generation. One that has reported at all has reported on what it is: its history
        // begins with its creation.
        _ => return Evidence::ReportedSinceWrite(!found.history.is_empty()),
    };
    Evidence::Generation {
        current: object["metadata"]["generation"]
            .as_i64()
            .unwrap_or_default(),
        evaluated: evaluated.as_i64(),
    }
}

fn belongs_to(object: &Value, policy: &Policy) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owner = owners.and_then(|owners| owners.iter().find(|owner| owner["kind"] == "Policy"));
    match owner {
        Some(owner) => owner["name"] == policy.name.as_str(),
        None => object["metadata"]["labels"][names::POLICY] == policy.name.as_str(),
    }
}

/// The history that the controller of a template keeps in its status.
fn remembered(object: &Value) -> Vec<RememberedMessage> {
    let entries = object["status"]["history"].as_array();
    let entries = entries.into_iter().flatten().filter_map(|entry| {
        Some(RememberedMessage {
            message: entry["message"].as_str()?.to_owned(),
            at: entry["lastTimestamp"].as_str()?.parse().ok()?,
        })
    });
    entries.collect()
}
