//! Section 19.8: returning to an earlier generation.

use polity_api::policies::names;
use polity_api::policies::v1::Phase;
use serde_json::json;

use super::World;
use crate::lifecycle::{Plan, Write};

fn roll_back(world: &mut World, to: &str) {
    world.annotate(names::ROLLBACK_TO_GENERATION, to);
    world.settle();
}

#[test]
fn a_rollback_is_a_new_generation_with_the_old_content() {
    let mut world = World::active(1);
    let first = world.observed.policy.spec();
    world.update("2");
    world.settle();
    world.load(2);
    world.settle_for_good();
    world.events.clear();
    roll_back(&mut world, "1");
    let policy = &world.observed.policy;
    assert_eq!((policy.generation, policy.spec()), (3, first));
    assert_eq!(policy.annotation(names::ROLLBACK_TO_GENERATION), None);
    assert_eq!(policy.annotation(names::ROLLED_BACK), Some("3=1"));
    assert_eq!(world.events, ["PolicyRolledBack", "PolicyUpdating"]);
    let annotations = world.revision(3).metadata.annotations.clone().unwrap();
    assert_eq!(annotations[names::ROLLBACK_OF], "1");
    world.load(3);
    assert_eq!(world.phase(), Phase::Active);
}

#[test]
fn to_what_is_enforced_while_the_current_generation_is_broken() {
    let mut world = World::active(1);
    world.update("2");
    world.settle();
    world.fail_to_initialize(2, "ModuleInvalid");
    world.settle();
    roll_back(&mut world, "1");
    assert_eq!(world.line(), "Updating S=1 | 1 on serving, 2 off, 3 on");
    world.load(3);
    world.settle_for_good();
    assert_eq!(world.line(), "Active S=3 | 1 off, 2 off, 3 on serving");
}

#[test]
fn what_cannot_be_returned_to_changes_nothing() {
    for wanted in ["7", "x", "", "-1"] {
        let mut world = World::active(1);
        let before = world.observed.policy.spec();
        roll_back(&mut world, wanted);
        assert_eq!(world.events, ["RollbackFailed"], "{wanted:?}");
        assert_eq!(world.observed.policy.spec(), before);
        assert_eq!(
            world
                .observed
                .policy
                .annotation(names::ROLLBACK_TO_GENERATION),
            None
        );
        assert_eq!(world.line(), "Active S=1 | 1 on serving");
    }
}

#[test]
fn a_refused_rollback_takes_only_the_request_away() {
    let mut world = World::active(1);
    world.update("2");
    world.settle();
    world.annotate(names::ROLLBACK_TO_GENERATION, "1");
    let plan = Plan::of(&world.observed, world.now);
    let Write::RollBack { refused, .. } = plan.steps[0].write.clone() else {
        panic!("{plan:?}")
    };
    assert_eq!(refused.data["spec"], json!(world.observed.policy.spec()));
    world.carry_out(Write::UpdatePolicy(refused).into());
    assert_eq!(
        world
            .observed
            .policy
            .annotation(names::ROLLBACK_TO_GENERATION),
        None
    );
    assert_eq!(world.observed.policy.annotation(names::ROLLED_BACK), None);
}

#[test]
fn to_what_it_is_already_changes_nothing_and_says_so() {
    let mut world = World::active(1);
    roll_back(&mut world, "1");
    assert_eq!(world.events, ["PolicyRolledBack"]);
    assert_eq!(world.observed.policy.generation, 1);
}

#[test]
fn somebody_who_puts_back_what_was_rolled_back_from_is_named_and_not_fought() {
    let mut world = World::active(1);
    world.update("2");
    world.settle();
    world.load(2);
    roll_back(&mut world, "1");
    world.load(3);
    world.events.clear();
    world.update("2");
    world.settle();
    assert!(
        world.events.contains(&"RollbackReverted".to_owned()),
        "{:?}",
        world.events
    );
    world.load(4);
    world.settle_for_good();
    assert_eq!(world.observed.policy.generation, 4);
    world.events.clear();
    world.update("1");
    world.settle();
    assert_eq!(
        world.events,
        ["PolicyUpdating"],
        "only right after the rollback"
    );
}
