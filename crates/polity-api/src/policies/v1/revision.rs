//! PolicyRevision: one generation of a policy, kept as long as it serves or may be returned to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::condition::PolicyCondition;

/// One generation of a policy, as policy servers load it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policies.kubewarden.io",
    version = "v1",
    kind = "PolicyRevision",
    plural = "policyrevisions",
    shortname = "polrev",
    namespaced,
    status = "PolicyRevisionStatus",
    derive = "PartialEq",
    doc = "One generation of a policy, as policy servers load it. Written by the controller."
)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRevisionSpec {
    /// The policy this is a generation of. It cannot be changed.
    #[x_kube(validation = Rule::new("self == oldSelf").message("objectReference cannot be changed"))]
    pub object_reference: ObjectReference,

    /// `metadata.generation` of the policy when the revision was made. It cannot be changed.
    #[schemars(range(min = 1))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("policyGeneration cannot be changed"))]
    pub policy_generation: i64,

    /// Whether policy servers load it. Once false it stays false.
    #[x_kube(validation = Rule::new("oldSelf || !self")
        .message("a revision that was disabled cannot be enabled again"))]
    pub enabled: bool,

    /// The policy as it was stored: `spec` holds its whole specification with the defaults filled in.
    #[schemars(schema_with = "kept_as_is")]
    pub data: Map<String, Value>,
}

/// The policy that a revision belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// Group and version of the policy.
    pub api_version: String,

    /// The kind of the policy.
    pub kind: String,

    /// The name of the policy.
    pub name: String,

    /// The namespace of the policy, for namespaced kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// The UID of the policy, so that one created again under the same name does not inherit this revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// How far the policy servers are with a revision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRevisionStatus {
    /// `Scheduled`, `Initialized`, and `Ready` of each replica.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub conditions: Vec<PolicyCondition>,

    /// The generation of this revision that its writers have acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The exact bytes that every replica loads, written together with `Initialized` and never changed after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub modules: Vec<ResolvedModule>,

    /// The last attempt to initialise the revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initializer: Option<Initializer>,
}

/// One module of a revision, pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedModule {
    /// The member of the group that it belongs to; absent for a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,

    /// Where it came from, as the policy spells it.
    pub uri: String,

    /// SHA-256 of the Wasm bytes.
    pub digest: String,

    /// The digest of the OCI manifest that was resolved and verified; only for `registry://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest_digest: Option<String>,

    /// The number of bytes.
    #[schemars(range(min = 0))]
    pub size: i64,
}

/// The last attempts of a policy server to initialise a revision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Initializer {
    /// The version of the policy server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// The hash of its configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,

    /// Compilations begun since the last result; back to 0 with a result.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub attempts: i32,

    /// The processes that began these compilations. A process that ends in an orderly way removes itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<String>,

    /// How often the policy server crashed while it compiled the module or checked the settings, as of the last
    /// failure for that reason.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub crashes: i32,

    /// When the last attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<Time>,

    /// When the next attempt is made, after the policy server crashed too often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<Time>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(n: &i32) -> bool {
    *n == 0
}

/// An object in which everything is allowed and kept, and which must be there.
fn kept_as_is(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
