//! Checks governance manifests for mistakes that otherwise appear only on a hub or during a rollout.

mod cycles;
mod placements;
mod rules;
mod schemas;
mod strategies;

use crate::findings::{Finding, Level};
use crate::{HubManifests, Manifests};

pub use rules::rules;

/// Checks all governance manifests. Findings come in no particular order.
pub fn lint(manifests: &Manifests) -> Vec<Finding> {
    let mut governance = HubManifests::read(manifests);
    // Only tolerations depend on the time, and no rule checks tolerations that expire.
    governance.decide(jiff::Timestamp::UNIX_EPOCH);
    let unreadable = manifests
        .problems
        .iter()
        .chain(&governance.problems)
        .map(|problem| {
            Finding::error(rules::UNDECODABLE, problem.message.clone())
                .in_file(problem.origin.file.as_ref(), Some(problem.origin.line))
                .mend("correct the document; the checks ran without it")
        });
    let mut findings: Vec<Finding> = unreadable.collect();
    let lint = rules::Lint {
        manifests,
        governance: &governance,
    };
    findings.extend(lint.all());
    let refused = schemas::refused(manifests, &governance.problems);
    // A rule explains the problem better than the schema: do not report a field twice.
    let is_news = |finding: &Finding| {
        let mut errors = findings.iter().filter(|said| said.level == Level::Error);
        !errors.any(|said| !said.place.is_empty() && finding.place.starts_with(&said.place))
    };
    let refused: Vec<Finding> = refused.into_iter().filter(is_news).collect();
    findings.extend(refused);
    findings
}
