//! The designs' own examples of a status, in order, and table 19.10: where they contradict each other.

use super::World;

#[test]
fn the_status_examples_of_the_design_from_created_to_updated() {
    let scheduled = |generation| format!("{generation} Scheduled=True/PolicyScheduled");
    let initialized = |generation| format!("{generation} Initialized=True/PolicyInitialized");
    let ready = |generation, replica| format!("{generation} Ready[{replica}]=True/PolicyReady");
    let mut world = World::new(3);

    world.settle();
    // `Pending` is a phase, not a condition.
    assert_eq!(
        world.conditions(),
        ["1 Scheduled=False/WaitingForPolicyServer"]
    );
    world.take(1);
    world.settle();
    assert_eq!(world.conditions(), [scheduled(1)]);
    world.initialize(1);
    world.settle();
    assert_eq!(world.conditions(), [scheduled(1), initialized(1)]);
    world.ready(1, 0);
    world.settle();
    assert_eq!(
        world.conditions(),
        [scheduled(1), initialized(1), ready(1, 0)]
    );
    world.ready(1, 1);
    world.ready(1, 2);
    world.settle();
    let loaded = [
        scheduled(1),
        initialized(1),
        ready(1, 0),
        ready(1, 1),
        ready(1, 2),
    ];
    assert_eq!(world.conditions(), loaded);

    world.update("2");
    world.settle();
    let with = |more: &[String]| [&loaded, more].concat();
    assert_eq!(
        world.conditions(),
        with(&["2 Scheduled=False/WaitingForPolicyServer".to_owned()])
    );
    world.take(2);
    world.settle();
    // The diagram says generation 1 here; it is 2.
    assert_eq!(world.conditions(), with(&[scheduled(2)]));
    world.initialize(2);
    world.settle();
    assert_eq!(world.conditions(), with(&[scheduled(2), initialized(2)]));
    for replica in 0..3 {
        world.ready(2, replica);
    }
    world.settle();
    // The old conditions go with the switch, not with the disabling.
    assert_eq!(
        world.conditions(),
        [
            scheduled(2),
            initialized(2),
            ready(2, 0),
            ready(2, 1),
            ready(2, 2)
        ]
    );
}

#[test]
fn the_path_has_the_unique_name_and_a_revision_only_its_own_generation() {
    let mut world = World::active(1);
    world.update("2");
    world.settle();
    world.load(2);
    let hook = &world.observed.webhooks[0].hooks[0];
    assert_eq!(
        hook["clientConfig"]["service"]["path"],
        "/validate/clusterwide-pods/2"
    );
    for generation in [1, 2] {
        let own = format!("{generation} ");
        assert!(
            world
                .conditions_of(generation)
                .iter()
                .all(|line| line.starts_with(&own))
        );
    }
}
