//! A policy returns to an earlier generation.

use polity_api::policies::names;
use polity_api::policies::v1::Phase;
use serde_json::json;

use super::Simulation;
use crate::lifecycle::{Plan, Write};

fn roll_back(simulation: &mut Simulation, to: &str) {
    simulation.annotate(names::ROLLBACK_TO_GENERATION, to);
    simulation.settle();
}

#[test]
fn a_rollback_is_a_new_generation_with_the_old_content() {
    let mut simulation = Simulation::active(1);
    let first = simulation.observed.policy.spec();
    simulation.update("2");
    simulation.settle();
    simulation.load(2);
    simulation.settle_for_good();
    simulation.events.clear();
    roll_back(&mut simulation, "1");
    let policy = &simulation.observed.policy;
    assert_eq!((policy.generation, policy.spec()), (3, first));
    assert_eq!(policy.annotation(names::ROLLBACK_TO_GENERATION), None);
    assert_eq!(policy.annotation(names::ROLLED_BACK), Some("3=1"));
    assert_eq!(simulation.events, ["PolicyRolledBack", "PolicyUpdating"]);
    let annotations = simulation.revision(3).metadata.annotations.clone().unwrap();
    assert_eq!(annotations[names::ROLLBACK_OF], "1");
    simulation.load(3);
    assert_eq!(simulation.phase(), Phase::Active);
}

#[test]
fn to_what_is_enforced_while_the_current_generation_is_broken() {
    let mut simulation = Simulation::active(1);
    simulation.update("2");
    simulation.settle();
    simulation.fail_to_initialize(2, "ModuleInvalid");
    simulation.settle();
    roll_back(&mut simulation, "1");
    assert_eq!(
        simulation.line(),
        "Updating S=1 | 1 on serving, 2 off, 3 on"
    );
    simulation.load(3);
    simulation.settle_for_good();
    assert_eq!(simulation.line(), "Active S=3 | 1 off, 2 off, 3 on serving");
}

#[test]
fn what_cannot_be_returned_to_changes_nothing() {
    for wanted in ["7", "x", "", "-1"] {
        let mut simulation = Simulation::active(1);
        let before = simulation.observed.policy.spec();
        roll_back(&mut simulation, wanted);
        assert_eq!(simulation.events, ["RollbackFailed"], "{wanted:?}");
        assert_eq!(simulation.observed.policy.spec(), before);
        assert_eq!(
            simulation
                .observed
                .policy
                .annotation(names::ROLLBACK_TO_GENERATION),
            None
        );
        assert_eq!(simulation.line(), "Active S=1 | 1 on serving");
    }
}

#[test]
fn a_refused_rollback_takes_only_the_request_away() {
    let mut simulation = Simulation::active(1);
    simulation.update("2");
    simulation.settle();
    simulation.annotate(names::ROLLBACK_TO_GENERATION, "1");
    let plan = Plan::of(&simulation.observed, simulation.now);
    let Write::RollBack { refused, .. } = plan.steps[0].write.clone() else {
        panic!("{plan:?}")
    };
    assert_eq!(
        refused.data["spec"],
        json!(simulation.observed.policy.spec())
    );
    simulation.carry_out(Write::UpdatePolicy(refused).into());
    assert_eq!(
        simulation
            .observed
            .policy
            .annotation(names::ROLLBACK_TO_GENERATION),
        None
    );
    assert_eq!(
        simulation.observed.policy.annotation(names::ROLLED_BACK),
        None
    );
}

#[test]
fn to_what_it_is_already_changes_nothing_and_says_so() {
    let mut simulation = Simulation::active(1);
    roll_back(&mut simulation, "1");
    assert_eq!(simulation.events, ["PolicyRolledBack"]);
    assert_eq!(simulation.observed.policy.generation, 1);
}

#[test]
fn somebody_who_puts_back_what_was_rolled_back_from_is_named_and_not_fought() {
    let mut simulation = Simulation::active(1);
    simulation.update("2");
    simulation.settle();
    simulation.load(2);
    roll_back(&mut simulation, "1");
    simulation.load(3);
    simulation.events.clear();
    simulation.update("2");
    simulation.settle();
    assert!(
        simulation.events.contains(&"RollbackReverted".to_owned()),
        "{:?}",
        simulation.events
    );
    simulation.load(4);
    simulation.settle_for_good();
    assert_eq!(simulation.observed.policy.generation, 4);
    simulation.events.clear();
    simulation.update("1");
    simulation.settle();
    assert_eq!(
        simulation.events,
        ["PolicyUpdating"],
        "only right after the rollback"
    );
}
