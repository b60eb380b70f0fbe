//! ConfigurationPolicy: objects that a cluster must have, or must not.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::common::{HistoryMessage, NamespaceSelector, RemediationAction, Severity, any_object};

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
    #[serde(default = "inform")]
    pub remediation_action: RemediationAction,

    /// How bad a violation is, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,

    /// The namespaces for objects whose definition names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<NamespaceTarget>,

    /// When the policy is looked at again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_interval: Option<EvaluationInterval>,

    /// What happens to objects when the policy goes or no longer lists them.
    #[serde(default)]
    pub prune_object_behavior: PruneObjectBehavior,

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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceTarget {
    #[serde(flatten)]
    pub selector: NamespaceSelector,

    /// Whether namespaces that are being deleted count. `Default` leaves it to the controller, which counts them.
    pub terminating_inclusion: TerminatingInclusion,
}

/// Whether namespaces that are being deleted count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TerminatingInclusion {
    IfMatch,
    Never,
    #[default]
    Default,
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

/// What happens to objects when the policy goes or no longer lists them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PruneObjectBehavior {
    DeleteAll,
    DeleteIfCreated,
    #[default]
    None,
}

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
    pub compliance_type: ComplianceType,

    /// The same for labels and annotations; as `complianceType` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_compliance_type: Option<MetadataComplianceType>,

    /// The object, or the part of it that matters.
    #[schemars(schema_with = "any_object")]
    pub object_definition: Map<String, Value>,

    /// Labels that pick the objects when the definition names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_selector: Option<LabelSelector>,

    /// Where the difference is shown. `InStatus` when absent, unless the object may hold secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_diff: Option<RecordDiff>,

    /// Whether an object that cannot be updated is deleted and created again.
    #[serde(default)]
    pub recreate_option: RecreateOption,
}

/// Whether an object must be there. Other spellings mean the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ComplianceType {
    #[serde(rename = "MustHave")]
    MustHaveCamel,
    Musthave,
    #[serde(rename = "musthave")]
    MusthaveLowercase,
    #[serde(rename = "MustOnlyHave")]
    MustOnlyHaveCamel,
    Mustonlyhave,
    #[serde(rename = "mustonlyhave")]
    MustonlyhaveLowercase,
    #[serde(rename = "MustNotHave")]
    MustNotHaveCamel,
    Mustnothave,
    #[serde(rename = "mustnothave")]
    MustnothaveLowercase,
}

/// Whether labels and annotations are compared in part or as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MetadataComplianceType {
    #[serde(rename = "MustHave")]
    MustHaveCamel,
    Musthave,
    #[serde(rename = "musthave")]
    MusthaveLowercase,
    #[serde(rename = "MustOnlyHave")]
    MustOnlyHaveCamel,
    Mustonlyhave,
    #[serde(rename = "mustonlyhave")]
    MustonlyhaveLowercase,
}

/// Where the difference between wanted and found is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RecordDiff {
    Log,
    InStatus,
    None,
}

/// Whether an object that cannot be updated is deleted and created again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RecreateOption {
    #[default]
    None,
    IfRequired,
    Always,
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

fn inform() -> RemediationAction {
    RemediationAction::InformLowercase
}
