//! Writes and their conditions, snapshots, watches, history limits, restarts: case by case.

use std::{pin::pin, time::Duration};

use polity_store::{
    CommitError, Expect, HistoryError, HistoryLimits, Key, Options, Revision, SizeLimits, WatchEnd,
};

use crate::support::{
    FakeClock, delete, kind, open, payload, put, ready, set, show, show_event, text, unset,
};

fn small_history(at_least: usize, per_bucket: usize) -> HistoryLimits {
    HistoryLimits {
        at_least,
        per_bucket,
        ..HistoryLimits::default()
    }
}

/// Each write is accepted or refused by its condition.
#[tokio::test]
async fn a_write_is_done_only_if_its_condition_holds() {
    let absent = Key::new("b", "ns", "absent");
    let there = Key::new("b", "ns", "there");
    let (first, now) = (Revision(2), Revision(3));
    let cases = [
        ("create", put(&absent, Expect::Absent, "x"), "x@4"),
        (
            "create what exists",
            put(&there, Expect::Absent, "x"),
            "exists: two@3",
        ),
        (
            "replace the newest",
            put(&there, Expect::Exactly(now), "x"),
            "x@4",
        ),
        (
            "replace an old one",
            put(&there, Expect::Exactly(first), "x"),
            "changed: two@3",
        ),
        (
            "replace what is gone",
            put(&absent, Expect::Exactly(now), "x"),
            "changed: gone",
        ),
        ("put over", put(&there, Expect::Anything, "x"), "x@4"),
        ("put anew", put(&absent, Expect::Anything, "x"), "x@4"),
        (
            "delete the newest",
            delete(&there, Expect::Exactly(now), "x"),
            "x@4",
        ),
        (
            "delete an old one",
            delete(&there, Expect::Exactly(first), "x"),
            "changed: two@3",
        ),
        ("delete any", delete(&there, Expect::Anything, "x"), "x@4"),
        (
            "delete nothing",
            delete(&absent, Expect::Anything, "x"),
            "missing",
        ),
        (
            "delete what was expected gone",
            delete(&absent, Expect::Absent, "x"),
            "missing",
        ),
        (
            "delete what must not exist",
            delete(&there, Expect::Absent, "x"),
            "exists: two@3",
        ),
    ];
    for (name, write, expected) in cases {
        let store = open(&Options::memory());
        set(&store, "b", "there", "one").await;
        set(&store, "b", "there", "two").await;
        let outcome = match store.commit(write).await {
            Ok(object) => text(&object),
            Err(error) => kind(&error),
        };
        assert_eq!(outcome, expected, "{name}");
        let done = expected.ends_with("@4");
        assert_eq!(
            store.current().revision(),
            Revision(if done { 4 } else { 3 }),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_version_knows_when_its_object_was_created() {
    let store = open(&Options::memory());
    set(&store, "b", "x", "one").await;
    set(&store, "b", "x", "two").await;
    let key = Key::new("b", "ns", "x");
    let deleted = store
        .commit(delete(&key, Expect::Anything, "last"))
        .await
        .unwrap();
    assert_eq!(
        (deleted.created, deleted.revision),
        (Revision(2), Revision(4))
    );
    let again = store
        .commit(put(&key, Expect::Absent, "new"))
        .await
        .unwrap();
    assert_eq!((again.created, again.revision), (Revision(5), Revision(5)));
}

#[tokio::test]
async fn writes_that_are_too_large_are_refused_and_change_nothing() {
    let sizes = SizeLimits {
        value: 100,
        key_part: 10,
    };
    let store = open(&Options {
        sizes,
        ..Options::memory()
    });
    let long = put(&Key::new("b", "ns", "n".repeat(11)), Expect::Anything, "x");
    assert!(matches!(
        store.commit(long).await,
        Err(CommitError::KeyTooLong {
            size: 11,
            limit: 10
        })
    ));
    let large = put(
        &Key::new("b", "ns", "n"),
        Expect::Anything,
        &"x".repeat(100),
    );
    assert!(matches!(
        store.commit(large).await,
        Err(CommitError::ValueTooLarge {
            size: 101,
            limit: 100
        })
    ));
    assert_eq!(store.current().revision(), Revision::FIRST);

    // The stored size is limited, whatever the limits of a caller.
    let sizes = SizeLimits {
        key_part: usize::MAX,
        ..SizeLimits::default()
    };
    let store = open(&Options {
        sizes,
        ..Options::memory()
    });
    let endless = put(
        &Key::new("b", "ns", "n".repeat(70_000)),
        Expect::Anything,
        "x",
    );
    assert!(matches!(
        store.commit(endless).await,
        Err(CommitError::KeyTooLong { limit: 65_535, .. })
    ));
}

/// A snapshot never changes, and an earlier one is exact.
#[tokio::test]
async fn old_revisions_are_shown_as_they_were() {
    let store = open(&Options::memory());
    set(&store, "b", "x", "1").await;
    let kept = store.current();
    set(&store, "b", "y", "2").await;
    set(&store, "c", "z", "3").await;
    set(&store, "b", "x", "4").await;
    unset(&store, "b", "y").await;
    let expected: [(u64, &[&str], &[&str]); 6] = [
        (1, &[], &[]),
        (2, &["ns/x=1@2"], &[]),
        (3, &["ns/x=1@2", "ns/y=2@3"], &[]),
        (4, &["ns/x=1@2", "ns/y=2@3"], &["ns/z=3@4"]),
        (5, &["ns/x=4@5", "ns/y=2@3"], &["ns/z=3@4"]),
        (6, &["ns/x=4@5"], &["ns/z=3@4"]),
    ];
    for (revision, b, c) in expected {
        let snapshot = store.at(Revision(revision)).unwrap();
        assert_eq!(snapshot.revision(), Revision(revision));
        assert_eq!(show(&snapshot, "b"), b, "b at {revision}");
        assert_eq!(show(&snapshot, "c"), c, "c at {revision}");
        assert_eq!(
            show(&store.at_bucket("b", Revision(revision)).unwrap(), "b"),
            b,
            "only b at {revision}"
        );
    }
    assert_eq!(show(&kept, "b"), ["ns/x=1@2"]);
    let future = HistoryError::Future {
        newest: Revision(6),
    };
    assert_eq!(store.at(Revision(7)).err(), Some(future));
    assert_eq!(store.at_bucket("b", Revision(7)).err(), Some(future));
}

/// History and live events join without a gap. A deletion has its own revision.
#[tokio::test]
async fn a_watch_returns_past_and_future_events() {
    let store = open(&Options::memory());
    set(&store, "b", "x", "1").await;
    set(&store, "c", "x", "2").await;
    set(&store, "b", "x", "3").await;
    assert_eq!(ready(&store, "b", 1), ["+x=1@2", "~x=3@4<1@2"]);
    assert_eq!(ready(&store, "b", 2), ["~x=3@4<1@2"]);
    assert_eq!(ready(&store, "b", 4), [""; 0]);

    let mut watch = store.watch("b", Revision(2)).unwrap();
    assert_eq!(show_event(&watch.next().await.unwrap()), "~x=3@4<1@2");
    unset(&store, "b", "x").await;
    set(&store, "b", "x", "4").await;
    assert_eq!(show_event(&watch.next().await.unwrap()), "-x=last@5<3@4");
    let page = watch.next_page().await.unwrap();
    assert_eq!(
        page.iter()
            .map(|event| show_event(event))
            .collect::<Vec<_>>(),
        ["+x=4@6"]
    );
}

/// A revision the store has not reached is waited for.
#[tokio::test]
async fn a_watch_may_begin_in_the_future() {
    let store = open(&Options::memory());
    let mut watch = store.watch("b", Revision(3)).unwrap();
    set(&store, "b", "x", "1").await;
    set(&store, "b", "x", "2").await;
    assert!(watch.try_next().unwrap().is_none());
    assert_eq!(watch.seen(), Revision(3));
    set(&store, "b", "x", "3").await;
    assert_eq!(show_event(&watch.next().await.unwrap()), "~x=3@4<2@3");
}

/// A bookmark has the revision of the store when all events were returned, and never a newer one.
#[tokio::test]
async fn a_watch_knows_up_to_where_it_has_seen_everything() {
    let store = open(&Options::memory());
    let mut watch = store.watch("b", Revision(1)).unwrap();
    set(&store, "c", "x", "1").await;
    assert_eq!(watch.seen(), Revision(2));
    set(&store, "c", "x", "2").await;
    set(&store, "b", "x", "3").await;
    set(&store, "c", "x", "4").await;
    set(&store, "b", "x", "5").await;
    assert_eq!(watch.seen(), Revision(3));
    watch.next().await.unwrap();
    assert_eq!(watch.seen(), Revision(5));
    watch.next().await.unwrap();
    assert_eq!(watch.seen(), Revision(6));
}

#[tokio::test]
async fn waiting_for_a_revision_ends_when_it_is_reached_or_the_store_is_closed() {
    let store = open(&Options::memory());
    store.wait_for(Revision(1)).await;
    let waiter = tokio::spawn({
        let store = store.clone();
        async move { store.wait_for(Revision(2)).await }
    });
    set(&store, "b", "x", "1").await;
    waiter.await.unwrap();

    let handle = store.clone();
    let mut waiter = pin!(handle.wait_for(Revision(100)));
    tokio::select! {
        biased;
        () = &mut waiter => panic!("revision 100 is far away"),
        () = std::future::ready(()) => {}
    }
    store.close().await;
    waiter.await;
}

/// Watches end, later writes are refused, reads go on.
#[tokio::test]
async fn closing_ends_watches_after_their_last_event() {
    let store = open(&Options::memory());
    let mut watch = store.watch("b", Revision(1)).unwrap();
    set(&store, "b", "x", "1").await;
    let handle = store.clone();
    store.close().await;
    assert_eq!(show_event(&watch.next().await.unwrap()), "+x=1@2");
    assert_eq!(watch.next().await.unwrap_err(), WatchEnd::Closed);
    let write = put(&Key::new("b", "ns", "x"), Expect::Anything, "2");
    assert!(matches!(
        handle.commit(write).await,
        Err(CommitError::Closed)
    ));
    assert!(matches!(
        handle.compact(Revision(2)).await,
        Err(CommitError::Closed)
    ));
    assert_eq!(show(&handle.current(), "b"), ["ns/x=1@2"]);
    let mut late = handle.watch("b", Revision(1)).unwrap();
    assert_eq!(show_event(&late.next().await.unwrap()), "+x=1@2");
    assert_eq!(late.next().await.unwrap_err(), WatchEnd::Closed);
    handle.close().await;
}

#[tokio::test]
async fn dropping_the_last_handle_closes_the_store() {
    let store = open(&Options::memory());
    let mut watch = store.watch("b", Revision(1)).unwrap();
    drop(store);
    assert_eq!(watch.next().await.unwrap_err(), WatchEnd::Closed);
}

/// The history is bounded, and a watch that falls behind gets an error.
#[tokio::test]
async fn a_watch_that_falls_out_of_the_history_ends() {
    let store = open(&Options {
        history: small_history(3, 3),
        ..Options::memory()
    });
    set(&store, "quiet", "x", "0").await;
    let mut slow = store.watch("b", Revision(1)).unwrap();
    let mut idle = store.watch("quiet", Revision(2)).unwrap();
    for content in ["1", "2", "3", "4"] {
        set(&store, "b", "x", content).await;
    }
    assert_eq!(slow.seen(), Revision(1));
    assert_eq!(slow.next().await.unwrap_err(), WatchEnd::Lagged);
    assert!(idle.try_next().unwrap().is_none());
    // Revision 3 was the first event of b and is gone, so 3 is the oldest that can be shown.
    assert_eq!(store.oldest(), Revision(3));
    let compacted = HistoryError::Compacted {
        oldest: Revision(3),
    };
    assert_eq!(store.watch("b", Revision(2)).err(), Some(compacted));
    assert_eq!(store.at(Revision(2)).err(), Some(compacted));
    assert_eq!(
        ready(&store, "b", 3),
        ["~x=2@4<1@3", "~x=3@5<2@4", "~x=4@6<3@5"]
    );
    // A busy bucket does not shorten the past of a quiet one.
    assert_eq!(ready(&store, "quiet", 1), ["+x=0@2"]);
    assert_eq!(
        show(&store.at_bucket("quiet", Revision(1)).unwrap(), "quiet"),
        [""; 0]
    );
}

/// By age and by size too, but never below the number that always stays.
#[tokio::test]
async fn old_and_large_events_leave_the_history() {
    let time = FakeClock::default();
    let history = HistoryLimits {
        at_least: 2,
        bytes_per_bucket: 1000,
        ..HistoryLimits::default()
    };
    let store = open(&Options {
        history,
        clock: time.clock(),
        ..Options::memory()
    });
    for content in ["1", "2", "3"] {
        set(&store, "b", "x", content).await;
    }
    time.advance(Duration::from_secs(299));
    set(&store, "other", "x", "4").await;
    assert_eq!(store.oldest(), Revision(1));
    time.advance(Duration::from_secs(2));
    set(&store, "other", "x", "5").await;
    assert_eq!(store.oldest(), Revision(2), "of three old events two stay");
    assert_eq!(ready(&store, "b", 2), ["~x=2@3<1@2", "~x=3@4<2@3"]);

    for _ in 0..4 {
        set(&store, "b", "x", &"x".repeat(400)).await;
    }
    assert_eq!(
        ready(&store, "b", store.oldest().0).len(),
        2,
        "two events of 400 bytes are within 1000"
    );
    set(&store, "b", "x", &"x".repeat(2000)).await;
    assert_eq!(
        ready(&store, "b", store.oldest().0).len(),
        2,
        "two always stay"
    );
}

/// After a compaction, earlier events are not available to new readers of any bucket.
#[tokio::test]
async fn compaction_on_request_forgets_the_past() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::directory(directory.path());
    let store = open(&options);
    for content in ["1", "2", "3"] {
        set(&store, "b", "x", content).await;
    }
    let mut watch = store.watch("b", Revision(3)).unwrap();
    store.compact(Revision(3)).await.unwrap();
    let compacted = Some(HistoryError::Compacted {
        oldest: Revision(3),
    });
    assert_eq!(store.at(Revision(2)).err(), compacted);
    assert_eq!(store.watch("quiet", Revision(2)).err(), compacted);
    assert_eq!(show_event(&watch.next().await.unwrap()), "~x=3@4<2@3");
    assert_eq!(show(&store.at(Revision(3)).unwrap(), "b"), ["ns/x=2@3"]);

    store.close().await;
    let store = open(&options);
    assert_eq!(store.at(Revision(2)).err(), compacted);
    assert_eq!(show(&store.at(Revision(3)).unwrap(), "b"), ["ns/x=2@3"]);
    // More than everything is everything.
    store.compact(Revision(1000)).await.unwrap();
    assert_eq!(store.oldest(), Revision(4));
    assert_eq!(set(&store, "b", "x", "5").await, Revision(5));
}

/// Objects, revisions and history are the same after a restart.
#[tokio::test]
async fn a_restart_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let history = small_history(2, 4);
    let options = Options {
        history,
        ..Options::directory(directory.path())
    };
    let store = open(&options);
    assert_eq!(store.current().revision(), Revision::FIRST);
    set(&store, "b", "x", "1").await;
    set(&store, "b", "y", "2").await;
    unset(&store, "b", "x").await;
    set(&store, "b", "y", "3").await;
    set(&store, "b", "z", "4").await;
    set(&store, "c", "x", "5").await;
    let before = (
        store.oldest(),
        show(&store.current(), "b"),
        ready(&store, "b", 2),
        ready(&store, "c", 1),
    );
    assert_eq!(
        before.2,
        ["+y=2@3", "-x=last@4<1@2", "~y=3@5<2@3", "+z=4@6"]
    );
    store.close().await;

    let store = open(&options);
    let after = (
        store.oldest(),
        show(&store.current(), "b"),
        ready(&store, "b", 2),
        ready(&store, "c", 1),
    );
    assert_eq!(before, after);
    assert!(
        store.watch("b", Revision(1)).is_err(),
        "what was dropped stays dropped"
    );
    assert_eq!(
        show(&store.at(Revision(3)).unwrap(), "b"),
        ["ns/x=1@2", "ns/y=2@3"]
    );
    assert_eq!(set(&store, "b", "x", "6").await, Revision(8));
    store.close().await;
}

/// Secrets do not leak through `Debug`.
#[tokio::test]
async fn the_content_is_not_shown_by_debug() {
    let store = open(&Options::memory());
    set(&store, "b", "x", "hunter2").await;
    let object = store
        .current()
        .get(&Key::new("b", "ns", "x"))
        .cloned()
        .unwrap();
    let mut watch = store.watch("b", Revision(1)).unwrap();
    let event = watch.next().await.unwrap();
    let error = store
        .commit(put(&object.key, Expect::Absent, "hunter2"))
        .await
        .unwrap_err();
    let shown = format!("{object:?} {event:?} {error:?} {:?}", payload("hunter2"));
    assert!(!shown.contains("hunter2"), "{shown}");
}
