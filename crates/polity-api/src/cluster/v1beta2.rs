//! `cluster.open-cluster-management.io/v1beta2`: sets of clusters, and namespaces that may choose from them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// ManagedClusterSet is a set of clusters. The sets `default` and `global` always exist.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta2",
    kind = "ManagedClusterSet",
    plural = "managedclustersets",
    shortname = "mclset",
    shortname = "mclsets",
    status = "ManagedClusterSetStatus",
    derive = "PartialEq",
    doc = "ManagedClusterSet is a set of clusters. The sets `default` and `global` always exist."
)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetSpec {
    /// Selects the clusters of the set.
    #[serde(default)]
    pub cluster_selector: ManagedClusterSelector,
}

/// Selects the clusters of a set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSelector {
    /// `ExclusiveClusterSetLabel` selects clusters whose label `cluster.open-cluster-management.io/clusterset` is the
    /// name of the set. `LabelSelector` selects clusters by `labelSelector`.
    #[serde(default)]
    pub selector_type: SelectorType,

    /// Labels of the clusters. The empty selector selects all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub label_selector: Option<LabelSelector>,
}

/// How the clusters of a set are selected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorType {
    /// By the label that contains the name of the set. A cluster belongs to one such set only.
    #[default]
    ExclusiveClusterSetLabel,
    /// By a label selector.
    LabelSelector,
}

/// Observed state of a ManagedClusterSet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetStatus {
    /// Condition `ClusterSetEmpty`: whether the set has no clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// ManagedClusterSetBinding allows the Placements of its namespace to select from a ManagedClusterSet. Its name is the
/// name of the set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta2",
    kind = "ManagedClusterSetBinding",
    plural = "managedclustersetbindings",
    shortname = "mclsetbinding",
    shortname = "mclsetbindings",
    namespaced,
    status = "ManagedClusterSetBindingStatus",
    derive = "PartialEq",
    doc = "ManagedClusterSetBinding allows the Placements of its namespace to select from a ManagedClusterSet. Its name is the name of the set."
)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetBindingSpec {
    /// Name of the ManagedClusterSet. Must be the name of this object.
    #[schemars(length(min = 1))]
    pub cluster_set: String,
}

/// Observed state of a ManagedClusterSetBinding.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetBindingStatus {
    /// Condition `Bound`: whether the set exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
