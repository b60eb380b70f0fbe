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

/// PolicyServer runs a set of replicas that load policies and evaluate admission requests.
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
    doc = "PolicyServer runs a set of replicas that load policies and evaluate admission requests."
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.minAvailable) && has(self.maxUnavailable))")
    .message("minAvailable and maxUnavailable cannot both be set")
    .field_path(".maxUnavailable"))]
#[x_kube(validation = Rule::new("self.webhookPort != self.readinessProbePort")
    .message("readinessProbePort must differ from webhookPort")
    .field_path(".readinessProbePort"))]
pub struct PolicyServerSpec {
    /// Container image of the policy server.
    pub image: String,

    /// Number of replicas. With 0 replicas no policy is served, and the failure policy of each policy applies.
    #[schemars(range(min = 0))]
    pub replicas: i32,

    /// Number or percentage of replicas that must remain available during an eviction. Cannot be set together with
    /// `maxUnavailable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrString>,

    /// Number or percentage of replicas that may be unavailable during an eviction. Cannot be set together with
    /// `minAvailable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,

    /// Annotations added to the workload and its pods. An annotation removed here is removed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,

    /// Labels added to the workload and its pods. A label removed here is removed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,

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

    /// ConfigMap in the namespace of the controller whose key `sigstore-trust-config` contains a Sigstore client trust
    /// configuration in JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigstore_trust_config: Option<String>,

    /// Security contexts of the container and the pod. Replaces the defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_contexts: Option<SecurityContexts>,

    /// Scheduling constraints of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,

    /// Taints that the pods tolerate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub tolerations: Option<Vec<Toleration>>,

    /// Name of the PriorityClass of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,

    /// Maximum amount of each resource that a replica may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, Quantity>>,

    /// Amount of each resource that is reserved for a replica. Must not exceed the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<BTreeMap<String, Quantity>>,

    /// Patterns of the host capabilities that namespaced policies may use. If not set, all are allowed; if empty, none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub namespaced_policies_capabilities: Option<Vec<String>>,

    /// Container port that receives admission requests.
    #[serde(default = "default_webhook_port")]
    pub webhook_port: i32,

    /// Container port that answers readiness probes. Must differ from `webhookPort`.
    #[serde(default = "default_readiness_probe_port")]
    pub readiness_probe_port: i32,

    /// Service port that serves metrics. Defaults to the setting of the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_port: Option<i32>,

    /// Volume in which replicas share compiled modules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<ModuleCache>,

    /// Number of generations of each policy to keep for a rollback, in addition to the generations in use. Defaults to
    /// the setting of the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub revision_history_limit: Option<i32>,
}

/// Security contexts of a policy server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityContexts {
    /// Security context of the policy server container. Containers added by other tools are not changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<SecurityContext>,

    /// Security context of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodSecurityContext>,
}

/// Volume in which replicas share compiled modules.
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
    /// StorageClass of the PersistentVolumeClaim. Defaults to the default StorageClass of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,

    /// Size of the PersistentVolumeClaim. Defaults to 5Gi.
    // No default in the schema: it would be filled in beside existingClaim, which excludes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,

    /// Name of an existing PersistentVolumeClaim. Cannot be combined with other fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing_claim: Option<String>,

    /// Whether every replica has a volume of its own that is deleted with it. Cannot be combined with other fields.
    #[serde(default)]
    pub ephemeral: bool,
}

/// Observed state of a policy server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyServerStatus {
    /// One condition for each object that the controller manages for the policy server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// Number of existing replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// Number of replicas that are ready to receive requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,

    /// Ready and desired replicas, such as `1/2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,

    /// Number of policies that this policy server serves. They are not enforced after the policy server is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<i32>,
}

vocabulary! {
    /// Condition types of a policy server. Each reports whether an object of the policy server is up to date.
    PolicyServerConditionType {
        /// Secret with the serving certificate.
        CertSecretReconciled,
        /// Secret with the certificate authority.
        CARootSecretReconciled,
        /// ConfigMap with the configuration of the policy server.
        ConfigMapReconciled,
        /// Workload of the policy server, under the name that scripts wait for.
        DeploymentReconciled,
        /// StatefulSet of the policy server.
        StatefulSetReconciled,
        /// Service that the webhooks call.
        ServiceReconciled,
        /// PodDisruptionBudget of the policy server.
        PodDisruptionBudgetReconciled,
        /// During deletion: the webhooks of all its policies are deleted.
        PolicyWebhooksCleanedUp,
        /// PersistentVolumeClaim of the module cache.
        CacheReconciled,
    }
}

vocabulary! {
    /// Reasons of the conditions of a policy server.
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
