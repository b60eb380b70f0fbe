//! Sections 19.4 to 19.6: phase, legacy status and reasons, each from the same inputs.

use polity_api::policies::v1::{
    ConditionType, HistoryResult, InitializedReason, ObservedMode, Phase, PolicyState, ReadyReason,
};
use serde_json::json;

use super::World;

/// The states a policy can be in, by how it got there.
fn states() -> Vec<(&'static str, World)> {
    let active = World::active(2);
    let mut pending = World::new(2);
    pending.settle();
    let mut updating = active.clone();
    updating.update("2");
    updating.settle();
    let mut failed = pending.clone();
    failed.fail_to_initialize(1, "ModuleInvalid");
    failed.settle();
    let mut failed_update = updating.clone();
    failed_update.initialize(2);
    failed_update.fail_to_load(2, 0, "LoadError");
    failed_update.settle();
    let mut unserved = active.clone();
    unserved.observed.servers.clear();
    unserved.settle();
    let mut unreachable = active.clone();
    unreachable.set_ready(0, false);
    unreachable.settle();
    vec![
        ("pending", pending),
        ("active", active),
        ("updating", updating),
        ("failed", failed),
        ("failed update", failed_update),
        ("no server", unserved),
        ("a replica is down", unreachable),
    ]
}

#[test]
fn section_19_5_phase_and_19_6_legacy_status() {
    const YES: &str = "True/LatestReplicaSetIsUniquelyReachable";
    const NO: &str = "False/LatestReplicaSetIsNotUniquelyReachable";
    const MATCH: &str = "True/ConfigurationVersionMatch";
    const MISMATCH: &str = "False/ConfigurationVersionMismatch";
    use {ObservedMode as M, Phase as P, PolicyState as S};
    let expected = [
        (
            P::Pending,
            S::Pending,
            "False/PolicyActive",
            NO,
            MISMATCH,
            M::Unknown,
            None,
        ),
        (
            P::Active,
            S::Active,
            "True/PolicyActive",
            YES,
            MATCH,
            M::Protect,
            Some(1),
        ),
        (
            P::Updating,
            S::Active,
            "True/PolicyActive",
            NO,
            MISMATCH,
            M::Protect,
            Some(1),
        ),
        (
            P::Failed,
            S::Pending,
            "False/PolicyActive",
            NO,
            MISMATCH,
            M::Unknown,
            None,
        ),
        (
            P::Failed,
            S::Active,
            "True/PolicyActive",
            NO,
            MISMATCH,
            M::Protect,
            Some(1),
        ),
        (
            P::Pending,
            S::Scheduled,
            "False/PolicyActive",
            NO,
            MISMATCH,
            M::Unknown,
            None,
        ),
        (
            P::Active,
            S::Active,
            "True/PolicyActive",
            NO,
            MATCH,
            M::Protect,
            Some(1),
        ),
    ];
    for ((case, world), expected) in states().into_iter().zip(expected) {
        let status = world.status();
        let seen = (
            world.phase(),
            status.policy_status,
            &*world.legacy(ConditionType::PolicyActive),
            &*world.legacy(ConditionType::PolicyUniquelyReachable),
            &*world.legacy(ConditionType::PolicyServerConfigurationUpToDate),
            status.mode.unwrap(),
            status.serving_generation,
        );
        assert_eq!(seen, expected, "{case}");
    }
}

#[test]
fn the_legacy_conditions_stand_last_once_each_without_replica() {
    for (case, world) in states() {
        let conditions = &world.status().conditions;
        let last: Vec<_> = conditions
            .iter()
            .rev()
            .take(3)
            .map(|one| one.type_.as_str())
            .collect();
        assert_eq!(
            last,
            [
                "PolicyServerConfigurationUpToDate",
                "PolicyUniquelyReachable",
                "PolicyActive"
            ],
            "{case}"
        );
        let generation = world.observed.policy.generation;
        for one in conditions.iter().rev().take(3) {
            assert_eq!((one.generation, one.replica), (Some(generation), None));
        }
    }
}

#[test]
fn section_19_6_a_policy_without_a_server_name_is_unscheduled() {
    let mut world = World::new(1);
    world.edit(|spec| spec["policyServer"] = json!(""));
    world.settle();
    assert_eq!(world.status().policy_status, PolicyState::Unscheduled);
    assert_eq!(
        world.legacy(ConditionType::PolicyServerConfigurationUpToDate),
        "False/UnknownConfigurationVersion"
    );
}

#[test]
fn section_19_4_every_reason_of_a_failure_shows_and_passes() {
    let initialized = InitializedReason::ALL
        .iter()
        .filter(|one| **one != InitializedReason::PolicyInitialized);
    for reason in initialized {
        let mut world = World::active(1);
        world.update("2");
        world.settle();
        world.fail_to_initialize(2, reason.as_str());
        world.settle();
        assert_eq!(world.line(), "Failed S=1 | 1 on serving, 2 on", "{reason}");
        assert!(
            world
                .status()
                .message
                .as_ref()
                .unwrap()
                .contains(reason.as_str())
        );
        world.load(2);
        assert_eq!(world.phase(), Phase::Active);
    }
    use ReadyReason::{
        CacheError, LoadError, ModuleInvalid, PullError, SignatureInvalid, VerificationError,
    };
    for reason in [
        SignatureInvalid,
        CacheError,
        ModuleInvalid,
        LoadError,
        PullError,
        VerificationError,
    ] {
        let mut world = World::active(1);
        world.update("2");
        world.settle();
        world.initialize(2);
        world.fail_to_load(2, 0, reason.as_str());
        world.settle();
        assert_eq!(world.phase(), Phase::Failed, "{reason}");
        world.ready(2, 0);
        world.settle();
        assert_eq!(world.phase(), Phase::Active);
    }
}

#[test]
fn history_tells_what_became_of_each_generation() {
    let mut world = World::active(1);
    world.update("2");
    world.settle();
    world.fail_to_initialize(2, "PullError");
    world.settle();
    world.update("3");
    world.settle();
    world.update("4");
    world.settle();
    world.load(4);
    let history = |world: &World| -> Vec<_> {
        let entries = world.status().history.iter();
        entries
            .map(|entry| (entry.generation, entry.result))
            .collect()
    };
    let expected = [
        (3, HistoryResult::Superseded),
        (2, HistoryResult::Failed),
        (1, HistoryResult::Active),
    ];
    assert_eq!(history(&world), expected);
    world.settle_for_good();
    world.update("5");
    world.settle();
    assert_eq!(
        history(&world),
        [&[(4, HistoryResult::Active)], &expected[..]].concat()
    );
    assert_eq!(
        world.status().history[1].module.as_deref(),
        Some("registry.example/policy:3")
    );
}

#[test]
fn nothing_new_is_served_by_a_server_that_asks_for_signatures() {
    let mut world = World::active(1);
    world.server().asks_for_signatures = true;
    world.update("2");
    world.settle();
    world.load(2);
    assert_eq!(world.line(), "Updating S=1 | 1 on serving, 2 on");
    let message = world.status().message.clone().unwrap_or_default();
    assert!(message.contains("asks for signatures"), "{message}");
    world.server().asks_for_signatures = false;
    world.settle();
    assert!(world.line().starts_with("Active S=2"), "{}", world.line());
}
