//! What policies and policy groups have in common.

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, RuleWithOperations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The policy server of a policy that names none.
pub const DEFAULT_POLICY_SERVER: &str = "default";

/// How long the API server waits for a policy that says nothing about it.
pub const DEFAULT_TIMEOUT_SECONDS: i32 = 10;

/// What happens to a request that a policy rejects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The request is refused.
    #[default]
    Protect,
    /// The request passes; the verdict is only recorded.
    Monitor,
}

/// What happens to a request when the policy cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// The request is refused.
    Fail,
    /// The request passes.
    Ignore,
}

/// Whether rules match other versions and groups of the same resource too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MatchPolicy {
    /// Only what the rules spell out.
    Exact,
    /// Also requests for the same resource through another group or version.
    Equivalent,
}

/// When a policy or group is asked, and what its answer is worth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Enforcement {
    /// Name of the PolicyServer that runs this policy. It cannot be changed after creation.
    #[serde(default = "default_policy_server")]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("the policy server cannot be changed: delete the policy and create it again"))]
    pub policy_server: String,

    /// What happens to a request that is rejected: `protect` refuses it, `monitor` lets it pass and records the
    /// verdict. A policy can be changed from `monitor` to `protect`, not the other way.
    #[serde(default)]
    #[x_kube(validation = Rule::new("oldSelf == self || self != 'monitor'")
        .message("a policy cannot go from protect to monitor: delete it and create it again")
        .reason(Reason::FieldValueForbidden))]
    pub mode: Mode,

    /// The operations on resources that this policy is asked about; a request has to match one of them.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub rules: Vec<RuleWithOperations>,

    /// Whether the background audit evaluates this policy against the objects that are already there. Set it to
    /// false if the policy has nothing meaningful to say outside a request.
    #[serde(default = "default_background_audit")]
    pub background_audit: bool,

    /// What happens to a request when the policy cannot be asked: `Fail` refuses it, `Ignore` lets it pass. `Fail`
    /// when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,

    /// Whether the rules match only what they spell out (`Exact`) or also other groups and versions of the same
    /// resource (`Equivalent`). `Equivalent` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_policy: Option<MatchPolicy>,

    /// CEL conditions that a request has to meet, all of them, besides the rules and selectors. `object`,
    /// `oldObject`, `request` and `authorizer` can be used. At most 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub match_conditions: Option<Vec<MatchCondition>>,

    /// Labels that the object or its former version must have. Whoever may set labels can step around a policy with
    /// such a selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub object_selector: Option<LabelSelector>,

    /// Whether asking the policy changes anything elsewhere, as in a webhook configuration. `None` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<String>,

    /// How many seconds the API server waits for the answer, 2 to 30. Then the failure policy decides.
    #[serde(default = "default_timeout_seconds")]
    #[schemars(range(min = 2, max = 30))]
    pub timeout_seconds: i32,
}

/// One Wasm module with its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Module {
    /// Where the Wasm module comes from: `registry://`, `https://`, `http://` or `file://`. Without a scheme it is
    /// `registry://`.
    pub module: String,

    /// The settings of the policy: an object of any shape, as the policy defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub settings: Option<Map<String, Value>>,

    /// How many seconds the module may compute for one request, 2 to 30 and not more than `timeoutSeconds`. When
    /// absent the policy server's own limit holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 30))]
    pub timeout_eval_seconds: Option<i32>,
}

/// What only cluster-wide kinds have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterScope {
    /// Labels of the namespaces whose objects this policy is asked about. Cluster-scoped objects other than
    /// namespaces always match. The controller's own namespace is left out unless
    /// `allowInsideAdmissionControllerNamespace` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub namespace_selector: Option<LabelSelector>,

    /// Whether this policy is also asked about objects in the controller's own namespace. A mistake in such a policy
    /// can keep the controller and the policy servers from starting.
    #[serde(default)]
    pub allow_inside_admission_controller_namespace: bool,

    /// The former name of `allowInsideAdmissionControllerNamespace`; either may be set.
    // A field and not a serde alias: the server fills in the default of the new name beside the old one, and an alias
    // that meets both refuses the object as a duplicate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_inside_kubewarden_namespace: Option<bool>,
}

impl ClusterScope {
    /// Whether the policy is asked about the controller's own namespace, under either spelling.
    pub fn allows_inside_own_namespace(&self) -> bool {
        self.allow_inside_admission_controller_namespace
            || self.allow_inside_kubewarden_namespace == Some(true)
    }
}

/// A kind of object that a policy may read from the cluster.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct ContextAwareResource {
    /// Group and version of the kind, `v1` or `apps/v1`.
    pub api_version: String,

    /// The kind, in the singular and with capitals: `Namespace`.
    pub kind: String,
}

/// The schema of an object in which everything is allowed and kept.
pub(crate) fn free_form(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "nullable": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

pub(crate) fn default_policy_server() -> String {
    DEFAULT_POLICY_SERVER.to_owned()
}

pub(crate) fn default_timeout_seconds() -> i32 {
    DEFAULT_TIMEOUT_SECONDS
}

fn default_background_audit() -> bool {
    true
}
