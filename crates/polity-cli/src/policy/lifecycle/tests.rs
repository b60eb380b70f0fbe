//! What the commands say about policies in each state, as tables: sections 19.4, 19.5 and 19.8 of the admission
//! reference, and the last paragraph of 22.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::events::{Told, fresh};
use super::find::nearest;
use super::goal::{Goal, Verdict};
use super::history::History;
use super::kind::PolicyKind;
use super::policy::Policy;
use super::rollback::{Progress, Request, WithoutRollback, announcement};
use super::screen::Screen;
use super::table;
use super::target::{NoTarget, choose};
use super::view::{Awaited, View};
use crate::output::{Format, Paint};

fn now() -> Timestamp {
    "2026-11-16T10:00:00Z".parse().unwrap()
}

fn policy(object: Value) -> Policy {
    let object = serde_json::from_value(object).unwrap();
    Policy::read(PolicyKind::AdmissionPolicy, &object).unwrap()
}

/// A policy at generation 3, with what its status says.
fn with_status(status: Value) -> Value {
    let mut object = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy",
        "metadata": {"name": "team-label", "namespace": "shop", "uid": "u1", "generation": 3,
                     "resourceVersion": "7", "creationTimestamp": "2026-11-16T09:00:00Z"},
        "spec": {"module": "registry://r.example/team-label:v3", "mode": "protect", "policyServer": "default"},
    });
    if !status.is_null() {
        object["status"] = status;
        object["status"]["policyStatus"] = json!("active");
    }
    object
}

fn condition(type_: &str, generation: i64, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "generation": generation,
           "message": format!("Because\nof \u{1b}[31m{reason}."), "lastTransitionTime": "2026-11-16T09:55:00Z"})
}

fn ready(generation: i64, replica: i32, status: &str, reason: &str) -> Value {
    let mut ready = condition("Ready", generation, status, reason);
    ready["replica"] = json!(replica);
    ready
}

/// Generation 2 as every replica of two serves it.
fn served(generation: i64) -> Vec<Value> {
    vec![
        condition("Scheduled", generation, "True", "PolicyScheduled"),
        condition("Initialized", generation, "True", "PolicyInitialized"),
        ready(generation, 0, "True", "PolicyReady"),
        ready(generation, 1, "True", "PolicyReady"),
    ]
}

fn history() -> Value {
    json!([
        {"generation": 2, "module": "registry://r.example/team-label:v2", "result": "Active", "createdAt": "2026-11-16T09:30:00Z"},
        {"generation": 1, "module": "registry://r.example/team-label:v1", "result": "Superseded", "createdAt": "2026-11-16T09:00:00Z"},
    ])
}

/// Generation 3 on its way in, or stuck there, while generation 2 is enforced.
fn while_2_serves(phase: &str, of_3: Vec<Value>) -> Value {
    let legacy = condition("PolicyActive", 3, "True", "PolicyActive");
    let conditions = [served(2), of_3, vec![legacy]].concat();
    with_status(json!({
        "phase": phase, "observedGeneration": 3, "servingGeneration": 2, "history": history(),
        "message": format!("Generation 3 is {phase}; generation 2 is enforced."),
        "conditions": conditions,
    }))
}

fn updating() -> Value {
    let mut of_3 = served(3);
    of_3[3] = ready(3, 1, "Unknown", "ReplicaUnreachable");
    while_2_serves("Updating", of_3)
}

fn failed(reason: &str) -> Value {
    let scheduled = condition("Scheduled", 3, "True", "PolicyScheduled");
    let initialized = condition("Initialized", 3, "False", reason);
    while_2_serves("Failed", vec![scheduled, initialized])
}

fn active() -> Value {
    let mut object = while_2_serves("Active", Vec::new());
    object["status"]["servingGeneration"] = json!(3);
    object["status"]["conditions"] = json!(served(3));
    object
}

fn monitoring() -> Value {
    let mut object = active();
    object["spec"]["mode"] = json!("monitor");
    object["status"]["mode"] = json!("monitor");
    object["status"]["message"] = json!("Generation 3 is active.");
    object
}

/// The controller has not seen generation 4.
fn behind(mut object: Value) -> Value {
    object["metadata"]["generation"] = json!(4);
    object
}

fn annotated(mut object: Value, name: &str, value: &str) -> Value {
    object["metadata"]["annotations"][format!("kubewarden.io/{name}")] = json!(value);
    object
}

fn told(name: &str, reason: &str, count: i32) -> Told {
    Told {
        name: name.to_owned(),
        version: 0,
        last: Some("2026-11-16T09:58:00Z".parse().unwrap()),
        type_: if reason.ends_with("Failed") {
            "Warning"
        } else {
            "Normal"
        }
        .to_owned(),
        reason: reason.to_owned(),
        note: format!("A note\nabout {reason}."),
        count,
    }
}

fn page(object: Value, events: &[Told]) -> String {
    let view = View::of(&policy(object), events, 2);
    table::page(&view, now(), Paint::plain())
}

#[test]
fn an_update_shows_both_generations_and_the_awaited_replica() {
    let events = [
        told("a", "PolicyPending", 1),
        told("b", "PolicyReady", 3),
        told("c", "PolicyLoadFailed", 1),
    ];
    insta::assert_snapshot!(page(updating(), &events));
}

#[test]
fn a_failure_shows_the_reason_and_what_is_enforced() {
    insta::assert_snapshot!(page(failed("SettingsInvalid"), &[]));
}

#[test]
fn a_policy_no_controller_has_seen() {
    insta::assert_snapshot!(page(
        annotated(with_status(Value::Null), "rollback-to-generation", "2"),
        &[]
    ));
}

#[test]
fn nothing_that_others_wrote_reaches_the_terminal_as_it_is() {
    let text = page(
        failed("SettingsInvalid"),
        &[told("a", "PolicyLoadFailed", 1)],
    );
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "{text:?}"
    );
    assert!(
        !text.contains("PolicyActive"),
        "conditions of older releases are left out: {text}"
    );
}

#[test]
fn colours_are_for_terminals() {
    let view = View::of(&policy(failed("PullError")), &[], 0);
    assert!(!table::page(&view, now(), Paint::plain()).contains('\u{1b}'));
}

/// Who has the next step, for each reason why an initialisation failed.
#[test]
fn who_is_awaited() {
    let owner = |reason: &str| {
        Some(Awaited::Owner {
            reason: reason.to_owned(),
        })
    };
    let retry = |reason: &str| {
        Some(Awaited::Leader {
            retries: Some(reason.to_owned()),
        })
    };
    let server = |reason: &str| {
        Some(Awaited::PolicyServer {
            reason: Some(reason.to_owned()),
        })
    };
    let replicas = |replicas: &[i32]| {
        Some(Awaited::Replicas {
            replicas: replicas.to_vec(),
        })
    };
    let unscheduled =
        |reason: &str| while_2_serves("Updating", vec![condition("Scheduled", 3, "False", reason)]);
    let at = |n: usize| while_2_serves("Updating", served(3)[..n].to_vec());
    let mut rejected = unscheduled("RevisionRejected");
    rejected["status"]["observedGeneration"] = json!(2);
    let mut first = while_2_serves("Pending", Vec::new());
    first["status"]["servingGeneration"] = Value::Null;
    first["status"]["conditions"] = json!(served(3)[..2]);
    let mut scaled_up = active();
    let pending = ready(3, 2, "Unknown", "ReplicaPending");
    scaled_up["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(pending);
    for (name, object, expected) in [
        (
            "no status",
            with_status(Value::Null),
            Some(Awaited::Controller),
        ),
        (
            "a new generation",
            behind(active()),
            Some(Awaited::Controller),
        ),
        (
            "a rollback",
            annotated(active(), "rollback-to-generation", "2"),
            Some(Awaited::Controller),
        ),
        (
            "created",
            unscheduled("WaitingForPolicyServer"),
            server("WaitingForPolicyServer"),
        ),
        (
            "no server",
            unscheduled("PolicyServerNotFound"),
            server("PolicyServerNotFound"),
        ),
        (
            "no replica",
            unscheduled("PolicyServerNotRunning"),
            server("PolicyServerNotRunning"),
        ),
        ("refused", rejected, server("RevisionRejected")),
        ("taken", at(1), Some(Awaited::Leader { retries: None })),
        ("pull", failed("PullError"), retry("PullError")),
        ("disk", failed("CacheError"), retry("CacheError")),
        (
            "signature",
            failed("VerificationError"),
            retry("VerificationError"),
        ),
        (
            "metadata",
            failed("MetadataInvalid"),
            owner("MetadataInvalid"),
        ),
        ("module", failed("ModuleInvalid"), owner("ModuleInvalid")),
        (
            "version",
            failed("IncompatibleVersion"),
            owner("IncompatibleVersion"),
        ),
        (
            "settings",
            failed("SettingsInvalid"),
            owner("SettingsInvalid"),
        ),
        (
            "expression",
            failed("ExpressionInvalid"),
            owner("ExpressionInvalid"),
        ),
        (
            "capability",
            failed("CapabilityInvalid"),
            owner("CapabilityInvalid"),
        ),
        ("a word of tomorrow", failed("Tired"), retry("Tired")),
        ("nobody spoke, the first time", first, replicas(&[])),
        ("nobody spoke about 3", at(2), replicas(&[0, 1])),
        ("one spoke", at(3), replicas(&[1])),
        ("one is unreachable", updating(), replicas(&[1])),
        ("all spoke, the switch is due", at(4), replicas(&[])),
        ("enforced", active(), None),
        ("scaled up", scaled_up, replicas(&[2])),
    ] {
        let view = View::of(&policy(object), &[], 0);
        assert_eq!(view.awaited, expected, "{name}");
    }
}

#[test]
fn a_policy_in_monitor_mode_is_not_said_to_be_enforced() {
    let shown = page(monitoring(), &[]);
    assert!(shown.contains("Active in monitor mode"), "{shown}");
    assert!(!shown.contains("enforced"), "{shown}");
    let message = policy(behind(monitoring())).message();
    assert_eq!(
        message,
        "The controller has not acted on generation 4 yet; generation 3 is active in monitor mode."
    );
}

#[test]
fn what_is_waited_for() {
    let mut deleted = active();
    deleted["metadata"]["deletionTimestamp"] = json!("2026-11-16T10:00:00Z");
    let asked = annotated(failed("PullError"), "rollback-to-generation", "2");
    for (name, goal, object, expected) in [
        ("enforced", "active", active(), "+generation 3 is enforced"),
        (
            "in monitor mode",
            "active",
            monitoring(),
            "+generation 3 is active in monitor mode",
        ),
        ("on its way", "active", updating(), ""),
        (
            "failed",
            "Active",
            failed("PullError"),
            "-Generation 3 is Failed; generation 2 is enforced.",
        ),
        ("an old failure", "active", behind(failed("PullError")), ""),
        ("an old success", "active", behind(active()), ""),
        ("no status", "active", with_status(Value::Null), ""),
        ("about to be another", "active", asked, ""),
        (
            "on its way out",
            "active",
            deleted,
            "-the policy is being deleted",
        ),
        (
            "failed as wanted",
            "failed",
            failed("PullError"),
            "+Generation 3 is Failed; generation 2 is enforced.",
        ),
        ("not failed", "failed", active(), ""),
        ("an old failure", "failed", behind(failed("PullError")), ""),
        (
            "this one",
            "generation=3",
            active(),
            "+generation 3 is enforced",
        ),
        (
            "still the one before",
            "generation=2",
            behind(updating()),
            "+generation 2 is enforced",
        ),
        ("on its way", "generation=3", updating(), ""),
        ("one to come", "generation=5", active(), ""),
        (
            "failed",
            "generation=3",
            failed("PullError"),
            "-Generation 3 is Failed; generation 2 is enforced.",
        ),
        (
            "passed over",
            "generation=2",
            active(),
            "-generation 3 is enforced, which came after generation 2",
        ),
        (
            "perhaps passed over",
            "generation=3",
            behind(updating()),
            "",
        ),
    ] {
        let verdict = match goal.parse::<Goal>().unwrap().look(Some(&policy(object))) {
            Verdict::NotYet => String::new(),
            Verdict::Reached(what) => format!("+{what}"),
            Verdict::Missed(why) => format!("-{why}"),
        };
        assert_eq!(verdict, expected, "{name}, {goal}");
    }
    let gone = Goal::Failed.look(None);
    assert_eq!(gone, Verdict::Missed("the policy was deleted".to_owned()));
    let mut skipped = while_2_serves("Updating", Vec::new());
    skipped["metadata"]["generation"] = json!(4);
    skipped["status"]["observedGeneration"] = json!(4);
    let why = "generation 4 came before generation 3 was active".to_owned();
    assert_eq!(
        Goal::Generation(3).look(Some(&policy(skipped))),
        Verdict::Missed(why)
    );
}

#[test]
fn goals_as_people_write_them() {
    for (text, expected) in [
        ("active", Some(Goal::Active)),
        ("FAILED", Some(Goal::Failed)),
        ("generation=7", Some(Goal::Generation(7))),
        ("generation=0", None),
        ("generation=-1", None),
        ("generation=", None),
        ("generation", None),
        ("active=3", None),
        ("", None),
    ] {
        assert_eq!(text.parse().ok(), expected, "{text:?}");
        if let Some(goal) = expected {
            assert_eq!(goal.to_string(), text.to_lowercase());
        }
    }
}

/// Without a generation, a rollback goes to the newest one that was served before.
#[test]
fn where_a_rollback_goes() {
    let with_history = |mut object: Value, history: Value| {
        object["status"]["history"] = history;
        object
    };
    let mut nothing_serves = updating();
    nothing_serves["status"]["servingGeneration"] = Value::Null;
    let mut deleted = active();
    deleted["metadata"]["deletionTimestamp"] = json!("2026-11-16T10:00:00Z");
    let never = json!([{"generation": 2, "module": "m", "result": "Failed"}, {"generation": 1, "module": "m", "result": "Superseded"}]);
    for (name, object, wanted, expected) in [
        ("broken: what serves", failed("PullError"), None, "2"),
        ("on its way: what serves", updating(), None, "2"),
        (
            "the controller is behind: what serves",
            behind(active()),
            None,
            "generation 3 of AdmissionPolicy shop/team-label is not kept",
        ),
        ("active: the newest that was", active(), None, "2"),
        (
            "nothing serves: the newest that was",
            nothing_serves,
            None,
            "2",
        ),
        (
            "none was",
            with_history(active(), never.clone()),
            None,
            "AdmissionPolicy shop/team-label has no earlier generation that was active",
        ),
        (
            "one by name, whatever became of it",
            with_history(active(), never),
            Some(2),
            "2",
        ),
        ("an older one by name", failed("PullError"), Some(1), "1"),
        (
            "the current one",
            failed("PullError"),
            Some(3),
            "AdmissionPolicy shop/team-label is at generation 3 already",
        ),
        (
            "one that was collected",
            with_history(active(), json!([])),
            Some(1),
            "generation 1 of AdmissionPolicy shop/team-label is not kept",
        ),
        (
            "one to come",
            active(),
            Some(9),
            "generation 9 of AdmissionPolicy shop/team-label is not kept",
        ),
        (
            "no status",
            with_status(Value::Null),
            None,
            "AdmissionPolicy shop/team-label has no earlier generation that was active",
        ),
        (
            "on its way out",
            deleted,
            None,
            "AdmissionPolicy shop/team-label is being deleted",
        ),
    ] {
        let chosen = match choose(&policy(object), wanted) {
            Ok(target) => target.generation.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(chosen, expected, "{name}");
    }
    let error = choose(&policy(active()), Some(9)).unwrap_err();
    let hint = crate::exit::Hinted::from(error.clone()).hint;
    assert_eq!(hint, "name one that is kept with --to: 2, 1");
    assert!(matches!(error, NoTarget::NotKept { .. }));
}

#[test]
fn what_a_rollback_announces() {
    let asked = policy(annotated(
        failed("PullError"),
        "rollback-to-generation",
        "x",
    ));
    let target = choose(&asked, None).unwrap();
    assert_eq!(
        announcement(&asked, &target),
        "AdmissionPolicy shop/team-label: from generation 3 back to generation 2 (was active, \
         registry://r.example/team-label:v2), as a new generation; instead of to \"x\", which was asked for before"
    );
}

#[test]
fn what_came_of_a_rollback() {
    let request = Request {
        uid: "u1".to_owned(),
        from: 3,
        to: 2,
    };
    let over = |why: &str| Some(Progress::Over(why.to_owned()));
    let mut another = active();
    another["metadata"]["uid"] = json!("u2");
    for (name, object, expected) in [
        (
            "asked",
            annotated(active(), "rollback-to-generation", "2"),
            None,
        ),
        (
            "made",
            annotated(behind(active()), "rolled-back", "4=2"),
            Some(Progress::Made(4)),
        ),
        (
            "one before",
            annotated(
                annotated(active(), "rolled-back", "3=2"),
                "rollback-to-generation",
                "2",
            ),
            None,
        ),
        (
            "only one before",
            annotated(active(), "rolled-back", "3=2"),
            Some(Progress::Dropped),
        ),
        (
            "to another",
            annotated(behind(active()), "rolled-back", "4=1"),
            Some(Progress::Dropped),
        ),
        (
            "nonsense",
            annotated(active(), "rolled-back", "four"),
            Some(Progress::Dropped),
        ),
        (
            "overruled",
            annotated(active(), "rollback-to-generation", "1"),
            over("a rollback to \"1\" was asked for instead"),
        ),
        ("recreated", another, over("the policy was deleted")),
    ] {
        assert_eq!(request.progress(Some(&policy(object))), expected, "{name}");
    }
    assert_eq!(request.progress(None), over("the policy was deleted"));
}

#[test]
fn the_answer_is_among_the_fresh_events() {
    let before = [
        told("a", "RollbackFailed", 1),
        told("b", "PolicyRolledBack", 1),
    ];
    assert_eq!(WithoutRollback::among(&fresh(&before, &before)), None);
    let again = [
        told("a", "RollbackFailed", 2),
        before[1].clone(),
        told("c", "PolicyReady", 1),
    ];
    let why = "RollbackFailed: A note\nabout RollbackFailed.".to_owned();
    assert_eq!(
        WithoutRollback::among(&fresh(&before, &again)),
        Some(WithoutRollback::No(why))
    );
    let new = [
        before[0].clone(),
        before[1].clone(),
        told("d", "PolicyRolledBack", 1),
    ];
    let note = "A note\nabout PolicyRolledBack.".to_owned();
    assert_eq!(
        WithoutRollback::among(&fresh(&before, &new)),
        Some(WithoutRollback::NothingToChange(note))
    );
}

#[test]
fn the_history_of_a_policy_and_of_a_group() {
    let rolled_back = annotated(updating(), "rolled-back", "3=1");
    let one = History::of(&policy(rolled_back)).table(now(), Paint::plain());
    let mut group = active();
    group["spec"] = json!({"policies": {"a": {"module": "registry://r.example/a:v1"}, "b": {"module": "file:///b.wasm"}}});
    group["status"]["history"] = json!([
        {"generation": 2, "members": {"a": "registry://r.example/a:v0"}, "result": "Failed"},
    ]);
    let several = History::of(&policy(group)).table(now(), Paint::plain());
    let new = History::of(&policy(with_status(Value::Null))).table(now(), Paint::plain());
    insta::assert_snapshot!([one, several, new].join("\n"));
}

#[test]
fn names_that_may_have_been_meant() {
    let known: Vec<_> = [
        (PolicyKind::AdmissionPolicy, "team-label"),
        (PolicyKind::AdmissionPolicyGroup, "team-labels"),
        (PolicyKind::ClusterAdmissionPolicy, "privileged-pods"),
        (PolicyKind::ClusterAdmissionPolicy, "psp"),
    ]
    .map(|(kind, name)| (kind, name.to_owned()))
    .to_vec();
    for (asked, expected) in [
        (
            "team-labl",
            vec![
                "AdmissionPolicy team-label",
                "AdmissionPolicyGroup team-labels",
            ],
        ),
        (
            "team",
            vec![
                "AdmissionPolicy team-label",
                "AdmissionPolicyGroup team-labels",
            ],
        ),
        (
            "privileged-pod",
            vec!["ClusterAdmissionPolicy privileged-pods"],
        ),
        (
            "privileged-pods-of-mine",
            vec!["ClusterAdmissionPolicy privileged-pods"],
        ),
        ("pps", vec![]),
        ("xyz", vec![]),
        ("", vec![]),
        ("té", vec![]),
    ] {
        assert_eq!(nearest(asked, &known), expected, "{asked:?}");
    }
}

#[test]
fn answers_that_follow_each_other() {
    let view = |object| View::of(&policy(object), &[], 0);
    let shown = |format, is_terminal| {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, format, Paint::plain(), is_terminal);
        for object in [updating(), updating(), active()] {
            screen.show(view(object), now()).unwrap();
        }
        String::from_utf8(out).unwrap()
    };
    let json = shown(Format::Json, true);
    let lines: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2, "the same again is not printed: {json}");
    assert_eq!(
        lines[0]["awaited"],
        json!({"who": "replicas", "replicas": [1]})
    );
    assert_eq!(lines[1]["phase"], "Active");
    assert_eq!(shown(Format::Yaml, false).matches("---\n").count(), 2);
    assert_eq!(
        shown(Format::Table, true)
            .matches("\u{1b}[H\u{1b}[2J")
            .count(),
        2
    );
    let table = shown(Format::Table, false);
    assert!(
        !table.contains('\u{1b}')
            && table.matches("\n\nAdmissionPolicy shop/team-label").count() == 1,
        "{table}"
    );
}

#[test]
fn a_status_that_is_none_is_an_error() {
    let mut object = active();
    object["status"]["phase"] = json!("Sleeping");
    let object = serde_json::from_value(object).unwrap();
    let error = Policy::read(PolicyKind::AdmissionPolicy, &object).unwrap_err();
    assert_eq!(
        error.to_string(),
        "reading the status of AdmissionPolicy shop/team-label"
    );
}
