//! What the queue hands out, and when.

use proptest::prelude::*;

use super::*;

fn queue() -> (Clock, Queue<&'static str>) {
    let clock = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
    let queue = Queue::new(clock.clone(), FailureBackoff::default());
    (clock, queue)
}

#[tokio::test]
async fn each_key_waits_once_and_runs_once_at_a_time() {
    let (_, queue) = queue();
    queue.add("a");
    queue.add("a");
    assert_eq!(queue.next().await, "a");
    queue.add("a");
    queue.add("b");
    assert_eq!(queue.next().await, "b", "a is being reconciled");
    assert_eq!(queue.take(), Err(None));
    queue.finish(&"a", Requeue::Never);
    assert_eq!(queue.next().await, "a");
}

#[tokio::test]
async fn a_key_is_due_no_sooner_than_asked_and_the_soonest_time_counts() {
    let (clock, queue) = queue();
    queue.add_after("late", Duration::from_mins(1));
    queue.add_after("late", Duration::from_mins(2));
    queue.add_after("later", Duration::from_mins(3));
    let (key, ()) = tokio::join!(queue.next(), async {
        clock.wait_for_sleepers(1).await;
        clock.advance(Duration::from_mins(1));
    });
    assert_eq!(key, "late");
    queue.add("later");
    assert_eq!(queue.next().await, "later");
    assert_eq!(queue.n_waiting(), 0);
}

#[tokio::test]
async fn keys_of_the_same_time_come_in_the_order_of_their_arrival() {
    let (_, queue) = queue();
    for key in ["c", "a", "b", "a"] {
        queue.add(key);
    }
    for expected in ["c", "a", "b"] {
        assert_eq!(queue.next().await, expected);
    }
}

#[tokio::test]
async fn failures_of_one_key_back_off_and_a_success_forgets_them() {
    let (clock, queue) = queue();
    for n_failures in 1..=8 {
        queue.add("bad");
        assert_eq!(queue.next().await, "bad");
        assert_eq!(queue.finish(&"bad", Requeue::WithBackoff), n_failures);
        queue.add("good");
        assert_eq!(queue.next().await, "good", "other keys are not delayed");
        queue.finish(&"good", Requeue::Never);
    }
    let max = FailureBackoff::default().max;
    let soonest = queue.take().unwrap_err().unwrap();
    assert!(soonest > clock.moment() + max / 4 && soonest <= clock.moment() + max);
    clock.advance(max);
    assert_eq!(queue.next().await, "bad");
    assert_eq!(queue.finish(&"bad", Requeue::Never), 0);
    assert!(queue.state().entries.is_empty(), "nothing is kept");
}

#[tokio::test]
async fn a_change_during_a_reconcile_comes_before_its_requeue() {
    let (_, queue) = queue();
    queue.add("a");
    assert_eq!(queue.next().await, "a");
    queue.add("a");
    queue.finish(&"a", Requeue::Slowly);
    assert_eq!(queue.next().await, "a");
    queue.finish(&"a", Requeue::Slowly);
    assert_eq!(queue.n_waiting(), 1);
    assert!(matches!(queue.take(), Err(Some(_))));
}

/// A worker that takes a key wakes another one: otherwise nobody would wait for the delayed key.
#[tokio::test]
async fn a_delayed_key_is_not_forgotten_while_the_worker_that_waited_for_it_is_busy() {
    let (clock, queue) = queue();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let queue = queue.clone();
        workers.spawn(async move { queue.next().await });
    }
    queue.add_after("late", Duration::from_mins(1));
    clock.wait_for_sleepers(1).await;
    queue.add("now");
    assert_eq!(workers.join_next().await.unwrap().unwrap(), "now");
    clock.wait_for_sleepers(1).await;
    clock.advance(Duration::from_mins(1));
    assert_eq!(workers.join_next().await.unwrap().unwrap(), "late");
}

proptest! {
    /// Whatever happens, a key that was added is handed out after it, and never to two workers.
    #[test]
    fn no_key_is_lost_or_doubled(steps in proptest::collection::vec((0u8..4, 0u8..5, 0u64..90), 1..80)) {
        let clock = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
        let queue = Queue::new(clock.clone(), FailureBackoff::default());
        let (mut running, mut wanted) = (Vec::new(), std::collections::BTreeSet::new());
        for (action, key, seconds) in steps {
            match action {
                0 => {
                    queue.add_after(key, Duration::from_secs(seconds));
                    wanted.insert(key);
                }
                1 => clock.advance(Duration::from_secs(seconds)),
                2 => {
                    if let Ok(key) = queue.take() {
                        prop_assert!(!running.contains(&key));
                        wanted.remove(&key);
                        running.push(key);
                    }
                }
                _ => {
                    if let Some(key) = running.pop() {
                        queue.finish(&key, Requeue::Never);
                    }
                }
            }
        }
        while let Some(key) = running.pop() {
            queue.finish(&key, Requeue::Never);
        }
        clock.advance(Duration::from_mins(2));
        while let Ok(key) = queue.take() {
            prop_assert!(wanted.remove(&key), "{key} was not wanted");
            queue.finish(&key, Requeue::Never);
        }
        prop_assert!(wanted.is_empty());
        prop_assert!(queue.state().entries.is_empty());
    }
}
