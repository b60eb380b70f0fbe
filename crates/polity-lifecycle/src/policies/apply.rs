//! Carries out one write of a plan.

use kube::api::{DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt as _};
use polity_api::policies::v1::PolicyRevision;
use serde_json::json;

use super::observe::{configuration_resource, configurations, policies};
use super::{MANAGER, PolicyKey, ReconcileError};
use crate::lifecycle::{Event, Observed, Refusal, Step, Webhook, Write, meet, rollback_refused};
use crate::shell::is_refusal;

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
    let namespace = &observed.settings.namespace;
    let revisions: Api<PolicyRevision> = Api::namespaced(client.clone(), namespace);
    let policies = policies(client, key);
    let events = step.events.clone();
    let params = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let answer = match &step.write {
        Write::UpdatePolicy(object) => policies.replace(&key.name, &params, object).await.map(drop),
        Write::RollBack {
            rolled_back,
            refused,
        } => match policies.replace(&key.name, &params, rolled_back).await {
            Err(kube::Error::Api(status)) if is_refusal(status.code) => {
                let event = rollback_refused(&status.message);
                let taken = policies
                    .replace(&key.name, &params, refused)
                    .await
                    .map(drop);
                return outcome(taken, vec![event]);
            }
            other => other.map(drop),
        },
        Write::UpdatePolicyStatus(status) => {
            let mut object = observed.policy.object.clone();
            object.data["status"] = json!(status);
            policies
                .replace_status(&key.name, &params, &object)
                .await
                .map(drop)
        }
        Write::CreateRevision(revision) => match revisions.create(&params, revision).await {
            Err(kube::Error::Api(status)) if is_refusal(status.code) => {
                return Ok(Outcome::Refused(Refusal::Revision(status.message)));
            }
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                return meet_revision(&revisions, &params, revision).await;
            }
            other => other.map(drop),
        },
        Write::UpdateRevision(revision) => revisions
            .replace(&revision.name_any(), &params, revision)
            .await
            .map(drop),
        Write::UpdateRevisionStatus(revision) => revisions
            .replace_status(&revision.name_any(), &params, revision)
            .await
            .map(drop),
        Write::DeleteRevision(revision) => delete(&revisions, revision.as_ref()).await,
        Write::CreateWebhook(webhook) => {
            let api = configurations(client, webhook.kind);
            api.create(&params, &configuration(webhook)).await.map(drop)
        }
        Write::UpdateWebhook(webhook) => {
            let api = configurations(client, webhook.kind);
            api.replace(&webhook.name, &params, &configuration(webhook))
                .await
                .map(drop)
        }
        Write::DeleteWebhook(webhook) => {
            delete(
                &configurations(client, webhook.kind),
                &configuration(webhook),
            )
            .await
        }
    };
    match (&step.write, answer) {
        (Write::CreateWebhook(_) | Write::UpdateWebhook(_), Err(kube::Error::Api(status)))
            if is_refusal(status.code) =>
        {
            Ok(Outcome::Refused(Refusal::Webhook(status.message)))
        }
        (_, answer) => outcome(answer, events),
    }
}

/// Deletes an object whose policy no longer exists.
pub(super) async fn delete_orphan(
    client: &Client,
    namespace: &str,
    write: &Write,
) -> kube::Result<()> {
    match write {
        Write::DeleteWebhook(webhook) => {
            delete(
                &configurations(client, webhook.kind),
                &configuration(webhook),
            )
            .await
        }
        Write::DeleteRevision(revision) => {
            let revisions: Api<PolicyRevision> = Api::namespaced(client.clone(), namespace);
            delete(&revisions, revision.as_ref()).await
        }
        _ => Ok(()),
    }
}

/// A revision of the same name exists: it is adopted when an earlier attempt made it, and deleted otherwise.
async fn meet_revision(
    revisions: &Api<PolicyRevision>,
    params: &PostParams,
    wanted: &PolicyRevision,
) -> Result<Outcome, ReconcileError> {
    let Some(found) = revisions.get_opt(&wanted.name_any()).await? else {
        return Ok(Outcome::Conflict);
    };
    let answer = match meet(&found, wanted) {
        Write::UpdateRevision(adopted) => revisions
            .replace(&adopted.name_any(), params, &adopted)
            .await
            .map(drop),
        _ => delete(revisions, &found).await,
    };
    outcome(answer, Vec::new())
}

/// Deletes this object, by UID. It is no failure when it is gone already.
async fn delete<K>(api: &Api<K>, object: &K) -> kube::Result<()>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let params = DeleteParams::background().preconditions(Preconditions {
        uid: object.uid(),
        resource_version: None,
    });
    match api.delete(&object.name_any(), &params).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}

fn outcome(answer: kube::Result<()>, events: Vec<Event>) -> Result<Outcome, ReconcileError> {
    match answer {
        Ok(()) => Ok(Outcome::Done(events)),
        // Not found: the object was deleted meanwhile, which is a change too.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Outcome::Conflict),
        Err(error) => Err(error.into()),
    }
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
