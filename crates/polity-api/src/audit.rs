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

/// The audit of one policy, named by the policy's unique name. It has a status only.
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
    doc = "How far the audit of a policy is, and what it found. Named by the policy's unique name."
)]
pub struct AuditSummaryFields {}

/// What the parts of the audit found. A pass is complete when all of them have the same policy and generation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditSummaryStatus {
    /// One entry for each part that the work is cut into.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["shard".into()]))]
    pub shards: Vec<AuditShard>,
}

/// One part of the audit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditShard {
    /// Which part this is, from 0.
    #[schemars(range(min = 0))]
    pub shard: i32,

    /// How many parts there are.
    #[schemars(range(min = 1))]
    pub of: i32,

    /// The policy that was audited.
    #[serde(rename = "policyUID")]
    pub policy_uid: String,

    /// The generation of the policy that was audited.
    pub policy_generation: i64,

    /// When the pass was through; absent for a policy that is not audited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,

    /// The results that the policy has now, from admission or from the audit.
    #[serde(default)]
    pub summary: Summary,

    /// Some of the resources that fail, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub failing: Vec<FailingResource>,
}

/// A resource that fails.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailingResource {
    /// Its kind.
    pub kind: String,

    /// Its namespace; absent where it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,

    /// Its name.
    pub name: String,
}
