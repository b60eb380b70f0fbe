//! The behaviour that is specific to a few kinds, in one place.
//!
//! All other data about kinds is in `polity-kinds`.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use polity_core::field::FieldError;
use serde_json::{Value, json};

use super::Call;
use crate::custom;
use crate::object::meta;
use crate::served::ServedResource;
use polity_auth::Authorizer;
use polity_auth::rbac::{RoleWrite, confirm_no_escalation};
use polity_kinds::status::{ApiError, Cause, ResourceName};
use polity_webhooks::configurations;

const NAMESPACES: ResourceName<'static> = ResourceName {
    group: "",
    plural: "namespaces",
};

fn is(def: &ServedResource, group: &str, kind: &str) -> bool {
    def.gvk.group == group && def.gvk.kind == kind
}

fn is_namespace(def: &ServedResource) -> bool {
    is(def, "", "Namespace")
}

fn is_crd(def: &ServedResource) -> bool {
    is(def, "apiextensions.k8s.io", "CustomResourceDefinition")
}

/// Objects are created only in namespaces that exist and stay.
pub fn check_namespace(call: &Call<'_>, name: &str) -> Result<(), ApiError> {
    if !call.def.is_namespaced() || call.def.flags.create_only {
        return Ok(());
    }
    let Some(namespace) = call.cluster.namespace(call.namespace) else {
        return Err(ApiError::not_found(NAMESPACES, call.namespace));
    };
    if !namespace.index.is_deleting() {
        return Ok(());
    }
    let why = format!(
        "unable to create new content in namespace {} because it is being terminated",
        call.namespace
    );
    let mut error = ApiError::forbidden(call.def.resource_name(), name, &why);
    if let Some(details) = &mut error.details {
        details.causes = vec![Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {} is being terminated", call.namespace),
            field: "metadata.namespace".into(),
        }];
    }
    Err(error)
}

/// Sets fields that depend on the uid or on other objects.
pub fn complete_new(call: &Call<'_>, object: &mut Value) -> Result<(), ApiError> {
    match (call.def.gvk.group.as_str(), call.def.gvk.kind.as_str()) {
        ("", "Service") => complete_service(call, None, object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            custom::definition::complete_new(object);
        }
        _ => {}
    }
    Ok(())
}

/// As [`complete_new`], for a change.
pub fn complete_changed(call: &Call<'_>, live: &Value, object: &mut Value) -> Result<(), ApiError> {
    match (call.def.gvk.group.as_str(), call.def.gvk.kind.as_str()) {
        ("", "Service") => complete_service(call, Some(live), object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") if call.subresource.is_none() => {
            custom::definition::complete_changed(live, object);
        }
        _ => {}
    }
    Ok(())
}

/// Only `/finalize` changes a namespace's `spec.finalizers`.
pub fn keep_spec_finalizers(def: &ServedResource, live: &Value, object: &mut Value) {
    if is_namespace(def) {
        match live.pointer("/spec/finalizers") {
            Some(finalizers) => object["spec"]["finalizers"] = finalizers.clone(),
            None => {
                if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                    spec.remove("finalizers");
                }
            }
        }
    }
}

/// Checks that need more than the object's own schema.
pub fn validate(call: &Call<'_>, object: &Value, live: Option<&Value>) -> Vec<FieldError> {
    match (call.def.gvk.group.as_str(), call.def.gvk.kind.as_str()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") if call.subresource.is_none() => {
            custom::definition::validate(object, live, call.cluster.compiler())
        }
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => configurations::validate_match_conditions(object),
        _ => Vec::new(),
    }
}

/// Refuses roles and bindings that grant more than the user holds.
pub fn authorize_write(
    call: &Call<'_>,
    object: &Value,
    live: Option<&Value>,
) -> Result<(), ApiError> {
    if call.def.gvk.group != "rbac.authorization.k8s.io" {
        return Ok(());
    }
    let roles = call.cluster.roles();
    let authorizer = Authorizer {
        mode: call.cluster.authorization(),
        roles: &roles,
    };
    let write = RoleWrite {
        namespace: call.namespace,
        request_name: call.name,
        new: object,
        old: live,
    };
    confirm_no_escalation(&authorizer, call.user, &write)
}

/// An update or apply that creates needs the permission to create.
pub fn authorize_create(call: &Call<'_>) -> Result<(), ApiError> {
    call.cluster.authorize_resource(
        call.user,
        &call.def,
        "create",
        call.namespace,
        call.name,
        "",
    )
}

/// Some namespaces cannot be deleted.
pub fn may_delete(call: &Call<'_>) -> Result<(), ApiError> {
    if is_namespace(&call.def) && matches!(call.name, "default" | "kube-system" | "kube-public") {
        return Err(ApiError::forbidden(
            NAMESPACES,
            call.name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

/// The grace period in seconds: only Pods that are assigned to a node have one.
pub fn grace_seconds(def: &ServedResource, live: &Value, asked: Option<i64>) -> i64 {
    if !is(def, "", "Pod") {
        return 0;
    }
    let unscheduled = live
        .pointer("/spec/nodeName")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .is_empty();
    let phase = live
        .pointer("/status/phase")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if unscheduled || matches!(phase, "Succeeded" | "Failed") {
        return 0;
    }
    let own = live
        .pointer("/spec/terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(30);
    let grace = asked.unwrap_or(own);
    if grace < 0 { 1 } else { grace }
}

/// Whether something besides `metadata.finalizers` keeps the object from going.
pub fn holds_deletion(def: &ServedResource, live: &Value) -> bool {
    (is_namespace(def) && !meta::strings(live.pointer("/spec/finalizers")).is_empty())
        // Its finalizer is added with the deletion.
        || (is_crd(def) && !meta::is_deleting(live))
}

/// Whether deletion is a matter of time for this kind; for the others the grace is not shown.
pub fn shows_grace(def: &ServedResource) -> bool {
    !is_namespace(def) && !is_crd(def)
}

/// Whether an object that is removed at once is still returned with a deletion timestamp.
pub fn says_goodbye(def: &ServedResource) -> bool {
    is(def, "", "Pod")
}

/// The changes to an object when its deletion begins.
pub fn deletion_begins(def: &ServedResource, object: &mut Value, now: Timestamp) {
    if is_namespace(def) {
        object["status"]["phase"] = json!("Terminating");
    }
    if is_crd(def) {
        custom::definition::deletion_begins(object, now);
    }
}

/// Whether an object that is being deleted has nothing left to wait for.
pub fn deletion_is_finished(def: &ServedResource, object: &Value) -> bool {
    let grace = meta::of(object)
        .get("deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    meta::is_deleting(object)
        && meta::finalizers(object).is_empty()
        && grace == 0
        && !holds_deletion(def, object)
}

/// The addresses Services get: the range of most clusters.
const SERVICE_RANGE: [u8; 2] = [10, 96];

/// The ports of nodes that Services get.
const NODE_PORTS: std::ops::Range<u64> = 30000..32768;

/// Allocates the cluster resources that a Service requests.
fn complete_service(call: &Call<'_>, live: Option<&Value>, object: &mut Value) {
    assign_cluster_ip(call, live, object);
    if matches!(
        object.pointer("/spec/type").and_then(Value::as_str),
        Some("NodePort" | "LoadBalancer")
    ) && object.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&json!(false))
    {
        assign_node_ports(call, live, object);
    }
}

/// Gives every port of a Service a port on the nodes, or keeps the one it had.
fn assign_node_ports(call: &Call<'_>, live: Option<&Value>, object: &mut Value) {
    let ports_of = |service: &Value| {
        service
            .pointer("/spec/ports")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let before = live.map(ports_of).unwrap_or_default();
    let snapshot = call.cluster.store().current();
    let services = snapshot
        .range(&call.def.bucket, None, None)
        .filter_map(|stored| serde_json::from_slice::<Value>(&stored.bytes).ok());
    let mut taken: std::collections::HashSet<u64> = services
        .flat_map(|service| ports_of(&service))
        .filter_map(|port| port["nodePort"].as_u64())
        .collect();
    let start = uuid::Uuid::new_v4().as_u128() as u64 % NODE_PORTS.count() as u64;
    for port in object
        .pointer_mut("/spec/ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if port["nodePort"].as_u64().is_some_and(|given| given > 0) {
            continue;
        }
        let kept = before
            .iter()
            .find(|old| old["port"] == port["port"] && old["protocol"] == port["protocol"]);
        let free = || {
            NODE_PORTS
                .cycle()
                .skip(start as usize)
                .take(NODE_PORTS.count())
                .find(|number| !taken.contains(number))
        };
        if let Some(number) = kept.and_then(|old| old["nodePort"].as_u64()).or_else(free) {
            taken.insert(number);
            port["nodePort"] = json!(number);
        }
    }
}

/// Gives a Service its cluster IP, or keeps the one it has.
fn assign_cluster_ip(call: &Call<'_>, live: Option<&Value>, object: &mut Value) {
    let kind = object
        .pointer("/spec/type")
        .and_then(Value::as_str)
        .unwrap_or("ClusterIP")
        .to_owned();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if kind == "ExternalName" {
        return;
    }
    let mut address = spec
        .get("clusterIP")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if address.is_empty() {
        let kept = live
            .and_then(|live| live.pointer("/spec/clusterIP"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        address = if kept.is_empty() {
            free_address(call)
        } else {
            kept.to_owned()
        };
    }
    spec.insert("clusterIPs".into(), json!([address]));
    spec.insert("clusterIP".into(), json!(address));
    // A Service without addresses and selector may have endpoints of any family.
    let selects = spec
        .get("selector")
        .and_then(Value::as_object)
        .is_some_and(|selector| !selector.is_empty());
    let (families, policy) = match address.as_str() {
        "None" if !selects => (json!(["IPv4", "IPv6"]), "RequireDualStack"),
        address if address.contains(':') => (json!(["IPv6"]), "SingleStack"),
        _ => (json!(["IPv4"]), "SingleStack"),
    };
    spec.entry("ipFamilies").or_insert(families);
    spec.entry("ipFamilyPolicy")
        .or_insert_with(|| json!(policy));
}

/// An address no Service has, found from a random place on.
fn free_address(call: &Call<'_>) -> String {
    let snapshot = call.cluster.store().current();
    let taken: std::collections::HashSet<String> = snapshot
        .range(&call.def.bucket, None, None)
        .filter_map(|stored| serde_json::from_slice::<Value>(&stored.bytes).ok())
        .filter_map(|service| {
            service
                .pointer("/spec/clusterIP")
                .and_then(Value::as_str)
                .map(str::to_owned)
        })
        .collect();
    let start = uuid::Uuid::new_v4().as_u128() as u16;
    (0..=u16::MAX)
        .map(|step| start.wrapping_add(step))
        .filter(|host| !matches!(*host, 0 | 1 | u16::MAX))
        .map(|host| {
            Ipv4Addr::new(
                SERVICE_RANGE[0],
                SERVICE_RANGE[1],
                (host >> 8) as u8,
                host as u8,
            )
            .to_string()
        })
        .find(|address| !taken.contains(address))
        .unwrap_or_default()
}
