//! The store as its callers know it.

use std::sync::{Arc, mpsc};

use tokio::sync::{Semaphore, oneshot};

use crate::{
    CommitError, HealthError, HistoryError, Index, Location, Object, OpenError, Options, Revision,
    Snapshot, Watch, Write,
    engine::Engine,
    record::Record,
    state::State,
    watch::Shared,
    writer::{Compaction, Job, Writer},
};

/// How many writes may wait for the writer; the next ones wait for a permit. Four full transactions:
/// one is being written while the others keep the writer busy, and no write waits longer than that.
const QUEUE: usize = 1024;

/// A revisioned, durable set of objects with its recent past. A clone is another handle on the same
/// store.
///
/// The store is closed by [`Store::close`], or when the last handle is dropped.
pub struct Store<I: Index> {
    shared: Arc<Shared<I>>,
    jobs: mpsc::Sender<Job<I>>,
    permits: Arc<Semaphore>,
}

impl<I: Index> Clone for Store<I> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            jobs: self.jobs.clone(),
            permits: Arc::clone(&self.permits),
        }
    }
}

impl<I: Index> Store<I> {
    /// Opens a store, or makes an empty one where there is none. Reads all of it into memory, so it
    /// may take a while.
    pub fn open(options: &Options) -> Result<Self, OpenError> {
        Self::start(Engine::open(&options.location)?, options)
    }

    /// Loads the content of an engine and starts the writer.
    pub(crate) fn start(engine: Engine, options: &Options) -> Result<Self, OpenError> {
        let header = engine.header()?;
        let mut state = State::empty(header.newest, header.floor);
        for (bucket, dropped) in &header.dropped {
            state.history.set_dropped(bucket, *dropped);
        }
        engine.versions(|revision, record| {
            let record = Record::decode(record)
                .map_err(|error| format!("version {revision} cannot be read: {error}"))?;
            state.restore(revision, &record)
        })?;

        let shared = Arc::new(Shared::new(state));
        let (jobs, queue) = mpsc::channel();
        let writer = Writer {
            shared: Arc::clone(&shared),
            jobs: queue,
            engine,
            history: options.history.clone(),
            sizes: options.sizes.clone(),
            clock: options.clock.clone(),
            serial: header.serial,
            in_doubt: None,
        };
        let thread = std::thread::Builder::new().name("store-writer".to_owned());
        thread
            .spawn(move || writer.run())
            .map_err(|source| OpenError::Io {
                directory: match &options.location {
                    Location::Memory => "memory".into(),
                    Location::Directory(directory) => directory.clone(),
                },
                source,
            })?;
        Ok(Self {
            shared,
            jobs,
            permits: Arc::new(Semaphore::new(QUEUE)),
        })
    }

    /// Commits a write and returns the version that it created, or for a deletion the last state. When this resolves,
    /// the write is on disk and every new snapshot contains it.
    ///
    /// A write whose future is dropped may still be committed.
    pub async fn commit(&self, write: Write) -> Result<Arc<Object<I>>, CommitError<I>> {
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .map_err(|_| CommitError::Closed)?;
        let (answer, outcome) = oneshot::channel();
        self.jobs
            .send(Job::Commit {
                write,
                answer,
                permit,
            })
            .map_err(|_| CommitError::Closed)?;
        outcome.await.unwrap_or(Err(CommitError::Closed))
    }

    /// Whether the writer runs and its last transaction reached the disk.
    ///
    /// After a failure the writer tries again with the next write, and every half minute without one.
    pub fn health(&self) -> Result<(), HealthError> {
        if self.shared.is_closed() {
            return Err(HealthError::Closed);
        }
        match self.shared.failure() {
            None => Ok(()),
            Some(failure) => Err(HealthError::Failing {
                reason: CommitError::<I>::from(failure).to_string(),
            }),
        }
    }

    /// The newest state of all objects. Constant time, without a lock.
    pub fn current(&self) -> Snapshot<I> {
        self.shared.state().snapshot()
    }

    /// All objects as they were at a revision. Takes time in proportion to the number of writes
    /// since.
    pub fn at(&self, revision: Revision) -> Result<Snapshot<I>, HistoryError> {
        self.shared.state().snapshot_at(revision)
    }

    /// The objects of one bucket as they were at a revision. The content of other buckets in the snapshot is
    /// undefined.
    ///
    /// This is [`Store::at`] for callers that need only one bucket: writes to other buckets cost nothing, and a busy
    /// bucket does not shorten the history of a quiet one.
    pub fn at_bucket(&self, bucket: &str, revision: Revision) -> Result<Snapshot<I>, HistoryError> {
        self.shared.state().snapshot_of(bucket, revision)
    }

    /// All events of a bucket after a revision, those that were and those that will be. A revision
    /// the store has not reached is fine: the watch waits until it is passed.
    pub fn watch(&self, bucket: &str, after: Revision) -> Result<Watch<I>, HistoryError> {
        self.shared.state().history.check(bucket, after)?;
        // The watch detects by itself when events are dropped from now on.
        Ok(Watch::new(Arc::clone(&self.shared), bucket.into(), after))
    }

    /// Waits until the store has reached a revision, or is closed.
    pub async fn wait_for(&self, revision: Revision) {
        let mut progress = self.shared.progress();
        // An error means that the store is gone, which is the end of waiting too.
        let _ = progress
            .wait_for(|progress| progress.revision >= revision || progress.closed)
            .await;
    }

    /// The oldest revision [`Store::at`] can show.
    pub fn oldest(&self) -> Revision {
        self.shared.state().history.oldest()
    }

    /// Drops the history before a revision, which becomes the oldest available one. The limits of the history apply
    /// without this call.
    pub async fn compact(&self, oldest: Revision) -> Result<(), CommitError<I>> {
        let (answer, outcome) = oneshot::channel();
        self.jobs
            .send(Job::Compact(Compaction {
                up_to: oldest,
                answer,
            }))
            .map_err(|_| CommitError::Closed)?;
        outcome.await.unwrap_or(Err(CommitError::Closed))
    }

    /// Commits the waiting writes, ends all watches, and releases the directory. Later writes are refused. Reads still
    /// work.
    pub async fn close(self) {
        // An error means that the writer has stopped already.
        let _ = self.jobs.send(Job::Close);
        let mut progress = self.shared.progress();
        let _ = progress.wait_for(|progress| progress.closed).await;
    }
}
