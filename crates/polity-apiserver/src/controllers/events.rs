//! Events vanish an hour after their last write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use polity_store::{Change, Expect, Key, Revision, Write};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::object::Stored;
use crate::object::encode;

const KEPT_FOR: SignedDuration = SignedDuration::from_hours(1);
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// When each event last changed. The age of a new event comes from its own fields.
#[derive(Default)]
struct Ages(BTreeMap<Key, (Revision, Timestamp)>);

pub async fn run(cluster: Arc<Cluster>) {
    let mut ages = Ages::default();
    loop {
        ages.look(
            &cluster
                .store()
                .current()
                .range("events", None, None)
                .cloned()
                .collect::<Vec<_>>(),
            cluster.now(),
        );
        for key in ages.expired(cluster.now()) {
            remove(&cluster, &key).await;
        }
        cluster.clock().sleep(LOOK_EVERY).await;
    }
}

impl Ages {
    fn look(&mut self, events: &[Stored], now: Timestamp) {
        let mut next = BTreeMap::new();
        for event in events {
            let since = match self.0.get(&event.key) {
                Some((revision, since)) if *revision == event.revision => *since,
                // It changed since the last look.
                Some(_) => now,
                None => last_written(event).filter(|at| *at <= now).unwrap_or(now),
            };
            next.insert(event.key.clone(), (event.revision, since));
        }
        self.0 = next;
    }

    fn expired(&self, now: Timestamp) -> Vec<Key> {
        self.0
            .iter()
            .filter(|(_, (_, since))| now.duration_since(*since) >= KEPT_FOR)
            .map(|(key, _)| key.clone())
            .collect()
    }
}

/// The time of an event from its own fields, newest field first.
fn last_written(event: &Stored) -> Option<Timestamp> {
    let value: Value = serde_json::from_slice(&event.bytes).ok()?;
    let own = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ];
    let recorded = value
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    own.iter()
        .filter_map(|path| value.pointer(path))
        .chain(recorded.filter_map(|entry| entry.get("time")))
        .filter_map(|time| time.as_str()?.parse().ok())
        .max()
}

async fn remove(cluster: &Arc<Cluster>, key: &Key) {
    let Some(stored) = cluster.store().current().get(key).cloned() else {
        return;
    };
    let Ok(Value::Object(object)) = serde_json::from_slice(&stored.bytes) else {
        return;
    };
    let change = Change::Delete(encode::payload(&object));
    // Lost races are fine: a changed event has a new age.
    let _ = cluster
        .commit(Write {
            key: key.clone(),
            expect: Expect::Exactly(stored.revision),
            change,
        })
        .await;
}
