//! The group `wgpolicyk8s.io`: what Polity writes unless told otherwise.

/// The API group of every kind in this module.
pub const GROUP: &str = "wgpolicyk8s.io";

/// The version that every producer serves.
pub mod v1alpha2 {
    use k8s_openapi::api::core::v1::ObjectReference;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use crate::reports::columns::of_public;
    use crate::reports::kind::report_kind;
    use crate::reports::lenient;
    use crate::reports::result::{ReportResult, Summary};

    /// Fields of a report besides its metadata.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub struct PolicyReportBody {
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

        /// Number of results by outcome.
        #[serde(default, deserialize_with = "lenient::or_default")]
        pub summary: Summary,

        /// Results of policies.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub results: Vec<ReportResult>,
    }

    report_kind! {
        /// Results of policies for the objects of a namespace.
        PolicyReport of PolicyReportBody,
        group: "wgpolicyk8s.io", version: "v1alpha2", plural: "policyreports", short: "polr",
        scope: NamespaceResourceScope as "Namespaced", columns: of_public
    }

    report_kind! {
        /// Results of policies for cluster-scoped objects.
        ClusterPolicyReport of PolicyReportBody,
        group: "wgpolicyk8s.io", version: "v1alpha2", plural: "clusterpolicyreports", short: "cpolr",
        scope: ClusterResourceScope as "Cluster", columns: of_public
    }
}
