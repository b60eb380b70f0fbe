//! Events that interrupt a rollout, in the order of the table docs/spec/governance.md#8-11. Its last event, a new version that breaks a
//! dependency, is tested in `sync/tests.rs`, because a managed cluster decides about it.

use super::*;

fn two_of_three() -> Fleet {
    let strategy = progressive(json!({"maxConcurrency": 1, "progressDeadline": "10m"}));
    let mut fleet = Fleet::new(enforce(strategy), &[("", &["c1", "c2", "c3"])]);
    fleet.settle();
    fleet.good("c1");
    fleet.check("Progressing c1:Succeeded! c2:Progressing! c3:ToApply");
    fleet
}

#[test]
fn a_hub_restart_changes_nothing() {
    let fleet = two_of_three();
    assert_eq!(fleet.look(), fleet.clone().look());
    let plan = fleet.look();
    assert!(plan.writes.is_empty());
    let mut edited = fleet.clone();
    edited.edit(enforce(progressive(json!({"maxConcurrency": 2}))));
    let versions: Vec<String> = edited
        .look()
        .writes
        .iter()
        .filter_map(|write| match write {
            Write::Update(replica) => Some(replica.resource_version.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(versions.len(), 3);
    assert!(
        versions.iter().all(|version| !version.is_empty()),
        "writes must still find what was observed"
    );
}

#[test]
fn a_root_edited_during_the_first_pass_starts_it_again() {
    let mut fleet = Fleet::new(enforce(progressive(json!({}))), &[("", &["c1", "c2"])]);
    let first = fleet.look();
    fleet.hub.carry_out(&Fleet::key(), &first.writes[0]);
    fleet.edit(json!({"remediationAction": "Enforce", "rolloutStrategy": progressive(json!({}))}));
    assert_eq!(
        names_of(&fleet.look().writes),
        ["c1", "c2"],
        "the newest version wins"
    );
}

#[test]
fn an_edited_root_forgets_failures() {
    let mut fleet = two_of_three();
    fleet.bad("c2");
    fleet.check("Failed c1:Succeeded! c2:Failed! c3:ToApply");
    fleet.edit(json!({"remediationAction": "Enforce", "rolloutStrategy": progressive(json!({}))}));
    fleet.settle();
    fleet.check("Progressing c1:Progressing! c2:ToApply c3:ToApply");
}

#[test]
fn a_change_to_inform_ends_the_rollout() {
    let mut fleet = two_of_three();
    fleet.edit(json!({"remediationAction": "inform", "rolloutStrategy": progressive(json!({}))}));
    fleet.settle();
    fleet.check("Progressing c1:Progressing c2:Progressing c3:Progressing");
    for cluster in ["c1", "c2", "c3"] {
        fleet.good(cluster);
    }
    fleet.check("Succeeded c1:Succeeded c2:Succeeded c3:Succeeded");
}

#[test]
fn an_edited_strategy_keeps_the_phase_of_each_cluster() {
    let mut fleet = two_of_three();
    fleet.wait(600);
    fleet.check("Failed c1:Succeeded! c2:TimeOut! c3:ToApply");
    let since = fleet.mark("c2").since;
    fleet.edit(enforce(progressive(json!({"progressDeadline": "1h"}))));
    fleet.settle();
    fleet.check("Progressing c1:Succeeded! c2:Progressing! c3:ToApply");
    assert_eq!(fleet.mark("c2").since, since, "revived, with its own time");
    fleet.edit(json!({"remediationAction": "enforce"}));
    fleet.settle();
    fleet.check("Progressing c1:Progressing! c2:Progressing! c3:Progressing!");
    let mut all = Fleet::new(enforce(json!({"type": "All"})), &[("", &["c1", "c2"])]);
    all.settle();
    all.edit(enforce(progressive(json!({"maxConcurrency": 1}))));
    all.settle();
    all.check("Progressing c1:Progressing! c2:Progressing!");
    all.edit(json!({"remediationAction": "Enforce", "rolloutStrategy": progressive(json!({"maxConcurrency": 2}))}));
    all.settle();
    all.check("Progressing c1:Progressing! c2:Progressing!");
    assert_eq!(
        all.mark("c1").since,
        all.now,
        "text and strategy together: a new version"
    );
}

#[test]
fn clusters_join_anew_after_a_policy_was_disabled() {
    let mut fleet = two_of_three();
    let mut spec = enforce(progressive(json!({})));
    spec["disabled"] = json!(true);
    fleet.edit(spec);
    fleet.settle();
    fleet.check("-");
    assert!(fleet.hub.replicas[&Fleet::key()].is_empty());
    assert_eq!(
        fleet.hub.policies[&Fleet::key()].status.placement.len(),
        1,
        "still listed"
    );
    fleet.edit(enforce(progressive(json!({}))));
    fleet.settle();
    fleet.check("Progressing c1:Progressing! c2:ToApply c3:ToApply");
}

#[test]
fn a_deleted_placement_or_binding_removes_its_replicas() {
    for delete in [
        (|hub: &mut Hub| hub.decisions.clear()) as fn(&mut Hub),
        |hub| hub.bindings.clear(),
        |hub| hub.decisions = vec![decisions("pl", &[])],
    ] {
        let mut fleet = two_of_three();
        let before = fleet.hub.clone();
        delete(&mut fleet.hub);
        fleet.settle();
        fleet.check("-");
        fleet.hub.decisions = before.decisions;
        fleet.hub.bindings = before.bindings;
        fleet.settle();
        fleet.check("Progressing c1:Progressing! c2:ToApply c3:ToApply");
    }
}

#[test]
fn a_cluster_that_moves_to_another_group_keeps_its_phase() {
    let mut fleet = Fleet::new(
        enforce(per_group(json!({}))),
        &[("can", &["c1", "c2"]), ("", &["c3"])],
    );
    fleet.settle();
    fleet.good("c1");
    let before = fleet.mark("c1");
    fleet.decide(&[("can", &["c2"]), ("", &["c1", "c3"])]);
    let plan = fleet.settle();
    fleet.check("Progressing c1:Succeeded! c2:Progressing! c3:ToApply");
    assert_eq!(
        (fleet.mark("c1"), plan.clusters["c1"].group.index),
        (before, 1)
    );
    fleet.good("c2");
    fleet.check("Progressing c1:Succeeded! c2:Succeeded! c3:Progressing!");
}

#[test]
fn a_cluster_that_leaves_and_returns_starts_again() {
    let mut fleet = two_of_three();
    fleet.good("c2");
    fleet.good("c3");
    fleet.decide(&[("", &["c2", "c3"])]);
    fleet.settle();
    fleet.check("Succeeded c2:Succeeded! c3:Succeeded!");
    assert!(
        fleet.hub.replica(&Fleet::key(), "c1").is_none(),
        "nothing is left behind"
    );
    fleet.decide(&[("", &["c1", "c2", "c3"])]);
    let plan = fleet.look();
    let [Write::Create(replica)] = &plan.writes[..] else {
        panic!("{plan:?}")
    };
    assert_eq!(
        replica.spec.wire().remediation_action,
        Some(RemediationAction::InformLowercase)
    );
    fleet.settle();
    fleet.check("Progressing c1:Progressing! c2:Succeeded! c3:Succeeded!");
}

#[test]
fn an_unknown_mandatory_group_is_reported() {
    let strategy = per_group(json!({"mandatoryDecisionGroups": [{"groupName": "nope"}]}));
    let mut fleet = Fleet::new(enforce(strategy), &[("", &["c1"])]);
    let plan = fleet.settle();
    fleet.check("Progressing c1:Progressing!");
    assert_eq!(
        warnings(&plan),
        [
            r#"The mandatory decision group "nope" is unknown or empty; the rollout goes on without it"#
        ]
    );
}

#[test]
fn an_offline_cluster_fails_at_its_deadline_or_holds_its_slot() {
    let mut waiting = two_of_three();
    waiting.wait(599);
    waiting.check("Progressing c1:Succeeded! c2:Progressing! c3:ToApply");
    waiting.wait(1);
    waiting.check("Failed c1:Succeeded! c2:TimeOut! c3:ToApply");
    let mut without_deadline = Fleet::new(enforce(progressive(json!({}))), &[("", &["c1", "c2"])]);
    without_deadline.settle();
    let plan = without_deadline.wait(1_000_000);
    without_deadline.check("Progressing c1:Progressing! c2:ToApply");
    assert_eq!(plan.look_again_at, None);
}

#[test]
fn a_time_later_than_now_is_read_as_now() {
    let mut fleet = two_of_three();
    fleet.now -= SignedDuration::from_hours(3);
    let plan = fleet.settle();
    for cluster in ["c1", "c2"] {
        assert_eq!(
            fleet.mark(cluster).since,
            fleet.now,
            "{cluster}: read as now, and written so"
        );
    }
    assert_eq!(
        plan.look_again_at,
        Some(fleet.now + SignedDuration::from_mins(10))
    );
    fleet.check("Progressing c1:Succeeded! c2:Progressing! c3:ToApply");
}

#[test]
fn a_replica_deleted_or_edited_by_hand_is_restored() {
    let mut fleet = two_of_three();
    fleet
        .hub
        .replicas
        .get_mut(&Fleet::key())
        .unwrap()
        .remove("c1");
    fleet.settle();
    fleet.check("Progressing c1:ToApply c2:Progressing! c3:ToApply");
    let mut fleet = two_of_three();
    for cluster in ["c1", "c3"] {
        set_action(fleet.replica_mut(cluster), RemediationAction::Enforce);
        fleet.replica_mut(cluster).labels.clear();
    }
    fleet.settle();
    assert_eq!(
        fleet.replica("c1").spec.wire().remediation_action,
        Some(RemediationAction::EnforceLowercase)
    );
    assert_eq!(
        fleet.replica("c3").spec.wire().remediation_action,
        Some(RemediationAction::InformLowercase)
    );
    assert_eq!(fleet.replica("c3").labels.len(), 3);
}

#[test]
fn a_hub_restored_from_a_backup_converges() {
    let fleet = two_of_three();
    let mut restored = fleet.clone();
    for cluster in ["c1", "c2", "c3"] {
        let replica = restored.replica_mut(cluster);
        replica.status = crate::objects::PolicyStatus::default();
    }
    restored.settle();
    restored.check("Progressing c1:Progressing! c2:Progressing! c3:ToApply");
    let mut without_annotations = fleet;
    for cluster in ["c1", "c2", "c3"] {
        without_annotations.replica_mut(cluster).annotations.clear();
    }
    without_annotations.settle();
    without_annotations.check("Progressing c1:Succeeded! c2:Progressing! c3:ToApply");
}
