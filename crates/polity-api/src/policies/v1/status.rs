//! The status of policies and policy groups.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::PolicyCondition;

/// The observed state of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    /// Whether any generation is served: `unscheduled` (it names no policy server), `scheduled` (its policy server does
    /// not exist), `pending` (none is served yet) or `active` (one is served; `phase` tells about the newest one).
    pub policy_status: PolicyState,

    /// The mode of the generation that is served: `protect`, `monitor`, or `unknown` while none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ObservedMode>,

    /// The conditions: by generation, then `Scheduled`, `Initialized` and `Ready` of each replica, then the condition
    /// types of older releases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub conditions: Vec<PolicyCondition>,

    /// The state of the newest generation: `Pending` (no generation is served), `Updating` (an older one is served
    /// meanwhile), `Active` or `Failed` (an older one may be served: then `policyStatus` is `active`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,

    /// The newest generation that the controller has acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The generation that is served, if any. `kubectl wait --for=jsonpath='{.status.servingGeneration}'=3` waits
    /// for a change to take effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving_generation: Option<i64>,

    /// One sentence: the reason of this phase, the generation that is served, and the replicas that are awaited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// The generations that the policy can be rolled back to, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub history: Vec<HistoryEntry>,
}

/// Whether any generation of a policy is served, as older releases spell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicyState {
    /// It names no policy server.
    Unscheduled,
    /// Its policy server does not exist.
    Scheduled,
    /// No generation is served yet.
    Pending,
    /// Some generation is served.
    Active,
}

/// The mode in which a policy is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObservedMode {
    /// Rejected requests are refused.
    Protect,
    /// Rejected requests pass.
    Monitor,
    /// Nothing is served.
    Unknown,
}

/// The state of the newest generation of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// It is being loaded, and no generation is served.
    Pending,
    /// It is being loaded, and an older generation is served.
    Updating,
    /// It is served.
    Active,
    /// It cannot be served; an older generation that was served still is.
    Failed,
}

/// One earlier generation of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// The generation, as `kubewarden.io/rollback-to-generation` wants it.
    pub generation: i64,

    /// The module it ran; absent for groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,

    /// The modules it ran, by member; only for groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<BTreeMap<String, String>>,

    /// When this generation was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,

    /// The outcome: `Active`, `Failed` or `Superseded`.
    pub result: HistoryResult,
}

/// The outcome of an earlier generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HistoryResult {
    /// It was served.
    Active,
    /// It could not be served.
    Failed,
    /// A newer one came before it was served.
    Superseded,
}
