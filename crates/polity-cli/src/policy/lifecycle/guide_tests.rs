//! `docs/guides/policy-lifecycle.md` shows what the commands print: each answer is printed here, from the status that
//! belongs to it, and looked for on the page.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::events::Told;
use super::history::History;
use super::kind::PolicyKind;
use super::policy::Policy;
use super::rollback::announcement;
use super::table;
use super::target::choose;
use super::view::View;
use crate::output::Paint;

const GUIDE: &str = include_str!("../../../../../docs/guides/policy-lifecycle.md");

fn now() -> Timestamp {
    "2026-11-16T10:00:00Z".parse().unwrap()
}

/// A time some seconds ago.
fn ago(seconds: i64) -> String {
    let time = now().as_second() - seconds;
    Timestamp::from_second(time).unwrap().to_string()
}

fn condition(
    type_: &str,
    generation: i64,
    replica: Option<i32>,
    reason: &str,
    since: i64,
) -> Value {
    let mut condition = json!({"type": type_, "status": "True", "reason": reason, "generation": generation,
                               "lastTransitionTime": ago(since)});
    if let Some(replica) = replica {
        condition["replica"] = json!(replica);
    }
    condition
}

fn served(generation: i64, since: i64) -> Vec<Value> {
    vec![
        condition("Scheduled", generation, None, "PolicyScheduled", since),
        condition(
            "Initialized",
            generation,
            None,
            "PolicyInitialized",
            since - 1,
        ),
        condition("Ready", generation, Some(0), "PolicyReady", since - 2),
        condition("Ready", generation, Some(1), "PolicyReady", since - 2),
    ]
}

fn policy(generation: i64, annotations: Value, mut status: Value) -> Policy {
    status["policyStatus"] = json!("active");
    status["observedGeneration"] = json!(generation);
    let object = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy",
        "metadata": {"name": "trusted-registries", "namespace": "shop", "uid": "u", "generation": generation,
                     "creationTimestamp": ago(40), "annotations": annotations},
        "spec": {"module": "registry://registry.example.com/policies/trusted-registries:v1", "mode": "protect",
                 "policyServer": "default"},
        "status": status,
    });
    let object = serde_json::from_value(object).unwrap();
    Policy::read(PolicyKind::Policy, &object).unwrap()
}

fn told(seconds: i64, type_: &str, reason: &str, note: &str) -> Told {
    Told {
        name: reason.to_owned(),
        version: 0,
        last: Some(ago(seconds).parse().unwrap()),
        type_: type_.to_owned(),
        reason: reason.to_owned(),
        note: note.to_owned(),
        count: 1,
    }
}

fn earlier(generation: i64, result: &str, created: i64) -> Value {
    json!({"generation": generation, "result": result, "createdAt": ago(created),
           "module": "registry://registry.example.com/policies/trusted-registries:v1"})
}

/// Looks for a text on the page, as the block of a console.
fn check(what: &str, text: &str) {
    assert!(
        GUIDE.contains(text.trim_end()),
        "{what} is printed like this:\n{text}"
    );
}

fn status(policy: &Policy, events: &[Told]) -> String {
    table::page(&View::of(policy, events, 10), now(), Paint::plain())
}

#[test]
fn the_first_policy() {
    let first = policy(
        1,
        json!({}),
        json!({"phase": "Active", "servingGeneration": 1, "message": "Generation 1 is enforced.",
               "conditions": served(1, 39)}),
    );
    let events = [
        told(
            40,
            "Normal",
            "PolicyPending",
            "Generation 1 is pending to be loaded.",
        ),
        told(
            39,
            "Normal",
            "PolicyScheduled",
            "PolicyScheduled (generation 1): The policy was scheduled by the PolicyServer.",
        ),
        told(
            38,
            "Normal",
            "PolicyInitialized",
            "PolicyInitialized (generation 1): The policy was successfully initialized.",
        ),
        told(
            37,
            "Normal",
            "PolicyReady",
            "PolicyReady (generation 1, replica 0): The policy is ready to be used.",
        ),
        told(
            37,
            "Normal",
            "PolicyReady",
            "PolicyReady (generation 1, replica 1): The policy is ready to be used.",
        ),
        told(37, "Normal", "PolicyActive", "Generation 1 is enforced."),
    ];
    check("the status", &status(&first, &events));
}

/// Generation 2 asks for something that the policy refuses.
fn broken() -> Policy {
    let words = "Policy settings are invalid: nothing is refused: name registries or tags";
    let mut initialized = condition("Initialized", 2, None, "SettingsInvalid", 8);
    initialized["status"] = json!("False");
    initialized["message"] = json!(words);
    let of_2 = vec![
        condition("Scheduled", 2, None, "PolicyScheduled", 9),
        initialized,
    ];
    let message = format!(
        "Generation 2 cannot be served (SettingsInvalid: {words}); generation 1 is enforced."
    );
    let conditions = [served(1, 39), of_2].concat();
    policy(
        2,
        json!({}),
        json!({"phase": "Failed", "servingGeneration": 1, "message": message,
               "conditions": conditions, "history": [earlier(1, "Active", 40)]}),
    )
}

#[test]
fn a_broken_update_and_the_way_back() {
    let broken = broken();
    check("the status", &status(&broken, &[]));
    check("what wait says", &format!("{broken}: {}", broken.message()));
    let target = choose(&broken, None).unwrap();
    check("the announcement", &announcement(&broken, &target));
    let back = policy(
        3,
        json!({"kubewarden.io/rolled-back": "3=1"}),
        json!({"phase": "Active", "servingGeneration": 3, "conditions": served(3, 5),
               "history": [earlier(2, "Failed", 10), earlier(1, "Active", 40)]}),
    );
    check(
        "the history",
        &History::of(&back).table(now(), Paint::plain()),
    );
}
