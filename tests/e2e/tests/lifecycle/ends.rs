//! Parts that are killed, one after the other, on a stage of their own: requests are judged by those that are left, and
//! whoever comes back goes on (19.1, items 25 and 26).

use std::sync::OnceLock;

use e2e::{Stage, eventually};

use crate::scene::{Scene, play};

const WORDS: &str = "container trial is privileged";

#[test]
fn embedded() {
    static STAGE: OnceLock<Option<Stage>> = OnceLock::new();
    play(
        STAGE.get_or_init(Stage::embedded).as_ref(),
        "ends",
        each_part_ends_and_comes_back,
    );
}

#[test]
fn real() {
    static STAGE: OnceLock<Option<Stage>> = OnceLock::new();
    play(
        STAGE.get_or_init(Stage::real).as_ref(),
        "ends",
        each_part_ends_and_comes_back,
    );
}

fn each_part_ends_and_comes_back(scene: &Scene) {
    let stage = scene.stage;
    let mut policy = scene.policy("pod-privileged");
    scene.apply(&policy);
    stage.until_phase(&scene.path(), "Active", 1);

    // The controller: what serves goes on, a replica comes back, and a change waits for the controller.
    stage.kill_controller();
    scene.enforces(WORDS);
    let pods = stage.pods("default");
    let (pod, before) = pods.first_key_value().unwrap();
    stage.kill_replica(pod);
    let restarts =
        |pod: &serde_json::Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
    eventually("the replica is started again", || {
        let now = &stage.pods("default")[pod];
        (restarts(now) > restarts(before)).then_some(())
    });
    eventually("the replica judges again", || {
        scene
            .try_pod(true)
            .unwrap_err()
            .contains(WORDS)
            .then_some(())
    });
    stage.start_controller();
    policy["spec"]["message"] = "as of the second generation".into();
    scene.apply(&policy);
    stage.until_phase(&scene.path(), "Active", 2);
    scene.enforces("as of the second generation");

    // The API server: nobody else notices for long, and nobody is restarted.
    let uids = |stage: &Stage| -> Vec<_> {
        let pods = stage.pods("default").into_values();
        pods.map(|pod| (pod["metadata"]["uid"].clone(), restarts(&pod)))
            .collect()
    };
    let before = uids(stage);
    stage.kill_api();
    assert!(stage.get("/readyz").is_none() && stage.read(&scene.path()).is_none());
    stage.start_api();
    eventually("the second generation judges", || {
        scene
            .try_pod(true)
            .unwrap_err()
            .contains("as of the second generation")
            .then_some(())
    });
    policy["spec"]["message"] = "as of the third generation".into();
    scene.apply(&policy);
    stage.until_phase(&scene.path(), "Active", 3);
    scene.enforces("as of the third generation");
    assert_eq!(uids(stage), before);
}
