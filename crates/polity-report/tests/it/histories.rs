//! Random histories of a namespace: whatever happened, reports end up true, and when nothing happens nothing is
//! written.

use std::collections::BTreeMap;

use polity_report::plan::{Layout, Settings};
use polity_report::policy_set::PolicyMeta;
use polity_report::public::ReportGroup;
use polity_report::resource_report::{AuditWrite, ResourceReport};
use polity_report::split::Limits;
use polity_report::verdict::{GuestVerdict, Mode, Process};
use polity_report::{Outcome, PolicyKind, ReportingPolicy, Summary};
use proptest::prelude::*;

use crate::world::{Store, at, evaluation, meta, pass, pod, policy};

/// Something that happens.
#[derive(Debug, Clone)]
enum Event {
    /// An object is evaluated by a policy at a version.
    Evaluated {
        pod: usize,
        policy: usize,
        version: u8,
        is_allowed: bool,
        admission: bool,
    },
    /// An object is gone, and the collector took its report.
    Deleted {
        pod: usize,
    },
    /// A policy comes, goes, or changes what needs no evaluation.
    PolicyAdded {
        policy: usize,
    },
    PolicyDeleted {
        policy: usize,
    },
    PolicyEdited {
        policy: usize,
        monitor: bool,
        scored: bool,
    },
    /// Somebody changes a public report by hand.
    Meddled {
        report: usize,
    },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0_usize..8, 0_usize..5, 0_u8..2, any::<bool>(), any::<bool>()).prop_map(
            |(pod, policy, version, is_allowed, admission)| Event::Evaluated { pod, policy, version, is_allowed, admission }
        ),
        1 => (0_usize..8).prop_map(|pod| Event::Deleted { pod }),
        1 => (0_usize..5).prop_map(|policy| Event::PolicyAdded { policy }),
        1 => (0_usize..5).prop_map(|policy| Event::PolicyDeleted { policy }),
        1 => (0_usize..5, any::<bool>(), any::<bool>())
            .prop_map(|(policy, monitor, scored)| Event::PolicyEdited { policy, monitor, scored }),
        1 => (0_usize..5).prop_map(|report| Event::Meddled { report }),
    ]
}

/// Names that are each other's chunks, and kinds that share a name.
fn policies() -> Vec<ReportingPolicy> {
    vec![
        policy(PolicyKind::ClusterAdmissionPolicy, "foo"),
        policy(PolicyKind::ClusterAdmissionPolicy, "foo-1"),
        policy(PolicyKind::AdmissionPolicy, "foo"),
        policy(PolicyKind::ClusterAdmissionPolicyGroup, "foo"),
        policy(PolicyKind::ClusterAdmissionPolicy, &"long".repeat(30)),
    ]
}

struct ReportedCluster {
    metas: BTreeMap<usize, PolicyMeta>,
    reports: BTreeMap<usize, ResourceReport>,
    store: Store,
    settings: Settings,
    clock: i64,
}

impl ReportedCluster {
    fn new(settings: Settings) -> Self {
        let metas = policies().into_iter().map(meta).enumerate().collect();
        Self {
            metas,
            reports: BTreeMap::new(),
            store: Store::default(),
            settings,
            clock: 0,
        }
    }

    fn happen(&mut self, event: &Event) {
        self.clock += 1;
        match event {
            Event::Evaluated {
                pod: n,
                policy,
                version,
                is_allowed,
                admission,
            } => {
                let pod = pod(*n, "1");
                let answer = if *is_allowed {
                    GuestVerdict::allowed()
                } else {
                    GuestVerdict::denied("no")
                };
                let process = if *admission {
                    Process::Admission
                } else {
                    Process::Background
                };
                let policy = policies()[*policy].clone();
                let version = format!("v{version}");
                let evaluation =
                    evaluation(policy, &version, &pod, answer, process, at(self.clock));
                let stored = self
                    .reports
                    .remove(n)
                    .unwrap_or_else(|| ResourceReport::of(&pod, "polity"));
                self.reports
                    .insert(*n, stored.apply(&pod, "polity", &[evaluation], []));
            }
            Event::Deleted { pod } => {
                self.reports.remove(pod);
            }
            Event::PolicyAdded { policy } => {
                self.metas
                    .entry(*policy)
                    .or_insert_with(|| meta(policies()[*policy].clone()));
            }
            Event::PolicyDeleted { policy } => {
                self.metas.remove(policy);
            }
            Event::PolicyEdited {
                policy,
                monitor,
                scored,
            } => {
                if let Some(meta) = self.metas.get_mut(policy) {
                    meta.mode = if *monitor {
                        Mode::Monitor
                    } else {
                        Mode::Protect
                    };
                    meta.scored = *scored;
                }
            }
            Event::Meddled { report } => {
                let found = self.store.reports.values().nth(*report).cloned();
                if let Some(mut report) = found {
                    report.entries.reverse();
                    report.entries.pop();
                    self.store.put(report);
                }
            }
        }
    }

    fn pass(&mut self) -> usize {
        self.clock += 30;
        let metas: Vec<_> = self.metas.values().cloned().collect();
        let reports: Vec<_> = self.reports.values().cloned().collect();
        let writes = pass(&metas, reports, &self.store, &self.settings, at(self.clock));
        self.store.carry_out(&writes);
        writes.len()
    }

    /// Every verdict is found again, later and by another way: no report changes.
    fn audit_again(&mut self) {
        self.clock += 3600;
        for (n, report) in &self.reports {
            let pod = pod(*n, "1");
            let evaluations: Vec<_> = policies()
                .into_iter()
                .filter_map(|policy| {
                    let version = report.metadata.labels.get(&policy.key().label_key())?;
                    let entry = report.entries.get(&policy.key().entry_key(""));
                    let answer = match entry.map(|entry| entry.result) {
                        Some(Outcome::Pass) => GuestVerdict::allowed(),
                        Some(_) => GuestVerdict::denied("no"),
                        None => GuestVerdict::NotMatched,
                    };
                    let now = at(self.clock);
                    Some(evaluation(
                        policy,
                        version,
                        &pod,
                        answer,
                        Process::Background,
                        now,
                    ))
                })
                .collect();
            let next = report.apply(&pod, "polity", &evaluations, []);
            assert_eq!(next.write_over(Some(report)), AuditWrite::Nothing);
        }
    }

    /// What the public reports must say, counted from the resource reports.
    fn expected(&self) -> Summary {
        let mut summary = Summary::default();
        for entry in self
            .reports
            .values()
            .flat_map(|report| report.entries.values())
        {
            let Some(meta) = self
                .metas
                .values()
                .find(|meta| meta.policy.key() == entry.policy)
            else {
                continue;
            };
            summary.add(match entry.result {
                Outcome::Fail if !meta.scored => Outcome::Warn,
                other => other,
            });
        }
        summary
    }

    fn published(&self) -> Summary {
        let mut all = Summary::default();
        for report in self.store.all() {
            assert_eq!(
                report.summary,
                Summary::of(&report.entries),
                "{}",
                report.metadata.name
            );
            for entry in &report.entries {
                all.add(entry.result.unwrap());
            }
        }
        all
    }
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let groups = proptest::sample::select(&ReportGroup::ALL[..]);
    let layouts = proptest::sample::select(vec![Layout::Policy, Layout::Policy, Layout::Resource]);
    (groups, layouts, 0_usize..4).prop_map(|(group, layout, max_results)| Settings {
        group,
        layout,
        limits: Limits::new(max_results, 0),
        ..Settings::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn reports_are_true_and_idle_passes_write_nothing(
        settings in any_settings(),
        episodes in proptest::collection::vec(proptest::collection::vec(event(), 0..12), 1..5),
    ) {
        let mut world = ReportedCluster::new(settings);
        for events in &episodes {
            for event in events {
                world.happen(event);
            }
            world.pass();
            prop_assert_eq!(world.published(), world.expected());
            prop_assert_eq!(world.pass(), 0, "nothing happened");
            world.audit_again();
            prop_assert_eq!(world.pass(), 0, "nothing changed");
        }
    }
}
