//! Results and their summary: the same in both public groups.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// What one policy says about one or more objects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportResult {
    /// The policy: its name, with its namespace before it for a namespaced one.
    pub policy: String,

    /// The rule of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,

    /// The engine that found it.
    #[serde(default)]
    pub source: String,

    /// What became of the evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "outcome")]
    pub result: Option<String>,

    /// How bad a violation is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "severity")]
    pub severity: Option<String>,

    /// What the policy is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,

    /// Whether a violation counts; without it, it does not.
    #[serde(default)]
    pub scored: bool,

    /// Why it is so, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// When it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,

    /// The objects it is about; without any it is about the scope of the report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ObjectReference>,

    /// The objects it is about, by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_selector: Option<LabelSelector>,

    /// More about the policy and the way the result was found.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// A moment since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timestamp {
    /// Whole seconds.
    pub seconds: i64,

    /// Nanoseconds beyond them.
    pub nanos: i32,
}

/// How many results there are of each outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Policies that are met.
    #[serde(default)]
    pub pass: i64,

    /// Policies that are not met.
    #[serde(default)]
    pub fail: i64,

    /// Policies that are not met and not scored.
    #[serde(default)]
    pub warn: i64,

    /// Policies that could not be evaluated.
    #[serde(default)]
    pub error: i64,

    /// Policies that were not evaluated.
    #[serde(default)]
    pub skip: i64,
}

pub(super) fn outcome(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["pass", "fail", "warn", "error", "skip"] })
}

fn severity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["critical", "high", "medium", "low", "info"] })
}
