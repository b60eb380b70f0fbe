//! PolicyAutomation: runs a job when a policy is violated.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::policy::v1::any_object;

/// PolicyAutomation runs a job when a policy is violated.
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
    doc = "PolicyAutomation runs a job when a policy is violated."
)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAutomationSpec {
    /// Name of the policy in the same namespace.
    pub policy_ref: String,

    /// Whether the job runs once (`once`), for every violation (`everyEvent`) or not at all (`disabled`).
    pub mode: AutomationMode,

    /// Event that starts the job.
    #[serde(default)]
    pub event_hook: EventHook,

    /// Seconds after a run during which no job is started for the same cluster. Used only with `everyEvent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub delay_after_run_seconds: Option<i64>,

    /// Reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rescan_after: Option<String>,

    /// Definition of the job.
    pub automation_def: AutomationDefinition,
}

/// Whether a job runs once, for every violation or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AutomationMode {
    Once,
    EveryEvent,
    Disabled,
}

/// Event that starts a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventHook {
    /// The policy became NonCompliant on a cluster.
    #[default]
    Noncompliant,
}

/// Definition of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutomationDefinition {
    /// Type of the job. Defaults to `AnsibleJob`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,

    /// Name of the job template.
    #[schemars(length(min = 1))]
    pub name: String,

    /// Secret with the credentials of the automation controller.
    #[schemars(length(min = 1))]
    pub secret: String,

    /// Additional variables of the job.
    #[serde(
        rename = "extra_vars",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "any_object")]
    pub extra_vars: Option<Map<String, Value>>,

    /// Seconds after which a finished job is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_ttl: Option<i64>,

    /// Maximum number of violations passed to the job; 0 passes all. Defaults to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub policy_violations_limit: Option<i64>,
}

/// Observed state of a PolicyAutomation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyAutomationStatus {
    /// Clusters for which a job was started, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters_with_event: BTreeMap<String, ClusterEvent>,
}

/// Start of a job for a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterEvent {
    /// Time when the job was started.
    pub automation_start_time: String,

    /// Time when the violation was reported.
    pub event_time: String,
}
