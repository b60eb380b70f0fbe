//! Schemas of the built-in kinds: the JSON schemas of `k8s-openapi`, with the metadata that patches and
//! server-side apply need added from a table.
//!
//! Types are named definitions that refer to each other, under the names Kubernetes publishes them by
//! (`io.k8s.api.apps.v1.Deployment`). Free-form parts, such as the schema inside a
//! CustomResourceDefinition, are open objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use k8s_openapi::api::{
    admissionregistration::v1 as admissionregistration, apps::v1 as apps,
    authentication::v1 as authentication, authorization::v1 as authorization,
    autoscaling::v1 as autoscaling_v1, autoscaling::v2 as autoscaling, batch::v1 as batch,
    certificates::v1 as certificates, coordination::v1 as coordination, core::v1 as core,
    discovery::v1 as discovery, events::v1 as events, flowcontrol::v1 as flowcontrol,
    networking::v1 as networking, node::v1 as node, policy::v1 as policy, rbac::v1 as rbac,
    scheduling::v1 as scheduling, storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
use polity_core::{GroupVersion, GroupVersionKind};
use polity_merge::schema::{Schema, SchemaSet};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::builtin;

/// Definitions by name.
pub type Definitions = BTreeMap<String, Value>;

static DEFINITIONS: LazyLock<Definitions> = LazyLock::new(build_definitions);
static SCHEMAS: LazyLock<SchemaSet> =
    LazyLock::new(|| SchemaSet::from_definitions(&bare_definitions()));

/// The schema of a built-in kind; of any other kind, one without rules.
pub fn schema_of(gvk: &GroupVersionKind) -> Arc<Schema> {
    SCHEMAS.get(&component_name(gvk)).unwrap_or_default()
}

/// The schema of a stable built-in kind, whether the API server serves it or not.
pub fn find(gvk: &GroupVersionKind) -> Option<Arc<Schema>> {
    let schema = SCHEMAS.get(&component_name(gvk))?;
    // Types that are only part of a kind, such as a Container, have definitions too.
    let is_kind = ["apiVersion", "kind", "metadata"]
        .iter()
        .all(|field| schema.property(field).is_some());
    is_kind.then_some(schema)
}

/// Every definition, descriptions included.
pub fn definitions() -> &'static Definitions {
    &DEFINITIONS
}

/// The component schemas of one group version, as in an OpenAPI v3 document: its kinds and everything they refer to.
pub fn openapi_components(group_version: &GroupVersion) -> Definitions {
    let of_version = builtin::kinds().filter(|gvk| gvk.group_version() == *group_version);
    components(of_version.map(|gvk| component_name(&gvk)).collect())
}

/// The component schemas a custom resource refers to: its metadata.
pub fn metadata_components() -> Definitions {
    components(
        std::iter::once("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta".to_owned()).collect(),
    )
}

/// Definitions and everything they refer to, as they are published.
fn components(mut wanted: BTreeSet<String>) -> Definitions {
    let mut queue: Vec<String> = wanted.iter().cloned().collect();
    while let Some(name) = queue.pop() {
        for_each_reference(&DEFINITIONS[&name], &mut |target| {
            if wanted.insert(target.to_owned()) {
                queue.push(target.to_owned());
            }
        });
    }
    wanted
        .into_iter()
        .map(|name| (name.clone(), published(&DEFINITIONS[&name])))
        .collect()
}

/// The name Kubernetes publishes a built-in kind's schema by.
pub fn component_name(gvk: &GroupVersionKind) -> String {
    let package = match gvk.group.as_str() {
        "" => "api.core",
        "apiextensions.k8s.io" => "apiextensions-apiserver.pkg.apis.apiextensions",
        "apiregistration.k8s.io" => "kube-aggregator.pkg.apis.apiregistration",
        group => &format!("api.{}", group.split('.').next().unwrap_or_default()),
    };
    format!("io.k8s.{package}.{}.{}", gvk.version, gvk.kind)
}

const REFERENCE: &str = "#/components/schemas/";

macro_rules! generate {
    ($($ty:ty),* $(,)?) => {{
        let settings = SchemaSettings::draft2020_12().with(|s| s.definitions_path = "/components/schemas".into());
        let mut generator = settings.into_generator();
        $( generator.subschema_for::<$ty>(); )*
        generator.take_definitions(false)
    }};
}

fn build_definitions() -> Definitions {
    let generated = generate!(
        core::Namespace,
        core::Pod,
        core::Service,
        core::ConfigMap,
        core::Secret,
        core::ServiceAccount,
        core::Event,
        core::Node,
        core::Endpoints,
        core::PersistentVolume,
        core::PersistentVolumeClaim,
        core::ResourceQuota,
        core::LimitRange,
        core::ReplicationController,
        core::PodTemplate,
        apps::Deployment,
        apps::StatefulSet,
        apps::DaemonSet,
        apps::ReplicaSet,
        apps::ControllerRevision,
        batch::Job,
        batch::CronJob,
        networking::Ingress,
        networking::IngressClass,
        networking::NetworkPolicy,
        rbac::Role,
        rbac::RoleBinding,
        rbac::ClusterRole,
        rbac::ClusterRoleBinding,
        coordination::Lease,
        discovery::EndpointSlice,
        events::Event,
        policy::PodDisruptionBudget,
        policy::Eviction,
        autoscaling::HorizontalPodAutoscaler,
        autoscaling_v1::Scale,
        storage::StorageClass,
        scheduling::PriorityClass,
        node::RuntimeClass,
        admissionregistration::ValidatingWebhookConfiguration,
        admissionregistration::MutatingWebhookConfiguration,
        admissionregistration::ValidatingAdmissionPolicy,
        admissionregistration::ValidatingAdmissionPolicyBinding,
        admissionregistration::MutatingAdmissionPolicy,
        admissionregistration::MutatingAdmissionPolicyBinding,
        apiextensions::CustomResourceDefinition,
        authentication::TokenReview,
        authentication::TokenRequest,
        authentication::SelfSubjectReview,
        authorization::SubjectAccessReview,
        authorization::SelfSubjectAccessReview,
        authorization::SelfSubjectRulesReview,
        authorization::LocalSubjectAccessReview,
        // Not served, but known to dry runs on files.
        autoscaling_v1::HorizontalPodAutoscaler,
        apiregistration::APIService,
        certificates::CertificateSigningRequest,
        flowcontrol::FlowSchema,
        flowcontrol::PriorityLevelConfiguration,
        storage::CSIDriver,
        storage::CSINode,
        storage::VolumeAttachment,
    );
    let mut definitions: Definitions = generated.into_iter().collect();
    open_free_forms(&mut definitions);
    add_merge_metadata(&mut definitions);
    for gvk in builtin::kinds() {
        if let Some(definition) = definitions.get_mut(&component_name(&gvk)) {
            definition["x-kubernetes-group-version-kind"] =
                json!([{"group": gvk.group, "version": gvk.version, "kind": gvk.kind}]);
        }
    }
    definitions
}

/// Replaces the types that hold any JSON, and those that contain themselves, by open ones.
fn open_free_forms(definitions: &mut Definitions) {
    let open = json!({"x-kubernetes-preserve-unknown-fields": true});
    let open_object = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let apiextensions = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";
    let replacements = [
        (
            "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1".to_owned(),
            &open_object,
        ),
        (
            "io.k8s.apimachinery.pkg.runtime.RawExtension".to_owned(),
            &open_object,
        ),
        (format!("{apiextensions}.JSONSchemaProps"), &open_object),
        (format!("{apiextensions}.JSON"), &open),
        // A quantity may also be written as a number, with or without a fraction.
        (
            "io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(),
            &json!({"format": "quantity", "oneOf": [{"type": "string"}, {"type": "number"}]}),
        ),
    ];
    for (name, replacement) in replacements {
        if let Some(definition) = definitions.get_mut(&name) {
            let description = definition["description"].take();
            *definition = replacement.clone();
            definition["description"] = description;
        }
    }
    // Only the inside of JSONSchemaProps referred to these.
    definitions.retain(|name, _| !name.starts_with(&format!("{apiextensions}.JSONSchemaPropsOr")));
}

fn add_merge_metadata(definitions: &mut Definitions) {
    for line in include_str!("merge.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let columns: Vec<&str> = line.split('\t').collect();
        let [ty, field, apply, patch] = columns[..] else {
            unreachable!("merge.tsv has four columns: {line:?}")
        };
        let Some(node) = merge_node(definitions, ty, field) else {
            continue;
        };
        let is_list = node.get("type").is_some_and(|ty| ty == "array");
        match apply.split_once('(') {
            Some((_, keys)) => {
                let keys: Vec<&str> = keys.trim_end_matches(')').split(',').collect();
                node.insert("x-kubernetes-list-type".into(), json!("map"));
                node.insert("x-kubernetes-list-map-keys".into(), json!(keys));
            }
            None if apply == "-" => {}
            None if is_list => drop(node.insert("x-kubernetes-list-type".into(), json!(apply))),
            None => drop(node.insert("x-kubernetes-map-type".into(), json!(apply))),
        }
        if patch != "-" {
            let (strategy, key) = patch.split_once('(').unwrap_or((patch, ""));
            node.insert("x-kubernetes-patch-strategy".into(), json!(strategy));
            if !key.is_empty() {
                node.insert(
                    "x-kubernetes-patch-merge-key".into(),
                    json!(key.trim_end_matches(')')),
                );
            }
        }
    }
    // Fields of list keys that are always there in Go.
    for (ty, key) in [
        ("core.v1.Container", "name"),
        ("core.v1.EphemeralContainer", "name"),
        ("core.v1.EnvVar", "name"),
        ("core.v1.Volume", "name"),
        ("core.v1.VolumeMount", "mountPath"),
    ] {
        if let Some(node) = merge_node(definitions, ty, key) {
            node.insert("default".into(), json!(""));
        }
    }
    // The one optional field that is part of a list key.
    for ty in ["core.v1.ContainerPort", "core.v1.ServicePort"] {
        if let Some(node) = merge_node(definitions, ty, "protocol") {
            node.insert("default".into(), json!("TCP"));
        }
    }
}

/// The schema of a type (field `.`) or of one of its fields.
fn merge_node<'a>(
    definitions: &'a mut Definitions,
    ty: &str,
    field: &str,
) -> Option<&'a mut Map<String, Value>> {
    let full = if ty.starts_with("api") {
        format!("io.k8s.{ty}")
    } else {
        format!("io.k8s.api.{ty}")
    };
    let definition = definitions.get_mut(&full)?;
    let node = if field == "." {
        definition
    } else {
        definition.get_mut("properties")?.get_mut(field)?
    };
    node.as_object_mut()
}

/// The definitions without descriptions, which the engine does not need. A node that contains only a reference is
/// shared.
fn bare_definitions() -> Definitions {
    fn bare(value: &Value) -> Value {
        match value {
            Value::Object(fields) => fields
                .iter()
                // A field may be called "description" too. Its schema is not a string.
                .filter(|(key, value)| *key != "description" || !value.is_string())
                .map(|(key, value)| (key.clone(), bare(value)))
                .collect(),
            Value::Array(items) => items.iter().map(bare).collect(),
            other => other.clone(),
        }
    }
    DEFINITIONS
        .iter()
        .map(|(name, definition)| (name.clone(), bare(definition)))
        .collect()
}

/// A definition as OpenAPI 3.0 wants it: a reference with anything beside it is wrapped in `allOf`.
fn published(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut out: Map<String, Value> = fields
                .iter()
                .map(|(key, value)| (key.clone(), published(value)))
                .collect();
            if out.len() > 1 && out.get("$ref").is_some_and(Value::is_string) {
                let reference = out.remove("$ref");
                out.insert("allOf".into(), json!([{ "$ref": reference }]));
            }
            Value::Object(out)
        }
        Value::Array(items) => items.iter().map(published).collect(),
        other => other.clone(),
    }
}

fn for_each_reference(value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            if let Some(name) = fields
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|r| r.strip_prefix(REFERENCE))
            {
                found(name);
            }
            fields
                .values()
                .for_each(|value| for_each_reference(value, found));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|value| for_each_reference(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node<'a>(name: &str, field: &str) -> &'a Value {
        &definitions()[name]["properties"][field]
    }

    #[test]
    fn every_kind_has_a_definition_and_every_reference_a_target() {
        for gvk in builtin::kinds() {
            assert!(definitions().contains_key(&component_name(&gvk)), "{gvk}");
        }
        for (name, definition) in definitions() {
            for_each_reference(definition, &mut |target| {
                assert!(
                    definitions().contains_key(target),
                    "{name} refers to {target}"
                );
            });
        }
    }

    #[test]
    fn merge_metadata_is_where_apply_and_patch_look_for_it() {
        let containers = node("io.k8s.api.core.v1.PodSpec", "containers");
        assert_eq!(containers["x-kubernetes-list-type"], "map");
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
        let ports = node("io.k8s.api.core.v1.Container", "ports");
        assert_eq!(
            ports["x-kubernetes-list-map-keys"],
            json!(["containerPort", "protocol"])
        );
        assert_eq!(
            node("io.k8s.api.core.v1.ContainerPort", "protocol")["default"],
            "TCP"
        );
        let volumes = node("io.k8s.api.core.v1.PodSpec", "volumes");
        assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
        let finalizers = node(
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
            "finalizers",
        );
        assert_eq!(
            (
                &finalizers["x-kubernetes-list-type"],
                &finalizers["x-kubernetes-patch-strategy"]
            ),
            (&json!("set"), &json!("merge"))
        );
        let conditions = node("io.k8s.api.batch.v1.JobStatus", "conditions");
        assert_eq!(conditions["x-kubernetes-list-type"], "atomic");
        assert_eq!(
            definitions()["io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"]["x-kubernetes-map-type"],
            "atomic"
        );
        assert_eq!(
            node("io.k8s.api.core.v1.PersistentVolumeSpec", "claimRef")["x-kubernetes-map-type"],
            "granular"
        );
        assert_eq!(
            node("io.k8s.api.core.v1.PodSpec", "nodeSelector")["x-kubernetes-map-type"],
            "atomic"
        );
        assert_eq!(
            node("io.k8s.api.apps.v1.DeploymentSpec", "strategy")["x-kubernetes-patch-strategy"],
            "retainKeys"
        );
    }

    #[test]
    fn every_line_of_the_merge_table_meets_a_field() {
        let mut definitions = definitions().clone();
        for line in include_str!("merge.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'))
        {
            let columns: Vec<&str> = line.split('\t').collect();
            assert!(
                merge_node(&mut definitions, columns[0], columns[1]).is_some(),
                "{line}"
            );
        }
    }

    #[test]
    fn published_components_are_closed_and_wrap_references() {
        let components = openapi_components(&GroupVersion::new("apps", "v1"));
        let deployment = &components["io.k8s.api.apps.v1.Deployment"];
        assert_eq!(
            deployment["x-kubernetes-group-version-kind"],
            json!([{"group": "apps", "version": "v1", "kind": "Deployment"}])
        );
        assert_eq!(
            deployment["properties"]["spec"]["allOf"],
            json!([{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}])
        );
        assert!(deployment["properties"]["spec"]["description"].is_string());
        assert!(!components.contains_key("io.k8s.api.core.v1.Namespace"));
        for definition in components.values() {
            for_each_reference(definition, &mut |target| {
                assert!(components.contains_key(target), "{target}");
            });
        }
    }

    #[test]
    fn the_schema_inside_a_crd_is_open() {
        let props = &definitions()["io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"];
        assert_eq!(props["x-kubernetes-preserve-unknown-fields"], true);
        assert!(props.get("properties").is_none());
    }

    #[test]
    fn custom_kinds_and_parts_of_kinds_have_no_schema() {
        let has_schema = |api_version: &str, kind: &str| {
            let GroupVersion { group, version } = api_version.parse().unwrap();
            find(&GroupVersionKind::new(group, version, kind)).is_some()
        };
        assert!(has_schema("v1", "Pod"));
        assert!(has_schema("apiregistration.k8s.io/v1", "APIService"));
        assert!(has_schema("storage.k8s.io/v1", "CSIDriver"));
        assert!(!has_schema("v1", "Container"));
        assert!(!has_schema("v1", "ObjectReference"));
        assert!(!has_schema("example.com/v1", "Pod"));
    }
}
