//! The designs' own examples of a status, in order, and table 19.10: where they contradict each other.

use super::Simulation;

#[test]
fn the_status_examples_of_the_design_from_created_to_updated() {
    let scheduled = |generation| format!("{generation} Scheduled=True/PolicyScheduled");
    let initialized = |generation| format!("{generation} Initialized=True/PolicyInitialized");
    let ready = |generation, replica| format!("{generation} Ready[{replica}]=True/PolicyReady");
    let mut simulation = Simulation::new(3);

    simulation.settle();
    // `Pending` is a phase, not a condition.
    assert_eq!(
        simulation.conditions(),
        ["1 Scheduled=False/WaitingForPolicyServer"]
    );
    simulation.take(1);
    simulation.settle();
    assert_eq!(simulation.conditions(), [scheduled(1)]);
    simulation.initialize(1);
    simulation.settle();
    assert_eq!(simulation.conditions(), [scheduled(1), initialized(1)]);
    simulation.ready(1, 0);
    simulation.settle();
    assert_eq!(
        simulation.conditions(),
        [scheduled(1), initialized(1), ready(1, 0)]
    );
    simulation.ready(1, 1);
    simulation.ready(1, 2);
    simulation.settle();
    let loaded = [
        scheduled(1),
        initialized(1),
        ready(1, 0),
        ready(1, 1),
        ready(1, 2),
    ];
    assert_eq!(simulation.conditions(), loaded);

    simulation.update("2");
    simulation.settle();
    let with = |more: &[String]| [&loaded, more].concat();
    assert_eq!(
        simulation.conditions(),
        with(&["2 Scheduled=False/WaitingForPolicyServer".to_owned()])
    );
    simulation.take(2);
    simulation.settle();
    // The diagram says generation 1 here; it is 2.
    assert_eq!(simulation.conditions(), with(&[scheduled(2)]));
    simulation.initialize(2);
    simulation.settle();
    assert_eq!(
        simulation.conditions(),
        with(&[scheduled(2), initialized(2)])
    );
    for replica in 0..3 {
        simulation.ready(2, replica);
    }
    simulation.settle();
    // The old conditions go with the switch, not with the disabling.
    assert_eq!(
        simulation.conditions(),
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
    let mut simulation = Simulation::active(1);
    simulation.update("2");
    simulation.settle();
    simulation.load(2);
    let hook = &simulation.observed.webhooks[0].hooks[0];
    assert_eq!(
        hook["clientConfig"]["service"]["path"],
        "/validate/clusterwide-pods/2"
    );
    for generation in [1, 2] {
        let own = format!("{generation} ");
        assert!(
            simulation
                .conditions_of(generation)
                .iter()
                .all(|line| line.starts_with(&own))
        );
    }
}
