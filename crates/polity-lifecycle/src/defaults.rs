//! Recommended policies: keeps to the documents in a ConfigMap, and never against their owners.
//!
//! What is absent is created, and brought up to date when its document changes. A field that somebody changed stays
//! theirs, an object that somebody deleted stays deleted until its document changes, and one that lost our label is
//! theirs altogether. What vanishes from the ConfigMap is deleted if we made it; without the ConfigMap nothing happens.
//!
//! Which document each object was last brought up to is recorded in an annotation of the ConfigMap, after the writes that
//! it records: whoever dies in between does them again, which changes nothing.

mod apply;
mod conflicts;
mod documents;
mod plan;
mod record;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use polity_reconcile::{
    Controller, ControllerMetrics, ObjectEvent, Requeue, Seen, Term, Watch, WriteError, Writer,
    name_hash, publish_event,
};
use polity_runtime::Clock;
use serde_json::json;

use self::apply::Applied;
use crate::kinds::{OwnedKey, OwnedKind};
use crate::webhooks;

pub use documents::{Document, Documents, Problem};
pub use plan::{Decision, Found, Plan, Step, decide};
pub use record::Record;

/// The name under which recommended policies are written. Fields of it are ours.
const MANAGER: &str = "polity/defaults";
/// Label on what we made: the ConfigMap it stands in. Whoever takes it off takes the object over.
pub const LABEL: &str = "polity.dev/defaults";
/// Annotation on the ConfigMap: what was applied.
pub const RECORD: &str = "polity.dev/defaults-applied";
/// The longest value of a label.
const LABEL_MAX: usize = 63;
/// How soon to look whether something that is being deleted has gone.
const WAIT: Duration = Duration::from_secs(2);
/// How soon a document is tried again that the API server does not take: what it lacks may have come, say a namespace.
const TRY_AGAIN: Duration = Duration::from_mins(5);
/// How often to check whether webhooks are registered.
const CHECK_REGISTRATION_EVERY: Duration = Duration::from_millis(500);

/// Why a round did not come to its end. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum DefaultsError {
    /// The API server, or the way to it.
    #[error("asking the API server")]
    Api(#[from] kube::Error),
    /// An object could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Keeps to the documents of one ConfigMap. Only the holder of the lease may run this.
#[derive(Clone)]
pub struct Defaults {
    client: Client,
    clock: Clock,
    namespace: String,
    config_map: String,
    /// The value of [`LABEL`].
    label: String,
    metrics: ControllerMetrics,
}

/// What comes of a round.
#[derive(Default)]
struct Round {
    record: Record,
    problems: Vec<Problem>,
    has_refused: bool,
    failure: Option<DefaultsError>,
}

impl Defaults {
    /// Recommended policies from the ConfigMap of this name in this namespace.
    pub fn new(client: Client, clock: Clock, namespace: &str, config_map: &str) -> Self {
        Self {
            client,
            clock,
            namespace: namespace.to_owned(),
            config_map: config_map.to_owned(),
            label: label_value(config_map),
            metrics: ControllerMetrics::default(),
        }
    }

    /// Counts what the controller kit counts.
    #[must_use]
    pub fn with_metrics(self, metrics: ControllerMetrics) -> Self {
        Self { metrics, ..self }
    }

    /// Watches and reconciles until the term ends.
    pub async fn run(self, term: &Term) {
        // The documents are written after our webhooks are registered, which fill in defaults.
        let registered = async {
            while !matches!(webhooks::are_registered(&self.client).await, Ok(true)) {
                self.clock.sleep(CHECK_REGISTRATION_EVERY).await;
            }
        };
        if term.run_until(registered).await.is_none() {
            return;
        }
        let mut controller =
            Controller::new("defaults", self.clock.clone()).with_metrics(self.metrics.clone());
        let only = format!("metadata.name={}", self.config_map);
        controller.watch(
            Watch::<ConfigMap>::namespaced(&self.client, &self.namespace).fields(&only),
            |config_map| Some(config_map.name_any()),
            |queue, name, seen| {
                // Without a ConfigMap nothing happens.
                if seen == Seen::Applied {
                    queue.add(name.clone());
                }
            },
        );
        let reconcile = move |_| {
            let defaults = self.clone();
            async move { defaults.reconcile().await }
        };
        controller.run(term, reconcile).await;
    }

    /// Reads, plans and writes once.
    pub async fn reconcile(&self) -> Result<Requeue, DefaultsError> {
        let map = self.config_maps().get_opt(&self.config_map).await?;
        let Some(map) = map.filter(|map| map.metadata.deletion_timestamp.is_none()) else {
            return Ok(Requeue::Slowly);
        };
        let none = BTreeMap::new();
        let documents = Documents::read(&self.label, map.data.as_ref().unwrap_or(&none));
        let before = Record::read(map.annotations().get(RECORD).map(String::as_str));
        let found = self.observe(&documents).await?;
        let plan = Plan::of(&documents, &before, &found);
        let mut round = Round {
            record: plan.record,
            problems: plan.problems,
            ..Round::default()
        };
        for step in &plan.steps {
            self.carry_out(step, &map, &mut round).await;
        }
        let Round {
            mut record,
            problems,
            has_refused,
            failure,
        } = round;
        for Problem { place, reason } in record.tell(problems) {
            let note = format!("{place}: {reason}");
            self.warn(&map, "DefaultNotApplied", &note).await;
        }
        if record != before && !self.record(&map, &record).await? {
            return Ok(Requeue::After(Duration::ZERO));
        }
        match failure {
            Some(error) => Err(error),
            None if plan.is_waiting => Ok(Requeue::After(WAIT)),
            None if has_refused => Ok(Requeue::After(TRY_AGAIN)),
            None => Ok(Requeue::Slowly),
        }
    }

    /// Carries out one write. One that fails does not hold up the others.
    async fn carry_out(&self, step: &Step<'_>, map: &ConfigMap, round: &mut Round) {
        let (key, document) = match step {
            Step::Apply(key, document) => (key, document),
            Step::Delete(key, found) => {
                let deleted = apply::delete(&self.client, key, found).await;
                round.failure = deleted.err().or(round.failure.take());
                return;
            }
        };
        match apply::apply(&self.client, key, &document.body).await {
            Err(error) => round.failure = Some(error),
            Ok(Applied::Refused(reason)) => {
                round.has_refused = true;
                let place = document.place.clone();
                round.problems.push(Problem { place, reason });
            }
            Ok(applied) => {
                round.record.apply(key, &document.hash);
                if let Some(note) = applied.note(key, &document.place) {
                    self.warn(map, "DefaultConflict", &note).await;
                }
            }
        }
    }

    /// What is there of what documents are about, and of what carries our label.
    async fn observe(
        &self,
        documents: &Documents,
    ) -> Result<BTreeMap<OwnedKey, Found>, DefaultsError> {
        let mut found = BTreeMap::new();
        let ours = ListParams::default().labels(&format!("{LABEL}={}", self.label));
        for kind in OwnedKind::all() {
            for object in kind.everywhere(&self.client).list_metadata(&ours).await? {
                let key = OwnedKey {
                    kind,
                    namespace: object.namespace(),
                    name: object.name_any(),
                };
                found.insert(key, self.read(&object.metadata));
            }
        }
        for key in documents.objects.keys() {
            if found.contains_key(key) {
                continue;
            }
            let api = key.api(&self.client);
            if let Some(object) = api.get_metadata_opt(&key.name).await? {
                found.insert(key.clone(), self.read(&object.metadata));
            }
        }
        Ok(found)
    }

    fn read(&self, metadata: &ObjectMeta) -> Found {
        let label = metadata.labels.as_ref().and_then(|all| all.get(LABEL));
        // A copy of one of ours carries the label too; only what we applied ourselves says so in the server's books.
        let mut managers = metadata.managed_fields.iter().flatten();
        let is_made_by_us = managers.any(|one| {
            one.manager.as_deref() == Some(MANAGER) && one.operation.as_deref() == Some("Apply")
        });
        Found {
            uid: metadata.uid.clone().unwrap_or_default(),
            is_ours: label == Some(&self.label) && is_made_by_us,
            is_going: metadata.deletion_timestamp.is_some(),
        }
    }

    /// Writes the record, unless the ConfigMap has changed since it was read.
    async fn record(&self, map: &ConfigMap, record: &Record) -> Result<bool, DefaultsError> {
        let writer = Writer::<ConfigMap>::new(&self.client, MANAGER);
        let changes = json!({ "annotations": { RECORD: record.text() } });
        match writer.patch_metadata(&map.metadata, changes).await {
            Ok(_) => Ok(true),
            Err(WriteError::Conflict { .. } | WriteError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn warn(&self, map: &ConfigMap, reason: &str, note: &str) {
        let event = ObjectEvent {
            about: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("ConfigMap".to_owned()),
                name: map.metadata.name.clone(),
                namespace: map.metadata.namespace.clone(),
                uid: map.metadata.uid.clone(),
                ..ObjectReference::default()
            },
            reason,
            note,
            is_warning: true,
            manager: MANAGER,
            rank: 0,
        };
        publish_event(&self.client, &event, self.clock.now()).await;
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// What fits into a label of a name that may be longer.
fn label_value(config_map: &str) -> String {
    if config_map.len() <= LABEL_MAX {
        return config_map.to_owned();
    }
    name_hash(config_map, 20)
}

#[cfg(test)]
mod tests;
