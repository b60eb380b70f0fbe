//! Every single disk operation fails in turn. The acknowledged writes must equal the stored ones.

use std::{
    fs::OpenOptions,
    io,
    ops::Bound,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use redb::{BackendError, Database, StorageBackend, backends::FileBackend};

use crate::{
    Change, CommitError, Expect, HealthError, HistoryLimits, Key, Options, Payload, Revision,
    Store, Write,
    engine::{Disk, Engine},
};

/// Which operations of a disk fail: after `countdown` more the next `failures` do.
#[derive(Debug)]
struct Faults {
    countdown: AtomicI64,
    failures: AtomicI64,
    /// Whether an operation that fails is done nevertheless.
    done: bool,
}

impl Faults {
    fn none(done: bool) -> Self {
        Self {
            countdown: AtomicI64::new(0),
            failures: AtomicI64::new(0),
            done,
        }
    }

    fn operation(&self, operation: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self.countdown.fetch_sub(1, Ordering::SeqCst) > 0
            || self.failures.fetch_sub(1, Ordering::SeqCst) <= 0
        {
            return operation();
        }
        if self.done {
            operation()?;
        }
        Err(io::ErrorKind::StorageFull.into())
    }

    fn arm(&self, countdown: i64, failures: i64) {
        self.failures.store(failures, Ordering::SeqCst);
        self.countdown.store(countdown, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct FaultyBackend {
    file: FileBackend,
    faults: Arc<Faults>,
}

impl StorageBackend for FaultyBackend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.operation(|| self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        // No power fails in this test, so nothing needs to reach the disk itself.
        self.faults.operation(|| Ok(()))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.faults.operation(|| self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}

fn open(directory: &Path, faults: &Arc<Faults>) -> Store<()> {
    let history = HistoryLimits {
        per_bucket: 6,
        at_least: 2,
        ..HistoryLimits::default()
    };
    let options = Options {
        history,
        ..Options::directory(directory)
    };
    let faults = Arc::clone(faults);
    let open_database = move |file: &Path| {
        let file = FileBackend::new(OpenOptions::new().read(true).write(true).open(file)?)?;
        Database::builder().create_with_backend(FaultyBackend {
            file,
            faults: Arc::clone(&faults),
        })
    };
    let disk = Disk::open_with(directory, Box::new(open_database), Arc::default())
        .expect("a working disk");
    Store::start(Engine::Disk(disk), &options).expect("a working disk")
}

#[tokio::test]
async fn health_is_that_of_the_last_transaction() {
    let root = tempfile::tempdir().expect("a directory");
    let faults = Arc::new(Faults::none(false));
    let store = open(root.path(), &faults);
    let put = |name: &str| Write {
        key: Key::new("b", "ns", name),
        expect: Expect::Absent,
        change: Change::Put(Payload::default()),
    };
    assert_eq!(store.health(), Ok(()));
    faults.arm(0, 1);
    store
        .commit(put("refused"))
        .await
        .expect_err("the disk is full");
    let health = store.health();
    assert!(
        matches!(&health, Err(HealthError::Failing { reason }) if reason.contains("no space left")),
        "{health:?}"
    );
    store.commit(put("kept")).await.expect("there is space");
    assert_eq!(store.health(), Ok(()));
    store.clone().close().await;
    assert_eq!(store.health(), Err(HealthError::Closed));
}

/// All objects, and all events that are kept, by name and revision.
fn show(store: &Store<()>) -> (Revision, Vec<String>, Vec<String>) {
    let snapshot = store.current();
    let objects = snapshot.range("b", None, None);
    let objects = objects
        .map(|object| format!("{}@{}", object.key, object.revision))
        .collect();
    let mut watch = store
        .watch("b", store.oldest())
        .expect("the oldest revision");
    let events = std::iter::from_fn(|| watch.try_next().expect("the history is complete"));
    let events = events
        .map(|event| format!("{}@{}", event.object.key, event.revision))
        .collect();
    (snapshot.revision(), objects, events)
}

/// The results of the writes of a run.
#[derive(Default, Debug)]
struct Tally {
    refused: usize,
    /// Refused but stored, because the disk could not be read at that time.
    adopted: usize,
}

/// Puts or deletes an object of 2 kB.
async fn write(store: &Store<()>, name: &str, deletes: bool) -> Result<(), CommitError<()>> {
    let payload = Payload {
        before: vec![b'x'; 2000],
        after: Vec::new(),
    };
    let change = if deletes {
        Change::Delete(payload)
    } else {
        Change::Put(payload)
    };
    let key = Key::new("b", "ns", name);
    store
        .commit(Write {
            key,
            expect: Expect::Anything,
            change,
        })
        .await
        .map(drop)
}

/// Creates a store with content. Each run starts with a copy of it, which is faster.
async fn prepare(directory: &Path) {
    let store = open(directory, &Arc::new(Faults::none(false)));
    for name in ["early0", "early1", "early2", "early3"] {
        write(&store, name, false).await.expect("a working disk");
    }
    store.close().await;
}

async fn run(prepared: &Path, countdown: i64, failures: i64, done: bool) -> Tally {
    let case = format!("{failures} failures after {countdown} operations, done: {done}");
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::copy(
        prepared.join("store.redb"),
        directory.path().join("store.redb"),
    )
    .expect("a copy of the prepared store");
    let faults = Arc::new(Faults::none(done));
    let store = open(directory.path(), &faults);

    faults.arm(countdown, failures);
    let (mut kept, mut refused) = (Vec::new(), Vec::new());
    for number in 0..8 {
        let name = format!("o{number}");
        match write(&store, &name, false).await {
            Ok(()) => kept.push(name),
            Err(CommitError::Full { .. }) => refused.push(name),
            Err(error) => panic!("{case}: {error}"),
        }
    }
    faults.arm(0, 0);
    write(&store, "early0", true)
        .await
        .unwrap_or_else(|error| panic!("{case}: {error}"));
    write(&store, "late", false)
        .await
        .unwrap_or_else(|error| panic!("{case}: {error}"));

    let exists = |name: &String| store.current().get(&Key::new("b", "ns", &**name)).is_some();
    assert!(
        kept.iter().all(exists),
        "{case}: an acknowledged write is gone"
    );
    let adopted = refused.iter().filter(|name| exists(name)).count();
    let shown = show(&store);
    store.clone().close().await;
    let reopened = open(directory.path(), &faults);
    assert_eq!(show(&reopened), shown, "{case}: memory and disk differ");
    reopened.close().await;
    Tally {
        refused: refused.len(),
        adopted,
    }
}

#[tokio::test]
async fn a_write_is_there_exactly_if_it_was_acknowledged() {
    let prepared = tempfile::tempdir().expect("a temporary directory");
    prepare(prepared.path()).await;
    let mut total = Tally::default();
    for countdown in 0..50 {
        for done in [false, true] {
            let tally = run(prepared.path(), countdown, 1, done).await;
            assert_eq!(
                tally.adopted, 0,
                "the disk could be asked, so no write was in doubt"
            );
            total.refused += tally.refused;
            for failures in [2, i64::MAX] {
                let tally = run(prepared.path(), countdown, failures, done).await;
                total.refused += tally.refused;
                total.adopted += tally.adopted;
                assert!(tally.adopted <= 1, "only one transaction can be in doubt");
            }
        }
    }
    assert!(
        total.refused > 100 && total.adopted > 0,
        "the failures were not where they hurt: {total:?}"
    );
}
