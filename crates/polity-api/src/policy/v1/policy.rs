//! Policy: templates to apply on clusters, what they wait for, and how they are rolled out.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::common::{RemediationAction, any_object};
use super::status::PolicyStatus;
use crate::cluster::v1alpha1::RolloutStrategy;

/// A set of templates that clusters are held to.
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
    doc = "A set of templates that clusters are held to."
)]
#[serde(rename_all = "camelCase")]
pub struct PolicySpec {
    /// Whether the policy is taken off every cluster.
    pub disabled: bool,

    /// What happens about what does not comply: `inform` reports, `enforce` mends. When set it replaces the action
    /// of every template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation_action: Option<RemediationAction>,

    /// The objects to apply on each cluster.
    #[serde(rename = "policy-templates")]
    pub policy_templates: Vec<PolicyTemplate>,

    /// Objects that must be in a given state on the cluster before any template is applied there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<PolicyDependency>,

    /// Whether labels and annotations of the policy reach the clusters. False leaves only those of the policy group.
    /// True when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_policy_metadata: Option<bool>,

    /// How templates between `{{hub` and `hub}}` are resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub_template_options: Option<HubTemplateOptions>,

    /// In which order an enforcing policy starts to enforce on its clusters. All at once when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout_strategy: Option<RolloutStrategy>,
}

/// One object to apply on each cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyTemplate {
    /// The object, of a kind that may be a template: ConfigurationPolicy, OperatorPolicy, CertificatePolicy, an
    /// admission policy, a Gatekeeper constraint.
    #[schemars(schema_with = "any_object")]
    pub object_definition: Map<String, Value>,

    /// What this template waits for besides the dependencies of the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_dependencies: Vec<PolicyDependency>,

    /// Whether the template counts as compliant while it waits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_pending: bool,
}

/// An object that must be in a given state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyDependency {
    /// Group and version of the object. When absent it follows from the kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,

    /// The kind of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,

    /// The name of the object.
    pub name: String,

    /// The namespace of the object. Not for ConfigurationPolicy and CertificatePolicy, which live in the namespace
    /// of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// The compliance that the object must have.
    pub compliance: ComplianceState,
}

/// How far something is as its policy wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ComplianceState {
    Compliant,
    Pending,
    NonCompliant,
}

/// How hub templates are resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubTemplateOptions {
    /// A service account in the namespace of the policy; what it may list and watch is what templates can read.
    /// Without one they read only the namespace of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
}
