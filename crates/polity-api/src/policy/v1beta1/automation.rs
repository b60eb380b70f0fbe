//! PolicyAutomation: runs a job when a policy is violated.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::policy::v1::any_object;

/// Runs a job when a policy is violated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policy.open-cluster-management.io",
    version = "v1beta1",
    kind = "PolicyAutomation",
    plural = "policyautomations",
    shortname = "plca",
    namespaced,
    status = "PolicyAutomationStatus",
    derive = "PartialEq",
    doc = "Runs a job when a policy is violated."
)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAutomationSpec {
    /// The policy, in the same namespace.
    pub policy_ref: String,

    /// Whether the job runs once, at every event, or not at all.
    pub mode: AutomationMode,

    /// What starts the job.
    #[serde(default)]
    pub event_hook: EventHook,

    /// `everyEvent` only: how many seconds a cluster is left alone after a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub delay_after_run_seconds: Option<i64>,

    /// Reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rescan_after: Option<String>,

    /// The job.
    pub automation_def: AutomationDefinition,
}

/// Whether a job runs once, at every event, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AutomationMode {
    Once,
    EveryEvent,
    Disabled,
}

/// What starts a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventHook {
    /// The policy turned NonCompliant on a cluster.
    #[default]
    Noncompliant,
}

/// The job of an automation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutomationDefinition {
    /// The kind of job; `AnsibleJob` when absent.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,

    /// The job template.
    #[schemars(length(min = 1))]
    pub name: String,

    /// The secret with the credentials of the tower.
    #[schemars(length(min = 1))]
    pub secret: String,

    /// Variables for the job.
    #[serde(
        rename = "extra_vars",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "any_object")]
    pub extra_vars: Option<Map<String, Value>>,

    /// How many seconds the job is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_ttl: Option<i64>,

    /// How many violations are handed to the job; 0 for all, 1000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub policy_violations_limit: Option<i64>,
}

/// What became of an automation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyAutomationStatus {
    /// Clusters for which a job was started.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters_with_event: BTreeMap<String, ClusterEvent>,
}

/// When a job was started for a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterEvent {
    /// When the job started.
    pub automation_start_time: String,

    /// When the violation was reported.
    pub event_time: String,
}
