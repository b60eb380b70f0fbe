//! Replicas as values: the copy of a root policy for one cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::objects::{Dependency, Policy, PolicySet, PolicySpec};
use polity_api::policy::v1::{self, RemediationAction};
use polity_core::ClusterName;
use polity_core::governance::{Action, names};
use serde_json::{Map, Value, json};

use crate::canonical::canonical;
use crate::mark::{Mark, Stage};

/// Resolves hub templates, the text between `{{hub` and `hub}}`.
pub trait HubTemplates {
    /// Whether a definition contains hub templates. If none does, all clusters share one spec.
    fn concerns(&self, definition: &Map<String, Value>) -> bool;

    /// Resolves a definition for one cluster, or returns what is wrong with its templates.
    fn resolve(
        &self,
        cluster: &ClusterName,
        definition: &Map<String, Value>,
    ) -> Result<Map<String, Value>, String>;
}

/// Leaves every definition as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unresolved;

impl HubTemplates for Unresolved {
    fn concerns(&self, _: &Map<String, Value>) -> bool {
        false
    }

    fn resolve(
        &self,
        _: &ClusterName,
        definition: &Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        Ok(definition.clone())
    }
}

/// The labels that say whose replica it is.
const OWN_LABELS: [&str; 2] = [names::CLUSTER_NAME, names::CLUSTER_NAMESPACE];

/// Builds the replicas of one root policy. A spec that clusters share is built once.
pub(crate) struct Builder<'a> {
    root: &'a Policy,
    templates: &'a dyn HubTemplates,
    /// The spec with its dependencies as clusters know them, by action.
    specs: BTreeMap<Option<RemediationAction>, Arc<PolicySpec>>,
    base: PolicySpec,
    /// What all replicas have, besides [`OWN_LABELS`].
    labels: BTreeMap<String, String>,
    /// What all replicas have, besides their mark and their vector.
    annotations: BTreeMap<String, String>,
    has_hub_templates: bool,
}

/// What a replica says, and what went wrong with its hub templates.
pub(crate) struct Text {
    pub(crate) spec: Arc<PolicySpec>,
    pub(crate) template_errors: Vec<String>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(
        root: &'a Policy,
        sets: &[PolicySet],
        templates: &'a dyn HubTemplates,
    ) -> Self {
        let copied = |name: &str| root.spec.copy_metadata || name.starts_with(names::PREFIX);
        let mut labels = root.labels.clone();
        labels.retain(|name, _| copied(name));
        labels.insert(
            names::ROOT_POLICY.to_owned(),
            names::replica_name(&root.namespace, &root.name),
        );
        for own in OWN_LABELS {
            labels.remove(own);
        }
        let mut annotations = root.annotations.clone();
        annotations.retain(|name, _| {
            copied(name)
                && !name.starts_with(names::ROLLOUT_PREFIX)
                && name != names::TRIGGER_UPDATE
        });
        annotations.insert(
            names::ARGO_COMPARE_OPTIONS.to_owned(),
            names::ARGO_IGNORE_EXTRANEOUS.to_owned(),
        );
        let disabled = root.annotations.get(names::DISABLE_TEMPLATES);
        let resolves = disabled.is_none_or(|text| !text.eq_ignore_ascii_case("true"));
        let mut definitions = root
            .spec
            .wire()
            .policy_templates
            .iter()
            .map(|template| &template.object_definition);
        Self {
            root,
            templates,
            specs: BTreeMap::new(),
            base: with_canonical_dependencies(root, sets),
            labels,
            annotations,
            has_hub_templates: resolves
                && definitions.any(|definition| templates.concerns(definition)),
        }
    }

    /// What the replica of a cluster says. The stage decides the action, an override only that of the final one.
    pub(crate) fn text(
        &mut self,
        cluster: &ClusterName,
        mark: Option<&Mark>,
        override_action: Option<RemediationAction>,
    ) -> Text {
        let stage = mark.map_or(Stage::Final, |mark| mark.step.stage);
        let (spec, template_errors) = self.spec(cluster, stage, override_action);
        Text {
            spec,
            template_errors,
        }
    }

    /// Whether a replica is what [`Builder::build`] would make of it. Most are, so nothing is built to find out.
    pub(crate) fn is_built(
        &self,
        cluster: &ClusterName,
        mark: Option<&Mark>,
        spec: &PolicySpec,
        existing: &Policy,
    ) -> bool {
        let is = |all: &BTreeMap<String, String>, name: &str, value: &str| {
            all.get(name).is_some_and(|found| found == value)
        };
        let labels = &existing.labels;
        let annotations = &existing.annotations;
        let mut marks = BTreeMap::new();
        if let Some(mark) = mark {
            mark.write(&mut marks);
        }
        let own_vector = annotations.contains_key(names::ENCRYPTION_IV);
        let more_vectors = own_vector && !self.annotations.contains_key(names::ENCRYPTION_IV);
        labels.len() == self.labels.len() + OWN_LABELS.len()
            && annotations.len() == self.annotations.len() + marks.len() + usize::from(more_vectors)
            && OWN_LABELS.iter().all(|name| is(labels, name, cluster))
            && self
                .labels
                .iter()
                .all(|(name, value)| is(labels, name, value))
            && marks
                .iter()
                .all(|(name, value)| is(annotations, name, value))
            && self.annotations.iter().all(|(name, value)| {
                (own_vector && name == names::ENCRYPTION_IV) || is(annotations, name, value)
            })
            && existing.spec.wire() == spec.wire()
    }

    /// The replica of a cluster.
    pub(crate) fn build(
        &self,
        cluster: &ClusterName,
        mark: Option<&Mark>,
        spec: Arc<PolicySpec>,
        existing: Option<&Policy>,
    ) -> Policy {
        let mut labels = self.labels.clone();
        for own in OWN_LABELS {
            labels.insert(own.to_owned(), cluster.to_string());
        }
        let mut annotations = self.annotations.clone();
        // Encrypted values stay the same text as long as their vector does.
        if let Some(vector) =
            existing.and_then(|replica| replica.annotations.get(names::ENCRYPTION_IV))
        {
            annotations.insert(names::ENCRYPTION_IV.to_owned(), vector.clone());
        }
        if let Some(mark) = mark {
            mark.write(&mut annotations);
        }
        Policy {
            namespace: cluster.to_string(),
            name: names::replica_name(&self.root.namespace, &self.root.name),
            uid: existing
                .map(|replica| replica.uid.clone())
                .unwrap_or_default(),
            resource_version: existing
                .map(|replica| replica.resource_version.clone())
                .unwrap_or_default(),
            labels,
            annotations,
            spec,
            status: existing
                .map(|replica| replica.status.clone())
                .unwrap_or_default(),
        }
    }

    /// Whether a replica without a mark already is what the root defines, strategy aside.
    pub(crate) fn is_as_defined(
        &mut self,
        cluster: &ClusterName,
        replica: &Policy,
        override_action: Option<RemediationAction>,
    ) -> bool {
        let (wanted, _) = self.spec(cluster, Stage::Final, override_action);
        let rest = |spec: &PolicySpec| v1::PolicySpec {
            rollout_strategy: None,
            ..spec.wire().clone()
        };
        rest(&wanted) == rest(&replica.spec)
    }

    fn spec(
        &mut self,
        cluster: &ClusterName,
        stage: Stage,
        override_action: Option<RemediationAction>,
    ) -> (Arc<PolicySpec>, Vec<String>) {
        let action = match stage {
            Stage::Wait => Some(RemediationAction::InformLowercase),
            // An override never lowers, and leaves an enforcing policy as it is spelled.
            Stage::Final if self.base.action == Some(Action::Enforce) => None,
            Stage::Final => override_action,
        };
        let shared = self.specs.entry(action).or_insert_with(|| {
            let mut wire = self.base.wire().clone();
            if action.is_some() {
                wire.remediation_action = action;
            }
            Arc::new(PolicySpec::from(wire))
        });
        if self.has_hub_templates {
            resolve(self.templates, cluster, shared)
        } else {
            (Arc::clone(shared), Vec::new())
        }
    }
}

fn with_canonical_dependencies(root: &Policy, sets: &[PolicySet]) -> PolicySpec {
    let rewritten = |dependencies: &[Dependency]| {
        let canonical = canonical(dependencies, &root.namespace, sets);
        canonical.iter().map(v1::PolicyDependency::from).collect()
    };
    let mut wire = root.spec.wire().clone();
    wire.dependencies = rewritten(&root.spec.dependencies);
    for (written, template) in wire.policy_templates.iter_mut().zip(&root.spec.templates) {
        written.extra_dependencies = rewritten(&template.extra_dependencies);
    }
    wire.into()
}

/// The spec with its hub templates resolved. A definition whose templates fail is kept and gets the error as annotation.
fn resolve(
    templates: &dyn HubTemplates,
    cluster: &ClusterName,
    shared: &PolicySpec,
) -> (Arc<PolicySpec>, Vec<String>) {
    let mut wire = shared.wire().clone();
    let mut errors = Vec::new();
    for template in &mut wire.policy_templates {
        let definition = &mut template.object_definition;
        if !templates.concerns(definition) {
            continue;
        }
        match templates.resolve(cluster, definition) {
            Ok(resolved) => *definition = resolved,
            Err(error) => {
                annotate_error(definition, &error);
                errors.push(error);
            }
        }
    }
    (Arc::new(wire.into()), errors)
}

fn annotate_error(definition: &mut Map<String, Value>, error: &str) {
    let metadata = definition.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(names::HUB_TEMPLATES_ERROR.to_owned(), json!(error));
    }
}

#[cfg(test)]
mod tests;
