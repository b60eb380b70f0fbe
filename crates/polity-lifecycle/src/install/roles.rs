//! Accounts and rights.
//!
//! - The controller writes in its own namespace. Elsewhere it writes policies, webhook configurations, Events, and the
//!   ClusterRoleBindings that let policy servers read the cluster.
//! - The controller gives each policy server a Role of its own, and therefore holds the rights in those Roles itself.
//! - The cleanup has an account of its own, so that the controller needs no right to stop itself, and the job that deletes
//!   everything needs no Secrets.

use polity_api::policies::GROUP;
use serde_json::{Value, json};

use super::{CLEANUP_ACCOUNT, CONTEXT_WATCHER, CONTROLLER, POLICY_SERVER_ACCOUNT, labels};

const RBAC: &str = "rbac.authorization.k8s.io";
/// Added to the roles that every cluster has.
const VIEW: &str = "kubewarden-policies-view";
const EDIT: &str = "kubewarden-policies-edit";

const READ: &[&str] = &["get", "list", "watch"];
/// Finalizers are updated; recommended policies and policy servers are created, applied and deleted.
const OWN_KINDS: &[&str] = &[
    "get", "list", "watch", "create", "update", "patch", "delete",
];
const POLICIES: &[&str] = &[
    "admissionpolicies",
    "admissionpolicygroups",
    "clusteradmissionpolicies",
    "clusteradmissionpolicygroups",
];
/// The kinds for owners of one namespace. Revisions are not among them: only cluster admins read those.
const NAMESPACED_POLICIES: &[&str] = &["admissionpolicies", "admissionpolicygroups"];

/// Accounts, roles and bindings.
pub(super) fn all(namespace: &str) -> Vec<Value> {
    vec![
        account(CONTROLLER, namespace),
        account(POLICY_SERVER_ACCOUNT, namespace),
        account(CLEANUP_ACCOUNT, namespace),
        cluster_role(CONTROLLER, &json!({}), &controller_everywhere()),
        cluster_binding(CONTROLLER, CONTROLLER, namespace),
        role(CONTROLLER, namespace, &controller_at_home()),
        binding(CONTROLLER, namespace),
        cluster_role(CLEANUP_ACCOUNT, &json!({}), &cleanup_everywhere()),
        cluster_binding(CLEANUP_ACCOUNT, CLEANUP_ACCOUNT, namespace),
        role(CLEANUP_ACCOUNT, namespace, &cleanup_at_home()),
        binding(CLEANUP_ACCOUNT, namespace),
        cluster_role(CONTEXT_WATCHER, &json!({}), &context()),
        cluster_binding(CONTEXT_WATCHER, POLICY_SERVER_ACCOUNT, namespace),
        cluster_role(
            VIEW,
            &aggregated(&["view"]),
            &[rule(GROUP, NAMESPACED_POLICIES, READ)],
        ),
        cluster_role(
            EDIT,
            &aggregated(&["edit", "admin"]),
            &[rule(
                GROUP,
                NAMESPACED_POLICIES,
                &[
                    "get",
                    "list",
                    "watch",
                    "create",
                    "update",
                    "patch",
                    "delete",
                    "deletecollection",
                ],
            )],
        ),
    ]
}

/// The rights of the controller in the whole cluster: policies, their webhooks and Events, and the ClusterRoleBindings of
/// policy servers. It may bind that one ClusterRole without holding its rights.
fn controller_everywhere() -> Vec<Value> {
    let mut bind_context = rule(RBAC, &["clusterroles"], &["bind"]);
    bind_context["resourceNames"] = json!([CONTEXT_WATCHER]);
    let statuses: Vec<_> = POLICIES
        .iter()
        .map(|kind| format!("{kind}/status"))
        .collect();
    let statuses: Vec<_> = statuses.iter().map(String::as_str).collect();
    vec![
        rule(GROUP, POLICIES, OWN_KINDS),
        rule(GROUP, &statuses, &["update"]),
        rule(GROUP, &["policyservers"], OWN_KINDS),
        rule(GROUP, &["policyservers/status"], &["patch"]),
        // Clusters that protect owners let only accounts with this right set an owner reference that blocks deletion.
        rule(GROUP, &["policyservers/finalizers"], &["update"]),
        rule(
            "admissionregistration.k8s.io",
            &[
                "mutatingwebhookconfigurations",
                "validatingwebhookconfigurations",
            ],
            &[
                "get", "list", "watch", "create", "update", "patch", "delete",
            ],
        ),
        rule("", &["events"], &["get", "create", "update"]),
        rule(
            RBAC,
            &["clusterrolebindings"],
            &["get", "list", "watch", "create", "patch"],
        ),
        bind_context,
    ]
}

/// The rights of the controller in its own namespace: the objects of policy servers, and the rights that it gives them.
fn controller_at_home() -> Vec<Value> {
    vec![
        rule(
            GROUP,
            &["policyrevisions"],
            &["get", "list", "watch", "create", "update", "delete"],
        ),
        rule(
            GROUP,
            &["policyrevisions/status"],
            &["get", "update", "patch"],
        ),
        rule(
            "coordination.k8s.io",
            &["leases"],
            &["get", "list", "watch", "create", "update", "patch"],
        ),
        rule(
            "apps",
            &["statefulsets"],
            &["get", "list", "watch", "create", "patch"],
        ),
        rule(
            "",
            &[
                "configmaps",
                "persistentvolumeclaims",
                "serviceaccounts",
                "services",
            ],
            &["get", "list", "watch", "create", "patch"],
        ),
        rule(
            "",
            &["secrets"],
            &["get", "list", "watch", "create", "update"],
        ),
        rule("", &["pods"], READ),
        rule(
            "policy",
            &["poddisruptionbudgets"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        rule(
            RBAC,
            &["roles", "rolebindings"],
            &["get", "list", "watch", "create", "patch"],
        ),
        rule("events.k8s.io", &["events"], &["list"]),
    ]
}

/// The rights of the cleanup in the whole cluster. Without a controller it removes webhooks and finalizers itself.
fn cleanup_everywhere() -> Vec<Value> {
    vec![
        rule(GROUP, POLICIES, &["list", "patch", "delete"]),
        rule(GROUP, &["policyservers"], &["list", "patch", "delete"]),
        rule(
            "admissionregistration.k8s.io",
            &[
                "mutatingwebhookconfigurations",
                "validatingwebhookconfigurations",
            ],
            &["list", "delete"],
        ),
    ]
}

/// The rights of the cleanup in its namespace: revisions, the scale of the controller's Deployment, and its pods.
fn cleanup_at_home() -> Vec<Value> {
    let mut look = rule("apps", &["deployments"], &["get"]);
    let mut stop = rule("apps", &["deployments/scale"], &["patch"]);
    for rule in [&mut look, &mut stop] {
        rule["resourceNames"] = json!([CONTROLLER]);
    }
    vec![
        rule(GROUP, &["policyrevisions"], &["list", "delete"]),
        look,
        stop,
        // The controller restores its webhooks as long as one of its pods runs.
        rule("", &["pods"], &["list"]),
    ]
}

/// What context-aware policies may read of the cluster.
fn context() -> Vec<Value> {
    vec![
        rule("", &["namespaces", "pods", "services"], READ),
        rule(
            "apps",
            &["daemonsets", "deployments", "replicasets", "statefulsets"],
            READ,
        ),
        rule("networking.k8s.io", &["ingresses"], READ),
        rule(
            "authorization.k8s.io",
            &["subjectaccessreviews"],
            &["create"],
        ),
    ]
}

fn account(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": labels()},
    })
}

fn cluster_role(name: &str, more_labels: &Value, rules: &[Value]) -> Value {
    let mut labels = labels();
    for (key, value) in more_labels.as_object().into_iter().flatten() {
        labels[key] = value.clone();
    }
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels}, "rules": rules,
    })
}

fn aggregated(to: &[&str]) -> Value {
    to.iter()
        .map(|role| (format!("{RBAC}/aggregate-to-{role}"), json!("true")))
        .collect()
}

fn cluster_binding(role: &str, account: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": role, "labels": labels()},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    })
}

fn role(name: &str, namespace: &str, rules: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role",
        "metadata": {"name": name, "namespace": namespace, "labels": labels()}, "rules": rules,
    })
}

/// Binds a Role to the account of the same name.
fn binding(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace, "labels": labels()},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    })
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}
