//! What `kubectl get` shows of reports.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;

use crate::crd::{age, annotation, column, wide};

/// Columns of a public report: its object, and the number of results by outcome.
pub(super) fn of_public() -> Vec<CustomResourceColumnDefinition> {
    let mut columns = vec![
        wide(column(
            "Kind",
            "string",
            ".scope.kind",
            "Kind of the object that the report is about",
        )),
        wide(column(
            "Name",
            "string",
            ".scope.name",
            "Name of the object that the report is about",
        )),
    ];
    for (name, path) in [
        ("Pass", ".summary.pass"),
        ("Fail", ".summary.fail"),
        ("Warn", ".summary.warn"),
        ("Error", ".summary.error"),
        ("Skip", ".summary.skip"),
    ] {
        columns.push(column(
            name,
            "integer",
            path,
            "Number of results with this outcome",
        ));
    }
    columns.push(age());
    columns
}

/// Columns of a resource report: its object.
pub(super) fn of_resource() -> Vec<CustomResourceColumnDefinition> {
    let name = annotation("audit.kyverno.io/resource.name");
    vec![
        column(
            "Kind",
            "string",
            ".metadata.ownerReferences[0].kind",
            "Kind of the object that the report is about",
        ),
        column(
            "Resource",
            "string",
            &name,
            "Name of the object that the report is about",
        ),
        age(),
    ]
}
