//! The group `apps.open-cluster-management.io`, of which only the legacy PlacementRule is left.

pub mod v1 {
    //! `apps.open-cluster-management.io/v1`.

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::{Map, Value};

    use crate::policy::v1::any_object;

    /// Clusters for policies, the way they were chosen before Placement.
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
        doc = "Clusters for policies, the way they were chosen before Placement. Its decisions are read, not made."
    )]
    #[serde(rename_all = "camelCase", default)]
    pub struct PlacementRuleSpec {
        /// Labels that the clusters must have.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cluster_selector: Option<LabelSelector>,

        /// The clusters by name.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub clusters: Vec<ClusterReference>,

        /// Conditions that the clusters must have.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub cluster_conditions: Vec<ClusterConditionFilter>,

        /// How many clusters at most.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cluster_replicas: Option<i32>,

        /// By which resource clusters are preferred.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "any_object")]
        pub resource_hint: Option<Map<String, Value>>,

        /// Who decides.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub scheduler_name: Option<String>,

        /// Reserved.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[schemars(schema_with = "any_objects")]
        pub policies: Vec<Map<String, Value>>,
    }

    /// A cluster by name.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct ClusterReference {
        /// The name.
        pub name: String,
    }

    /// A condition that a cluster must have.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct ClusterConditionFilter {
        /// The type of the condition.
        #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
        pub type_: Option<String>,

        /// Its status.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<String>,
    }

    /// The decisions of a rule.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct PlacementRuleStatus {
        /// The clusters that were chosen.
        pub decisions: Vec<PlacementRuleDecision>,
    }

    /// A cluster that was chosen.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase", default)]
    pub struct PlacementRuleDecision {
        /// The cluster.
        pub cluster_name: String,

        /// Its namespace on the hub.
        pub cluster_namespace: String,
    }

    fn any_objects(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        })
    }
}
