//! What the controller does about each event.

use polity_api::policies::names;
use polity_api::policies::v1::Phase;
use serde_json::json;

use super::Simulation;
use super::simulation::SERVER;
use crate::lifecycle::{PolicyKind, Refusal, WebhookKind};

#[test]
fn a_policy_is_created() {
    for kind in PolicyKind::ALL {
        let mut simulation = Simulation::of(kind, 3);
        simulation.settle();
        assert_eq!(simulation.line(), "Pending S=- | 1 on");
        let waiting = ["1 Scheduled=False/WaitingForPolicyServer"];
        assert_eq!(simulation.conditions(), waiting, "{kind:?}");
        assert_eq!(simulation.conditions_of(1), waiting);
        assert_eq!(simulation.events, ["PolicyPending"]);
        assert_eq!(simulation.writes, ["create 1", "report 1", "status"]);
        let spec = simulation.observed.policy.spec();
        let revision = simulation.revision(1);
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
fn the_specification_changes_while_one_serves() {
    let mut simulation = Simulation::active(2);
    simulation.update("2");
    simulation.settle();
    assert_eq!(simulation.line(), "Updating S=1 | 1 on serving, 2 on");
    assert_eq!(
        simulation.conditions(),
        [
            "1 Scheduled=True/PolicyScheduled",
            "1 Initialized=True/PolicyInitialized",
            "1 Ready[0]=True/PolicyReady",
            "1 Ready[1]=True/PolicyReady",
            "2 Scheduled=False/WaitingForPolicyServer",
        ]
    );
    assert_eq!(simulation.events, ["PolicyUpdating"]);
}

#[test]
fn generations_that_came_and_went_unseen_get_no_revision() {
    let mut simulation = Simulation::active(1);
    simulation.update("2");
    simulation.update("3");
    simulation.settle();
    assert_eq!(simulation.line(), "Updating S=1 | 1 on serving, 3 on");
}

#[test]
fn the_specification_changes_again_before_it_became_active() {
    let mut simulation = Simulation::active(1);
    simulation.update("2");
    simulation.settle();
    simulation.take(2);
    simulation.settle();
    simulation.update("3");
    simulation.settle();
    assert_eq!(
        simulation.line(),
        "Updating S=1 | 1 on serving, 2 off, 3 on"
    );
    assert!(
        !simulation
            .conditions()
            .iter()
            .any(|line| line.starts_with('2'))
    );

    let mut first = Simulation::new(1);
    first.settle();
    first.update("2");
    first.settle();
    assert_eq!(first.line(), "Pending S=- | 1 off, 2 on");
}

#[test]
fn without_a_policy_server_a_policy_is_unscheduled() {
    let mut simulation = Simulation::new(1);
    simulation.observed.servers.clear();
    simulation.settle();
    assert_eq!(simulation.line(), "Pending S=- | 1 on");
    assert_eq!(
        simulation.conditions(),
        ["1 Scheduled=False/PolicyServerNotFound"]
    );
    assert_eq!(simulation.events, ["PolicyPending", "PolicyServerNotFound"]);
    // Time passes, and there is nothing new to say.
    simulation.writes.clear();
    simulation.pass(60);
    simulation.settle();
    assert_eq!(simulation.writes, Vec::<String>::new());
    simulation.add_server(2);
    simulation.server().pods.clear();
    simulation.settle();
    assert_eq!(
        simulation.conditions(),
        ["1 Scheduled=False/PolicyServerNotRunning"]
    );
    simulation.scale(2);
    simulation.settle();
    assert_eq!(
        simulation.conditions()[0],
        "1 Scheduled=False/WaitingForPolicyServer"
    );
}

#[test]
fn a_policy_server_that_cannot_exist_gets_no_revision() {
    for name in ["", "-no-", "a b"] {
        let mut simulation = Simulation::new(1);
        simulation.edit(|spec| spec["policyServer"] = json!(name));
        simulation.settle();
        assert_eq!(simulation.line(), "Pending S=- | ", "{name:?}");
        assert_eq!(
            simulation.conditions(),
            ["2 Scheduled=False/PolicyServerNotFound"]
        );
        assert_eq!(simulation.status().observed_generation, None);
    }
}

#[test]
fn every_condition_is_copied() {
    let mut simulation = Simulation::new(1);
    simulation.settle();
    simulation.take(1);
    simulation.settle();
    assert_eq!(
        simulation.conditions(),
        ["1 Scheduled=True/PolicyScheduled"]
    );
    simulation.initialize(1);
    simulation.settle();
    assert_eq!(
        simulation.conditions(),
        [
            "1 Scheduled=True/PolicyScheduled",
            "1 Initialized=True/PolicyInitialized"
        ]
    );
    assert_eq!(
        simulation.events,
        ["PolicyPending", "PolicyScheduled", "PolicyInitialized"]
    );
}

#[test]
fn an_initialisation_fails() {
    let mut simulation = Simulation::active(2);
    simulation.update("2");
    simulation.settle();
    simulation.fail_to_initialize(2, "PullError");
    simulation.settle();
    assert_eq!(simulation.line(), "Failed S=1 | 1 on serving, 2 on");
    assert!(
        simulation
            .events
            .contains(&"PolicyInitializationFailed".to_owned())
    );
    assert_eq!(
        simulation.status().message.as_deref(),
        Some(
            "Generation 2 cannot be served (PullError: PullError, in its own words); generation 1 is enforced."
        )
    );
}

#[test]
fn loading_fails_on_a_replica() {
    let mut simulation = Simulation::active(2);
    simulation.update("2");
    simulation.settle();
    simulation.initialize(2);
    simulation.ready(2, 0);
    simulation.fail_to_load(2, 1, "LoadError");
    simulation.settle();
    assert_eq!(simulation.line(), "Failed S=1 | 1 on serving, 2 on");
    assert!(simulation.events.contains(&"PolicyLoadFailed".to_owned()));
    assert!(
        simulation
            .status()
            .message
            .as_ref()
            .unwrap()
            .contains("on replica 1")
    );
}

#[test]
fn nothing_is_switched_before_every_expected_replica_is_ready() {
    let mut simulation = Simulation::active(3);
    simulation.update("2");
    simulation.settle();
    simulation.initialize(2);
    for replica in 0..3 {
        simulation.settle();
        assert_eq!(
            simulation.line(),
            "Updating S=1 | 1 on serving, 2 on",
            "{replica}"
        );
        simulation.ready(2, replica);
    }
    simulation.writes.clear();
    simulation.settle();
    assert_eq!(simulation.line(), "Active S=2 | 1 on serving, 2 on serving");
    assert_eq!(simulation.writes, ["update 2", "webhook 2", "status"]);
    assert!(
        !simulation
            .conditions()
            .iter()
            .any(|line| line.starts_with('1'))
    );
    assert_eq!(
        simulation.events.last().map(String::as_str),
        Some("PolicyActive")
    );
    assert_eq!(simulation.status().serving_generation, Some(2));
}

#[test]
fn the_message_names_the_replicas_that_are_not_ready() {
    let mut simulation = Simulation::active(3);
    simulation.update("2");
    simulation.settle();
    simulation.initialize(2);
    simulation.ready(2, 1);
    simulation.settle();
    assert_eq!(
        simulation.status().message.as_deref(),
        Some(
            "Generation 2 is initialized and waits for every replica; generation 1 is enforced; replicas 0, 2 are awaited."
        )
    );
}

#[test]
fn the_old_generation_ends_after_the_drain_time() {
    let mut simulation = Simulation::active(1);
    simulation.update("2");
    simulation.settle();
    simulation.load(2);
    let over = simulation.settle().unwrap();
    assert_eq!((over - simulation.now).get_seconds(), 10);
    simulation.pass(9);
    assert_eq!(simulation.settle(), Some(over));
    assert_eq!(simulation.line(), "Active S=2 | 1 on serving, 2 on serving");
    simulation.pass(1);
    simulation.writes.clear();
    assert_eq!(simulation.settle(), None);
    assert_eq!(simulation.line(), "Active S=2 | 1 off, 2 on serving");
    assert_eq!(simulation.writes, ["update 1", "report 1"]);
    assert!(
        !simulation
            .conditions_of(1)
            .iter()
            .any(|line| line.contains("Ready"))
    );
}

#[test]
fn a_second_switch_starts_the_drain_again() {
    let mut simulation = Simulation::active(1);
    simulation.update("2");
    simulation.settle();
    simulation.load(2);
    simulation.pass(6);
    simulation.update("3");
    simulation.settle();
    simulation.load(3);
    simulation.pass(6);
    simulation.settle();
    assert_eq!(
        simulation.line(),
        "Active S=3 | 1 on serving, 2 on serving, 3 on serving"
    );
    simulation.pass(4);
    simulation.settle();
    assert_eq!(simulation.line(), "Active S=3 | 1 off, 2 off, 3 on serving");
}

#[test]
fn the_oldest_revisions_go_and_those_that_never_served_first() {
    let mut simulation = Simulation::active(1);
    simulation.observed.settings.history_limit = 2;
    for generation in 2..=4 {
        simulation.update(&generation.to_string());
        simulation.settle();
        // Generation 3 never serves.
        if generation != 3 {
            simulation.load(generation);
            simulation.settle_for_good();
        }
    }
    assert_eq!(simulation.line(), "Active S=4 | 1 off, 2 off, 4 on serving");
    simulation.update("5");
    simulation.settle();
    simulation.load(5);
    simulation.settle_for_good();
    assert_eq!(simulation.line(), "Active S=5 | 2 off, 4 off, 5 on serving");
    let history: Vec<_> = simulation
        .status()
        .history
        .iter()
        .map(|entry| entry.generation)
        .collect();
    assert_eq!(history, [4, 2]);
}

#[test]
fn new_replicas_are_unknown_and_an_active_policy_stays_active() {
    let mut simulation = Simulation::active(1);
    simulation.pass(60);
    simulation.update("2");
    simulation.settle();
    simulation.pass(60);
    simulation.scale(3);
    simulation.settle();
    for generation in [1, 2] {
        let pending =
            [1, 2].map(|replica| format!("{generation} Ready[{replica}]=Unknown/ReplicaPending"));
        for line in pending {
            assert!(
                simulation.conditions_of(generation).contains(&line),
                "{line}"
            );
            assert!(simulation.conditions().contains(&line), "{line}");
        }
    }
    let mut active = Simulation::active(1);
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
fn a_replica_that_is_removed_no_longer_holds_back() {
    let mut simulation = Simulation::active(3);
    simulation.update("2");
    simulation.settle();
    simulation.initialize(2);
    simulation.ready(2, 0);
    simulation.ready(2, 1);
    simulation.fail_to_load(2, 2, "CacheError");
    simulation.settle();
    assert_eq!(simulation.phase(), Phase::Failed);
    simulation.scale(2);
    simulation.settle();
    assert_eq!(simulation.line(), "Active S=2 | 1 on serving, 2 on serving");
    assert!(
        !simulation
            .conditions_of(2)
            .iter()
            .any(|line| line.contains("[2]"))
    );
}

#[test]
fn a_pod_that_is_gone_counts_as_not_ready() {
    let mut simulation = Simulation::active(2);
    simulation.update("2");
    simulation.settle();
    simulation.initialize(2);
    simulation.settle();
    simulation.writes.clear();
    simulation.ready(2, 0);
    simulation.ready(2, 1);
    simulation.set_ready(1, false);
    simulation.settle();
    assert_eq!(simulation.line(), "Updating S=1 | 1 on serving, 2 on");
    assert!(
        simulation
            .conditions()
            .contains(&"2 Ready[1]=Unknown/ReplicaUnreachable".to_owned())
    );
    assert!(
        simulation
            .conditions_of(2)
            .contains(&"2 Ready[1]=True/PolicyReady".to_owned())
    );
    assert_eq!(simulation.writes, ["status"], "the revision is not written");
    simulation.fail_to_load(2, 1, "LoadError");
    simulation.settle();
    assert!(
        simulation
            .conditions()
            .contains(&"2 Ready[1]=False/LoadError".to_owned())
    );
    simulation.ready(2, 1);
    simulation.set_ready(1, true);
    simulation.settle();
    assert_eq!(simulation.phase(), Phase::Active);
}

#[test]
fn a_failure_that_passes() {
    let mut simulation = Simulation::new(1);
    simulation.settle();
    simulation.fail_to_initialize(1, "PullError");
    simulation.settle();
    assert_eq!(simulation.line(), "Failed S=- | 1 on");
    simulation.load(1);
    assert_eq!(simulation.line(), "Active S=1 | 1 on serving");
}

#[test]
fn an_edited_webhook_is_restored_for_the_serving_revision_with_its_own_fields() {
    let mut simulation = Simulation::active(2);
    simulation.edit(|spec| spec["failurePolicy"] = json!("Ignore"));
    simulation.settle();
    let before = simulation.observed.webhooks[0].clone();
    let edits: [fn(&mut serde_json::Value); 3] = [
        |hook| hook["failurePolicy"] = json!("Ignore"),
        |hook| hook["clientConfig"]["service"]["path"] = json!("/validate/clusterwide-pods/2"),
        |hook| hook["clientConfig"]["service"]["path"] = json!("/elsewhere"),
    ];
    for edit in edits {
        edit(&mut simulation.observed.webhooks[0].hooks[0]);
        simulation.settle();
        assert_eq!(simulation.observed.webhooks[0].hooks, before.hooks);
        assert_eq!(simulation.line(), "Updating S=1 | 1 on serving, 2 on");
    }
}

#[test]
fn a_webhook_that_was_deleted_comes_back_although_a_pod_is_down() {
    let mut simulation = Simulation::active(3);
    simulation.update("2");
    simulation.settle();
    simulation.set_ready(2, false);
    simulation.observed.webhooks.clear();
    simulation.settle();
    assert_eq!(simulation.line(), "Updating S=1 | 1 on serving, 2 on");

    // Not where a replica that takes requests lacks it, and not where none takes any.
    let mut lacking = Simulation::active(2);
    lacking.fail_to_load(1, 1, "LoadError");
    lacking.observed.webhooks.clear();
    lacking.settle();
    assert_eq!(lacking.webhook(), None);
    let mut down = Simulation::active(1);
    down.set_ready(0, false);
    down.observed.webhooks.clear();
    down.settle();
    assert_eq!(down.webhook(), None);
}

#[test]
fn the_policy_server_is_deleted() {
    let mut simulation = Simulation::active(2);
    simulation.update("2");
    simulation.settle();
    simulation.fail_to_initialize(2, "SettingsInvalid");
    simulation.settle();
    simulation.server().is_deleting = true;
    simulation.settle();
    assert_eq!(simulation.line(), "Pending S=- | 1 on serving, 2 on");
    assert_eq!(
        simulation.conditions(),
        ["2 Scheduled=False/PolicyServerNotFound"]
    );
    assert!(simulation.conditions_of(1).len() > 1, "the pods still run");
    simulation.observed.servers.clear();
    simulation.settle();
    for generation in [1, 2] {
        assert_eq!(
            simulation.conditions_of(generation),
            [format!("{generation} Scheduled=False/PolicyServerNotFound")]
        );
    }
    assert_eq!(
        simulation
            .revision(1)
            .status
            .as_ref()
            .unwrap()
            .modules
            .len(),
        1
    );
}

#[test]
fn the_policy_server_comes_back_while_the_current_generation_is_broken() {
    let mut simulation = Simulation::active(1);
    simulation.update("2");
    simulation.settle();
    simulation.observed.servers.clear();
    simulation.settle();
    assert_eq!(simulation.webhook(), None);
    simulation.add_server(1);
    simulation.settle();
    assert_eq!(simulation.webhook(), None, "nobody serves it yet");
    simulation.fail_to_initialize(2, "PullError");
    simulation.settle();
    assert_eq!(simulation.line(), "Failed S=- | 1 on serving, 2 on");
    simulation.load(1);
    assert_eq!(simulation.line(), "Failed S=1 | 1 on serving, 2 on");
}

#[test]
fn the_api_server_refuses_the_revision() {
    let mut simulation = Simulation::active(1);
    simulation.update("2");
    simulation.observed.refusal = Some(Refusal::Revision("quota exceeded".into()));
    simulation.settle();
    assert_eq!(simulation.line(), "Updating S=1 | 1 on serving");
    assert!(
        simulation
            .conditions()
            .contains(&"2 Scheduled=False/RevisionRejected".to_owned())
    );
    assert_eq!(simulation.status().observed_generation, Some(1));
    assert_eq!(simulation.events, ["RevisionRejected"]);
    simulation.observed.refusal = None;
    simulation.settle();
    simulation.load(2);
    assert_eq!(simulation.phase(), Phase::Active);
}

#[test]
fn a_changed_mutating_makes_the_new_configuration_before_the_old_one_goes() {
    let mut simulation = Simulation::active(1);
    simulation.edit(|spec| spec["mutating"] = json!(true));
    simulation.settle();
    simulation.load(2);
    let kinds = |simulation: &Simulation| -> Vec<_> {
        simulation
            .observed
            .webhooks
            .iter()
            .map(|one| (one.kind, one.generation()))
            .collect()
    };
    assert_eq!(
        kinds(&simulation),
        [
            (WebhookKind::Validating, Some(1)),
            (WebhookKind::Mutating, Some(2))
        ]
    );
    assert_eq!(simulation.status().serving_generation, Some(2));
    simulation.settle_for_good();
    assert_eq!(kinds(&simulation), [(WebhookKind::Mutating, Some(2))]);
    assert_eq!(simulation.line(), "Active S=2 | 1 off, 2 on serving");
}

#[test]
fn with_no_replicas_nothing_becomes_active_and_what_was_keeps_its_webhook() {
    let mut simulation = Simulation::active(1);
    simulation.scale(0);
    simulation.update("2");
    simulation.settle();
    simulation.initialize(2);
    simulation.settle();
    assert_eq!(simulation.line(), "Updating S=1 | 1 on serving, 2 on");
    simulation.scale(3);
    simulation.settle();
    simulation.load(2);
    assert_eq!(simulation.phase(), Phase::Active);
}

#[test]
fn a_policy_at_rest_is_not_written() {
    let mut simulation = Simulation::active(3);
    simulation.pass(3600);
    simulation.settle();
    assert_eq!(simulation.writes, [""; 0]);
}
