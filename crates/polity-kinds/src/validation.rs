//! Validation of built-in objects, with the messages of a real server.
//!
//! Checks on single fields are data, applied by type wherever the type occurs. Checks that compare fields, or the new
//! object with the stored one, are code. The engine checks metadata and CEL expressions. `status` is not checked.

mod admission;
mod config;
mod network;
mod pods;
mod policy;
mod rules;

mod workloads;

use polity_core::name::{self, Check};
use polity_core::{FieldError, FieldErrorKind, FieldErrors, FieldPath, GroupVersionKind};
use serde_json::{Map, Value, json};

use super::wire::{self, FieldType, MessageId, Presence};

type Object = Map<String, Value>;

/// The errors in a defaulted object, and in the change from `old` to it.
pub fn validate(gvk: &GroupVersionKind, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    if let (Some(message), Some(object)) = (wire::table().of_kind(gvk), new.as_object()) {
        check_message(message, object, &FieldPath::root(), &mut errors);
    }
    check_kind(gvk, new, old, &mut errors);
    if let Some(old) = old {
        check_immutable(gvk, new, old, &mut errors);
    }
    errors.0.into_vec()
}

/// Whether `name` may be the name of an object of this kind.
///
/// A `generateName` is checked with `prefix`: a trailing dash is fine, as more text will follow.
pub fn validate_name(gvk: &GroupVersionKind, name: &str, prefix: bool) -> Check {
    let masked = if prefix {
        name::mask_trailing_dash(name)
    } else {
        name.to_owned()
    };
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        // Old clients give events any name.
        ("", "Event") | ("rbac.authorization.k8s.io", _) if prefix => {
            name::path_segment_prefix(name)
        }
        ("", "Event") | ("rbac.authorization.k8s.io", _) => name::path_segment(name),
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => name::dns_label(&masked),
        _ => name::dns_subdomain(&masked),
    }
}

/// Checks a message by the rules of its type, then everything in it.
fn check_message(id: MessageId, object: &Object, path: &FieldPath, errors: &mut Errors) {
    if errors.0.is_full() {
        return;
    }
    let message = wire::table().message(id);
    rules::check(message.name, object, path, errors);
    let claimed = match message.name {
        "apps.v1.StatefulSetSpec" => workloads::with_claimed_volumes(object),
        _ => None,
    };
    let object = claimed.as_ref().unwrap_or(object);
    check_type(message.name, object, path, errors);
    for field in &message.fields {
        if path.is_root() && ["status", "metadata"].contains(&field.name) {
            continue;
        }
        match (&field.ty, field.presence) {
            (FieldType::Message(inner), Presence::Inline) => {
                check_message(*inner, object, path, errors);
            }
            (ty, _) => {
                if let Some(value) = object.get(field.name) {
                    check_value(ty, value, field.name, path, errors);
                }
            }
        }
    }
}

fn check_value(ty: &FieldType, value: &Value, name: &str, path: &FieldPath, errors: &mut Errors) {
    match (ty, value) {
        (FieldType::Message(message), Value::Object(fields)) => {
            check_message(*message, fields, &path.child(name), errors);
        }
        (FieldType::List(of), Value::Array(items)) => {
            if let FieldType::Message(message) = **of {
                let list = path.child(name);
                for (index, item) in items.iter().enumerate() {
                    if let Value::Object(fields) = item {
                        check_message(message, fields, &list.index(index), errors);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Rules between the fields of one type.
fn check_type(ty: &str, object: &Object, path: &FieldPath, errors: &mut Errors) {
    match ty {
        "core.v1.PodSpec" => pods::pod_spec(object, path, errors),
        "core.v1.PodTemplateSpec" => pods::template(object, path, errors),
        "core.v1.Volume" => pods::volume(object, path, errors),
        "core.v1.EnvVar" => pods::env_var(object, path, errors),
        "core.v1.Probe" => pods::handler(object, path, errors),
        "core.v1.Toleration" => pods::toleration(object, path, errors),
        "core.v1.ResourceRequirements" => pods::resources(object, path, errors),
        "apps.v1.DeploymentSpec" => workloads::deployment(object, path, errors),
        "apps.v1.ReplicaSetSpec" => workloads::replica_set(object, path, errors),
        "apps.v1.StatefulSetSpec" => workloads::stateful_set(object, path, errors),
        "apps.v1.DaemonSetSpec" => workloads::daemon_set(object, path, errors),
        "core.v1.ReplicationControllerSpec" => {
            workloads::replication_controller(object, path, errors);
        }
        "batch.v1.JobSpec" => workloads::job_spec(object, path, errors),
        "core.v1.ServiceSpec" => network::service_spec(object, path, errors),
        "networking.v1.IngressSpec" => network::ingress_spec(object, path, errors),
        "networking.v1.HTTPIngressPath" => network::ingress_path(object, path, errors),
        "networking.v1.IngressBackend" => network::ingress_backend(object, path, errors),
        "networking.v1.NetworkPolicySpec" => network::policy_types(object, path, errors),
        "networking.v1.NetworkPolicyPeer" => network::policy_peer(object, path, errors),
        "networking.v1.NetworkPolicyPort" => network::policy_port(object, path, errors),
        "core.v1.PersistentVolumeSpec" => config::volume_spec(object, path, errors),
        "discovery.v1.EndpointSlice" => network::endpoint_slice(object, path, errors),
        "core.v1.PersistentVolumeClaimSpec" => config::claim_spec(object, path, errors),
        "rbac.v1.Subject" => policy::subject(object, path, errors),
        "policy.v1.PodDisruptionBudgetSpec" => policy::budget_spec(object, path, errors),
        "autoscaling.v2.HorizontalPodAutoscalerSpec" => {
            policy::autoscaler_spec(object, path, errors);
        }
        "admissionregistration.v1.ValidatingWebhook"
        | "admissionregistration.v1.MutatingWebhook" => {
            admission::webhook(object, path, errors);
        }
        "admissionregistration.v1.RuleWithOperations" => {
            admission::operations(object, path, errors);
        }
        "admissionregistration.v1.Rule" => admission::rule(object, path, errors),
        "admissionregistration.v1.ServiceReference" => admission::service(object, path, errors),
        "admissionregistration.v1.ParamRef" => admission::param_ref(object, path, errors),
        "admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec" => {
            admission::actions(object, path, errors);
        }
        "admissionregistration.v1.ValidatingAdmissionPolicySpec" => {
            admission::policy_spec(object, path, errors);
        }
        "admissionregistration.v1.MutatingAdmissionPolicySpec" => {
            admission::resource_rules(object, path, errors);
        }
        _ => {}
    }
}

/// Rules of one kind as a whole, and of its changes.
fn check_kind(gvk: &GroupVersionKind, new: &Value, old: Option<&Value>, errors: &mut Errors) {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => pods::pod_update(new, old, errors),
        ("", "ConfigMap") => config::config_map(new, old, errors),
        ("", "Secret") => config::secret(new, old, errors),
        ("", "Event") => config::event(new, "reportingComponent", errors),
        ("events.k8s.io", "Event") => config::new_event(new, old, errors),
        ("", "PersistentVolumeClaim") => config::claim_update(new, old, errors),
        ("", "Service") => network::service_update(new, old, errors),
        ("batch", "Job") => workloads::job(new, old, errors),
        ("batch", "CronJob") => workloads::cron_job(new, old, errors),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => policy::role(gvk, new, errors),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            policy::role_binding(gvk, new, errors);
        }
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class(new, old, errors),
        _ => {}
    }
}

/// Fields that never change: group, kind, path.
const IMMUTABLE: &[(&str, &str, &str)] = &[
    ("apps", "Deployment", "spec.selector"),
    ("apps", "ReplicaSet", "spec.selector"),
    ("apps", "DaemonSet", "spec.selector"),
    ("apps", "StatefulSet", "spec.selector"),
    ("apps", "StatefulSet", "spec.volumeClaimTemplates"),
    ("apps", "StatefulSet", "spec.serviceName"),
    ("apps", "StatefulSet", "spec.podManagementPolicy"),
    ("apps", "ControllerRevision", "data"),
    ("batch", "Job", "spec.selector"),
    ("batch", "Job", "spec.completionMode"),
    ("batch", "Job", "spec.podFailurePolicy"),
    ("batch", "Job", "spec.backoffLimitPerIndex"),
    ("batch", "Job", "spec.managedBy"),
    ("batch", "Job", "spec.successPolicy"),
    ("", "Secret", "type"),
    ("rbac.authorization.k8s.io", "RoleBinding", "roleRef"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", "roleRef"),
    ("networking.k8s.io", "IngressClass", "spec.controller"),
    ("scheduling.k8s.io", "PriorityClass", "preemptionPolicy"),
    ("storage.k8s.io", "StorageClass", "parameters"),
    ("storage.k8s.io", "StorageClass", "provisioner"),
    ("storage.k8s.io", "StorageClass", "reclaimPolicy"),
    ("storage.k8s.io", "StorageClass", "volumeBindingMode"),
    ("node.k8s.io", "RuntimeClass", "handler"),
    ("discovery.k8s.io", "EndpointSlice", "addressType"),
];

fn check_immutable(gvk: &GroupVersionKind, new: &Value, old: &Value, errors: &mut Errors) {
    for (group, kind, path) in IMMUTABLE {
        if gvk.group != *group || gvk.kind != *kind {
            continue;
        }
        let (now, before) = (at(new, path), at(old, path));
        if now != before {
            let shown = shown_when_immutable(group, now);
            errors.invalid(&FieldPath::of(path), &shown, "field is immutable");
        }
    }
}

/// The new value as the error shows it: some groups show none, RBAC shows the names of Go fields.
fn shown_when_immutable(group: &str, value: &Value) -> Value {
    match group {
        "storage.k8s.io" | "node.k8s.io" | "discovery.k8s.io" => Value::Null,
        "rbac.authorization.k8s.io" => json!({
            "APIGroup": at(value, "apiGroup"), "Kind": at(value, "kind"), "Name": at(value, "name"),
        }),
        _ => value.clone(),
    }
}

/// The errors so far. Beyond the limit, error values are not even constructed.
#[derive(Default)]
struct Errors(FieldErrors);

impl Errors {
    fn required(&mut self, path: &FieldPath, detail: &str) {
        self.0.add(|| FieldError::required(path, detail));
    }

    fn invalid(&mut self, path: &FieldPath, value: &Value, detail: &str) {
        self.0.add(|| FieldError::invalid(path, value, detail));
    }

    fn not_supported(&mut self, path: &FieldPath, value: &Value, supported: &[&str]) {
        self.0
            .add(|| FieldError::not_supported(path, value, supported));
    }

    fn duplicate(&mut self, path: &FieldPath, value: &Value) {
        self.0.add(|| FieldError::duplicate(path, value));
    }

    fn forbidden(&mut self, path: &FieldPath, detail: &str) {
        self.0.add(|| FieldError::forbidden(path, detail));
    }

    fn not_found(&mut self, path: &FieldPath, value: &Value) {
        self.0.add(|| FieldError::not_found(path, value));
    }

    fn too_long(&mut self, path: &FieldPath, max: usize) {
        self.0.add(|| FieldError::too_long(path, max));
    }

    /// An error about a value that prints as `shown`, where JSON would print it differently.
    fn shown(&mut self, kind: FieldErrorKind, path: &FieldPath, shown: &str, detail: &str) {
        let what = match kind {
            FieldErrorKind::NotSupported => "Unsupported value",
            FieldErrorKind::Duplicate => "Duplicate value",
            _ => "Invalid value",
        };
        let separator = if detail.is_empty() { "" } else { ": " };
        self.0.add(|| FieldError {
            kind,
            field: path.to_string(),
            message: format!("{what}: {shown}{separator}{detail}"),
        });
    }

    /// One error for each complaint of a check.
    fn named(&mut self, path: &FieldPath, value: &Value, check: Check) {
        for complaint in check.err().into_iter().flatten() {
            self.invalid(path, value, &complaint);
        }
    }

    fn unchanged(&mut self, path: &FieldPath, new: &Value, old: &Value) {
        if new != old {
            self.invalid(path, new, "field is immutable");
        }
    }
}

/// The value at a dotted path; null when there is none.
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.')
        .try_fold(value, |value, key| value.get(key))
        .unwrap_or(&Value::Null)
}

/// A field of an object; null when there is none.
fn field<'a>(object: &'a Object, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

fn text<'a>(object: &'a Object, name: &str) -> &'a str {
    field(object, name).as_str().unwrap_or_default()
}

fn list<'a>(object: &'a Object, name: &str) -> &'a [Value] {
    field(object, name).as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
