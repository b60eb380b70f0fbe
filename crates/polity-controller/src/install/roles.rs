//! Who may do what. The controller reads our kinds everywhere and writes in its own namespace only, recommended policies,
//! webhook configurations and Events apart; what a policy server may do in that namespace the controller gives to each by
//! name. The cleanup has an account of its own: who runs all the time needs no right to stop itself, and who deletes
//! everything needs no Secrets.

use polity_api::policies::GROUP;
use serde_json::{Value, json};

use super::{CLEANUP_ACCOUNT, CONTROLLER, POLICY_SERVER_ACCOUNT, labels};

const RBAC: &str = "rbac.authorization.k8s.io";
/// What context-aware policies may read, by the name that installations know.
const CONTEXT_WATCHER: &str = "kubewarden-context-watcher";
/// Added to the roles that clusters have for everybody.
const VIEW: &str = "kubewarden-policies-view";
const EDIT: &str = "kubewarden-policies-edit";

const READ: &[&str] = &["get", "list", "watch"];
/// Finalizers are updated; recommended policies and servers are created, applied and deleted.
const OWN_KINDS: &[&str] = &[
    "get", "list", "watch", "create", "update", "patch", "delete",
];
const POLICIES: &[&str] = &[
    "admissionpolicies",
    "admissionpolicygroups",
    "clusteradmissionpolicies",
    "clusteradmissionpolicygroups",
];
/// Those that people with rights in one namespace own. Revisions are nobody's: only cluster admins read them.
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

/// In every namespace: policies are there, and what is told about them.
fn controller_everywhere() -> Vec<Value> {
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
        // Where owners are protected, only those who may set finalizers may name them as owners that wait.
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
        rule("events.k8s.io", &["events"], &["get", "create", "update"]),
    ]
}

/// In its own namespace: what policy servers are made of. It holds what it gives to them, or it could not give it.
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
            &["get", "create", "update", "patch"],
        ),
        rule(
            "apps",
            &["statefulsets"],
            &["get", "list", "watch", "create", "patch"],
        ),
        rule(
            "",
            &["services", "persistentvolumeclaims"],
            &["get", "create", "patch"],
        ),
        // Watched for recommended policies.
        rule(
            "",
            &["configmaps"],
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
            &["get", "create", "patch", "delete"],
        ),
        rule(
            RBAC,
            &["roles", "rolebindings"],
            &["get", "create", "patch"],
        ),
        rule("events.k8s.io", &["events"], &["list"]),
    ]
}

/// Policies are in every namespace; without a controller their webhooks and finalizers go too.
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

/// What policies leave behind, and the controller itself: of all Deployments only that one, and of it only its scale.
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
    ]
}

/// What policies that look around may see of the cluster.
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

/// A Role to the account of the same name.
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
