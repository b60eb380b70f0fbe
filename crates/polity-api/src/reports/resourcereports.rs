//! The group `reports.polity.dev`: all that policies say about one object, from which public reports are folded.

/// The API group of every kind in this module.
pub const GROUP: &str = "reports.polity.dev";

/// The first version.
pub mod v1alpha1 {
    use std::collections::BTreeMap;

    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use crate::reports::columns::of_resource;
    use crate::reports::kind::report_kind;
    use crate::reports::result::{Timestamp, outcome};

    /// The fields of a resource report, beside its metadata.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct ResourceReportBody {
        /// What policies say about the object.
        #[serde(default)]
        pub spec: ResourceReportSpec,
    }

    /// What policies say about one object.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct ResourceReportSpec {
        /// By policy and rule, so that several writers can each patch what is theirs: `cpol/no-privileged/`.
        #[serde(default)]
        pub results: BTreeMap<String, ResourceResult>,
    }

    /// What one policy says about the object.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct ResourceResult {
        /// What became of the evaluation.
        #[schemars(schema_with = "outcome")]
        pub result: String,

        /// Why it is so, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub message: Option<String>,

        /// When this verdict first appeared.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub timestamp: Option<Timestamp>,

        /// More about the policy and the way the result was found. A list, so that a merge patch replaces all of it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub properties: Vec<Property>,
    }

    /// A name and a value.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct Property {
        /// What it is.
        pub name: String,

        /// How it is.
        #[serde(default)]
        pub value: String,
    }

    report_kind! {
        /// All that policies say about one object of a namespace. Written and removed by Polity.
        ResourceReport of ResourceReportBody,
        group: "reports.polity.dev", version: "v1alpha1", plural: "resourcereports", short: "rrep",
        scope: NamespaceResourceScope as "Namespaced", columns: of_resource
    }

    report_kind! {
        /// All that policies say about one cluster-scoped object. Written and removed by Polity.
        ClusterResourceReport of ResourceReportBody,
        group: "reports.polity.dev", version: "v1alpha1", plural: "clusterresourcereports", short: "crrep",
        scope: ClusterResourceScope as "Cluster", columns: of_resource
    }
}
