//! The report at the end of the suite.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::accepted::{ACCEPTED, covering};
use crate::compare::Difference;
use crate::run::Outcome;

/// The result of all cases.
#[derive(Debug, Default)]
pub(crate) struct Report {
    n_cases: usize,
    n_requests: usize,
    n_same: usize,
    /// Requests whose differences are all accepted.
    n_accepted: usize,
    n_different: usize,
    used: BTreeSet<usize>,
    /// Descriptions of unexplained differences and failures.
    problems: Vec<String>,
}

impl Report {
    /// `whole`: every case was run, so an accepted difference that did not occur is out of date.
    pub(crate) fn new(outcomes: &[Outcome], whole: bool) -> Self {
        let mut report = Self {
            n_cases: outcomes.len(),
            ..Self::default()
        };
        for outcome in outcomes {
            report.add(outcome);
        }
        if whole {
            let unused = ACCEPTED
                .iter()
                .enumerate()
                .filter(|(index, _)| !report.used.contains(index));
            let stale: Vec<String> = unused
                .map(|(_, accepted)| {
                    format!("no longer differs, take it off the list: {accepted:?}")
                })
                .collect();
            report.problems.extend(stale);
        }
        report
    }

    fn add(&mut self, outcome: &Outcome) {
        for step in &outcome.steps {
            self.n_requests += 1;
            let (accepted, different): (Vec<_>, Vec<_>) = step
                .differences
                .iter()
                .map(|difference| (covering(outcome.case, difference), difference))
                .partition(|(entry, _)| entry.is_some());
            self.used
                .extend(accepted.iter().filter_map(|(entry, _)| *entry));
            if !different.is_empty() {
                self.n_different += 1;
                let shown: String = different
                    .into_iter()
                    .map(|(_, difference)| show(difference))
                    .collect();
                self.problems.push(format!(
                    "DIFFERENT {} (step {}: {})\n{shown}",
                    outcome.case, step.number, step.request
                ));
            } else if accepted.is_empty() {
                self.n_same += 1;
            } else {
                self.n_accepted += 1;
            }
        }
        if let Some(why) = &outcome.broken {
            self.problems
                .push(format!("BROKEN {}: {why}\n", outcome.case));
        }
    }

    /// Whether there are no problems.
    pub(crate) fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// A summary in one line.
    pub(crate) fn summary(&self) -> String {
        format!(
            "differential: {} requests in {} cases, {} same, {} accepted differences ({} kinds), {} different",
            self.n_requests,
            self.n_cases,
            self.n_same,
            self.n_accepted,
            self.used.len(),
            self.n_different
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(out, "{problem}")?;
        }
        let reasons: BTreeSet<_> = self.used.iter().map(|n| ACCEPTED[*n].reason).collect();
        for reason in reasons {
            writeln!(out, "accepted: {reason}")?;
        }
        write!(out, "{}", self.summary())
    }
}

fn show(difference: &Difference) -> String {
    let value = |value: &Option<Value>| {
        value
            .as_ref()
            .map_or_else(|| "(absent)".to_owned(), Value::to_string)
    };
    format!(
        "  {}\n    ours: {}\n    real: {}\n",
        difference.at,
        value(&difference.ours),
        value(&difference.real)
    )
}
