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
    use crate::reports::lenient;
    use crate::reports::result::{Timestamp, outcome};

    /// Fields of a resource report besides its metadata.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct ResourceReportBody {
        /// Results of all policies for the object.
        #[serde(default)]
        pub spec: ResourceReportSpec,
    }

    /// Results of all policies for one object.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct ResourceReportSpec {
        /// Results by policy and rule, such as `cpol/no-privileged/`. A map, so that several writers can each patch
        /// their own results.
        #[serde(default, deserialize_with = "lenient::map")]
        pub results: BTreeMap<String, ResourceResult>,
    }

    /// Result of one policy for the object.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct ResourceResult {
        /// Outcome of the evaluation.
        #[serde(deserialize_with = "lenient::or_default")]
        #[schemars(schema_with = "outcome")]
        pub result: String,

        /// Explanation of the result.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "lenient::or_default"
        )]
        pub message: Option<String>,

        /// Time when this result was first observed.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "lenient::timestamp"
        )]
        pub timestamp: Option<Timestamp>,

        /// Additional information about the policy and the evaluation. A list, so that a merge patch replaces all of
        /// it.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "lenient::list"
        )]
        pub properties: Vec<Property>,
    }

    /// A named value.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct Property {
        /// Name of the property.
        #[serde(deserialize_with = "lenient::or_default")]
        pub name: String,

        /// Value of the property.
        #[serde(default, deserialize_with = "lenient::or_default")]
        pub value: String,
    }

    report_kind! {
        /// Results of all policies for one object in a namespace. Written and deleted by Polity.
        ResourceReport of ResourceReportBody,
        group: "reports.polity.dev", version: "v1alpha1", plural: "resourcereports", short: "rrep",
        scope: NamespaceResourceScope as "Namespaced", columns: of_resource
    }

    report_kind! {
        /// Results of all policies for one cluster-scoped object. Written and deleted by Polity.
        ClusterResourceReport of ResourceReportBody,
        group: "reports.polity.dev", version: "v1alpha1", plural: "clusterresourcereports", short: "crrep",
        scope: ClusterResourceScope as "Cluster", columns: of_resource
    }
}
