//! Item 18: the status examples of the design, from created to update complete, in their order and with three replicas.
//!
//! Each example is held on to by a gate: a webhook that nobody answers refuses the status writes that come next. Whoever
//! is refused tries again, which is what it has to do.

use serde_json::{Value, json};

use crate::scene::{Scene, scenarios};

scenarios![examples_of_the_design];

/// Status writes of revisions that have `Scheduled=True`, `Initialized=True`, or a replica that is ready.
const SCHEDULED: &str = "c.type == 'Scheduled' && c.status == 'True'";
const INITIALIZED: &str = "c.type == 'Initialized' && c.status == 'True'";
const READY: &str = "c.type == 'Ready'";

fn examples_of_the_design(scene: &Scene) {
    let (stage, k, name) = (scene.stage, &scene.k, &scene.name);
    scene.server(name, 3);
    let leader = scene.leader(name);
    let mut policy = scene.policy("pod-privileged");
    policy["spec"]["policyServer"] = json!(name);

    scene.gate(SCHEDULED);
    scene.apply(&policy);
    shows(scene, "Pending", &[waiting(1)]);
    scene.gate(INITIALIZED);
    shows(scene, "Pending", &[scheduled(1)]);
    scene.gate(READY);
    shows(scene, "Pending", &[scheduled(1), initialized(1)]);
    scene.gate(&format!("{READY} && c.replica != {leader}"));
    let loaded = [scheduled(1), initialized(1), ready(1, leader)];
    shows(scene, "Pending", &loaded);
    scene.open_gate();
    let first = everywhere(1);
    shows(scene, "Active", &first);
    scene.enforces("container trial is privileged");

    scene.gate(SCHEDULED);
    policy["spec"]["message"] = "as of the second generation".into();
    scene.apply(&policy);
    let and = |next: &[Value]| [&first, next].concat();
    shows(scene, "Updating", &and(&[waiting(2)]));
    scene.gate(INITIALIZED);
    shows(scene, "Updating", &and(&[scheduled(2)]));
    scene.gate(READY);
    shows(scene, "Updating", &and(&[scheduled(2), initialized(2)]));
    scene.enforces("container trial is privileged");
    scene.open_gate();
    shows(scene, "Active", &everywhere(2));
    scene.enforces("as of the second generation");

    // What scripts wait for.
    for goal in [
        "condition=PolicyActive",
        "condition=PolicyUniquelyReachable",
        "jsonpath={.status.servingGeneration}=2",
    ] {
        k.ok(&format!("wait cap/{name} --for={goal} --timeout=60s"));
    }
    let status = stage.until_phase(&scene.path(), "Active", 2);
    assert_eq!(status["policyStatus"], "active", "{status}");
    assert_eq!(status["mode"], "protect", "{status}");
}

/// Waits until the policy's conditions begin with these, and nothing else of the design follows.
#[track_caller]
fn shows(scene: &Scene, phase: &str, expected: &[Value]) {
    let what = format!("{phase} with {}", Value::from(expected.to_vec()));
    scene.stage.until(&what, &scene.path(), |policy| {
        let status = &policy["status"];
        status["phase"] == phase && of_the_design(status) == expected
    });
}

/// The conditions of the design with the fields of the design. Tools of today have three more conditions after them,
/// and two more fields.
fn of_the_design(status: &Value) -> Vec<Value> {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let ours = |condition: &Value| {
        let of = |wanted: &str| condition["type"] == wanted;
        of("Scheduled") || of("Initialized") || of("Ready")
    };
    let mut shown: Vec<Value> = conditions.into_iter().take_while(ours).collect();
    for condition in &mut shown {
        let fields = condition.as_object_mut().unwrap();
        assert_eq!(
            fields.remove("observedGeneration"),
            fields.get("generation").cloned()
        );
        assert!(fields.remove("lastTransitionTime").unwrap().is_string());
    }
    shown
}

fn condition(kind: &str, status: &str, reason: &str, message: &str, generation: u64) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "generation": generation})
}

fn waiting(generation: u64) -> Value {
    let message = "The policy was created and is pending to be loaded.";
    condition(
        "Scheduled",
        "False",
        "WaitingForPolicyServer",
        message,
        generation,
    )
}

fn scheduled(generation: u64) -> Value {
    let message = "The policy was scheduled by the PolicyServer.";
    condition("Scheduled", "True", "PolicyScheduled", message, generation)
}

fn initialized(generation: u64) -> Value {
    let message = "The policy was successfully initialized.";
    condition(
        "Initialized",
        "True",
        "PolicyInitialized",
        message,
        generation,
    )
}

fn ready(generation: u64, replica: u64) -> Value {
    let message = "The policy is ready to be used.";
    let mut ready = condition("Ready", "True", "PolicyReady", message, generation);
    ready["replica"] = replica.into();
    ready
}

fn everywhere(generation: u64) -> Vec<Value> {
    let ready = (0..3).map(|replica| ready(generation, replica));
    [scheduled(generation), initialized(generation)]
        .into_iter()
        .chain(ready)
        .collect()
}
