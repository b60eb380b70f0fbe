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
    use crate::reports::lenient;
    use crate::reports::policyreports::v1alpha2::PolicyReportBody;
    use crate::reports::result::{ReportResult, Summary, outcome};

    /// Fields of a report besides its metadata.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub struct ReportBody {
        /// Policy engine that produced the results which have no `source` of their own.
        #[serde(default, deserialize_with = "lenient::or_default")]
        pub source: String,

        /// Object that all results of the report are about.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "lenient::reference"
        )]
        pub scope: Option<ObjectReference>,

        /// Selects by label the objects that the report is about. Cannot be set together with `scope`.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "lenient::selector"
        )]
        pub scope_selector: Option<LabelSelector>,

        /// Limits that the producer applied to the report.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "lenient::or_default"
        )]
        pub configuration: Option<Configuration>,

        /// Number of results by outcome.
        #[serde(default, deserialize_with = "lenient::or_default")]
        pub summary: Summary,

        /// Results of policies.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub results: Vec<ReportResult>,
    }

    /// Limits that the producer of a report applied.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct Configuration {
        /// Limits on the results in the report.
        pub limits: Limits,
    }

    /// Limits on the results in a report.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub struct Limits {
        /// Maximum number of results in the report.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "lenient::or_default"
        )]
        pub max_results: Option<i64>,

        /// Outcomes that the report includes. Results with other outcomes are omitted.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "lenient::string_list"
        )]
        #[schemars(schema_with = "outcomes")]
        pub status_filter: Vec<String>,
    }

    /// The same report in this group, which has all fields of the other one.
    impl From<PolicyReportBody> for ReportBody {
        fn from(body: PolicyReportBody) -> Self {
            Self {
                source: String::new(),
                scope: body.scope,
                scope_selector: body.scope_selector,
                configuration: None,
                summary: body.summary,
                results: body.results,
            }
        }
    }

    /// The same report in the other group, which has neither a source nor a configuration.
    impl From<ReportBody> for PolicyReportBody {
        fn from(body: ReportBody) -> Self {
            Self {
                scope: body.scope,
                scope_selector: body.scope_selector,
                summary: body.summary,
                results: body.results,
            }
        }
    }

    fn outcomes(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": outcome(generator) })
    }

    report_kind! {
        /// Results of policies for the objects of a namespace.
        Report of ReportBody,
        group: "openreports.io", version: "v1alpha1", plural: "reports", short: "reps",
        scope: NamespaceResourceScope as "Namespaced", columns: of_public
    }

    report_kind! {
        /// Results of policies for cluster-scoped objects.
        ClusterReport of ReportBody,
        group: "openreports.io", version: "v1alpha1", plural: "clusterreports", short: "creps",
        scope: ClusterResourceScope as "Cluster", columns: of_public
    }
}
