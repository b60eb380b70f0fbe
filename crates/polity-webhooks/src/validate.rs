//! Validating webhooks, all at once; and the call that both kinds share.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::Value;
use uuid::Uuid;

use super::configurations::{Configs, Webhook};
use super::matching;
use super::review::{self, Patch, Subject};
use super::{Attributes, Host, Notes};
use polity_kinds::status::ApiError;

impl Configs {
    /// Sends a request to all matching validating webhooks in parallel and waits for all of them. The first refusal to
    /// arrive is the response.
    pub async fn validate(
        &self,
        host: &dyn Host,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        notes: &mut Notes,
    ) -> Result<(), ApiError> {
        if self.validating.is_empty() || attributes.is_exempt() {
            return Ok(());
        }
        let object = object.map(|object| Arc::new(object.clone()));
        let calls = relevant(self, host, attributes, object.as_ref())?;
        let (sender, mut refusals) = tokio::sync::mpsc::unbounded_channel();
        let results = join_all(calls.iter().map(|(webhook, subject)| {
            let sender = sender.clone();
            async move {
                let mut notes = Notes::default();
                let answered = call(webhook, host, attributes, subject, false, &mut notes).await;
                if let Err(error) = answered
                    .map(drop)
                    .or_else(|failure| failure.settle(webhook))
                {
                    // The receiver exists as long as the calls run.
                    let _ = sender.send(error);
                }
                notes
            }
        }))
        .await;
        for said in results {
            notes.add(said);
        }
        drop(sender);
        refusals.recv().await.map_or(Ok(()), Err)
    }
}

/// The webhooks to call, each with the view it wants.
fn relevant<'a>(
    configs: &'a Configs,
    host: &dyn Host,
    attributes: &Attributes<'a>,
    object: Option<&Arc<Value>>,
) -> Result<Vec<(&'a Webhook, Arc<Subject<'a>>)>, ApiError> {
    let mut subjects: Vec<Arc<Subject<'a>>> = Vec::new();
    let mut calls = Vec::new();
    for webhook in configs
        .validating
        .iter()
        .flat_map(|config| &config.webhooks)
    {
        let Some(invocation) =
            matching::matched(webhook, host, attributes, object.map(|object| &**object))?
        else {
            continue;
        };
        let known = subjects.iter().find(|subject| {
            subject.invocation.kind == invocation.kind
                && subject.invocation.resource == invocation.resource
        });
        let subject = known.cloned().unwrap_or_else(|| {
            let subject = Arc::new(Subject::new(invocation, object, attributes.old_object));
            subjects.push(Arc::clone(&subject));
            subject
        });
        if matching::conditions_hold(webhook, host, attributes, &subject)? {
            calls.push((&**webhook, subject));
        }
    }
    Ok(calls)
}

/// Why a webhook did not let a request through.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The call failed or the response was invalid, so the failure policy decides.
    Call(String),
    /// The webhook denied the request, or the request fails under every failure policy.
    Refused(ApiError),
}

impl CallFailure {
    /// The effect of the failure on the request.
    pub(super) fn settle(self, webhook: &Webhook) -> Result<(), ApiError> {
        match self {
            Self::Refused(error) => Err(error),
            Self::Call(why) => {
                let why = format!("failed calling webhook {:?}: {why}", webhook.name);
                if webhook.fails_open {
                    tracing::warn!(
                        webhook = webhook.name,
                        error = why,
                        "webhook failed, continuing without it"
                    );
                    return Ok(());
                }
                tracing::warn!(
                    webhook = webhook.name,
                    error = why,
                    "webhook failed, refusing the request"
                );
                Err(ApiError::internal(why))
            }
        }
    }
}

/// Calls one webhook. Returns the patch of a mutating webhook that allows the request.
pub(super) async fn call(
    webhook: &Webhook,
    host: &dyn Host,
    attributes: &Attributes<'_>,
    subject: &Subject<'_>,
    is_mutating: bool,
    notes: &mut Notes,
) -> Result<Option<Patch>, CallFailure> {
    if attributes.dry_run && !webhook.allows_dry_run {
        let why = format!(
            "admission webhook {:?} does not support dry run",
            webhook.name
        );
        return Err(CallFailure::Refused(ApiError::bad_request(why)));
    }
    let version = webhook.review_version.ok_or_else(|| {
        let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        CallFailure::Call(format!("could not create admission objects: {why}"))
    })?;
    let uid = Uuid::new_v4().to_string();
    let body = subject.body(version, &uid, attributes);
    let answer = webhook
        .client
        .post(host, body, webhook.timeout)
        .await
        .map_err(CallFailure::Call)?;
    let verdict = review::read_answer(&answer, version, &uid, is_mutating, &webhook.name)
        .map_err(CallFailure::Call)?;
    notes.add(verdict.notes);
    if verdict.allowed {
        Ok(verdict.patch)
    } else {
        Err(CallFailure::Refused(review::refusal(
            &webhook.name,
            verdict.status,
        )))
    }
}
