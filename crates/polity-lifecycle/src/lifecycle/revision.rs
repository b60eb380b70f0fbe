//! The revisions of a policy: made for each generation, kept true, disabled when their time is over.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use polity_api::policies::v1::{
    ConditionStatus, ConditionType, ObjectReference, PolicyRevision, PolicyRevisionSpec,
    PolicyRevisionStatus, ReadyReason, ScheduledReason,
};
use polity_api::policies::{GROUP, names};
use polity_core::name::label_value;
use polity_core::policy::{dotted_name, unique_name};
use serde_json::{Map, Value};

use super::conditions::{self, not_scheduled, replica_unknown};
use super::observed::{Observed, Revision, Server};
use super::plan::Write;
use super::policy::Policy;
use super::standing::Standing;
use crate::names::{ChosenId, Claim, choose_id, revision_name};

/// The claim of a policy to an id, with the id that its newest revision carries.
pub fn claim(policy: &Policy, revisions: &[PolicyRevision]) -> Claim {
    let newest = revisions
        .iter()
        .filter(|revision| revision.id().is_some())
        .max_by_key(|revision| revision.generation());
    Claim {
        uid: policy.uid.clone(),
        created: policy.created,
        recorded: newest.and_then(Revision::id).map(str::to_owned),
        classic: unique_name(policy.kind, policy.namespace(), &policy.name),
    }
}

/// The id of the policy, or the one its next revision takes.
pub(super) fn chosen_id(observed: &Observed) -> ChosenId {
    let policy = &observed.policy;
    choose_id(
        &claim(policy, &observed.revisions),
        dotted_name(policy.kind, policy.namespace(), &policy.name),
        observed.settings.unique_names,
        &observed.rivals,
    )
}

/// Whether a policy server can have this name at all; a revision could not even be labelled with another.
pub(super) fn can_be_a_server(name: &str) -> bool {
    !name.is_empty() && label_value(name).is_ok()
}

/// The revision for the current generation of a policy.
pub(super) fn made_for(observed: &Observed, standing: &Standing<'_>) -> PolicyRevision {
    let policy = &observed.policy;
    let ChosenId { id, .. } = chosen_id(observed);
    let mut annotations = BTreeMap::from([(names::POLICY_ID.to_owned(), id.clone())]);
    if let Some(from) = policy.rollback_of() {
        annotations.insert(names::ROLLBACK_OF.to_owned(), from.to_string());
    }
    if standing.serving == Some(0) {
        annotations.insert(names::TAKEOVER.to_owned(), "true".to_owned());
    }
    let spec = policy.spec();
    PolicyRevision {
        metadata: ObjectMeta {
            name: Some(revision_name(&id, &policy.uid, policy.generation)),
            namespace: Some(observed.settings.namespace.clone()),
            labels: Some(labels(policy)),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: PolicyRevisionSpec {
            object_reference: ObjectReference {
                api_version: format!("{GROUP}/v1"),
                kind: policy.kind.as_str().to_owned(),
                name: policy.name.clone(),
                namespace: policy.namespace().map(str::to_owned),
                uid: Some(policy.uid.clone()),
            },
            policy_generation: policy.generation,
            enabled: true,
            data: Map::from_iter([("spec".to_owned(), Value::Object(spec))]),
        },
        status: None,
    }
}

fn labels(policy: &Policy) -> BTreeMap<String, String> {
    let server = &policy.content.enforcement.policy_server;
    [
        (names::REVISION_POLICY_SERVER, server.clone()),
        (names::POLICY_UID, policy.uid.clone()),
        (names::POLICY_GENERATION, policy.generation.to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// What to do about an object that already has the name of the one that was to be created: adopt what an earlier try
/// left behind, remove what is something else.
pub fn meet(found: &PolicyRevision, wanted: &PolicyRevision) -> Write {
    let is_ours = found.spec.object_reference.uid == wanted.spec.object_reference.uid
        && found.spec.policy_generation == wanted.spec.policy_generation
        && found.spec.data == wanted.spec.data
        && found.spec.enabled;
    if !is_ours {
        return Write::DeleteRevision(Box::new(found.clone()));
    }
    let mut adopted = found.clone();
    let (labels, annotations) = (&wanted.metadata.labels, &wanted.metadata.annotations);
    let adopted_labels = adopted.metadata.labels.get_or_insert_default();
    adopted_labels.extend(labels.clone().unwrap_or_default());
    let adopted_annotations = adopted.metadata.annotations.get_or_insert_default();
    adopted_annotations.extend(annotations.clone().unwrap_or_default());
    Write::UpdateRevision(Box::new(adopted))
}

/// The revision with or without the mark of the one that the webhook points at.
pub(super) fn marked(revision: &PolicyRevision, is_serving: bool) -> PolicyRevision {
    let mut revision = revision.clone();
    let annotations = revision.metadata.annotations.get_or_insert_default();
    if is_serving {
        annotations.insert(names::SERVING.to_owned(), "true".to_owned());
    } else {
        annotations.remove(names::SERVING);
    }
    revision
}

/// The revision disabled and without its mark, in one write.
pub(super) fn disabled(revision: &PolicyRevision) -> PolicyRevision {
    let mut revision = marked(revision, false);
    revision.spec.enabled = false;
    revision
}

/// The revision with the label that its own specification asks for, if it has another.
pub(super) fn relabelled(revision: &PolicyRevision) -> Option<PolicyRevision> {
    let server = revision.server();
    let labels = revision.metadata.labels.as_ref();
    let label = labels.and_then(|labels| labels.get(names::REVISION_POLICY_SERVER));
    if label.map(String::as_str) == Some(server) || !can_be_a_server(server) {
        return None;
    }
    let mut revision = revision.clone();
    let labels = revision.metadata.labels.get_or_insert_default();
    labels.insert(names::REVISION_POLICY_SERVER.to_owned(), server.to_owned());
    Some(revision)
}

/// An enabled revision with the status entries of the controller: why it is not scheduled, replicas that are new or
/// removed, and a missing policy server. `None` when the status has them already.
pub(super) fn reported(
    observed: &Observed,
    standing: &Standing<'_>,
    revision: &PolicyRevision,
    now: Timestamp,
) -> Option<PolicyRevision> {
    let before = revision.status.clone().unwrap_or_default();
    let mut status = before.clone();
    let server = observed.live_server(revision.server());
    let has_pods = observed
        .servers
        .get(revision.server())
        .is_some_and(|server| !server.pods.is_empty());
    if server.is_none() && !has_pods {
        // The cache goes with the server; the digests stay, so that the same bytes come back.
        // What is said already stays, with its time: said anew it would differ for ever.
        status.conditions.retain(|condition| {
            condition.type_ == ConditionType::Scheduled.as_str()
                && condition.status != ConditionStatus::True
        });
        status = PolicyRevisionStatus {
            modules: status.modules,
            conditions: status.conditions,
            ..PolicyRevisionStatus::default()
        };
    }
    schedule(&mut status, revision, server, now);
    if let Some(server) = server.filter(|server| server.expected.is_some()) {
        let expected = server.ordinals();
        status.conditions.retain(|condition| {
            condition.type_ != ConditionType::Ready.as_str()
                || condition
                    .replica
                    .is_some_and(|replica| expected.contains(&replica))
        });
        for replica in new_ordinals(observed, standing, revision, server) {
            let message = "The replica was added and has not reported yet.";
            status.conditions.push(replica_unknown(
                ReadyReason::ReplicaPending,
                message,
                revision.generation(),
                replica,
                now,
            ));
        }
    }
    if status == before {
        return None;
    }
    conditions::sort(&mut status.conditions);
    Some(PolicyRevision {
        status: Some(status),
        ..revision.clone()
    })
}

/// A disabled revision without what replicas said about it; `None` when there is nothing.
pub(super) fn stripped(revision: &PolicyRevision) -> Option<PolicyRevision> {
    let mut revision = revision.clone();
    let conditions = &mut revision.status.as_mut()?.conditions;
    let n_before = conditions.len();
    conditions.retain(|condition| condition.type_ != ConditionType::Ready.as_str());
    (conditions.len() < n_before).then_some(revision)
}

/// `Scheduled` is the controller's until the leader has said `True`.
fn schedule(
    status: &mut PolicyRevisionStatus,
    revision: &PolicyRevision,
    server: Option<&Server>,
    now: Timestamp,
) {
    let (reason, message) = why_not_scheduled(revision.server(), server);
    let mut wanted = not_scheduled(reason, message, revision.generation(), now);
    let mut conditions = status.conditions.iter_mut();
    match conditions.find(|condition| condition.type_ == wanted.type_) {
        Some(said) if said.status == ConditionStatus::True => {}
        Some(said) => {
            conditions::keep_times(
                std::slice::from_mut(&mut wanted),
                std::slice::from_ref(said),
                now,
            );
            *said = wanted;
        }
        None => status.conditions.push(wanted),
    }
}

/// Why no leader has taken a revision yet.
pub(super) fn why_not_scheduled(name: &str, server: Option<&Server>) -> (ScheduledReason, String) {
    match server {
        None if name.is_empty() => (
            ScheduledReason::PolicyServerNotFound,
            "The policy names no PolicyServer, so it is not active.".to_owned(),
        ),
        None => (
            ScheduledReason::PolicyServerNotFound,
            format!("The PolicyServer {name:?} does not exist, so the policy is not active."),
        ),
        Some(server) if !server.is_running() => (
            ScheduledReason::PolicyServerNotRunning,
            format!("No replica of the PolicyServer {name:?} is running."),
        ),
        Some(_) => (
            ScheduledReason::WaitingForPolicyServer,
            "The policy was created and is pending to be loaded.".to_owned(),
        ),
    }
}

/// The expected ordinals that came after the revision and have no entry yet. Those that were there when it was
/// made get none: they speak for themselves.
fn new_ordinals(
    observed: &Observed,
    standing: &Standing<'_>,
    revision: &PolicyRevision,
    server: &Server,
) -> Vec<i32> {
    let is_silent = |revision: &PolicyRevision, replica| {
        revision
            .condition(ConditionType::Ready, Some(replica))
            .is_none()
    };
    let serving = standing
        .serving
        .and_then(|generation| observed.revision(generation));
    let made = revision
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0);
    server
        .ordinals()
        .filter(|replica| is_silent(revision, *replica))
        .filter(|replica| {
            // What serves has heard of everybody that was there: who is missing there is new.
            let is_new_to_serving = serving.is_some_and(|serving| is_silent(serving, *replica));
            let pod = server.pods.get(replica);
            is_new_to_serving || pod.is_some_and(|pod| made.is_some_and(|made| pod.created > made))
        })
        .collect()
}
