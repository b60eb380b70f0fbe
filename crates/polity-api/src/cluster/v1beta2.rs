//! `cluster.open-cluster-management.io/v1beta2`: sets of clusters, and namespaces that may choose from them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A set of clusters. The sets `default` and `global` always exist.
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
    doc = "A set of clusters. The sets `default` and `global` always exist."
)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetSpec {
    /// How the members are found.
    #[serde(default)]
    pub cluster_selector: ManagedClusterSelector,
}

/// How the members of a set are found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSelector {
    /// `ExclusiveClusterSetLabel`: clusters carry the label `cluster.open-cluster-management.io/clusterset` with the
    /// name of the set. `LabelSelector`: clusters that `labelSelector` selects.
    #[serde(default)]
    pub selector_type: SelectorType,

    /// The labels of the members; the empty selector means all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub label_selector: Option<LabelSelector>,
}

/// The ways to find members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorType {
    /// By the label that names the set; a cluster is in one such set only.
    #[default]
    ExclusiveClusterSetLabel,
    /// By any labels.
    LabelSelector,
}

/// What is known of a set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetStatus {
    /// `ClusterSetEmpty`: whether there is no member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Lets the placements of a namespace choose from a set. Its name is that of the set.
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
    doc = "Lets the placements of a namespace choose from a set. Its name is that of the set."
)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetBindingSpec {
    /// The name of the set, which is also the name of this object.
    #[schemars(length(min = 1))]
    pub cluster_set: String,
}

/// What is known of a binding.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetBindingStatus {
    /// `Bound`: whether the set exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
