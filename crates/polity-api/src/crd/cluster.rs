//! The definitions of `cluster.open-cluster-management.io`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};
use kube::CustomResourceExt;

use super::{age, column, definition};
use crate::cluster::{v1, v1alpha1, v1beta1, v1beta2};

pub(super) fn definitions() -> Vec<CustomResourceDefinition> {
    vec![
        definition(vec![v1::ManagedCluster::crd()], &cluster_columns()),
        definition(vec![v1beta2::ManagedClusterSet::crd()], &set_columns()),
        definition(vec![v1beta2::ManagedClusterSetBinding::crd()], &[]),
        definition(vec![v1beta1::Placement::crd()], &placement_columns()),
        definition(vec![v1beta1::PlacementDecision::crd()], &[]),
        definition(vec![v1alpha1::AddOnPlacementScore::crd()], &[]),
        definition(vec![v1alpha1::ClusterClaim::crd()], &[]),
    ]
}

fn cluster_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Hub Accepted",
            "boolean",
            ".spec.hubAcceptsClient",
            "Whether the hub accepts the cluster",
        ),
        column(
            "Managed Cluster URLs",
            "string",
            ".spec.managedClusterClientConfigs[*].url",
            "URLs of the API server of the cluster",
        ),
        column(
            "Joined",
            "string",
            &condition("ManagedClusterJoined", "status"),
            "Whether the agent of the cluster has registered",
        ),
        column(
            "Available",
            "string",
            &condition("ManagedClusterConditionAvailable", "status"),
            "Whether the cluster is available",
        ),
        age(),
    ]
}

fn set_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Empty",
            "string",
            &condition("ClusterSetEmpty", "status"),
            "Whether the set has no clusters",
        ),
        age(),
    ]
}

fn placement_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Succeeded",
            "string",
            &condition("PlacementSatisfied", "status"),
            "Whether as many clusters were selected as requested",
        ),
        column(
            "Reason",
            "string",
            &condition("PlacementSatisfied", "reason"),
            "Reason for the status",
        ),
        column(
            "SelectedClusters",
            "integer",
            ".status.numberOfSelectedClusters",
            "Number of selected clusters",
        ),
    ]
}

fn condition(type_: &str, field: &str) -> String {
    format!(r#".status.conditions[?(@.type=="{type_}")].{field}"#)
}
