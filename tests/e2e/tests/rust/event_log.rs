//! Records the events of a watcher, and checks that it saw each change once and in order.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::runtime::watcher::{Config, Event};
use kube::{Resource, ResourceExt as _};
use tokio::task::JoinHandle;

use crate::test_namespace::{TestNamespace, soon};
use crate::writers::{Change, Histories, TOKEN};

/// Delay before a broken watch is retried.
const PAUSE: Duration = Duration::from_millis(20);

/// One event of a watcher.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Listing,
    Listed(String),
    ListingDone,
    Changed {
        name: String,
        change: Change,
        version: u64,
    },
}

/// The events of one watcher, in the order in which it saw them.
pub(crate) struct EventLog {
    title: &'static str,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl EventLog {
    /// Starts a watcher for each way in which kube-rs watches a collection.
    pub(crate) async fn of_every_kind(test_namespace: &TestNamespace) -> Vec<Self> {
        let maps = || test_namespace.api::<ConfigMap>();
        let metadata = test_namespace.api::<PartialObjectMeta<ConfigMap>>();
        let streaming = Config::default().streaming_lists();
        // Its watches expire after one second and are opened again.
        let short = Config::default().timeout(1);
        let logs = vec![
            Self::follow("list and watch", watcher(maps(), Config::default())),
            Self::follow("streaming list", watcher(maps(), streaming)),
            Self::follow("metadata", watcher(metadata, Config::default())),
            Self::follow("short watches", watcher(maps(), short)),
        ];
        for log in &logs {
            log.wait(|seen| *seen == Seen::ListingDone).await;
        }
        logs
    }

    /// Records the events of a stream. After an error the watcher resumes from where it was.
    fn follow<K: Resource + Send + 'static>(
        title: &'static str,
        events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let task = tokio::spawn(async move {
            let mut events = pin!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => log.lock().unwrap().push(Seen::of(&event)),
                    Err(_) => tokio::time::sleep(PAUSE).await, // tidy: before the next attempt
                }
            }
        });
        Self { title, seen, task }
    }

    /// Waits until a change to an object is seen. It must be the last change.
    pub(crate) async fn reached(&self, last: &str) {
        self.wait(|seen| matches!(seen, Seen::Changed { name, .. } if name == last))
            .await;
    }

    async fn wait(&self, is_it: impl Fn(&Seen) -> bool) {
        soon(self.title, || async {
            let seen = self.seen.lock().unwrap();
            if seen.iter().any(&is_it) {
                Ok(())
            } else {
                Err(seen.last().cloned())
            }
        })
        .await;
    }

    /// Checks that the watcher saw exactly the changes that the writers made, each once and in order.
    pub(crate) fn check(&self, histories: &Histories) {
        let outcome = compare(&self.seen.lock().unwrap(), histories);
        outcome.unwrap_or_else(|difference| panic!("{}: {difference}", self.title));
    }
}

/// Returns the first difference between the events and the changes. The server keeps its history across restarts, so
/// the watcher never has to list again.
fn compare(seen: &[Seen], histories: &Histories) -> Result<(), String> {
    let mut seen_of: Histories = BTreeMap::new();
    let mut last_version = 0;
    let listed = seen.iter().take_while(|seen| **seen != Seen::ListingDone);
    for event in &seen[listed.count() + 1..] {
        match event {
            Seen::Changed {
                name,
                change,
                version,
            } if *version > last_version => {
                last_version = *version;
                let changes = seen_of.entry(name.clone()).or_default();
                changes.push(change.clone());
            }
            other => return Err(format!("{other:?} after version {last_version}")),
        }
    }
    for (name, expected) in histories {
        let seen = seen_of.remove(name).unwrap_or_default();
        let same = seen.iter().zip(expected).take_while(|(a, b)| a == b);
        let n_same = same.count();
        if seen.len() > n_same || expected.len() > n_same {
            let (seen, expected) = (seen.get(n_same), expected.get(n_same));
            return Err(format!(
                "after {n_same} changes to {name} it saw {seen:?}, not {expected:?}"
            ));
        }
    }
    Ok(())
}

impl Drop for EventLog {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Seen {
    fn of<K: Resource>(event: &Event<K>) -> Self {
        match event {
            Event::Init => Self::Listing,
            Event::InitApply(object) => Self::Listed(object.name_any()),
            Event::InitDone => Self::ListingDone,
            Event::Apply(object) => Self::changed(
                object,
                Change::Put {
                    token: token(object),
                },
            ),
            Event::Delete(object) => {
                let (uid, last) = (object.uid().expect("every object has one"), token(object));
                Self::changed(object, Change::Gone { uid, last })
            }
        }
    }

    fn changed<K: Resource>(object: &K, change: Change) -> Self {
        Self::Changed {
            name: object.name_any(),
            version: version(object),
            change,
        }
    }
}

/// The token that identifies the write of an object.
pub(crate) fn token<K: Resource>(object: &K) -> String {
    object.annotations().get(TOKEN).cloned().unwrap_or_default()
}

/// The resource version of an object as a number.
pub(crate) fn version<K: Resource>(object: &K) -> u64 {
    let version = object.resource_version().unwrap_or_default();
    version.parse().expect("M2: a decimal string")
}

#[test]
fn an_event_log_reports_what_is_missing_doubled_or_out_of_order() {
    let put = |token: &str| Change::Put {
        token: token.to_owned(),
    };
    let gone = Change::Gone {
        uid: "u".to_owned(),
        last: "2".to_owned(),
    };
    let histories = BTreeMap::from([("a".to_owned(), vec![put("1"), put("2"), gone.clone()])]);
    let at = |version, change: &Change| Seen::Changed {
        name: "a".to_owned(),
        change: change.clone(),
        version,
    };
    let (one, two, three) = (at(1, &put("1")), at(2, &put("2")), at(3, &gone));
    let cases = [
        ("all of it", vec![&one, &two, &three], true),
        ("the first missing", vec![&two, &three], false),
        ("one missing", vec![&one, &three], false),
        ("the last missing", vec![&one, &two], false),
        ("one doubled", vec![&one, &two, &two, &three], false),
        ("out of order", vec![&two, &one, &three], false),
        (
            "listed anew",
            vec![&one, &two, &Seen::Listing, &three],
            false,
        ),
    ];
    for (case, events, is_right) in cases {
        let beginning = [Seen::Listing, Seen::ListingDone];
        let seen: Vec<Seen> = beginning.iter().chain(events).cloned().collect();
        assert_eq!(compare(&seen, &histories).is_ok(), is_right, "{case}");
    }
    let doubled = [one, two.clone(), at(4, &put("2")), at(5, &gone)];
    let seen: Vec<Seen> = [Seen::ListingDone].into_iter().chain(doubled).collect();
    let difference = compare(&seen, &histories).unwrap_err();
    assert!(
        difference.starts_with("after 2 changes to a it saw"),
        "{difference}"
    );
}
