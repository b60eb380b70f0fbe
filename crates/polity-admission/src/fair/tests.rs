//! Turns, bounds and the last place, as tables; and what holds whatever happens.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const QUICK: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(2);

/// A queue that knows these policies to be quick.
fn queue(places: usize, quick: &[&str]) -> FairQueue<&'static str> {
    let mut queue = FairQueue::new(FairLimits {
        places,
        waiting: 100,
        waiting_per_policy: 10,
        slow_after: Duration::from_millis(100),
    });
    for policy in quick {
        assert_eq!(enter(&mut queue, policy, "once"), Entered::Now(Pace::Slow));
        leave(&mut queue, policy, Pace::Slow, QUICK);
    }
    queue
}

fn enter(queue: &mut FairQueue<&'static str>, policy: &str, name: &'static str) -> Entered {
    queue.enter(&policy.into(), || name)
}

/// Who starts when an evaluation of `policy` ends.
fn leave(
    queue: &mut FairQueue<&'static str>,
    policy: &str,
    pace: Pace,
    took: Duration,
) -> Vec<&'static str> {
    let admitted = queue.leave(&policy.into(), pace, took);
    admitted.into_iter().map(|next| next.waiter).collect()
}

/// Fills the queue with waiters named like `a1`, and answers in which order they start.
fn order(waiters: &[&'static str]) -> Vec<&'static str> {
    let mut queue = queue(1, &["first"]);
    assert_eq!(
        enter(&mut queue, "first", "first"),
        Entered::Now(Pace::Quick)
    );
    for waiter in waiters {
        let entered = enter(&mut queue, &waiter[..1], waiter);
        assert!(matches!(entered, Entered::Wait(_)), "{entered:?}");
    }
    let (mut policy, mut started) = ("first", Vec::new());
    let mut pace = Pace::Quick;
    while let [next] = &queue.leave(&policy.into(), pace, QUICK)[..] {
        started.push(next.waiter);
        (policy, pace) = (&next.waiter[..1], next.pace);
    }
    started
}

#[test]
fn policies_take_turns() {
    for (waiters, expected) in [
        (&["a1", "a2", "a3"][..], &["a1", "a2", "a3"][..]),
        (&["a1", "a2", "b1"], &["a1", "b1", "a2"]),
        (
            &["a1", "a2", "a3", "a4", "b1", "c1", "b2"],
            &["a1", "b1", "c1", "a2", "b2", "a3", "a4"],
        ),
    ] {
        assert_eq!(order(waiters), expected, "{waiters:?}");
    }
}

#[test]
fn a_lane_and_the_whole_are_bounded() {
    let mut queue = FairQueue::new(FairLimits {
        places: 1,
        waiting: 3,
        waiting_per_policy: 2,
        slow_after: LONG,
    });
    assert_eq!(enter(&mut queue, "a", "a0"), Entered::Now(Pace::Slow));
    for (policy, expected) in [
        ("a", None),
        ("a", None),
        ("a", Some(Full::Policy)),
        ("b", None),
        ("b", Some(Full::Everyone)),
        ("c", Some(Full::Everyone)),
    ] {
        match (enter(&mut queue, policy, "x"), expected) {
            (Entered::Wait(_), None) => {}
            (Entered::Refused(full), Some(expected)) => assert_eq!(full, expected),
            (entered, _) => panic!("{policy}: {entered:?}"),
        }
    }
}

#[test]
fn a_noisy_policy_leaves_the_last_place_to_others() {
    let mut queue = queue(2, &["noisy", "other"]);
    // It was quick, so it gets both places; then it holds them for long.
    assert_eq!(enter(&mut queue, "noisy", "n1"), Entered::Now(Pace::Quick));
    assert_eq!(enter(&mut queue, "noisy", "n2"), Entered::Now(Pace::Quick));
    assert!(matches!(enter(&mut queue, "noisy", "n3"), Entered::Wait(_)));
    assert!(matches!(enter(&mut queue, "noisy", "n4"), Entered::Wait(_)));
    assert_eq!(leave(&mut queue, "noisy", Pace::Quick, LONG), ["n3"]);
    // From now on it holds one place at most.
    assert_eq!(leave(&mut queue, "noisy", Pace::Quick, LONG), [""; 0]);
    assert_eq!(enter(&mut queue, "other", "o1"), Entered::Now(Pace::Quick));
    assert_eq!(leave(&mut queue, "other", Pace::Quick, QUICK), [""; 0]);
    // Once it is quick again it may have all.
    assert_eq!(leave(&mut queue, "noisy", Pace::Slow, QUICK), ["n4"]);
    assert_eq!(enter(&mut queue, "noisy", "n5"), Entered::Now(Pace::Quick));
}

#[test]
fn a_policy_that_turns_slow_on_every_place_leaves_one_to_others() {
    let mut queue = queue(2, &["noisy", "other"]);
    assert_eq!(enter(&mut queue, "noisy", "n1"), Entered::Now(Pace::Quick));
    assert_eq!(enter(&mut queue, "noisy", "n2"), Entered::Now(Pace::Quick));
    for (policy, name) in [("noisy", "n3"), ("other", "o1"), ("other", "o2")] {
        assert!(matches!(enter(&mut queue, policy, name), Entered::Wait(_)));
    }
    let overrun = |queue: &mut FairQueue<_>, policy: &str| -> Vec<&str> {
        let admitted = queue.overrun(&policy.into());
        admitted.into_iter().map(|next| next.waiter).collect()
    };
    // The first place that it holds for too long is not given to another one: a quick policy holds the second.
    assert_eq!(overrun(&mut queue, "noisy"), [""; 0]);
    // Now no place is left for quick policies, so that they get an extra one, and one after the other.
    assert_eq!(overrun(&mut queue, "noisy"), ["o1"]);
    assert_eq!(leave(&mut queue, "other", Pace::Quick, QUICK), ["o2"]);
    assert_eq!(leave(&mut queue, "other", Pace::Quick, QUICK), [""; 0]);
    // The noisy policy is slow from now on, and waits until it holds no place.
    assert_eq!(leave(&mut queue, "noisy", Pace::Overrun, LONG), [""; 0]);
    assert_eq!(leave(&mut queue, "noisy", Pace::Overrun, LONG), ["n3"]);
}

#[test]
fn policies_that_overrun_one_after_the_other_are_bounded() {
    let names = ["a", "b", "c", "d", "e"];
    let mut queue = queue(2, &names);
    let mut n_started = 0;
    for name in names {
        if enter(&mut queue, name, "x") == Entered::Now(Pace::Quick) {
            n_started += 1;
            queue.overrun(&name.into());
        }
    }
    assert_eq!((n_started, queue.running()), (4, 4));
}

#[test]
fn a_stranger_leaves_the_last_place_to_others() {
    let mut queue = queue(2, &["known"]);
    assert_eq!(enter(&mut queue, "new", "n1"), Entered::Now(Pace::Slow));
    assert!(matches!(enter(&mut queue, "new", "n2"), Entered::Wait(_)));
    assert!(matches!(enter(&mut queue, "newer", "m1"), Entered::Wait(_)));
    assert_eq!(enter(&mut queue, "known", "k1"), Entered::Now(Pace::Quick));
    assert_eq!(leave(&mut queue, "known", Pace::Quick, QUICK), [""; 0]);
    // As soon as it has shown to be quick it is one like the others.
    assert_eq!(leave(&mut queue, "new", Pace::Slow, QUICK), ["n2", "m1"]);
}

#[test]
fn slow_policies_share_what_is_not_the_last_place() {
    let mut queue = queue(3, &["d"]);
    assert_eq!(enter(&mut queue, "a", "a"), Entered::Now(Pace::Slow));
    assert_eq!(enter(&mut queue, "b", "b"), Entered::Now(Pace::Slow));
    assert!(matches!(enter(&mut queue, "c", "c"), Entered::Wait(_)));
    assert_eq!(enter(&mut queue, "d", "d"), Entered::Now(Pace::Quick));
    assert_eq!(leave(&mut queue, "d", Pace::Quick, QUICK), [""; 0]);
    assert_eq!(leave(&mut queue, "a", Pace::Slow, LONG), ["c"]);
}

#[test]
fn a_single_place_is_for_everybody() {
    let mut queue = queue(1, &["quick"]);
    assert_eq!(enter(&mut queue, "slow", "s"), Entered::Now(Pace::Slow));
    leave(&mut queue, "slow", Pace::Slow, LONG);
    assert_eq!(enter(&mut queue, "quick", "q"), Entered::Now(Pace::Quick));
}

#[test]
fn who_gives_up_makes_room() {
    let mut queue = queue(1, &["a"]);
    enter(&mut queue, "a", "a0");
    let Entered::Wait(first) = enter(&mut queue, "a", "a1") else {
        panic!("there is one place");
    };
    enter(&mut queue, "a", "a2");
    assert_eq!(queue.give_up(&"a".into(), first), Some("a1"));
    assert_eq!(queue.give_up(&"a".into(), first), None);
    assert_eq!(queue.waiting(), 1);
    assert_eq!(leave(&mut queue, "a", Pace::Quick, QUICK), ["a2"]);
    assert_eq!(queue.give_up(&"a".into(), first), None);
}

#[test]
fn policies_that_are_gone_are_forgotten_in_the_end() {
    let mut queue = queue(1, &[]);
    for n in 0..3 * REMEMBERED {
        let policy = format!("p{n}");
        assert_eq!(enter(&mut queue, &policy, "x"), Entered::Now(Pace::Slow));
        leave(&mut queue, &policy, Pace::Slow, QUICK);
        assert!(queue.lanes.len() <= REMEMBERED && queue.turns.is_empty());
    }
}

#[derive(Debug, Clone)]
enum Step {
    Enter(usize),
    /// The n-th of those that run ends, quickly or not.
    Leave(usize, bool),
    /// The n-th of those that wait gives up.
    GiveUp(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_usize).prop_map(Step::Enter),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(n, slow)| Step::Leave(n, slow)),
        1 => any::<usize>().prop_map(Step::GiveUp),
    ]
}

proptest! {
    /// Nobody is lost or doubled, bounds hold, lanes are first come first served, and no place stays
    /// free for somebody who may have it.
    #[test]
    fn whatever_happens(places in 1..4_usize, steps in prop::collection::vec(step(), 0..200)) {
        let limits = FairLimits { places, waiting: 8, waiting_per_policy: 4, slow_after: Duration::from_millis(100) };
        let mut queue = FairQueue::new(limits);
        let policies: Vec<Arc<str>> = (0..4).map(|n| format!("p{n}").into()).collect();
        let mut running: Vec<(usize, Pace)> = Vec::new();
        let mut waiting: BTreeMap<u64, (usize, Ticket)> = BTreeMap::new();
        let mut n = 0_u64;
        for step in steps {
            match step {
                Step::Enter(policy) => {
                    n += 1;
                    match queue.enter(&policies[policy], || n) {
                        Entered::Now(pace) => {
                            prop_assert!(!waiting.values().any(|(other, _)| *other == policy), "nobody is overtaken");
                            running.push((policy, pace));
                        }
                        Entered::Wait(ticket) => {
                            waiting.insert(n, (policy, ticket));
                        }
                        Entered::Refused(Full::Everyone) => prop_assert_eq!(waiting.len(), limits.waiting),
                        Entered::Refused(Full::Policy) => {
                            let lane = waiting.values().filter(|(other, _)| *other == policy).count();
                            prop_assert_eq!(lane, limits.waiting_per_policy);
                        }
                    }
                }
                Step::Leave(at, slow) if !running.is_empty() => {
                    let (policy, pace) = running.remove(at % running.len());
                    let took = if slow { LONG } else { QUICK };
                    for next in queue.leave(&policies[policy], pace, took) {
                        let (policy, _) = waiting.remove(&next.waiter).expect("they waited");
                        prop_assert!(
                            !waiting.iter().any(|(n, (other, _))| *other == policy && *n < next.waiter),
                            "first come first served"
                        );
                        prop_assert_eq!(&next.policy, &policies[policy]);
                        running.push((policy, next.pace));
                    }
                }
                Step::GiveUp(at) if !waiting.is_empty() => {
                    let key = *waiting.keys().nth(at % waiting.len()).expect("there are that many");
                    let (policy, ticket) = waiting.remove(&key).expect("it is there");
                    prop_assert_eq!(queue.give_up(&policies[policy], ticket), Some(key));
                }
                Step::Leave(..) | Step::GiveUp(_) => {}
            }
            prop_assert_eq!(queue.running(), running.len());
            prop_assert_eq!(queue.waiting(), waiting.len());
            prop_assert!(running.len() <= places);
            let slow = running.iter().filter(|(_, pace)| *pace == Pace::Slow).count();
            prop_assert!(slow <= (places - 1).max(1));
            if running.len() < places {
                for (policy, _) in waiting.values() {
                    prop_assert_eq!(queue.lanes[&policies[*policy]].pace, Pace::Slow, "a place is free for no reason");
                }
            }
        }
    }
}
