//! Which admission policies match an object, case by case.

use serde_json::json;

use super::*;

/// A policy on the creation of Pods, served; `change` makes it another.
fn policy(kind: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut policy = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": kind,
        "metadata": {"name": "p", "generation": 4},
        "spec": {"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE", "UPDATE"]}]},
        "status": {"phase": "Active", "servingGeneration": 4},
    });
    if !kind.starts_with("Cluster") {
        policy["metadata"]["namespace"] = json!("shop");
    }
    change(&mut policy);
    policy
}

fn cluster_policy(change: impl FnOnce(&mut Value)) -> Value {
    policy("ClusterAdmissionPolicy", change)
}

/// Whether the policy acts on a Pod in namespace shop, by which step, to what effect.
fn of_pod(policy: Value) -> String {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}}});
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "shop"}}});
    let reference = ObjectRef::new("", "Pod", Some("shop"), "web");
    let graph = Graph::of(vec![pod, shop, policy]);
    let subject = Subject::new(&graph, &reference, true).unwrap();
    let entries = entries(&graph, &subject);
    let [entry] = entries.as_slice() else {
        panic!("one policy");
    };
    let last = entry.why.last().unwrap();
    format!("{} {}: {}", entry.acts, last.step, entry.effect.text)
}

#[test]
fn each_step_decides() {
    const DENIES: &str = "may deny CREATE,UPDATE; blocks when the server is down";
    type Change = fn(&mut Value);
    let cases: [(&str, Change, String); 12] = [
        ("all match", |_| {}, format!("yes rules: {DENIES}")),
        (
            "not served",
            |policy| policy["status"] = json!({"phase": "Pending"}),
            format!("pending rules: {DENIES}"),
        ),
        (
            "other resources",
            |policy| policy["spec"]["rules"][0]["resources"] = json!(["services", "pods/status"]),
            "no rules: may deny; blocks when the server is down".to_owned(),
        ),
        (
            "everything",
            |policy| {
                policy["spec"]["rules"][0]["resources"] = json!(["*"]);
                policy["spec"]["rules"][0]["operations"] = json!(["*"]);
            },
            "yes rules: may deny CONNECT,CREATE,DELETE,UPDATE; blocks when the server is down"
                .to_owned(),
        ),
        (
            "another version, which is equivalent",
            |policy| policy["spec"]["rules"][0]["apiVersions"] = json!(["v2"]),
            format!("yes rules: {DENIES}"),
        ),
        (
            "another version, and exact",
            |policy| {
                policy["spec"]["rules"][0]["apiVersions"] = json!(["v2"]);
                policy["spec"]["matchPolicy"] = json!("Exact");
            },
            "no rules: may deny; blocks when the server is down".to_owned(),
        ),
        (
            "another namespace",
            |policy| {
                policy["spec"]["namespaceSelector"] = json!({"matchLabels": {"team": "other"}});
            },
            format!("no namespaceSelector: {DENIES}"),
        ),
        (
            "this namespace",
            |policy| {
                policy["spec"]["namespaceSelector"] = json!({"matchLabels": {"team": "shop"}});
            },
            format!("yes namespaceSelector: {DENIES}"),
        ),
        (
            "another object",
            |policy| {
                policy["spec"]["objectSelector"] = json!({"matchLabels": {"app": "db"}});
            },
            format!("no objectSelector: {DENIES}"),
        ),
        (
            "a condition",
            |policy| {
                policy["spec"]["matchConditions"] = json!([{"name": "c", "expression": "true"}]);
            },
            format!("depends matchConditions: {DENIES}"),
        ),
        (
            "monitor mode",
            |policy| {
                policy["spec"]["mode"] = json!("monitor");
                policy["spec"]["failurePolicy"] = json!("Ignore");
            },
            "yes rules: reports only".to_owned(),
        ),
        (
            "mutating",
            |policy| {
                policy["spec"]["mutating"] = json!(true);
                policy["spec"]["failurePolicy"] = json!("Ignore");
            },
            "yes rules: may change CREATE,UPDATE".to_owned(),
        ),
    ];
    for (name, change, expected) in cases {
        assert_eq!(of_pod(cluster_policy(change)), expected, "{name}");
    }
}

#[test]
fn a_policy_of_a_namespace_acts_there_only() {
    let here = policy("AdmissionPolicy", |_| {});
    assert!(of_pod(here).starts_with("yes rules"));
    let elsewhere = policy("AdmissionPolicyGroup", |policy| {
        policy["metadata"]["namespace"] = json!("other");
    });
    assert!(of_pod(elsewhere).starts_with("no namespace"));
}

#[test]
fn cluster_scoped_objects_are_not_selected_by_namespace() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let policy = cluster_policy(|policy| {
        policy["spec"]["rules"][0]["resources"] = json!(["nodes"]);
        policy["spec"]["namespaceSelector"] = json!({"matchLabels": {"team": "other"}});
    });
    let graph = Graph::of(vec![node, policy]);
    let reference = ObjectRef::new("", "Node", None, "n");
    let subject = Subject::new(&graph, &reference, true).unwrap();
    assert_eq!(entries(&graph, &subject)[0].acts, "yes");
}
