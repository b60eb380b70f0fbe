//! `policies.kubewarden.io/v1alpha2`: served for old manifests, deprecated, never stored.
//!
//! Each kind has a subset of the fields of `v1`, spelled the same, so an object of one version is read as the other by
//! changing `apiVersion` alone. The status is that of `v1`: a smaller schema would cut down what others wrote there.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::api::core::v1::EnvVar;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::v1::{
    FailurePolicy, MatchPolicy, Mode, PolicyServerStatus, PolicyStatus, default_policy_server,
    default_timeout_seconds, free_form,
};

/// AdmissionPolicy evaluates admission requests for objects in its own namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policies.kubewarden.io",
    version = "v1alpha2",
    kind = "AdmissionPolicy",
    plural = "admissionpolicies",
    shortname = "ap",
    namespaced,
    storage = false,
    deprecated = "policies.kubewarden.io/v1alpha2 AdmissionPolicy is deprecated; use policies.kubewarden.io/v1",
    status = "PolicyStatus",
    derive = "PartialEq",
    doc = "AdmissionPolicy evaluates admission requests for objects in its own namespace."
)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionPolicySpec {
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

    /// Location of the Wasm module: a `registry://`, `https://`, `http://` or `file://` URL. Without a scheme,
    /// `registry://` is assumed.
    pub module: String,

    /// Settings of the policy. The fields are defined by the policy itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub settings: Option<Map<String, Value>>,

    /// Operations and resources that this policy evaluates. A request is evaluated when it matches at least one rule.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub rules: Vec<RuleWithOperations>,

    /// Whether the policy may modify the objects that it evaluates.
    pub mutating: bool,

    /// How a request is handled when the policy cannot be evaluated: `Fail` denies the request, `Ignore` allows it.
    /// Defaults to `Fail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,

    /// Whether a rule matches only the groups and versions it lists (`Exact`) or also other groups and versions of the
    /// same resource (`Equivalent`). Defaults to `Equivalent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_policy: Option<MatchPolicy>,

    /// Selects objects by label. A request is evaluated when the new or the old object matches. Users who can set
    /// labels can bypass a policy with an object selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub object_selector: Option<LabelSelector>,

    /// Whether evaluating the policy has side effects, as in a webhook configuration. Defaults to `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<String>,

    /// Time in seconds that the API server waits for a verdict before it applies the failure policy.
    #[serde(default = "default_timeout_seconds")]
    pub timeout_seconds: i32,
}

/// ClusterAdmissionPolicy evaluates admission requests in the whole cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policies.kubewarden.io",
    version = "v1alpha2",
    kind = "ClusterAdmissionPolicy",
    plural = "clusteradmissionpolicies",
    shortname = "cap",
    storage = false,
    deprecated = "policies.kubewarden.io/v1alpha2 ClusterAdmissionPolicy is deprecated; use policies.kubewarden.io/v1",
    status = "PolicyStatus",
    derive = "PartialEq",
    doc = "ClusterAdmissionPolicy evaluates admission requests in the whole cluster."
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAdmissionPolicySpec {
    #[serde(flatten)]
    pub policy: AdmissionPolicySpec,

    /// Selects the namespaces, by label, whose objects this policy evaluates. Cluster-scoped objects other than
    /// namespaces always match.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub namespace_selector: Option<LabelSelector>,
}

/// PolicyServer runs a set of replicas that load policies and evaluate admission requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policies.kubewarden.io",
    version = "v1alpha2",
    kind = "PolicyServer",
    plural = "policyservers",
    shortname = "ps",
    storage = false,
    deprecated = "policies.kubewarden.io/v1alpha2 PolicyServer is deprecated; use policies.kubewarden.io/v1",
    status = "PolicyServerStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas"
    ),
    doc = "PolicyServer runs a set of replicas that load policies and evaluate admission requests."
)]
#[serde(rename_all = "camelCase")]
pub struct PolicyServerSpec {
    /// Container image of the policy server.
    pub image: String,

    /// Number of replicas. With 0 replicas no policy is served, and the failure policy of each policy applies.
    #[schemars(range(min = 0))]
    pub replicas: i32,

    /// Annotations added to the workload and its pods. An annotation removed here is removed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,

    /// Environment variables of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub env: Option<Vec<EnvVar>>,

    /// ServiceAccount of the pods. If not set, the controller creates one for this server. Servers that share a
    /// ServiceAccount share its permissions: each of them can acquire the Lease of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,

    /// Secret of type `kubernetes.io/dockerconfigjson` in the namespace of the controller, used to pull the image and
    /// the modules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_secret: Option<String>,

    /// Hosts, as `host` or `host:port`, from which modules may be pulled over plain HTTP or without verifying the
    /// certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub insecure_sources: Option<Vec<String>>,

    /// PEM-encoded certificates of the authorities to trust for a host, by `host` or `host:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_authorities: Option<BTreeMap<String, Vec<String>>>,

    /// ConfigMap in the namespace of the controller whose key `verification-config` contains the signatures that
    /// modules must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification_config: Option<String>,
}
