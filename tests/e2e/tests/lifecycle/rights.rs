//! With its own credentials, a replica cannot change objects of another policy server or status entries of other
//! replicas. Server A uses the ServiceAccount that the controller creates for it; server B uses an existing one.

use e2e::Kubectl;
use e2e::installation::NAMESPACE;
use serde_json::{Value, json};

use crate::test_namespace::{TestNamespace, scenarios};

scenarios![rights_of_a_replica];

/// Creates a policy server and a policy on it.
fn server(test_namespace: &TestNamespace, name: &str, fields: Value) {
    test_namespace.server_with(name, fields);
    let mut policy = test_namespace.policy("pod-privileged");
    policy["metadata"]["name"] = json!(name);
    policy["spec"]["policyServer"] = json!(name);
    test_namespace.apply(&policy);
}

/// Runs a command that must be forbidden.
#[track_caller]
fn is_refused(kubectl: &Kubectl, line: &str, words: &[&str]) {
    let refusal = kubectl.fails(line);
    for words in words {
        assert!(
            refusal.contains(words),
            "{line}: {words:?} not in {refusal}"
        );
    }
}

/// A command that changes the message of one condition of a revision.
fn report(revision: &Value, is_it: impl Fn(&Value) -> bool) -> String {
    let conditions = revision["status"]["conditions"].as_array().unwrap();
    let position = conditions.iter().position(is_it).unwrap();
    let path = format!("/status/conditions/{position}/message");
    let patch = json!([{"op": "replace", "path": path, "value": "by somebody"}]);
    format!(
        "patch policyrevision {} --subresource=status --type=json -p '{patch}'",
        name_of(revision)
    )
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn rights_of_a_replica(test_namespace: &TestNamespace) {
    let installation = test_namespace.installation;
    let (a, b) = (
        format!("{}-a", test_namespace.name),
        format!("{}-b", test_namespace.name),
    );
    server(test_namespace, &a, json!({"replicas": 2}));
    let ours = test_namespace.k.in_namespace(NAMESPACE);
    ours.ok(&format!("create serviceaccount {b}"));
    server(
        test_namespace,
        &b,
        json!({"replicas": 1, "serviceAccountName": b}),
    );
    for name in [&a, &b] {
        installation.until_phase(&format!("clusteradmissionpolicies/{name}"), "Active", 1);
    }
    let pod = &installation.pods(&a)[&format!("policy-server-{a}-0")];
    let kubeconfig = installation.folder_of(pod).join("access/kubeconfig");
    let replica = test_namespace.k.in_namespace(NAMESPACE);
    let replica = replica.with(&format!("--kubeconfig {}", kubeconfig.display()));
    let revision_of = |name: &str| test_namespace.revisions_of(name).pop().unwrap();
    let (of_a, of_b) = (revision_of(&a), revision_of(&b));

    // The replica may do what it needs to.
    let ready = |ordinal: u64| move |one: &Value| one["replica"] == ordinal;
    replica.ok(&report(&of_a, ready(0)));
    let take = "--type=merge -p '{\"spec\":{\"leaseDurationSeconds\":15}}'";
    replica.ok(&format!("patch lease policy-server-{a} {take}"));
    replica.ok("get policyrevisions");

    let by_b = format!("only the controller and the policy server \"{b}\" report");
    for one in of_b["status"]["conditions"].as_array().unwrap() {
        is_refused(&replica, &report(&of_b, |other| other == one), &[&by_b]);
    }
    is_refused(
        &replica,
        &report(&of_a, ready(1)),
        &["replica 0 cannot report for replica 1"],
    );
    let user = format!("system:serviceaccount:{NAMESPACE}:policy-server-{a}");
    let forbidden = |line: &str, what: &str| {
        is_refused(&replica, line, &["Forbidden", &user, what]);
    };
    forbidden(
        &format!("patch lease policy-server-{b} {take}"),
        "cannot get resource \"leases\"",
    );
    for name in [&a, &b] {
        // The replica has the signer of its own cache only as a mounted file.
        forbidden(
            &format!("get secret cache-signer-{name}"),
            "cannot get resource \"secrets\"",
        );
    }
    for revision in [&of_a, &of_b] {
        let disable = "--type=merge -p '{\"spec\":{\"enabled\":false}}'";
        let line = format!("patch policyrevision {} {disable}", name_of(revision));
        forbidden(&line, "cannot patch resource \"policyrevisions\"");
        forbidden(
            &format!("delete policyrevision {}", name_of(revision)),
            "cannot delete resource \"policyrevisions\"",
        );
    }
    // No object has changed.
    let same = |before: &Value, after: &Value| {
        assert_eq!(before["spec"], after["spec"]);
        assert_eq!(
            before["metadata"]["generation"],
            after["metadata"]["generation"]
        );
    };
    same(&of_a, &revision_of(&a));
    same(&of_b, &revision_of(&b));
    assert_eq!(of_b["status"], revision_of(&b)["status"]);
}
