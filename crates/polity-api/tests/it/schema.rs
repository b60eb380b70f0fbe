//! The schemas say what the contract says, and a real API server can take them.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// Made once: deriving them takes a moment, and every test looks at several.
static CRDS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(polity_api::crds);

fn definition(kind: &str) -> CustomResourceDefinition {
    let found = CRDS.iter().find(|crd| crd.spec.names.kind == kind);
    found
        .unwrap_or_else(|| panic!("no definition of {kind}"))
        .clone()
}

pub(crate) fn schema(kind: &str, version: &str) -> Value {
    let crd = definition(kind);
    let found = crd
        .spec
        .versions
        .into_iter()
        .find(|candidate| candidate.name == version)
        .unwrap();
    serde_json::to_value(found.schema.unwrap().open_api_v3_schema.unwrap()).unwrap()
}

/// The schema at a path such as `spec.policies{}.module`, where `{}` is any value of a map and `[]` any item.
fn at<'a>(schema: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(schema, |schema, step| {
        let name = step.trim_end_matches("{}").trim_end_matches("[]");
        let field = &schema["properties"][name];
        if step.ends_with("{}") {
            &field["additionalProperties"]
        } else if step.ends_with("[]") {
            &field["items"]
        } else {
            field
        }
    })
}

const POLICIES: [&str; 2] = ["AdmissionPolicy", "ClusterAdmissionPolicy"];
const GROUPS: [&str; 2] = ["AdmissionPolicyGroup", "ClusterAdmissionPolicyGroup"];

#[test]
fn names_scopes_and_versions() {
    let table = [
        (
            "ClusterAdmissionPolicy",
            "clusteradmissionpolicies",
            "cap",
            "Cluster",
            &["v1", "v1alpha2"][..],
        ),
        (
            "AdmissionPolicy",
            "admissionpolicies",
            "ap",
            "Namespaced",
            &["v1", "v1alpha2"],
        ),
        (
            "ClusterAdmissionPolicyGroup",
            "clusteradmissionpolicygroups",
            "capg",
            "Cluster",
            &["v1"],
        ),
        (
            "AdmissionPolicyGroup",
            "admissionpolicygroups",
            "apg",
            "Namespaced",
            &["v1"],
        ),
        (
            "PolicyServer",
            "policyservers",
            "ps",
            "Cluster",
            &["v1", "v1alpha2"],
        ),
        (
            "PolicyRevision",
            "policyrevisions",
            "polrev",
            "Namespaced",
            &["v1"],
        ),
    ];
    let in_group = |crd: &&CustomResourceDefinition| crd.spec.group == "policies.kubewarden.io";
    assert_eq!(CRDS.iter().filter(in_group).count(), table.len());
    for (kind, plural, short, scope, versions) in table {
        let crd = definition(kind);
        assert_eq!(
            crd.metadata.name.as_deref(),
            Some(format!("{plural}.policies.kubewarden.io").as_str())
        );
        assert_eq!(crd.spec.names.short_names, Some(vec![short.to_owned()]));
        assert_eq!(crd.spec.scope, scope);
        assert_eq!(crd.spec.conversion.unwrap().strategy, "None");
        let names: Vec<_> = crd
            .spec
            .versions
            .iter()
            .map(|version| version.name.as_str())
            .collect();
        assert_eq!(names, versions, "{kind}");
        for version in &crd.spec.versions {
            let is_old = version.name == "v1alpha2";
            assert_eq!((version.served, version.storage), (true, !is_old), "{kind}");
            assert_eq!(version.deprecated.unwrap_or(false), is_old, "{kind}");
            assert_eq!(version.deprecation_warning.is_some(), is_old, "{kind}");
            let subresources = version.subresources.as_ref().unwrap();
            assert!(subresources.status.is_some(), "{kind}");
            assert_eq!(subresources.scale.is_some(), kind == "PolicyServer");
        }
    }
}

#[test]
fn fields_of_policies_and_groups() {
    let common = [
        (
            "spec.policyServer",
            json!({"type": "string", "default": "default"}),
        ),
        (
            "spec.mode",
            json!({"default": "protect", "enum": ["protect", "monitor"]}),
        ),
        (
            "spec.backgroundAudit",
            json!({"type": "boolean", "default": true}),
        ),
        (
            "spec.failurePolicy",
            json!({"enum": ["Fail", "Ignore"], "default": null}),
        ),
        (
            "spec.matchPolicy",
            json!({"enum": ["Exact", "Equivalent"], "default": null}),
        ),
        (
            "spec.matchConditions",
            json!({"maxItems": 64, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
        ),
        (
            "spec.matchConditions[]",
            json!({"required": ["expression", "name"]}),
        ),
        (
            "spec.objectSelector",
            json!({"type": "object", "x-kubernetes-map-type": "atomic"}),
        ),
        (
            "spec.sideEffects",
            json!({"type": "string", "enum": null, "default": null}),
        ),
        (
            "spec.timeoutSeconds",
            json!({"type": "integer", "format": "int32", "default": 10, "minimum": 2.0, "maximum": 30.0}),
        ),
        ("status", json!({"required": ["policyStatus"]})),
        (
            "status.policyStatus",
            json!({"enum": ["unscheduled", "scheduled", "pending", "active"]}),
        ),
        (
            "status.mode",
            json!({"enum": ["protect", "monitor", "unknown"]}),
        ),
        (
            "status.phase",
            json!({"enum": ["Pending", "Updating", "Active", "Failed"]}),
        ),
        (
            "status.conditions",
            json!({"x-kubernetes-list-type": "atomic", "x-kubernetes-list-map-keys": null}),
        ),
        (
            "status.conditions[]",
            json!({"required": ["status", "type"]}),
        ),
    ];
    for kind in POLICIES.iter().chain(&GROUPS) {
        check(kind, "v1", &common);
    }
    let module = |at: &str| {
        vec![
            (format!("{at}.module"), json!({"type": "string"})),
            (
                format!("{at}.settings"),
                json!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true}),
            ),
            (
                format!("{at}.timeoutEvalSeconds"),
                json!({"default": null, "minimum": 2.0, "maximum": 30.0}),
            ),
        ]
    };
    for kind in POLICIES {
        check(
            kind,
            "v1",
            &[("spec", json!({"required": ["module", "mutating", "rules"]}))],
        );
        check(kind, "v1", &module("spec"));
    }
    for kind in GROUPS {
        check(
            kind,
            "v1",
            &[(
                "spec",
                json!({"required": ["expression", "message", "policies", "rules"]}),
            )],
        );
        check(
            kind,
            "v1",
            &[("spec.policies{}", json!({"required": ["module"]}))],
        );
        check(kind, "v1", &module("spec.policies{}"));
        for absent in ["module", "settings", "mutating", "timeoutEvalSeconds"] {
            assert_eq!(
                at(&schema(kind, "v1"), &format!("spec.{absent}")),
                &Value::Null,
                "{kind} {absent}"
            );
        }
    }
}

#[test]
fn fields_of_cluster_kinds() {
    let wide = [
        (
            "spec.namespaceSelector",
            json!({"type": "object", "x-kubernetes-map-type": "atomic"}),
        ),
        (
            "spec.allowInsideAdmissionControllerNamespace",
            json!({"type": "boolean", "default": false}),
        ),
        (
            "spec.allowInsideKubewardenNamespace",
            json!({"type": "boolean", "default": null}),
        ),
    ];
    check("ClusterAdmissionPolicy", "v1", &wide);
    check("ClusterAdmissionPolicyGroup", "v1", &wide);
    let readable = json!({"required": ["apiVersion", "kind"]});
    check(
        "ClusterAdmissionPolicy",
        "v1",
        &[("spec.contextAwareResources[]", readable.clone())],
    );
    check(
        "ClusterAdmissionPolicyGroup",
        "v1",
        &[("spec.policies{}.contextAwareResources[]", readable)],
    );
    for (kind, path) in [
        ("AdmissionPolicy", "spec.namespaceSelector"),
        ("AdmissionPolicy", "spec.contextAwareResources"),
        (
            "AdmissionPolicyGroup",
            "spec.policies{}.contextAwareResources",
        ),
        ("ClusterAdmissionPolicyGroup", "spec.contextAwareResources"),
    ] {
        assert_eq!(
            at(&schema(kind, "v1"), path),
            &Value::Null,
            "{kind} has no {path}"
        );
    }
}

#[test]
fn fields_of_servers_and_revisions() {
    check(
        "PolicyServer",
        "v1",
        &[
            ("spec", json!({"required": ["image", "replicas"]})),
            (
                "spec.minAvailable",
                json!({"x-kubernetes-int-or-string": true}),
            ),
            ("spec.webhookPort", json!({"default": 8443})),
            ("spec.readinessProbePort", json!({"default": 8081})),
            (
                "spec.metricsPort",
                json!({"default": null, "format": "int32"}),
            ),
            (
                "spec.revisionHistoryLimit",
                json!({"default": null, "minimum": 0.0}),
            ),
            ("spec.cache.ephemeral", json!({"default": false})),
            (
                "status.conditions",
                json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
            ),
        ],
    );
    check(
        "PolicyRevision",
        "v1",
        &[
            (
                "spec.objectReference",
                json!({"required": ["apiVersion", "kind", "name"]}),
            ),
            (
                "spec.policyGeneration",
                json!({"format": "int64", "minimum": 1.0}),
            ),
            (
                "spec.data",
                json!({"type": "object", "nullable": null, "x-kubernetes-preserve-unknown-fields": true}),
            ),
            (
                "status.conditions",
                json!({"x-kubernetes-list-type": "atomic"}),
            ),
        ],
    );
}

/// Each keyword of `expected` stands at its path with that value; `null` means that the keyword is absent.
fn check<P: AsRef<str>>(kind: &str, version: &str, expected: &[(P, Value)]) {
    let schema = schema(kind, version);
    for (path, keywords) in expected {
        let found = at(&schema, path.as_ref());
        for (keyword, value) in keywords.as_object().unwrap() {
            assert_eq!(
                &found[keyword],
                value,
                "{keyword} of {kind} {version} {}",
                path.as_ref()
            );
        }
    }
}

#[test]
fn old_version_is_a_subset() {
    fn assert_subset(old: &Value, new: &Value, path: &str) {
        assert!(!new.is_null(), "{path} is not in v1");
        assert_eq!(old["type"], new["type"], "{path}");
        for (name, old_field) in old["properties"].as_object().into_iter().flatten() {
            assert_subset(
                old_field,
                &new["properties"][name],
                &format!("{path}.{name}"),
            );
        }
    }
    for kind in ["AdmissionPolicy", "ClusterAdmissionPolicy", "PolicyServer"] {
        assert_subset(&schema(kind, "v1alpha2"), &schema(kind, "v1"), kind);
    }
    let old = schema("ClusterAdmissionPolicy", "v1alpha2");
    for lacking in [
        "backgroundAudit",
        "matchConditions",
        "message",
        "timeoutEvalSeconds",
        "contextAwareResources",
        "allowInsideKubewardenNamespace",
        "allowInsideAdmissionControllerNamespace",
    ] {
        assert!(at(&old, &format!("spec.{lacking}")).is_null(), "{lacking}");
    }
    check(
        "ClusterAdmissionPolicy",
        "v1alpha2",
        &[(
            "spec.timeoutSeconds",
            json!({"default": 10, "minimum": null, "maximum": null}),
        )],
    );
}

#[test]
fn printer_columns() {
    let columns = |kind: &str| -> Vec<String> {
        let columns = definition(kind)
            .spec
            .versions
            .remove(0)
            .additional_printer_columns
            .unwrap();
        columns
            .iter()
            .map(|column| {
                format!(
                    "{}={}:{}",
                    column.name,
                    column.json_path,
                    column.priority.unwrap_or(0)
                )
            })
            .collect()
    };
    let group = [
        "Policy Server=.spec.policyServer:0",
        "BackgroundAudit=.spec.backgroundAudit:0",
        "Mode=.spec.mode:0",
        "Observed mode=.status.mode:0",
        "Status=.status.policyStatus:0",
        "Phase=.status.phase:0",
        "Age=.metadata.creationTimestamp:0",
        r"Severity=.metadata.annotations['io\.kubewarden\.policy\.severity']:1",
        r"Category=.metadata.annotations['io\.kubewarden\.policy\.category']:1",
        "Message=.status.message:1",
    ];
    let mut policy = group.to_vec();
    policy.insert(1, "Mutating=.spec.mutating:0");
    for kind in GROUPS {
        assert_eq!(columns(kind), group, "{kind}");
    }
    for kind in POLICIES {
        assert_eq!(columns(kind), policy, "{kind}");
    }
    assert_eq!(
        columns("PolicyServer"),
        [
            "Ready=.status.ready:0",
            "Replicas=.spec.replicas:0",
            "Policies=.status.policies:0",
            "Image=.spec.image:0",
            "Age=.metadata.creationTimestamp:0",
        ]
    );
    let names: Vec<_> = columns("PolicyRevision")
        .iter()
        .map(|column| column.split('=').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "Kind",
            "Policy",
            "Generation",
            "Enabled",
            "Initialized",
            "Age"
        ]
    );
}

/// An alternative says what values are right, never what fields there are or what they are.
fn assert_only_validates(alternative: &Value, outer: &Value, path: &str) {
    for (keyword, rule) in alternative.as_object().unwrap() {
        match keyword.as_str() {
            "required" | "enum" | "pattern" | "minLength" | "maxLength" => {}
            "properties" => {
                for (name, field) in rule.as_object().unwrap() {
                    let outer = &outer["properties"][name];
                    assert!(outer.is_object(), "{path} has a new field {name}");
                    assert_only_validates(field, outer, &format!("{path}.{name}"));
                }
            }
            "not" => assert_only_validates(rule, outer, &format!("{path}.not")),
            other => panic!("{path} has {other}"),
        }
    }
}

/// The rules of a structural schema, as far as our own schemas could break them.
#[test]
fn schemas_are_structural() {
    fn assert_structural(schema: &Value, path: &str) {
        let fields = schema
            .as_object()
            .unwrap_or_else(|| panic!("{path} is no schema"));
        let typed = [
            "type",
            "x-kubernetes-int-or-string",
            "x-kubernetes-preserve-unknown-fields",
        ]
        .iter()
        .any(|keyword| fields.contains_key(*keyword));
        assert!(typed, "{path} has no type");
        for forbidden in [
            "$ref",
            "definitions",
            "dependencies",
            "patternProperties",
            "uniqueItems",
        ] {
            assert!(!fields.contains_key(forbidden), "{path} has {forbidden}");
        }
        for choice in ["allOf", "anyOf", "oneOf"] {
            for alternative in schema[choice].as_array().into_iter().flatten() {
                assert_only_validates(alternative, schema, &format!("{path}.{choice}"));
            }
        }
        let nullable = fields
            .get("nullable")
            .is_some_and(|nullable| nullable == true);
        assert_eq!(
            nullable,
            path.ends_with(".settings"),
            "{path}: null is for settings alone"
        );
        let both = fields.contains_key("properties") && fields.contains_key("additionalProperties");
        assert!(!both, "{path} has properties and additionalProperties");
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            assert_structural(field, &format!("{path}.{name}"));
        }
        for inner in ["items", "additionalProperties"] {
            if fields.contains_key(inner) {
                assert_structural(&schema[inner], &format!("{path}.{inner}"));
            }
        }
    }
    for crd in CRDS.iter() {
        for version in &crd.spec.versions {
            let kind = &crd.spec.names.kind;
            assert_structural(
                &schema(kind, &version.name),
                &format!("{kind}/{}", version.name),
            );
        }
    }
}

#[test]
fn every_field_has_help_text() {
    fn assert_described(schema: &Value, path: &str) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let described = field["description"]
                .as_str()
                .is_some_and(|text| !text.is_empty());
            assert!(
                described || path.matches('.').count() < 2,
                "{path} has no description"
            );
            assert_described(field, &path);
        }
        for inner in ["items", "additionalProperties"] {
            if schema[inner].is_object() {
                assert_described(&schema[inner], path);
            }
        }
    }
    for crd in CRDS.iter() {
        for version in &crd.spec.versions {
            let kind = &crd.spec.names.kind;
            assert_described(
                &schema(kind, &version.name),
                &format!("{kind}/{}", version.name),
            );
        }
    }
}
