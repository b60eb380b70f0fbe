//! `polity.dev/v1alpha1` AttachmentConfig: how attached policies of each kind are resolved and published.
//!
//! Unknown fields are refused, because a misspelt setting must not silently have no effect.

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Settings of policy kinds, hierarchies and virtual kinds.
///
/// Several AttachmentConfigs are read in the order of their names; of two that configure the same kind, the first one
/// applies.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, CustomResource, JsonSchema,
)]
#[kube(
    group = "polity.dev",
    version = "v1alpha1",
    kind = "AttachmentConfig",
    plural = "attachmentconfigs",
    shortname = "attcfg",
    category = "polity",
    derive = "PartialEq",
    doc = "AttachmentConfig configures how attached policies of each kind are resolved and published. Several are read in the order of their names; of two that configure the same kind, the first one applies."
)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AttachmentConfigSpec {
    /// Settings of policy kinds, one entry for each kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindSettings>,

    /// Hierarchies in addition to the built-in `gateway`, `namespace` and `owners`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hierarchies: Vec<HierarchySettings>,

    /// Kinds that policies can target although the API server does not serve them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub virtual_kinds: Vec<VirtualKind>,
}

/// Settings of one policy kind. A field that is absent is taken from a preset, the CustomResourceDefinition of the
/// kind, or the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KindSettings {
    /// API group of the policy kind.
    #[serde(default)]
    pub group: String,

    /// The policy kind.
    pub kind: String,

    /// Whether a policy affects only its target (`Direct`) or also the objects below it (`Inherited`). Takes
    /// precedence over the label on the CustomResourceDefinition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,

    /// Whether Polity is the controller of this kind and writes the status of its policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<bool>,

    /// How the specs of several policies are combined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,

    /// Paths of the fields in which a policy selects its own strategy, such as `spec.mergeType`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy_fields: Option<Vec<String>>,

    /// Which of several policies at the same level takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie_break: Option<TieBreak>,

    /// Name of a merge group. Policies of all kinds with the same merge group are combined with each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_group: Option<String>,

    /// Name of the hierarchy along which policies are inherited: one of `gateway`, `namespace` and `owners`, or a
    /// hierarchy of any AttachmentConfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hierarchy: Option<String>,

    /// Kind of the objects that decide whether a policy is effective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_kind: Option<KindRef>,

    /// Which objects Polity writes about policies of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish: Option<Publish>,

    /// How the admission webhook reacts to a policy that conflicts or is invalid: `Off` ignores it, `Warn` returns a
    /// warning, `Deny` rejects the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,

    /// How a policy is named to users who cannot read it: `full` shows its name, `kind-only` its kind, `none` nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redaction: Option<Redaction>,

    /// Which fields of a policy are published next to the objects it affects: `full` for all fields, `names` for none,
    /// or an object with `paths`, the list of fields to leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "contents")]
    pub contents: Option<Contents>,

    /// Fields of the policy that correspond to fields of the objects it affects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bindings: Option<Vec<Binding>>,
}

/// Whether policies of a kind affect only their target or also the objects below it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Class {
    Direct,
    Inherited,
}

/// How the specs of several policies are combined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Strategy {
    #[default]
    Fields,
    PatchDefaults,
    PatchOverrides,
    AtomicDefaults,
    AtomicOverrides,
    None,
}

/// Which of several policies at the same level takes precedence: `Oldest`, or `Established`, where the older policy
/// counts as the upper one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TieBreak {
    #[default]
    Oldest,
    Established,
}

/// An API group and kind.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KindRef {
    /// API group; empty or absent for the core group.
    #[serde(default)]
    pub group: String,

    /// Kind; `*` matches every kind of the group.
    pub kind: String,
}

/// Which objects Polity writes about policies of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Publish {
    /// Whether affected objects are marked with a condition or an annotation. Defaults to true.
    pub marks: bool,

    /// Whether EffectivePolicy objects are written. Defaults to true.
    pub effective_policy: bool,

    /// Whether AttachmentStatus objects are written. Defaults to true.
    pub status: bool,
}

impl Default for Publish {
    fn default() -> Self {
        Self {
            marks: true,
            effective_policy: true,
            status: true,
        }
    }
}

/// How the admission webhook reacts to a policy that conflicts or is invalid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Admission {
    Off,
    #[default]
    Warn,
    Deny,
}

/// How a policy is named to users who cannot read it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Redaction {
    #[default]
    Full,
    KindOnly,
    None,
}

/// Which fields of a policy are published next to the objects it affects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Contents {
    /// All fields.
    #[default]
    Full,
    /// All fields except these and the fields below them.
    Paths(Vec<String>),
    /// No fields, only the reference to the policy.
    Names,
}

/// A field of a policy that corresponds to a field of the objects it affects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Binding {
    /// Field of the policy, such as `timeout`.
    pub field: String,

    /// Kind of the object.
    pub object: KindRef,

    /// Field of the object, such as `spec.rules[].timeouts.request`.
    pub path: String,
}

/// A hierarchy along which policies are inherited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HierarchySettings {
    /// Name that `kinds[].hierarchy` refers to.
    pub name: String,

    /// Kinds of the hierarchy, from the root to the leaves.
    pub levels: Vec<KindRef>,

    /// How objects of one level refer to their parents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<EdgeSettings>,
}

/// How objects of one kind refer to their parents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EdgeSettings {
    /// Kind of the child.
    pub child: KindRef,

    /// Field of the child that contains the name of its parent, a reference to it, or a list of either. When it is
    /// empty, every child is below every parent.
    #[serde(default)]
    pub path: String,

    /// Kind of the parent.
    pub parent: KindRef,

    /// Permission that a reference to a parent in another namespace requires.
    #[serde(default)]
    pub permission: Permission,
}

/// Permission that a reference to another namespace requires.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Permission {
    #[default]
    None,
    ReferenceGrant,
}

/// A kind that policies can target although the API server does not serve it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VirtualKind {
    /// API group of the virtual kind.
    #[serde(default)]
    pub group: String,

    /// The virtual kind.
    pub kind: String,

    /// Objects of the kind that policies can target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<VirtualName>,
}

/// An object of a virtual kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VirtualName {
    /// Namespace of the object; absent for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// Name of the object.
    pub name: String,
}

fn contents(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}
