//! PolicyRevision: one generation of a policy, kept as long as it serves or may be returned to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::condition::PolicyCondition;

/// PolicyRevision holds one generation of a policy for the policy servers that load it. It is written by the
/// controller.
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
    doc = "PolicyRevision holds one generation of a policy for the policy servers that load it. It is written by the controller."
)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRevisionSpec {
    /// Policy that the revision belongs to. It cannot be changed.
    #[x_kube(validation = Rule::new("self == oldSelf").message("objectReference cannot be changed"))]
    pub object_reference: ObjectReference,

    /// `metadata.generation` of the policy when the revision was created. It cannot be changed.
    #[schemars(range(min = 1))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("policyGeneration cannot be changed"))]
    pub policy_generation: i64,

    /// Whether policy servers load the revision. It cannot be changed from false to true.
    #[x_kube(validation = Rule::new("oldSelf || !self")
        .message("a revision that was disabled cannot be enabled again"))]
    pub enabled: bool,

    /// The policy as it was stored. `spec` contains its specification with all defaults.
    #[schemars(schema_with = "kept_as_is")]
    pub data: Map<String, Value>,
}

/// Policy that a revision belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// API group and version of the policy.
    pub api_version: String,

    /// Kind of the policy.
    pub kind: String,

    /// Name of the policy.
    pub name: String,

    /// Namespace of the policy. Not set for cluster-scoped kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// UID of the policy. A policy that is deleted and created again does not take over this revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Progress of the policy server with a revision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRevisionStatus {
    /// Conditions `Scheduled` and `Initialized`, and `Ready` for each replica.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub conditions: Vec<PolicyCondition>,

    /// Generation of this revision that the status was written for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Digests of the modules that every replica loads. Written together with `Initialized` and not changed afterwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub modules: Vec<ResolvedModule>,

    /// Last attempt to initialize the revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initializer: Option<Initializer>,
}

/// A module of a revision, identified by its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedModule {
    /// Member of the group that the module belongs to. Not set for a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,

    /// Location of the module as given in the policy.
    pub uri: String,

    /// SHA-256 digest of the Wasm module.
    pub digest: String,

    /// Digest of the OCI manifest that was resolved and verified. Set only for `registry://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest_digest: Option<String>,

    /// Size of the Wasm module in bytes.
    #[schemars(range(min = 0))]
    pub size: i64,
}

/// Attempts of a policy server to initialize a revision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Initializer {
    /// Version of the policy server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// Hash of the configuration of the policy server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,

    /// Number of compilations started since the last result. Reset to 0 by a result.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub attempts: i32,

    /// Processes that started these compilations. A process that shuts down normally removes its entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<String>,

    /// Number of crashes of the policy server while it compiled the module or validated the settings, as of the last
    /// failure for that reason.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub crashes: i32,

    /// Time when the last attempt started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<Time>,

    /// Time of the next attempt after repeated crashes of the policy server.
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
