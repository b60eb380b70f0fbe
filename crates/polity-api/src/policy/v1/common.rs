//! What the kinds of the group have in common.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Whether violations are only reported or also corrected. Both spellings are accepted and preserved.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum RemediationAction {
    Inform,
    #[serde(rename = "inform")]
    InformLowercase,
    Enforce,
    #[serde(rename = "enforce")]
    EnforceLowercase,
}

impl RemediationAction {
    /// The spelling in the object.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inform => "Inform",
            Self::InformLowercase => "inform",
            Self::Enforce => "Enforce",
            Self::EnforceLowercase => "enforce",
        }
    }

    /// The action, in either spelling.
    pub fn action(self) -> polity_core::governance::Action {
        match self {
            Self::Inform | Self::InformLowercase => polity_core::governance::Action::Inform,
            Self::Enforce | Self::EnforceLowercase => polity_core::governance::Action::Enforce,
        }
    }
}

/// Severity of a violation. Informational.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Severity {
    #[serde(rename = "low")]
    LowLowercase,
    Low,
    #[serde(rename = "medium")]
    MediumLowercase,
    Medium,
    #[serde(rename = "high")]
    HighLowercase,
    High,
    #[serde(rename = "critical")]
    CriticalLowercase,
    Critical,
}

/// Selects namespaces by name and label. Both must match.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceSelector {
    /// Patterns of namespace names to select, with the wildcards `*`, `?` and `[...]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,

    /// Patterns of namespace names to exclude. Takes precedence over `include`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,

    /// Labels that the namespace must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,

    /// Label selector requirements that the namespace must meet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// A compliance message with its time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryMessage {
    /// Time of the message, in microseconds precision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_timestamp: Option<String>,

    /// Compliance state and details.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The schema of an object in which everything is allowed and kept.
pub(crate) fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}
