//! Changes of a policy that serves: one after the other, one during the other, back to an earlier one, and of everything
//! a webhook has at once (19.3 rows 3 and 12, 19.8, items 10, 22 and 27).

use e2e::eventually;
use serde_json::{Value, json};

use crate::scene::{Scene, scenarios};
use crate::trials;

scenarios![
    changed_while_changing,
    rolled_back,
    rollbacks_that_are_refused,
    rollbacks_that_are_reverted,
    everything_of_a_webhook_at_once,
    flipped_under_load,
];

const ROLLBACK: &str = "kubewarden.io/rollback-to-generation";

fn with_message(scene: &Scene, message: &str) -> Value {
    let mut policy = scene.policy("pod-privileged");
    policy["spec"]["message"] = json!(message);
    policy
}

/// The generation in the middle never serves, and the one after it does not wait for it.
fn changed_while_changing(scene: &Scene) {
    let (stage, path) = (scene.stage, scene.path());
    let on = |message: &str| {
        let mut policy = with_message(scene, message);
        policy["spec"]["policyServer"] = json!(scene.name);
        policy
    };
    scene.server(&scene.name, 1);
    scene.apply(&on("first"));
    stage.until_phase(&path, "Active", 1);
    scene.gate("c.type == 'Ready' && c.generation == 2");
    scene.apply(&on("second"));
    stage.until_phase(&path, "Updating", 1);
    scene.enforces("first");
    scene.apply(&on("third"));
    let status = stage.until_phase(&path, "Active", 3);
    scene.enforces("third");
    let generations = |condition: &Value| condition["generation"].as_u64();
    let spoken = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(generations);
    assert!(spoken.clone().all(|generation| generation == 3), "{status}");
    eventually("older revisions are disabled", || {
        let enabled = scene
            .revisions()
            .into_iter()
            .filter(|one| one["spec"]["enabled"] == true);
        let generations: Vec<_> = enabled
            .map(|one| one["spec"]["policyGeneration"].clone())
            .collect();
        (generations == [3]).then_some(())
    });
    scene.open_gate();
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

/// To what serves while the update is broken, to an earlier one, and to one that never worked.
fn rolled_back(scene: &Scene) {
    let (stage, path, name) = (scene.stage, scene.path(), &scene.name);
    let spec = |field: &str| {
        scene
            .k
            .field(&format!("cap {name}"), &format!(".spec.{field}"))
    };
    scene.apply(&with_message(scene, "first"));
    stage.until_phase(&path, "Active", 1);
    scene.apply(&with_message(scene, "second"));
    stage.until_phase(&path, "Active", 2);
    let mut broken = with_message(scene, "third");
    broken["spec"]["settings"] = json!({"skip": 1});
    scene.apply(&broken);
    stage.until_phase(&path, "Failed", 2);

    // S while G has failed.
    scene.k.ok(&format!("annotate cap {name} {ROLLBACK}=2"));
    stage.until_phase(&path, "Active", 4);
    assert_eq!(
        (spec("message"), spec("settings")),
        ("second".into(), String::new())
    );
    scene.enforces("second");
    // An earlier one.
    scene.k.ok(&format!("annotate cap {name} {ROLLBACK}=1"));
    stage.until_phase(&path, "Active", 5);
    scene.enforces("first");
    // One that never worked: it fails again, and what serves goes on.
    scene.k.ok(&format!("annotate cap {name} {ROLLBACK}=3"));
    let status = stage.until_phase(&path, "Failed", 5);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("SettingsInvalid"),
        "{status}"
    );
    assert_eq!(spec("message"), "third");
    scene.enforces("first");
    scene.k.ok(&format!("annotate cap {name} {ROLLBACK}=5"));
    stage.until_phase(&path, "Active", 7);
    let policy = stage.read(&path).unwrap();
    let annotations = &policy["metadata"]["annotations"];
    assert!(annotations.get(ROLLBACK).is_none(), "{policy}");
    assert_eq!(annotations["kubewarden.io/rolled-back"], "7=5", "{policy}");
    assert_eq!(scene.events("PolicyRolledBack"), 4);
}

fn rollbacks_that_are_refused(scene: &Scene) {
    let (stage, path, name) = (scene.stage, scene.path(), &scene.name);
    let mut policy = with_message(scene, "first");
    policy["spec"]["mode"] = json!("monitor");
    scene.apply(&policy);
    stage.until_phase(&path, "Active", 1);
    assert_eq!(scene.try_pod(true), Ok(()));
    policy["spec"]["mode"] = json!("protect");
    scene.apply(&policy);
    stage.until_phase(&path, "Active", 2);
    let before = stage.read(&path).unwrap()["spec"].clone();
    // No such generation, no number, and one that would turn `protect` into `monitor`.
    for (n, to) in ["9", "x", "1"].into_iter().enumerate() {
        scene.k.ok(&format!("annotate cap {name} {ROLLBACK}={to}"));
        stage.until("the annotation is gone", &path, |policy| {
            policy["metadata"]["annotations"].get(ROLLBACK).is_none()
        });
        eventually("an Event tells", || {
            (scene.events("RollbackFailed") == n + 1).then_some(())
        });
    }
    let policy = stage.read(&path).unwrap();
    assert_eq!(
        (&policy["spec"], &policy["metadata"]["generation"]),
        (&before, &json!(2))
    );
    scene.enforces("first");
}

/// Item 27: whoever applies the manifest again, in either way, makes one new generation, and is named.
fn rollbacks_that_are_reverted(scene: &Scene) {
    let (stage, path, name) = (scene.stage, scene.path(), &scene.name);
    scene.apply(&with_message(scene, "first"));
    stage.until_phase(&path, "Active", 1);
    let latest = with_message(scene, "second");
    scene.apply(&latest);
    stage.until_phase(&path, "Active", 2);
    let ways = ["apply -f -", "apply --server-side --force-conflicts -f -"];
    for (way, generation) in ways.into_iter().zip([3, 5]) {
        scene.k.ok(&format!("annotate cap {name} {ROLLBACK}=1"));
        stage.until_phase(&path, "Active", generation);
        scene.enforces("first");
        scene.k.feed(way, &latest.to_string());
        stage.until_phase(&path, "Active", generation + 1);
        scene.enforces("second");
    }
    eventually("Events tell", || {
        (scene.events("RollbackReverted") == 2).then_some(())
    });
    assert_eq!(stage.read(&path).unwrap()["metadata"]["generation"], 6);
}

/// Item 22: rules, failurePolicy and kind of webhook together with settings that are refused change nothing, and are
/// changed in one write when they can be.
fn everything_of_a_webhook_at_once(scene: &Scene) {
    let (stage, path) = (scene.stage, scene.path());
    let mut policy = scene.policy("required-metadata");
    policy["spec"]["settings"] = json!({"labels": {"denied": ["secret"]}});
    scene.apply(&policy);
    stage.until_phase(&path, "Active", 1);
    let name = format!("clusterwide-{}", scene.name);
    let webhook = |kind: &str| {
        stage.get(&format!(
            "/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{name}"
        ))
    };
    let before = webhook("validating").unwrap();
    assert!(webhook("mutating").is_none());

    policy["spec"]["mutating"] = json!(true);
    policy["spec"]["failurePolicy"] = json!("Ignore");
    policy["spec"]["rules"][0]["operations"] = json!(["CREATE", "UPDATE"]);
    policy["spec"]["settings"] = json!({"labels": {"unheard": []}});
    scene.apply(&policy);
    stage.until_phase(&path, "Failed", 1);
    assert_eq!(webhook("validating"), Some(before));
    assert!(webhook("mutating").is_none());

    policy["spec"]["settings"] = json!({"labels": {"defaults": {"tier": "back"}}});
    scene.apply(&policy);
    stage.until_phase(&path, "Active", 3);
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
    let pod = scene.k.json("run trial --image=busybox:1 --dry-run=server");
    assert_eq!(pod["metadata"]["labels"]["tier"], "back", "{pod}");
}

/// Item 22, its end: from a validating webhook to a mutating one and back, and a guilty Pod is refused by one of both at
/// every moment.
fn flipped_under_load(scene: &Scene) {
    let (stage, path) = (scene.stage, scene.path());
    let mut policy = scene.policy("required-metadata");
    policy["spec"]["settings"] = json!({"labels": {"denied": ["secret"]}});
    policy["spec"]["message"] = json!("as of either generation");
    scene.apply(&policy);
    stage.until_phase(&path, "Active", 1);
    let attempt = |is_guilty: bool| {
        let label = if is_guilty { "secret" } else { "open" };
        scene.try_this_pod(json!({"name": "trial", "labels": {label: "yes"}}), false)
    };
    eventually("it is enforced", || {
        (attempt(true).is_err() && attempt(false).is_ok()).then_some(())
    });
    let ((), trials) = trials::during(3, "as of either generation", attempt, || {
        for generation in 2..=5 {
            policy["spec"]["mutating"] = json!(generation % 2 == 0);
            scene.apply(&policy);
            stage.until_phase(&path, "Active", generation);
        }
        eventually("the last of the others is gone", || {
            let name = format!("clusterwide-{}", scene.name);
            let kind = "mutatingwebhookconfigurations";
            let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}/{name}");
            stage.get(&path).is_none().then_some(())
        });
    });
    assert!(trials.n_asked > 50, "{trials:?}");
    assert!(trials.odd.is_empty(), "{trials:#?}");
}
