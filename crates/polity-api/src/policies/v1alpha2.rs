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

/// A policy for the requests of one namespace.
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
    doc = "A policy for the requests of one namespace."
)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionPolicySpec {
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

    /// Where the Wasm module comes from: `registry://`, `https://`, `http://` or `file://`. Without a scheme it is
    /// `registry://`.
    pub module: String,

    /// The settings of the policy: an object of any shape, as the policy defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub settings: Option<Map<String, Value>>,

    /// The operations on resources that this policy is asked about; a request has to match one of them.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub rules: Vec<RuleWithOperations>,

    /// Whether the policy may change the objects it is asked about.
    pub mutating: bool,

    /// What happens to a request when the policy cannot be asked: `Fail` refuses it, `Ignore` lets it pass. `Fail`
    /// when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,

    /// Whether the rules match only what they spell out (`Exact`) or also other groups and versions of the same
    /// resource (`Equivalent`). `Equivalent` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_policy: Option<MatchPolicy>,

    /// Labels that the object or its former version must have. Whoever may set labels can step around a policy with
    /// such a selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub object_selector: Option<LabelSelector>,

    /// Whether asking the policy changes anything elsewhere, as in a webhook configuration. `None` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<String>,

    /// How many seconds the API server waits for the answer. Then the failure policy decides.
    #[serde(default = "default_timeout_seconds")]
    pub timeout_seconds: i32,
}

/// A policy for the requests of the whole cluster.
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
    doc = "A policy for the requests of the whole cluster."
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAdmissionPolicySpec {
    #[serde(flatten)]
    pub policy: AdmissionPolicySpec,

    /// Labels of the namespaces whose objects this policy is asked about. Cluster-scoped objects other than
    /// namespaces always match.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub namespace_selector: Option<LabelSelector>,
}

/// A set of replicas that load policies and answer the API server.
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
    doc = "A set of replicas that load policies and answer the API server."
)]
#[serde(rename_all = "camelCase")]
pub struct PolicyServerSpec {
    /// The container image of the policy server.
    pub image: String,

    /// How many replicas run. 0 is allowed: nothing is served, and the failure policy of each policy decides.
    #[schemars(range(min = 0))]
    pub replicas: i32,

    /// Annotations for the workload and its pods. One that is removed here is removed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,

    /// Environment variables of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub env: Option<Vec<EnvVar>>,

    /// The service account of the pods. When absent, the controller makes one for this server alone. Servers that name
    /// the same account share its rights: each can take the Lease of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,

    /// A Secret of type `kubernetes.io/dockerconfigjson` in the controller's namespace, for pulling the image and
    /// the policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_secret: Option<String>,

    /// Hosts, as `host` or `host:port`, that policies may be pulled from without a verified certificate or over
    /// plain HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub insecure_sources: Option<Vec<String>>,

    /// The PEM certificates of the authorities to trust for a host, by `host` or `host:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_authorities: Option<BTreeMap<String, Vec<String>>>,

    /// A ConfigMap in the controller's namespace whose key `verification-config` says which signatures policies must
    /// have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification_config: Option<String>,
}
