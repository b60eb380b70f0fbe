//! `polity placement explain`.

use anyhow::bail;
use jiff::Timestamp;
use polity_core::placement::Placement;
use polity_rollout::explain;
use polity_runtime::clock::Clock;

use super::answer::Selection;
use crate::exit::{Exit, Hinted};
use crate::manifests::ManifestArgs;
use crate::output::{OutputArgs, Paint};
use polity_source::{Document, FleetManifests};

/// Show for every cluster whether it is selected, with its scores and group, or what excludes it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity placement explain web -m fleet/\n  polity placement explain web -n team-a -m fleet/ --reschedule\n  polity placement explain web -m fleet/ -o yaml    with the decisions to write\n\nDecisions of the placement among the files are taken as they are; a cluster\nthat a scheduler would treat otherwise is marked. With --reschedule the\nplacement decides again.\n\nExit codes: 0 satisfied, 1 the placement is invalid or not satisfied, 2 error."
)]
pub(super) struct ExplainArgs {
    /// The placement
    name: String,
    /// Its namespace; not needed when only one has a placement of that name
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    manifests: ManifestArgs,
    /// Decide anew, whatever was decided before
    #[arg(long)]
    reschedule: bool,
    /// As of this time, such as 2026-11-15T10:00:00Z; now when absent
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    #[command(flatten)]
    output: OutputArgs,
}

impl ExplainArgs {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let Self {
            name,
            namespace,
            manifests,
            reschedule,
            at,
            output,
        } = self;
        if !manifests.given() {
            bail!(Hinted::new(
                "no files were named",
                "say where the clusters and the placement are: -m DIR"
            ));
        }
        let manifests = manifests.load()?;
        let files = FleetManifests::read(&manifests);
        for problem in &files.problems {
            eprintln!("{} {problem}", Paint::for_stderr().warn("warning:"));
        }
        let (document, placement) = find(&files, &name, namespace.as_deref())?;
        let now = at.unwrap_or_else(|| Clock::system().now());
        let explanation = explain(placement, &files.fleet(), &files.expressions, now);
        let standing = files.parts.decisions.iter();
        let standing = standing.filter(|decision| decision.placement == placement.key);
        let standing: Vec<_> = standing.filter(|_| !reschedule).collect();
        let answer = Selection::new(document, placement, &explanation, &standing);
        let is_satisfied = answer.is_satisfied();
        output.print(&answer, |answer| answer.table(Paint::for_stdout()))?;
        Ok(if is_satisfied {
            Exit::Fine
        } else {
            Exit::Findings
        })
    }
}

/// The placement that is meant.
fn find<'a>(
    files: &'a FleetManifests,
    name: &str,
    namespace: Option<&str>,
) -> anyhow::Result<(&'a Document, &'a Placement)> {
    let named: Vec<_> = files
        .placements
        .iter()
        .filter(|(_, placement)| placement.key.name == name)
        .filter(|(_, placement)| namespace.is_none_or(|wanted| wanted == placement.key.namespace))
        .collect();
    let listed = |placements: &[&(&Document, Placement)]| {
        let keys = placements
            .iter()
            .map(|(_, placement)| placement.key.to_string());
        keys.collect::<Vec<_>>().join(", ")
    };
    match named.as_slice() {
        [(document, placement)] => Ok((document, placement)),
        [] => {
            let all: Vec<_> = files.placements.iter().collect();
            let hint = match all.as_slice() {
                [] => "there is no placement at all in these files".to_owned(),
                all => format!("there are {}", listed(all)),
            };
            bail!(Hinted::new(
                format!("there is no placement {name} in these files"),
                hint
            ))
        }
        several => bail!(Hinted::new(
            format!("there are several placements {name}: {}", listed(several)),
            "say which one with -n NAMESPACE"
        )),
    }
}
