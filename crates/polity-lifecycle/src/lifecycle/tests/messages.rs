//! What owners of policies read: messages of the status, conditions and Events.

use polity_api::policies::v1::{ConditionType, Phase, PolicyState};
use serde_json::json;

use super::World;

fn monitoring() -> World {
    let mut world = World::new(1);
    world.edit(|spec| spec["mode"] = json!("monitor"));
    world.settle();
    world.load(2);
    assert!(world.line().starts_with("Active S=2"), "{}", world.line());
    world
}

fn message(world: &World) -> &str {
    world.status().message.as_deref().unwrap_or_default()
}

/// Everything that the controller has written for people about a policy.
fn all_texts(world: &World) -> Vec<String> {
    let conditions = world.status().conditions.iter();
    let messages = conditions.map(|condition| condition.message.clone());
    let texts = messages.chain(world.notes.iter().cloned());
    texts.chain([message(world).to_owned()]).collect()
}

#[test]
fn nothing_in_monitor_mode_is_called_enforced() {
    let mut world = monitoring();
    assert_eq!(message(&world), "Generation 2 is active in monitor mode.");
    assert_eq!(
        world.notes.last().map(String::as_str),
        Some("Generation 2 is active in monitor mode: violations are reported, not rejected.")
    );
    world.update("3");
    world.settle();
    world.fail_to_initialize(3, "PullError");
    world.settle();
    assert_eq!(
        message(&world),
        "Generation 3 cannot be served (PullError: PullError, in its own words); \
         generation 2 is active in monitor mode."
    );
    let updating =
        "Generation 3 is being loaded; until then generation 2 is active in monitor mode.";
    assert!(
        world.notes.contains(&updating.to_owned()),
        "{:?}",
        world.notes
    );
    for text in all_texts(&world) {
        assert!(!text.contains("enforced"), "{text}");
    }
}

#[test]
fn in_protect_mode_the_enforced_generation_is_named() {
    let mut world = World::new(1);
    world.settle();
    world.load(1);
    assert_eq!(message(&world), "Generation 1 is enforced.");
    world.update("2");
    world.settle();
    let updating = "Generation 2 is being loaded; until then generation 1 is enforced.";
    assert!(
        world.notes.contains(&updating.to_owned()),
        "{:?}",
        world.notes
    );
}

#[test]
fn a_policy_reads_the_same_whether_its_server_was_deleted_or_never_existed() {
    let mut never = World::new(1);
    never.observed.servers.clear();
    never.settle();
    let mut deleted = World::active(1);
    deleted.observed.servers.clear();
    deleted.settle();
    for (what, world) in [("never existed", &never), ("deleted", &deleted)] {
        let status = world.status();
        assert_eq!(status.policy_status, PolicyState::Scheduled, "{what}");
        assert_eq!(status.phase, Some(Phase::Pending), "{what}");
        assert_eq!(
            message(world),
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
            world.events.contains(&"PolicyServerNotFound".to_owned()),
            "{what}"
        );
    }
}

#[test]
fn the_event_about_a_deleted_server_names_what_is_lost() {
    let not_found = "PolicyServerNotFound (generation 1): \
                     The PolicyServer \"default\" does not exist, so the policy is not active.";
    let mut never = World::new(1);
    never.observed.servers.clear();
    never.settle();
    assert_eq!(never.notes.last().map(String::as_str), Some(not_found));

    let mut protecting = World::active(1);
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
