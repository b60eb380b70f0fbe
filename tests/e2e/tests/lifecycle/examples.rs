//! The status examples of the design, from a created policy to a complete update, in order and with three replicas.
//!
//! A gate holds each state: a webhook without a server refuses the status writes that would come next. The refused
//! component retries, as it must.

use serde_json::{Value, json};

use crate::test_namespace::{TestNamespace, scenarios};

scenarios![examples_of_the_design];

/// Match status writes with `Scheduled=True`, with `Initialized=True`, or with a ready replica.
const SCHEDULED: &str = "c.type == 'Scheduled' && c.status == 'True'";
const INITIALIZED: &str = "c.type == 'Initialized' && c.status == 'True'";
const READY: &str = "c.type == 'Ready'";

fn examples_of_the_design(test_namespace: &TestNamespace) {
    let (installation, k, name) = (
        test_namespace.installation,
        &test_namespace.k,
        &test_namespace.name,
    );
    test_namespace.server(name, 3);
    let leader = test_namespace.leader(name);
    let mut policy = test_namespace.policy("pod-privileged");
    policy["spec"]["policyServer"] = json!(name);

    test_namespace.gate(SCHEDULED);
    test_namespace.apply(&policy);
    shows(test_namespace, "Pending", &[waiting(1)]);
    test_namespace.gate(INITIALIZED);
    shows(test_namespace, "Pending", &[scheduled(1)]);
    test_namespace.gate(READY);
    shows(test_namespace, "Pending", &[scheduled(1), initialized(1)]);
    test_namespace.gate(&format!("{READY} && c.replica != {leader}"));
    let loaded = [scheduled(1), initialized(1), ready(1, leader)];
    shows(test_namespace, "Pending", &loaded);
    test_namespace.open_gate();
    let first = everywhere(1);
    shows(test_namespace, "Active", &first);
    test_namespace.enforces("container trial is privileged");

    test_namespace.gate(SCHEDULED);
    policy["spec"]["message"] = "as of the second generation".into();
    test_namespace.apply(&policy);
    let and = |next: &[Value]| [&first, next].concat();
    shows(test_namespace, "Updating", &and(&[waiting(2)]));
    test_namespace.gate(INITIALIZED);
    shows(test_namespace, "Updating", &and(&[scheduled(2)]));
    test_namespace.gate(READY);
    shows(
        test_namespace,
        "Updating",
        &and(&[scheduled(2), initialized(2)]),
    );
    test_namespace.enforces("container trial is privileged");
    test_namespace.open_gate();
    shows(test_namespace, "Active", &everywhere(2));
    test_namespace.enforces("as of the second generation");

    // The conditions that scripts use with `kubectl wait`.
    for goal in [
        "condition=PolicyActive",
        "condition=PolicyUniquelyReachable",
        "jsonpath={.status.servingGeneration}=2",
    ] {
        k.ok(&format!("wait cap/{name} --for={goal} --timeout=60s"));
    }
    let status = installation.until_phase(&test_namespace.path(), "Active", 2);
    assert_eq!(status["policyStatus"], "active", "{status}");
    assert_eq!(status["mode"], "protect", "{status}");
}

/// Waits until the policy has exactly these conditions of the design.
#[track_caller]
fn shows(test_namespace: &TestNamespace, phase: &str, expected: &[Value]) {
    let what = format!("{phase} with {}", Value::from(expected.to_vec()));
    test_namespace
        .installation
        .until(&what, &test_namespace.path(), |policy| {
            let status = &policy["status"];
            status["phase"] == phase && of_the_design(status) == expected
        });
}

/// The conditions and fields that the design defines. For existing tools, the status contains three more conditions
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
