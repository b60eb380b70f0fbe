//! Writes what this replica reports in its `Ready` conditions. A report that cannot be written is retried, and the last
//! report about a revision is the one that is written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polity_reconcile::{Controller, FailureBackoff, Queue, Requeue, Term, WriteError};
use tokio::sync::watch;

use crate::managed::revision::Uid;
use crate::managed::status::writer::StatusWriter;
use crate::managed::status::{Change, ReadyReport};

/// The delays between the attempts to write a report.
pub(crate) const BACKOFF: FailureBackoff = FailureBackoff {
    initial: Duration::from_secs(1),
    max: Duration::from_mins(1),
};
/// How many reports are written at once: a request that hangs must not delay all others.
pub(crate) const AT_ONCE: usize = 16;

/// The reports that are not written yet. Clones share them.
#[derive(Clone)]
pub(crate) struct Reports {
    /// The ordinal of this replica.
    replica: i32,
    writer: StatusWriter,
    due: Arc<Mutex<BTreeMap<Uid, ReadyReport>>>,
    n_due: Arc<watch::Sender<usize>>,
    queue: Queue<Uid>,
}

impl Reports {
    /// Reports that the workers of this controller write; see [`Self::run`].
    pub(crate) fn new(replica: i32, writer: StatusWriter, controller: &Controller<Uid>) -> Self {
        Self {
            replica,
            writer,
            due: Arc::default(),
            n_due: Arc::new(watch::Sender::new(0)),
            queue: controller.queue(),
        }
    }

    /// Writes reports until the term ends.
    pub(crate) async fn run(self, controller: Controller<Uid>, term: Term) {
        let write = move |uid| {
            let reports = self.clone();
            async move { reports.write(uid).await }
        };
        controller.run(&term, write).await;
    }

    /// Sets what is to be written about a revision, in place of an earlier report that is not written yet.
    pub(crate) fn set(&self, uid: Uid, report: ReadyReport) {
        let is_new = {
            let mut due = self.due();
            let before = due.insert(uid.clone(), report.clone());
            self.n_due.send_replace(due.len());
            before.is_none_or(|before| before != report)
        };
        if is_new {
            self.queue.add(uid);
        }
    }

    /// Drops the report about a revision, which is unloaded.
    pub(crate) fn drop_report(&self, uid: &Uid) {
        let mut due = self.due();
        due.remove(uid);
        self.n_due.send_replace(due.len());
    }

    /// Waits until all reports are written.
    pub(crate) async fn written(&self) {
        let mut n_due = self.n_due.subscribe();
        // The sender lives as long as this handle.
        let _ = n_due.wait_for(|n| *n == 0).await;
    }

    async fn write(&self, uid: Uid) -> Result<Requeue, WriteError> {
        let Some(report) = self.due().get(&uid).cloned() else {
            return Ok(Requeue::Never);
        };
        let change = Change::Ready {
            replica: self.replica,
            report: report.clone(),
        };
        self.writer.try_write(&uid, &change).await?;
        // A newer report has queued the revision again.
        let mut due = self.due();
        if due.get(&uid) == Some(&report) {
            due.remove(&uid);
            self.n_due.send_replace(due.len());
        }
        Ok(Requeue::Never)
    }

    fn due(&self) -> MutexGuard<'_, BTreeMap<Uid, ReadyReport>> {
        // Every change of the map is complete or has not begun.
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
