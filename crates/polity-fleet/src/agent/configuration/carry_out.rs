//! The writes of configuration policies: objects that are corrected, pruned, and reported.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams, Preconditions, Request};
use polity_comply::prune::{self, Step, Target};
use polity_comply::{ConfigurationPolicy, DryRun, Failure, Finding, Kind, Outcome, Status, Write};
use polity_core::governance::names;
use polity_core::{GroupVersion, GroupVersionKind, ObjectKey};
use polity_reconcile::{Requeue, WriteError};
use polity_source::cluster::DryRunUpdates;
use serde_json::{Value, json};
use tracing::info;

use super::{ConfigurationPolicies, MANAGER};
use crate::agent::compliance_event::ComplianceReport;

/// How often an object that is recreated is created before it is given up.
const RECREATE_ATTEMPTS: usize = 3;
/// The pause between these attempts.
const RECREATE_PAUSE: Duration = Duration::from_secs(1);

/// Accepts every update, for an evaluation that only finds out what is read.
pub(super) struct NoUpdates;

impl DryRunUpdates for NoUpdates {
    fn dry_run_update(&self, _: &Kind, _: &Value, updated: &Value) -> DryRun {
        DryRun::Accepted(updated.clone())
    }
}

/// Whether an object was still there when it was to be created again.
pub(super) fn is_still_there(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(Failure::StillThere))
}

impl ConfigurationPolicies {
    /// Carries out one write.
    pub(super) async fn carry_out(&self, finding: &Finding, write: &Write) -> Outcome {
        let api = self.api(&finding.kind, finding.namespace.as_deref());
        let name = finding
            .names
            .first()
            .map(String::as_str)
            .unwrap_or_default();
        let done = match write {
            Write::Create { object } => create(&api, object).await,
            Write::Update { object } => replace(&api, name, object).await,
            Write::Recreate { object } => self.recreate(&api, name, object).await,
            Write::Delete => delete(&api, name).await,
        };
        match done {
            Ok(uid) => Outcome::Done { uid },
            Err(failure) => Outcome::Failed(failure),
        }
    }

    async fn recreate(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        object: &Value,
    ) -> Result<String, Failure> {
        if let Err(error) = delete(api, name).await {
            return Err(Failure::DeletingFirst(match error {
                Failure::Other(message) | Failure::Strict(message) => message,
                _ => String::new(),
            }));
        }
        for attempt in 1..=RECREATE_ATTEMPTS {
            match create_once(api, object).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                other => return other.map_err(failure),
            }
            if attempt < RECREATE_ATTEMPTS {
                self.clock.sleep(RECREATE_PAUSE).await;
            }
        }
        Err(Failure::StillThere)
    }

    /// Deletes the objects that a policy no longer lists. What fails is tried again with the next evaluation.
    pub(super) async fn prune(&self, targets: &[Target]) -> Vec<Target> {
        let mut failed = Vec::new();
        for target in targets {
            if let Err(error) = self.prune_one(target).await {
                let object = &target.object;
                info!(
                    kind = object.kind,
                    name = object.name,
                    error,
                    "could not prune an object"
                );
                failed.push(target.clone());
            }
        }
        failed
    }

    async fn prune_one(&self, target: &Target) -> Result<(), String> {
        let object = &target.object;
        let Ok(GroupVersion { group, version }) = object.api_version.parse() else {
            return Ok(());
        };
        let gvk = GroupVersionKind::new(group, version, object.kind.clone());
        let kind = self
            .objects
            .model()
            .with_cache(|cache| cache.kind(&gvk).cloned());
        // Without its kind the object is gone.
        let Some(kind) = kind else { return Ok(()) };
        let namespace = kind.namespaced.then_some(object.namespace.as_str());
        let key = ObjectKey {
            namespace: namespace.map(str::to_owned),
            name: object.name.clone(),
        };
        let found = self
            .objects
            .model()
            .with_cache(|cache| cache.get(&gvk, &key).cloned());
        match target.judge(found.as_deref()) {
            Step::Leave => Ok(()),
            Step::Hanging => Err("it is still being deleted".to_owned()),
            Step::Delete => {
                let api = self.api(&kind, namespace);
                let uid = found.as_ref().and_then(|it| it["metadata"]["uid"].as_str());
                let params = DeleteParams::background().preconditions(Preconditions {
                    uid: uid.map(str::to_owned),
                    resource_version: None,
                });
                match api.delete(&object.name, &params).await {
                    Ok(_) => Ok(()),
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                    Err(error) => Err(polity_core::causes::in_one_line(&error)),
                }
            }
        }
    }

    /// Prunes what a policy that is being deleted was about, then removes its finalizer.
    pub(super) async fn delete(
        &self,
        object: &Value,
        policy: &ConfigurationPolicy,
        status: &Status,
    ) -> Result<Requeue, WriteError> {
        let targets = prune::at_deletion(policy, status, false);
        let failed = self.prune(&targets).await;
        if !failed.is_empty() {
            let message = format!("Terminating; {}", prune::failure_message(&failed));
            self.report(object, policy, &message).await?;
            return Ok(Requeue::WithBackoff);
        }
        let Ok(current) = serde_json::from_value::<DynamicObject>(object.clone()) else {
            return Ok(Requeue::Never);
        };
        let mut finalizers = current.metadata.finalizers.clone().unwrap_or_default();
        if finalizers.iter().any(|one| one == names::PRUNE_FINALIZER) {
            finalizers.retain(|one| one != names::PRUNE_FINALIZER);
            let changes = json!({ "finalizers": finalizers });
            self.policies
                .patch_metadata(&current.metadata, changes)
                .await?;
        }
        Ok(Requeue::Never)
    }

    /// Reports compliance in an Event about the Policy that owns the configuration policy.
    pub(super) async fn report(
        &self,
        object: &Value,
        policy: &ConfigurationPolicy,
        message: &str,
    ) -> Result<(), WriteError> {
        let owners = object["metadata"]["ownerReferences"].as_array();
        let owner = owners.and_then(|owners| owners.iter().find(|owner| owner["kind"] == "Policy"));
        // A configuration policy without a Policy has its history only.
        let Some(owner) = owner else { return Ok(()) };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let report = ComplianceReport {
            policy: ObjectReference {
                api_version: text(&owner["apiVersion"]),
                kind: Some("Policy".to_owned()),
                namespace: Some(policy.namespace.clone()),
                name: text(&owner["name"]),
                uid: text(&owner["uid"]),
                ..ObjectReference::default()
            },
            template: ObjectReference {
                api_version: text(&object["apiVersion"]),
                kind: text(&object["kind"]),
                namespace: Some(policy.namespace.clone()),
                name: Some(policy.name.clone()),
                uid: text(&object["metadata"]["uid"]),
                ..ObjectReference::default()
            },
            message,
            manager: MANAGER,
        };
        let event = report.event(self.clock.now());
        self.events.create(&event).await.map(drop)
    }

    fn api(&self, kind: &Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        let gvk = &kind.gvk;
        let gvk = kube::api::GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &kind.plural);
        match namespace.filter(|_| kind.namespaced) {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

/// Unknown fields are refused, so that a misspelled field does not look compliant.
fn strict(mut request: http::Request<Vec<u8>>) -> Result<http::Request<Vec<u8>>, kube::Error> {
    let uri = request.uri().to_string();
    let separator = if uri.contains('?') { '&' } else { '?' };
    *request.uri_mut() = format!("{uri}{separator}fieldValidation=Strict")
        .parse()
        .map_err(|error: http::uri::InvalidUri| kube::Error::HttpError(error.into()))?;
    Ok(request)
}

fn params() -> PostParams {
    PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    }
}

async fn send(
    api: &Api<DynamicObject>,
    request: http::Request<Vec<u8>>,
) -> Result<String, kube::Error> {
    let client = api.clone().into_client();
    let written: DynamicObject = client.request(strict(request)?).await?;
    Ok(written.metadata.uid.unwrap_or_default())
}

async fn create_once(api: &Api<DynamicObject>, object: &Value) -> Result<String, kube::Error> {
    let body = object.to_string().into_bytes();
    let request = Request::new(api.resource_url()).create(&params(), body);
    send(api, request.map_err(kube::Error::BuildRequest)?).await
}

async fn create(api: &Api<DynamicObject>, object: &Value) -> Result<String, Failure> {
    create_once(api, object).await.map_err(failure)
}

async fn replace(api: &Api<DynamicObject>, name: &str, object: &Value) -> Result<String, Failure> {
    let body = object.to_string().into_bytes();
    let request = Request::new(api.resource_url()).replace(name, &params(), body);
    let request = request.map_err(|error| Failure::Other(error.to_string()))?;
    send(api, request).await.map_err(failure)
}

async fn delete(api: &Api<DynamicObject>, name: &str) -> Result<String, Failure> {
    match api.delete(name, &DeleteParams::background()).await {
        Ok(_) => Ok(String::new()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(String::new()),
        Err(error) => Err(failure(error)),
    }
}

fn failure(error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) if status.code == 404 => Failure::NotFound,
        kube::Error::Api(status) if status.message.contains("strict decoding error:") => {
            Failure::Strict(status.message.clone())
        }
        kube::Error::Api(status) => Failure::Other(status.message.clone()),
        other => Failure::Other(polity_core::causes::in_one_line(&other)),
    }
}
