//! Runs the leader: while this replica holds the lease, it initialises revisions as planned.

pub(super) mod attempts;
pub(super) mod plan;

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

use crate::managed::leader::attempts::Attempts;
use crate::managed::leader::plan::{Job, Memory, Now, Plan, Tried, View};
use crate::managed::prepare::Preparer;
use crate::managed::replica::sleep_until;
use crate::managed::retry;
use crate::managed::revision::store::{Snapshot, Store};
use crate::managed::revision::{Revision, Revisions, Uid};
use crate::managed::status::writer::{Writer, Written};
use crate::managed::status::{Attempt, Build, Change, Failure};

/// How long nothing is begun after a lease turned out to be lost.
const STEPPING_DOWN: Duration = Duration::from_secs(1);
/// How long an orderly end waits for attempts to be taken back in the status. What is not written then is left to the
/// next process of this pod.
const WITHDRAWAL: Duration = Duration::from_secs(2);

/// What a leader needs.
#[derive(Clone)]
pub(crate) struct LeaderParts {
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) store: Store,
    pub(crate) preparer: Preparer,
    pub(crate) writer: Writer,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) build: Build,
    pub(crate) clock: Clock,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The revision is initialised, gone or disabled.
    Over,
    /// Another replica holds the lease.
    NotOurs,
    /// It failed, and the status says so.
    Failed(InitializedReason),
    /// A defect of this program.
    Panicked,
}

impl End {
    /// The end of the job, unless the write was done.
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
            tokio::select! {
                is_open = async { leadership.wait_for(leading).await.is_ok() } => {
                    // The election runs longer than this task.
                    if !is_open {
                        std::future::pending::<()>().await;
                    }
                }
                () = parts.keep_withdrawing() => {}
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
    tokio::select! {
        () = parts.withdraw() => {}
        () = parts.clock.sleep(WITHDRAWAL) => {}
    }
}

/// One term as the leader. It takes over nothing from the one before.
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
                let plan = Plan::of(View {
                    revisions: &snapshot.revisions,
                    memory: &self.memory,
                    crashes: &self.parts.attempts.crashes,
                    build: &self.parts.build,
                    now: Now::of(&self.parts.clock),
                });
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
        for (uid, crashed) in plan.give_up {
            let (n_crashes, next) = (crashed.n_crashes, crashed.next);
            warn!(revision_uid = %uid, n_crashes, %next, "initialization given up after crashes");
            let key = uid.clone();
            self.spawn(uid, |parts| async move {
                let by = parts.build.clone();
                let written = parts.write(&key, &Change::Crashed { crashed, by }).await;
                End::unless_done(written).unwrap_or(End::Over)
            });
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
            // The election reports it soon.
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
            attempt: Attempt {
                n: job.attempt,
                holder: self.attempts.holder.clone(),
                withdrawn: job.withdrawn,
            },
            by: self.build.clone(),
        };
        // The note comes before the status, so that a crash right after the write leaves both.
        let note = |is_due: bool| is_due.then(|| self.attempts.note(&job.uid)).flatten();
        let first_note = note(job.is_first);
        if job.is_first
            && let Some(end) = End::unless_done(self.write(&job.uid, &begins).await)
        {
            return end;
        }
        info!(
            revision = revision.name(),
            attempt = job.attempt,
            "initializing"
        );
        let gathered = match self.preparer.gather(&revision, earlier.as_deref()).await {
            Ok(gathered) => gathered,
            Err(trouble) => return self.fail(&job.uid, trouble.initialized()).await,
        };
        let note = first_note.or_else(|| note(!job.is_first));
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
                info!(revision = revision.name(), ?written, "initialized");
                End::unless_done(written).unwrap_or(End::Over)
            }
            Err(trouble) => self.fail(&job.uid, trouble.initialized()).await,
        };
        if let (Some(note), End::Over | End::Failed(_)) = (note, end) {
            note.has_result();
        }
        self.forget_unused(&digests);
        end
    }

    /// Takes back attempts of this pod that are no crashes, for as long as this replica does not lead. The plan of a
    /// leader ignores them.
    async fn keep_withdrawing(&self) {
        let mut snapshots = self.store.subscribe();
        loop {
            snapshots.mark_unchanged();
            self.withdraw().await;
            if snapshots.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Takes back attempts of this pod that are no crashes. These are the pod's own entries: no lease is needed.
    async fn withdraw(&self) {
        let snapshot = self.store.subscribe().borrow().clone();
        let stale = snapshot.revisions.values().filter_map(|revision| {
            let holders = self.attempts.crashes.stale(revision);
            (!holders.is_empty()).then(|| (revision.uid.clone(), Change::Withdrawn { holders }))
        });
        let writes = stale.map(|(uid, change)| async move {
            let written = self.writer.write(&uid, &change, || true).await;
            info!(revision_uid = %uid, ?written, "attempt withdrawn");
        });
        futures::future::join_all(writes).await;
    }

    async fn fail(&self, uid: &Uid, why: Failure) -> End {
        let reason = why.reason;
        warn!(revision_uid = %uid, %reason, message = why.message, "initialization failed");
        let change = Change::NotInitialized {
            why,
            by: self.build.clone(),
        };
        let written = self.write(uid, &change).await;
        End::unless_done(written).unwrap_or(End::Failed(reason))
    }

    /// Writes as long as this replica holds the lease.
    async fn write(&self, uid: &Uid, change: &Change) -> Written {
        let leads = || self.leadership.borrow().leads_at(self.clock.moment());
        self.writer.write(uid, change, leads).await
    }

    /// Releases those of these modules that no revision uses.
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
