//! Records every request and fault, and summarizes a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use e2e::replica_client::AdmissionOutcome;
use jiff::Timestamp;
use polity_runtime::Clock;

use crate::faults::Fault;
use crate::request_check::{
    CheckResult, Destination, Excuse, FaultTarget, History, Outage, Request, Span, Switch,
    Violation,
};

/// How many violations of each kind are shown in full.
const SHOWN: usize = 5;

/// Collects requests, webhook switches and outages from all tasks of a run.
pub(crate) struct Recorder {
    clock: Clock,
    records: Mutex<Records>,
}

#[derive(Default)]
struct Records {
    requests: Vec<Request>,
    history: History,
    /// Generations that are broken on purpose.
    broken: BTreeSet<(&'static str, i64)>,
    n_updates: usize,
    faults: BTreeMap<Fault, usize>,
    n_in_step: usize,
    api_server_is_down: bool,
}

/// A request that was sent and has no outcome yet.
pub(crate) struct StartedRequest {
    pub(crate) policy: &'static str,
    pub(crate) destination: Destination,
    pub(crate) violates: bool,
    from: Timestamp,
}

impl Recorder {
    pub(crate) fn new(drain: Duration) -> Self {
        let records = Records {
            history: History {
                drain,
                ..History::default()
            },
            ..Records::default()
        };
        Self {
            clock: Clock::system(),
            records: Mutex::new(records),
        }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn start(
        &self,
        policy: &'static str,
        destination: Destination,
        violates: bool,
    ) -> StartedRequest {
        StartedRequest {
            policy,
            destination,
            violates,
            from: self.now(),
        }
    }

    pub(crate) fn finish(&self, started: StartedRequest, outcome: AdmissionOutcome) {
        let StartedRequest {
            policy,
            destination,
            violates,
            from,
        } = started;
        let span = Span {
            from,
            until: self.now(),
        };
        self.records().requests.push(Request {
            policy,
            destination,
            violates,
            span,
            outcome,
        });
    }

    /// Records that a webhook switched to a generation. The same switch may be observed more than once.
    pub(crate) fn switched(&self, policy: &'static str, switch: Switch) {
        let mut records = self.records();
        let switches = records.history.switches.entry(policy).or_default();
        if switches.last().map(|last| last.generation) != Some(switch.generation) {
            switches.push(switch);
        }
    }

    pub(crate) fn outage(&self, outage: Outage) {
        self.records().history.outages.push(outage);
    }

    /// Whether the API server has been up without interruption since a time, so that watches received all changes.
    pub(crate) fn api_server_was_up_since(&self, since: Timestamp) -> bool {
        let records = self.records();
        let mut outages = records.history.outages.iter();
        !records.api_server_is_down
            && !outages.any(|outage| {
                outage.target == FaultTarget::ApiServer && outage.downtime.until >= since
            })
    }

    /// Records that the API server is about to be killed, or is up again.
    pub(crate) fn api_server_is_down(&self, is_down: bool) {
        self.records().api_server_is_down = is_down;
    }

    /// Records that the next generation is broken on purpose.
    pub(crate) fn mark_broken(&self, policy: &'static str, generation: i64) {
        self.records().broken.insert((policy, generation));
    }

    /// One of the most recent broken generations.
    pub(crate) fn recently_broken(&self, n: usize) -> Option<(&'static str, i64)> {
        let records = self.records();
        let mut latest = records.broken.iter().rev().take(8);
        let n_latest = latest.len();
        latest.nth(n.checked_rem(n_latest)?).copied()
    }

    pub(crate) fn updated(&self) {
        self.records().n_updates += 1;
    }

    pub(crate) fn n_updates(&self) -> usize {
        self.records().n_updates
    }

    /// Counts a fault, and whether it hit an update in the intended step.
    pub(crate) fn fault_injected(&self, fault: Fault, is_in_step: bool) {
        let mut records = self.records();
        *records.faults.entry(fault).or_default() += 1;
        records.n_in_step += usize::from(is_in_step);
    }

    /// Checks every request and counts the results.
    pub(crate) fn summarize(&self) -> Summary {
        let records = self.records();
        let mut summary = Summary {
            n_updates: records.n_updates,
            n_broken: records.broken.len(),
            faults: records.faults.clone(),
            n_in_step: records.n_in_step,
            ..Summary::default()
        };
        for request in &records.requests {
            let n = match request.destination {
                Destination::ApiServer => &mut summary.n_through_api_server,
                Destination::Replica { .. } => &mut summary.n_to_replicas,
                Destination::AbsentGeneration { .. } => &mut summary.n_to_absent_generations,
            };
            *n += 1;
            match records.history.check(request) {
                CheckResult::Correct => {}
                CheckResult::Excused(excuse) => *summary.excused.entry(excuse).or_default() += 1,
                CheckResult::Violation(wrong) => {
                    let n_wrong = summary.wrong.entry(wrong).or_default();
                    *n_wrong += 1;
                    if *n_wrong <= SHOWN {
                        let around = records.history.around(request);
                        let example = format!("{wrong:?}: {request:?}\n{around}");
                        summary.examples.push(example);
                    }
                }
            }
        }
        summary
    }
}

impl History {
    /// Lists switches and outages around a request, to find the cause of a violation.
    fn around(&self, request: &Request) -> String {
        const AROUND: Duration = Duration::from_secs(5);
        let widened = Span {
            from: request.span.from.saturating_sub(AROUND).expect("in range"),
            until: request.span.until.saturating_add(AROUND).expect("in range"),
        };
        let switches = self.switches.get(request.policy).into_iter().flatten();
        let at = |time| Span {
            from: time,
            until: time,
        };
        let switches = switches.filter(|switch| widened.overlaps(at(switch.at)));
        let outages = self.outages.iter();
        let outages = outages.filter(|outage| widened.overlaps(outage.downtime));
        let lines = switches
            .map(|switch| format!("    {switch:?}\n"))
            .chain(outages.map(|outage| format!("    {outage:?}\n")));
        lines.collect()
    }
}

/// Counts of a run.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    n_updates: usize,
    n_broken: usize,
    n_through_api_server: usize,
    n_to_replicas: usize,
    n_to_absent_generations: usize,
    faults: BTreeMap<Fault, usize>,
    n_in_step: usize,
    excused: BTreeMap<Excuse, usize>,
    wrong: BTreeMap<Violation, usize>,
    examples: Vec<String>,
}

impl Summary {
    /// # Panics
    /// If there is any violation. The message shows the first ones in full.
    pub(crate) fn check(&self) {
        let n_wrong: usize = self.wrong.values().sum();
        assert_eq!(n_wrong, 0, "{self}\n{}", self.examples.join("\n"));
        assert!(
            self.n_through_api_server > 0
                && self.n_to_replicas > 0
                && self.n_to_absent_generations > 0,
            "no requests were sent: {self}"
        );
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            n_updates,
            n_broken,
            n_through_api_server,
            n_to_replicas,
            n_to_absent_generations,
            faults,
            n_in_step,
            excused,
            wrong,
            examples: _,
        } = self;
        writeln!(
            out,
            "{n_updates} updates, {n_broken} of them broken; {n_through_api_server} requests through the API server, \
             {n_to_replicas} to replicas, {n_to_absent_generations} for generations that are not there"
        )?;
        let n_faults: usize = faults.values().sum();
        writeln!(
            out,
            "faults: {}; {n_in_step} of {n_faults} in the step of an update that was waited for",
            counts(faults)
        )?;
        writeln!(out, "excused: {}", counts(excused))?;
        write!(out, "wrong: {}", counts(wrong))
    }
}

fn counts<K: fmt::Debug>(counts: &BTreeMap<K, usize>) -> String {
    let each = counts.iter().map(|(what, n)| format!("{n} {what:?}"));
    let each: Vec<String> = each.collect();
    if each.is_empty() {
        "0".to_owned()
    } else {
        each.join(", ")
    }
}
