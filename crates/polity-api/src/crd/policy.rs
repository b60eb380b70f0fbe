//! The definitions of `policy.open-cluster-management.io` and of the legacy PlacementRule.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::{age, column, definition};
use crate::apps::v1::PlacementRule;
use crate::policy::{names, v1, v1beta1};

pub(super) fn definitions() -> Vec<CustomResourceDefinition> {
    let definitions = vec![
        with_rules(
            definition(vec![v1::Policy::crd()], &policy_columns()),
            dependency_rules,
        ),
        with_rules(
            definition(vec![v1::PlacementBinding::crd()], &[]),
            binding_rules,
        ),
        definition(
            vec![v1beta1::PolicySet::crd()],
            &[compliance_state(), age()],
        ),
        definition(vec![v1beta1::PolicyAutomation::crd()], &[]),
        template_kind(with_rules(
            definition(vec![v1::ConfigurationPolicy::crd()], &[compliance_state()]),
            one_kind_of_object_templates,
        )),
        template_kind(definition(vec![v1beta1::OperatorPolicy::crd()], &[])),
        template_kind(definition(vec![v1::CertificatePolicy::crd()], &[])),
        without_status_subresource(definition(vec![PlacementRule::crd()], &[])),
    ];
    definitions
        .into_iter()
        .map(|crd| with_rules(crd, no_status_defaults))
        .collect()
}

/// What a status does not say is not to be filled in: it would look as if somebody had said so.
fn no_status_defaults(schema: &mut Value) {
    fn strip(schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                fields.remove("default");
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    if let Some(status) = schema.pointer_mut("/properties/status") {
        strip(status);
    }
}

fn policy_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Remediation action",
            "string",
            ".spec.remediationAction",
            "Whether violations are reported or corrected",
        ),
        compliance_state(),
        column(
            "Rollout status",
            "string",
            ".status.rolloutStatus",
            "State of the rollout",
        ),
        age(),
    ]
}

fn compliance_state() -> CustomResourceColumnDefinition {
    column(
        "Compliance state",
        "string",
        ".status.compliant",
        "Compliance state",
    )
}

/// Puts rules into the schema that only the combinations of JSON schema can say. They stand in for CEL: lists inside
/// lists without a bound cost more than a server lets an expression cost.
fn with_rules(crd: CustomResourceDefinition, add: fn(&mut Value)) -> CustomResourceDefinition {
    let mut value = serde_json::to_value(&crd).expect("a definition is plain data");
    add(&mut value["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
    serde_json::from_value(value).expect("more rules keep a definition valid")
}

/// ConfigurationPolicy and CertificatePolicy live in the namespace of the cluster, whatever that is called.
fn dependency_rules(schema: &mut Value) {
    let rule = json!([
        {"properties": {"kind": {"not": {"enum": ["ConfigurationPolicy", "CertificatePolicy"]}}}},
        {"properties": {"namespace": {"enum": [""]}}},
    ]);
    let spec = &mut schema["properties"]["spec"]["properties"];
    spec["dependencies"]["items"]["anyOf"] = rule.clone();
    spec["policy-templates"]["items"]["properties"]["extraDependencies"]["items"]["anyOf"] = rule;
}

fn binding_rules(schema: &mut Value) {
    let pair = |group: &str, kind: &str| json!({"properties": {"apiGroup": {"enum": [group]}, "kind": {"enum": [kind]}}});
    let fields = &mut schema["properties"];
    fields["placementRef"]["oneOf"] = json!([
        pair(names::CLUSTER_GROUP, "Placement"),
        pair(names::APPS_GROUP, "PlacementRule"),
    ]);
    let subject = &mut fields["subjects"]["items"]["properties"];
    subject["apiGroup"]["enum"] = json!([names::GROUP]);
    subject["kind"]["enum"] = json!(["Policy", "PolicySet"]);
}

fn one_kind_of_object_templates(schema: &mut Value) {
    schema["properties"]["spec"]["oneOf"] = json!([
        {"required": ["object-templates"]},
        {"required": ["object-templates-raw"]},
    ]);
}

/// Marks the kind as one that may stand in a policy.
fn template_kind(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let labels = crd.metadata.labels.get_or_insert_default();
    labels.insert(
        names::POLICY_TYPE.to_owned(),
        names::POLICY_TYPE_TEMPLATE.to_owned(),
    );
    crd
}

/// A PlacementRule is written as a whole, status and all, by whoever still decides with it.
fn without_status_subresource(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        version.subresources = None;
    }
    crd
}
