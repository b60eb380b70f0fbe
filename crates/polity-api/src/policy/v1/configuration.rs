//! ConfigurationPolicy: objects that a cluster must have, or must not.
//!
//! Words such as `enforce` and `musthave` are plain strings here, closed by the schema, so that a policy with several
//! mistakes decodes and all of them are reported at once. `polity-comply` parses the words, in any case of their
//! letters.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::common::{HistoryMessage, Severity, any_object};
use crate::decode::null_as_default;
use crate::vocabulary::one_of;

/// ConfigurationPolicy lists objects that a cluster must have or must not have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policy.open-cluster-management.io",
    version = "v1",
    kind = "ConfigurationPolicy",
    plural = "configurationpolicies",
    namespaced,
    status = "ConfigurationPolicyStatus",
    derive = "PartialEq",
    doc = "ConfigurationPolicy lists objects that a cluster must have or must not have."
)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationPolicySpec {
    /// Whether violations are only reported (`inform`) or also corrected (`enforce`).
    #[serde(default = "inform", deserialize_with = "null_as_default")]
    #[schemars(schema_with = "remediation_action")]
    pub remediation_action: String,

    /// Severity of a violation. Informational.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "severity")]
    pub severity: Option<String>,

    /// Namespaces in which objects are evaluated whose definition has no namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<NamespaceTarget>,

    /// How often the policy is evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_interval: Option<EvaluationInterval>,

    /// Which objects are deleted when the policy is deleted or no longer lists them: `DeleteAll` deletes all of them,
    /// `DeleteIfCreated` those that the policy created, `None` no object.
    #[serde(default = "none", deserialize_with = "null_as_default")]
    #[schemars(schema_with = "prune_object_behavior")]
    pub prune_object_behavior: String,

    /// Templates of the compliance messages. Replace the default messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_message: Option<CustomMessage>,

    /// Objects to evaluate. Exactly one of `object-templates` and `object-templates-raw` must be set.
    #[serde(
        rename = "object-templates",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub object_templates: Option<Vec<ObjectTemplate>>,

    /// Go template that renders a YAML list of object templates. Exactly one of `object-templates` and
    /// `object-templates-raw` must be set.
    #[serde(
        rename = "object-templates-raw",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub object_templates_raw: Option<String>,
}

/// Selects namespaces by name and label. Both must match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceTarget {
    /// Patterns of namespace names to select, with the wildcards `*`, `?` and `[...]`.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub include: Vec<String>,

    /// Patterns of namespace names to exclude. Takes precedence over `include`.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub exclude: Vec<String>,

    /// Labels that the namespace must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,

    /// Label selector requirements that the namespace must meet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,

    /// Whether namespaces that are being deleted are selected: `IfMatch` selects them like other namespaces, `Never`
    /// excludes them, `Default` uses the setting of the controller.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(schema_with = "terminating_inclusion")]
    pub terminating_inclusion: String,
}

impl Default for NamespaceTarget {
    fn default() -> Self {
        Self {
            include: Vec::new(),
            exclude: Vec::new(),
            match_labels: None,
            match_expressions: None,
            terminating_inclusion: "Default".to_owned(),
        }
    }
}

/// How often a policy is evaluated: a duration, `watch` or `never`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EvaluationInterval {
    /// Time until the next evaluation after the policy was compliant: a duration such as `10m`, `watch` to evaluate
    /// when an object changes, or `never`. Defaults to `watch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = EVALUATION_INTERVAL))]
    pub compliant: Option<String>,

    /// Time until the next evaluation after the policy was noncompliant: a duration such as `10m`, `watch` to evaluate
    /// when an object changes, or `never`. Defaults to `watch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = EVALUATION_INTERVAL))]
    pub noncompliant: Option<String>,
}

const EVALUATION_INTERVAL: &str =
    r"^(?:(?:(?:[0-9]+(?:.[0-9])?)(?:h|m|s|(?:ms)|(?:us)|(?:ns)))|never|watch)+$";

/// Go templates of compliance messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CustomMessage {
    /// Template of the message when the policy is compliant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// Template of the message when the policy is noncompliant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noncompliant: Option<String>,
}

/// An object, or all objects of a kind, with the required state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectTemplate {
    /// Required state of the object: `musthave` (it exists and contains the definition), `mustonlyhave` (it exists and
    /// equals the definition) or `mustnothave` (it does not exist).
    #[schemars(required, schema_with = "compliance_type")]
    pub compliance_type: Option<String>,

    /// Overrides `complianceType` for labels and annotations: `musthave` or `mustonlyhave`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "metadata_compliance_type")]
    pub metadata_compliance_type: Option<String>,

    /// The object, or the part of it to compare. `apiVersion` and `kind` are required.
    #[schemars(required, schema_with = "any_object")]
    pub object_definition: Option<Map<String, Value>>,

    /// Selects objects by label when the definition has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_selector: Option<LabelSelector>,

    /// Where the difference between the definition and the object is recorded: `Log`, `InStatus` or `None`. Defaults to
    /// `InStatus`, except for objects that can contain sensitive data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "record_diff")]
    pub record_diff: Option<String>,

    /// Whether an object that cannot be updated is deleted and created again: `None`, `IfRequired` or `Always`.
    #[serde(default = "none", deserialize_with = "null_as_default")]
    #[schemars(schema_with = "recreate_option")]
    pub recreate_option: String,
}

/// Observed state of a ConfigurationPolicy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigurationPolicyStatus {
    /// Compliance state: `Compliant`, `NonCompliant` or `Terminating`. Not set while the state is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// Time of the last evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_evaluated: Option<String>,

    /// Generation of the policy at the last evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_evaluated_generation: Option<i64>,

    /// Result of each object template, in their order.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub compliancy_details: Vec<TemplateCompliance>,

    /// Objects that were evaluated, sorted by kind, namespace and name.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub related_objects: Vec<RelatedObject>,

    /// Objects that an informing policy no longer lists. They are pruned when the policy enforces.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub prunable_objects: Vec<PrunableObject>,

    /// Most recent compliance messages, newest first, at most 10.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub history: Vec<HistoryMessage>,
}

/// Result of one object template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TemplateCompliance {
    /// Compliance state of the object template.
    #[serde(rename = "Compliant", skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// Deprecated and always empty.
    #[serde(rename = "Validity", deserialize_with = "null_as_default")]
    #[schemars(schema_with = "any_object")]
    pub validity: Map<String, Value>,

    /// Conditions of the object template.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub conditions: Vec<ObjectCondition>,
}

/// A condition of an object template or operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectCondition {
    /// Type of the condition: `violation` or `notification`, or for an OperatorPolicy the object that it is about.
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    pub type_: String,

    /// Status of the condition.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub status: String,

    /// Reason for the status as a fixed phrase.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub reason: String,

    /// Reason for the status as a sentence, with details.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub message: String,

    /// Time when the condition last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
}

/// An object that was evaluated.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RelatedObject {
    /// Compliance state of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// Reason for the compliance state as a fixed phrase.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub reason: String,

    /// Reference to the object.
    #[serde(deserialize_with = "null_as_default")]
    pub object: ObjectReference,

    /// Additional information about the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<ObjectProperties>,
}

/// Reference to an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// API group and version of the object.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub api_version: String,

    /// Kind of the object.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub kind: String,

    /// Name and namespace of the object.
    #[serde(deserialize_with = "null_as_default")]
    pub metadata: ObjectMetadata,
}

/// Name and namespace of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ObjectMetadata {
    /// Name of the object; `-` if no object matched.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub name: String,

    /// Namespace of the object. Not set for cluster-scoped objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Additional information about an evaluated object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectProperties {
    /// Whether this policy created the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by_policy: Option<bool>,

    /// UID of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,

    /// Difference between the definition and the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,

    /// Whether the object matches only after a dry-run update, because the API server sets defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches_after_dry_run: Option<bool>,
}

/// An object that an informing policy no longer lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PrunableObject {
    /// Reference to the object.
    #[serde(deserialize_with = "null_as_default")]
    pub object: ObjectReference,

    /// UID of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,

    /// Whether this policy created the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by_policy: Option<bool>,
}

fn inform() -> String {
    "inform".to_owned()
}

fn none() -> String {
    "None".to_owned()
}

fn remediation_action(_: &mut SchemaGenerator) -> Schema {
    one_of(&["Inform", "inform", "Enforce", "enforce"])
}

fn severity(generator: &mut SchemaGenerator) -> Schema {
    Severity::json_schema(generator)
}

fn prune_object_behavior(_: &mut SchemaGenerator) -> Schema {
    one_of(&["DeleteAll", "DeleteIfCreated", "None"])
}

fn terminating_inclusion(_: &mut SchemaGenerator) -> Schema {
    one_of(&["IfMatch", "Never", "Default"])
}

fn compliance_type(_: &mut SchemaGenerator) -> Schema {
    one_of(&[
        "MustHave",
        "Musthave",
        "musthave",
        "MustOnlyHave",
        "Mustonlyhave",
        "mustonlyhave",
        "MustNotHave",
        "Mustnothave",
        "mustnothave",
    ])
}

fn metadata_compliance_type(_: &mut SchemaGenerator) -> Schema {
    one_of(&[
        "MustHave",
        "Musthave",
        "musthave",
        "MustOnlyHave",
        "Mustonlyhave",
        "mustonlyhave",
    ])
}

fn record_diff(_: &mut SchemaGenerator) -> Schema {
    one_of(&["Log", "InStatus", "None"])
}

fn recreate_option(_: &mut SchemaGenerator) -> Schema {
    one_of(&["None", "IfRequired", "Always"])
}
