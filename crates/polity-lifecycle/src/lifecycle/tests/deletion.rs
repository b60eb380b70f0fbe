//! A policy is deleted, at any moment of its life.

use super::Simulation;

#[test]
fn the_webhook_goes_at_once_and_the_rest_after_the_drain_time() {
    let mut simulation = Simulation::active(2);
    simulation.delete();
    let over = simulation.settle().unwrap();
    assert_eq!((over - simulation.now).get_seconds(), 10);
    assert_eq!(simulation.webhook(), None);
    assert_eq!(simulation.writes, ["no webhook", "status"]);
    simulation.settle_for_good();
    assert!(!simulation.exists);
    assert!(simulation.observed.revisions.is_empty());
}

#[test]
fn without_a_webhook_there_is_nothing_to_wait_for() {
    let mut pending = Simulation::new(1);
    pending.settle();
    pending.delete();
    assert_eq!(pending.settle(), None);
    assert!(!pending.exists);

    let mut unseen = Simulation::new(1);
    unseen.delete();
    assert_eq!(unseen.settle(), None);
    assert!(!unseen.exists && unseen.observed.revisions.is_empty());
}

#[test]
fn no_revision_appears_after_the_deletion_whatever_the_moment() {
    type Moment = (&'static str, fn(&mut Simulation));
    let moments: [Moment; 6] = [
        ("pulling", |simulation| simulation.take(2)),
        ("loading", |simulation| simulation.initialize(2)),
        ("failed", |simulation| {
            simulation.fail_to_initialize(2, "PullError");
        }),
        ("switching", |simulation| {
            simulation.initialize(2);
            simulation.ready(2, 0);
        }),
        ("draining", |simulation| simulation.load(2)),
        ("without server", |simulation| {
            simulation.observed.servers.clear();
            simulation.settle();
        }),
    ];
    for (case, moment) in moments {
        let mut simulation = Simulation::active(1);
        simulation.update("2");
        simulation.settle();
        moment(&mut simulation);
        simulation.delete();
        let created = simulation
            .writes
            .iter()
            .filter(|write| write.starts_with("create"))
            .count();
        simulation.settle_for_good();
        assert!(
            !simulation.exists && simulation.observed.revisions.is_empty(),
            "{case}"
        );
        let after = simulation
            .writes
            .iter()
            .filter(|write| write.starts_with("create"))
            .count();
        assert_eq!(created, after, "{case}");
    }
}

#[test]
fn a_controller_that_was_away_still_waits_for_the_drain() {
    let mut simulation = Simulation::active(1);
    simulation.delete();
    // Nobody looked for an hour: the webhook is called until now.
    simulation.pass(3600);
    let over = simulation.settle().unwrap();
    assert_eq!((over - simulation.now).get_seconds(), 10);
}
