//! The group `apps.open-cluster-management.io`, of which only the legacy PlacementRule is left.

pub mod v1 {
    //! `apps.open-cluster-management.io/v1`.

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::{Map, Value};

    use crate::policy::v1::any_object;

    /// PlacementRule selects clusters for policies. It is the predecessor of Placement; Polity reads its decisions and
    /// does not write them.
    #[derive(
        Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema,
    )]
    #[kube(
        group = "apps.open-cluster-management.io",
        version = "v1",
        kind = "PlacementRule",
        plural = "placementrules",
        namespaced,
        status = "PlacementRuleStatus",
        derive = "PartialEq",
        doc = "PlacementRule selects clusters for policies. It is the predecessor of Placement; Polity reads its decisions and does not write them."
    )]
    #[serde(rename_all = "camelCase", default)]
    pub struct PlacementRuleSpec {
        /// Labels that the clusters must have.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cluster_selector: Option<LabelSelector>,

        /// Names of the clusters to select from.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub clusters: Vec<ClusterReference>,

        /// Conditions that the clusters must have.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub cluster_conditions: Vec<ClusterConditionFilter>,

        /// Maximum number of clusters to select.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cluster_replicas: Option<i32>,

        /// Resource by which clusters are preferred.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "any_object")]
        pub resource_hint: Option<Map<String, Value>>,

        /// Name of the scheduler that selects the clusters.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub scheduler_name: Option<String>,

        /// Reserved.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[schemars(schema_with = "any_objects")]
        pub policies: Vec<Map<String, Value>>,
    }

    /// A reference to a cluster.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct ClusterReference {
        /// Name of the cluster.
        pub name: String,
    }

    /// A condition that a cluster must have.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct ClusterConditionFilter {
        /// Type of the condition.
        #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
        pub type_: Option<String>,

        /// Status of the condition.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<String>,
    }

    /// Decisions of a PlacementRule.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct PlacementRuleStatus {
        /// Selected clusters.
        pub decisions: Vec<PlacementRuleDecision>,
    }

    /// A selected cluster.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase", default)]
    pub struct PlacementRuleDecision {
        /// Name of the cluster.
        pub cluster_name: String,

        /// Namespace of the cluster on the hub.
        pub cluster_namespace: String,
    }

    fn any_objects(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        })
    }
}
