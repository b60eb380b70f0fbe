//! `polity lint`: mistakes in governance manifests that would show only on a hub, or only when a rollout stands still.

use crate::exit::{Exit, Hinted};
use crate::findings::{Findings, FindingsArgs};
use crate::manifests::{self, ManifestArgs};
use polity_source::{Manifests, lint};

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

/// The findings in loaded manifests.
pub(crate) fn lint(manifests: &Manifests) -> Findings {
    Findings::new(lint::rules(), lint::lint(manifests))
}

#[cfg(test)]
mod tests;
