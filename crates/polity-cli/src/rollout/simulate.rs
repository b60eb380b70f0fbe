//! `polity rollout simulate`: a scripted fleet through simulated days, as a unit test of a rollout strategy.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use polity_govern::simulate::{Manifest, Scenario, Timeline, run};
use serde_json::Value;

use super::timeline;
use crate::exit::{Exit, Hinted};
use crate::output::{OutputArgs, Paint};
use polity_source::manifests::describe_yaml_error;
use polity_source::{HubLowering, Manifests};

/// The largest scenario that is read; one is written by hand.
const MAX_BYTES: u64 = 10 * 1024 * 1024;

/// Play a scripted rollout and check what is expected of it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity rollout simulate docs/scenarios/canary.yaml\n  polity rollout simulate canary.yaml -o json\n\nA scenario names its manifests, its clusters, its events and what is expected:\ndocs/guides/try-a-rollout.md explains it, and\ndocs/scenarios/scenario.schema.json is for editors.\n\nExit codes: 0 as expected, 1 an expectation did not hold, 2 error."
)]
pub(super) struct SimulateArgs {
    /// The scenario
    scenario: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

impl SimulateArgs {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let Self { scenario, output } = self;
        let timeline = play(&scenario)?;
        output.print(&timeline, |timeline| {
            timeline::render(timeline, Paint::for_stdout())
        })?;
        Ok(if timeline.broken.is_some() {
            Exit::Findings
        } else {
            Exit::Fine
        })
    }
}

/// Reads a scenario with its manifests and plays it.
pub(super) fn play(path: &Path) -> anyhow::Result<Timeline> {
    let size = std::fs::metadata(path)
        .with_context(|| format!("reading {}", path.display()))?
        .len();
    if size > MAX_BYTES {
        return Err(Hinted::new(
            format!(
                "{} has {size} bytes, more than a scenario may have",
                path.display()
            ),
            "keep manifests in files of their own and name them under manifests",
        )
        .into());
    }
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let scenario: Scenario = serde_saphyr::from_str(&text).map_err(|error| {
        let (line, words) = describe_yaml_error(&error);
        anyhow::anyhow!("{}:{line}: {words}", path.display())
    })?;
    let objects = objects(&scenario, path.parent().unwrap_or(Path::new(".")))?;
    run(&scenario, &objects, &HubLowering::default()).with_context(|| path.display().to_string())
}

/// The objects of the manifests; paths are beside the scenario.
fn objects(scenario: &Scenario, folder: &Path) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for manifest in &scenario.manifests {
        match manifest {
            Manifest::Object(object) => objects.push(Value::Object(object.clone())),
            Manifest::Path(path) => {
                let manifests = Manifests::load([folder.join(path)])?;
                if let Some(problem) = manifests.problems.first() {
                    anyhow::bail!("{problem}");
                }
                objects.extend(
                    manifests
                        .documents
                        .into_iter()
                        .map(|document| document.object),
                );
            }
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests;
