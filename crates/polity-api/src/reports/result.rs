//! Results and their summary: the same in both public groups.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::lenient;

/// Result of one policy for one or more objects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportResult {
    /// Name of the policy, with the namespace as prefix for a namespaced policy.
    #[serde(deserialize_with = "lenient::or_default")]
    pub policy: String,

    /// Rule of the policy.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient::or_default"
    )]
    pub rule: Option<String>,

    /// Policy engine that produced the result.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub source: String,

    /// Outcome of the evaluation.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient::or_default"
    )]
    #[schemars(schema_with = "outcome")]
    pub result: Option<String>,

    /// Severity of a violation.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient::or_default"
    )]
    #[schemars(schema_with = "severity")]
    pub severity: Option<String>,

    /// Category of the policy.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient::or_default"
    )]
    pub category: Option<String>,

    /// Whether a violation counts in scores. Defaults to false.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub scored: bool,

    /// Explanation of the result.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient::or_default"
    )]
    pub message: Option<String>,

    /// Time when the result was observed.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient::timestamp"
    )]
    pub timestamp: Option<Timestamp>,

    /// Objects that the result is about. If empty, the result is about the scope of the report.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "lenient::references"
    )]
    pub resources: Vec<ObjectReference>,

    /// Selects by label the objects that the result is about.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient::selector"
    )]
    pub resource_selector: Option<LabelSelector>,

    /// Additional information about the policy and the evaluation.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "lenient::strings"
    )]
    pub properties: BTreeMap<String, String>,

    /// Name of `result` in v1alpha1. Not written.
    #[serde(default, skip_serializing, deserialize_with = "lenient::or_default")]
    #[schemars(skip)]
    pub status: Option<String>,

    /// Name of `message` in v1alpha1. Not written.
    #[serde(default, skip_serializing, deserialize_with = "lenient::or_default")]
    #[schemars(skip)]
    pub description: Option<String>,

    /// Name of `properties` in v1alpha1. Not written.
    #[serde(default, skip_serializing, deserialize_with = "lenient::strings")]
    #[schemars(skip)]
    pub data: BTreeMap<String, String>,
}

/// A point in time since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,

    /// Nanoseconds within the second.
    pub nanos: i32,
}

/// Number of results by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Number of results whose object meets the policy.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub pass: i64,

    /// Number of results whose object violates the policy.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub fail: i64,

    /// Number of results whose object violates a policy that is not scored.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub warn: i64,

    /// Number of results whose policy could not be evaluated.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub error: i64,

    /// Number of results whose policy was not evaluated.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub skip: i64,
}

pub(super) fn outcome(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["pass", "fail", "warn", "error", "skip"] })
}

fn severity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["critical", "high", "medium", "low", "info"] })
}
