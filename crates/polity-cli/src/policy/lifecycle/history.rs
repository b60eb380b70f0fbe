//! `polity policy history`: the generations of a policy, and which of them it can return to.

use std::collections::BTreeMap;

use jiff::Timestamp;
use polity_api::policies::v1::{HistoryEntry, HistoryResult, Phase};
use polity_runtime::Clock;
use serde::Serialize;

use super::find::NamedPolicy;
use super::policy::{Modules, Policy};
use crate::exit::Exit;
use crate::output::{OutputArgs, Paint, age, columns, one_line};

/// List the generations of a policy that it can return to
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity policy history team-label -n shop
  polity policy history privileged-pods -o json

The first line is the current generation. `polity policy rollback NAME --to
GENERATION` returns to one of the others.")]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    policy: NamedPolicy,
}

/// The answer of `polity policy history`.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct History {
    /// Newest first.
    generations: Vec<Entry>,
}

/// A generation.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    generation: i64,
    is_current: bool,
    is_serving: bool,
    /// `Active` for the generation that is served, `Replaced` for one that was active before, `Failed`, or `Superseded`
    /// for one that never was active; the phase of the current generation, if it is known.
    result: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    /// The generation it returned to.
    #[serde(skip_serializing_if = "Option::is_none")]
    rollback_of: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<BTreeMap<String, String>>,
}

impl HistoryArgs {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let Self { policy, output } = self;
        let found = policy.find().await?;
        let history = History::of(&found.policy);
        let now = Clock::system().now();
        output.print(&history, |history| history.table(now, Paint::for_stdout()))?;
        Ok(Exit::Fine)
    }
}

impl History {
    pub(super) fn of(policy: &Policy) -> Self {
        let recorded = policy.status.iter().flat_map(|status| &status.history);
        let recorded = recorded.filter(|entry| entry.generation != policy.generation);
        let mut generations = vec![Entry::current(policy)];
        generations.extend(recorded.map(|entry| Entry::recorded(policy, entry)));
        generations.sort_by_key(|entry| std::cmp::Reverse(entry.generation));
        Self { generations }
    }

    pub(super) fn table(&self, now: Timestamp, paint: Paint) -> String {
        let head = ["GENERATION", "RESULT", "AGE", "MODULE", "REMARKS"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.generations.iter().map(|entry| entry.row(now, paint)));
        columns(&rows)
    }
}

impl Entry {
    fn current(policy: &Policy) -> Self {
        let (module, members) = match policy.modules.clone() {
            Modules::One(module) => (Some(module), None),
            Modules::Members(members) => (None, Some(members)),
        };
        Self {
            generation: policy.generation,
            is_current: true,
            is_serving: policy.serving() == Some(policy.generation),
            result: policy.phase().map(|phase| match phase {
                Phase::Pending => "Pending",
                Phase::Updating => "Updating",
                Phase::Active => "Active",
                Phase::Failed => "Failed",
            }),
            created_at: match policy.generation {
                1 => policy.created,
                _ => policy.changed,
            },
            rollback_of: rollback_of(policy, policy.generation),
            module,
            members,
        }
    }

    fn recorded(policy: &Policy, entry: &HistoryEntry) -> Self {
        Self {
            generation: entry.generation,
            is_current: false,
            is_serving: policy.serving() == Some(entry.generation),
            result: Some(match entry.result {
                // It was active, and is no longer unless it is served.
                HistoryResult::Active if policy.serving() != Some(entry.generation) => "Replaced",
                result => in_a_word(result),
            }),
            created_at: entry.created_at.as_ref().map(|time| time.0),
            rollback_of: rollback_of(policy, entry.generation),
            module: entry.module.clone(),
            members: entry.members.clone(),
        }
    }

    fn row(&self, now: Timestamp, paint: Paint) -> Vec<String> {
        let result = match self.result {
            Some("Active") => paint.good("Active"),
            Some("Failed") => paint.bad("Failed"),
            Some(other) => other.to_owned(),
            None => "-".to_owned(),
        };
        let members = self.members.iter().flatten();
        let members = members.map(|(name, module)| format!("{name}={module}"));
        let modules: Vec<_> = self.module.iter().cloned().chain(members).collect();
        let remarks = [
            self.is_current.then(|| "current".to_owned()),
            self.is_serving.then(|| "serving".to_owned()),
            self.rollback_of.map(|to| format!("rollback to {to}")),
        ];
        let remarks: Vec<_> = remarks.into_iter().flatten().collect();
        vec![
            self.generation.to_string(),
            result,
            match self.created_at {
                Some(created) => age(Some(created), now),
                None => "-".to_owned(),
            },
            one_line(&modules.join(", ")),
            remarks.join(", "),
        ]
    }
}

/// What a generation was a return to, as far as it is recorded.
fn rollback_of(policy: &Policy, generation: i64) -> Option<i64> {
    let rolled_back = policy.rolled_back?;
    (rolled_back.made == generation).then_some(rolled_back.to)
}

/// What became of an earlier generation.
pub(super) fn in_a_word(result: HistoryResult) -> &'static str {
    match result {
        HistoryResult::Active => "Active",
        HistoryResult::Failed => "Failed",
        HistoryResult::Superseded => "Superseded",
    }
}
