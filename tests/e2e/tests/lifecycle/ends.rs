//! Kills the components one after the other, on a separate installation. The remaining components keep serving
//! requests, and a restarted component continues its work.

use std::sync::OnceLock;

use e2e::{Installation, eventually};

use crate::test_namespace::{TestNamespace, run};

const DENIAL: &str = "container trial is privileged";

#[test]
fn embedded() {
    static INSTALLATION: OnceLock<Option<Installation>> = OnceLock::new();
    run(
        INSTALLATION.get_or_init(Installation::embedded).as_ref(),
        "ends",
        each_part_ends_and_comes_back,
    );
}

#[test]
fn real() {
    static INSTALLATION: OnceLock<Option<Installation>> = OnceLock::new();
    run(
        INSTALLATION.get_or_init(Installation::real).as_ref(),
        "ends",
        each_part_ends_and_comes_back,
    );
}

fn each_part_ends_and_comes_back(test_namespace: &TestNamespace) {
    let installation = test_namespace.installation;
    let mut policy = test_namespace.policy("pod-privileged");
    test_namespace.apply(&policy);
    installation.until_phase(&test_namespace.path(), "Active", 1);

    // Without the controller, policies are enforced, replicas restart, and changes wait.
    installation.kill_controller();
    test_namespace.enforces(DENIAL);
    let pods = installation.pods("default");
    let (pod, before) = pods.first_key_value().unwrap();
    installation.kill_replica(pod);
    let restarts =
        |pod: &serde_json::Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
    eventually("the replica is started again", || {
        let now = &installation.pods("default")[pod];
        (restarts(now) > restarts(before)).then_some(())
    });
    eventually("the replica judges again", || {
        test_namespace
            .try_pod(true)
            .unwrap_err()
            .contains(DENIAL)
            .then_some(())
    });
    installation.start_controller();
    policy["spec"]["message"] = "as of the second generation".into();
    test_namespace.apply(&policy);
    installation.until_phase(&test_namespace.path(), "Active", 2);
    test_namespace.enforces("as of the second generation");

    // Without the API server, replicas and controller keep running and reconnect.
    let uids = |installation: &Installation| -> Vec<_> {
        let pods = installation.pods("default").into_values();
        pods.map(|pod| (pod["metadata"]["uid"].clone(), restarts(&pod)))
            .collect()
    };
    let before = uids(installation);
    installation.kill_api();
    assert!(
        installation.get("/readyz").is_none()
            && installation.read(&test_namespace.path()).is_none()
    );
    installation.start_api();
    eventually("the second generation judges", || {
        test_namespace
            .try_pod(true)
            .unwrap_err()
            .contains("as of the second generation")
            .then_some(())
    });
    policy["spec"]["message"] = "as of the third generation".into();
    test_namespace.apply(&policy);
    installation.until_phase(&test_namespace.path(), "Active", 3);
    test_namespace.enforces("as of the third generation");
    assert_eq!(uids(installation), before);
}
