//! `cluster.open-cluster-management.io/v1`: ManagedCluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::vocabulary::vocabulary;

/// A cluster that is registered on the hub; its hub namespace has the same name.
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
    doc = "A cluster that is registered on the hub; its hub namespace has the same name."
)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSpec {
    /// Whether the hub lets the cluster in. Accepting it creates its namespace on the hub.
    #[serde(default)]
    pub hub_accepts_client: bool,

    /// How many seconds may pass between two signs of life before the cluster counts as unreachable.
    #[serde(default = "default_lease_duration")]
    pub lease_duration_seconds: i32,

    /// Where the API server of the cluster is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub managed_cluster_client_configs: Vec<ClientConfig>,

    /// Marks that keep placements away which do not tolerate them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub taints: Vec<Taint>,
}

fn default_lease_duration() -> i32 {
    60
}

/// Where an API server is, and how to trust it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    /// The address of the API server.
    pub url: String,

    /// The certificate authority of its certificate, PEM in base64; that of the system when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
}

/// A mark on a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// What the mark is about, such as `example.com/maintenance`.
    #[schemars(length(max = 316))]
    pub key: String,

    /// More about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,

    /// What happens to placements that do not tolerate it.
    pub effect: TaintEffect,

    /// When the taint was set; tolerations with a time count from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
}

/// What a taint does to placements that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// They do not choose the cluster, and drop it if they had.
    NoSelect,
    /// A wish, without effect.
    PreferNoSelect,
    /// They keep the cluster if they had it already.
    NoSelectIfNew,
}

/// What is known of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterStatus {
    /// Whether the cluster was let in, has joined, is available, and whether its clock is right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// What the cluster has of each resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "resources")]
    pub capacity: BTreeMap<String, Quantity>,

    /// What workloads may use of each resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "resources")]
    pub allocatable: BTreeMap<String, Quantity>,

    /// The versions of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<ClusterVersion>,

    /// What the cluster says of itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub cluster_claims: Vec<ClusterClaim>,

    /// The namespaces of the cluster that are managed from the hub, each with the set that asks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub managed_namespaces: Vec<ManagedNamespace>,
}

/// The versions of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersion {
    /// The version of Kubernetes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kubernetes: String,
}

/// One thing that a cluster says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaim {
    /// What it is about, such as `platform.open-cluster-management.io`.
    #[schemars(length(max = 253))]
    pub name: String,

    /// What the cluster says about it.
    #[schemars(length(max = 1024))]
    pub value: String,
}

/// A namespace of the cluster that is managed from the hub.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedNamespace {
    /// The name of the namespace.
    pub name: String,

    /// The set that asks for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster_set: String,

    /// Whether the namespace is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

vocabulary! {
    /// The types of a cluster's conditions.
    ManagedClusterConditionType {
        /// The hub has let the cluster in.
        HubAcceptedManagedCluster,
        /// The hub has shut the cluster out.
        HubDeniedManagedCluster,
        /// The agent of the cluster has registered.
        ManagedClusterJoined,
        /// The cluster answers; taints follow from it.
        ManagedClusterConditionAvailable,
        /// The clock of the cluster agrees with that of the hub.
        ManagedClusterConditionClockSynced,
        /// The cluster is on its way out.
        Deleting,
    }
}

fn resources(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": { "x-kubernetes-int-or-string": true },
    })
}
