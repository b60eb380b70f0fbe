//! The cleanup before an uninstall: deletes policies, then policy servers, then stops the controller. No object is left
//! that waits for a finalizer of a controller that no longer runs.
//!
//! While a controller runs, it finalises what is deleted. Where none runs, the cleanup removes webhooks and finalizers
//! itself, without waiting for requests in flight. Each round reads everything anew: running it twice, or again after it
//! was killed, has the same result as running it once.

mod plan;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use polity_api::policies::names;
use polity_api::policies::v1::PolicyRevision;
use polity_runtime::Clock;
use serde_json::json;

use crate::kinds::{OwnedKey, OwnedKind};
use crate::lifecycle::WebhookKind;
use crate::policies::configurations;
use crate::webhooks::{Verb, configuration_name};
use words::{progress, remains, subject};

pub use plan::{Configuration, Controller, Left, Observed, Stage, Step, plan};
pub use words::{Progress, Remains};

/// The name under which finalizers are taken away and the controller is stopped.
const MANAGER: &str = "polity/cleanup";
/// How often to look while there is nothing to do but wait.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often somebody who watches is told what is left.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// Why something is left.
#[derive(Debug, thiserror::Error)]
pub enum CleanupError {
    /// The API server does not let us.
    #[error("asking the API server")]
    Api(#[from] kube::Error),
    /// It took too long.
    #[error("still there after {after:?}:\n{left}")]
    Deadline {
        /// How long it took.
        after: Duration,
        /// What is left and why, a line for each.
        left: Remains,
    },
}

/// A cleanup.
#[derive(Clone)]
pub struct Cleanup {
    /// As whom it reads and writes.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// Where the controller and the revisions live.
    pub namespace: String,
    /// The Deployment of the controller.
    pub deployment: String,
    /// How long it may take.
    pub timeout: Duration,
}

impl Cleanup {
    /// Deletes everything, and tells what is left now and then.
    pub async fn run(&self, mut tell: impl FnMut(&Progress)) -> Result<(), CleanupError> {
        let start = self.clock.moment();
        let (mut told_at, mut most) = (start, [0, 0]);
        let mut before = None;
        loop {
            let mut refusals = BTreeMap::new();
            let observed = match Box::pin(self.observe()).await {
                Ok(observed) => observed,
                Err(error) if is_passing(&error) => {
                    refusals.insert("the API server".to_owned(), in_words(&error));
                    Observed::default()
                }
                Err(error) => return Err(error.into()),
            };
            let (stage, steps) = plan(&observed);
            if stage == Stage::Done && refusals.is_empty() {
                return Ok(());
            }
            most[0] = most[0].max(observed.policies.len());
            most[1] = most[1].max(observed.servers.len());
            for step in &steps {
                if let Err(error) = self.apply(step).await {
                    refusals.insert(subject(step, &self.deployment), in_words(&error));
                }
            }
            let now = self.clock.moment();
            if now.since(start) >= self.timeout {
                return Err(CleanupError::Deadline {
                    after: self.timeout,
                    left: remains(&observed, &steps, refusals, &self.deployment),
                });
            }
            if now.since(told_at) >= TELL_EVERY
                && let Some(progress) = progress(&observed, stage, most)
            {
                told_at = now;
                tell(&progress);
            }
            // What others hold is still there after it was deleted.
            let is_stuck = steps.is_empty() || !refusals.is_empty();
            if is_stuck || before.as_ref() == Some(&observed) {
                self.clock.sleep(LOOK_EVERY).await;
            }
            before = Some(observed);
        }
    }

    async fn observe(&self) -> kube::Result<Observed> {
        let (mut policies, mut servers) = (Vec::new(), Vec::new());
        for kind in OwnedKind::all() {
            let into = match kind {
                OwnedKind::Server => &mut servers,
                OwnedKind::Policy(_) => &mut policies,
            };
            into.extend(self.left(kind).await?);
        }
        let revisions: Api<PolicyRevision> = Api::namespaced(self.client.clone(), &self.namespace);
        let revisions = revisions.list_metadata(&ListParams::default()).await;
        let revisions = if_served(revisions)?
            .map(|all| all.items)
            .unwrap_or_default();
        let (controller, n_controller_pods) = self.controller().await?;
        let mut observed = Observed {
            controller,
            n_controller_pods,
            policies,
            servers,
            revisions: revisions
                .iter()
                .map(|one| (one.name_any(), one.uid().unwrap_or_default()))
                .collect(),
            ..Observed::default()
        };
        let ours = format!("{}={}", names::PART_OF, names::PART_OF_VALUE);
        let ours = ListParams::default().labels(&ours);
        let own = [Verb::Mutate, Verb::Validate].map(configuration_name);
        for kind in [WebhookKind::Validating, WebhookKind::Mutating] {
            for object in configurations(&self.client, kind)
                .list_metadata(&ours)
                .await?
            {
                let configuration = Configuration {
                    kind,
                    name: object.name_any(),
                    uid: object.uid().unwrap_or_default(),
                };
                if own.contains(&configuration.name) {
                    observed.own_webhooks.push(configuration);
                } else if object
                    .annotations()
                    .contains_key(names::WEBHOOK_POLICY_NAME)
                {
                    observed.policy_webhooks.push(configuration);
                }
            }
        }
        Ok(observed)
    }

    async fn left(&self, kind: OwnedKind) -> kube::Result<Vec<Left>> {
        let api: Api<DynamicObject> = kind.everywhere(&self.client);
        let all = if_served(api.list_metadata(&ListParams::default()).await)?;
        let all = all.map(|all| all.items).unwrap_or_default();
        let left = all.into_iter().map(|object| Left {
            key: OwnedKey {
                kind,
                namespace: object.namespace(),
                name: object.name_any(),
            },
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            deleted_at: object.metadata.deletion_timestamp.map(|time| time.0),
            finalizers: object.metadata.finalizers.unwrap_or_default(),
        });
        Ok(left.collect())
    }

    /// The Deployment of the controller, and how many pods of it there are.
    async fn controller(&self) -> kube::Result<(Controller, usize)> {
        let Some(deployment) = self.deployments().get_opt(&self.deployment).await? else {
            return Ok((Controller::Absent, 0));
        };
        let status = deployment.status.unwrap_or_default();
        let controller = Controller::Deployed {
            n_wanted: deployment.spec.replicas.unwrap_or(1),
            n_ready: status.ready_replicas.unwrap_or_default(),
        };
        let labels = deployment.spec.selector.match_labels.unwrap_or_default();
        if labels.is_empty() {
            return Ok((controller, 0));
        }
        let selector: Vec<_> = labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = ListParams::default().labels(&selector.join(","));
        Ok((controller, pods.list_metadata(&params).await?.items.len()))
    }

    /// Carries out one write. What is gone meanwhile, or has changed, is looked at in the next round.
    async fn apply(&self, step: &Step<'_>) -> kube::Result<()> {
        let patching = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let answer = match step {
            Step::Delete(left) => {
                let api = left.key.api(&self.client);
                let params = deleting(&left.uid);
                api.delete(&left.key.name, &params).await.map(drop)
            }
            Step::Release(left, others) => {
                let patch = Patch::Merge(json!({"metadata": {
                    "resourceVersion": left.resource_version, "finalizers": others,
                }}));
                let api = left.key.api(&self.client);
                let name = &left.key.name;
                api.patch_metadata(name, &patching, &patch).await.map(drop)
            }
            Step::DeleteWebhook(webhook) => {
                let api = configurations(&self.client, webhook.kind);
                let params = deleting(&webhook.uid);
                api.delete(&webhook.name, &params).await.map(drop)
            }
            Step::DeleteRevision(name, uid) => {
                let api: Api<PolicyRevision> =
                    Api::namespaced(self.client.clone(), &self.namespace);
                api.delete(name, &deleting(uid)).await.map(drop)
            }
            Step::StopController => {
                let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
                let api = self.deployments();
                let name = &self.deployment;
                api.patch_scale(name, &patching, &patch).await.map(drop)
            }
        };
        match answer {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            other => other,
        }
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// Of this very object.
fn deleting(uid: &str) -> DeleteParams {
    DeleteParams::background().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    })
}

/// `None` where the kind is not served any more.
fn if_served<T>(answer: kube::Result<T>) -> kube::Result<Option<T>> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        other => other.map(Some),
    }
}

/// Whether another try may bring another answer.
fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code >= 500 || status.code == 429,
        _ => true,
    }
}

fn in_words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
