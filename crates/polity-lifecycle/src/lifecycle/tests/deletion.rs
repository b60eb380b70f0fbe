//! Row 23: a policy is deleted, at any moment of its life.

use super::World;

#[test]
fn the_webhook_goes_at_once_and_the_rest_after_the_drain_time() {
    let mut world = World::active(2);
    world.delete();
    let over = world.settle().unwrap();
    assert_eq!((over - world.now).get_seconds(), 10);
    assert_eq!(world.webhook(), None);
    assert_eq!(world.writes, ["no webhook", "status"]);
    world.settle_for_good();
    assert!(!world.exists);
    assert!(world.observed.revisions.is_empty());
}

#[test]
fn without_a_webhook_there_is_nothing_to_wait_for() {
    let mut pending = World::new(1);
    pending.settle();
    pending.delete();
    assert_eq!(pending.settle(), None);
    assert!(!pending.exists);

    let mut unseen = World::new(1);
    unseen.delete();
    assert_eq!(unseen.settle(), None);
    assert!(!unseen.exists && unseen.observed.revisions.is_empty());
}

#[test]
fn no_revision_appears_after_the_deletion_whatever_the_moment() {
    type Moment = (&'static str, fn(&mut World));
    let moments: [Moment; 6] = [
        ("pulling", |world| world.take(2)),
        ("loading", |world| world.initialize(2)),
        ("failed", |world| world.fail_to_initialize(2, "PullError")),
        ("switching", |world| {
            world.initialize(2);
            world.ready(2, 0);
        }),
        ("draining", |world| world.load(2)),
        ("without server", |world| {
            world.observed.servers.clear();
            world.settle();
        }),
    ];
    for (case, moment) in moments {
        let mut world = World::active(1);
        world.update("2");
        world.settle();
        moment(&mut world);
        world.delete();
        let created = world
            .writes
            .iter()
            .filter(|write| write.starts_with("create"))
            .count();
        world.settle_for_good();
        assert!(
            !world.exists && world.observed.revisions.is_empty(),
            "{case}"
        );
        let after = world
            .writes
            .iter()
            .filter(|write| write.starts_with("create"))
            .count();
        assert_eq!(created, after, "{case}");
    }
}

#[test]
fn a_controller_that_was_away_still_waits_for_the_drain() {
    let mut world = World::active(1);
    world.delete();
    // Nobody looked for an hour: the webhook is called until now.
    world.pass(3600);
    let over = world.settle().unwrap();
    assert_eq!((over - world.now).get_seconds(), 10);
}
