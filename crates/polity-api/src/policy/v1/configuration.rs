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

/// Objects that a cluster must have, or must not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policy.open-cluster-management.io",
    version = "v1",
    kind = "ConfigurationPolicy",
    plural = "configurationpolicies",
    namespaced,
    status = "ConfigurationPolicyStatus",
    derive = "PartialEq",
    doc = "Objects that a cluster must have, or must not."
)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationPolicySpec {
    /// What happens about what does not comply: `inform` reports, `enforce` mends.
    #[serde(default = "inform", deserialize_with = "null_as_default")]
    #[schemars(schema_with = "remediation_action")]
    pub remediation_action: String,

    /// How bad a violation is, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "severity")]
    pub severity: Option<String>,

    /// The namespaces for objects whose definition names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<NamespaceTarget>,

    /// When the policy is looked at again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_interval: Option<EvaluationInterval>,

    /// What happens to objects when the policy goes or no longer lists them.
    #[serde(default = "none", deserialize_with = "null_as_default")]
    #[schemars(schema_with = "prune_object_behavior")]
    pub prune_object_behavior: String,

    /// What is reported instead of the usual message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_message: Option<CustomMessage>,

    /// The objects, one by one. Either this or `object-templates-raw`.
    #[serde(
        rename = "object-templates",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub object_templates: Option<Vec<ObjectTemplate>>,

    /// A template whose result is a list of object templates in YAML.
    #[serde(
        rename = "object-templates-raw",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub object_templates_raw: Option<String>,
}

/// Namespaces by name and label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceTarget {
    /// Patterns of names to take: `*`, `?` and `[...]`, matched against the whole name.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub include: Vec<String>,

    /// Patterns of names to leave out.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub exclude: Vec<String>,

    /// Labels that the namespace must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,

    /// Conditions on the labels of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,

    /// Whether namespaces that are being deleted count. `Default` leaves it to the controller, which counts them.
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

/// When a policy is looked at again: a duration, `watch` or `never`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EvaluationInterval {
    /// After it was found compliant. `watch` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = EVALUATION_INTERVAL))]
    pub compliant: Option<String>,

    /// After it was found noncompliant. `watch` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = EVALUATION_INTERVAL))]
    pub noncompliant: Option<String>,
}

const EVALUATION_INTERVAL: &str =
    r"^(?:(?:(?:[0-9]+(?:.[0-9])?)(?:h|m|s|(?:ms)|(?:us)|(?:ns)))|never|watch)+$";

/// Templates for what is reported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CustomMessage {
    /// When compliant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// When noncompliant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noncompliant: Option<String>,
}

/// One object, or all objects that look like it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectTemplate {
    /// Whether the object must be there with at least, with exactly, or must not be there.
    #[schemars(required, schema_with = "compliance_type")]
    pub compliance_type: Option<String>,

    /// The same for labels and annotations; as `complianceType` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "metadata_compliance_type")]
    pub metadata_compliance_type: Option<String>,

    /// The object, or the part of it that matters.
    #[schemars(required, schema_with = "any_object")]
    pub object_definition: Option<Map<String, Value>>,

    /// Labels that pick the objects when the definition names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_selector: Option<LabelSelector>,

    /// Where the difference is shown. `InStatus` when absent, unless the object may hold secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "record_diff")]
    pub record_diff: Option<String>,

    /// Whether an object that cannot be updated is deleted and created again.
    #[serde(default = "none", deserialize_with = "null_as_default")]
    #[schemars(schema_with = "recreate_option")]
    pub recreate_option: String,
}

/// What became of a ConfigurationPolicy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigurationPolicyStatus {
    /// `Compliant`, `NonCompliant` or `Terminating`; absent while it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// When it was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_evaluated: Option<String>,

    /// The generation that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_evaluated_generation: Option<i64>,

    /// One entry for each object template.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compliancy_details: Vec<TemplateCompliance>,

    /// Every object that was looked at, by kind, namespace and name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_objects: Vec<RelatedObject>,

    /// Objects that dropped out while the policy only informs; pruned when it enforces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prunable_objects: Vec<PrunableObject>,

    /// What was reported, newest first, at most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryMessage>,
}

/// The result of one object template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TemplateCompliance {
    /// Whether it complies.
    #[serde(rename = "Compliant", skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// No longer used, always written.
    #[serde(rename = "Validity")]
    #[schemars(schema_with = "any_object")]
    pub validity: Map<String, Value>,

    /// What was found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ObjectCondition>,
}

/// One finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectCondition {
    /// `violation` or `notification`.
    #[serde(rename = "type")]
    pub type_: String,

    /// Always `True`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,

    /// Why, in a fixed phrase.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,

    /// What, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,

    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
}

/// An object that was looked at.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RelatedObject {
    /// Whether it complies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliant: Option<String>,

    /// Why, in a fixed phrase.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,

    /// Which object.
    pub object: ObjectReference,

    /// What else is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<ObjectProperties>,
}

/// Which object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// Group and version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,

    /// Kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,

    /// Name and namespace.
    pub metadata: ObjectMetadata,
}

/// Name and namespace of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ObjectMetadata {
    /// The name; `-` when none matched.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,

    /// The namespace; absent for cluster-scoped kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// What else is known of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectProperties {
    /// Whether this policy created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by_policy: Option<bool>,

    /// Its UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,

    /// The difference between wanted and found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,

    /// Whether only the server's own defaulting made it match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches_after_dry_run: Option<bool>,
}

/// An object that dropped out while the policy only informs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PrunableObject {
    /// Which object.
    pub object: ObjectReference,

    /// Its UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,

    /// Whether this policy created it.
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
