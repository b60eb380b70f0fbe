//! The definitions to install: one for each kind, holding every version that is served.
//!
//! `Kind::crd()` of the derived types is the raw material. What several kinds share (printer columns) and what the
//! derive cannot say (a field may be absent without being nullable) is put in here, so only [`crds`] is complete.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceConversion, CustomResourceDefinition,
};
use kube::CustomResourceExt;
use kube::core::crd::merge_crds;
use serde_json::{Map, Value};

use crate::policies::{names, v1, v1alpha2};
use crate::{audit, reports};

mod attachment;
mod cluster;
mod policy;

/// Every definition that stands in `config/crd/`: ours, and those that other producers may have installed before us.
pub fn all() -> Vec<CustomResourceDefinition> {
    crds().into_iter().chain(shared()).collect()
}

/// The kinds of reports that Polity shares with other producers: to be created where they are absent, and otherwise left
/// as they are.
pub fn shared() -> Vec<CustomResourceDefinition> {
    let definitions = reports::shared_crds().into_iter();
    definitions.map(finished).collect()
}

/// Every CustomResourceDefinition of Polity, in the order in which they are best installed.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = admission();
    crds.extend(cluster::definitions());
    crds.extend(policy::definitions());
    crds.extend(reports::own_crds().into_iter().map(finished));
    crds.push(definition(vec![audit::AuditSummary::crd()], &[]));
    crds.extend(attachment::definitions());
    crds
}

/// The group `policies.kubewarden.io`.
fn admission() -> Vec<CustomResourceDefinition> {
    vec![
        definition(
            vec![v1::PolicyServer::crd(), v1alpha2::PolicyServer::crd()],
            &server_columns(),
        ),
        definition(
            vec![
                v1::ClusterAdmissionPolicy::crd(),
                v1alpha2::ClusterAdmissionPolicy::crd(),
            ],
            &policy_columns(),
        ),
        definition(
            vec![v1::AdmissionPolicy::crd(), v1alpha2::AdmissionPolicy::crd()],
            &policy_columns(),
        ),
        definition(
            vec![v1::ClusterAdmissionPolicyGroup::crd()],
            &group_columns(),
        ),
        definition(vec![v1::AdmissionPolicyGroup::crd()], &group_columns()),
        definition(vec![v1::PolicyRevision::crd()], &revision_columns()),
    ]
}

/// A definition as a manifest, the way it stands in `config/crd/`.
pub fn to_yaml(crd: &CustomResourceDefinition) -> String {
    let mut value = serde_json::to_value(crd).expect("a definition is plain data");
    whole_numbers(&mut value);
    let body = serde_saphyr::to_string(&value).expect("JSON is always writable as YAML");
    format!("# Written by `cargo xtask generate`.\n{body}")
}

/// Writes bounds as people do, `30` and not `30.0`: the typed form holds every bound as a float.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Number(number) => {
            if let Some(float) = number
                .as_f64()
                .filter(|float| number.is_f64() && float.fract() == 0.0)
            {
                *value = Value::from(float as i64);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// One definition of all versions of a kind, the first of them stored.
fn definition(
    versions: Vec<CustomResourceDefinition>,
    columns: &[CustomResourceColumnDefinition],
) -> CustomResourceDefinition {
    let stored = versions[0].spec.versions[0].name.clone();
    let mut crd =
        merge_crds(versions, &stored).expect("all versions of a kind share group, kind and scope");
    crd.spec.conversion = Some(CustomResourceConversion {
        strategy: "None".to_owned(),
        webhook: None,
    });
    for version in &mut crd.spec.versions {
        version.additional_printer_columns =
            Some(columns.to_vec()).filter(|columns| !columns.is_empty());
    }
    finished(crd)
}

/// A definition in which absent means absent.
fn finished(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let mut value = serde_json::to_value(&crd).expect("a definition is plain data");
    forbid_null(&mut value);
    serde_json::from_value(value).expect("removing a keyword keeps a definition valid")
}

/// Removes `nullable` wherever unknown fields are not kept.
///
/// The derive says of every optional field that it is nullable. Kubernetes then stores an explicit `null` and fills in
/// no default for it; without the word a `null` means "absent", which is what manifests expect.
fn forbid_null(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if !keeps_unknown_fields(fields)
                && fields.get("nullable").is_some_and(Value::is_boolean)
            {
                fields.remove("nullable");
            }
            fields.values_mut().for_each(forbid_null);
        }
        Value::Array(items) => items.iter_mut().for_each(forbid_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn keeps_unknown_fields(schema: &Map<String, Value>) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

fn policy_columns() -> Vec<CustomResourceColumnDefinition> {
    let mut columns = group_columns();
    columns.insert(
        1,
        column(
            "Mutating",
            "boolean",
            ".spec.mutating",
            "Whether the policy may modify objects",
        ),
    );
    columns
}

fn group_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Policy Server",
            "string",
            ".spec.policyServer",
            "Policy server that runs the policy",
        ),
        column(
            "BackgroundAudit",
            "boolean",
            ".spec.backgroundAudit",
            "Whether the background audit evaluates the policy",
        ),
        column(
            "Mode",
            "string",
            ".spec.mode",
            "How a rejected request is handled",
        ),
        column(
            "Observed mode",
            "string",
            ".status.mode",
            "Mode of the generation that is served",
        ),
        column(
            "Status",
            "string",
            ".status.policyStatus",
            "Whether any generation is served",
        ),
        column(
            "Phase",
            "string",
            ".status.phase",
            "State of the newest generation",
        ),
        age(),
        wide(column(
            "Severity",
            "string",
            &annotation(names::POLICY_SEVERITY),
            "Severity of a violation",
        )),
        wide(column(
            "Category",
            "string",
            &annotation(names::POLICY_CATEGORY),
            "Category of the policy",
        )),
        wide(column(
            "Message",
            "string",
            ".status.message",
            "Reason for the phase, and the generation that is served",
        )),
    ]
}

fn server_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "Ready",
            "string",
            ".status.ready",
            "Ready and desired replicas",
        ),
        column(
            "Replicas",
            "string",
            ".spec.replicas",
            "Number of desired replicas",
        ),
        column(
            "Policies",
            "integer",
            ".status.policies",
            "Number of policies that it serves",
        ),
        column("Image", "string", ".spec.image", "Image of the replicas"),
        age(),
    ]
}

fn revision_columns() -> Vec<CustomResourceColumnDefinition> {
    let initialized = r#".status.conditions[?(@.type=="Initialized")].status"#;
    vec![
        column(
            "Kind",
            "string",
            ".spec.objectReference.kind",
            "Kind of the policy",
        ),
        column(
            "Policy",
            "string",
            ".spec.objectReference.name",
            "Name of the policy",
        ),
        column(
            "Generation",
            "integer",
            ".spec.policyGeneration",
            "Generation of the policy",
        ),
        column(
            "Enabled",
            "boolean",
            ".spec.enabled",
            "Whether policy servers load the revision",
        ),
        column(
            "Initialized",
            "string",
            initialized,
            "Whether the modules are in the cache",
        ),
        age(),
    ]
}

pub(crate) fn column(
    name: &str,
    type_: &str,
    json_path: &str,
    description: &str,
) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path: json_path.to_owned(),
        description: Some(description.to_owned()),
        format: None,
        priority: None,
    }
}

pub(crate) fn age() -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        description: None,
        ..column("Age", "date", ".metadata.creationTimestamp", "")
    }
}

/// The same column, shown only with `-o wide`.
pub(crate) fn wide(column: CustomResourceColumnDefinition) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        priority: Some(1),
        ..column
    }
}

/// The path of an annotation; the dots of its name are escaped, else each would be a step of the path.
pub(crate) fn annotation(name: &str) -> String {
    format!(".metadata.annotations['{}']", name.replace('.', r"\."))
}
