//! The group `openreports.io`: the same results, for consumers that read this group.

/// The API group of every kind in this module.
pub const GROUP: &str = "openreports.io";

/// The first version.
pub mod v1alpha1 {
    use k8s_openapi::api::core::v1::ObjectReference;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use serde::{Deserialize, Serialize};

    use crate::reports::columns::of_public;
    use crate::reports::kind::report_kind;
    use crate::reports::result::{ReportResult, Summary, outcome};

    /// The fields of a report, beside its metadata.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub struct ReportBody {
        /// The engine of all results that name no other.
        #[serde(default)]
        pub source: String,

        /// The one object that the whole report is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub scope: Option<ObjectReference>,

        /// The objects that the report is about, by their labels; never together with `scope`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub scope_selector: Option<LabelSelector>,

        /// What producer and consumer agreed on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub configuration: Option<Configuration>,

        /// How many results there are of each outcome.
        #[serde(default)]
        pub summary: Summary,

        /// What policies say.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub results: Vec<ReportResult>,
    }

    /// What producer and consumer of a report agreed on.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct Configuration {
        /// How much is reported.
        pub limits: Limits,
    }

    /// How much is reported.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub struct Limits {
        /// The most results in one report.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub max_results: Option<i64>,

        /// The only outcomes that are present.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schemars(schema_with = "outcomes")]
        pub status_filter: Vec<String>,
    }

    fn outcomes(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": outcome(generator) })
    }

    report_kind! {
        /// What a policy says about the objects of a namespace.
        Report of ReportBody,
        group: "openreports.io", version: "v1alpha1", plural: "reports", short: "reps",
        scope: NamespaceResourceScope as "Namespaced", columns: of_public
    }

    report_kind! {
        /// What a policy says about cluster-scoped objects.
        ClusterReport of ReportBody,
        group: "openreports.io", version: "v1alpha1", plural: "clusterreports", short: "creps",
        scope: ClusterResourceScope as "Cluster", columns: of_public
    }
}
