//! Helpers of the tests to write and read.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use polity_store::{
    Change, Clock, CommitError, Event, Expect, Index, Key, Object, OpenError, Options, Payload,
    Revision, Snapshot, Store, Write,
};

/// The number of bytes: enough to see that the index is derived from the stored form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) usize);

impl Index for Size {
    fn index(_: &Key, bytes: &[u8]) -> Self {
        Self(bytes.len())
    }
}

pub(crate) type TestStore = Store<Size>;

/// The stored form is `content@revision`.
pub(crate) fn payload(content: &str) -> Payload {
    Payload {
        before: format!("{content}@").into_bytes(),
        after: Vec::new(),
    }
}

pub(crate) fn put(key: &Key, expect: Expect, content: &str) -> Write {
    Write {
        key: key.clone(),
        expect,
        change: Change::Put(payload(content)),
    }
}

pub(crate) fn delete(key: &Key, expect: Expect, content: &str) -> Write {
    Write {
        key: key.clone(),
        expect,
        change: Change::Delete(payload(content)),
    }
}

/// A write to `bucket/ns/name` that must succeed.
pub(crate) async fn set(store: &TestStore, bucket: &str, name: &str, content: &str) -> Revision {
    let write = put(&Key::new(bucket, "ns", name), Expect::Anything, content);
    store
        .commit(write)
        .await
        .expect("a write without a condition")
        .revision
}

pub(crate) async fn unset(store: &TestStore, bucket: &str, name: &str) -> Revision {
    let write = delete(&Key::new(bucket, "ns", name), Expect::Anything, "last");
    store
        .commit(write)
        .await
        .expect("a deletion of what is there")
        .revision
}

pub(crate) fn text(object: &Object<Size>) -> String {
    assert_eq!(
        object.index,
        Size(object.bytes.len()),
        "the index belongs to the stored form"
    );
    String::from_utf8(object.bytes.to_vec()).expect("the tests store text")
}

/// All of a bucket, as `namespace/name=bytes`.
pub(crate) fn show(snapshot: &Snapshot<Size>, bucket: &str) -> Vec<String> {
    let objects = snapshot.range(bucket, None, None);
    objects
        .map(|object| {
            format!(
                "{}/{}={}",
                object.key.namespace,
                object.key.name,
                text(object)
            )
        })
        .collect()
}

/// An event as `+name=bytes` (created), `~name=bytes<before` (changed) or `-name=bytes<before`
/// (removed).
pub(crate) fn show_event(event: &Event<Size>) -> String {
    assert_eq!(event.revision, event.object.revision);
    let sign = match (&event.previous, event.deleted) {
        (None, false) => '+',
        (Some(_), false) => '~',
        (Some(_), true) => '-',
        (None, true) => '?',
    };
    let before = event
        .previous
        .as_ref()
        .map(|previous| format!("<{}", text(previous)))
        .unwrap_or_default();
    format!(
        "{sign}{}={}{before}",
        event.object.key.name,
        text(&event.object)
    )
}

/// The events that a watch returns without waiting.
pub(crate) fn ready(store: &TestStore, bucket: &str, after: u64) -> Vec<String> {
    let mut watch = store
        .watch(bucket, Revision(after))
        .expect("history that is kept");
    std::iter::from_fn(|| watch.try_next().expect("a watch that goes on"))
        .map(|event| show_event(&event))
        .collect()
}

/// The kind of an error, to compare.
pub(crate) fn kind(error: &CommitError<Size>) -> String {
    match error {
        CommitError::Exists { current } => format!("exists: {}", text(current)),
        CommitError::Changed {
            current: Some(current),
            ..
        } => format!("changed: {}", text(current)),
        CommitError::Changed { current: None, .. } => "changed: gone".to_owned(),
        CommitError::Missing { .. } => "missing".to_owned(),
        other => other.to_string(),
    }
}

/// A clock that only moves when a test moves it.
#[derive(Clone, Default)]
pub(crate) struct FakeClock(Arc<AtomicU64>);

impl FakeClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(
            u64::try_from(by.as_millis()).expect("a test's time"),
            Ordering::SeqCst,
        );
    }

    pub(crate) fn clock(&self) -> Clock {
        let millis = Arc::clone(&self.0);
        Clock::new(move || {
            SystemTime::UNIX_EPOCH + Duration::from_millis(millis.load(Ordering::SeqCst))
        })
    }
}

pub(crate) fn open(options: &Options) -> TestStore {
    Store::open(options).expect("a store that can be opened")
}

pub(crate) fn try_open(directory: &Path) -> Result<TestStore, OpenError> {
    Store::open(&Options::directory(directory))
}

/// Fills a directory with a store of three objects and some history; returns the objects.
pub(crate) async fn filled(directory: &Path) -> Vec<String> {
    let store = open(&Options::directory(directory));
    for content in ["1", "2", "3"] {
        set(&store, "b", content, &content.repeat(5000)).await;
    }
    let shown = show(&store.current(), "b");
    store.close().await;
    shown
}

/// Environment variables: instructions for a test that runs as a child process, and the duration of long tests.
#[expect(
    clippy::disallowed_methods,
    reason = "a test process has no flags of its own"
)]
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
