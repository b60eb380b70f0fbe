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
    use crate::reports::result::{ReportResult, Summary};

    /// The fields of a report, beside its metadata.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub struct PolicyReportBody {
        /// The one object that the whole report is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub scope: Option<ObjectReference>,

        /// The objects that the report is about, by their labels; never together with `scope`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub scope_selector: Option<LabelSelector>,

        /// How many results there are of each outcome.
        #[serde(default)]
        pub summary: Summary,

        /// What policies say.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub results: Vec<ReportResult>,
    }

    report_kind! {
        /// What a policy says about the objects of a namespace.
        PolicyReport of PolicyReportBody,
        group: "wgpolicyk8s.io", version: "v1alpha2", plural: "policyreports", short: "polr",
        scope: NamespaceResourceScope as "Namespaced", columns: of_public
    }

    report_kind! {
        /// What a policy says about cluster-scoped objects.
        ClusterPolicyReport of PolicyReportBody,
        group: "wgpolicyk8s.io", version: "v1alpha2", plural: "clusterpolicyreports", short: "cpolr",
        scope: ClusterResourceScope as "Cluster", columns: of_public
    }
}
