//! The whole output of the lifecycle commands, for a policy that becomes active, gets a broken update and is rolled back.

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
                     "creationTimestamp": ago(40), "annotations": annotations, "managedFields": [
                         {"manager": "polity", "operation": "Update", "time": ago(6), "fieldsV1": {"f:spec": {}}},
                         {"manager": "polity", "operation": "Update", "time": ago(1), "subresource": "status",
                          "fieldsV1": {"f:status": {}}},
                     ]},
        "spec": {"module": "registry://registry.example.com/policies/trusted-registries:v1", "mode": "protect",
                 "policyServer": "default"},
        "status": status,
    });
    let object = serde_json::from_value(object).unwrap();
    Policy::read(PolicyKind::AdmissionPolicy, &object).unwrap()
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
    insta::assert_snapshot!(status(&first, &events), @r"
    AdmissionPolicy shop/trusted-registries, on policy server default, mode protect

    PHASE     Active
              Generation 1 is enforced.
    CURRENT   generation 1
    SERVING   generation 1

    GENERATION            CONDITION          STATUS   REASON              SINCE   MESSAGE
    1, current, serving   Scheduled          True     PolicyScheduled     39s
                          Initialized        True     PolicyInitialized   38s
                          Ready, replica 0   True     PolicyReady         37s
                          Ready, replica 1   True     PolicyReady         37s

    LAST SEEN   EVENT               NOTE
    40s         PolicyPending       Generation 1 is pending to be loaded.
    39s         PolicyScheduled     PolicyScheduled (generation 1): The policy was scheduled by the PolicyServer.
    38s         PolicyInitialized   PolicyInitialized (generation 1): The policy was successfully initialized.
    37s         PolicyReady         PolicyReady (generation 1, replica 0): The policy is ready to be used.
    37s         PolicyReady         PolicyReady (generation 1, replica 1): The policy is ready to be used.
    37s         PolicyActive        Generation 1 is enforced.
    ");
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
    insta::assert_snapshot!(status(&broken, &[]), @r"
    AdmissionPolicy shop/trusted-registries, on policy server default, mode protect

    PHASE     Failed
              Generation 2 cannot be served (SettingsInvalid: Policy settings are invalid: nothing is refused: name registries or tags); generation 1 is enforced.
    CURRENT   generation 2
    SERVING   generation 1
    AWAITED   a change of the policy or of its server: SettingsInvalid is not tried again

    GENERATION   CONDITION          STATUS   REASON              SINCE   MESSAGE
    1, serving   Scheduled          True     PolicyScheduled     39s
                 Initialized        True     PolicyInitialized   38s
                 Ready, replica 0   True     PolicyReady         37s
                 Ready, replica 1   True     PolicyReady         37s
    2, current   Scheduled          True     PolicyScheduled     9s
                 Initialized        False    SettingsInvalid     8s      Policy settings are invalid: nothing is refused: name registries or tags
    ");
    assert_eq!(
        format!("{broken}: {}", broken.message()),
        "AdmissionPolicy shop/trusted-registries: Generation 2 cannot be served (SettingsInvalid: Policy settings are invalid: nothing is refused: name registries or tags); generation 1 is enforced."
    );
    let target = choose(&broken, None).unwrap();
    assert_eq!(
        announcement(&broken, &target),
        "AdmissionPolicy shop/trusted-registries: from generation 2 back to generation 1 (was active, registry://registry.example.com/policies/trusted-registries:v1), as a new generation"
    );
    let back = policy(
        3,
        json!({"kubewarden.io/rolled-back": "3=1"}),
        json!({"phase": "Active", "servingGeneration": 3, "conditions": served(3, 5),
               "history": [earlier(2, "Failed", 10), earlier(1, "Active", 40)]}),
    );
    let history = History::of(&back).table(now(), Paint::plain());
    insta::assert_snapshot!(history, @r"
    GENERATION   RESULT     AGE   MODULE                                                           REMARKS
    3            Active     6s    registry://registry.example.com/policies/trusted-registries:v1   current, serving, rollback to 1
    2            Failed     10s   registry://registry.example.com/policies/trusted-registries:v1
    1            Replaced   40s   registry://registry.example.com/policies/trusted-registries:v1
    ");
}
