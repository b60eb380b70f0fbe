//! OperatorPolicy: an operator that a cluster must have installed, or must not.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::policy::v1::{
    HistoryMessage, ObjectCondition, RelatedObject, RemediationAction, Severity, any_object,
};

/// OperatorPolicy requires that an operator is installed or not installed on a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policy.open-cluster-management.io",
    version = "v1beta1",
    kind = "OperatorPolicy",
    plural = "operatorpolicies",
    namespaced,
    status = "OperatorPolicyStatus",
    derive = "PartialEq",
    doc = "OperatorPolicy requires that an operator is installed or not installed on a cluster."
)]
#[serde(rename_all = "camelCase")]
pub struct OperatorPolicySpec {
    /// Severity of a violation. Informational.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,

    /// Whether violations are only reported (`inform`) or also corrected (`enforce`).
    #[serde(default = "inform")]
    pub remediation_action: RemediationAction,

    /// Whether the operator must be installed (`musthave`) or must not be installed (`mustnothave`).
    pub compliance_type: OperatorComplianceType,

    /// Subscription of the operator: name, namespace and the fields of its spec.
    #[schemars(schema_with = "any_object")]
    pub subscription: Map<String, Value>,

    /// OperatorGroup of the operator. If not set, a default OperatorGroup is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub operator_group: Option<Map<String, Value>>,

    /// Versions that may be installed. If empty, all versions are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,

    /// Whether upgrades to allowed versions are approved automatically.
    pub upgrade_approval: UpgradeApproval,

    /// Which objects are deleted when the operator must not be installed.
    #[serde(default)]
    pub removal_behavior: RemovalBehavior,

    /// Which conditions make the policy noncompliant.
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

/// Whether upgrades are approved automatically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeApproval {
    None,
    Automatic,
}

/// Which objects are deleted with an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RemovalBehavior {
    /// Whether the OperatorGroup is deleted.
    pub operator_groups: OperatorGroupRemoval,

    /// Whether the Subscription is deleted.
    pub subscriptions: KeepOrDelete,

    /// Whether the ClusterServiceVersion is deleted.
    pub cluster_service_versions: KeepOrDelete,

    /// Whether the CustomResourceDefinitions of the operator are deleted, and with them all objects of these kinds.
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

/// Whether an object is kept or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KeepOrDelete {
    Keep,
    Delete,
}

/// Whether an OperatorGroup is kept or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OperatorGroupRemoval {
    Keep,
    DeleteIfUnused,
}

/// Which conditions make a policy noncompliant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComplianceConfig {
    /// Effect of an unhealthy catalog source.
    pub catalog_source_unhealthy: ComplianceOutcome,

    /// Effect of unavailable Deployments of the operator.
    pub deployments_unavailable: ComplianceOutcome,

    /// Effect of an upgrade that waits for approval.
    pub upgrades_available: ComplianceOutcome,

    /// Effect of a deprecated package, channel or version.
    pub deprecations_present: ComplianceOutcome,

    /// Effect of a newer minor channel.
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

/// Effect of a condition on the compliance of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ComplianceOutcome {
    Compliant,
    NonCompliant,
}

/// Observed state of an OperatorPolicy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorPolicyStatus {
    /// Compliance state: `Compliant` or `NonCompliant`. Not set while the state is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// Generation of the policy at the last evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// One condition for each kind of object, and `Compliant` as their summary.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ObjectCondition>,

    /// Objects that were evaluated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_objects: Vec<RelatedObject>,

    /// Label that identifies the objects of this operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_subscription_label: Option<String>,

    /// Other policies for the same operator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overlapping_policies: Vec<String>,

    /// Time after which the controller may repair the Subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_intervention_time: Option<String>,

    /// Most recent compliance messages, newest first, at most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryMessage>,
}

fn inform() -> RemediationAction {
    RemediationAction::InformLowercase
}
