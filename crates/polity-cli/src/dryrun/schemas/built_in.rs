//! The schemas of built-in kinds, from the types of `k8s-openapi`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::Resource;
use k8s_openapi::api::{
    admissionregistration::v1 as admissionregistration, apps::v1 as apps,
    autoscaling::v1 as autoscaling_v1, autoscaling::v2 as autoscaling, batch::v1 as batch,
    certificates::v1 as certificates, coordination::v1 as coordination, core::v1 as core,
    discovery::v1 as discovery, events::v1 as events, flowcontrol::v1 as flowcontrol,
    networking::v1 as networking, node::v1 as node, policy::v1 as policy, rbac::v1 as rbac,
    scheduling::v1 as scheduling, storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
use polity_core::GroupVersionKind;
use polity_merge::SchemaSet;
use polity_merge::schema::Schema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema as JsonSchemaNode};
use serde_json::{Value, json};

/// Where generated schemas put what they refer to.
const DEFINITIONS: &str = "/components/schemas";

/// A function that adds the schema of one kind to a generator.
type Generate = fn(&mut SchemaGenerator) -> JsonSchemaNode;

/// The schema of a kind; none for kinds that are not built in, or not stable yet.
pub(super) fn schema_of(gvk: &GroupVersionKind) -> Option<Arc<Schema>> {
    let generate = generator_of(gvk)?;
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = DEFINITIONS.into());
    let mut generator = settings.into_generator();
    let root = generate(&mut generator);
    let mut definitions: BTreeMap<String, Value> =
        generator.take_definitions(false).into_iter().collect();
    open_free_forms(&mut definitions);
    let name = root.get("$ref")?.as_str()?.rsplit('/').next()?;
    SchemaSet::from_definitions(&definitions).get(name)
}

/// Types that hold any JSON, and those that hold themselves, know no fields of their own.
fn open_free_forms(definitions: &mut BTreeMap<String, Value>) {
    let open = json!({"x-kubernetes-preserve-unknown-fields": true});
    for (name, definition) in definitions {
        let short = name.rsplit('.').next().unwrap_or_default();
        if matches!(short, "FieldsV1" | "RawExtension" | "JSON")
            || short.starts_with("JSONSchemaProps")
        {
            *definition = open.clone();
        }
    }
}

macro_rules! kinds {
    ($($kind:ty),* $(,)?) => {
        fn generator_of(gvk: &GroupVersionKind) -> Option<Generate> {
            $(if is::<$kind>(gvk) {
                return Some(generate::<$kind>);
            })*
            None
        }
    };
}

fn is<K: Resource>(gvk: &GroupVersionKind) -> bool {
    gvk.group == K::GROUP && gvk.version == K::VERSION && gvk.kind == K::KIND
}

fn generate<K: JsonSchema>(generator: &mut SchemaGenerator) -> JsonSchemaNode {
    generator.subschema_for::<K>()
}

kinds!(
    core::ConfigMap,
    core::Endpoints,
    core::Event,
    core::LimitRange,
    core::Namespace,
    core::Node,
    core::PersistentVolume,
    core::PersistentVolumeClaim,
    core::Pod,
    core::PodTemplate,
    core::ReplicationController,
    core::ResourceQuota,
    core::Secret,
    core::Service,
    core::ServiceAccount,
    admissionregistration::MutatingAdmissionPolicy,
    admissionregistration::MutatingAdmissionPolicyBinding,
    admissionregistration::MutatingWebhookConfiguration,
    admissionregistration::ValidatingAdmissionPolicy,
    admissionregistration::ValidatingAdmissionPolicyBinding,
    admissionregistration::ValidatingWebhookConfiguration,
    apiextensions::CustomResourceDefinition,
    apiregistration::APIService,
    apps::ControllerRevision,
    apps::DaemonSet,
    apps::Deployment,
    apps::ReplicaSet,
    apps::StatefulSet,
    autoscaling_v1::HorizontalPodAutoscaler,
    autoscaling::HorizontalPodAutoscaler,
    batch::CronJob,
    batch::Job,
    certificates::CertificateSigningRequest,
    coordination::Lease,
    discovery::EndpointSlice,
    events::Event,
    flowcontrol::FlowSchema,
    flowcontrol::PriorityLevelConfiguration,
    networking::Ingress,
    networking::IngressClass,
    networking::NetworkPolicy,
    node::RuntimeClass,
    policy::PodDisruptionBudget,
    rbac::ClusterRole,
    rbac::ClusterRoleBinding,
    rbac::Role,
    rbac::RoleBinding,
    scheduling::PriorityClass,
    storage::CSIDriver,
    storage::CSINode,
    storage::StorageClass,
    storage::VolumeAttachment,
);
