//! From manifests to the values that engines decide by.
//!
//! A replica's status is foreign input: whatever a cluster wrote there, what comes out is bounded and known.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use polity_core::ClusterName;
use polity_core::governance as plain;
use polity_core::governance::names;
use polity_core::rollout_strategy::{RolloutStatus, RolloutStrategy};
use serde_json::Value;

use super::{v1, v1beta1};

/// The namespace of a manifest that names none.
const DEFAULT_NAMESPACE: &str = "default";
/// The most entries of a history that are read.
const MAX_HISTORY: usize = 10;
/// The most characters of a message that are read.
const MAX_MESSAGE: usize = 4096;

impl From<&v1::Policy> for plain::Policy {
    fn from(policy: &v1::Policy) -> Self {
        let n_templates = policy.spec.policy_templates.len();
        Self {
            namespace: namespace(&policy.metadata),
            name: name(&policy.metadata),
            uid: policy.metadata.uid.clone().unwrap_or_default(),
            resource_version: policy.metadata.resource_version.clone().unwrap_or_default(),
            labels: policy.metadata.labels.clone().unwrap_or_default(),
            annotations: policy.metadata.annotations.clone().unwrap_or_default(),
            spec: Arc::new(plain::PolicySpec::from(&policy.spec)),
            status: policy
                .status
                .as_ref()
                .map(|found| status(found, n_templates))
                .unwrap_or_default(),
        }
    }
}

impl From<&v1::PolicySpec> for plain::PolicySpec {
    fn from(spec: &v1::PolicySpec) -> Self {
        let Ok(Value::Object(document)) = serde_json::to_value(spec) else {
            unreachable!("a spec is plain data with text keys")
        };
        let account = spec.hub_template_options.as_ref();
        Self {
            document,
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
        }
    }
}

impl From<&v1::PolicyTemplate> for plain::PolicyTemplate {
    fn from(template: &v1::PolicyTemplate) -> Self {
        Self {
            definition: Value::Object(template.object_definition.clone()),
            extra_dependencies: template.extra_dependencies.iter().map(Into::into).collect(),
            ignore_pending: template.ignore_pending,
        }
    }
}

impl From<&v1::PolicyDependency> for plain::Dependency {
    fn from(dependency: &v1::PolicyDependency) -> Self {
        let given = Some(dependency.api_version.clone()).filter(|text| !text.is_empty());
        Self {
            api_version: given
                .unwrap_or_else(|| Self::default_api_version(&dependency.kind).to_owned()),
            kind: dependency.kind.clone(),
            name: dependency.name.clone(),
            namespace: dependency.namespace.clone().filter(|text| !text.is_empty()),
            compliance: match dependency.compliance {
                v1::ComplianceState::Compliant => plain::Compliance::Compliant,
                v1::ComplianceState::NonCompliant => plain::Compliance::NonCompliant,
                v1::ComplianceState::Pending => plain::Compliance::Pending,
            },
        }
    }
}

fn status(status: &v1::PolicyStatus, n_templates: usize) -> plain::PolicyStatus {
    plain::PolicyStatus {
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

fn placement(placement: &v1::PolicyPlacement) -> plain::PlacementStatus {
    let excluded = placement.exclusions.iter();
    plain::PlacementStatus {
        binding: placement.placement_binding.clone().unwrap_or_default(),
        placement: placement.placement.clone(),
        placement_rule: placement.placement_rule.clone(),
        policy_set: placement.policy_set.clone(),
        exclusions: excluded
            .map(|exclusion| ClusterName::from(exclusion.cluster_name.as_str()))
            .collect(),
    }
}

fn cluster(cluster: &v1::ClusterCompliance) -> Option<plain::ClusterStatus> {
    let bindings = cluster.remaining_bindings.iter();
    Some(plain::ClusterStatus {
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

fn details(details: &v1::DetailsPerTemplate) -> plain::TemplateStatus {
    let entries = details.history.iter().take(MAX_HISTORY);
    plain::TemplateStatus {
        name: details.template_meta.name.clone(),
        compliant: compliance(details.compliant.as_deref()),
        history: entries
            .map(|entry| plain::HistoryEntry {
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

fn compliance(text: Option<&str>) -> Option<plain::Compliance> {
    plain::Compliance::parse(text?)
}

/// The status of a root policy as it is written.
impl From<&plain::PolicyStatus> for v1::PolicyStatus {
    fn from(status: &plain::PolicyStatus) -> Self {
        let text = |compliance: plain::Compliance| compliance.as_str().to_owned();
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

fn wire_placement(placement: &plain::PlacementStatus) -> v1::PolicyPlacement {
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

fn wire_cluster(cluster: &plain::ClusterStatus) -> v1::ClusterCompliance {
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

fn wire_details(details: &plain::TemplateStatus) -> v1::DetailsPerTemplate {
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

impl From<&v1::PlacementBinding> for plain::Binding {
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
            override_action: binding_overrides.remediation_action.map(|action| {
                let text = match action {
                    v1::OverrideAction::Enforce => "Enforce",
                    v1::OverrideAction::EnforceLowercase => "enforce",
                };
                text.to_owned()
            }),
            restricted: sub_filter.is_some(),
        }
    }
}

fn placement_reference(found: &v1::PlacementSubject) -> Option<plain::PlacementRef> {
    let kind = match (found.api_group.as_str(), found.kind.as_str()) {
        (names::CLUSTER_GROUP, "Placement") => plain::PlacementKind::Placement,
        (names::APPS_GROUP, "PlacementRule") => plain::PlacementKind::PlacementRule,
        _ => return None,
    };
    Some(plain::PlacementRef {
        name: found.name.clone(),
        kind,
    })
}

fn subject(found: &v1::Subject) -> Option<plain::Subject> {
    let kind = match (found.api_group.as_str(), found.kind.as_str()) {
        (names::GROUP, "Policy") => plain::SubjectKind::Policy,
        (names::GROUP, "PolicySet") => plain::SubjectKind::PolicySet,
        _ => return None,
    };
    Some(plain::Subject {
        kind,
        name: found.name.clone(),
    })
}

impl From<&v1beta1::PolicySet> for plain::PolicySet {
    fn from(set: &v1beta1::PolicySet) -> Self {
        let exclusions = set.spec.exclusions.iter();
        Self {
            namespace: namespace(&set.metadata),
            name: name(&set.metadata),
            policies: set.spec.policies.clone(),
            exclusions: exclusions
                .map(|exclusion| plain::Exclusion {
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
