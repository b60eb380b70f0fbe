//! Table 19.3, row by row: what the controller does about each event.

use polity_api::policies::names;
use polity_api::policies::v1::Phase;
use serde_json::json;

use super::World;
use super::world::SERVER;
use crate::lifecycle::{PolicyKind, Refusal, WebhookKind};

#[test]
fn row_1_a_policy_is_created() {
    for kind in PolicyKind::ALL {
        let mut world = World::of(kind, 3);
        world.settle();
        assert_eq!(world.line(), "Pending S=- | 1 on");
        let waiting = ["1 Scheduled=False/WaitingForPolicyServer"];
        assert_eq!(world.conditions(), waiting, "{kind:?}");
        assert_eq!(world.conditions_of(1), waiting);
        assert_eq!(world.events, ["PolicyPending"]);
        assert_eq!(world.writes, ["create 1", "report 1", "status"]);
        let spec = world.observed.policy.spec();
        let revision = world.revision(1);
        assert_eq!(revision.spec.data["spec"], json!(spec));
        assert_eq!(revision.spec.object_reference.uid.as_deref(), Some("uid-1"));
        let labels = revision.metadata.labels.clone().unwrap();
        assert_eq!(labels[names::REVISION_POLICY_SERVER], SERVER);
        assert_eq!(labels[names::POLICY_UID], "uid-1");
        assert_eq!(labels[names::POLICY_GENERATION], "1");
        assert!(revision.metadata.owner_references.is_none());
    }
}

#[test]
fn row_2_the_specification_changes_while_one_serves() {
    let mut world = World::active(2);
    world.update("2");
    world.settle();
    assert_eq!(world.line(), "Updating S=1 | 1 on serving, 2 on");
    assert_eq!(
        world.conditions(),
        [
            "1 Scheduled=True/PolicyScheduled",
            "1 Initialized=True/PolicyInitialized",
            "1 Ready[0]=True/PolicyReady",
            "1 Ready[1]=True/PolicyReady",
            "2 Scheduled=False/WaitingForPolicyServer",
        ]
    );
    assert_eq!(world.events, ["PolicyUpdating"]);
}

#[test]
fn row_2_generations_that_came_and_went_unseen_get_no_revision() {
    let mut world = World::active(1);
    world.update("2");
    world.update("3");
    world.settle();
    assert_eq!(world.line(), "Updating S=1 | 1 on serving, 3 on");
}

#[test]
fn row_3_changed_again_before_it_went_active() {
    let mut world = World::active(1);
    world.update("2");
    world.settle();
    world.take(2);
    world.settle();
    world.update("3");
    world.settle();
    assert_eq!(world.line(), "Updating S=1 | 1 on serving, 2 off, 3 on");
    assert!(!world.conditions().iter().any(|line| line.starts_with('2')));

    let mut first = World::new(1);
    first.settle();
    first.update("2");
    first.settle();
    assert_eq!(first.line(), "Pending S=- | 1 off, 2 on");
}

#[test]
fn row_4_without_a_policy_server() {
    let mut world = World::new(1);
    world.observed.servers.clear();
    world.settle();
    assert_eq!(world.line(), "Pending S=- | 1 on");
    assert_eq!(
        world.conditions(),
        ["1 Scheduled=False/PolicyServerNotFound"]
    );
    assert_eq!(world.events, ["PolicyPending", "PolicyServerNotFound"]);
    // Time passes, and there is nothing new to say.
    world.writes.clear();
    world.pass(60);
    world.settle();
    assert_eq!(world.writes, Vec::<String>::new());
    world.add_server(2);
    world.server().pods.clear();
    world.settle();
    assert_eq!(
        world.conditions(),
        ["1 Scheduled=False/PolicyServerNotRunning"]
    );
    world.scale(2);
    world.settle();
    assert_eq!(
        world.conditions()[0],
        "1 Scheduled=False/WaitingForPolicyServer"
    );
}

#[test]
fn row_4_a_policy_server_that_cannot_exist_gets_no_revision() {
    for name in ["", "-no-", "a b"] {
        let mut world = World::new(1);
        world.edit(|spec| spec["policyServer"] = json!(name));
        world.settle();
        assert_eq!(world.line(), "Pending S=- | ", "{name:?}");
        assert_eq!(
            world.conditions(),
            ["2 Scheduled=False/PolicyServerNotFound"]
        );
        assert_eq!(world.status().observed_generation, None);
    }
}

#[test]
fn rows_5_and_6_every_condition_is_copied() {
    let mut world = World::new(1);
    world.settle();
    world.take(1);
    world.settle();
    assert_eq!(world.conditions(), ["1 Scheduled=True/PolicyScheduled"]);
    world.initialize(1);
    world.settle();
    assert_eq!(
        world.conditions(),
        [
            "1 Scheduled=True/PolicyScheduled",
            "1 Initialized=True/PolicyInitialized"
        ]
    );
    assert_eq!(
        world.events,
        ["PolicyPending", "PolicyScheduled", "PolicyInitialized"]
    );
}

#[test]
fn row_8_initialisation_failed() {
    let mut world = World::active(2);
    world.update("2");
    world.settle();
    world.fail_to_initialize(2, "PullError");
    world.settle();
    assert_eq!(world.line(), "Failed S=1 | 1 on serving, 2 on");
    assert!(
        world
            .events
            .contains(&"PolicyInitializationFailed".to_owned())
    );
    assert_eq!(
        world.status().message.as_deref(),
        Some(
            "Generation 2 cannot be served (PullError: PullError, in its own words); generation 1 is enforced."
        )
    );
}

#[test]
fn row_11_loading_failed_on_a_replica() {
    let mut world = World::active(2);
    world.update("2");
    world.settle();
    world.initialize(2);
    world.ready(2, 0);
    world.fail_to_load(2, 1, "LoadError");
    world.settle();
    assert_eq!(world.line(), "Failed S=1 | 1 on serving, 2 on");
    assert!(world.events.contains(&"PolicyLoadFailed".to_owned()));
    assert!(
        world
            .status()
            .message
            .as_ref()
            .unwrap()
            .contains("on replica 1")
    );
}

#[test]
fn row_12_not_before_every_expected_replica_is_ready() {
    let mut world = World::active(3);
    world.update("2");
    world.settle();
    world.initialize(2);
    for replica in 0..3 {
        world.settle();
        assert_eq!(
            world.line(),
            "Updating S=1 | 1 on serving, 2 on",
            "{replica}"
        );
        world.ready(2, replica);
    }
    world.writes.clear();
    world.settle();
    assert_eq!(world.line(), "Active S=2 | 1 on serving, 2 on serving");
    assert_eq!(world.writes, ["update 2", "webhook 2", "status"]);
    assert!(!world.conditions().iter().any(|line| line.starts_with('1')));
    assert_eq!(
        world.events.last().map(String::as_str),
        Some("PolicyActive")
    );
    assert_eq!(world.status().serving_generation, Some(2));
}

#[test]
fn row_12_the_message_names_who_is_awaited() {
    let mut world = World::active(3);
    world.update("2");
    world.settle();
    world.initialize(2);
    world.ready(2, 1);
    world.settle();
    assert_eq!(
        world.status().message.as_deref(),
        Some(
            "Generation 2 is initialized and waits for every replica; generation 1 is enforced; replicas 0, 2 are awaited."
        )
    );
}

#[test]
fn row_13_the_old_generation_ends_after_the_drain_time() {
    let mut world = World::active(1);
    world.update("2");
    world.settle();
    world.load(2);
    let over = world.settle().unwrap();
    assert_eq!((over - world.now).get_seconds(), 10);
    world.pass(9);
    assert_eq!(world.settle(), Some(over));
    assert_eq!(world.line(), "Active S=2 | 1 on serving, 2 on serving");
    world.pass(1);
    world.writes.clear();
    assert_eq!(world.settle(), None);
    assert_eq!(world.line(), "Active S=2 | 1 off, 2 on serving");
    assert_eq!(world.writes, ["update 1", "report 1"]);
    assert!(
        !world
            .conditions_of(1)
            .iter()
            .any(|line| line.contains("Ready"))
    );
}

#[test]
fn row_13_a_second_switch_starts_the_drain_again() {
    let mut world = World::active(1);
    world.update("2");
    world.settle();
    world.load(2);
    world.pass(6);
    world.update("3");
    world.settle();
    world.load(3);
    world.pass(6);
    world.settle();
    assert_eq!(
        world.line(),
        "Active S=3 | 1 on serving, 2 on serving, 3 on serving"
    );
    world.pass(4);
    world.settle();
    assert_eq!(world.line(), "Active S=3 | 1 off, 2 off, 3 on serving");
}

#[test]
fn row_15_the_oldest_revisions_go_and_those_that_never_served_first() {
    let mut world = World::active(1);
    world.observed.settings.history_limit = 2;
    for generation in 2..=4 {
        world.update(&generation.to_string());
        world.settle();
        // Generation 3 never serves.
        if generation != 3 {
            world.load(generation);
            world.settle_for_good();
        }
    }
    assert_eq!(world.line(), "Active S=4 | 1 off, 2 off, 4 on serving");
    world.update("5");
    world.settle();
    world.load(5);
    world.settle_for_good();
    assert_eq!(world.line(), "Active S=5 | 2 off, 4 off, 5 on serving");
    let history: Vec<_> = world
        .status()
        .history
        .iter()
        .map(|entry| entry.generation)
        .collect();
    assert_eq!(history, [4, 2]);
}

#[test]
fn row_16_new_replicas_are_unknown_and_an_active_policy_stays_active() {
    let mut world = World::active(1);
    world.pass(60);
    world.update("2");
    world.settle();
    world.pass(60);
    world.scale(3);
    world.settle();
    for generation in [1, 2] {
        let pending =
            [1, 2].map(|replica| format!("{generation} Ready[{replica}]=Unknown/ReplicaPending"));
        for line in pending {
            assert!(world.conditions_of(generation).contains(&line), "{line}");
            assert!(world.conditions().contains(&line), "{line}");
        }
    }
    let mut active = World::active(1);
    active.pass(60);
    active.scale(2);
    active.settle();
    assert_eq!(active.phase(), Phase::Active);
    assert!(
        active
            .conditions()
            .contains(&"1 Ready[1]=Unknown/ReplicaPending".to_owned())
    );
}

#[test]
fn row_17_a_replica_that_is_removed_no_longer_holds_back() {
    let mut world = World::active(3);
    world.update("2");
    world.settle();
    world.initialize(2);
    world.ready(2, 0);
    world.ready(2, 1);
    world.fail_to_load(2, 2, "CacheError");
    world.settle();
    assert_eq!(world.phase(), Phase::Failed);
    world.scale(2);
    world.settle();
    assert_eq!(world.line(), "Active S=2 | 1 on serving, 2 on serving");
    assert!(
        !world
            .conditions_of(2)
            .iter()
            .any(|line| line.contains("[2]"))
    );
}

#[test]
fn row_18_a_pod_that_is_gone_counts_as_not_ready() {
    let mut world = World::active(2);
    world.update("2");
    world.settle();
    world.initialize(2);
    world.settle();
    world.writes.clear();
    world.ready(2, 0);
    world.ready(2, 1);
    world.set_ready(1, false);
    world.settle();
    assert_eq!(world.line(), "Updating S=1 | 1 on serving, 2 on");
    assert!(
        world
            .conditions()
            .contains(&"2 Ready[1]=Unknown/ReplicaUnreachable".to_owned())
    );
    assert!(
        world
            .conditions_of(2)
            .contains(&"2 Ready[1]=True/PolicyReady".to_owned())
    );
    assert_eq!(world.writes, ["status"], "the revision is not written");
    world.fail_to_load(2, 1, "LoadError");
    world.settle();
    assert!(
        world
            .conditions()
            .contains(&"2 Ready[1]=False/LoadError".to_owned())
    );
    world.ready(2, 1);
    world.set_ready(1, true);
    world.settle();
    assert_eq!(world.phase(), Phase::Active);
}

#[test]
fn row_20_a_failure_that_passes() {
    let mut world = World::new(1);
    world.settle();
    world.fail_to_initialize(1, "PullError");
    world.settle();
    assert_eq!(world.line(), "Failed S=- | 1 on");
    world.load(1);
    assert_eq!(world.line(), "Active S=1 | 1 on serving");
}

#[test]
fn row_22_a_webhook_that_somebody_edited_is_put_back_at_s_with_its_own_fields() {
    let mut world = World::active(2);
    world.edit(|spec| spec["failurePolicy"] = json!("Ignore"));
    world.settle();
    let before = world.observed.webhooks[0].clone();
    let edits: [fn(&mut serde_json::Value); 3] = [
        |hook| hook["failurePolicy"] = json!("Ignore"),
        |hook| hook["clientConfig"]["service"]["path"] = json!("/validate/clusterwide-pods/2"),
        |hook| hook["clientConfig"]["service"]["path"] = json!("/elsewhere"),
    ];
    for edit in edits {
        edit(&mut world.observed.webhooks[0].hooks[0]);
        world.settle();
        assert_eq!(world.observed.webhooks[0].hooks, before.hooks);
        assert_eq!(world.line(), "Updating S=1 | 1 on serving, 2 on");
    }
}

#[test]
fn row_22_a_webhook_that_was_deleted_comes_back_although_a_pod_is_down() {
    let mut world = World::active(3);
    world.update("2");
    world.settle();
    world.set_ready(2, false);
    world.observed.webhooks.clear();
    world.settle();
    assert_eq!(world.line(), "Updating S=1 | 1 on serving, 2 on");

    // Not where a replica that takes requests lacks it, and not where none takes any.
    let mut lacking = World::active(2);
    lacking.fail_to_load(1, 1, "LoadError");
    lacking.observed.webhooks.clear();
    lacking.settle();
    assert_eq!(lacking.webhook(), None);
    let mut down = World::active(1);
    down.set_ready(0, false);
    down.observed.webhooks.clear();
    down.settle();
    assert_eq!(down.webhook(), None);
}

#[test]
fn row_24_the_policy_server_is_deleted() {
    let mut world = World::active(2);
    world.update("2");
    world.settle();
    world.fail_to_initialize(2, "SettingsInvalid");
    world.settle();
    world.server().is_deleting = true;
    world.settle();
    assert_eq!(world.line(), "Pending S=- | 1 on serving, 2 on");
    assert_eq!(
        world.conditions(),
        ["2 Scheduled=False/PolicyServerNotFound"]
    );
    assert!(world.conditions_of(1).len() > 1, "the pods still run");
    world.observed.servers.clear();
    world.settle();
    for generation in [1, 2] {
        assert_eq!(
            world.conditions_of(generation),
            [format!("{generation} Scheduled=False/PolicyServerNotFound")]
        );
    }
    assert_eq!(world.revision(1).status.as_ref().unwrap().modules.len(), 1);
}

#[test]
fn row_29_the_policy_server_comes_back_while_g_is_broken() {
    let mut world = World::active(1);
    world.update("2");
    world.settle();
    world.observed.servers.clear();
    world.settle();
    assert_eq!(world.webhook(), None);
    world.add_server(1);
    world.settle();
    assert_eq!(world.webhook(), None, "nobody serves it yet");
    world.fail_to_initialize(2, "PullError");
    world.settle();
    assert_eq!(world.line(), "Failed S=- | 1 on serving, 2 on");
    world.load(1);
    assert_eq!(world.line(), "Failed S=1 | 1 on serving, 2 on");
}

#[test]
fn row_27_the_api_server_refuses_the_revision() {
    let mut world = World::active(1);
    world.update("2");
    world.observed.refusal = Some(Refusal::Revision("quota exceeded".into()));
    world.settle();
    assert_eq!(world.line(), "Updating S=1 | 1 on serving");
    assert!(
        world
            .conditions()
            .contains(&"2 Scheduled=False/RevisionRejected".to_owned())
    );
    assert_eq!(world.status().observed_generation, Some(1));
    assert_eq!(world.events, ["RevisionRejected"]);
    world.observed.refusal = None;
    world.settle();
    world.load(2);
    assert_eq!(world.phase(), Phase::Active);
}

#[test]
fn a_changed_mutating_makes_the_new_configuration_before_the_old_one_goes() {
    let mut world = World::active(1);
    world.edit(|spec| spec["mutating"] = json!(true));
    world.settle();
    world.load(2);
    let kinds = |world: &World| -> Vec<_> {
        world
            .observed
            .webhooks
            .iter()
            .map(|one| (one.kind, one.generation()))
            .collect()
    };
    assert_eq!(
        kinds(&world),
        [
            (WebhookKind::Validating, Some(1)),
            (WebhookKind::Mutating, Some(2))
        ]
    );
    assert_eq!(world.status().serving_generation, Some(2));
    world.settle_for_good();
    assert_eq!(kinds(&world), [(WebhookKind::Mutating, Some(2))]);
    assert_eq!(world.line(), "Active S=2 | 1 off, 2 on serving");
}

#[test]
fn with_no_replicas_nothing_becomes_active_and_what_was_keeps_its_webhook() {
    let mut world = World::active(1);
    world.scale(0);
    world.update("2");
    world.settle();
    world.initialize(2);
    world.settle();
    assert_eq!(world.line(), "Updating S=1 | 1 on serving, 2 on");
    world.scale(3);
    world.settle();
    world.load(2);
    assert_eq!(world.phase(), Phase::Active);
}

#[test]
fn a_policy_at_rest_is_not_written() {
    let mut world = World::active(3);
    world.pass(3600);
    world.settle();
    assert_eq!(world.writes, [""; 0]);
}
