//! What a replica may not do to the objects of another server, nor to the entries of other replicas, with the credentials
//! it runs with. Server A has the account that the controller makes for it; server B names an account.

use e2e::Kubectl;
use e2e::stage::NAMESPACE;
use serde_json::{Value, json};

use crate::scene::{Scene, scenarios};

scenarios![rights_of_a_replica];

/// A server, and a policy that it serves.
fn server(scene: &Scene, name: &str, fields: Value) {
    scene.server_with(name, fields);
    let mut policy = scene.policy("pod-privileged");
    policy["metadata"]["name"] = json!(name);
    policy["spec"]["policyServer"] = json!(name);
    scene.apply(&policy);
}

/// A command fails, and says why.
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

fn rights_of_a_replica(scene: &Scene) {
    let stage = scene.stage;
    let (a, b) = (format!("{}-a", scene.name), format!("{}-b", scene.name));
    server(scene, &a, json!({"replicas": 2}));
    let ours = scene.k.in_namespace(NAMESPACE);
    ours.ok(&format!("create serviceaccount {b}"));
    server(scene, &b, json!({"replicas": 1, "serviceAccountName": b}));
    for name in [&a, &b] {
        stage.until_phase(&format!("clusteradmissionpolicies/{name}"), "Active", 1);
    }
    let pod = &stage.pods(&a)[&format!("policy-server-{a}-0")];
    let kubeconfig = stage.folder_of(pod).join("access/kubeconfig");
    let replica = scene.k.in_namespace(NAMESPACE);
    let replica = replica.with(&format!("--kubeconfig {}", kubeconfig.display()));
    let revision_of = |name: &str| scene.revisions_of(name).pop().unwrap();
    let (of_a, of_b) = (revision_of(&a), revision_of(&b));

    // What it has to do, it may do.
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
        // Its own is a mounted file, and no more.
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
    // Nothing came of it.
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
