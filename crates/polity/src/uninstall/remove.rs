//! Carries out an uninstall.
//!
//! - The controller stops first: it would restore what is removed, and create more.
//! - The webhooks of policies go before the policy servers that they call, so that no request is ever blocked.
//! - Policies and policy servers that are kept lose our finalizer and their status: no controller would remove the
//!   one, and the other is no longer true.
//! - The definitions go last.

use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use polity_lifecycle::cleanup::Cleanup;
use polity_lifecycle::install::CONTROLLER;
use polity_runtime::{Clock, Moment};
use serde_json::json;

use super::found::{Found, Home, Object, Owned, Scope, counted};
use super::observe;

/// The name under which finalizers are removed and the controller is stopped.
const MANAGER: &str = "polity/uninstall";
/// Between two reads of something that is going away.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How often a write is tried that conflicts with another.
const TRIES: usize = 5;

/// An uninstall.
pub(super) struct Removal {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) timeout: Duration,
    pub(super) scope: Scope,
}

impl Removal {
    /// Removes the installation that was found and confirmed. The objects to delete are read again when the controller has
    /// stopped: it creates some until then. The namespace is only deleted if both observations agree that it is ours.
    pub(super) async fn run(
        &self,
        confirmed: &Found,
        mut tell: impl FnMut(&str),
    ) -> anyhow::Result<()> {
        let end = self.clock.moment() + self.timeout;
        let namespace = &confirmed.namespace;
        match self.scope {
            Scope::Installation => self.stop_controller(namespace, end, &mut tell).await?,
            Scope::WithDefinitions => self.clean_up(namespace, &mut tell).await?,
        }
        let found = observe::found(&self.client, namespace).await;
        let found = found.context("reading what is left after the controller stopped")?;
        for webhook in found.policy_webhooks.iter().chain(&found.own_webhooks) {
            self.delete(webhook).await?;
        }
        if self.scope == Scope::Installation {
            self.release_all(TRIES).await?;
        }
        let deletes_home = confirmed.home == Home::Ours && found.home == Home::Ours;
        for object in &found.objects {
            // A run that continues an interrupted one recognises the namespace by its account.
            if !(deletes_home && observe::is_account(object)) {
                self.delete(object).await?;
            }
        }
        if deletes_home {
            let kind = ApiResource::erase::<Namespace>(&());
            self.delete_and_wait(&[cluster_object(&kind, namespace)], end, &mut tell)
                .await?;
        }
        let kind = ApiResource::erase::<CustomResourceDefinition>(&());
        let definitions: Vec<Object> = found
            .removed_definitions(self.scope)
            .map(|one| cluster_object(&kind, &one.name))
            .collect();
        self.delete_and_wait(&definitions, end, &mut tell).await
    }

    /// Releases all policies and policy servers, which are kept. What others change meanwhile is tried again.
    pub(super) async fn release_all(&self, tries: usize) -> anyhow::Result<()> {
        let mut n_tries = 0;
        loop {
            let owned = observe::owned(&self.client).await?;
            let held: Vec<&Owned> = owned.iter().filter(|one| one.is_held()).collect();
            if held.is_empty() {
                return Ok(());
            }
            if n_tries == tries {
                bail!(
                    "another process keeps changing policies or policy servers; is a controller running outside of the cluster?"
                );
            }
            n_tries += 1;
            for one in held {
                let released = self.release(one).await;
                released.with_context(|| format!("removing our finalizer from {}", one.key))?;
            }
        }
    }

    /// Deletes all policies and policy servers, as `polity controller --cleanup` does.
    async fn clean_up(&self, namespace: &str, tell: &mut impl FnMut(&str)) -> anyhow::Result<()> {
        let cleanup = Cleanup {
            client: self.client.clone(),
            clock: self.clock.clone(),
            namespace: namespace.to_owned(),
            deployment: CONTROLLER.to_owned(),
            timeout: self.timeout,
        };
        let cleaned = cleanup.run(|progress| tell(&progress.to_string())).await;
        cleaned.context("deleting policies and policy servers")
    }

    /// Scales the controller to zero, and waits until no Pod of it is left.
    async fn stop_controller(
        &self,
        namespace: &str,
        end: Moment,
        tell: &mut impl FnMut(&str),
    ) -> anyhow::Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
        let stopped = deployments
            .patch_scale(CONTROLLER, &patching(), &patch)
            .await;
        gone_is_fine(stopped.map(drop)).context("stopping the controller")?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let selector =
            "app.kubernetes.io/part-of=kubewarden,app.kubernetes.io/component=controller";
        let of_controller = ListParams::default().labels(selector);
        let mut n_before = usize::MAX;
        loop {
            let n_left = pods.list_metadata(&of_controller).await?.items.len();
            if n_left == 0 {
                return Ok(());
            }
            if n_left != n_before {
                tell(&format!(
                    "waiting for {} to end",
                    pods_of_controller(n_left)
                ));
                n_before = n_left;
            }
            if self.clock.moment() >= end {
                let left = pods_of_controller(n_left);
                bail!("{left} did not end within {:?}", self.timeout);
            }
            self.clock.sleep(POLL_INTERVAL).await;
        }
    }

    /// Removes what the controller keeps on a policy or a policy server. What changed meanwhile is read again.
    async fn release(&self, one: &Owned) -> kube::Result<()> {
        let kind = one.key.kind.api_resource();
        let api: Api<DynamicObject> = match &one.key.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind),
            None => Api::all_with(self.client.clone(), &kind),
        };
        let name = &one.key.name;
        let mut version = one.resource_version.clone();
        if one.has_status {
            let patch = Patch::Merge(json!({
                "metadata": {"resourceVersion": version}, "status": null,
            }));
            match api.patch_status(name, &patching(), &patch).await {
                Ok(written) => version = written.metadata.resource_version.unwrap_or_default(),
                Err(error) => return gone_is_fine(Err(error)),
            }
        }
        if let Some(others) = &one.released {
            let patch = Patch::Merge(json!({
                "metadata": {"resourceVersion": version, "finalizers": others},
            }));
            let written = api.patch_metadata(name, &patching(), &patch).await;
            return gone_is_fine(written.map(drop));
        }
        Ok(())
    }

    async fn delete(&self, object: &Object) -> anyhow::Result<()> {
        let api = object.api(&self.client);
        let deleted = api.delete(&object.name, &DeleteParams::background()).await;
        gone_is_fine(deleted.map(drop)).with_context(|| format!("deleting {}", object.shown()))
    }

    /// Deletes objects that take a while, and waits until they are gone.
    async fn delete_and_wait(
        &self,
        objects: &[Object],
        end: Moment,
        tell: &mut impl FnMut(&str),
    ) -> anyhow::Result<()> {
        for object in objects {
            self.delete(object).await?;
        }
        for object in objects {
            let api = object.api(&self.client);
            let mut is_told = false;
            while api.get_metadata_opt(&object.name).await?.is_some() {
                if self.clock.moment() >= end {
                    bail!(
                        "{} is still being deleted after {:?}; `kubectl get {} {} -o yaml` shows what it waits for",
                        object.shown(),
                        self.timeout,
                        object.kind.plural,
                        object.name
                    );
                }
                if !is_told {
                    tell(&format!("waiting for {} to be deleted", object.shown()));
                    is_told = true;
                }
                self.clock.sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }
}

fn pods_of_controller(number: usize) -> String {
    counted(number, "pod of the controller", "pods of the controller")
}

fn cluster_object(kind: &ApiResource, name: &str) -> Object {
    Object {
        kind: kind.clone(),
        namespace: None,
        name: name.to_owned(),
    }
}

fn patching() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// What is gone needs no removal, and what has changed is looked at again.
fn gone_is_fine(answer: kube::Result<()>) -> kube::Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other,
    }
}
