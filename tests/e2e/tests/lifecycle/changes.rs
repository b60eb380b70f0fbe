//! Changes of a serving policy: in sequence, during another change, rollback to an earlier generation, and all webhook
//! fields at once.

use e2e::eventually;
use serde_json::{Value, json};

use crate::load;
use crate::test_namespace::{TestNamespace, scenarios};

scenarios![
    changed_while_changing,
    rolled_back,
    rollbacks_that_are_refused,
    rollbacks_that_are_reverted,
    everything_of_a_webhook_at_once,
    flipped_under_load,
];

const ROLLBACK: &str = "kubewarden.io/rollback-to-generation";

fn with_message(test_namespace: &TestNamespace, message: &str) -> Value {
    let mut policy = test_namespace.policy("pod-privileged");
    policy["spec"]["message"] = json!(message);
    policy
}

/// A superseded generation never serves, and its successor does not wait for it.
fn changed_while_changing(test_namespace: &TestNamespace) {
    let (installation, path) = (test_namespace.installation, test_namespace.path());
    let on = |message: &str| {
        let mut policy = with_message(test_namespace, message);
        policy["spec"]["policyServer"] = json!(test_namespace.name);
        policy
    };
    test_namespace.server(&test_namespace.name, 1);
    test_namespace.apply(&on("first"));
    installation.until_phase(&path, "Active", 1);
    test_namespace.gate("c.type == 'Ready' && c.generation == 2");
    test_namespace.apply(&on("second"));
    installation.until_phase(&path, "Updating", 1);
    test_namespace.enforces("first");
    test_namespace.apply(&on("third"));
    let status = installation.until_phase(&path, "Active", 3);
    test_namespace.enforces("third");
    let generations = |condition: &Value| condition["generation"].as_u64();
    let spoken = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(generations);
    assert!(spoken.clone().all(|generation| generation == 3), "{status}");
    eventually("older revisions are disabled", || {
        let enabled = test_namespace
            .revisions()
            .into_iter()
            .filter(|one| one["spec"]["enabled"] == true);
        let generations: Vec<_> = enabled
            .map(|one| one["spec"]["policyGeneration"].clone())
            .collect();
        (generations == [3]).then_some(())
    });
    test_namespace.open_gate();
    let history: Vec<_> = status["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["generation"].clone(), one["result"].clone()))
        .collect();
    assert_eq!(
        history,
        [(json!(2), json!("Superseded")), (json!(1), json!("Active"))],
    );
}

/// Rolls back to the serving generation while the update is broken, to an earlier generation, and to one that never
/// worked.
fn rolled_back(test_namespace: &TestNamespace) {
    let (installation, path, name) = (
        test_namespace.installation,
        test_namespace.path(),
        &test_namespace.name,
    );
    let spec = |field: &str| {
        test_namespace
            .k
            .field(&format!("cap {name}"), &format!(".spec.{field}"))
    };
    test_namespace.apply(&with_message(test_namespace, "first"));
    installation.until_phase(&path, "Active", 1);
    test_namespace.apply(&with_message(test_namespace, "second"));
    installation.until_phase(&path, "Active", 2);
    let mut broken = with_message(test_namespace, "third");
    broken["spec"]["settings"] = json!({"skip": 1});
    test_namespace.apply(&broken);
    installation.until_phase(&path, "Failed", 2);

    // To the serving generation while the latest one has failed.
    test_namespace
        .k
        .ok(&format!("annotate cap {name} {ROLLBACK}=2"));
    installation.until_phase(&path, "Active", 4);
    assert_eq!(
        (spec("message"), spec("settings")),
        ("second".into(), String::new())
    );
    test_namespace.enforces("second");
    // To an earlier generation.
    test_namespace
        .k
        .ok(&format!("annotate cap {name} {ROLLBACK}=1"));
    installation.until_phase(&path, "Active", 5);
    test_namespace.enforces("first");
    // To one that never worked: it fails again, and the serving generation keeps serving.
    test_namespace
        .k
        .ok(&format!("annotate cap {name} {ROLLBACK}=3"));
    let status = installation.until_phase(&path, "Failed", 5);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("SettingsInvalid"),
        "{status}"
    );
    assert_eq!(spec("message"), "third");
    test_namespace.enforces("first");
    test_namespace
        .k
        .ok(&format!("annotate cap {name} {ROLLBACK}=5"));
    installation.until_phase(&path, "Active", 7);
    let policy = installation.read(&path).unwrap();
    let annotations = &policy["metadata"]["annotations"];
    assert!(annotations.get(ROLLBACK).is_none(), "{policy}");
    assert_eq!(annotations["kubewarden.io/rolled-back"], "7=5", "{policy}");
    assert_eq!(test_namespace.events("PolicyRolledBack"), 4);
}

fn rollbacks_that_are_refused(test_namespace: &TestNamespace) {
    let (installation, path, name) = (
        test_namespace.installation,
        test_namespace.path(),
        &test_namespace.name,
    );
    let mut policy = with_message(test_namespace, "first");
    policy["spec"]["mode"] = json!("monitor");
    test_namespace.apply(&policy);
    installation.until_phase(&path, "Active", 1);
    assert_eq!(test_namespace.try_pod(true), Ok(()));
    policy["spec"]["mode"] = json!("protect");
    test_namespace.apply(&policy);
    installation.until_phase(&path, "Active", 2);
    let before = installation.read(&path).unwrap()["spec"].clone();
    // A generation that does not exist, a value that is not a number, and a generation that would change `protect` to
    // `monitor`.
    for (n, to) in ["9", "x", "1"].into_iter().enumerate() {
        test_namespace
            .k
            .ok(&format!("annotate cap {name} {ROLLBACK}={to}"));
        installation.until("the annotation is gone", &path, |policy| {
            policy["metadata"]["annotations"].get(ROLLBACK).is_none()
        });
        eventually("there is an Event", || {
            (test_namespace.events("RollbackFailed") == n + 1).then_some(())
        });
    }
    let policy = installation.read(&path).unwrap();
    assert_eq!(
        (&policy["spec"], &policy["metadata"]["generation"]),
        (&before, &json!(2))
    );
    test_namespace.enforces("first");
}

/// Applying the manifest again, with either kind of apply, creates one new generation. The event names the user.
fn rollbacks_that_are_reverted(test_namespace: &TestNamespace) {
    let (installation, path, name) = (
        test_namespace.installation,
        test_namespace.path(),
        &test_namespace.name,
    );
    test_namespace.apply(&with_message(test_namespace, "first"));
    installation.until_phase(&path, "Active", 1);
    let latest = with_message(test_namespace, "second");
    test_namespace.apply(&latest);
    installation.until_phase(&path, "Active", 2);
    let ways = ["apply -f -", "apply --server-side --force-conflicts -f -"];
    for (way, generation) in ways.into_iter().zip([3, 5]) {
        test_namespace
            .k
            .ok(&format!("annotate cap {name} {ROLLBACK}=1"));
        installation.until_phase(&path, "Active", generation);
        test_namespace.enforces("first");
        test_namespace.k.ok_with_input(way, &latest.to_string());
        installation.until_phase(&path, "Active", generation + 1);
        test_namespace.enforces("second");
    }
    eventually("Events tell", || {
        (test_namespace.events("RollbackReverted") == 2).then_some(())
    });
    assert_eq!(
        installation.read(&path).unwrap()["metadata"]["generation"],
        6
    );
}

/// Rules, failurePolicy and webhook kind that change together with invalid settings have no effect. When the settings
/// are valid, they change in one write.
fn everything_of_a_webhook_at_once(test_namespace: &TestNamespace) {
    let (installation, path) = (test_namespace.installation, test_namespace.path());
    let mut policy = test_namespace.policy("required-metadata");
    policy["spec"]["settings"] = json!({"labels": {"denied": ["secret"]}});
    test_namespace.apply(&policy);
    installation.until_phase(&path, "Active", 1);
    let name = format!("clusterwide-{}", test_namespace.name);
    let webhook = |kind: &str| {
        installation.get(&format!(
            "/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{name}"
        ))
    };
    let before = webhook("validating").unwrap();
    assert!(webhook("mutating").is_none());

    policy["spec"]["mutating"] = json!(true);
    policy["spec"]["failurePolicy"] = json!("Ignore");
    policy["spec"]["rules"][0]["operations"] = json!(["CREATE", "UPDATE"]);
    policy["spec"]["settings"] = json!({"labels": {"unheard": []}});
    test_namespace.apply(&policy);
    installation.until_phase(&path, "Failed", 1);
    assert_eq!(webhook("validating"), Some(before));
    assert!(webhook("mutating").is_none());

    policy["spec"]["settings"] = json!({"labels": {"defaults": {"tier": "back"}}});
    test_namespace.apply(&policy);
    installation.until_phase(&path, "Active", 3);
    let after = webhook("mutating").unwrap();
    let hook = &after["webhooks"][0];
    assert_eq!(hook["failurePolicy"], "Ignore", "{after}");
    assert_eq!(
        hook["rules"][0]["operations"],
        json!(["CREATE", "UPDATE"]),
        "{after}"
    );
    assert!(
        hook["clientConfig"]["service"]["path"]
            .as_str()
            .unwrap()
            .ends_with("/3"),
        "{after}"
    );
    assert_eq!(after["metadata"]["generation"], 1, "written once: {after}");
    eventually("the validating one goes", || {
        webhook("validating").is_none().then_some(())
    });
    let pod = test_namespace
        .k
        .json("run trial --image=busybox:1 --dry-run=server");
    assert_eq!(pod["metadata"]["labels"]["tier"], "back", "{pod}");
}

/// A policy changes from a validating to a mutating webhook and back. At every moment one of them denies a violating
/// Pod.
fn flipped_under_load(test_namespace: &TestNamespace) {
    let (installation, path) = (test_namespace.installation, test_namespace.path());
    let mut policy = test_namespace.policy("required-metadata");
    policy["spec"]["settings"] = json!({"labels": {"denied": ["secret"]}});
    policy["spec"]["message"] = json!("as of either generation");
    test_namespace.apply(&policy);
    installation.until_phase(&path, "Active", 1);
    let attempt = |violates: bool| {
        let label = if violates { "secret" } else { "open" };
        test_namespace.try_this_pod(json!({"name": "trial", "labels": {label: "yes"}}), false)
    };
    eventually("it is enforced", || {
        (attempt(true).is_err() && attempt(false).is_ok()).then_some(())
    });
    let ((), load) = load::during(3, "as of either generation", attempt, || {
        for generation in 2..=5 {
            policy["spec"]["mutating"] = json!(generation % 2 == 0);
            test_namespace.apply(&policy);
            installation.until_phase(&path, "Active", generation);
        }
        eventually("the last of the others is gone", || {
            let name = format!("clusterwide-{}", test_namespace.name);
            let kind = "mutatingwebhookconfigurations";
            let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}/{name}");
            installation.get(&path).is_none().then_some(())
        });
    });
    assert!(load.n_requests > 50, "{load:?}");
    assert!(load.unexpected.is_empty(), "{load:#?}");
}
