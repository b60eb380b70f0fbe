//! Writers that know exactly what they changed, also when the server is killed during a write.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Api, ResourceExt as _};
use polity_testing::objects::config_map;
use tokio::sync::watch;

use crate::event_log::{token, version};
use crate::test_namespace::{TIMEOUT, soon};

/// The annotation that identifies a write.
pub(crate) const TOKEN: &str = "e2e.polity.dev/token";

/// Number of objects per writer.
const OBJECTS: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Put {
        token: String,
    },
    /// Uid of the deleted object, and the token of the last write to it.
    Gone {
        uid: String,
        last: String,
    },
}

/// All changes to each object, in order.
pub(crate) type Histories = BTreeMap<String, Vec<Change>>;

/// A writer. No other writer changes its objects.
pub(crate) struct Writer {
    name: String,
    maps: Api<ConfigMap>,
    /// The objects as last acknowledged by the server.
    live: BTreeMap<String, ConfigMap>,
    histories: Histories,
    last_version: u64,
    n_done: u64,
    n_in_doubt: u64,
    /// Why the outcome of the last such write was unknown.
    last_error: Option<String>,
    random: u64,
    progress: Arc<watch::Sender<u64>>,
}

/// The result of a writer.
pub(crate) struct WriterResult {
    pub(crate) histories: Histories,
    pub(crate) live: BTreeMap<String, ConfigMap>,
    /// Writes whose response was lost.
    pub(crate) n_in_doubt: u64,
}

impl Writer {
    /// A writer that counts every acknowledged write in `progress`.
    pub(crate) fn new(name: &str, maps: Api<ConfigMap>, progress: Arc<watch::Sender<u64>>) -> Self {
        let random = name
            .bytes()
            .fold(7, |seed, byte| seed * 31 + u64::from(byte));
        Self {
            name: name.to_owned(),
            maps,
            live: BTreeMap::new(),
            histories: Histories::new(),
            last_version: 0,
            n_done: 0,
            n_in_doubt: 0,
            last_error: None,
            random,
            progress,
        }
    }

    /// Writes until it is stopped.
    pub(crate) async fn write_until(mut self, stop: watch::Receiver<bool>) -> WriterResult {
        while !*stop.borrow() {
            let step = tokio::time::timeout(TIMEOUT * 2, self.step()).await;
            let Self {
                name, last_error, ..
            } = &self;
            step.unwrap_or_else(|_| panic!("{name} gets nowhere: {last_error:?}"));
        }
        self.done()
    }

    fn done(self) -> WriterResult {
        WriterResult {
            histories: self.histories,
            live: self.live,
            n_in_doubt: self.n_in_doubt,
        }
    }

    async fn step(&mut self) {
        let dice = self.dice();
        let name = format!("{}-{}", self.name, dice as usize % OBJECTS);
        // One write in eight is a deletion, if there is an object to delete.
        match self.live.get(&name).cloned() {
            Some(live) if (dice >> 32).is_multiple_of(8) => self.delete(&name, &live).await,
            live => self.put(&name, live.as_ref()).await,
        }
        self.n_done += 1;
        self.progress.send_modify(|n| *n += 1);
    }

    /// Writes an object and waits until it is known whether the write was stored.
    async fn put(&mut self, name: &str, live: Option<&ConfigMap>) {
        let written = format!("{}/{}", self.name, self.n_done);
        let mut wanted = live.cloned().unwrap_or_else(|| config_map(name, []));
        wanted
            .annotations_mut()
            .insert(TOKEN.to_owned(), written.clone());
        let post = PostParams::default();
        let stored = loop {
            let maps = &self.maps;
            let answer = match live {
                None => answered(name, maps.create(&post, &wanted)).await,
                Some(_) => answered(name, maps.replace(name, &post, &wanted)).await,
            };
            match answer {
                Ok(stored) => break stored,
                Err(error) => self.must_be_broken(&error),
            }
            match self.look(name).await {
                Some(found) if token(&found) == written => break found,
                // The write was not stored, so the object must be as last acknowledged.
                found => assert_eq!(found.as_ref(), live, "{name} is not as it was acknowledged"),
            }
        };
        assert!(
            version(&stored) > self.last_version,
            "{name}: versions only grow"
        );
        if let Some(live) = live {
            assert_eq!(stored.uid(), live.uid(), "{name} is the same object");
        }
        self.last_version = version(&stored);
        self.live.insert(name.to_owned(), stored);
        self.note(name, Change::Put { token: written });
    }

    async fn delete(&mut self, name: &str, live: &ConfigMap) {
        let preconditions = Preconditions {
            uid: live.uid(),
            resource_version: live.resource_version(),
        };
        let params = DeleteParams::default().preconditions(preconditions);
        loop {
            match answered(name, self.maps.delete(name, &params)).await {
                Ok(_) => break,
                Err(error) => self.must_be_broken(&error),
            }
            match self.look(name).await {
                None => break,
                found => assert_eq!(
                    found.as_ref(),
                    Some(live),
                    "{name} is not as it was acknowledged"
                ),
            }
        }
        self.live.remove(name);
        let (uid, last) = (live.uid().unwrap(), token(live));
        self.note(name, Change::Gone { uid, last });
    }

    /// Reads the object as soon as the server is reachable.
    async fn look(&self, name: &str) -> Option<ConfigMap> {
        soon("the server is back", || async {
            answered(name, self.maps.get_opt(name)).await
        })
        .await
    }

    /// A server that is killed or stopped breaks the connection. An error response is a failure.
    fn must_be_broken(&mut self, error: &kube::Error) {
        if let kube::Error::Api(status) = error {
            assert!(
                matches!(status.code, 429 | 503),
                "{}: {status:?}",
                self.name
            );
        }
        self.n_in_doubt += 1;
        self.last_error = Some(format!("{error:?}"));
    }

    fn note(&mut self, name: &str, change: Change) {
        self.histories
            .entry(name.to_owned())
            .or_default()
            .push(change);
    }

    /// A pseudo-random number that is the same in every run (splitmix64).
    fn dice(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Every request must end, also when the server is killed.
async fn answered<T>(name: &str, request: impl Future<Output = T>) -> T {
    let answer = tokio::time::timeout(TIMEOUT, request).await;
    answer.unwrap_or_else(|_| panic!("{name}: no response in {TIMEOUT:?}"))
}

/// Checks that the collection contains exactly the objects that the writers left.
pub(crate) async fn check_collection(maps: &Api<ConfigMap>, done: &[WriterResult]) {
    let list = maps.list(&ListParams::default()).await.unwrap();
    let found: BTreeMap<String, ConfigMap> = list
        .items
        .into_iter()
        .filter(|map| map.annotations().contains_key(TOKEN))
        .map(|map| (map.name_any(), map))
        .collect();
    let expected: BTreeMap<&String, &ConfigMap> = done.iter().flat_map(|done| &done.live).collect();
    for (name, map) in &found {
        assert_eq!(
            Some(&map),
            expected.get(name),
            "{name} is there, and should be like this or not at all"
        );
    }
    for name in expected.keys() {
        assert!(
            found.contains_key(*name),
            "{name} was acknowledged and is lost"
        );
    }
}

/// The combined histories of all writers.
pub(crate) fn together(done: &[WriterResult]) -> Histories {
    done.iter()
        .flat_map(|done| done.histories.clone())
        .collect()
}

/// Checks that no two objects ever had the same uid.
pub(crate) fn check_uids(histories: &Histories) {
    let mut uids: Vec<&String> = histories
        .values()
        .flatten()
        .filter_map(|change| match change {
            Change::Gone { uid, .. } => Some(uid),
            Change::Put { .. } => None,
        })
        .collect();
    let n_uids = uids.len();
    uids.sort();
    uids.dedup();
    assert_eq!(uids.len(), n_uids, "a uid was used twice");
}
