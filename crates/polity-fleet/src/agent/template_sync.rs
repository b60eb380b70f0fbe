//! Applies the templates of policies, in order of their dependencies. See docs/spec/governance.md#10-3.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use polity_api::policy::v1;
use polity_core::governance::names;
use polity_core::{GroupVersion, GroupVersionKind, ObjectKey};
use polity_govern::dependency::namespace_to_read;
use polity_govern::objects::{Dependency, HistoryEntry, Policy};
use polity_govern::sync::{ObjectName, SyncPlan, TemplatePlan, TemplateStep, sync};
use polity_reconcile::{ObjectEvent, Requeue, WriteError, Writer, publish_event};
use polity_runtime::Clock;
use polity_source::cluster::TemplateSyncCluster;
use serde_json::{Value, json};
use tracing::info;

use super::Agent;
use super::compliance_event::ComplianceReport;
use super::model::{AgentModel, PolicyCopy};
use super::objects::{DiscoveryError, ManagedObjects, ObjectId, ReadId, Reader};
use super::spec_sync::policy_reference;
use super::status_sync::history::time_of;
use super::watches::AgentQueues;

/// The field manager of these writes.
const MANAGER: &str = "polity/template-sync";
/// The reason of Events about templates.
const REASON: &str = "PolicyTemplateSync";

/// Why the templates of a policy could not be synchronized.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TemplateSyncError {
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The controller of templates.
#[derive(Clone)]
pub(crate) struct TemplateSyncer {
    cluster: String,
    namespace: String,
    clock: Clock,
    client: Client,
    model: Arc<AgentModel>,
    objects: Arc<ManagedObjects>,
    queues: AgentQueues,
    policies: Writer<v1::Policy>,
    events: Writer<Event>,
    passes: Arc<Mutex<BTreeMap<String, SyncPass>>>,
    /// The last report about a template that is not applied, by the UID of the policy and the template. The status of the
    /// policy shows it later, and a reconcile in between must not send it again.
    reported: Arc<Mutex<BTreeMap<(String, String), SentReport>>>,
}

/// A report that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SentReport {
    message: String,
    at: Timestamp,
}

/// A finished pass over the templates of a policy. It is in memory only: after a restart, the next pass decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyncPass {
    pub(crate) policy_uid: String,
    pub(crate) generation: Option<i64>,
    /// What became of each template, in their order.
    pub(crate) templates: Vec<TemplateOutcome>,
}

/// What became of one template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TemplateOutcome {
    /// Its object is as the policy wants it.
    Applied,
    /// It could not be applied.
    Error,
    /// It waits for its dependencies.
    Pending,
    /// It waits for its dependencies and counts as compliant meanwhile.
    IgnoredPending,
}

impl TemplateSyncer {
    pub(super) fn new(
        agent: &Agent,
        client: &Client,
        model: Arc<AgentModel>,
        objects: Arc<ManagedObjects>,
        queues: AgentQueues,
    ) -> Self {
        Self {
            cluster: agent.cluster.clone(),
            namespace: agent.namespace.clone(),
            clock: agent.clock.clone(),
            client: client.clone(),
            model,
            objects,
            queues,
            policies: Writer::new(client, MANAGER),
            events: Writer::new(client, MANAGER),
            passes: Arc::default(),
            reported: Arc::default(),
        }
    }

    /// Reconciles the templates of one policy.
    pub(super) async fn reconcile(&self, name: String) -> Result<Requeue, TemplateSyncError> {
        self.model.policies.listed().await;
        let Some(copy) = self.model.policy(&name) else {
            self.objects
                .set_reads(&Reader::Templates(name.clone()), BTreeSet::new());
            self.remember(&name, None);
            return Ok(Requeue::Never);
        };
        self.watch_kinds(&copy.policy).await?;
        if copy.is_deleting() {
            return self.clean_up(&copy).await;
        }
        let plan = self.objects.model().with_cache(|cache| {
            let verdict = |_: &Value| None;
            let cluster = TemplateSyncCluster::new(cache, &self.namespace, &verdict);
            sync(&copy.policy, &self.cluster, &cluster)
        });
        let pass = self.carry_out(&copy, &plan).await?;
        self.remember(&name, Some(pass));
        self.queues.statuses.add(name);
        Ok(Requeue::Slowly)
    }

    /// Watches the kinds that a policy is about: those of its templates and dependencies, and every kind that an object
    /// of an earlier version of the policy may have.
    async fn watch_kinds(&self, policy: &Policy) -> Result<(), DiscoveryError> {
        let mut kinds: BTreeSet<GroupVersionKind> = policy
            .spec
            .templates
            .iter()
            .filter_map(|template| gvk(template.api_version(), template.kind()))
            .collect();
        let of_templates = policy.spec.templates.iter();
        let dependencies = of_templates.flat_map(|template| &template.extra_dependencies);
        let dependencies = policy.spec.dependencies.iter().chain(dependencies);
        let mut objects: BTreeSet<ObjectId> = BTreeSet::new();
        for dependency in dependencies {
            if let Some(id) = self.object_of(dependency) {
                kinds.insert(id.0.clone());
                objects.insert(id);
            }
        }
        kinds.extend(self.objects.template_kinds());
        let reader = Reader::Templates(policy.name.clone());
        for kind in &kinds {
            self.objects.watch(kind, &reader).await?;
        }
        // Known only now: whether the kind has namespaces.
        let objects = objects.into_iter().map(|(kind, key)| {
            let is_namespaced = self
                .objects
                .model()
                .with_cache(|cache| cache.kind(&kind).is_some_and(|kind| kind.namespaced));
            let namespace = key.namespace.filter(|_| is_namespaced);
            ReadId::Object((kind, ObjectKey { namespace, ..key }))
        });
        self.objects.set_reads(&reader, objects.collect());
        Ok(())
    }

    fn object_of(&self, dependency: &Dependency) -> Option<ObjectId> {
        let kind = gvk(&dependency.api_version, &dependency.kind)?;
        let namespace = namespace_to_read(dependency, &self.namespace);
        let key = ObjectKey {
            namespace: namespace.map(str::to_owned),
            name: dependency.name.clone(),
        };
        Some((kind, key))
    }

    async fn carry_out(&self, copy: &PolicyCopy, plan: &SyncPlan) -> Result<SyncPass, WriteError> {
        if plan.needs_finalizer {
            self.set_finalizer(copy, true).await?;
        }
        let mut templates = Vec::new();
        for template in &plan.templates {
            templates.push(self.template(copy, template).await?);
        }
        for object in &plan.deletes {
            self.delete(object).await?;
        }
        if !plan.needs_finalizer {
            self.set_finalizer(copy, false).await?;
        }
        Ok(SyncPass {
            policy_uid: copy.policy.uid.clone(),
            generation: copy.object.metadata.generation,
            templates,
        })
    }

    async fn template(
        &self,
        copy: &PolicyCopy,
        plan: &TemplatePlan,
    ) -> Result<TemplateOutcome, WriteError> {
        let mut outcome = match &plan.report {
            Some(message) => outcome_of(message),
            None => TemplateOutcome::Applied,
        };
        let applied = match &plan.step {
            TemplateStep::None | TemplateStep::Keep => Ok(()),
            TemplateStep::Create(object) => self.create(copy, &plan.name, object).await?,
            TemplateStep::Update(object) => self.update(copy, &plan.name, object).await?,
            TemplateStep::Delete {
                object,
                without_pruning,
            } => {
                if *without_pruning {
                    self.stop_pruning(object).await?;
                }
                self.delete(object).await?;
                Ok(())
            }
        };
        // A message that was reported already is not in the plan, but what it said still holds.
        if plan.report.is_none() && matches!(plan.step, TemplateStep::None) {
            outcome = newest_message(&copy.policy, &plan.name).map_or(outcome, outcome_of);
        }
        let mut report = plan.report.clone();
        if let Err(message) = applied {
            outcome = TemplateOutcome::Error;
            report = Some(message);
        }
        match &report {
            Some(message) if self.is_reported(copy, &plan.name, message) => {}
            Some(message) => {
                let at = self.report(copy, &plan.name, message).await?;
                let message = message.clone();
                self.note_reported(copy, &plan.name, Some(SentReport { message, at }));
            }
            None if outcome == TemplateOutcome::Applied => {
                self.note_reported(copy, &plan.name, None);
                if plan.clear_compliance {
                    self.clear_compliance(copy, plan).await;
                }
            }
            None => {}
        }
        Ok(outcome)
    }

    /// Creates the object of a template. `Err` is the message of a template that the API server refuses.
    async fn create(
        &self,
        copy: &PolicyCopy,
        name: &str,
        object: &Value,
    ) -> Result<Result<(), String>, WriteError> {
        let Some((writer, object)) = self.writer(object) else {
            return Ok(Err(template_error(
                "Failed to create policy template",
                "the object has no kind",
            )));
        };
        match writer.create(&object).await {
            Ok(_) => {
                self.publish(
                    copy,
                    &format!("Policy template {name} created successfully"),
                )
                .await;
                Ok(Ok(()))
            }
            Err(WriteError::Refused { message, .. }) => Ok(Err(template_error(
                "Failed to create policy template",
                &message,
            ))),
            Err(error) => Err(error),
        }
    }

    async fn update(
        &self,
        copy: &PolicyCopy,
        name: &str,
        object: &Value,
    ) -> Result<Result<(), String>, WriteError> {
        let attempt = format!("Failed to update policy template {name}");
        let Some((writer, object)) = self.writer(object) else {
            return Ok(Err(template_error(&attempt, "the object has no kind")));
        };
        match writer.update(&object).await {
            Ok(_) => {
                let note = format!("Policy template {name} was updated successfully");
                self.publish(copy, &note).await;
                Ok(Ok(()))
            }
            Err(WriteError::Refused { message, .. }) => Ok(Err(template_error(&attempt, &message))),
            Err(error) => Err(error),
        }
    }

    async fn delete(&self, object: &ObjectName) -> Result<(), WriteError> {
        let Some((kind, key)) = id_of(object) else {
            return Ok(());
        };
        let found = self
            .objects
            .model()
            .with_cache(|cache| cache.get(&kind, &key).cloned());
        let Some((writer, found)) = found.and_then(|found| self.writer(&found)) else {
            return Ok(());
        };
        writer.delete(&found.metadata).await?;
        info!(kind = %kind, object = %key, "template deleted");
        Ok(())
    }

    /// Keeps what a configuration policy has created when the policy itself is deleted.
    async fn stop_pruning(&self, object: &ObjectName) -> Result<(), WriteError> {
        let Some((kind, key)) = id_of(object) else {
            return Ok(());
        };
        let found = self
            .objects
            .model()
            .with_cache(|cache| cache.get(&kind, &key).cloned());
        let Some(found) = found else { return Ok(()) };
        let mut unpruned = found.as_ref().clone();
        unpruned["spec"]["pruneObjectBehavior"] = json!("None");
        if let Some((writer, unpruned)) = self.writer(&unpruned) {
            writer.update(&unpruned).await?;
        }
        Ok(())
    }

    /// Removes the compliance of a template whose last report is outdated, so that its controller reports again.
    async fn clear_compliance(&self, copy: &PolicyCopy, plan: &TemplatePlan) {
        let mut templates = copy.policy.spec.templates.iter();
        let Some(template) = templates.find(|template| template.name() == plan.name) else {
            return;
        };
        let Some(kind) = gvk(template.api_version(), template.kind()) else {
            return;
        };
        let Some(resource) = self.resource(&kind) else {
            return;
        };
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let patch = Patch::Merge(json!({ "status": { "compliant": null } }));
        let params = PatchParams::default();
        if let Err(error) = api.patch_status(&plan.name, &params, &patch).await {
            let error = &error as &dyn std::error::Error;
            info!(
                policy = copy.policy.name,
                template = plan.name,
                error,
                "could not clear the compliance of a template"
            );
        }
    }

    /// Adds or removes the finalizer for templates that an owner reference does not reach.
    async fn set_finalizer(&self, copy: &PolicyCopy, is_wanted: bool) -> Result<(), WriteError> {
        let mut finalizers = copy.object.metadata.finalizers.clone().unwrap_or_default();
        let has = finalizers.iter().any(|one| one == names::CLEANUP_FINALIZER);
        if has == is_wanted {
            return Ok(());
        }
        match is_wanted {
            true => finalizers.push(names::CLEANUP_FINALIZER.to_owned()),
            false => finalizers.retain(|one| one != names::CLEANUP_FINALIZER),
        }
        let changes = json!({ "finalizers": finalizers });
        self.policies
            .patch_metadata(&copy.object.metadata, changes)
            .await?;
        Ok(())
    }

    /// Deletes the templates of a policy that is being deleted, where its deletion does not take them along.
    async fn clean_up(&self, copy: &PolicyCopy) -> Result<Requeue, TemplateSyncError> {
        let labelled: Vec<ObjectName> = self.objects.model().with_cache(|cache| {
            let verdict = |_: &Value| None;
            let cluster = TemplateSyncCluster::new(cache, &self.namespace, &verdict);
            polity_govern::sync::left_behind(&copy.policy, &cluster)
        });
        for object in &labelled {
            self.delete(object).await?;
        }
        // Each deletion that the watch shows brings the policy back here.
        if labelled.is_empty() {
            self.set_finalizer(copy, false).await?;
        }
        Ok(Requeue::Slowly)
    }

    /// Reports the state of a template in an Event, and returns when.
    async fn report(
        &self,
        copy: &PolicyCopy,
        template: &str,
        message: &str,
    ) -> Result<Timestamp, WriteError> {
        let report = ComplianceReport {
            policy: policy_reference(copy),
            template: self.template_reference(&copy.policy, template),
            message,
            manager: MANAGER,
        };
        let now = self.clock.now();
        self.events.create(&report.event(now)).await?;
        Ok(now)
    }

    /// Whether this message was sent and nothing newer is known. A late report of the controller of a template that is
    /// pending must not be the last one.
    fn is_reported(&self, copy: &PolicyCopy, template: &str, message: &str) -> bool {
        let reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let last = reported.get(&(copy.policy.uid.clone(), template.to_owned()));
        last.is_some_and(|last| {
            let newest = newest_entry(&copy.policy, template).map(time_of);
            last.message == message && newest.is_none_or(|newest| newest <= last.at.as_nanosecond())
        })
    }

    fn note_reported(&self, copy: &PolicyCopy, template: &str, report: Option<SentReport>) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (copy.policy.uid.clone(), template.to_owned());
        match report {
            Some(report) => _ = reported.insert(key, report),
            None => _ = reported.remove(&key),
        }
    }

    fn template_reference(&self, policy: &Policy, name: &str) -> ObjectReference {
        let mut templates = policy.spec.templates.iter();
        let template = templates.find(|template| template.name() == name);
        ObjectReference {
            api_version: template.map(|template| template.api_version().to_owned()),
            kind: template.map(|template| template.kind().to_owned()),
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.clone()),
            ..ObjectReference::default()
        }
    }

    async fn publish(&self, copy: &PolicyCopy, note: &str) {
        let event = ObjectEvent {
            about: policy_reference(copy),
            reason: REASON,
            note,
            is_warning: false,
            manager: MANAGER,
            rank: 0,
        };
        publish_event(&self.client, &event, self.clock.now()).await;
    }

    /// A writer for the kind of an object, and the object.
    fn writer(&self, object: &Value) -> Option<(Writer<DynamicObject>, DynamicObject)> {
        let kind = gvk(object["apiVersion"].as_str()?, object["kind"].as_str()?)?;
        let resource = self.resource(&kind)?;
        let object: DynamicObject = serde_json::from_value(object.clone()).ok()?;
        Some((Writer::of_kind(&self.client, resource, MANAGER), object))
    }

    fn resource(&self, gvk: &GroupVersionKind) -> Option<ApiResource> {
        let kind = self
            .objects
            .model()
            .with_cache(|cache| cache.kind(gvk).cloned())?;
        let gvk = kube::api::GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
        Some(ApiResource::from_gvk_with_plural(&gvk, &kind.plural))
    }

    /// The object of a template, if it exists.
    pub(super) fn object(&self, api_version: &str, kind: &str, name: &str) -> Option<Arc<Value>> {
        let gvk = gvk(api_version, kind)?;
        self.objects.model().with_cache(|cache| {
            let is_namespaced = cache.kind(&gvk)?.namespaced;
            let key = ObjectKey {
                namespace: is_namespaced.then(|| self.namespace.clone()),
                name: name.to_owned(),
            };
            cache.get(&gvk, &key).cloned()
        })
    }

    /// The last finished pass over the templates of a policy, if it was about this version of the policy.
    pub(super) fn pass(&self, copy: &PolicyCopy) -> Option<SyncPass> {
        let passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        let pass = passes.get(&copy.policy.name)?;
        let is_current = pass.policy_uid == copy.policy.uid
            && pass.generation == copy.object.metadata.generation;
        is_current.then(|| pass.clone())
    }

    fn remember(&self, name: &str, pass: Option<SyncPass>) {
        let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        match pass {
            Some(pass) => _ = passes.insert(name.to_owned(), pass),
            None => _ = passes.remove(name),
        }
    }
}

fn template_error(attempt: &str, message: &str) -> String {
    format!("NonCompliant; template-error; {attempt}: {message}")
}

/// What a message about a template says became of it.
fn outcome_of(message: &str) -> TemplateOutcome {
    if message.contains("template-error;") {
        TemplateOutcome::Error
    } else if message.starts_with("Pending;") {
        TemplateOutcome::Pending
    } else if message.contains("but ignorePending is true") {
        TemplateOutcome::IgnoredPending
    } else {
        TemplateOutcome::Applied
    }
}

fn newest_message<'a>(policy: &'a Policy, template: &str) -> Option<&'a str> {
    Some(&newest_entry(policy, template)?.message)
}

fn newest_entry<'a>(policy: &'a Policy, template: &str) -> Option<&'a HistoryEntry> {
    let mut details = policy.status.details.iter();
    let details = details.find(|details| details.name == template)?;
    details.history.first()
}

fn gvk(api_version: &str, kind: &str) -> Option<GroupVersionKind> {
    let GroupVersion { group, version } = api_version.parse().ok()?;
    Some(GroupVersionKind::new(group, version, kind))
}

fn id_of(object: &ObjectName) -> Option<ObjectId> {
    let key = ObjectKey {
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    };
    Some((gvk(&object.api_version, &object.kind)?, key))
}
