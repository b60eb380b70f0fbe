//! `polity policy status`: the state of a policy by generation and replica.

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use polity_api::policies::v1::Phase;
use polity_runtime::Clock;

use super::events::{self, Events};
use super::find::{Found, NamedPolicy};
use super::follow::Follow;
use super::policy::Policy;
use super::screen::Screen;
use super::table;
use super::view::View;
use crate::exit::Exit;
use crate::output::{OutputArgs, Paint};

/// How many Events are shown.
const N_EVENTS: usize = 10;
/// Events are written after the status that they are about.
const EVENTS_FOLLOW: Duration = Duration::from_secs(1);

/// Show the state of a policy: generations, replicas, and what is served
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity policy status team-label -n shop
  polity policy status privileged-pods --watch
  polity policy status team-label -n shop --kind apg -o json

Needs only the rights of the policy's owner: to get and watch it, and to list
Events in its namespace (in default for a policy of the whole cluster).

Exit codes: 0 fine, 1 the current generation has failed, 2 error.")]
pub(crate) struct StatusArgs {
    /// Show every change until the policy is deleted
    #[arg(short = 'w', long)]
    watch: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    policy: NamedPolicy,
}

impl StatusArgs {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            policy,
            watch,
            output,
        } = self;
        let found = policy.find().await?;
        let clock = Clock::system();
        let paint = Paint::for_stdout();
        if watch {
            let is_terminal = std::io::stdout().is_terminal();
            let mut screen = Screen::new(std::io::stdout(), output.output, paint, is_terminal);
            return follow(&found, &mut screen, &clock).await;
        }
        let policy = &found.policy;
        let view = Look::default().at(&found, policy).await;
        output.print(&view, |view| table::page(view, clock.now(), paint))?;
        Ok(match view.phase {
            Some(Phase::Failed) => Exit::Findings,
            Some(Phase::Pending | Phase::Updating | Phase::Active) | None => Exit::Fine,
        })
    }
}

/// Shows every change until the policy is deleted or the output is closed.
pub(super) async fn follow<W: Write>(
    found: &Found,
    screen: &mut Screen<W>,
    clock: &Clock,
) -> anyhow::Result<Exit> {
    let mut changes = Follow::new(found);
    let mut look = Look::default();
    let mut last: Option<Policy> = None;
    let mut look_again = None;
    loop {
        let changed = tokio::select! {
            changed = changes.next() => Some(changed?),
            () = sleep_until(clock, look_again) => None,
        };
        look_again = None;
        match changed {
            Some(Some(policy)) => {
                look_again = Some(clock.moment() + EVENTS_FOLLOW);
                last = Some(policy);
            }
            Some(None) => {
                eprintln!("{} was deleted", found.policy);
                return Ok(Exit::Fine);
            }
            None => {}
        }
        if let Some(policy) = &last {
            screen.show(look.at(found, policy).await, clock.now())?;
        }
    }
}

async fn sleep_until(clock: &Clock, moment: Option<polity_runtime::Moment>) {
    match moment {
        Some(moment) => clock.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Reads what belongs to a view; prints once that Events cannot be read.
#[derive(Default)]
struct Look {
    has_told: bool,
}

impl Look {
    async fn at(&mut self, found: &Found, policy: &Policy) -> View {
        let events = events::about(&found.client, policy).await;
        if let Events::Unreadable(why) = &events
            && !self.has_told
        {
            self.has_told = true;
            eprintln!("note: Events cannot be read: {why}");
        }
        View::of(policy, events.told(), N_EVENTS)
    }
}
