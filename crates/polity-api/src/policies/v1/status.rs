//! The status of policies and policy groups.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::PolicyCondition;

/// Observed state of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    /// Whether any generation is served: `unscheduled` (the policy names no policy server), `scheduled` (its policy
    /// server does not exist), `pending` (no generation is served yet) or `active` (a generation is served; see `phase`
    /// for the newest one).
    pub policy_status: PolicyState,

    /// Mode of the generation that is served: `protect` or `monitor`. `unknown` if no generation is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ObservedMode>,

    /// Conditions ordered by generation: `Scheduled`, `Initialized` and `Ready` for each replica, followed by the
    /// summary conditions of older releases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub conditions: Vec<PolicyCondition>,

    /// State of the newest generation: `Pending` (no generation is served), `Updating` (an older generation is served
    /// until this one is ready), `Active`, or `Failed` (an older generation may still be served; `policyStatus` is then
    /// `active`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,

    /// Newest generation that the controller has processed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Generation that is served. To wait until a change takes effect, use `kubectl wait
    /// --for=jsonpath='{.status.servingGeneration}'=3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving_generation: Option<i64>,

    /// Summary of the state: the reason for the phase, the generation that is served, and the replicas that are not
    /// ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Generations that the policy can be rolled back to, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub history: Vec<HistoryEntry>,
}

/// Whether any generation of a policy is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicyState {
    /// The policy names no policy server.
    Unscheduled,
    /// The policy server of the policy does not exist.
    Scheduled,
    /// No generation is served yet.
    Pending,
    /// Some generation is served.
    Active,
}

/// Mode in which a policy is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObservedMode {
    /// Rejected requests are denied.
    Protect,
    /// Rejected requests are allowed.
    Monitor,
    /// No generation is served.
    Unknown,
}

/// State of the newest generation of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// The generation is being loaded and no generation is served.
    Pending,
    /// The generation is being loaded while an older generation is served.
    Updating,
    /// The generation is served.
    Active,
    /// The generation cannot be served. An older generation that was served is still served.
    Failed,
}

/// An earlier generation of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// Generation number, as used in the annotation `kubewarden.io/rollback-to-generation`.
    pub generation: i64,

    /// Module of the generation. Not set for groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,

    /// Modules of the generation by member. Set only for groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<BTreeMap<String, String>>,

    /// Time when the generation was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,

    /// Outcome of the generation: `Active`, `Failed` or `Superseded`.
    pub result: HistoryResult,
}

/// Outcome of an earlier generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HistoryResult {
    /// The generation was served.
    Active,
    /// The generation could not be served.
    Failed,
    /// A newer generation replaced it before it was served.
    Superseded,
}
