//! Propagation, status and rollouts of one root policy: docs/spec/governance.md#5, docs/spec/governance.md#7-6 and docs/spec/governance.md#8.

mod interruptions;
mod properties;
mod scenarios;

use std::collections::BTreeMap;

use crate::objects::{HistoryEntry, Policy, TemplateStatus};
use jiff::{SignedDuration, Timestamp};
use polity_api::policy::v1::RemediationAction;
use polity_core::governance::{Compliance, names};
use polity_core::rollout_strategy::RolloutStatus;
use polity_core::{ClusterName, ObjectKey};
use serde_json::{Value, json};

use super::{Plan, Write};
use crate::fixtures::{self, binding, decisions, policy};
use crate::hub::Hub;
use crate::mark::{Mark, Stage};

/// A hub with the policy `policies/p`, bound to the placement `pl`, and a clock.
#[derive(Clone)]
struct Fleet {
    hub: Hub,
    now: Timestamp,
}

fn progressive(rest: Value) -> Value {
    json!({"type": "Progressive", "progressive": rest})
}

fn per_group(rest: Value) -> Value {
    json!({"type": "ProgressivePerGroup", "progressivePerGroup": rest})
}

fn enforce(strategy: Value) -> Value {
    json!({"remediationAction": "enforce", "rolloutStrategy": strategy})
}

impl Fleet {
    fn new(spec: Value, groups: &[(&str, &[&str])]) -> Self {
        let mut hub = Hub {
            bindings: vec![binding("b", "pl", "Policy", "p")],
            decisions: vec![decisions("pl", groups)],
            ..Hub::default()
        };
        let root = policy(spec);
        hub.policies.insert(root.key(), root);
        Self {
            hub,
            now: fixtures::START.parse().unwrap(),
        }
    }

    fn key() -> ObjectKey {
        ObjectKey::namespaced("policies", "p")
    }

    fn edit(&mut self, spec: Value) {
        let edited = policy(spec);
        let root = self.hub.policies.get_mut(&Self::key()).unwrap();
        root.spec = edited.spec;
    }

    fn decide(&mut self, groups: &[(&str, &[&str])]) {
        self.hub.decisions = vec![decisions("pl", groups)];
    }

    fn look(&self) -> Plan {
        self.hub.plan(&Self::key(), self.now).unwrap()
    }

    fn settle(&mut self) -> Plan {
        self.hub
            .settle(&Self::key(), self.now, |_, _| {})
            .unwrap()
            .unwrap()
    }

    fn wait(&mut self, seconds: i64) -> Plan {
        self.now += SignedDuration::from_secs(seconds);
        self.settle()
    }

    fn replica(&self, cluster: &str) -> &Policy {
        self.hub.replica(&Self::key(), cluster).unwrap()
    }

    fn replica_mut(&mut self, cluster: &str) -> &mut Policy {
        self.hub
            .replicas
            .get_mut(&Self::key())
            .unwrap()
            .get_mut(cluster)
            .unwrap()
    }

    fn mark(&self, cluster: &str) -> Mark {
        Mark::read(&self.replica(cluster).annotations).unwrap()
    }

    /// The cluster reports on the copy it has, and the hub looks.
    fn report(&mut self, cluster: &str, compliant: Compliance) -> Plan {
        let step = self
            .replica(cluster)
            .annotations
            .get(names::ROLLOUT_STEP)
            .cloned();
        let waits = self.mark(cluster).step.stage == Stage::Wait;
        let status = &mut self.replica_mut(cluster).status;
        status.compliant = Some(compliant);
        status.rollout_step = step;
        status.rollout_status = Some(match compliant {
            _ if waits => RolloutStatus::ToApply,
            Compliance::Compliant => RolloutStatus::Succeeded,
            Compliance::NonCompliant => RolloutStatus::Failed,
            Compliance::Pending => RolloutStatus::Progressing,
        });
        self.settle()
    }

    /// A managed side that knows no rollouts: compliance and a history, nothing about steps.
    fn report_plainly(&mut self, cluster: &str, compliant: Compliance) -> Plan {
        let at = self.now;
        let status = &mut self.replica_mut(cluster).status;
        status.compliant = Some(compliant);
        status.details = vec![TemplateStatus {
            name: "t".to_owned(),
            compliant: Some(compliant),
            history: vec![HistoryEntry {
                event_name: "policies.p.notime".to_owned(),
                at: Some(at),
                message: format!("{compliant}; whatever"),
            }],
        }];
        self.settle()
    }

    fn good(&mut self, cluster: &str) -> Plan {
        self.report(cluster, Compliance::Compliant)
    }

    fn bad(&mut self, cluster: &str) -> Plan {
        self.report(cluster, Compliance::NonCompliant)
    }

    /// `c1:Succeeded! c2:ToApply`, with `!` where the replica enforces, and the root's status in front.
    fn shown(&self) -> String {
        let root = &self.hub.policies[&Self::key()];
        let mut words = vec![
            root.status
                .rollout_status
                .map_or("-".to_owned(), |status| status.to_string()),
        ];
        for entry in &root.status.clusters {
            let enforces = self
                .hub
                .replica(&Self::key(), &entry.cluster)
                .is_some_and(|replica| replica.spec.enforces());
            let status = entry.rollout_status.unwrap();
            words.push(format!(
                "{}:{status}{}",
                entry.cluster,
                if enforces { "!" } else { "" }
            ));
        }
        words.join(" ")
    }

    #[track_caller]
    fn check(&self, expected: &str) {
        assert_eq!(self.shown(), expected);
    }
}

fn warnings(plan: &Plan) -> Vec<&str> {
    plan.events
        .iter()
        .filter(|event| event.severity == super::Severity::Warning)
        .map(|event| event.message.as_str())
        .collect()
}

/// Sets the action of a replica, as an edit by hand does.
fn set_action(replica: &mut Policy, action: RemediationAction) {
    let mut wire = replica.spec.wire().clone();
    wire.remediation_action = Some(action);
    replica.spec = std::sync::Arc::new(wire.into());
}

/// A write in a few words: what, where, and with which step and phase.
fn told(write: &Write) -> String {
    let replica = |word: &str, replica: &Policy| {
        let text = |name: &str| replica.annotations.get(name).cloned().unwrap_or_default();
        let step = text(names::ROLLOUT_STEP);
        let (phase, since) = (text(names::ROLLOUT_PHASE), text(names::ROLLOUT_SINCE));
        let action = json!(replica.spec.wire().remediation_action);
        format!(
            "{word} {} {step} {phase} {since} {action}",
            replica.namespace
        )
    };
    match write {
        Write::Create(created) => replica("create", created),
        Write::Update(updated) => replica("update", updated),
        Write::Delete { cluster, .. } => format!("delete {cluster}"),
        Write::ShowStatus {
            cluster, status, ..
        } => format!("show {cluster} {status}"),
    }
}

fn names_of(writes: &[Write]) -> Vec<&str> {
    writes
        .iter()
        .filter(|write| !matches!(write, Write::ShowStatus { .. }))
        .map(Write::cluster)
        .collect()
}

#[test]
fn the_compliance_of_a_root_summarizes_its_clusters() {
    use Compliance::{Compliant, NonCompliant, Pending};
    let check = |all: &[Option<Compliance>], expected| {
        assert_eq!(super::compliance(all.iter().copied()), expected, "{all:?}");
    };
    check(&[], None);
    check(
        &[Some(Compliant), Some(Pending), None, Some(NonCompliant)],
        Some(NonCompliant),
    );
    check(&[Some(Compliant), Some(Pending), None], Some(Pending));
    check(&[Some(Compliant), None], None);
    check(&[Some(Compliant), Some(Compliant)], Some(Compliant));
}

#[test]
fn status_is_written_only_when_it_changed() {
    let mut fleet = Fleet::new(json!({"remediationAction": "inform"}), &[("", &["c1"])]);
    assert!(fleet.look().root_status_changed);
    fleet.settle();
    let plan = fleet.look();
    assert!(!plan.root_status_changed && plan.writes.is_empty() && plan.events.is_empty());
}

#[test]
fn no_replica_is_deleted_while_decisions_are_rewritten() {
    let mut fleet = Fleet::new(
        json!({"remediationAction": "inform"}),
        &[("", &["c1", "c2"])],
    );
    fleet.settle();
    fleet.decide(&[("", &["c1"])]);
    fleet.hub.decisions[0].settled = false;
    assert!(fleet.look().writes.is_empty());
    fleet.hub.decisions[0].settled = true;
    assert!(matches!(fleet.look().writes[..], [Write::Delete { .. }]));
    fleet.edit(json!({"remediationAction": "inform", "disabled": true}));
    fleet.hub.decisions[0].settled = false;
    let plan = fleet.look();
    assert_eq!(plan.writes.len(), 2, "disabled is disabled");
    assert_eq!(plan.events[0].message, "Policy policies/p was disabled");
}

#[test]
fn progressive_is_serial_and_inform_goes_everywhere_at_once() {
    let mut fleet = Fleet::new(
        enforce(progressive(json!({}))),
        &[("", &["c1", "c2", "c3"])],
    );
    fleet.settle();
    fleet.check("Progressing c1:Progressing! c2:ToApply c3:ToApply");
    for concurrency in [json!(0), json!(-1), json!("0%")] {
        let mut fleet = Fleet::new(
            enforce(progressive(json!({"maxConcurrency": concurrency}))),
            &[("", &["c1", "c2"])],
        );
        fleet.settle();
        fleet.check("Progressing c1:Progressing! c2:ToApply");
    }
    let strategy = progressive(json!({"progressDeadline": "1m"}));
    let mut fleet = Fleet::new(
        json!({"remediationAction": "inform", "rolloutStrategy": strategy}),
        &[("", &["c1", "c2"])],
    );
    let plan = fleet.settle();
    fleet.check("Progressing c1:Progressing c2:Progressing");
    assert_eq!(
        plan.look_again_at,
        Some(fleet.now + SignedDuration::from_mins(1)),
        "only the deadline is taken"
    );
    fleet.good("c1");
    fleet.wait(60);
    fleet.check("Failed c1:Succeeded c2:TimeOut");
}

#[test]
fn templates_with_their_own_action_are_rolled_out_too() {
    let template = json!([{"objectDefinition": {"kind": "ConfigurationPolicy", "spec": {"remediationAction": "enforce"}}}]);
    let spec = json!({"policy-templates": template, "rolloutStrategy": progressive(json!({}))});
    let mut fleet = Fleet::new(spec, &[("", &["c1", "c2"])]);
    fleet.settle();
    fleet.check("Progressing c1:Progressing! c2:ToApply");
    assert_eq!(fleet.replica("c1").spec.wire().remediation_action, None);
    assert_eq!(
        fleet.replica("c2").spec.wire().remediation_action,
        Some(RemediationAction::InformLowercase)
    );
}

#[test]
fn the_first_pass_is_finished_before_any_cluster_enforces() {
    let mut fleet = Fleet::new(enforce(progressive(json!({}))), &[("", &["c1", "c2"])]);
    let plan = fleet.look();
    assert_eq!(plan.look_again_at, Some(fleet.now));
    fleet.hub.carry_out(&Fleet::key(), &plan.writes[0]);
    let plan = fleet.look();
    assert_eq!(names_of(&plan.writes), ["c2"]);
}

#[test]
fn a_replica_that_cannot_be_written_delays_no_other_cluster() {
    let mut fleet = Fleet::new(enforce(progressive(json!({}))), &[("", &["c1", "c2"])]);
    fleet.hub.unwritable.insert(
        ClusterName::from("c1"),
        "namespace c1 is terminating".to_owned(),
    );
    let plan = fleet.settle();
    fleet.check("Progressing c1:ToApply c2:Progressing!");
    assert_eq!(
        warnings(&plan),
        ["The policy could not be written for cluster c1: namespace c1 is terminating"]
    );
    fleet.good("c2");
    fleet.check("Progressing c1:ToApply c2:Succeeded!");
    fleet.hub.unwritable.clear();
    fleet.settle();
    fleet.check("Progressing c1:Progressing! c2:Succeeded!");
    let mut all = Fleet::new(enforce(json!({"type": "All"})), &[("", &["c1", "c2"])]);
    all.hub
        .unwritable
        .insert(ClusterName::from("c1"), "refused".to_owned());
    all.settle();
    all.check("Progressing c1:Progressing c2:Progressing!");
}

#[test]
fn a_refused_strategy_hands_out_no_cluster() {
    let mut fleet = Fleet::new(enforce(progressive(json!({}))), &[("", &["c1", "c2"])]);
    fleet.settle();
    fleet.edit(enforce(progressive(json!({"progressDeadline": "2d"}))));
    let plan = fleet.settle();
    fleet.check("Failed c1:Progressing! c2:ToApply");
    assert_eq!(
        warnings(&plan),
        ["The rollout strategy cannot be carried out: invalid timeout format"]
    );
    fleet.good("c1");
    fleet.check("Failed c1:Succeeded! c2:ToApply");
    fleet.edit(enforce(json!({"type": "Sideways"})));
    fleet.settle();
    fleet.check("Failed c1:Succeeded! c2:ToApply");
    fleet.edit(enforce(progressive(json!({}))));
    fleet.settle();
    fleet.check("Progressing c1:Succeeded! c2:Progressing!");
}

#[test]
fn soak_and_deadline_count_from_the_start_of_a_phase() {
    let mut fleet = Fleet::new(
        enforce(progressive(
            json!({"progressDeadline": "10m", "minSuccessTime": "5m", "maxFailures": 1}),
        )),
        &[("", &["c1", "c2", "c3"])],
    );
    fleet.settle();
    let handed_out = fleet.now;
    assert_eq!(fleet.mark("c1").since, handed_out);
    fleet.now += SignedDuration::from_mins(4);
    fleet.bad("c1");
    assert_eq!(
        fleet.mark("c1").since,
        handed_out,
        "failing does not restart the deadline"
    );
    let plan = fleet.report("c1", Compliance::Pending);
    fleet.check("Progressing c1:Progressing! c2:ToApply c3:ToApply");
    assert_eq!(
        plan.look_again_at,
        Some(handed_out + SignedDuration::from_mins(10))
    );
    let plan = fleet.good("c1");
    assert_eq!(fleet.mark("c1").since, fleet.now);
    assert_eq!(
        plan.look_again_at,
        Some(fleet.now + SignedDuration::from_mins(5))
    );
    fleet.now += SignedDuration::from_mins(3);
    fleet.bad("c1");
    fleet.now += SignedDuration::from_mins(1);
    fleet.good("c1");
    assert_eq!(
        fleet.mark("c1").since,
        fleet.now,
        "a drift restarts the soak"
    );
    fleet.wait(299);
    fleet.check("Progressing c1:Succeeded! c2:ToApply c3:ToApply");
    fleet.wait(1);
    fleet.check("Progressing c1:Succeeded! c2:Progressing! c3:ToApply");
}

#[test]
fn a_timed_out_cluster_can_still_succeed() {
    let mut fleet = Fleet::new(
        enforce(progressive(json!({"progressDeadline": "1m"}))),
        &[("", &["c1", "c2"])],
    );
    fleet.settle();
    fleet.wait(60);
    fleet.check("Failed c1:TimeOut! c2:ToApply");
    assert_eq!(fleet.mark("c1").phase, crate::mark::Phase::TimeOut);
    fleet.bad("c1");
    fleet.check("Failed c1:Failed! c2:ToApply");
    fleet.good("c1");
    fleet.check("Progressing c1:Succeeded! c2:Progressing!");
}

#[test]
fn tolerated_failures_do_not_make_a_success() {
    let mut fleet = Fleet::new(
        enforce(progressive(json!({"maxConcurrency": 2, "maxFailures": 1}))),
        &[("", &["c1", "c2"])],
    );
    fleet.settle();
    fleet.bad("c1");
    fleet.good("c2");
    fleet.check("Failed c1:Failed! c2:Succeeded!");
    let mut empty = Fleet::new(enforce(progressive(json!({}))), &[]);
    empty.settle();
    empty.check("-");
}

#[test]
fn the_last_soak_keeps_the_root_progressing() {
    let mut fleet = Fleet::new(
        enforce(progressive(json!({"minSuccessTime": "5m"}))),
        &[("", &["c1"])],
    );
    fleet.settle();
    fleet.good("c1");
    fleet.check("Progressing c1:Succeeded!");
    fleet.wait(300);
    fleet.check("Succeeded c1:Succeeded!");
}

#[test]
fn a_cluster_joins_after_a_tolerated_failure() {
    let strategy = progressive(json!({"maxConcurrency": 2, "maxFailures": 1}));
    let mut fleet = Fleet::new(enforce(strategy), &[("", &["c1", "c2"])]);
    fleet.settle();
    fleet.bad("c1");
    fleet.good("c2");
    fleet.decide(&[("", &["c1", "c2", "c3"])]);
    fleet.settle();
    fleet.check("Progressing c1:Failed! c2:Succeeded! c3:Progressing!");
    let mut breached = Fleet::new(enforce(progressive(json!({}))), &[("", &["c1"])]);
    breached.settle();
    breached.bad("c1");
    breached.decide(&[("", &["c0", "c1"])]);
    breached.settle();
    breached.check("Failed c0:ToApply c1:Failed!");
}

#[test]
fn a_cluster_added_to_an_earlier_group_comes_before_later_ones() {
    let mut fleet = Fleet::new(
        enforce(per_group(json!({}))),
        &[("can", &["c1"]), ("", &["c2"])],
    );
    fleet.settle();
    fleet.decide(&[("can", &["c1", "c9"]), ("", &["c2"])]);
    fleet.settle();
    fleet.good("c1");
    fleet.check("Progressing c1:Succeeded! c2:ToApply c9:Progressing!");
    fleet.good("c9");
    fleet.check("Progressing c1:Succeeded! c2:Progressing! c9:Succeeded!");
}

#[test]
fn several_placements_are_rolled_out_one_after_the_other() {
    let mut fleet = Fleet::new(enforce(per_group(json!({}))), &[]);
    fleet.hub.bindings = vec![
        binding("b1", "z", "Policy", "p"),
        binding("b2", "a", "Policy", "p"),
    ];
    fleet.hub.decisions = vec![
        decisions("z", &[("can", &["c3"]), ("", &["c1"])]),
        decisions("a", &[("", &["c2"]), ("", &["c1"])]),
    ];
    fleet.settle();
    fleet.check("Progressing c1:ToApply c2:Progressing! c3:ToApply");
    fleet.good("c2");
    fleet.check("Progressing c1:Progressing! c2:Succeeded! c3:ToApply");
    fleet.good("c1");
    fleet.check("Progressing c1:Succeeded! c2:Succeeded! c3:Progressing!");
}

#[test]
fn mandatory_groups_match_by_name_anywhere_and_by_index_in_the_first_placement_that_has_it() {
    let start = |mandatory: Value| {
        let mut fleet = Fleet::new(
            enforce(per_group(json!({"mandatoryDecisionGroups": mandatory}))),
            &[],
        );
        fleet.hub.bindings = vec![
            binding("b1", "z", "Policy", "p"),
            binding("b2", "a", "Policy", "p"),
        ];
        fleet.hub.decisions = vec![
            decisions("z", &[("", &["c3"]), ("can", &["c4"])]),
            decisions("a", &[("", &["c2"])]),
        ];
        let plan = fleet.settle();
        (fleet.shown(), warnings(&plan).join("; "))
    };
    let by_name = start(json!([{"groupName": "can"}]));
    assert_eq!(
        by_name.0,
        "Progressing c2:ToApply c3:ToApply c4:Progressing!"
    );
    assert_eq!(
        start(json!([{"groupIndex": 1}])),
        by_name,
        "only z has an index 1"
    );
    assert_eq!(
        start(json!([{}])).0,
        "Progressing c2:Progressing! c3:ToApply c4:ToApply"
    );
    let (shown, warning) = start(json!([{"groupName": "nope"}, {"groupIndex": 7}]));
    assert_eq!(shown, "Progressing c2:Progressing! c3:ToApply c4:ToApply");
    assert!(
        warning.contains("nope") && warning.contains("#7"),
        "{warning}"
    );
}

#[test]
fn failures_that_hold_every_slot_are_reported() {
    let mut fleet = Fleet::new(
        enforce(progressive(json!({"maxFailures": 1}))),
        &[("", &["c1", "c2"])],
    );
    fleet.settle();
    let plan = fleet.bad("c1");
    fleet.check("Progressing c1:Failed! c2:ToApply");
    assert_eq!(
        warnings(&plan),
        [
            "The rollout stands still: failed clusters hold every slot (c1) and there is no progressDeadline"
        ]
    );
}

#[test]
fn timed_out_clusters_do_not_exceed_the_concurrency_nor_leave_a_mandatory_group() {
    let mut fleet = Fleet::new(
        enforce(progressive(
            json!({"progressDeadline": "1m", "maxFailures": "100%"}),
        )),
        &[("", &["a", "b", "c"])],
    );
    fleet.settle();
    fleet.wait(60);
    fleet.check("Progressing a:TimeOut! b:Progressing! c:ToApply");
    fleet.wait(30);
    fleet.check("Progressing a:TimeOut! b:Progressing! c:ToApply");
    let mut mandatory = Fleet::new(
        enforce(per_group(
            json!({"progressDeadline": "1m", "mandatoryDecisionGroups": [{"groupName": "can"}]}),
        )),
        &[("can", &["a"]), ("", &["b"])],
    );
    mandatory.settle();
    mandatory.wait(60);
    mandatory.wait(600);
    mandatory.check("Failed a:TimeOut! b:ToApply");
}

#[test]
fn rollout_annotations_exist_only_with_a_strategy() {
    let mut fleet = Fleet::new(json!({"remediationAction": "enforce"}), &[("", &["c1"])]);
    fleet.settle();
    fleet.check("Progressing c1:Progressing!");
    let has_mark = |fleet: &Fleet| {
        fleet
            .replica("c1")
            .annotations
            .contains_key(names::ROLLOUT_STEP)
    };
    assert!(!has_mark(&fleet));
    fleet.replica_mut("c1").status.rollout_status = Some(RolloutStatus::Failed);
    fleet.settle();
    fleet.check("Failed c1:Failed!");
    fleet.edit(enforce(json!({"type": "All"})));
    fleet.settle();
    assert!(has_mark(&fleet));
    fleet.edit(json!({"remediationAction": "enforce"}));
    fleet.settle();
    assert!(!has_mark(&fleet));
}

#[test]
fn a_new_strategy_adopts_replicas_that_already_enforce() {
    let mut fleet = Fleet::new(
        json!({"remediationAction": "enforce"}),
        &[("", &["c1", "c2"])],
    );
    fleet.settle();
    fleet.decide(&[("", &["c1", "c2", "c3"])]);
    fleet.edit(enforce(progressive(json!({"maxConcurrency": 2}))));
    fleet.settle();
    fleet.check("Progressing c1:Progressing! c2:Progressing! c3:ToApply");
    fleet.good("c1");
    fleet.check("Progressing c1:Succeeded! c2:Progressing! c3:Progressing!");
    fleet
        .replica_mut("c2")
        .annotations
        .remove(names::ROLLOUT_SINCE);
    fleet.settle();
    assert_eq!(fleet.mark("c2").step.stage, Stage::Final, "adopted again");
    fleet.replica_mut("c2").annotations.clear();
    set_action(fleet.replica_mut("c2"), RemediationAction::Enforce);
    let plan = fleet.look();
    let [Write::Update(replica), ..] = &plan.writes[..] else {
        panic!("{plan:?}")
    };
    let mark = Mark::read(&replica.annotations).unwrap();
    assert_eq!(mark.step.stage, Stage::Wait, "not what the root defines");
}

#[test]
fn nothing_is_recorded_under_all_nor_after_the_end() {
    let mut all = Fleet::new(enforce(json!({"type": "All"})), &[("", &["c1"])]);
    all.settle();
    let before = all.replica("c1").annotations.clone();
    all.good("c1");
    all.bad("c1");
    assert_eq!(all.replica("c1").annotations, before);
    let mut fleet = Fleet::new(enforce(progressive(json!({}))), &[("", &["c1"])]);
    fleet.settle();
    fleet.good("c1");
    let before = fleet.replica("c1").annotations.clone();
    fleet.wait(60);
    fleet.bad("c1");
    fleet.check("Failed c1:Failed!");
    fleet.good("c1");
    fleet.check("Succeeded c1:Succeeded!");
    assert_eq!(fleet.replica("c1").annotations, before);
}

#[test]
fn the_replica_shows_its_status_at_once() {
    let mut fleet = Fleet::new(enforce(progressive(json!({}))), &[("", &["c1", "c2"])]);
    fleet.settle();
    let shown: BTreeMap<&str, _> = ["c1", "c2"]
        .into_iter()
        .map(|c| (c, fleet.replica(c).status.rollout_status))
        .collect();
    assert_eq!(shown["c1"], Some(RolloutStatus::Progressing));
    assert_eq!(shown["c2"], Some(RolloutStatus::ToApply));
}

#[test]
fn reports_of_an_agent_without_rollouts_count_by_their_time() {
    let mut fleet = Fleet::new(enforce(progressive(json!({}))), &[("", &["c1", "c2"])]);
    fleet.settle();
    let plan = fleet.report_plainly("c1", Compliance::Compliant);
    assert_eq!(
        plan.clusters["c1"].status,
        RolloutStatus::Progressing,
        "as old as the step"
    );
    fleet.now += SignedDuration::from_secs(5);
    fleet.hub.clock_is_off.insert(ClusterName::from("c1"));
    fleet.report_plainly("c1", Compliance::Compliant);
    fleet.check("Progressing c1:Progressing! c2:ToApply");
    fleet.hub.clock_is_off.clear();
    fleet.settle();
    fleet.check("Progressing c1:Succeeded! c2:Progressing!");
    fleet.wait(5);
    fleet.check("Progressing c1:Succeeded! c2:Progressing!");
    fleet.report_plainly("c1", Compliance::NonCompliant);
    fleet.wait(5);
    fleet.check("Failed c1:Failed! c2:Progressing!");
    fleet.now += SignedDuration::from_secs(5);
    fleet.report_plainly("c1", Compliance::Compliant);
    fleet.check("Progressing c1:Succeeded! c2:Progressing!");
}
