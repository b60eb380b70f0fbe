//! Registers the webhooks for our own kinds, and restores their configurations when they are edited or deleted.
//!
//! Every controller registers once it listens. Only the leader restores: two controllers of different versions would
//! overwrite each other's configurations without end.

use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use kube::{Client, ResourceExt as _};
use polity_api::policies::names;
use polity_reconcile::{Controller, ControllerMetrics, Requeue, Term, Watch, WriteError, Writer};
use polity_runtime::Clock;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::info;

use super::{MANAGER, configurations};
use crate::certificates::Authorities;
use crate::lifecycle::{WebhookKind, normal};
use crate::policies;
use crate::servers::{SecretError, ensure_authorities};

/// The least pause between two restores: another controller that insists on its own version costs no more than this.
const PAUSE: Duration = Duration::from_secs(1);

/// Why a configuration could not be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A configuration could not be read.
    #[error("reading the configuration of our own webhooks")]
    Api(#[from] kube::Error),
    /// A configuration could not be written.
    #[error("writing the configuration of our own webhooks")]
    Write(#[from] WriteError),
    /// The authority could not be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

/// The two webhook configurations for our own kinds, as this process registers them.
#[derive(Clone)]
pub struct Registration {
    client: Client,
    clock: Clock,
    namespace: String,
    service: String,
    is_registered: Arc<watch::Sender<bool>>,
}

impl Registration {
    /// Configurations that call this Service.
    pub fn new(client: Client, clock: Clock, namespace: &str, service: &str) -> Self {
        Self {
            client,
            clock,
            namespace: namespace.to_owned(),
            service: service.to_owned(),
            is_registered: Arc::new(watch::Sender::new(false)),
        }
    }

    /// The Service that API servers call.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Writes both configurations. From here on API servers call this controller.
    pub(super) async fn register(&self, authorities: &Authorities) -> Result<(), RestoreError> {
        self.restore(authorities).await?;
        self.is_registered.send_replace(true);
        Ok(())
    }

    /// Restores the configurations whenever they change, until the term ends. Waits until this process has registered
    /// them: an API server must not call a webhook that does not listen yet.
    pub(crate) async fn keep(mut self, metrics: ControllerMetrics, term: &Term) {
        self.client = term.guard(&self.client);
        let mut is_registered = self.is_registered.subscribe();
        let registered = async { is_registered.wait_for(|is_so| *is_so).await.is_ok() };
        if term.run_until(registered).await != Some(true) {
            return;
        }
        let mut controller =
            Controller::new("own-webhooks", self.clock.clone()).with_metrics(metrics);
        for kind in [WebhookKind::Mutating, WebhookKind::Validating] {
            let name = super::configuration_name(kind.into());
            let resource = policies::configuration_resource(kind);
            let service = self.service.clone();
            controller.watch(
                Watch::<DynamicObject>::all_with(&self.client, &resource)
                    .fields(&format!("metadata.name={name}")),
                |_| Some(()),
                move |queue, (), _| queue.add(service.clone()),
            );
        }
        // A configuration that is missing already is in no list.
        controller.queue().add(self.service.clone());
        let reconcile = move |_| {
            let registration = self.clone();
            async move { registration.reconcile().await }
        };
        controller.run(term, reconcile).await;
    }

    async fn reconcile(&self) -> Result<Requeue, RestoreError> {
        self.restore_current().await?;
        // The key is busy meanwhile, so that the next restore waits.
        self.clock.sleep(PAUSE).await;
        Ok(Requeue::Slowly)
    }

    async fn restore_current(&self) -> Result<(), RestoreError> {
        let now = self.clock.now();
        let authorities = ensure_authorities(&self.client, &self.namespace, now).await?;
        self.restore(&authorities).await
    }

    async fn restore(&self, authorities: &Authorities) -> Result<(), RestoreError> {
        let bundle = authorities.bundle();
        let (mutating, validating) = configurations(&self.namespace, &self.service, &bundle);
        self.restore_one(WebhookKind::Mutating, &mutating).await?;
        self.restore_one(WebhookKind::Validating, &validating).await
    }

    async fn restore_one(
        &self,
        kind: WebhookKind,
        wanted: &impl Serialize,
    ) -> Result<(), RestoreError> {
        let api = policies::configurations(&self.client, kind);
        let wanted = wanted_object(kind, wanted);
        let name = wanted.name_any();
        let found = api.get_opt(&name).await?;
        let resource = policies::configuration_resource(kind);
        let writer = Writer::of_kind(&self.client, resource, MANAGER);
        let written = match found {
            None => writer.create(&wanted).await,
            Some(found) => match restored(&found, &wanted) {
                None => return Ok(()),
                Some(restored) => writer.update(&restored).await,
            },
        };
        match written {
            // Another controller was faster. The watch reports what it wrote.
            Err(WriteError::Conflict { .. } | WriteError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => {
                info!(name, "wrote the configuration of our own webhooks");
                Ok(())
            }
        }
    }
}

fn wanted_object(kind: WebhookKind, wanted: &impl Serialize) -> DynamicObject {
    let wanted = serde_json::to_value(wanted).unwrap_or_default();
    let mut object = DynamicObject::new("", &policies::configuration_resource(kind));
    object.metadata = serde_json::from_value(wanted["metadata"].clone()).unwrap_or_default();
    object.data = json!({ "webhooks": wanted["webhooks"] });
    object
}

/// The configuration as it should be, or `None` when nothing was changed. Fields that others added to a webhook are
/// changes too: a selector would make it blind. Labels and annotations of others stay.
fn restored(found: &DynamicObject, wanted: &DynamicObject) -> Option<DynamicObject> {
    let hooks =
        |object: &DynamicObject| normal(object.data.get("webhooks").unwrap_or(&Value::Null));
    let is_labelled = found.labels().get(names::PART_OF) == wanted.labels().get(names::PART_OF);
    if is_labelled && hooks(found) == hooks(wanted) {
        return None;
    }
    let mut restored = found.clone();
    restored.labels_mut().extend(wanted.labels().clone());
    restored.data["webhooks"] = wanted.data["webhooks"].clone();
    Some(restored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_of_a_configuration_is_undone_and_nothing_else_is_written() {
        let (_, validating) = configurations("kubewarden", "service", "CA");
        let wanted = wanted_object(WebhookKind::Validating, &validating);
        assert_eq!(restored(&wanted, &wanted), None, "nothing was changed");
        let mut annotated = wanted.clone();
        annotated
            .annotations_mut()
            .insert("tool".into(), "yes".into());
        assert_eq!(restored(&annotated, &wanted), None, "metadata of others");
        for (edit, value) in [
            ("/webhooks/0/failurePolicy", json!("Ignore")),
            ("/webhooks/0/clientConfig/caBundle", json!("QUI=")),
            ("/webhooks/0/rules/0/operations", json!(["CREATE"])),
            (
                "/webhooks/0/objectSelector",
                json!({"matchLabels": {"a": "b"}}),
            ),
            (
                "/webhooks/0/namespaceSelector",
                json!({"matchLabels": {"a": "b"}}),
            ),
            ("/webhooks/0/timeoutSeconds", json!(1)),
            ("/webhooks", json!([])),
        ] {
            let mut edited = annotated.clone();
            *edited.data.pointer_mut(edit).unwrap() = value;
            assert_eq!(
                restored(&edited, &wanted),
                Some(annotated.clone()),
                "{edit}"
            );
        }
        let mut narrowed = annotated.clone();
        narrowed.data["webhooks"][0]["matchConditions"] =
            json!([{"name": "never", "expression": "false"}]);
        assert_eq!(restored(&narrowed, &wanted), Some(annotated.clone()));
        let mut hidden = annotated.clone();
        hidden.labels_mut().clear();
        assert_eq!(restored(&hidden, &wanted), Some(annotated));
    }
}
