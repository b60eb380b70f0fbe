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
            "Whether the hub lets the cluster in",
        ),
        column(
            "Managed Cluster URLs",
            "string",
            ".spec.managedClusterClientConfigs[*].url",
            "Where its API server is",
        ),
        column(
            "Joined",
            "string",
            &condition("ManagedClusterJoined", "status"),
            "Whether its agent has registered",
        ),
        column(
            "Available",
            "string",
            &condition("ManagedClusterConditionAvailable", "status"),
            "Whether it answers",
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
            "Whether it has no member",
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
            "Whether as many clusters were chosen as were asked for",
        ),
        column(
            "Reason",
            "string",
            &condition("PlacementSatisfied", "reason"),
            "Why, in one word",
        ),
        column(
            "SelectedClusters",
            "integer",
            ".status.numberOfSelectedClusters",
            "How many clusters were chosen",
        ),
    ]
}

fn condition(type_: &str, field: &str) -> String {
    format!(r#".status.conditions[?(@.type=="{type_}")].{field}"#)
}
