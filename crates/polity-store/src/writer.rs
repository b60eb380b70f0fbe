//! The only thread that writes: it takes the waiting writes, checks them in order, makes them durable in one
//! transaction, and then publishes them.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tracing::{error, warn};

use crate::{
    Clock, CommitError, Event, HistoryLimits, Index, Object, Revision, SizeLimits, Write,
    engine::{Engine, Failure, Transaction},
    record::Record,
    state::State,
    watch::Shared,
};

/// The maximum number of writes in a transaction, so that the first one does not wait too long.
const MOST_WRITES: usize = 256;
/// And at most about this many bytes of them.
const MOST_BYTES: usize = 16 << 20;
/// A transaction drops at most this many events, so that a compaction after a long pause does not
/// hold up writes.
const MOST_DROPPED: usize = 1024;
/// How often the writer drops events that are too old when there are no writes.
const IDLE: Duration = Duration::from_secs(30);

pub(crate) type ReplySender<I> = oneshot::Sender<Result<Arc<Object<I>>, CommitError<I>>>;

/// A request to drop the history up to a revision.
pub(crate) struct Compaction<I> {
    pub(crate) up_to: Revision,
    pub(crate) answer: oneshot::Sender<Result<(), CommitError<I>>>,
}

/// A request to the writer.
pub(crate) enum Job<I> {
    Commit {
        write: Write,
        answer: ReplySender<I>,
        permit: OwnedSemaphorePermit,
    },
    Compact(Compaction<I>),
    Close,
}

pub(crate) struct Writer<I: Index> {
    pub(crate) shared: Arc<Shared<I>>,
    pub(crate) jobs: mpsc::Receiver<Job<I>>,
    pub(crate) engine: Engine,
    pub(crate) history: HistoryLimits,
    pub(crate) sizes: SizeLimits,
    pub(crate) clock: Clock,
    /// The number of the last transaction.
    pub(crate) serial: u64,
    /// A failed transaction that may or may not be on disk.
    pub(crate) in_doubt: Option<Staged<I>>,
}

/// A state that is to be made durable and then published.
pub(crate) struct Staged<I> {
    serial: u64,
    state: State<I>,
    events: Vec<Arc<Event<I>>>,
}

/// The writes and other jobs of one transaction.
struct Batch<I> {
    writes: Vec<(Write, ReplySender<I>, OwnedSemaphorePermit)>,
    compact: Option<Compaction<I>>,
    closing: bool,
}

impl<I: Index> Writer<I> {
    pub(crate) fn run(mut self) {
        let mut wait = IDLE;
        loop {
            let batch = match self.jobs.recv_timeout(wait) {
                Ok(job) => self.gather(job),
                Err(RecvTimeoutError::Timeout) => Batch::new(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let closing = batch.closing;
            let n_dropped = self.work(batch);
            if closing {
                return;
            }
            // There may be more to drop. A new write takes precedence.
            wait = if n_dropped >= MOST_DROPPED {
                Duration::ZERO
            } else {
                IDLE
            };
        }
    }

    /// Takes the waiting writes. It does not wait for more: a delay of some microseconds, for the writers of the last
    /// transaction to write again, had no measurable benefit.
    fn gather(&self, first: Job<I>) -> Batch<I> {
        let mut batch = Batch::new();
        let mut n_bytes = batch.add(first);
        while !batch.is_complete() && n_bytes < MOST_BYTES {
            let Ok(job) = self.jobs.try_recv() else { break };
            n_bytes += batch.add(job);
        }
        batch
    }

    /// Processes a batch, and returns how many events left the history.
    fn work(&mut self, batch: Batch<I>) -> usize {
        let Batch {
            writes,
            compact,
            closing,
        } = batch;
        // After a failure, an empty transaction finds out whether the store works again.
        let is_probe =
            writes.is_empty() && compact.is_none() && !closing && self.shared.failure().is_some();
        if let Err(failure) = self.settle() {
            self.shared.set_failure(Some(failure.clone()));
            refuse(
                writes.into_iter().map(|(_, answer, _)| answer),
                compact,
                &failure,
            );
            return 0;
        }
        let mut state = State::clone(&self.shared.state());
        let now = self.clock.now_millis();
        let mut events = Vec::with_capacity(writes.len());
        let mut answers = Vec::with_capacity(writes.len());
        // The permits are released with the responses, which bounds the queue.
        let mut permits = Vec::with_capacity(writes.len());
        for (write, answer, permit) in writes {
            let outcome = state.apply(write, now, &self.sizes);
            events.extend(outcome.as_ref().ok().map(Arc::clone));
            answers.push((answer, outcome.map(|event| Arc::clone(&event.object))));
            permits.push(permit);
        }
        let mut gone = state.history.enforce(&self.history, now, MOST_DROPPED);
        if let Some(compact) = &compact {
            gone.extend(state.history.forget(compact.up_to.min(state.revision)));
        }
        let is_change = !events.is_empty() || !gone.is_empty() || compact.is_some();
        if (is_change || is_probe)
            && let Err(failure) = self.commit(state, events, &gone)
        {
            // This includes refused writes, because the state that they were checked against was not committed.
            refuse(
                answers.into_iter().map(|(answer, _)| answer),
                compact,
                &failure,
            );
            return 0;
        }
        for (answer, outcome) in answers {
            // The caller may have stopped waiting.
            let _ = answer.send(outcome);
        }
        if let Some(compact) = compact {
            let _ = compact.answer.send(Ok(()));
        }
        gone.len()
    }

    /// Makes a state durable and shows it.
    fn commit(
        &mut self,
        state: State<I>,
        events: Vec<Arc<Event<I>>>,
        gone: &[Arc<Event<I>>],
    ) -> Result<(), Failure> {
        let staged = Staged {
            serial: self.serial + 1,
            state,
            events,
        };
        let Err(failure) = self.engine.commit(&staged.transaction(gone)) else {
            self.publish(staged);
            self.shared.set_failure(None);
            return Ok(());
        };
        // The transaction may have reached the disk before the failure, so check the disk.
        let serial = staged.serial;
        self.in_doubt = Some(staged);
        match self.settle() {
            Ok(()) if self.serial == serial => {
                self.shared.set_failure(None);
                Ok(())
            }
            Ok(()) => {
                self.shared.set_failure(Some(failure.clone()));
                Err(failure)
            }
            Err(again) => {
                self.shared.set_failure(Some(failure.clone()));
                warn!(
                    ?failure,
                    ?again,
                    "reopening the store after a failed write failed"
                );
                Err(failure)
            }
        }
    }

    /// After a failure: opens the engine again, and adopts the transaction in doubt if it is on disk.
    fn settle(&mut self) -> Result<(), Failure> {
        if let Some(serial) = self.engine.recover()? {
            match self.in_doubt.take() {
                Some(staged) if staged.serial == serial => self.publish(staged),
                _ => {}
            }
        }
        Ok(())
    }

    fn publish(&mut self, staged: Staged<I>) {
        self.serial = staged.serial;
        let buckets: BTreeSet<_> = staged
            .events
            .iter()
            .map(|event| Arc::clone(&event.object.key.bucket))
            .collect();
        self.shared.publish(staged.state, &buckets);
    }
}

impl<I: Index> Drop for Writer<I> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            error!("store writer panicked");
        }
        // Release the directory before the callers are notified.
        self.engine = Engine::Memory;
        self.shared.close();
    }
}

impl<I> Staged<I> {
    fn transaction(&self, gone: &[Arc<Event<I>>]) -> Transaction {
        let history = &self.state.history;
        let buckets: BTreeSet<_> = gone.iter().map(|event| &event.object.key.bucket).collect();
        Transaction {
            serial: self.serial,
            newest: self.state.revision,
            floor: history.floor(),
            put: self
                .events
                .iter()
                .map(|event| (event.revision, encode(event)))
                .collect(),
            remove: gone.iter().flat_map(|event| garbage(event)).collect(),
            dropped: buckets
                .into_iter()
                .map(|bucket| (Arc::clone(bucket), history.dropped(bucket)))
                .collect(),
        }
    }
}

impl<I> Batch<I> {
    fn new() -> Self {
        Self {
            writes: Vec::new(),
            compact: None,
            closing: false,
        }
    }

    /// Adds a job and returns how many bytes it will write.
    fn add(&mut self, job: Job<I>) -> usize {
        match job {
            Job::Commit {
                write,
                answer,
                permit,
            } => {
                let (crate::Change::Put(payload) | crate::Change::Delete(payload)) = &write.change;
                let n_bytes = payload.len();
                self.writes.push((write, answer, permit));
                return n_bytes;
            }
            Job::Compact(compact) => self.compact = Some(compact),
            Job::Close => self.closing = true,
        }
        0
    }

    /// A compaction follows all earlier writes, so it is the last job of its batch.
    fn is_complete(&self) -> bool {
        self.closing || self.compact.is_some() || self.writes.len() >= MOST_WRITES
    }
}

/// The versions that are not needed once an event has left the history: the one it replaced, and its own
/// if it removed the object. Otherwise its own is the live object or the one a later event
/// replaced.
fn garbage<I>(event: &Event<I>) -> impl Iterator<Item = Revision> {
    let replaced = event.previous.as_ref().map(|previous| previous.revision);
    replaced
        .into_iter()
        .chain(event.deleted.then_some(event.revision))
}

fn encode<I>(event: &Event<I>) -> Vec<u8> {
    let Object {
        key,
        bytes,
        created,
        ..
    } = &*event.object;
    let record = Record {
        deleted: event.deleted,
        at_millis: event.at_millis,
        created: *created,
        previous: event.previous.as_ref().map(|previous| previous.revision),
        bucket: &key.bucket,
        namespace: &key.namespace,
        name: &key.name,
        bytes,
    };
    record.encode()
}

fn refuse<I>(
    answers: impl Iterator<Item = ReplySender<I>>,
    compact: Option<Compaction<I>>,
    failure: &Failure,
) {
    for answer in answers {
        let _ = answer.send(Err(failure.clone().into()));
    }
    if let Some(compact) = compact {
        let _ = compact.answer.send(Err(failure.clone().into()));
    }
}
