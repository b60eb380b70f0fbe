//! Sections 19.4 to 19.6: phase, legacy status and reasons, each from the same inputs.

use polity_api::policies::v1::{
    ConditionType, HistoryResult, InitializedReason, ObservedMode, Phase, PolicyState, ReadyReason,
};
use serde_json::json;

use super::Simulation;

/// The states a policy can be in, by how it got there.
fn states() -> Vec<(&'static str, Simulation)> {
    let active = Simulation::active(2);
    let mut pending = Simulation::new(2);
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
    for ((case, simulation), expected) in states().into_iter().zip(expected) {
        let status = simulation.status();
        let seen = (
            simulation.phase(),
            status.policy_status,
            &*simulation.legacy(ConditionType::PolicyActive),
            &*simulation.legacy(ConditionType::PolicyUniquelyReachable),
            &*simulation.legacy(ConditionType::PolicyServerConfigurationUpToDate),
            status.mode.unwrap(),
            status.serving_generation,
        );
        assert_eq!(seen, expected, "{case}");
    }
}

#[test]
fn the_legacy_conditions_stand_last_once_each_without_replica() {
    for (case, simulation) in states() {
        let conditions = &simulation.status().conditions;
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
        let generation = simulation.observed.policy.generation;
        for one in conditions.iter().rev().take(3) {
            assert_eq!((one.generation, one.replica), (Some(generation), None));
        }
    }
}

#[test]
fn section_19_6_a_policy_without_a_server_name_is_unscheduled() {
    let mut simulation = Simulation::new(1);
    simulation.edit(|spec| spec["policyServer"] = json!(""));
    simulation.settle();
    assert_eq!(simulation.status().policy_status, PolicyState::Unscheduled);
    assert_eq!(
        simulation.legacy(ConditionType::PolicyServerConfigurationUpToDate),
        "False/UnknownConfigurationVersion"
    );
}

#[test]
fn section_19_4_every_reason_of_a_failure_shows_and_passes() {
    let initialized = InitializedReason::ALL
        .iter()
        .filter(|one| **one != InitializedReason::PolicyInitialized);
    for reason in initialized {
        let mut simulation = Simulation::active(1);
        simulation.update("2");
        simulation.settle();
        simulation.fail_to_initialize(2, reason.as_str());
        simulation.settle();
        assert_eq!(
            simulation.line(),
            "Failed S=1 | 1 on serving, 2 on",
            "{reason}"
        );
        assert!(
            simulation
                .status()
                .message
                .as_ref()
                .unwrap()
                .contains(reason.as_str())
        );
        simulation.load(2);
        assert_eq!(simulation.phase(), Phase::Active);
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
        let mut simulation = Simulation::active(1);
        simulation.update("2");
        simulation.settle();
        simulation.initialize(2);
        simulation.fail_to_load(2, 0, reason.as_str());
        simulation.settle();
        assert_eq!(simulation.phase(), Phase::Failed, "{reason}");
        simulation.ready(2, 0);
        simulation.settle();
        assert_eq!(simulation.phase(), Phase::Active);
    }
}

#[test]
fn history_tells_what_became_of_each_generation() {
    let mut simulation = Simulation::active(1);
    simulation.update("2");
    simulation.settle();
    simulation.fail_to_initialize(2, "PullError");
    simulation.settle();
    simulation.update("3");
    simulation.settle();
    simulation.update("4");
    simulation.settle();
    simulation.load(4);
    let history = |simulation: &Simulation| -> Vec<_> {
        let entries = simulation.status().history.iter();
        entries
            .map(|entry| (entry.generation, entry.result))
            .collect()
    };
    let expected = [
        (3, HistoryResult::Superseded),
        (2, HistoryResult::Failed),
        (1, HistoryResult::Active),
    ];
    assert_eq!(history(&simulation), expected);
    simulation.settle_for_good();
    simulation.update("5");
    simulation.settle();
    assert_eq!(
        history(&simulation),
        [&[(4, HistoryResult::Active)], &expected[..]].concat()
    );
    assert_eq!(
        simulation.status().history[1].module.as_deref(),
        Some("registry.example/policy:3")
    );
}

#[test]
fn nothing_new_is_served_by_a_server_that_asks_for_signatures() {
    let mut simulation = Simulation::active(1);
    simulation.server().asks_for_signatures = true;
    simulation.update("2");
    simulation.settle();
    simulation.load(2);
    assert_eq!(simulation.line(), "Updating S=1 | 1 on serving, 2 on");
    let message = simulation.status().message.clone().unwrap_or_default();
    assert!(message.contains("asks for signatures"), "{message}");
    simulation.server().asks_for_signatures = false;
    simulation.settle();
    assert!(
        simulation.line().starts_with("Active S=2"),
        "{}",
        simulation.line()
    );
}
