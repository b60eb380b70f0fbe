//! Builders, and a store that does what an API server does with the writes of a plan.

use std::collections::BTreeMap;

use jiff::Timestamp;
use polity_report::fold::{Fold, Folded};
use polity_report::plan::{Settings, Write, plan};
use polity_report::policy_set::{PolicyMeta, PolicySet};
use polity_report::public::{PublicReport, ReportGroup};
use polity_report::read::read_report;
use polity_report::resource_report::{Evaluated, Evaluation, Resource, ResourceReport};
use polity_report::verdict::{Evaluator, GuestVerdict, Mode, Process, to_entry};
use polity_report::{PolicyKind, ReportingKind, ReportingPolicy, ResourceRef, Severity};

pub(crate) const NAMESPACE: &str = "shop";

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_794_700_800 + seconds).unwrap()
}

pub(crate) fn policy(kind: impl Into<ReportingKind>, name: &str) -> ReportingPolicy {
    let kind = kind.into();
    let namespace = kind.is_namespaced().then_some(NAMESPACE);
    ReportingPolicy::new(kind, namespace, name).unwrap()
}

pub(crate) fn cluster_policy(name: &str) -> ReportingPolicy {
    policy(PolicyKind::ClusterAdmissionPolicy, name)
}

pub(crate) fn meta(policy: ReportingPolicy) -> PolicyMeta {
    PolicyMeta {
        policy,
        mode: Mode::Protect,
        severity: Some(Severity::High),
        category: "Pod security".to_owned(),
        scored: true,
        n_templates: 0,
        is_disabled: false,
    }
}

pub(crate) fn evaluator(policy: ReportingPolicy, version: &str) -> Evaluator {
    Evaluator {
        policy,
        uid: "policy-uid".to_owned(),
        version: version.to_owned(),
        mode: Mode::Protect,
        mutating: false,
        context_aware: false,
    }
}

pub(crate) fn pod(n: usize, hash: &str) -> Resource {
    Resource {
        reference: ResourceRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: NAMESPACE.to_owned(),
            name: format!("web-{n}"),
            uid: format!("6f0f0a52-0000-4000-8000-{n:012}"),
        },
        hash: format!("{hash:0>32}"),
    }
}

pub(crate) fn evaluation(
    policy: ReportingPolicy,
    version: &str,
    resource: &Resource,
    answer: GuestVerdict,
    process: Process,
    now: Timestamp,
) -> Evaluation {
    let key = policy.key();
    let entry = to_entry(&evaluator(policy, version), &answer.into(), process, now);
    Evaluation {
        policy: key,
        version: version.to_owned(),
        evaluated: Evaluated::Object {
            hash: resource.hash.clone(),
        },
        entries: entry.into_iter().collect(),
    }
}

/// A background evaluation.
pub(crate) fn scanned(
    policy: ReportingPolicy,
    resource: &Resource,
    answer: GuestVerdict,
    seconds: i64,
) -> Evaluation {
    evaluation(
        policy,
        "v1",
        resource,
        answer,
        Process::Background,
        at(seconds),
    )
}

/// A report of an object in which these policies said yes or no.
pub(crate) fn report_of(
    resource: &Resource,
    verdicts: &[(ReportingPolicy, bool)],
    seconds: i64,
) -> ResourceReport {
    let evaluations: Vec<_> = verdicts
        .iter()
        .map(|(policy, is_allowed)| {
            let answer = if *is_allowed {
                GuestVerdict::allowed()
            } else {
                GuestVerdict::denied("no")
            };
            scanned(policy.clone(), resource, answer, seconds)
        })
        .collect();
    ResourceReport::of(resource, "polity").apply(resource, "polity", &evaluations, [])
}

/// The public reports of a namespace, with versions that move with every write.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    pub(crate) reports: BTreeMap<(ReportGroup, String), PublicReport>,
    version: u64,
}

impl Store {
    pub(crate) fn all(&self) -> Vec<PublicReport> {
        self.reports.values().cloned().collect()
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.reports.keys().map(|(_, name)| name.as_str()).collect()
    }

    pub(crate) fn get(&self, name: &str) -> &PublicReport {
        &self.reports[&(ReportGroup::PolicyReports, name.to_owned())]
    }

    pub(crate) fn put(&mut self, mut report: PublicReport) {
        self.version += 1;
        report.metadata.resource_version = Some(self.version.to_string());
        let key = (report.group, report.metadata.name.clone());
        self.reports.insert(key, report);
    }

    /// Carries out a plan as an API server would: through JSON, refusing what does not fit what is there.
    pub(crate) fn carry_out(&mut self, writes: &[Write]) {
        for write in writes {
            match write {
                Write::Create(report) => {
                    let key = (report.group, report.metadata.name.clone());
                    assert!(!self.reports.contains_key(&key), "{key:?} exists");
                    self.put(through_json(report));
                }
                Write::Put(report) => {
                    let key = (report.group, report.metadata.name.clone());
                    let stored = &self.reports[&key].metadata.resource_version;
                    assert_eq!(
                        stored, &report.metadata.resource_version,
                        "conflict on {key:?}"
                    );
                    self.put(through_json(report));
                }
                Write::Delete(doomed) => {
                    let key = (doomed.group, doomed.name.clone());
                    let removed = self.reports.remove(&key);
                    assert!(removed.is_some(), "{key:?} does not exist");
                }
            }
        }
    }
}

fn through_json(report: &PublicReport) -> PublicReport {
    let read = read_report(&report.to_value()).unwrap();
    assert_eq!(read.complaints, Vec::<String>::new());
    assert_eq!(read.report, *report, "what is written reads back");
    read.report
}

pub(crate) fn folded(
    policies: &PolicySet,
    reports: impl IntoIterator<Item = ResourceReport>,
    stored: &[PublicReport],
    settings: &Settings,
) -> Folded {
    let mut fold = Fold::new(policies, stored);
    fold.add_page(reports);
    fold.finish(&settings.source)
}

/// A whole pass over a namespace.
pub(crate) fn pass(
    metas: &[PolicyMeta],
    reports: impl IntoIterator<Item = ResourceReport>,
    store: &Store,
    settings: &Settings,
    now: Timestamp,
) -> Vec<Write> {
    let policies = PolicySet::of_namespace(metas, Some(NAMESPACE));
    let stored = store.all();
    let folded = folded(&policies, reports, &stored, settings);
    plan(Some(NAMESPACE), folded, &policies, &stored, settings, now)
}
