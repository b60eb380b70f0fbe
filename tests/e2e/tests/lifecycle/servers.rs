//! Policy servers that are scaled, deleted and created again while they have policies.

use e2e::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_namespace::{TestNamespace, scenarios};

scenarios![
    scaled_during_an_update,
    scaled_to_none_and_back,
    deleted_and_recreated,
    replicas_restarted_while_broken,
    two_servers_of_similar_names,
];

const DENIAL: &str = "container trial is privileged";

/// The policy of this namespace on the policy server of this namespace.
fn policy(test_namespace: &TestNamespace, message: Option<&str>) -> Value {
    let mut policy = test_namespace.policy("pod-privileged");
    policy["spec"]["policyServer"] = json!(test_namespace.name);
    policy["spec"]["message"] = json!(message);
    policy
}

fn scale(test_namespace: &TestNamespace, replicas: u64) {
    let line = format!(
        "scale policyserver {} --replicas={replicas}",
        test_namespace.name
    );
    test_namespace.k.ok(&line);
}

/// The replica conditions of a generation: ordinal, and status with reason.
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
fn until_ready(test_namespace: &TestNamespace, generation: u64, replicas: u64) -> Value {
    test_namespace.installation.until(
        &format!("{replicas} replicas have {generation}"),
        &test_namespace.path(),
        |policy| ready(&policy["status"], generation) == all(replicas),
    )
}

/// Scales 1 → 5 → 2 while a replica hangs in the middle of an update and is then removed.
fn scaled_during_an_update(test_namespace: &TestNamespace) {
    let (installation, path) = (test_namespace.installation, test_namespace.path());
    test_namespace.server(&test_namespace.name, 1);
    test_namespace.apply(&policy(test_namespace, Some("first")));
    installation.until_phase(&path, "Active", 1);
    scale(test_namespace, 5);
    let grown = until_ready(test_namespace, 1, 5);
    assert_eq!(grown["status"]["phase"], "Active", "{grown}");

    let hanging = format!("policy-server-{}-3", test_namespace.name);
    installation.signal_replica(&hanging, Signal::STOP);
    test_namespace.apply(&policy(test_namespace, Some("second")));
    let waiting = installation.until("all but one are ready", &path, |policy| {
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
    scale(test_namespace, 2);
    let status = installation.until_phase(&path, "Active", 2);
    assert_eq!(ready(&status, 2), all(2), "{status}");
    installation.kill_replica(&hanging);
    test_namespace.replicas_are_ready(&test_namespace.name, 2);
    test_namespace.soon_enforces("second");
}

/// Without replicas nothing becomes active, and an active policy keeps its webhook.
fn scaled_to_none_and_back(test_namespace: &TestNamespace) {
    let (installation, path) = (test_namespace.installation, test_namespace.path());
    test_namespace.server(&test_namespace.name, 3);
    test_namespace.apply(&policy(test_namespace, Some("first")));
    installation.until_phase(&path, "Active", 1);
    scale(test_namespace, 0);
    test_namespace.replicas_are_ready(&test_namespace.name, 0);
    let alone = installation.until("no replica has it", &path, |policy| {
        ready(&policy["status"], 1).is_empty()
    });
    assert_eq!(alone["status"]["phase"], "Active", "{alone}");
    // The failure policy is `Fail`.
    let refusal = test_namespace.try_pod(false).unwrap_err();
    assert!(refusal.contains("failed calling webhook"), "{refusal}");
    test_namespace.apply(&policy(test_namespace, Some("second")));
    let status = installation.until_phase(&path, "Updating", 1);
    let scheduled = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["generation"] == 2)
        .unwrap();
    assert_eq!(scheduled["reason"], "PolicyServerNotRunning", "{status}");
    scale(test_namespace, 3);
    let status = installation.until_phase(&path, "Active", 2);
    assert_eq!(ready(&status, 2), all(3), "{status}");
    test_namespace.soon_enforces("second");
}

/// Creates a server with a policy whose second generation is broken.
fn break_on(test_namespace: &TestNamespace, replicas: u64) {
    let (installation, path) = (test_namespace.installation, test_namespace.path());
    test_namespace.server(&test_namespace.name, replicas);
    test_namespace.apply(&policy(test_namespace, None));
    installation.until_phase(&path, "Active", 1);
    let mut broken = policy(test_namespace, None);
    broken["spec"]["module"] = json!("file:///no/such/module.wasm");
    test_namespace.apply(&broken);
    installation.until_phase(&path, "Failed", 1);
}

/// After a policy server was deleted and created again, the webhook points to the generation that served before,
/// although the current one is broken. There is no webhook in between. A webhook that is deleted by hand is created
/// again.
fn deleted_and_recreated(test_namespace: &TestNamespace) {
    let (installation, path) = (test_namespace.installation, test_namespace.path());
    break_on(test_namespace, 1);
    let get = format!("get policyserver {} --no-headers", test_namespace.name);
    eventually("the columns show a ready replica and a policy", || {
        let shown = test_namespace.k.ok(&get);
        let shown: Vec<_> = shown.split_whitespace().collect();
        (shown.get(1..4) == Some(&["1/1", "1", "1"])).then_some(())
    });

    let delete = format!("delete policyserver {} --timeout=60s", test_namespace.name);
    let deletion = test_namespace.k.run(&delete, "");
    assert_eq!(deletion.code, Some(0), "{deletion:?}");
    let warning = format!(
        "1 policy is no longer enforced without PolicyServer {}",
        test_namespace.name
    );
    assert!(deletion.stderr.contains(&warning), "{deletion:?}");
    let status = installation.until_phase(&path, "Pending", None);
    assert_eq!(status["policyStatus"], "scheduled", "{status}");
    assert_eq!(
        status["conditions"][0]["reason"], "PolicyServerNotFound",
        "{status}"
    );
    assert_eq!(test_namespace.try_pod(true), Ok(()));
    let describe = format!("describe clusteradmissionpolicy {}", test_namespace.name);
    let events = eventually("an Event names what is lost", || {
        let described = test_namespace.k.ok(&describe);
        let (_, events) = described.split_once("Events:")?;
        events
            .contains("Generation 1 is no longer enforced.")
            .then(|| events.to_owned())
    });
    // Events are in order of time, with their ages.
    let places = ["PolicyPending", "PolicyActive", "PolicyServerNotFound"]
        .map(|reason| events.find(&format!(" {reason} ")));
    assert!(places[0].is_some() && places.is_sorted(), "{events}");
    assert!(!events.contains("<unknown>"), "{events}");

    test_namespace.server(&test_namespace.name, 1);
    installation.until_phase(&path, "Failed", 1);
    test_namespace.soon_enforces(DENIAL);

    test_namespace.gate("c.type == 'Ready' && c.generation == 3");
    test_namespace.apply(&policy(test_namespace, Some("third")));
    installation.until_phase(&path, "Updating", 1);
    test_namespace.k.ok(&format!(
        "delete validatingwebhookconfiguration clusterwide-{}",
        test_namespace.name
    ));
    test_namespace.soon_enforces(DENIAL);
    test_namespace.open_gate();
    installation.until_phase(&path, "Active", 3);
    test_namespace.enforces("third");
}

/// When every replica restarts during a broken update, the replicas serve the generation that served before.
fn replicas_restarted_while_broken(test_namespace: &TestNamespace) {
    let installation = test_namespace.installation;
    break_on(test_namespace, 2);
    test_namespace.enforces(DENIAL);
    let before = installation.pods(&test_namespace.name);
    for pod in before.keys() {
        installation.kill_replica(pod);
    }
    let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
    eventually("all are started again", || {
        let now = installation.pods(&test_namespace.name);
        now.iter()
            .all(|(name, pod)| restarts(pod) > restarts(&before[name]))
            .then_some(())
    });
    test_namespace.replicas_are_ready(&test_namespace.name, 2);
    test_namespace.soon_enforces(DENIAL);
    let policy = until_ready(test_namespace, 1, 2);
    assert_eq!(policy["status"]["phase"], "Failed", "{policy}");
}

/// Servers with similar names do not interfere, and an invalid name is refused with the reason.
fn two_servers_of_similar_names(test_namespace: &TestNamespace) {
    let (installation, first) = (test_namespace.installation, test_namespace.name.as_str());
    let second = format!("{first}-peers");
    test_namespace.server(first, 1);
    test_namespace.server(&second, 1);
    test_namespace.apply(&policy(test_namespace, Some("by the first")));
    let mut other = policy(test_namespace, Some("by the second"));
    other["metadata"]["name"] = json!(second);
    other["spec"]["policyServer"] = json!(second);
    test_namespace.apply(&other);
    installation.until_phase(&test_namespace.path(), "Active", 1);
    installation.until_phase(&format!("clusteradmissionpolicies/{second}"), "Active", 1);
    // Policies of both servers apply to every Pod here.
    let refusal = test_namespace.try_pod(true).unwrap_err();
    assert!(
        refusal.contains("by the first") || refusal.contains("by the second"),
        "{refusal}"
    );
    test_namespace
        .k
        .ok(&format!("delete policyserver {first} --timeout=60s"));
    installation.until_phase(&test_namespace.path(), "Pending", None);
    test_namespace.enforces("by the second");
    for (name, words) in [("n".repeat(50), "49"), (format!("{first}.dot"), ".")] {
        let server = json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer",
            "metadata": {"name": name}, "spec": {"image": "polity:e2e", "replicas": 0},
        });
        let refusal = test_namespace
            .k
            .fails_with_input("create -f -", &server.to_string());
        assert!(refusal.contains(words), "{refusal}");
    }
}
