//! `polity lint`: mistakes in governance manifests that would show only on a hub, or only when a rollout stands still.

mod cycles;
mod placements;
mod rules;
mod schemas;
mod strategies;

use crate::exit::{Exit, Hinted};
use crate::findings::{Finding, Findings, FindingsArgs, Level};
use crate::manifests::{self, ManifestArgs};
use polity_source::{HubManifests, Manifests};

/// Check governance manifests: policies, bindings, placements and sets
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity lint -m policies/\n  polity lint -m policies/ -o sarif > lint.sarif\n\nEach finding has its place, its reason and a fix.\n\nExit codes: 0 clean, 1 there are errors or warnings, 2 error."
)]
pub struct LintArgs {
    #[command(flatten)]
    manifests: ManifestArgs,
    #[command(flatten)]
    output: FindingsArgs,
}

impl LintArgs {
    pub fn run(self) -> anyhow::Result<Exit> {
        let Self { manifests, output } = self;
        if !manifests.given() {
            return Err(Hinted::new(
                "no manifests given",
                "name files or directories with -m, or - for stdin",
            )
            .into());
        }
        output.print(&lint(&manifests::load(&manifests.manifests)?))
    }
}

/// Looks over what was loaded.
pub(crate) fn lint(manifests: &Manifests) -> Findings {
    let mut governance = HubManifests::read(manifests);
    // Time decides about tolerations alone, and no rule is about those that run out.
    governance.decide(jiff::Timestamp::UNIX_EPOCH);
    let unreadable = manifests
        .problems
        .iter()
        .chain(&governance.problems)
        .map(|problem| {
            Finding::error(rules::UNDECODABLE, problem.message.clone())
                .in_file(problem.origin.file.as_ref(), Some(problem.origin.line))
                .mend("mend the document; everything else was looked at without it")
        });
    let mut findings: Vec<Finding> = unreadable.collect();
    let lint = rules::Lint {
        manifests,
        governance: &governance,
    };
    findings.extend(lint.all());
    let refused = schemas::refused(manifests, &governance.problems);
    // What a rule has better words for is not said again.
    let is_news = |finding: &Finding| {
        let mut errors = findings.iter().filter(|said| said.level == Level::Error);
        !errors.any(|said| !said.place.is_empty() && finding.place.starts_with(&said.place))
    };
    let refused: Vec<Finding> = refused.into_iter().filter(is_news).collect();
    findings.extend(refused);
    Findings::new(rules::rules(), findings)
}

#[cfg(test)]
mod tests;
