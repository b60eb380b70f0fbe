//! OperatorPolicy: an operator that a cluster must have installed, or must not.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::policy::v1::{
    HistoryMessage, ObjectCondition, RelatedObject, RemediationAction, Severity, any_object,
};

/// An operator that a cluster must have installed, or must not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policy.open-cluster-management.io",
    version = "v1beta1",
    kind = "OperatorPolicy",
    plural = "operatorpolicies",
    namespaced,
    status = "OperatorPolicyStatus",
    derive = "PartialEq",
    doc = "An operator that a cluster must have installed, or must not."
)]
#[serde(rename_all = "camelCase")]
pub struct OperatorPolicySpec {
    /// How bad a violation is, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,

    /// What happens about what does not comply: `inform` reports, `enforce` mends.
    #[serde(default = "inform")]
    pub remediation_action: RemediationAction,

    /// Whether the operator must be installed.
    pub compliance_type: OperatorComplianceType,

    /// The Subscription: name, namespace and the fields of its spec.
    #[schemars(schema_with = "any_object")]
    pub subscription: Map<String, Value>,

    /// The OperatorGroup, when one must be there that is not made by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub operator_group: Option<Map<String, Value>>,

    /// Versions that may be installed; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,

    /// Whether an upgrade within the allowed versions is approved.
    pub upgrade_approval: UpgradeApproval,

    /// What is removed when the operator must not be installed.
    #[serde(default)]
    pub removal_behavior: RemovalBehavior,

    /// Which conditions count as violations.
    #[serde(default)]
    pub compliance_config: ComplianceConfig,
}

/// Whether an operator must be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OperatorComplianceType {
    Musthave,
    Mustnothave,
}

/// Whether an upgrade is approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeApproval {
    None,
    Automatic,
}

/// What is removed with an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RemovalBehavior {
    /// OperatorGroups.
    pub operator_groups: OperatorGroupRemoval,

    /// Subscriptions.
    pub subscriptions: KeepOrDelete,

    /// Installed versions.
    pub cluster_service_versions: KeepOrDelete,

    /// The kinds the operator brought, and with them every object of these kinds.
    pub custom_resource_definitions: KeepOrDelete,
}

impl Default for RemovalBehavior {
    fn default() -> Self {
        Self {
            operator_groups: OperatorGroupRemoval::DeleteIfUnused,
            subscriptions: KeepOrDelete::Delete,
            cluster_service_versions: KeepOrDelete::Delete,
            custom_resource_definitions: KeepOrDelete::Keep,
        }
    }
}

/// Whether something stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KeepOrDelete {
    Keep,
    Delete,
}

/// Whether an OperatorGroup stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OperatorGroupRemoval {
    Keep,
    DeleteIfUnused,
}

/// Which conditions count as violations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComplianceConfig {
    /// The catalog does not answer.
    pub catalog_source_unhealthy: ComplianceOutcome,

    /// Deployments of the operator are not available.
    pub deployments_unavailable: ComplianceOutcome,

    /// An upgrade waits for approval.
    pub upgrades_available: ComplianceOutcome,

    /// The package, channel or version is deprecated.
    pub deprecations_present: ComplianceOutcome,

    /// A newer minor channel exists.
    pub minor_channel_upgrade_available: ComplianceOutcome,
}

impl Default for ComplianceConfig {
    fn default() -> Self {
        Self {
            catalog_source_unhealthy: ComplianceOutcome::Compliant,
            deployments_unavailable: ComplianceOutcome::NonCompliant,
            upgrades_available: ComplianceOutcome::Compliant,
            deprecations_present: ComplianceOutcome::Compliant,
            minor_channel_upgrade_available: ComplianceOutcome::Compliant,
        }
    }
}

/// What a condition makes of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ComplianceOutcome {
    Compliant,
    NonCompliant,
}

/// What became of an OperatorPolicy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorPolicyStatus {
    /// `Compliant` or `NonCompliant`; absent while it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// The generation that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// What was found, one condition for each kind of object and `Compliant` over all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ObjectCondition>,

    /// Every object that was looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_objects: Vec<RelatedObject>,

    /// The label by which the objects of this operator are found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_subscription_label: Option<String>,

    /// Other policies about the same operator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overlapping_policies: Vec<String>,

    /// When the subscription may be repaired by hand of the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_intervention_time: Option<String>,

    /// What was reported, newest first, at most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryMessage>,
}

fn inform() -> RemediationAction {
    RemediationAction::InformLowercase
}
