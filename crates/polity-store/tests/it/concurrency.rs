//! Many writers and many watchers at once.

use std::sync::Arc;

use polity_store::{
    Change, CommitError, Expect, HistoryLimits, Key, Options, Payload, Revision, WatchEnd, Write,
};

use crate::support::{TestStore, open, put, set, show, show_event, text};

const WRITERS: usize = 4;

/// Reads a counter and writes it one higher, until that succeeded `times` times.
async fn count_up(store: TestStore, key: Key, times: usize) {
    let mut done = 0;
    while done < times {
        let current = store.current().get(&key).cloned();
        let (count, expect) = match &current {
            Some(object) => {
                let text = text(object);
                let count: usize = text.split('@').next().unwrap().parse().unwrap();
                (count, Expect::Exactly(object.revision))
            }
            None => (0, Expect::Absent),
        };
        match store
            .commit(put(&key, expect, &(count + 1).to_string()))
            .await
        {
            Ok(_) => done += 1,
            Err(CommitError::Changed { .. } | CommitError::Exists { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Of writers with the same expectation exactly one succeeds, so no step of a counter is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost() {
    let store = open(&Options::memory());
    let key = Key::new("counters", "ns", "one");
    let tasks: Vec<_> = (0..WRITERS)
        .map(|_| tokio::spawn(count_up(store.clone(), key.clone(), 250)))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(show(&store.current(), "counters"), ["ns/one=1000@1001"]);
}

/// All watchers see every write once and in the same order, regardless of where they start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watcher_sees_every_write_once_and_in_order() {
    const WRITES: usize = 2500;
    let directory = tempfile::tempdir().unwrap();
    let store = open(&Options::directory(directory.path()));
    let last = Revision(1 + (WRITERS * WRITES) as u64);

    let watch = |after: u64| {
        let store = store.clone();
        tokio::spawn(async move {
            // Those that start later join in the middle of the writing.
            store.wait_for(Revision(after)).await;
            let mut watch = store.watch("b", Revision(after)).unwrap();
            let mut seen = Vec::new();
            while seen.last().is_none_or(|(revision, _)| *revision < last) {
                let page = watch.next_page().await.unwrap();
                seen.extend(page.iter().map(|event| (event.revision, show_event(event))));
            }
            seen
        })
    };
    let watchers: Vec<_> = [1, 1, 1000, 5000, 9000]
        .map(|after| (after, watch(after)))
        .into_iter()
        .collect();

    // 64 tasks in each of four writers, so that transactions hold many writes.
    let writers: Vec<_> = (0..WRITERS * 50)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in 0..WRITES / 50 {
                    set(
                        &store,
                        "b",
                        &format!("o{}", (writer + number) % 20),
                        &format!("{writer}.{number}"),
                    )
                    .await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let mut whole = Vec::new();
    for (after, watcher) in watchers {
        let seen = watcher.await.unwrap();
        let revisions: Vec<_> = seen.iter().map(|(revision, _)| revision.0).collect();
        assert_eq!(
            revisions,
            (after + 1..=last.0).collect::<Vec<_>>(),
            "after {after}"
        );
        if whole.is_empty() {
            whole = seen;
        } else {
            assert_eq!(seen, whole[(after - 1) as usize..], "after {after}");
        }
    }
    store.close().await;
}

/// A watcher that does not read loses its watch, and other watchers are not affected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_watcher_does_not_delay_others() {
    let history = HistoryLimits {
        per_bucket: 300,
        at_least: 100,
        ..HistoryLimits::default()
    };
    let store = open(&Options {
        history,
        ..Options::memory()
    });
    let mut slow = store.watch("b", Revision(1)).unwrap();
    set(&store, "b", "x", "first").await;
    assert!(slow.next().await.is_ok());
    for number in 0..2000 {
        set(&store, "b", "x", &number.to_string()).await;
    }
    assert_eq!(slow.next().await.unwrap_err(), WatchEnd::Lagged);
    let resumed = store.watch("b", store.oldest()).unwrap();
    drop(resumed);
}

/// Writes whose callers have gone do not block other writes.
#[tokio::test]
async fn a_dropped_write_is_done_or_not_and_others_go_on() {
    let store = open(&Options::memory());
    for _ in 0..100 {
        let write = Write {
            key: Key::new("b", "ns", "x"),
            expect: Expect::Anything,
            change: Change::Put(Payload::default()),
        };
        let store = store.clone();
        let task =
            tokio::spawn(
                async move { store.commit(write).await.map(|object| Arc::clone(&object)) },
            );
        tokio::task::yield_now().await;
        task.abort();
    }
    set(&store, "b", "y", "1").await;
}
