//! Writes changes to the status of revisions: on conflict it re-reads and retries, on failure it backs off.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Client;
use polity_api::policies::v1::PolicyRevision;
use polity_reconcile::{Term, WriteError, WriteOutcome, Writer};
use polity_runtime::Clock;
use polity_runtime::retry::{Backoff, random};
use tracing::{debug, warn};

use crate::managed::revision::Uid;
use crate::managed::revision::store::Store;
use crate::managed::status::Change;

/// The field manager of status entries.
const MANAGER: &str = "polity/policy-server";

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// The status has the change.
    Done,
    /// The revision is deleted or disabled, so the change no longer matters.
    TooLate,
    /// This replica may no longer write: it lost the lease.
    NotAllowed,
}

/// Writes the status of revisions.
#[derive(Clone)]
pub(crate) struct StatusWriter {
    writer: Writer<PolicyRevision>,
    store: Store,
    clock: Clock,
}

impl StatusWriter {
    pub(crate) fn new(client: &Client, store: Store, clock: Clock) -> Self {
        Self {
            writer: Writer::new(client, MANAGER),
            store,
            clock,
        }
    }

    /// Writes a change, and fails if the API server does not answer.
    pub(crate) async fn try_write(
        &self,
        uid: &Uid,
        change: &Change,
    ) -> Result<Written, WriteError> {
        let Some(revision) = self.store.get(uid) else {
            return Ok(Written::TooLate);
        };
        let now = self.clock.now();
        let is_too_late = AtomicBool::new(false);
        let next = |object: &PolicyRevision| {
            if !object.spec.enabled || object.metadata.deletion_timestamp.is_some() {
                is_too_late.store(true, Ordering::Relaxed);
                return None;
            }
            change.applied(object.status.as_ref(), object.spec.policy_generation, now)
        };
        let writer = &self.writer;
        match writer
            .change_status(&self.clock, &*revision.object, next)
            .await
        {
            Ok(WriteOutcome::Written(object)) => {
                debug!(revision = revision.name(), ?change, "status written");
                self.store.note(object);
                Ok(Written::Done)
            }
            Ok(WriteOutcome::Unchanged) if is_too_late.load(Ordering::Relaxed) => {
                Ok(Written::TooLate)
            }
            Ok(WriteOutcome::Unchanged) => Ok(Written::Done),
            Err(WriteError::NotFound { .. }) => Ok(Written::TooLate),
            Err(error) => Err(error),
        }
    }

    /// Writes a change, with retries until it succeeds.
    pub(crate) async fn write(&self, uid: &Uid, change: &Change) -> Written {
        self.write_while(uid, change, || true).await
    }

    /// Writes a change, with retries until it succeeds or the term ends. The client must be guarded by the term.
    pub(crate) async fn write_in(&self, term: &Term, uid: &Uid, change: &Change) -> Written {
        self.write_while(uid, change, || term.is_current()).await
    }

    async fn write_while(&self, uid: &Uid, change: &Change, may: impl Fn() -> bool) -> Written {
        let mut failures = Backoff::new(Duration::from_secs(1), Duration::from_mins(1), random);
        while may() {
            match self.try_write(uid, change).await {
                Ok(written) => return written,
                Err(_) if !may() => break,
                Err(error) => {
                    warn!(
                        revision_uid = %uid,
                        error = &error as &dyn Error,
                        "status write failed, retrying"
                    );
                }
            }
            self.clock.sleep(failures.next().unwrap_or_default()).await;
        }
        Written::NotAllowed
    }
}
