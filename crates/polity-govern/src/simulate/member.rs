//! A managed cluster as a script plays it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::objects::{HistoryEntry, Policy, PolicySpec, PolicyStatus, TemplateStatus};
use jiff::{SignedDuration, Timestamp};
use polity_core::ObjectKey;
use polity_core::cluster::{ManagedCluster, Taint, TaintEffect, names};
use polity_core::governance::Compliance;

use super::scenario::{ClusterScript, Outcome};
use crate::mark::Mark;
use crate::report::{Evidence, TemplateReport, compliance, rollout_status};

/// How long a cluster takes that says nothing about it.
const TAKES: SignedDuration = SignedDuration::from_mins(1);

/// One cluster.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) cluster: ManagedCluster,
    takes: SignedDuration,
    before: Outcome,
    pub(super) outcome: Outcome,
    pub(super) is_online: bool,
    copies: BTreeMap<ObjectKey, Copy>,
}

/// What the cluster has of a policy.
#[derive(Debug, Clone)]
struct Copy {
    step: Option<String>,
    spec: Arc<PolicySpec>,
    has_drifted: bool,
    /// When it is to report, if it has not.
    due: Option<Timestamp>,
}

impl Copy {
    /// What there is to report on it, by a cluster that reports `outcome`, and `before` while it waits.
    fn outcome(&self, outcome: Outcome, before: Outcome) -> Outcome {
        let waits = self
            .step
            .as_deref()
            .is_some_and(|step| step.ends_with("-wait"));
        match (waits, self.has_drifted) {
            (true, _) => before,
            (false, true) => Outcome::NonCompliant,
            (false, false) => outcome,
        }
    }
}

impl Member {
    /// The clusters of a script: one, or as many as it counts.
    pub(super) fn all(script: &ClusterScript) -> Result<Vec<Self>, String> {
        let takes = script.takes.as_deref().map(polity_core::duration::parse);
        let takes = takes
            .unwrap_or(Ok(TAKES))
            .map_err(|error| error.to_string())?;
        if takes.is_negative() {
            return Err("takes less than no time".to_owned());
        }
        let one = |name: String| {
            let mut cluster = ManagedCluster::named(name);
            cluster.labels.clone_from(&script.labels);
            cluster.claims.clone_from(&script.claims);
            Self {
                cluster,
                takes,
                before: script.before,
                outcome: script.outcome,
                is_online: true,
                copies: BTreeMap::new(),
            }
        };
        Ok(match script.count {
            None => vec![one(script.name.clone())],
            Some(count) => {
                let width = count.to_string().len();
                (1..=count)
                    .map(|n| one(format!("{}{n:0width$}", script.name)))
                    .collect()
            }
        })
    }

    /// A cluster that manifests hold and no script plays: it takes its time and then complies.
    pub(super) fn of(cluster: ManagedCluster) -> Self {
        Self {
            cluster,
            takes: TAKES,
            before: Outcome::NonCompliant,
            outcome: Outcome::default(),
            is_online: true,
            copies: BTreeMap::new(),
        }
    }

    /// Takes a cluster for its own; labels and claims of the script count on top of those that it has.
    pub(super) fn plays(&mut self, cluster: ManagedCluster) {
        let script = std::mem::replace(&mut self.cluster, cluster);
        self.cluster.labels.extend(script.labels);
        self.cluster.claims.extend(script.claims);
    }

    /// Cuts the cluster off or brings it back; the hub marks it as it does with real ones.
    pub(super) fn set_online(&mut self, is_online: bool, now: Timestamp) {
        self.is_online = is_online;
        self.cluster
            .taints
            .retain(|taint| taint.key != names::UNREACHABLE);
        if !is_online {
            self.cluster.taints.push(Taint {
                key: names::UNREACHABLE.to_owned(),
                value: String::new(),
                effect: TaintEffect::NoSelect,
                time_added: Some(now),
            });
        }
    }

    pub(super) fn drift(&mut self, now: Timestamp) {
        for copy in self.copies.values_mut() {
            copy.has_drifted = true;
            copy.due = Some(now);
        }
    }

    /// A new outcome shows at once on what is there already.
    pub(super) fn change(&mut self, outcome: Outcome, now: Timestamp) {
        self.outcome = outcome;
        for copy in self.copies.values_mut() {
            copy.has_drifted = false;
            copy.due = Some(copy.due.map_or(now, |due| due.max(now)));
        }
    }

    /// Takes over what the hub has for it. What changed is reported on after a while.
    pub(super) fn sync(&mut self, key: &ObjectKey, replica: Option<&Policy>, now: Timestamp) {
        let Some(replica) = replica else {
            self.copies.remove(key);
            return;
        };
        let step = Mark::read(&replica.annotations).map(|mark| mark.step.to_string());
        let (outcome, before) = (self.outcome, self.before);
        let known = self.copies.get_mut(key);
        match known.filter(|copy| copy.step == step && copy.spec.wire() == replica.spec.wire()) {
            Some(copy) => {
                // The replica was created again while the cluster was offline: report the known state again.
                let is_told =
                    replica.status.rollout_step == copy.step && replica.status.compliant.is_some();
                if !is_told
                    && copy.due.is_none()
                    && copy.outcome(outcome, before) != Outcome::Silent
                {
                    copy.due = Some(now);
                }
            }
            None => {
                let copy = Copy {
                    step,
                    spec: Arc::clone(&replica.spec),
                    has_drifted: false,
                    due: Some(now.checked_add(self.takes).unwrap_or(Timestamp::MAX)),
                };
                self.copies.insert(key.clone(), copy);
            }
        }
    }

    /// When the next report is due.
    pub(super) fn next_report(&self) -> Option<Timestamp> {
        if !self.is_online {
            return None;
        }
        self.copies.values().filter_map(|copy| copy.due).min()
    }

    /// Reports that are due, as the status that the hub's replica gets.
    pub(super) fn reports(
        &mut self,
        replica_of: impl Fn(&ObjectKey) -> Option<Policy>,
        now: Timestamp,
    ) -> Vec<(ObjectKey, PolicyStatus)> {
        if !self.is_online {
            return Vec::new();
        }
        let mut reports = Vec::new();
        for (key, copy) in &mut self.copies {
            if copy.due.is_none_or(|due| due > now) {
                continue;
            }
            copy.due = None;
            let outcome = copy.outcome(self.outcome, self.before);
            if let Some(replica) = replica_of(key)
                && let Some(status) = status(&replica, copy.step.clone(), outcome, now)
            {
                reports.push((key.clone(), status));
            }
        }
        reports
    }
}

fn status(
    replica: &Policy,
    step: Option<String>,
    outcome: Outcome,
    now: Timestamp,
) -> Option<PolicyStatus> {
    let compliant = match outcome {
        Outcome::Silent => return None,
        Outcome::Compliant => Compliance::Compliant,
        Outcome::NonCompliant => Compliance::NonCompliant,
        Outcome::Pending => Compliance::Pending,
    };
    let evidence = match compliant {
        Compliance::Pending => Evidence::Pending,
        _ => Evidence::ReportedSinceWrite(true),
    };
    let report = TemplateReport {
        compliant: Some(compliant),
        synced: true,
        evidence,
    };
    let templates = [report];
    let is_current = Mark::read(&replica.annotations).map(|mark| mark.step.to_string()) == step;
    Some(PolicyStatus {
        compliant: compliance(&templates),
        // Of a copy that the hub has replaced meanwhile only its step is of interest: it says so.
        rollout_status: is_current.then(|| rollout_status(replica, &templates)),
        rollout_step: step,
        details: vec![TemplateStatus {
            name: replica
                .spec
                .templates
                .first()
                .map(|template| template.name().to_owned())
                .unwrap_or_default(),
            compliant: Some(compliant),
            history: vec![HistoryEntry {
                event_name: format!("{}.{:x}", replica.name, now.as_nanosecond()),
                at: Some(now),
                message: format!("{compliant}; as scripted"),
            }],
        }],
        ..PolicyStatus::default()
    })
}
