//! Writes changes of status until they stand, whoever else writes, and without holding up anybody.

use std::time::Duration;

use kube::Api;
use kube::api::PostParams;
use polity_api::policies::v1::PolicyRevision;
use polity_runtime::Clock;
use polity_runtime::retry::{Backoff, random};
use tracing::{debug, warn};

use crate::managed::revision::store::Store;
use crate::managed::revision::{Revision, Uid};
use crate::managed::status::Change;

/// What came of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// The status says so.
    Done,
    /// The revision is gone, or disabled: nobody wants to know any more.
    TooLate,
    /// We may no longer write it.
    NotAllowed,
}

/// Writes into the status of revisions.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) api: Api<PolicyRevision>,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
}

/// What one try came to.
enum Tried {
    Over(Written),
    /// Somebody else was quicker, and this is what they wrote.
    Conflict,
    Failed(kube::Error),
}

impl Writer {
    /// Writes a change, trying as long as it takes. `may` is asked right before each try.
    pub(crate) async fn write(
        &self,
        uid: &Uid,
        change: &Change,
        may: impl Fn() -> bool,
    ) -> Written {
        let mut conflicts = conflicts();
        let mut failures = Backoff::new(Duration::from_secs(1), Duration::from_mins(1), random);
        loop {
            let Some(revision) = self.store.get(uid) else {
                return Written::TooLate;
            };
            let delay = match self.attempt(&revision, change, &may).await {
                Tried::Over(written) => return written,
                Tried::Conflict => conflicts.next(),
                Tried::Failed(error) => {
                    warn!(
                        revision = revision.name(),
                        error = &error as &dyn std::error::Error,
                        "a status cannot be written, trying again"
                    );
                    conflicts = self::conflicts();
                    failures.next()
                }
            };
            self.clock.sleep(delay.unwrap_or_default()).await;
        }
    }

    async fn attempt(&self, revision: &Revision, change: &Change, may: impl Fn() -> bool) -> Tried {
        if !revision.is_enabled {
            return Tried::Over(Written::TooLate);
        }
        let generation = revision.object.spec.policy_generation;
        let status = change.applied(revision.status(), generation, self.clock.now());
        let Some(status) = status else {
            return Tried::Over(Written::Done);
        };
        if !may() {
            return Tried::Over(Written::NotAllowed);
        }
        let mut object = PolicyRevision::clone(&revision.object);
        object.status = Some(status);
        let name = revision.name();
        match self
            .api
            .replace_status(name, &PostParams::default(), &object)
            .await
        {
            Ok(object) => {
                debug!(revision = name, ?change, "status written");
                self.store.note(object);
                Tried::Over(Written::Done)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => self.read_again(revision).await,
            Err(kube::Error::Api(status)) if status.code == 404 => Tried::Over(Written::TooLate),
            Err(error) => Tried::Failed(error),
        }
    }

    /// The watch may take a while to show what we ran into.
    async fn read_again(&self, revision: &Revision) -> Tried {
        match self.api.get_opt(revision.name()).await {
            Ok(Some(object)) if object.metadata.uid.as_deref() == Some(revision.uid.as_str()) => {
                self.store.note(object);
                Tried::Conflict
            }
            // Another one of the same name.
            Ok(Some(_) | None) => Tried::Over(Written::TooLate),
            Err(error) => Tried::Failed(error),
        }
    }
}

/// With as many writers as replicas, those who met come back at different times.
fn conflicts() -> Backoff<fn() -> f64> {
    Backoff::new(Duration::from_millis(20), Duration::from_secs(1), random)
}
