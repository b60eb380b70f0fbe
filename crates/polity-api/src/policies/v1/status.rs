//! The status of policies and policy groups.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::PolicyCondition;

/// What became of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    /// Where the policy stands: `unscheduled`, `scheduled` (its policy server is missing), `pending` (not yet
    /// reachable) or `active`.
    pub policy_status: PolicyState,

    /// The mode that the running policy server has: `protect`, `monitor`, or `unknown` while nothing is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ObservedMode>,

    /// What its writers say about the policy: by generation, then `Scheduled`, `Initialized` and `Ready` of each
    /// replica, then the conditions of older releases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub conditions: Vec<PolicyCondition>,

    /// Where the newest generation stands: `Pending`, `Updating` (an older one is enforced meanwhile), `Active` or
    /// `Failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,

    /// The newest generation that the controller has acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The generation that is enforced, if any. `kubectl wait --for=jsonpath='{.status.servingGeneration}'=3` waits
    /// for a change to take effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving_generation: Option<i64>,

    /// One sentence: why this phase, which generation is enforced, which replicas are awaited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// The generations that the policy can be rolled back to, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub history: Vec<HistoryEntry>,
}

/// Where a policy stands, in the words of older releases.
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

/// Where the newest generation of a policy stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// On its way in, nothing is enforced.
    Pending,
    /// On its way in, an older generation is enforced.
    Updating,
    /// Enforced.
    Active,
    /// It cannot be served; what was enforced before still is.
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

    /// What became of it: `Active`, `Failed` or `Superseded`.
    pub result: HistoryResult,
}

/// What became of an earlier generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HistoryResult {
    /// It was enforced.
    Active,
    /// It could not be served.
    Failed,
    /// A newer one came before it was enforced.
    Superseded,
}
