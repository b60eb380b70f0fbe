//! What policies and policy groups have in common.

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, RuleWithOperations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Name of the policy server of a policy that names none.
pub const DEFAULT_POLICY_SERVER: &str = "default";

/// Default of `timeoutSeconds`.
pub const DEFAULT_TIMEOUT_SECONDS: i32 = 10;

/// How a request that a policy rejects is handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The request is denied.
    #[default]
    Protect,
    /// The request is allowed and the verdict is recorded.
    Monitor,
}

/// How a request is handled when the policy cannot be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// The request is denied.
    Fail,
    /// The request is allowed.
    Ignore,
}

/// Whether rules also match other groups and versions of the same resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MatchPolicy {
    /// Only the groups and versions that the rules list.
    Exact,
    /// Also requests for the same resource through another group or version.
    Equivalent,
}

/// Which requests a policy or group evaluates, and how its verdict is applied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Enforcement {
    /// Name of the PolicyServer that runs this policy. It cannot be changed after creation.
    #[serde(default = "default_policy_server")]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("the policy server cannot be changed: delete the policy and create it again"))]
    pub policy_server: String,

    /// How a request that the policy rejects is handled: `protect` denies the request, `monitor` allows it and records
    /// the verdict. A policy can be changed from `monitor` to `protect`, but not back.
    #[serde(default)]
    #[x_kube(validation = Rule::new("oldSelf == self || self != 'monitor'")
        .message("a policy cannot go from protect to monitor: delete it and create it again")
        .reason(Reason::FieldValueForbidden))]
    pub mode: Mode,

    /// Operations and resources that this policy evaluates. A request is evaluated when it matches at least one rule.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub rules: Vec<RuleWithOperations>,

    /// Whether the background audit evaluates this policy against existing objects. Set it to false if the policy
    /// depends on information that only a request has.
    #[serde(default = "default_background_audit")]
    pub background_audit: bool,

    /// How a request is handled when the policy cannot be evaluated: `Fail` denies the request, `Ignore` allows it.
    /// Defaults to `Fail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,

    /// Whether a rule matches only the groups and versions it lists (`Exact`) or also other groups and versions of the
    /// same resource (`Equivalent`). Defaults to `Equivalent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_policy: Option<MatchPolicy>,

    /// CEL expressions that must all be true for a request to be evaluated, in addition to the rules and selectors. The
    /// variables `object`, `oldObject`, `request` and `authorizer` are available. At most 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub match_conditions: Option<Vec<MatchCondition>>,

    /// Selects objects by label. A request is evaluated when the new or the old object matches. Users who can set
    /// labels can bypass a policy with an object selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub object_selector: Option<LabelSelector>,

    /// Whether evaluating the policy has side effects, as in a webhook configuration. Defaults to `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<String>,

    /// Time in seconds, 2 to 30, that the API server waits for a verdict before it applies the failure policy.
    #[serde(default = "default_timeout_seconds")]
    #[schemars(range(min = 2, max = 30))]
    pub timeout_seconds: i32,
}

/// A Wasm module and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Module {
    /// Location of the Wasm module: a `registry://`, `https://`, `http://` or `file://` URL. Without a scheme,
    /// `registry://` is assumed.
    pub module: String,

    /// Settings of the policy. The fields are defined by the policy itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub settings: Option<Map<String, Value>>,

    /// Time in seconds, 2 to 30 and at most `timeoutSeconds`, that the module may run for one request. Defaults to the
    /// limit of the policy server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 30))]
    pub timeout_eval_seconds: Option<i32>,
}

/// Fields of cluster-scoped policies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterScope {
    /// Selects the namespaces, by label, whose objects this policy evaluates. Cluster-scoped objects other than
    /// namespaces always match. The namespace of the controller is excluded unless
    /// `allowInsideAdmissionControllerNamespace` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub namespace_selector: Option<LabelSelector>,

    /// Whether this policy also evaluates objects in the namespace of the controller. An error in such a policy can
    /// prevent the controller and the policy servers from starting.
    #[serde(default)]
    pub allow_inside_admission_controller_namespace: bool,

    /// Deprecated: use `allowInsideAdmissionControllerNamespace`. Setting either field has the same effect.
    // A field and not a serde alias: the server fills in the default of the new name beside the old one, and an alias
    // that meets both refuses the object as a duplicate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_inside_kubewarden_namespace: Option<bool>,
}

impl ClusterScope {
    /// Whether the policy evaluates objects in the namespace of the controller, by either field.
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
    /// API group and version of the kind, such as `v1` or `apps/v1`.
    pub api_version: String,

    /// Kind of the objects, such as `Namespace`.
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
