//! The leader at work: while the lease is ours, revisions are initialised as the plan has it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use polity_api::policies::v1::InitializedReason;
use polity_fetch::Digest;
use polity_runtime::lease::Leadership;
use polity_runtime::retry::random;
use polity_runtime::{Clock, Shutdown};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::leader::{Job, Memory, Plan, Tried};
use super::prepare::Preparer;
use super::retry;
use super::revision::{Revision, Revisions, Uid};
use super::serve::sleep_until;
use super::status::{Build, Change, Failure};
use super::store::{Snapshot, Store};
use super::writer::{Writer, Written};

/// How long nothing is begun after a lease turned out to be lost.
const STEPPING_DOWN: Duration = Duration::from_secs(1);

/// What a leader needs.
#[derive(Clone)]
pub(crate) struct LeaderParts {
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) store: Store,
    pub(crate) preparer: Preparer,
    pub(crate) writer: Writer,
    pub(crate) build: Build,
    pub(crate) clock: Clock,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The revision is initialised, or nobody wants that any more.
    Over,
    /// The lease is not ours any more.
    NotOurs,
    /// It failed, and that is written.
    Failed(InitializedReason),
    /// A fault of ours.
    Panicked,
}

impl End {
    /// Why there is no going on after a write.
    fn unless_done(written: Written) -> Option<Self> {
        match written {
            Written::Done => None,
            Written::TooLate => Some(Self::Over),
            Written::NotAllowed => Some(Self::NotOurs),
        }
    }
}

/// Takes part in leading until the shutdown.
pub(crate) async fn run(parts: LeaderParts, shutdown: Shutdown) {
    let mut leadership = parts.leadership.clone();
    let take_part = async {
        loop {
            let leading = |now: &Leadership| matches!(now, Leadership::Leading { .. });
            // The election tells as long as it runs, and it runs longer than we do.
            if leadership.wait_for(leading).await.is_err() {
                std::future::pending::<()>().await;
            }
            let mut term = Term {
                parts: parts.clone(),
                memory: Memory::new(),
                jobs: JoinSet::new(),
            };
            tokio::select! {
                () = term.lead() => {}
                _ = leadership.wait_for(|now| !leading(now)) => {}
            }
            term.jobs.shutdown().await;
        }
    };
    let _: Option<()> = shutdown.run_until(take_part).await;
}

/// One time of leading. Nothing is taken over from the one before.
struct Term {
    parts: LeaderParts,
    memory: Memory,
    jobs: JoinSet<(Uid, End)>,
}

impl Term {
    async fn lead(&mut self) {
        let mut snapshots = self.parts.store.subscribe();
        loop {
            let snapshot = snapshots.borrow_and_update().clone();
            let mut look_again = None;
            if snapshot.is_complete {
                let now = self.parts.clock.moment();
                let plan = Plan::of(&snapshot.revisions, &self.memory, &self.parts.build, now);
                look_again = plan.look_again;
                self.carry_out(plan, &snapshot);
            }
            tokio::select! {
                _ = snapshots.changed() => {}
                Some(ended) = self.jobs.join_next() => {
                    if let Ok((uid, end)) = ended {
                        self.ended(uid, end);
                    }
                }
                () = sleep_until(&self.parts.clock, look_again) => {}
            }
        }
    }

    fn carry_out(&mut self, plan: Plan, snapshot: &Snapshot) {
        for job in plan.begin {
            let Some(revision) = snapshot.revisions.get(&job.uid).cloned() else {
                continue;
            };
            let earlier = earlier(&revision, &snapshot.revisions);
            self.spawn(job.uid.clone(), |parts| {
                parts.initialize(job, revision, earlier)
            });
        }
        for (uid, why) in plan.condemn {
            warn!(revision_uid = %uid, reason = %why.reason, "given up");
            let key = uid.clone();
            self.spawn(uid, |parts| async move { parts.fail(&key, why).await });
        }
    }

    fn spawn<F>(&mut self, uid: Uid, job: impl FnOnce(LeaderParts) -> F)
    where
        F: Future<Output = End> + Send + 'static,
    {
        let before = self.memory.get(&uid).copied();
        let job = AssertUnwindSafe(job(self.parts.clone())).catch_unwind();
        self.working(&uid, before);
        self.jobs
            .spawn(async move { (uid, job.await.unwrap_or(End::Panicked)) });
    }

    fn working(&mut self, uid: &Uid, before: Option<Tried>) {
        let n = match before {
            Some(Tried::Failed { n, .. } | Tried::Working { n }) => n,
            None => 0,
        };
        self.memory.insert(uid.clone(), Tried::Working { n });
    }

    fn ended(&mut self, uid: Uid, end: End) {
        let n = match self.memory.remove(&uid) {
            Some(Tried::Working { n }) => n + 1,
            _ => 1,
        };
        let delay = match end {
            End::Over => None,
            // The election has not said so yet. It will.
            End::NotOurs => Some(STEPPING_DOWN),
            End::Failed(reason) => retry::after(reason, n, random()),
            End::Panicked => Some(retry::backoff(n, random())),
        };
        if let Some(delay) = delay {
            let again = self.parts.clock.moment() + delay;
            self.memory.insert(uid, Tried::Failed { n, again });
        }
    }
}

/// The generation that a revision brings back, if it is still there.
fn earlier(revision: &Revision, revisions: &Revisions) -> Option<Arc<Revision>> {
    let generation = revision.rollback_of?;
    let mut others = revisions.values();
    others
        .find(|other| other.policy_uid == revision.policy_uid && other.generation == generation)
        .cloned()
}

impl LeaderParts {
    /// One revision, from its references to modules in the cache and settings that were accepted.
    async fn initialize(
        self,
        job: Job,
        revision: Arc<Revision>,
        earlier: Option<Arc<Revision>>,
    ) -> End {
        let begins = Change::Begins {
            attempt: job.attempt,
            by: self.build.clone(),
        };
        if job.is_first
            && let Some(end) = End::unless_done(self.write(&job.uid, &begins).await)
        {
            return end;
        }
        info!(
            revision = revision.name(),
            attempt = job.attempt,
            "initialising"
        );
        let gathered = match self.preparer.gather(&revision, earlier.as_deref()).await {
            Ok(gathered) => gathered,
            Err(trouble) => return self.fail(&job.uid, trouble.initialized()).await,
        };
        if !job.is_first
            && let Some(end) = End::unless_done(self.write(&job.uid, &begins).await)
        {
            return end;
        }
        let digests = gathered.digests();
        let end = match self.preparer.initialize(&revision, gathered).await {
            Ok(modules) => {
                let change = Change::Initialized {
                    modules,
                    by: self.build.clone(),
                };
                let written = self.write(&job.uid, &change).await;
                info!(revision = revision.name(), ?written, "initialised");
                End::unless_done(written).unwrap_or(End::Over)
            }
            Err(trouble) => self.fail(&job.uid, trouble.initialized()).await,
        };
        self.forget_unused(&digests);
        end
    }

    async fn fail(&self, uid: &Uid, why: Failure) -> End {
        let reason = why.reason;
        warn!(revision_uid = %uid, %reason, message = why.message, "not initialised");
        let change = Change::NotInitialized {
            why,
            by: self.build.clone(),
        };
        let written = self.write(uid, &change).await;
        End::unless_done(written).unwrap_or(End::Failed(reason))
    }

    /// Writes as long as the lease is ours.
    async fn write(&self, uid: &Uid, change: &Change) -> Written {
        let leads = || self.leadership.borrow().leads_at(self.clock.moment());
        self.writer.write(uid, change, leads).await
    }

    /// What came of it may be that nobody uses these.
    fn forget_unused(&self, digests: &[Digest]) {
        let snapshot = self.store.subscribe().borrow().clone();
        let used: Vec<Digest> = snapshot
            .revisions
            .values()
            .filter(|revision| revision.is_enabled)
            .flat_map(|revision| revision.modules())
            .filter_map(|module| module.digest.parse().ok())
            .collect();
        let unused = digests.iter().filter(|digest| !used.contains(digest));
        self.preparer.modules.forget(unused);
    }
}
