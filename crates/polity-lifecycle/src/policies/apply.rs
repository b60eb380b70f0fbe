//! Carries out one write of a plan.

use kube::api::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use polity_api::policies::api_resource;
use polity_api::policies::v1::PolicyRevision;
use polity_reconcile::{WriteError, Writer};
use serde_json::json;

use super::observe::configuration_resource;
use super::{MANAGER, PolicyKey, ReconcileError};
use crate::lifecycle::{
    Event, Observed, Refusal, Step, Webhook, WebhookKind, Write, meet, rollback_refused,
};

/// The outcome of a write.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The write succeeded; these Events are due.
    Done(Vec<Event>),
    /// The object has changed: read again.
    Conflict,
    /// The API server refused it.
    Refused(Refusal),
}

/// Carries out a step of a plan that was made from `observed`.
pub(super) async fn apply(
    client: &Client,
    key: &PolicyKey,
    observed: &Observed,
    step: &Step,
) -> Result<Outcome, ReconcileError> {
    let revisions = Writer::<PolicyRevision>::new(client, MANAGER);
    let policies = Writer::<DynamicObject>::of_kind(client, api_resource(key.kind), MANAGER);
    let mut events = step.events.clone();
    let written = match &step.write {
        Write::UpdatePolicy(object) => policies.update(object).await.map(drop),
        Write::RollBack {
            rolled_back,
            refused,
        } => match policies.update(rolled_back).await {
            Err(WriteError::Refused { message, .. }) => {
                events = vec![rollback_refused(&message)];
                policies.update(refused).await.map(drop)
            }
            other => other.map(drop),
        },
        Write::UpdatePolicyStatus(status) => {
            let mut object = observed.policy.object.clone();
            object.data["status"] = json!(status);
            policies.update_status(&object).await.map(drop)
        }
        Write::CreateRevision(revision) => match revisions.create(revision).await {
            Err(WriteError::Refused { message, .. }) => {
                return Ok(Outcome::Refused(Refusal::Revision(message)));
            }
            Err(WriteError::AlreadyExists { .. }) => {
                let namespace = &observed.settings.namespace;
                return adopt_or_delete_revision(client, namespace, revision).await;
            }
            other => other.map(drop),
        },
        Write::UpdateRevision(revision) => revisions.update(revision).await.map(drop),
        Write::UpdateRevisionStatus(revision) => revisions.update_status(revision).await.map(drop),
        Write::DeleteRevision(revision) => revisions.delete(&revision.metadata).await.map(drop),
        Write::CreateWebhook(webhook) => {
            let writer = webhooks(client, webhook.kind);
            match writer.create(&configuration(webhook)).await {
                Err(WriteError::Refused { message, .. }) => {
                    return Ok(Outcome::Refused(Refusal::Webhook(message)));
                }
                other => other.map(drop),
            }
        }
        Write::UpdateWebhook(webhook) => {
            let writer = webhooks(client, webhook.kind);
            match writer.update(&configuration(webhook)).await {
                Err(WriteError::Refused { message, .. }) => {
                    return Ok(Outcome::Refused(Refusal::Webhook(message)));
                }
                other => other.map(drop),
            }
        }
        Write::DeleteWebhook(webhook) => {
            let metadata = configuration(webhook).metadata;
            webhooks(client, webhook.kind)
                .delete(&metadata)
                .await
                .map(drop)
        }
    };
    outcome(written, events)
}

/// Deletes an object whose policy no longer exists.
pub(super) async fn delete_orphan(client: &Client, write: &Write) -> Result<(), WriteError> {
    match write {
        Write::DeleteWebhook(webhook) => {
            let metadata = configuration(webhook).metadata;
            webhooks(client, webhook.kind)
                .delete(&metadata)
                .await
                .map(drop)
        }
        Write::DeleteRevision(revision) => {
            let writer = Writer::<PolicyRevision>::new(client, MANAGER);
            writer.delete(&revision.metadata).await.map(drop)
        }
        _ => Ok(()),
    }
}

/// A revision of the same name exists: it is adopted when an earlier attempt made it, and deleted otherwise.
async fn adopt_or_delete_revision(
    client: &Client,
    namespace: &str,
    wanted: &PolicyRevision,
) -> Result<Outcome, ReconcileError> {
    let api: Api<PolicyRevision> = Api::namespaced(client.clone(), namespace);
    let Some(found) = api.get_opt(&wanted.name_any()).await? else {
        return Ok(Outcome::Conflict);
    };
    let writer = Writer::<PolicyRevision>::new(client, MANAGER);
    let written = match meet(&found, wanted) {
        Write::UpdateRevision(adopted) => writer.update(&adopted).await.map(drop),
        _ => writer.delete(&found.metadata).await.map(drop),
    };
    outcome(written, Vec::new())
}

fn outcome(written: Result<(), WriteError>, events: Vec<Event>) -> Result<Outcome, ReconcileError> {
    match written {
        Ok(()) => Ok(Outcome::Done(events)),
        // Not found: the object was deleted meanwhile, which is a change too.
        Err(
            WriteError::Conflict { .. }
            | WriteError::AlreadyExists { .. }
            | WriteError::NotFound { .. },
        ) => Ok(Outcome::Conflict),
        Err(error) => Err(error.into()),
    }
}

fn webhooks(client: &Client, kind: WebhookKind) -> Writer<DynamicObject> {
    Writer::of_kind(client, configuration_resource(kind), MANAGER)
}

/// The object of a webhook configuration.
fn configuration(webhook: &Webhook) -> DynamicObject {
    let mut object = DynamicObject::new(&webhook.name, &configuration_resource(webhook.kind));
    object.metadata.uid.clone_from(&webhook.uid);
    object
        .metadata
        .resource_version
        .clone_from(&webhook.resource_version);
    object.metadata.labels = Some(webhook.labels.clone());
    object.metadata.annotations = Some(webhook.annotations.clone());
    object.data = json!({ "webhooks": webhook.hooks });
    object
}
