//! `polity policy wait`: waits until a policy is active, or until it cannot become active any more.

use std::io::Write as _;
use std::time::Duration;

use polity_runtime::Clock;
use polity_runtime::args::HumanDuration;

use super::find::{Found, NamedPolicy};
use super::follow::Follow;
use super::goal::{Goal, Verdict};
use crate::exit::Exit;
use crate::output::one_line;

/// Wait until a policy is active, or has failed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl apply -f policy.yaml && polity policy wait team-label -n shop
  polity policy wait team-label -n shop --for generation=3 --timeout 5m
  polity policy wait privileged-pods --for failed

Goals:
  active         every replica serves the current generation: it is enforced,
                 or in monitor mode reported
  failed         the current generation cannot be served; an older one may be
  generation=N   every replica serves that generation

Exit codes: 0 reached, 1 the time is over or the goal cannot be reached any
more (stderr says why), 2 error.")]
pub(crate) struct WaitArgs {
    /// What to wait for: active, failed or generation=N
    #[arg(long = "for", value_name = "GOAL", default_value = "active")]
    goal: Goal,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    timeout: HumanDuration,
    #[command(flatten)]
    policy: NamedPolicy,
}

impl WaitArgs {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            policy,
            goal,
            timeout,
        } = self;
        let found = policy.find().await?;
        let waited = wait(&found, goal, timeout.0, &Clock::system()).await?;
        waited.tell(&found)
    }
}

/// How the waiting ended, in words.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited {
    Reached(String),
    Missed(String),
}

impl Waited {
    /// What was reached goes to stdout, why it was not to stderr.
    pub(super) fn tell(&self, found: &Found) -> anyhow::Result<Exit> {
        let policy = &found.policy;
        match self {
            Self::Reached(what) => {
                writeln!(std::io::stdout(), "{policy}: {}", one_line(what))?;
                Ok(Exit::Fine)
            }
            Self::Missed(why) => {
                eprintln!("{policy}: {}", one_line(why));
                Ok(Exit::Findings)
            }
        }
    }
}

/// Waits for a goal; at least one look is taken, however short the time.
pub(super) async fn wait(
    found: &Found,
    goal: Goal,
    timeout: Duration,
    clock: &Clock,
) -> anyhow::Result<Waited> {
    let deadline = clock.moment() + timeout;
    let mut last = found.policy.message();
    let over = |verdict: Verdict| match verdict {
        Verdict::NotYet => None,
        Verdict::Reached(what) => Some(Waited::Reached(what)),
        Verdict::Missed(why) => Some(Waited::Missed(why)),
    };
    if let Some(waited) = over(goal.look(Some(&found.policy))) {
        return Ok(waited);
    }
    let mut changes = Follow::new(found);
    let waited = changes.until(clock, deadline, |policy| {
        if let Some(policy) = policy {
            last = policy.message();
        }
        over(goal.look(policy))
    });
    let waited = waited.await?;
    Ok(waited.unwrap_or_else(|| {
        let timeout = HumanDuration(timeout);
        Waited::Missed(format!("not {goal} after {timeout}. {last}"))
    }))
}
