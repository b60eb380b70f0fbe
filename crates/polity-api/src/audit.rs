//! `polity.dev/v1alpha1`: that the audit of a policy is through, and with what result.
//!
//! Reports are cut by namespace and vanish when they are empty, so they cannot say "done". This can.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reports::Summary;

/// How many failing resources a summary names at most.
pub const FAILING_NAMED: usize = 5;

/// AuditSummary reports the progress and the results of the audit of one policy. Its name is the unique name of the
/// policy. It has only a status.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "polity.dev",
    version = "v1alpha1",
    kind = "AuditSummary",
    plural = "auditsummaries",
    category = "polity",
    no_spec,
    status = "AuditSummaryStatus",
    derive = "PartialEq",
    doc = "AuditSummary reports the progress and the results of the audit of one policy. Its name is the unique name of the policy."
)]
pub struct AuditSummaryFields {}

/// Results of the audit shards. A pass is complete when all shards report the same policy and generation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditSummaryStatus {
    /// Results by shard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["shard".into()]))]
    pub shards: Vec<AuditShard>,
}

/// Result of one audit shard.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditShard {
    /// Index of the shard, from 0.
    #[schemars(range(min = 0))]
    pub shard: i32,

    /// Number of shards.
    #[schemars(range(min = 1))]
    pub of: i32,

    /// UID of the policy that was audited.
    #[serde(rename = "policyUID")]
    pub policy_uid: String,

    /// Generation of the policy that was audited.
    pub policy_generation: i64,

    /// Time when the pass was completed. Not set for a policy that is not audited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,

    /// Number of current results of the policy by outcome, from admission and audit.
    #[serde(default)]
    pub summary: Summary,

    /// Some of the failing resources, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub failing: Vec<FailingResource>,
}

/// A resource that fails the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailingResource {
    /// Kind of the resource.
    pub kind: String,

    /// Namespace of the resource. Not set for cluster-scoped resources.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,

    /// Name of the resource.
    pub name: String,
}
