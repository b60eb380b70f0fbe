//! What `kubectl get` shows of reports.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;

use crate::crd::{age, annotation, column, wide};

/// Whom a public report is about, and how many results there are of each outcome.
pub(super) fn of_public() -> Vec<CustomResourceColumnDefinition> {
    let mut columns = vec![
        wide(column(
            "Kind",
            "string",
            ".scope.kind",
            "The kind of the object it is about",
        )),
        wide(column(
            "Name",
            "string",
            ".scope.name",
            "The name of the object it is about",
        )),
    ];
    for (name, path) in [
        ("Pass", ".summary.pass"),
        ("Fail", ".summary.fail"),
        ("Warn", ".summary.warn"),
        ("Error", ".summary.error"),
        ("Skip", ".summary.skip"),
    ] {
        columns.push(column(name, "integer", path, "How many results are so"));
    }
    columns.push(age());
    columns
}

/// Whom a resource report is about.
pub(super) fn of_resource() -> Vec<CustomResourceColumnDefinition> {
    let name = annotation("audit.kyverno.io/resource.name");
    vec![
        column(
            "Kind",
            "string",
            ".metadata.ownerReferences[0].kind",
            "The kind of the object it is about",
        ),
        column(
            "Resource",
            "string",
            &name,
            "The name of the object it is about",
        ),
        age(),
    ]
}
