//! `cluster.open-cluster-management.io/v1`: ManagedCluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::vocabulary::vocabulary;

/// ManagedCluster represents a cluster that is registered on the hub. Its namespace on the hub has the same name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1",
    kind = "ManagedCluster",
    plural = "managedclusters",
    shortname = "mcl",
    shortname = "mcls",
    status = "ManagedClusterStatus",
    derive = "PartialEq",
    doc = "ManagedCluster represents a cluster that is registered on the hub. Its namespace on the hub has the same name."
)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSpec {
    /// Whether the hub accepts the cluster. When it is set to true, the namespace of the cluster is created on the hub.
    #[serde(default)]
    pub hub_accepts_client: bool,

    /// Seconds without a lease update after which the cluster is considered unreachable.
    #[serde(default = "default_lease_duration")]
    pub lease_duration_seconds: i32,

    /// Addresses of the API server of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub managed_cluster_client_configs: Vec<ClientConfig>,

    /// Taints of the cluster. Placements that do not tolerate them do not select the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub taints: Vec<Taint>,
}

fn default_lease_duration() -> i32 {
    60
}

/// Address and certificate authority of an API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    /// URL of the API server.
    pub url: String,

    /// PEM-encoded certificate authority of the API server, base64-encoded. Defaults to the certificate authorities of
    /// the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
}

/// A taint of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Key of the taint, such as `example.com/maintenance`.
    #[schemars(length(max = 316))]
    pub key: String,

    /// Value of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,

    /// Effect on placements that do not tolerate the taint: `NoSelect` (the cluster is not selected, and is dropped if
    /// it was), `PreferNoSelect` (no effect) or `NoSelectIfNew` (the cluster is not selected anew, but stays if it
    /// was).
    pub effect: TaintEffect,

    /// Time when the taint was added. `tolerationSeconds` is counted from this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
}

/// Effect of a taint on placements that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// The cluster is not selected, and is dropped if it was selected.
    NoSelect,
    /// No effect at present.
    PreferNoSelect,
    /// The cluster is not selected, but stays if it was selected.
    NoSelectIfNew,
}

/// Observed state of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterStatus {
    /// Conditions of the cluster: whether it is accepted, joined and available, and whether its clock is synchronized.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// Total amount of each resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "resources")]
    pub capacity: BTreeMap<String, Quantity>,

    /// Amount of each resource that is available to workloads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "resources")]
    pub allocatable: BTreeMap<String, Quantity>,

    /// Versions of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<ClusterVersion>,

    /// Claims that the cluster reports about itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub cluster_claims: Vec<ClusterClaim>,

    /// Namespaces of the cluster that are managed from the hub, by cluster set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub managed_namespaces: Vec<ManagedNamespace>,
}

/// Versions of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersion {
    /// Kubernetes version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kubernetes: String,
}

/// A claim that a cluster reports about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaim {
    /// Name of the claim, such as `platform.open-cluster-management.io`.
    #[schemars(length(max = 253))]
    pub name: String,

    /// Value of the claim.
    #[schemars(length(max = 1024))]
    pub value: String,
}

/// A namespace of the cluster that is managed from the hub.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedNamespace {
    /// Name of the namespace.
    pub name: String,

    /// ManagedClusterSet that requests the namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster_set: String,

    /// Conditions of the namespace, such as whether it exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

vocabulary! {
    /// Condition types of a ManagedCluster.
    ManagedClusterConditionType {
        /// The hub has accepted the cluster.
        HubAcceptedManagedCluster,
        /// The hub has denied the cluster.
        HubDeniedManagedCluster,
        /// The agent of the cluster has registered on the hub.
        ManagedClusterJoined,
        /// The cluster updates its lease. Taints are derived from this condition.
        ManagedClusterConditionAvailable,
        /// The clock of the cluster is synchronized with the clock of the hub.
        ManagedClusterConditionClockSynced,
        /// The cluster is being deleted.
        Deleting,
    }
}

fn resources(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": { "x-kubernetes-int-or-string": true },
    })
}
