//! Runs the leader: while this replica holds the lease, it initialises revisions as planned.

pub(super) mod attempts;
pub(super) mod plan;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use kube::Client;
use polity_api::policies::v1::InitializedReason;
use polity_fetch::Digest;
use polity_reconcile::{LeaderElection, Term};
use polity_runtime::lease::BadTiming;
use polity_runtime::retry::random;
use polity_runtime::{Clock, Shutdown};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::managed::cache::upkeep::Upkeep;
use crate::managed::leader::attempts::Attempts;
use crate::managed::leader::plan::{Job, Memory, Now, Plan, Tried, View};
use crate::managed::prepare::Preparer;
use crate::managed::replica::sleep_until;
use crate::managed::retry;
use crate::managed::revision::store::{Snapshot, Store};
use crate::managed::revision::{Revision, Revisions, Uid};
use crate::managed::status::writer::{StatusWriter, Written};
use crate::managed::status::{Attempt, Build, Change, Failure};

/// How long to wait before new work after a write found the lease lost.
const STEPPING_DOWN: Duration = Duration::from_secs(1);
/// How long an orderly stop waits for attempts to be withdrawn from the status. The next process of this pod
/// withdraws the rest.
const WITHDRAWAL: Duration = Duration::from_secs(2);

/// The parts that a leader is built from.
#[derive(Clone)]
pub(crate) struct LeaderParts {
    pub(crate) client: Client,
    pub(crate) store: Store,
    pub(crate) preparer: Preparer,
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

/// Leads whenever this replica holds the lease, until the shutdown. The lease is released when everything that only a
/// leader does has ended.
pub(crate) async fn run(
    parts: LeaderParts,
    upkeep: Option<Upkeep>,
    election: LeaderElection,
    shutdown: Shutdown,
) -> Result<(), BadTiming> {
    let leads = watch::Sender::new(false);
    let (parts, upkeep, leads, stopping) = (&parts, upkeep.as_ref(), &leads, &shutdown);
    let terms = election.run(shutdown.clone(), |term| async move {
        leads.send_replace(true);
        let look_after_cache = async {
            if let Some(upkeep) = upkeep {
                upkeep.run(&term).await;
            }
        };
        tokio::join!(Leading::new(parts, &term).run(&term), look_after_cache);
        if stopping.is_triggered() {
            // Before the lease is released: the next leader counts what it finds.
            parts.withdraw_before_the_end().await;
        } else {
            leads.send_replace(false);
        }
    });
    tokio::select! {
        ended = Box::pin(terms) => ended?,
        () = parts.keep_withdrawing(leads.subscribe()) => {}
    }
    if !*leads.borrow() {
        parts.withdraw_before_the_end().await;
    }
    Ok(())
}

/// One term as the leader. It keeps nothing from the term before.
struct Leading {
    leader: TermLeader,
    memory: Memory,
    jobs: JoinSet<(Uid, End)>,
}

/// A leader and its term, for the jobs of the term.
#[derive(Clone)]
struct TermLeader {
    parts: LeaderParts,
    term: Term,
    /// Its client refuses to write after the term.
    writer: StatusWriter,
}

impl Leading {
    fn new(parts: &LeaderParts, term: &Term) -> Self {
        let client = term.guard(&parts.client);
        Self {
            leader: TermLeader {
                parts: parts.clone(),
                term: term.clone(),
                writer: StatusWriter::new(&client, parts.store.clone(), parts.clock.clone()),
            },
            memory: Memory::new(),
            jobs: JoinSet::new(),
        }
    }

    async fn run(mut self, term: &Term) {
        let _: Option<()> = term.run_until(self.lead()).await;
        self.jobs.shutdown().await;
    }

    async fn lead(&mut self) {
        let mut changed = self.leader.parts.store.subscribe();
        loop {
            changed.mark_unchanged();
            let snapshot = self.leader.parts.store.snapshot();
            let mut look_again = None;
            if snapshot.is_complete {
                let plan = Plan::of(View {
                    revisions: &snapshot.revisions,
                    memory: &self.memory,
                    crashes: &self.leader.parts.attempts.crashes,
                    build: &self.leader.parts.build,
                    now: Now::of(&self.leader.parts.clock),
                });
                look_again = plan.look_again;
                self.carry_out(plan, &snapshot);
            }
            tokio::select! {
                _ = changed.changed() => {}
                Some(ended) = self.jobs.join_next() => {
                    if let Ok((uid, end)) = ended {
                        self.ended(uid, end);
                    }
                }
                () = sleep_until(&self.leader.parts.clock, look_again) => {}
            }
        }
    }

    fn carry_out(&mut self, plan: Plan, snapshot: &Snapshot) {
        for job in plan.begin {
            let Some(revision) = snapshot.revisions.get(&job.uid).cloned() else {
                continue;
            };
            let earlier = earlier(&revision, &snapshot.revisions);
            self.spawn(job.uid.clone(), |leader| {
                leader.initialize(job, revision, earlier)
            });
        }
        for (uid, crashed) in plan.give_up {
            let (n_crashes, next) = (crashed.n_crashes, crashed.next);
            warn!(revision_uid = %uid, n_crashes, %next, "initialization given up after crashes");
            let key = uid.clone();
            self.spawn(uid, |leader| async move {
                let by = leader.parts.build.clone();
                let written = leader.write(&key, &Change::Crashed { crashed, by }).await;
                End::unless_done(written).unwrap_or(End::Over)
            });
        }
    }

    fn spawn<F>(&mut self, uid: Uid, job: impl FnOnce(TermLeader) -> F)
    where
        F: Future<Output = End> + Send + 'static,
    {
        let before = self.memory.get(&uid).copied();
        let job = AssertUnwindSafe(job(self.leader.clone())).catch_unwind();
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
            let again = self.leader.parts.clock.moment() + delay;
            self.memory.insert(uid, Tried::Failed { n, again });
        }
    }
}

/// The generation that a revision rolls back to, if it still exists.
fn earlier(revision: &Revision, revisions: &Revisions) -> Option<Arc<Revision>> {
    let generation = revision.rollback_of?;
    let mut others = revisions.values();
    others
        .find(|other| other.policy_uid == revision.policy_uid && other.generation == generation)
        .cloned()
}

impl TermLeader {
    /// Initialises one revision: from references to modules in the cache and validated settings.
    async fn initialize(
        self,
        job: Job,
        revision: Arc<Revision>,
        earlier: Option<Arc<Revision>>,
    ) -> End {
        let begins = Change::Begins {
            attempt: Attempt {
                n: job.attempt,
                holder: self.parts.attempts.holder.clone(),
                withdrawn: job.withdrawn,
            },
            by: self.parts.build.clone(),
        };
        // The note comes before the status, so that a crash right after the write leaves both.
        let note = |is_due: bool| is_due.then(|| self.parts.attempts.note(&job.uid)).flatten();
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
        let gathered = match self
            .parts
            .preparer
            .gather(&revision, earlier.as_deref())
            .await
        {
            Ok(gathered) => gathered,
            Err(failure) => return self.fail(&job.uid, failure.initialized()).await,
        };
        let note = first_note.or_else(|| note(!job.is_first));
        if !job.is_first
            && let Some(end) = End::unless_done(self.write(&job.uid, &begins).await)
        {
            return end;
        }
        let digests = gathered.digests();
        let end = match self.parts.preparer.initialize(&revision, gathered).await {
            Ok(modules) => {
                let change = Change::Initialized {
                    modules,
                    by: self.parts.build.clone(),
                };
                let written = self.write(&job.uid, &change).await;
                info!(revision = revision.name(), ?written, "initialized");
                End::unless_done(written).unwrap_or(End::Over)
            }
            Err(failure) => self.fail(&job.uid, failure.initialized()).await,
        };
        if let (Some(note), End::Over | End::Failed(_)) = (note, end) {
            note.has_result();
        }
        self.forget_unused(&digests);
        end
    }

    async fn fail(&self, uid: &Uid, why: Failure) -> End {
        let reason = why.reason;
        warn!(revision_uid = %uid, %reason, message = why.message, "initialization failed");
        let change = Change::NotInitialized {
            why,
            by: self.parts.build.clone(),
        };
        let written = self.write(uid, &change).await;
        End::unless_done(written).unwrap_or(End::Failed(reason))
    }

    /// Writes as long as this replica holds the lease.
    async fn write(&self, uid: &Uid, change: &Change) -> Written {
        self.writer.write_in(&self.term, uid, change).await
    }

    /// Releases those of these modules that no revision uses.
    fn forget_unused(&self, digests: &[Digest]) {
        let snapshot = self.parts.store.snapshot();
        let used: Vec<Digest> = snapshot
            .revisions
            .values()
            .filter(|revision| revision.is_enabled)
            .flat_map(|revision| revision.modules())
            .filter_map(|module| module.digest.parse().ok())
            .collect();
        let unused = digests.iter().filter(|digest| !used.contains(digest));
        self.parts.preparer.modules.forget(unused);
    }
}

impl LeaderParts {
    /// Withdraws attempts of this pod that were not crashes, as long as this replica does not lead. The plan of a
    /// leader ignores them.
    async fn keep_withdrawing(&self, mut leads: watch::Receiver<bool>) {
        let mut changed = self.store.subscribe();
        loop {
            // The election lives as long as this task.
            let _ = leads.wait_for(|leads| !leads).await;
            tokio::select! {
                _ = leads.wait_for(|leads| *leads) => {}
                () = async {
                    changed.mark_unchanged();
                    self.withdraw().await;
                    let _ = changed.changed().await;
                } => {}
            }
        }
    }

    /// Withdraws attempts during an orderly stop, for a while.
    async fn withdraw_before_the_end(&self) {
        tokio::select! {
            () = self.withdraw() => {}
            () = self.clock.sleep(WITHDRAWAL) => {}
        }
    }

    /// Withdraws attempts of this pod that were not crashes. These are the pod's own entries, so no lease is needed.
    async fn withdraw(&self) {
        let snapshot = self.store.snapshot();
        let stale = snapshot.revisions.values().filter_map(|revision| {
            let holders = self.attempts.crashes.stale(revision);
            (!holders.is_empty()).then(|| (revision.uid.clone(), Change::Withdrawn { holders }))
        });
        let writer = &StatusWriter::new(&self.client, self.store.clone(), self.clock.clone());
        let writes = stale.map(|(uid, change)| async move {
            let written = writer.write(&uid, &change).await;
            info!(revision_uid = %uid, ?written, "attempt withdrawn");
        });
        futures::future::join_all(writes).await;
    }
}
