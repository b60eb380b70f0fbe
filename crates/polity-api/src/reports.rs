//! Reports: the two public groups that dashboards read, and Polity's own kind behind them.
//!
//! The public kinds are shared with every other producer: their definitions are installed only where they are absent
//! ([`shared_crds`]), and Polity touches only objects that carry its managed-by label. None of these kinds has a
//! status, and the public ones have no `spec` either: all fields stand at the top.
//!
//! Results and severities are plain strings here; the schema lists the allowed ones. A field of the wrong type decodes
//! as if it were absent. Therefore a report decodes even if its producer does not follow the schema.

mod columns;
mod kind;
mod lenient;
pub mod openreports;
pub mod policyreports;
pub mod resourcereports;
mod result;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

pub use lenient::metadata as decode_metadata;
pub use result::{ReportResult, Summary, Timestamp};

/// The definitions of the public kinds, which other producers may have installed before us.
pub fn shared_crds() -> Vec<CustomResourceDefinition> {
    vec![
        policyreports::v1alpha2::PolicyReport::crd(),
        policyreports::v1alpha2::ClusterPolicyReport::crd(),
        openreports::v1alpha1::Report::crd(),
        openreports::v1alpha1::ClusterReport::crd(),
    ]
}

/// The definitions of our own kinds.
pub(crate) fn own_crds() -> Vec<CustomResourceDefinition> {
    vec![
        resourcereports::v1alpha1::ResourceReport::crd(),
        resourcereports::v1alpha1::ClusterResourceReport::crd(),
    ]
}
