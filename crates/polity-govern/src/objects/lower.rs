//! From the wire types of `polity-api` to the objects of the engine, and back.
//!
//! A managed cluster writes the status of its replicas, so it is not trusted: unknown values are dropped, and the number
//! of templates, the length of histories and the length of messages are limited.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use polity_api::apps::v1::PlacementRule;
use polity_api::policy::{v1, v1beta1};
use polity_core::ClusterName;
use polity_core::governance::{Compliance, names};
use polity_core::rollout_strategy::{RolloutStatus, RolloutStrategy};
use polity_rollout::DecisionGroups;
use serde_json::Value;

use super::{
    Binding, ClusterStatus, Dependency, Exclusion, HistoryEntry, PlacementKind, PlacementRef,
    PlacementStatus, Policy, PolicySet, PolicySpec, PolicyStatus, PolicyTemplate, Subject,
    SubjectKind, TemplateStatus,
};
use crate::place::Decisions;
use crate::sets::SetStatus;

/// The namespace of a manifest that names none.
const DEFAULT_NAMESPACE: &str = "default";
/// The most entries of a history that are read.
const MAX_HISTORY: usize = 10;
/// The most characters of a message that are read.
pub(crate) const MAX_MESSAGE: usize = 4096;

impl From<&v1::Policy> for Policy {
    fn from(policy: &v1::Policy) -> Self {
        let n_templates = policy.spec.policy_templates.len();
        Self {
            namespace: namespace(&policy.metadata),
            name: name(&policy.metadata),
            uid: policy.metadata.uid.clone().unwrap_or_default(),
            resource_version: policy.metadata.resource_version.clone().unwrap_or_default(),
            labels: policy.metadata.labels.clone().unwrap_or_default(),
            annotations: policy.metadata.annotations.clone().unwrap_or_default(),
            spec: Arc::new(PolicySpec::from(policy.spec.clone())),
            status: policy
                .status
                .as_ref()
                .map(|found| status(found, n_templates))
                .unwrap_or_default(),
        }
    }
}

/// The policy as it is written: metadata and spec. The status is written apart.
impl From<&Policy> for v1::Policy {
    fn from(policy: &Policy) -> Self {
        let given = |text: &String| (!text.is_empty()).then(|| text.clone());
        let mut written = Self::new(&policy.name, policy.spec.wire.clone());
        written.metadata = ObjectMeta {
            namespace: Some(policy.namespace.clone()),
            uid: given(&policy.uid),
            resource_version: given(&policy.resource_version),
            labels: (!policy.labels.is_empty()).then(|| policy.labels.clone()),
            annotations: (!policy.annotations.is_empty()).then(|| policy.annotations.clone()),
            ..written.metadata
        };
        written
    }
}

impl From<v1::PolicySpec> for PolicySpec {
    fn from(wire: v1::PolicySpec) -> Self {
        let spec = &wire;
        let account = spec.hub_template_options.as_ref();
        Self {
            disabled: spec.disabled,
            action: spec.remediation_action.map(v1::RemediationAction::action),
            templates: spec.policy_templates.iter().map(Into::into).collect(),
            dependencies: spec.dependencies.iter().map(Into::into).collect(),
            copy_metadata: spec.copy_policy_metadata.unwrap_or(true),
            template_account: account.and_then(|options| options.service_account_name.clone()),
            rollout_strategy: spec
                .rollout_strategy
                .as_ref()
                .map(RolloutStrategy::try_from),
            wire,
        }
    }
}

impl From<&v1::PolicyTemplate> for PolicyTemplate {
    fn from(template: &v1::PolicyTemplate) -> Self {
        Self {
            definition: Value::Object(template.object_definition.clone()),
            extra_dependencies: template.extra_dependencies.iter().map(Into::into).collect(),
            ignore_pending: template.ignore_pending,
        }
    }
}

impl From<&v1::PolicyDependency> for Dependency {
    fn from(dependency: &v1::PolicyDependency) -> Self {
        let given = Some(dependency.api_version.clone()).filter(|text| !text.is_empty());
        Self {
            api_version: given
                .unwrap_or_else(|| Self::default_api_version(&dependency.kind).to_owned()),
            kind: dependency.kind.clone(),
            name: dependency.name.clone(),
            namespace: dependency.namespace.clone().filter(|text| !text.is_empty()),
            compliance: match dependency.compliance {
                v1::ComplianceState::Compliant => Compliance::Compliant,
                v1::ComplianceState::NonCompliant => Compliance::NonCompliant,
                v1::ComplianceState::Pending => Compliance::Pending,
            },
        }
    }
}

impl From<&Dependency> for v1::PolicyDependency {
    fn from(dependency: &Dependency) -> Self {
        Self {
            api_version: dependency.api_version.clone(),
            kind: dependency.kind.clone(),
            name: dependency.name.clone(),
            namespace: dependency.namespace.clone(),
            compliance: match dependency.compliance {
                Compliance::Compliant => v1::ComplianceState::Compliant,
                Compliance::NonCompliant => v1::ComplianceState::NonCompliant,
                Compliance::Pending => v1::ComplianceState::Pending,
            },
        }
    }
}

fn status(status: &v1::PolicyStatus, n_templates: usize) -> PolicyStatus {
    PolicyStatus {
        compliant: compliance(status.compliant.as_deref()),
        rollout_status: status
            .rollout_status
            .as_deref()
            .and_then(RolloutStatus::parse),
        placement: status.placement.iter().map(placement).collect(),
        clusters: status.status.iter().filter_map(cluster).collect(),
        details: status
            .details
            .iter()
            .take(n_templates)
            .map(details)
            .collect(),
        rollout_step: status.rollout_step.clone().filter(|step| !step.is_empty()),
    }
}

fn placement(placement: &v1::PolicyPlacement) -> PlacementStatus {
    let excluded = placement.exclusions.iter();
    PlacementStatus {
        binding: placement.placement_binding.clone().unwrap_or_default(),
        placement: placement.placement.clone(),
        placement_rule: placement.placement_rule.clone(),
        policy_set: placement.policy_set.clone(),
        exclusions: excluded
            .map(|exclusion| ClusterName::from(exclusion.cluster_name.as_str()))
            .collect(),
    }
}

fn cluster(cluster: &v1::ClusterCompliance) -> Option<ClusterStatus> {
    let bindings = cluster.remaining_bindings.iter();
    Some(ClusterStatus {
        cluster: ClusterName::from(cluster.cluster_name.as_deref()?),
        compliant: compliance(cluster.compliant.as_deref()),
        rollout_status: cluster
            .rollout_status
            .as_deref()
            .and_then(RolloutStatus::parse),
        remaining_bindings: bindings
            .map(|binding| binding.placement_binding.clone())
            .collect(),
    })
}

fn details(details: &v1::DetailsPerTemplate) -> TemplateStatus {
    let entries = details.history.iter().take(MAX_HISTORY);
    TemplateStatus {
        name: details.template_meta.name.clone(),
        compliant: compliance(details.compliant.as_deref()),
        history: entries
            .map(|entry| HistoryEntry {
                event_name: entry.event_name.clone(),
                at: entry
                    .last_timestamp
                    .as_deref()
                    .and_then(|text| text.parse::<Timestamp>().ok()),
                message: entry.message.chars().take(MAX_MESSAGE).collect(),
            })
            .collect(),
    }
}

fn compliance(text: Option<&str>) -> Option<Compliance> {
    Compliance::parse(text?)
}

/// The status of a root policy as it is written.
impl From<&PolicyStatus> for v1::PolicyStatus {
    fn from(status: &PolicyStatus) -> Self {
        let text = |compliance: Compliance| compliance.as_str().to_owned();
        Self {
            compliant: status.compliant.map(text),
            rollout_status: status
                .rollout_status
                .map(|status| status.as_str().to_owned()),
            placement: status.placement.iter().map(wire_placement).collect(),
            status: status.clusters.iter().map(wire_cluster).collect(),
            details: status.details.iter().map(wire_details).collect(),
            rollout_step: status.rollout_step.clone(),
            rollout_last_transition_time: None,
        }
    }
}

fn wire_placement(placement: &PlacementStatus) -> v1::PolicyPlacement {
    let excluded = placement.exclusions.iter();
    v1::PolicyPlacement {
        placement_binding: Some(placement.binding.clone()),
        placement: placement.placement.clone(),
        placement_rule: placement.placement_rule.clone(),
        policy_set: placement.policy_set.clone(),
        exclusions: excluded
            .map(|cluster| v1::ClusterExclusion {
                cluster_name: cluster.to_string(),
            })
            .collect(),
        decisions: Vec::new(),
    }
}

fn wire_cluster(cluster: &ClusterStatus) -> v1::ClusterCompliance {
    let bindings = cluster.remaining_bindings.iter();
    v1::ClusterCompliance {
        cluster_name: Some(cluster.cluster.to_string()),
        cluster_namespace: Some(cluster.cluster.to_string()),
        compliant: cluster
            .compliant
            .map(|compliance| compliance.as_str().to_owned()),
        rollout_status: cluster
            .rollout_status
            .map(|status| status.as_str().to_owned()),
        remaining_bindings: bindings
            .map(|binding| v1::RemainingBinding {
                placement_binding: binding.clone(),
            })
            .collect(),
    }
}

fn wire_details(details: &TemplateStatus) -> v1::DetailsPerTemplate {
    v1::DetailsPerTemplate {
        template_meta: v1::TemplateMeta {
            name: details.name.clone(),
            creation_timestamp: None,
        },
        compliant: details
            .compliant
            .map(|compliance| compliance.as_str().to_owned()),
        history: details
            .history
            .iter()
            .map(|entry| v1::ComplianceHistory {
                event_name: entry.event_name.clone(),
                last_timestamp: entry.at.map(|at| at.to_string()),
                message: entry.message.clone(),
            })
            .collect(),
    }
}

impl From<&v1::PlacementBinding> for Binding {
    fn from(binding: &v1::PlacementBinding) -> Self {
        let v1::PlacementBindingFields {
            placement_ref,
            subjects,
            binding_overrides,
            sub_filter,
            status: _,
        } = &binding.fields;
        Self {
            namespace: namespace(&binding.metadata),
            name: name(&binding.metadata),
            placement: placement_reference(placement_ref),
            subjects: subjects.iter().filter_map(subject).collect(),
            override_action: binding_overrides
                .remediation_action
                .map(|action| match action {
                    v1::OverrideAction::Enforce => v1::RemediationAction::Enforce,
                    v1::OverrideAction::EnforceLowercase => v1::RemediationAction::EnforceLowercase,
                }),
            restricted: sub_filter.is_some(),
        }
    }
}

fn placement_reference(found: &v1::PlacementSubject) -> Option<PlacementRef> {
    let kind = match (found.api_group.as_str(), found.kind.as_str()) {
        (names::CLUSTER_GROUP, "Placement") => PlacementKind::Placement,
        (names::APPS_GROUP, "PlacementRule") => PlacementKind::PlacementRule,
        _ => return None,
    };
    Some(PlacementRef {
        name: found.name.clone(),
        kind,
    })
}

fn subject(found: &v1::Subject) -> Option<Subject> {
    let kind = match (found.api_group.as_str(), found.kind.as_str()) {
        (names::GROUP, "Policy") => SubjectKind::Policy,
        (names::GROUP, "PolicySet") => SubjectKind::PolicySet,
        _ => return None,
    };
    Some(Subject {
        kind,
        name: found.name.clone(),
    })
}

impl From<&v1beta1::PolicySet> for PolicySet {
    fn from(set: &v1beta1::PolicySet) -> Self {
        let exclusions = set.spec.exclusions.iter();
        Self {
            namespace: namespace(&set.metadata),
            name: name(&set.metadata),
            policies: set.spec.policies.clone(),
            exclusions: exclusions
                .map(|exclusion| Exclusion {
                    policy: exclusion.policy_name.clone(),
                    clusters: exclusion
                        .cluster_names
                        .iter()
                        .map(|name| ClusterName::from(name.as_str()))
                        .collect(),
                })
                .collect(),
        }
    }
}

/// The clusters that a PlacementRule selected, as one group.
impl From<&PlacementRule> for Decisions {
    fn from(rule: &PlacementRule) -> Self {
        let decided = rule.status.iter().flat_map(|status| &status.decisions);
        Self {
            namespace: namespace(&rule.metadata),
            placement: PlacementRef {
                name: name(&rule.metadata),
                kind: PlacementKind::PlacementRule,
            },
            groups: DecisionGroups::single(decided.map(|decision| decision.cluster_name.as_str())),
            settled: true,
        }
    }
}

/// The status of a policy set as it is written.
impl From<&SetStatus> for v1beta1::PolicySetStatus {
    fn from(status: &SetStatus) -> Self {
        let placements = status.placement.iter();
        let exclusions = status.exclusions.iter();
        Self {
            compliant: status.compliant.map(|state| state.as_str().to_owned()),
            status_message: (!status.message.is_empty()).then(|| status.message.clone()),
            placement: placements
                .map(|placement| v1beta1::PolicySetPlacement {
                    placement_binding: Some(placement.binding.clone()),
                    placement: placement.placement.clone(),
                    placement_rule: placement.placement_rule.clone(),
                })
                .collect(),
            exclusions: exclusions
                .map(|(policy_name, clusters)| v1beta1::ExcludedClusters {
                    policy_name: policy_name.clone(),
                    clusters: clusters.iter().map(ToString::to_string).collect(),
                })
                .collect(),
        }
    }
}

fn namespace(metadata: &ObjectMeta) -> String {
    let given = metadata
        .namespace
        .as_deref()
        .filter(|text| !text.is_empty());
    given.unwrap_or(DEFAULT_NAMESPACE).to_owned()
}

fn name(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use polity_api::decode;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_binding_has_no_spec() {
        let binding: v1::PlacementBinding = decode(&json!({
            "apiVersion": "policy.open-cluster-management.io/v1",
            "kind": "PlacementBinding",
            "metadata": {"name": "b", "namespace": "policies"},
            "placementRef": {"apiGroup": "cluster.open-cluster-management.io", "kind": "Placement", "name": "pl"},
            "subjects": [{"apiGroup": "policy.open-cluster-management.io", "kind": "Policy", "name": "p"}],
            "bindingOverrides": {"remediationAction": "enforce"},
            "subFilter": "restricted",
        }))
        .unwrap();
        let lowered = Binding::from(&binding);
        assert!(lowered.restricted && lowered.enforces());
        assert_eq!(lowered.placement.unwrap().name, "pl");
        let back = serde_json::to_value(&binding).unwrap();
        assert_eq!(back["subjects"][0]["name"], "p");
        assert!(back.get("spec").is_none());
    }

    #[test]
    fn other_pairs_of_group_and_kind_select_nothing() {
        let binding: v1::PlacementBinding = decode(&json!({
            "metadata": {"name": "b"},
            "placementRef": {"apiGroup": "apps.open-cluster-management.io", "kind": "Placement", "name": "pl"},
            "subjects": [{"apiGroup": "v1", "kind": "Policy", "name": "p"}],
        }))
        .unwrap();
        let lowered = Binding::from(&binding);
        assert_eq!((lowered.placement, lowered.subjects), (None, vec![]));
    }

    #[test]
    fn the_status_of_a_policy_set_is_written() {
        let status = SetStatus {
            compliant: Some(Compliance::NonCompliant),
            message: "Disabled policies: p".to_owned(),
            placement: vec![crate::sets::SetPlacement {
                binding: "b".to_owned(),
                placement: Some("pl".to_owned()),
                placement_rule: None,
            }],
            exclusions: vec![("p".to_owned(), vec![ClusterName::from("c1")])],
            missing: vec!["q".to_owned()],
        };
        assert_eq!(
            json!(v1beta1::PolicySetStatus::from(&status)),
            json!({
                "compliant": "NonCompliant",
                "statusMessage": "Disabled policies: p",
                "placement": [{"placementBinding": "b", "placement": "pl"}],
                "exclusions": [{"policyName": "p", "clusters": ["c1"]}],
            })
        );
    }

    #[test]
    fn a_policy_is_written_as_it_was_read() {
        let document = json!({
            "apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy",
            "metadata": {
                "name": "p", "namespace": "policies", "uid": "u", "resourceVersion": "7",
                "labels": {"a": "b"}, "annotations": {"c": "d"},
            },
            "spec": {
                "disabled": true, "remediationAction": "Enforce", "copyPolicyMetadata": true,
                "hubTemplateOptions": {},
                "dependencies": [{"kind": "Policy", "name": "q", "compliance": "Pending"}],
                "policy-templates": [{
                    "objectDefinition": {"any": ["thing"]}, "ignorePending": true,
                    "extraDependencies": [
                        {"apiVersion": "v1", "kind": "K", "name": "r", "namespace": "n", "compliance": "Compliant"},
                    ],
                }],
                "rolloutStrategy": {"type": "Unknown"},
            },
        });
        let wire: v1::Policy = decode(&document).unwrap();
        assert_eq!(json!(v1::Policy::from(&Policy::from(&wire))), document);
    }
}
