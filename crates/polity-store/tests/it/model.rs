//! Random writes, restarts, compactions and pauses, against a model that remembers everything.

use std::{collections::BTreeMap, time::Duration};

use polity_store::{Expect, HistoryError, HistoryLimits, Key, Options, Revision, Watch};
use proptest::prelude::*;

use crate::support::{FakeClock, Size, TestStore, delete, kind, open, put, show_event, text};

const BUCKETS: [&str; 2] = ["a", "b"];
const LIMITS: HistoryLimits = HistoryLimits {
    keep: Duration::from_mins(5),
    per_bucket: 8,
    bytes_per_bucket: 80,
    at_least: 3,
};

#[derive(Debug, Clone)]
enum Step {
    Write {
        key: usize,
        condition: Condition,
        deletes: bool,
    },
    Pause(u64),
    Restart,
    /// Forget the past before this many revisions ago.
    Compact(u64),
}

#[derive(Debug, Clone, Copy)]
enum Condition {
    Absent,
    Newest,
    Stale,
    Anything,
}

/// Everything that ever happened, without bounds.
struct Model {
    /// The objects after each revision: their content and their revision.
    states: Vec<BTreeMap<Key, (String, u64)>>,
    /// Bucket, revision and text of each event.
    events: Vec<(&'static str, u64, String)>,
    /// The revision of the latest explicit compaction.
    floor: u64,
}

fn keys() -> Vec<Key> {
    let names = [("", "x"), ("n", "x"), ("n", "y"), ("n-", "x")];
    BUCKETS
        .iter()
        .flat_map(|bucket| names.map(|(namespace, name)| Key::new(*bucket, namespace, name)))
        .collect()
}

impl Model {
    fn new() -> Self {
        Self {
            states: vec![BTreeMap::new()],
            events: Vec::new(),
            floor: 1,
        }
    }

    fn newest(&self) -> u64 {
        self.states.len() as u64
    }

    /// The expected response to a write, and its effect.
    fn write(&mut self, key: &Key, condition: Condition, deletes: bool, content: &str) -> String {
        let revision = self.newest() + 1;
        let mut next = self.states.last().cloned().unwrap_or_default();
        let current = next.get(key).cloned();
        let before = current.as_ref().map(|(shown, _)| shown.clone());
        match (condition, &before) {
            (Condition::Absent, Some(before)) => return format!("exists: {before}"),
            (Condition::Stale, Some(before)) => return format!("changed: {before}"),
            (Condition::Stale | Condition::Newest, None) => return "changed: gone".to_owned(),
            (Condition::Absent | Condition::Anything, None) if deletes => {
                return "missing".to_owned();
            }
            _ => {}
        }
        let shown = format!("{content}@{revision}");
        let sign = match (&before, deletes) {
            (None, _) => '+',
            (Some(_), false) => '~',
            (Some(_), true) => '-',
        };
        let before = before
            .map(|before| format!("<{before}"))
            .unwrap_or_default();
        let bucket = BUCKETS
            .into_iter()
            .find(|bucket| **bucket == *key.bucket)
            .expect("one of the two");
        self.events.push((
            bucket,
            revision,
            format!("{sign}{}={shown}{before}", key.name),
        ));
        if deletes {
            next.remove(key);
        } else {
            next.insert(key.clone(), (shown.clone(), revision));
        }
        self.states.push(next);
        shown
    }

    fn events_after(&self, bucket: &str, after: u64) -> Vec<&str> {
        let events = self
            .events
            .iter()
            .filter(|(of, revision, _)| *of == bucket && *revision > after);
        events.map(|(_, _, shown)| shown.as_str()).collect()
    }

    /// Checks that the store shows the current objects and the history of the model.
    fn check(&self, store: &TestStore) {
        assert_eq!(store.current().revision(), Revision(self.newest()));
        for revision in 0..=self.newest() {
            match store.at(Revision(revision)) {
                Ok(snapshot) => {
                    let shown: BTreeMap<_, _> = BUCKETS
                        .iter()
                        .flat_map(|bucket| snapshot.range(bucket, None, None))
                        .map(|object| (object.key.clone(), (text(object), object.revision.0)))
                        .collect();
                    assert_eq!(shown, self.states[revision as usize - 1], "at {revision}");
                    for bucket in BUCKETS {
                        let expected = shown.keys().filter(|key| &*key.bucket == bucket).count();
                        assert_eq!(snapshot.count(bucket, None), expected);
                    }
                }
                Err(error) => {
                    assert!(revision < store.oldest().0);
                    assert_eq!(
                        error,
                        HistoryError::Compacted {
                            oldest: store.oldest()
                        }
                    );
                }
            }
            for bucket in BUCKETS {
                self.check_watch(store, bucket, revision);
            }
        }
    }

    fn check_watch(&self, store: &TestStore, bucket: &str, after: u64) {
        let expected = self.events_after(bucket, after);
        match store.watch(bucket, Revision(after)) {
            Ok(mut watch) => {
                assert_eq!(drain(&mut watch), expected, "{bucket} after {after}");
                assert!(
                    expected.len() <= LIMITS.per_bucket,
                    "{bucket} keeps {}",
                    expected.len()
                );
                assert!(store.at_bucket(bucket, Revision(after)).is_ok());
            }
            Err(_) => assert!(
                after < self.floor || expected.len() > LIMITS.at_least,
                "{bucket} after {after} must be kept"
            ),
        }
    }
}

fn drain(watch: &mut Watch<Size>) -> Vec<String> {
    std::iter::from_fn(|| watch.try_next().expect("a watch within the history"))
        .map(|event| show_event(&event))
        .collect()
}

fn step() -> impl Strategy<Value = Step> {
    let condition = prop_oneof![
        2 => Just(Condition::Absent),
        3 => Just(Condition::Newest),
        1 => Just(Condition::Stale),
        4 => Just(Condition::Anything),
    ];
    prop_oneof![
        20 => (0..keys().len(), condition, prop::bool::weighted(0.3))
            .prop_map(|(key, condition, deletes)| Step::Write { key, condition, deletes }),
        2 => (0..400u64).prop_map(Step::Pause),
        1 => Just(Step::Restart),
        1 => (0..12u64).prop_map(Step::Compact),
    ]
}

async fn run(steps: Vec<Step>) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let time = FakeClock::default();
    let options = Options {
        history: LIMITS,
        clock: time.clock(),
        ..Options::directory(directory.path().join("data"))
    };
    let (mut store, mut model, keys) = (open(&options), Model::new(), keys());
    let mut watches =
        BUCKETS.map(|bucket| store.watch(bucket, Revision(1)).expect("the beginning"));
    let mut seen = BUCKETS.map(|_| Vec::new());

    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Write {
                key,
                condition,
                deletes,
            } => {
                let key = &keys[key];
                let newest = store
                    .current()
                    .get(key)
                    .map_or(Revision(1), |object| object.revision);
                let expect = match condition {
                    Condition::Absent => Expect::Absent,
                    Condition::Newest => Expect::Exactly(newest),
                    Condition::Stale => Expect::Exactly(Revision(newest.0 - 1)),
                    Condition::Anything => Expect::Anything,
                };
                let content = format!("c{number}");
                let write = if deletes {
                    delete(key, expect, &content)
                } else {
                    put(key, expect, &content)
                };
                let outcome = match store.commit(write).await {
                    Ok(object) => text(&object),
                    Err(error) => kind(&error),
                };
                assert_eq!(
                    outcome,
                    model.write(key, condition, deletes, &content),
                    "step {number}"
                );
            }
            Step::Pause(seconds) => time.advance(Duration::from_secs(seconds)),
            Step::Compact(ago) => {
                let oldest = model.newest().saturating_sub(ago);
                store.compact(Revision(oldest)).await.expect("a compaction");
                model.floor = model.floor.max(oldest);
                assert!(store.oldest().0 >= oldest);
            }
            Step::Restart => {
                let positions = watches.each_mut().map(Watch::seen);
                let closed = store.clone();
                store.close().await;
                store = open(&options);
                // Read after closing, which may drop old events.
                assert_eq!(store.oldest(), closed.oldest());
                let mut positions = positions.into_iter();
                watches = BUCKETS.map(|bucket| {
                    store
                        .watch(bucket, positions.next().expect("one each"))
                        .expect("what was just seen")
                });
            }
        }
        for (watch, seen) in watches.iter_mut().zip(&mut seen) {
            seen.extend(drain(watch));
        }
        model.check(&store);
    }
    for (bucket, seen) in BUCKETS.iter().zip(seen) {
        assert_eq!(
            seen,
            model.events_after(bucket, 0),
            "a watch over all restarts sees everything once"
        );
    }
    store.close().await;
    let reopened = open(&options);
    model.check(&reopened);
    reopened.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_the_model_does(steps in prop::collection::vec(step(), 1..50)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(run(steps));
    }
}
