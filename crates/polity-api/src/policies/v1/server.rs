//! PolicyServer: the replicas that run policies.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvVar, PodSecurityContext, SecurityContext, Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::vocabulary::vocabulary;

/// A set of replicas that load policies and answer the API server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "policies.kubewarden.io",
    version = "v1",
    kind = "PolicyServer",
    plural = "policyservers",
    shortname = "ps",
    status = "PolicyServerStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas"
    ),
    doc = "A set of replicas that load policies and answer the API server."
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.minAvailable) && has(self.maxUnavailable))")
    .message("minAvailable and maxUnavailable cannot both be set")
    .field_path(".maxUnavailable"))]
#[x_kube(validation = Rule::new("self.webhookPort != self.readinessProbePort")
    .message("readinessProbePort must differ from webhookPort")
    .field_path(".readinessProbePort"))]
pub struct PolicyServerSpec {
    /// The container image of the policy server.
    pub image: String,

    /// How many replicas run. 0 is allowed: nothing is served, and the failure policy of each policy decides.
    #[schemars(range(min = 0))]
    pub replicas: i32,

    /// How many replicas must stay during an eviction, as a number or a percentage. Not together with
    /// `maxUnavailable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrString>,

    /// How many replicas may be missing during an eviction, as a number or a percentage. Not together with
    /// `minAvailable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,

    /// Annotations for the workload and its pods. One that is removed here is removed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,

    /// Labels for the workload and its pods. One that is removed here is removed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,

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

    /// A ConfigMap in the controller's namespace whose key `sigstore-trust-config` holds a Sigstore client trust
    /// configuration in JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigstore_trust_config: Option<String>,

    /// The security contexts of the container and the pod, instead of the defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_contexts: Option<SecurityContexts>,

    /// Where the pods may be placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,

    /// The taints that the pods tolerate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub tolerations: Option<Vec<Toleration>>,

    /// The priority class of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,

    /// The most of each resource that a replica may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, Quantity>>,

    /// The amount of each resource that a replica is promised; not more than its limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<BTreeMap<String, Quantity>>,

    /// The host capabilities that namespaced policies may use, as patterns. When absent, all; when empty, none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub namespaced_policies_capabilities: Option<Vec<String>>,

    /// The port of the container that the API server calls.
    #[serde(default = "default_webhook_port")]
    pub webhook_port: i32,

    /// The port of the container that answers readiness probes; not the same as `webhookPort`.
    #[serde(default = "default_readiness_probe_port")]
    pub readiness_probe_port: i32,

    /// The port of the Service that serves metrics. When absent, the controller's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_port: Option<i32>,

    /// Where compiled modules are kept for all replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<ModuleCache>,

    /// How many generations of each policy are kept for a rollback, besides those in use. When absent, the
    /// controller's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub revision_history_limit: Option<i32>,
}

/// Security contexts of a policy server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityContexts {
    /// For the container of the policy server. Containers that others add are left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<SecurityContext>,

    /// For the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodSecurityContext>,
}

/// The volume that replicas share for compiled modules.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.existingClaim) || !(has(self.storageClassName) || has(self.size) || self.ephemeral)")
    .message("existingClaim excludes all other fields of the cache")
    .field_path(".existingClaim"))]
#[x_kube(validation = Rule::new("!self.ephemeral || !(has(self.storageClassName) || has(self.size))")
    .message("ephemeral excludes all other fields of the cache")
    .field_path(".ephemeral"))]
pub struct ModuleCache {
    /// The storage class of the claim. When absent, the default class of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,

    /// The size of the claim, 5Gi when absent.
    // No default in the schema: it would be filled in beside existingClaim, which excludes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,

    /// A claim that exists already. Excludes all other fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing_claim: Option<String>,

    /// Give every replica a volume of its own that ends with it. Excludes all other fields.
    #[serde(default)]
    pub ephemeral: bool,
}

/// The observed state of a policy server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyServerStatus {
    /// Whether each of its objects is up to date.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The replicas that exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// The replicas that take requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,

    /// Ready and wanted replicas, as `1/2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,

    /// The policies that this server serves. They are no longer enforced once it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<i32>,
}

vocabulary! {
    /// The condition types of a policy server.
    PolicyServerConditionType {
        /// The Secret with its serving certificate.
        CertSecretReconciled,
        /// The Secret with the certificate of our authority.
        CARootSecretReconciled,
        /// Its ConfigMap.
        ConfigMapReconciled,
        /// Its workload; the name that scripts know.
        DeploymentReconciled,
        /// Its workload.
        StatefulSetReconciled,
        /// Its Service.
        ServiceReconciled,
        /// Its PodDisruptionBudget.
        PodDisruptionBudgetReconciled,
        /// While it is deleted: the webhooks of its policies are gone.
        PolicyWebhooksCleanedUp,
        /// The volume of its cache.
        CacheReconciled,
    }
}

vocabulary! {
    /// Reasons of every condition of a policy server.
    PolicyServerReason {
        /// The object is up to date.
        ReconciliationSucceeded,
        /// The object could not be applied; the message says why.
        ReconciliationFailed,
    }
}

fn default_webhook_port() -> i32 {
    8443
}

fn default_readiness_probe_port() -> i32 {
    8081
}
