//! Policy: templates to apply on clusters, what they wait for, and how they are rolled out.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::common::{RemediationAction, any_object};
use super::status::PolicyStatus;
use crate::cluster::v1alpha1::RolloutStrategy;

/// Policy distributes policy templates to clusters and collects their compliance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policy.open-cluster-management.io",
    version = "v1",
    kind = "Policy",
    plural = "policies",
    shortname = "plc",
    namespaced,
    status = "PolicyStatus",
    derive = "PartialEq",
    doc = "Policy distributes policy templates to clusters and collects their compliance."
)]
#[serde(rename_all = "camelCase")]
pub struct PolicySpec {
    /// Whether the policy is removed from all clusters.
    pub disabled: bool,

    /// Whether violations are only reported (`inform`) or also corrected (`enforce`). If set, it overrides the
    /// `remediationAction` of every template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation_action: Option<RemediationAction>,

    /// Objects to apply on each cluster.
    #[serde(rename = "policy-templates")]
    pub policy_templates: Vec<PolicyTemplate>,

    /// Objects that must have a given compliance state on a cluster before any template is applied there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<PolicyDependency>,

    /// Whether labels and annotations of the policy are copied to the clusters. If false, only those with the prefix
    /// `policy.open-cluster-management.io/` are copied. Defaults to true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_policy_metadata: Option<bool>,

    /// Options for resolving templates between `{{hub` and `hub}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub_template_options: Option<HubTemplateOptions>,

    /// Order in which clusters start to enforce the policy. If not set, all clusters start at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout_strategy: Option<RolloutStrategy>,
}

/// An object to apply on each cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyTemplate {
    /// The object: a ConfigurationPolicy, OperatorPolicy, CertificatePolicy, admission policy, Gatekeeper constraint,
    /// or another kind whose CustomResourceDefinition is labelled as a policy template.
    #[schemars(schema_with = "any_object")]
    pub object_definition: Map<String, Value>,

    /// Dependencies of this template in addition to the dependencies of the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_dependencies: Vec<PolicyDependency>,

    /// Whether the template counts as compliant while its dependencies are not met.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_pending: bool,
}

/// An object that must have a given compliance state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyDependency {
    /// API group and version of the object. If not set, it is derived from the kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,

    /// Kind of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,

    /// Name of the object.
    pub name: String,

    /// Namespace of the object. Must not be set for ConfigurationPolicy and CertificatePolicy, which are in the
    /// namespace of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// Required compliance state of the object.
    pub compliance: ComplianceState,
}

/// Compliance state of a policy or object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ComplianceState {
    Compliant,
    Pending,
    NonCompliant,
}

/// Options for resolving hub templates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubTemplateOptions {
    /// ServiceAccount in the namespace of the policy with which hub templates read objects; it needs list and watch
    /// permissions. If not set, hub templates can read only the namespace of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
}
