//! `polity policy rollback`: asks the controller to return to an earlier generation, and follows what comes of it.

use std::time::Duration;

use anyhow::Context as _;
use kube::api::{Patch, PatchParams};
use polity_api::policies::names::ROLLBACK_TO_GENERATION;
use polity_runtime::args::HumanDuration;
use polity_runtime::{Clock, Moment};
use serde_json::json;

use super::events::{self, Events, Told};
use super::find::{Found, NamedPolicy};
use super::follow::Follow;
use super::goal::{Goal, Verdict};
use super::policy::Policy;
use super::preflight;
use super::target::{self, Target};
use super::wait::Waited;
use crate::exit::{Exit, Hinted};

/// As whom the annotation is set.
const MANAGER: &str = "polity-cli";
/// How often a status that is written meanwhile may get in the way.
const ATTEMPTS: usize = 10;
/// How long to wait for the Event that says why, and how often to look.
const EVENT_PATIENCE: Duration = Duration::from_secs(5);
const EVENT_PAUSE: Duration = Duration::from_millis(200);

/// Return a policy to an earlier generation
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # The update is broken: back to what is served
  polity policy rollback team-label -n shop

  # Back to a generation that `polity policy history` lists, and wait for it
  polity policy rollback team-label -n shop --to 2 --wait

Without --to: the serving generation if the current one is not active, else the
newest earlier one that was active. The old specification becomes a new
generation and is processed like every update. A tool that applies manifests
from Git restores its own at its next sync: roll back there too.

Exit codes: 0 done, 1 with --wait: it was refused, failed, or took too long
(stderr has the reason), 2 error, or the API would refuse it.")]
pub(crate) struct RollbackArgs {
    /// The generation to return to
    #[arg(long, value_name = "GENERATION", value_parser = clap::value_parser!(i64).range(1..))]
    to: Option<i64>,
    /// Wait until it is active
    #[arg(long)]
    wait: bool,
    /// How long to wait
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "60s",
        requires = "wait"
    )]
    timeout: HumanDuration,
    #[command(flatten)]
    policy: NamedPolicy,
}

impl RollbackArgs {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            policy,
            to,
            wait,
            timeout,
        } = self;
        let mut found = policy.find().await?;
        let clock = Clock::system();
        let deadline = clock.moment() + timeout.0;
        let target = target::choose(&found.policy, to).map_err(Hinted::from)?;
        if let Some(refused) = preflight::refusal(&found, &target).await {
            return Err(refused.into());
        }
        eprintln!("{}", announcement(&found.policy, &target));
        let before = events::about(&found.client, &found.policy).await;
        let request = ask(&mut found, &target).await?;
        if !wait {
            eprintln!("asked for; follow it with: {}", follow_with(&found.policy));
            return Ok(Exit::Fine);
        }
        let following = Following {
            found: &found,
            request,
            before: before.told(),
            clock: &clock,
            deadline,
        };
        let waited = following.run().await?;
        waited.tell(&found)
    }
}

/// What will happen.
pub(super) fn announcement(policy: &Policy, target: &Target) -> String {
    let mut text = format!(
        "{policy}: from generation {} back to generation {} ({}), as a new generation",
        policy.generation, target.generation, target.what
    );
    if let Some(other) = &policy.rollback_to {
        text.push_str(&format!(
            "; instead of to {other:?}, which was asked for before"
        ));
    }
    text
}

fn follow_with(policy: &Policy) -> String {
    let namespace = policy.namespace.as_ref();
    let namespace = namespace
        .map(|name| format!(" -n {name}"))
        .unwrap_or_default();
    let kind = policy.kind.short();
    format!(
        "polity policy status {}{namespace} --kind {kind} --watch",
        policy.name
    )
}

/// A rollback that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) uid: String,
    /// The generation it is to leave.
    pub(super) from: i64,
    pub(super) to: i64,
}

/// Sets the annotation. A status that was written meanwhile does not matter; another specification does: what was
/// announced may no longer be what is wanted.
pub(super) async fn ask(found: &mut Found, target: &Target) -> anyhow::Result<Request> {
    let from = found.policy.generation;
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    for _ in 0..ATTEMPTS {
        let patch = json!({"metadata": {
            "resourceVersion": found.policy.resource_version,
            "annotations": {ROLLBACK_TO_GENERATION: target.generation.to_string()},
        }});
        let name = &found.policy.name;
        match found.api.patch(name, &params, &Patch::Merge(patch)).await {
            Ok(_) => {
                return Ok(Request {
                    uid: found.policy.uid.clone(),
                    from,
                    to: target.generation,
                });
            }
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            Err(error) => {
                return Err(error).with_context(|| format!("annotating {}", found.policy));
            }
        }
        let object = found.api.get(name).await;
        let object = object.with_context(|| format!("reading {} again", found.policy))?;
        let again = Policy::read(found.policy.kind, &object)?;
        if (&again.uid, again.generation) != (&found.policy.uid, from) {
            let message = format!(
                "{} was changed meanwhile; nothing was asked for",
                found.policy
            );
            return Err(
                Hinted::new(message, "look at it with polity policy status, then decide").into(),
            );
        }
        found.policy = again;
    }
    anyhow::bail!("{} changes too often to be annotated", found.policy)
}

/// What came of a rollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    /// The controller made this generation.
    Made(i64),
    /// The annotation is gone, and the policy is as it was; an Event says why.
    Dropped,
    /// Nothing can come of it any more.
    Over(String),
}

impl Request {
    /// What a look at the policy says, where no policy is one that is gone; nothing while the controller has not looked.
    pub(super) fn progress(&self, policy: Option<&Policy>) -> Option<Progress> {
        let Some(policy) = policy.filter(|policy| policy.uid == self.uid) else {
            return Some(Progress::Over("the policy was deleted".to_owned()));
        };
        let made = policy
            .rolled_back
            .filter(|rolled_back| rolled_back.made > self.from && rolled_back.to == self.to);
        match (made, policy.rollback_to.as_deref()) {
            (Some(rolled_back), _) => Some(Progress::Made(rolled_back.made)),
            (None, Some(asked)) if asked == self.to.to_string() => None,
            (None, Some(other)) => {
                let why = format!("a rollback to {other:?} was asked for instead");
                Some(Progress::Over(why))
            }
            (None, None) => Some(Progress::Dropped),
        }
    }
}

/// Follows a rollback until the policy is active, or cannot become active any more.
pub(super) struct Following<'a> {
    pub(super) found: &'a Found,
    pub(super) request: Request,
    /// What was told before it was asked for.
    pub(super) before: &'a [Told],
    pub(super) clock: &'a Clock,
    pub(super) deadline: Moment,
}

impl Following<'_> {
    pub(super) async fn run(&self) -> anyhow::Result<Waited> {
        let mut changes = Follow::new(self.found);
        let taken = changes.until(self.clock, self.deadline, |policy| {
            let progress = self.request.progress(policy)?;
            Some((progress, policy.cloned()))
        });
        let Some((progress, policy)) = taken.await? else {
            let why = "no controller has taken up the rollback in time; it stays asked for";
            return Ok(Waited::Missed(why.to_owned()));
        };
        let goal = match progress {
            Progress::Made(generation) => {
                eprintln!(
                    "generation {generation} has the specification of generation {}",
                    self.request.to
                );
                Goal::Generation(generation)
            }
            Progress::Dropped => match self.answer().await {
                WithoutRollback::NothingToChange(note) => {
                    eprintln!("{note}");
                    Goal::Active
                }
                WithoutRollback::No(why) => return Ok(Waited::Missed(why)),
            },
            Progress::Over(why) => return Ok(Waited::Missed(why)),
        };
        self.enforced(&mut changes, goal, policy).await
    }

    async fn enforced(
        &self,
        changes: &mut Follow,
        goal: Goal,
        policy: Option<Policy>,
    ) -> anyhow::Result<Waited> {
        let mut last = policy.as_ref().map(Policy::message).unwrap_or_default();
        let mut look = |policy: Option<&Policy>| {
            if let Some(policy) = policy {
                last = policy.message();
            }
            match goal.look(policy) {
                Verdict::NotYet => None,
                Verdict::Reached(what) => Some(Waited::Reached(what)),
                Verdict::Missed(why) => Some(Waited::Missed(why)),
            }
        };
        if let Some(waited) = look(policy.as_ref()) {
            return Ok(waited);
        }
        let waited = changes.until(self.clock, self.deadline, look).await?;
        Ok(waited.unwrap_or_else(|| Waited::Missed(format!("not {goal} in time. {last}"))))
    }

    /// What the controller told about a rollback that it did not make. The Event comes after the annotation has gone.
    async fn answer(&self) -> WithoutRollback {
        let until = self.deadline.min(self.clock.moment() + EVENT_PATIENCE);
        loop {
            let events = events::about(&self.found.client, &self.found.policy).await;
            if let Some(answer) = WithoutRollback::among(&events::fresh(self.before, events.told()))
            {
                return answer;
            }
            let silent = match events {
                Events::Unreadable(why) => {
                    Some(format!("Events, which say why, cannot be read: {why}"))
                }
                Events::Listed(_) if self.clock.moment() >= until => {
                    Some("no Event says why".to_owned())
                }
                Events::Listed(_) => None,
            };
            if let Some(silent) = silent {
                return WithoutRollback::No(format!("the policy was not rolled back; {silent}"));
            }
            self.clock.sleep(EVENT_PAUSE).await;
        }
    }
}

/// What came of a rollback that made no generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WithoutRollback {
    NothingToChange(String),
    No(String),
}

impl WithoutRollback {
    /// The newest of the Events that are about rollbacks.
    pub(super) fn among(told: &[&Told]) -> Option<Self> {
        told.iter()
            .rev()
            .find_map(|told| match told.reason.as_str() {
                "RollbackFailed" => Some(Self::No(format!("{}: {}", told.reason, told.note))),
                "PolicyRolledBack" => Some(Self::NothingToChange(told.note.clone())),
                _ => None,
            })
    }
}
