//! What owners of policies read: messages of the status, conditions and Events.

use polity_api::policies::v1::{ConditionType, Phase, PolicyState};
use serde_json::json;

use super::Simulation;

fn monitoring() -> Simulation {
    let mut simulation = Simulation::new(1);
    simulation.edit(|spec| spec["mode"] = json!("monitor"));
    simulation.settle();
    simulation.load(2);
    assert!(
        simulation.line().starts_with("Active S=2"),
        "{}",
        simulation.line()
    );
    simulation
}

fn message(simulation: &Simulation) -> &str {
    simulation.status().message.as_deref().unwrap_or_default()
}

/// Everything that the controller has written for people about a policy.
fn all_texts(simulation: &Simulation) -> Vec<String> {
    let conditions = simulation.status().conditions.iter();
    let messages = conditions.map(|condition| condition.message.clone());
    let texts = messages.chain(simulation.notes.iter().cloned());
    texts.chain([message(simulation).to_owned()]).collect()
}

#[test]
fn nothing_in_monitor_mode_is_called_enforced() {
    let mut simulation = monitoring();
    assert_eq!(
        message(&simulation),
        "Generation 2 is active in monitor mode."
    );
    assert_eq!(
        simulation.notes.last().map(String::as_str),
        Some("Generation 2 is active in monitor mode: violations are reported, not rejected.")
    );
    simulation.update("3");
    simulation.settle();
    simulation.fail_to_initialize(3, "PullError");
    simulation.settle();
    assert_eq!(
        message(&simulation),
        "Generation 3 cannot be served (PullError: PullError, in its own words); \
         generation 2 is active in monitor mode."
    );
    let updating =
        "Generation 3 is being loaded; until then generation 2 is active in monitor mode.";
    assert!(
        simulation.notes.contains(&updating.to_owned()),
        "{:?}",
        simulation.notes
    );
    for text in all_texts(&simulation) {
        assert!(!text.contains("enforced"), "{text}");
    }
}

#[test]
fn in_protect_mode_the_enforced_generation_is_named() {
    let mut simulation = Simulation::new(1);
    simulation.settle();
    simulation.load(1);
    assert_eq!(message(&simulation), "Generation 1 is enforced.");
    simulation.update("2");
    simulation.settle();
    let updating = "Generation 2 is being loaded; until then generation 1 is enforced.";
    assert!(
        simulation.notes.contains(&updating.to_owned()),
        "{:?}",
        simulation.notes
    );
}

#[test]
fn a_policy_reads_the_same_whether_its_server_was_deleted_or_never_existed() {
    let mut never = Simulation::new(1);
    never.observed.servers.clear();
    never.settle();
    let mut deleted = Simulation::active(1);
    deleted.observed.servers.clear();
    deleted.settle();
    for (what, simulation) in [("never existed", &never), ("deleted", &deleted)] {
        let status = simulation.status();
        assert_eq!(status.policy_status, PolicyState::Scheduled, "{what}");
        assert_eq!(status.phase, Some(Phase::Pending), "{what}");
        assert_eq!(
            message(simulation),
            "Generation 1 waits for the PolicyServer \"default\" to exist; nothing is enforced.",
            "{what}"
        );
        let said = |type_: ConditionType| {
            let mut conditions = status.conditions.iter();
            let found = conditions.find(|one| one.type_ == type_.as_str()).unwrap();
            (found.reason.as_str(), found.message.as_str())
        };
        assert_eq!(
            said(ConditionType::Scheduled),
            (
                "PolicyServerNotFound",
                "The PolicyServer \"default\" does not exist, so the policy is not active."
            ),
            "{what}"
        );
        assert_eq!(
            said(ConditionType::PolicyActive).1,
            "The PolicyServer \"default\" does not exist, so no webhook calls the policy.",
            "{what}"
        );
        assert!(
            simulation
                .events
                .contains(&"PolicyServerNotFound".to_owned()),
            "{what}"
        );
    }
}

#[test]
fn the_event_about_a_deleted_server_names_what_is_lost() {
    let not_found = "PolicyServerNotFound (generation 1): \
                     The PolicyServer \"default\" does not exist, so the policy is not active.";
    let mut never = Simulation::new(1);
    never.observed.servers.clear();
    never.settle();
    assert_eq!(never.notes.last().map(String::as_str), Some(not_found));

    let mut protecting = Simulation::active(1);
    protecting.server().is_deleting = true;
    protecting.settle();
    assert_eq!(
        protecting.notes,
        [format!("{not_found} Generation 1 is no longer enforced.")]
    );
    // The rest of the deletion is no news.
    protecting.observed.servers.clear();
    protecting.settle();
    assert_eq!(protecting.events, ["PolicyServerNotFound"]);

    let mut monitoring = monitoring();
    monitoring.notes.clear();
    monitoring.observed.servers.clear();
    monitoring.settle();
    let note = monitoring.notes.concat();
    assert!(
        note.ends_with("Generation 2 no longer reports violations."),
        "{note}"
    );
}
