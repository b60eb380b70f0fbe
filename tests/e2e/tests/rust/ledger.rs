//! What a watcher saw, and whether that is what happened: each change once and in order.

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

use crate::world::{World, soon};
use crate::writers::{Change, Histories, TOKEN};

/// Between two attempts to go on with a broken watch.
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
pub(crate) struct Ledger {
    title: &'static str,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Ledger {
    /// Every way in which kube-rs watches a collection.
    pub(crate) async fn of_every_kind(world: &World) -> Vec<Self> {
        let maps = || world.api::<ConfigMap>();
        let metadata = world.api::<PartialObjectMeta<ConfigMap>>();
        let streaming = Config::default().streaming_lists();
        // Its watches end and begin anew all the time.
        let short = Config::default().timeout(1);
        let ledgers = vec![
            Self::follow("list and watch", watcher(maps(), Config::default())),
            Self::follow("streaming list", watcher(maps(), streaming)),
            Self::follow("metadata", watcher(metadata, Config::default())),
            Self::follow("short watches", watcher(maps(), short)),
        ];
        for ledger in &ledgers {
            ledger.wait(|seen| *seen == Seen::ListingDone).await;
        }
        ledgers
    }

    /// Follows a stream for good. Errors are what a watcher lives with: it goes on where it was.
    fn follow<K: Resource + Send + 'static>(
        title: &'static str,
        events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let book = seen.clone();
        let task = tokio::spawn(async move {
            let mut events = pin!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => book.lock().unwrap().push(Seen::of(&event)),
                    Err(_) => tokio::time::sleep(PAUSE).await, // tidy: before the next attempt
                }
            }
        });
        Self { title, seen, task }
    }

    /// Waits until a change to an object is seen, which must be the last there is.
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

    /// Everything that was seen is what the writers did: each change once and in order, none missing. The server keeps
    /// its history through every end, so nothing is ever listed again.
    pub(crate) fn check(&self, histories: &Histories) {
        let title = self.title;
        let mut seen_of: Histories = BTreeMap::new();
        let mut last_version = 0;
        let seen = self.seen.lock().unwrap();
        let n_listed = seen.iter().take_while(|seen| **seen != Seen::ListingDone);
        for event in &seen[n_listed.count() + 1..] {
            let Seen::Changed {
                name,
                change,
                version,
            } = event
            else {
                panic!("{title}: {event:?} after version {last_version}, where a change was due");
            };
            assert!(
                *version > last_version,
                "{title}: {event:?} after version {last_version}"
            );
            last_version = *version;
            if histories.contains_key(name) {
                seen_of
                    .entry(name.clone())
                    .or_default()
                    .push(change.clone());
            }
        }
        for (name, expected) in histories {
            let seen = seen_of.remove(name).unwrap_or_default();
            let same = seen
                .iter()
                .zip(expected)
                .take_while(|(seen, expected)| seen == expected);
            let n_same = same.count();
            assert!(
                seen.len() == n_same && expected.len() == n_same,
                "{title}: after {n_same} changes to {name} it saw {:?}, not {:?}",
                seen[n_same..].first(),
                expected[n_same..].first(),
            );
        }
    }
}

impl Drop for Ledger {
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

/// What tells the write of an object from all others.
pub(crate) fn token<K: Resource>(object: &K) -> String {
    object.annotations().get(TOKEN).cloned().unwrap_or_default()
}

/// The version of an object as a number.
pub(crate) fn version<K: Resource>(object: &K) -> u64 {
    let version = object.resource_version().unwrap_or_default();
    version.parse().expect("M2: a decimal string")
}
