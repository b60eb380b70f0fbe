//! Policy servers that grow, shrink, go and come back under their policies (19.3 rows 16 to 18, 24 and 29).

use e2e::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::scene::{Scene, scenarios};

scenarios![
    scaled_during_an_update,
    scaled_to_none_and_back,
    deleted_and_made_again,
    replicas_restarted_while_broken,
    two_servers_of_similar_names,
];

const WORDS: &str = "container trial is privileged";

/// A policy of this scene on the server of this scene.
fn policy(scene: &Scene, message: Option<&str>) -> Value {
    let mut policy = scene.policy("pod-privileged");
    policy["spec"]["policyServer"] = json!(scene.name);
    policy["spec"]["message"] = json!(message);
    policy
}

fn scale(scene: &Scene, replicas: u64) {
    let line = format!("scale policyserver {} --replicas={replicas}", scene.name);
    scene.k.ok(&line);
}

/// What is said for the replicas of a generation: number, status and reason.
fn ready(status: &Value, generation: u64) -> Vec<(u64, String)> {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions
        .filter(|one| one["type"] == "Ready" && one["generation"] == generation)
        .map(|one| {
            (
                one["replica"].as_u64().unwrap(),
                one["status"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

fn all(replicas: u64) -> Vec<(u64, String)> {
    (0..replicas)
        .map(|replica| (replica, "True".to_owned()))
        .collect()
}

#[track_caller]
fn until_ready(scene: &Scene, generation: u64, replicas: u64) -> Value {
    scene.stage.until(
        &format!("{replicas} replicas have {generation}"),
        &scene.path(),
        |policy| ready(&policy["status"], generation) == all(replicas),
    )
}

/// Item 8: 1 → 5 → 2, where a replica hangs in the middle of an update and is then no longer wanted.
fn scaled_during_an_update(scene: &Scene) {
    let (stage, path) = (scene.stage, scene.path());
    scene.server(&scene.name, 1);
    scene.apply(&policy(scene, Some("first")));
    stage.until_phase(&path, "Active", 1);
    scale(scene, 5);
    let grown = until_ready(scene, 1, 5);
    assert_eq!(grown["status"]["phase"], "Active", "{grown}");

    let hanging = format!("policy-server-{}-3", scene.name);
    stage.signal_replica(&hanging, Signal::STOP);
    scene.apply(&policy(scene, Some("second")));
    let waiting = stage.until("all but one are ready", &path, |policy| {
        let ready: Vec<_> = ready(&policy["status"], 2)
            .into_iter()
            .map(|(replica, _)| replica)
            .collect();
        ready == [0, 1, 2, 4]
    });
    assert_eq!(waiting["status"]["phase"], "Updating", "{waiting}");
    let message = waiting["status"]["message"].as_str().unwrap();
    assert!(
        message.contains('3') && message.contains("generation 1"),
        "{message}"
    );
    scale(scene, 2);
    let status = stage.until_phase(&path, "Active", 2);
    assert_eq!(ready(&status, 2), all(2), "{status}");
    stage.kill_replica(&hanging);
    scene.replicas_are_ready(&scene.name, 2);
    scene.soon_enforces("second");
}

/// Item 20: with no replica nothing becomes active, and what was active keeps its webhook.
fn scaled_to_none_and_back(scene: &Scene) {
    let (stage, path) = (scene.stage, scene.path());
    scene.server(&scene.name, 3);
    scene.apply(&policy(scene, Some("first")));
    stage.until_phase(&path, "Active", 1);
    scale(scene, 0);
    scene.replicas_are_ready(&scene.name, 0);
    let alone = stage.until("nobody is asked", &path, |policy| {
        ready(&policy["status"], 1).is_empty()
    });
    assert_eq!(alone["status"]["phase"], "Active", "{alone}");
    // The failure policy decides, and it says Fail.
    let refusal = scene.try_pod(false).unwrap_err();
    assert!(refusal.contains("failed calling webhook"), "{refusal}");
    scene.apply(&policy(scene, Some("second")));
    let status = stage.until_phase(&path, "Updating", 1);
    let scheduled = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["generation"] == 2)
        .unwrap();
    assert_eq!(scheduled["reason"], "PolicyServerNotRunning", "{status}");
    scale(scene, 3);
    let status = stage.until_phase(&path, "Active", 2);
    assert_eq!(ready(&status, 2), all(3), "{status}");
    scene.soon_enforces("second");
}

/// A server with a policy whose second generation is broken.
fn break_on(scene: &Scene, replicas: u64) {
    let (stage, path) = (scene.stage, scene.path());
    scene.server(&scene.name, replicas);
    scene.apply(&policy(scene, None));
    stage.until_phase(&path, "Active", 1);
    let mut broken = policy(scene, None);
    broken["spec"]["module"] = json!("file:///no/such/module.wasm");
    scene.apply(&broken);
    stage.until_phase(&path, "Failed", 1);
}

/// Item 24: no webhook in between, then the webhook at what served, although the current generation is broken; and one
/// that somebody deletes by hand is back.
fn deleted_and_made_again(scene: &Scene) {
    let (stage, path) = (scene.stage, scene.path());
    break_on(scene, 1);
    let get = format!("get policyserver {} --no-headers", scene.name);
    eventually("the columns show a ready replica and a policy", || {
        let shown = scene.k.ok(&get);
        let shown: Vec<_> = shown.split_whitespace().collect();
        (shown.get(1..4) == Some(&["1/1", "1", "1"])).then_some(())
    });

    let delete = format!("delete policyserver {} --timeout=60s", scene.name);
    let deletion = scene.k.run(&delete, "");
    assert_eq!(deletion.code, Some(0), "{deletion:?}");
    let warning = format!(
        "1 policy is no longer enforced without PolicyServer {}",
        scene.name
    );
    assert!(deletion.stderr.contains(&warning), "{deletion:?}");
    let status = stage.until_phase(&path, "Pending", None);
    assert_eq!(status["policyStatus"], "scheduled", "{status}");
    assert_eq!(
        status["conditions"][0]["reason"], "PolicyServerNotFound",
        "{status}"
    );
    assert_eq!(scene.try_pod(true), Ok(()));
    let describe = format!("describe clusteradmissionpolicy {}", scene.name);
    let events = eventually("an Event names what is lost", || {
        let described = scene.k.ok(&describe);
        let (_, events) = described.split_once("Events:")?;
        events
            .contains("Generation 1 is no longer enforced.")
            .then(|| events.to_owned())
    });
    // In the order in which they happened, with their ages.
    let places = ["PolicyPending", "PolicyActive", "PolicyServerNotFound"]
        .map(|reason| events.find(&format!(" {reason} ")));
    assert!(places[0].is_some() && places.is_sorted(), "{events}");
    assert!(!events.contains("<unknown>"), "{events}");

    scene.server(&scene.name, 1);
    stage.until_phase(&path, "Failed", 1);
    scene.soon_enforces(WORDS);

    scene.gate("c.type == 'Ready' && c.generation == 3");
    scene.apply(&policy(scene, Some("third")));
    stage.until_phase(&path, "Updating", 1);
    scene.k.ok(&format!(
        "delete validatingwebhookconfiguration clusterwide-{}",
        scene.name
    ));
    scene.soon_enforces(WORDS);
    scene.open_gate();
    stage.until_phase(&path, "Active", 3);
    scene.enforces("third");
}

/// Item 5: a broken update, then every replica dies: those that come back serve what served.
fn replicas_restarted_while_broken(scene: &Scene) {
    let stage = scene.stage;
    break_on(scene, 2);
    scene.enforces(WORDS);
    let before = stage.pods(&scene.name);
    for pod in before.keys() {
        stage.kill_replica(pod);
    }
    let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
    eventually("all are started again", || {
        let now = stage.pods(&scene.name);
        now.iter()
            .all(|(name, pod)| restarts(pod) > restarts(&before[name]))
            .then_some(())
    });
    scene.replicas_are_ready(&scene.name, 2);
    scene.soon_enforces(WORDS);
    let policy = until_ready(scene, 1, 2);
    assert_eq!(policy["status"]["phase"], "Failed", "{policy}");
}

/// Item 32, in part: neither is in the other's way, and what cannot be a name is refused with the reason.
fn two_servers_of_similar_names(scene: &Scene) {
    let (stage, first) = (scene.stage, scene.name.as_str());
    let second = format!("{first}-peers");
    scene.server(first, 1);
    scene.server(&second, 1);
    scene.apply(&policy(scene, Some("by the first")));
    let mut other = policy(scene, Some("by the second"));
    other["metadata"]["name"] = json!(second);
    other["spec"]["policyServer"] = json!(second);
    scene.apply(&other);
    stage.until_phase(&scene.path(), "Active", 1);
    stage.until_phase(&format!("clusteradmissionpolicies/{second}"), "Active", 1);
    // Both look at every Pod here.
    let refusal = scene.try_pod(true).unwrap_err();
    assert!(
        refusal.contains("by the first") || refusal.contains("by the second"),
        "{refusal}"
    );
    scene
        .k
        .ok(&format!("delete policyserver {first} --timeout=60s"));
    stage.until_phase(&scene.path(), "Pending", None);
    scene.enforces("by the second");
    for (name, words) in [("n".repeat(50), "49"), (format!("{first}.dot"), ".")] {
        let server = json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer",
            "metadata": {"name": name}, "spec": {"image": "polity:stage", "replicas": 0},
        });
        let refusal = scene.k.feed_fails("create -f -", &server.to_string());
        assert!(refusal.contains(words), "{refusal}");
    }
}
