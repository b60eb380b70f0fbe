//! The worked scenarios of docs/spec/governance.md#15 that the hub decides. Those about policy sets are in `sets.rs`, those about
//! selective enforcement in `place/tests.rs`, and those about dependencies in `sync/tests.rs`.

use super::*;

/// A progressive rollout in which c1 has succeeded and c2 is in flight.
fn with_c2_in_flight() -> Fleet {
    let mut fleet = Fleet::new(
        enforce(progressive(json!({"maxConcurrency": 1}))),
        &[("", &["c1", "c2", "c3"])],
    );
    fleet.settle();
    fleet.good("c1");
    fleet
}

#[test]
fn without_a_strategy_all_clusters_get_the_policy() {
    let mut fleet = Fleet::new(
        json!({"remediationAction": "inform"}),
        &[("", &["c1", "c2"])],
    );
    let plan = fleet.look();
    assert_eq!(names_of(&plan.writes), ["c1", "c2"]);
    assert_eq!(
        plan.events[0].message,
        "Policy policies/p was propagated to cluster c1"
    );
    fleet.settle();
    for cluster in ["c1", "c2"] {
        let replica = fleet.replica(cluster);
        assert_eq!(
            (replica.namespace.as_str(), replica.name.as_str()),
            (cluster, "policies.p")
        );
        assert_eq!(replica.labels[names::CLUSTER_NAME], cluster);
        assert_eq!(replica.labels[names::CLUSTER_NAMESPACE], cluster);
        assert_eq!(replica.labels[names::ROOT_POLICY], "policies.p");
    }
    let status = |fleet: &Fleet| fleet.hub.policies[&Fleet::key()].status.clone();
    assert_eq!(status(&fleet).compliant, None);
    assert_eq!(
        status(&fleet)
            .clusters
            .iter()
            .map(|entry| entry.compliant)
            .collect::<Vec<_>>(),
        [None, None]
    );
    fleet.replica_mut("c1").status.compliant = Some(Compliance::Compliant);
    fleet.replica_mut("c2").status.compliant = Some(Compliance::NonCompliant);
    fleet.settle();
    assert_eq!(status(&fleet).compliant, Some(Compliance::NonCompliant));
}

#[test]
fn a_progressive_rollout_enforces_one_cluster_after_another() {
    let mut fleet = Fleet::new(
        enforce(progressive(json!({"maxConcurrency": 1}))),
        &[("", &["c1", "c2", "c3"])],
    );
    let first = fleet.look();
    assert_eq!(names_of(&first.writes), ["c1", "c2", "c3"]);
    for write in &first.writes {
        let Write::Create(replica) = write else {
            panic!("{write:?}")
        };
        assert_eq!(
            replica.spec.wire().remediation_action,
            Some(RemediationAction::InformLowercase)
        );
        assert_eq!(
            Mark::read(&replica.annotations).unwrap().step.stage,
            Stage::Wait
        );
    }
    fleet.settle();
    fleet.check("Progressing c1:Progressing! c2:ToApply c3:ToApply");
    fleet.good("c1");
    fleet.check("Progressing c1:Succeeded! c2:Progressing! c3:ToApply");
    let plan = fleet.bad("c2");
    assert!(plan.breach);
    fleet.check("Failed c1:Succeeded! c2:Failed! c3:ToApply");
    fleet.good("c2");
    fleet.check("Progressing c1:Succeeded! c2:Succeeded! c3:Progressing!");
    fleet.good("c3");
    fleet.check("Succeeded c1:Succeeded! c2:Succeeded! c3:Succeeded!");
}

#[test]
fn a_rollout_per_group_waits_for_the_soak() {
    let strategy = per_group(json!({"minSuccessTime": "5m"}));
    let mut fleet = Fleet::new(
        enforce(strategy),
        &[("canary", &["c1"]), ("", &["c2", "c3"])],
    );
    fleet.settle();
    let plan = fleet.good("c1");
    assert_eq!(
        plan.look_again_at,
        Some(fleet.now + SignedDuration::from_mins(5))
    );
    assert_eq!(plan.holding, [ClusterName::from("c1")]);
    fleet.wait(299);
    fleet.check("Progressing c1:Succeeded! c2:ToApply c3:ToApply");
    fleet.wait(1);
    fleet.check("Progressing c1:Succeeded! c2:Progressing! c3:Progressing!");
}

#[test]
fn a_new_version_restarts_a_running_rollout() {
    let mut fleet = with_c2_in_flight();
    let old = fleet.mark("c1");
    fleet.now += SignedDuration::from_mins(1);
    let strategy = progressive(json!({"maxConcurrency": 1}));
    fleet.edit(json!({"remediationAction": "Enforce", "rolloutStrategy": strategy}));
    let plan = fleet.look();
    assert_eq!(names_of(&plan.writes), ["c1", "c2", "c3"]);
    fleet.settle();
    fleet.check("Progressing c1:Progressing! c2:ToApply c3:ToApply");
    for cluster in ["c1", "c2", "c3"] {
        let mark = fleet.mark(cluster);
        assert_ne!(mark.step.version, old.step.version);
        assert_eq!(mark.since, fleet.now, "{cluster}");
    }
}

#[test]
fn a_cluster_that_joins_after_success_is_rolled_out() {
    let mut fleet = with_c2_in_flight();
    fleet.good("c2");
    fleet.good("c3");
    fleet.check("Succeeded c1:Succeeded! c2:Succeeded! c3:Succeeded!");
    fleet.decide(&[("", &["c1", "c2", "c3", "c4"])]);
    fleet.now += SignedDuration::from_hours(1);
    let plan = fleet.look();
    assert_eq!(names_of(&plan.writes), ["c4"], "the others are not touched");
    fleet.settle();
    fleet.check("Progressing c1:Succeeded! c2:Succeeded! c3:Succeeded! c4:Progressing!");
    fleet.good("c4");
    fleet.check("Succeeded c1:Succeeded! c2:Succeeded! c3:Succeeded! c4:Succeeded!");
}

#[test]
fn a_report_about_an_older_step_does_not_count() {
    let mut fleet = Fleet::new(enforce(progressive(json!({}))), &[("", &["c1", "c2"])]);
    fleet.settle();
    fleet.good("c1");
    fleet.good("c2");
    let offline = fleet.replica("c1").status.clone();
    fleet.edit(json!({"remediationAction": "Enforce", "rolloutStrategy": progressive(json!({}))}));
    fleet.settle();
    fleet.check("Progressing c1:Progressing! c2:ToApply");
    // What the hub shows for people goes, and the cluster's old report comes back.
    fleet.replica_mut("c1").status = offline;
    fleet.wait(3600);
    fleet.check("Progressing c1:Progressing! c2:ToApply");
    fleet.good("c1");
    fleet.check("Progressing c1:Succeeded! c2:Progressing!");
}

#[test]
fn a_restarted_hub_goes_on_with_the_same_writes() {
    /// The reports of a progressive rollout, in order.
    const REPORTS: [(&str, Compliance); 4] = [
        ("c1", Compliance::Compliant),
        ("c2", Compliance::NonCompliant),
        ("c2", Compliance::Compliant),
        ("c3", Compliance::Compliant),
    ];

    /// Runs a progressive rollout. The hub is killed after each `n` writes of a plan. Returns the writes in order.
    fn run(writes_per_life: usize) -> Vec<String> {
        let mut fleet = Fleet::new(
            enforce(progressive(json!({"maxConcurrency": 1}))),
            &[("", &["c1", "c2", "c3"])],
        );
        let mut written = Vec::new();
        let mut reports = REPORTS.into_iter();
        loop {
            let plan = fleet.look();
            for write in plan.writes.iter().take(writes_per_life) {
                fleet.hub.carry_out(&Fleet::key(), write);
                written.push(told(write));
                two_at_once_only_after_success(&fleet);
            }
            if !plan.writes.is_empty() {
                continue;
            }
            let Some((cluster, compliance)) = reports.next() else {
                return written;
            };
            let step = fleet
                .replica(cluster)
                .annotations
                .get(names::ROLLOUT_STEP)
                .cloned();
            let status = &mut fleet.replica_mut(cluster).status;
            status.rollout_step = step;
            status.compliant = Some(compliance);
            status.rollout_status = Some(if compliance == Compliance::Compliant {
                RolloutStatus::Succeeded
            } else {
                RolloutStatus::Failed
            });
        }
    }

    fn two_at_once_only_after_success(fleet: &Fleet) {
        let replicas = fleet.hub.replicas[&Fleet::key()].values();
        let in_flight = replicas.filter(|replica| {
            replica.spec.enforces()
                && replica.status.rollout_status != Some(RolloutStatus::Succeeded)
        });
        assert!(in_flight.count() <= 1);
    }

    let undisturbed = run(usize::MAX);
    assert!(undisturbed.len() > 8);
    assert_eq!(run(1), undisturbed);
    assert_eq!(run(2), undisturbed);
}

#[test]
fn an_edited_strategy_takes_effect_at_once() {
    for strategy in [
        progressive(json!({"maxConcurrency": 2})),
        json!({"type": "All"}),
    ] {
        let mut fleet = with_c2_in_flight();
        let before = (fleet.mark("c1"), fleet.mark("c2"));
        fleet.now += SignedDuration::from_mins(1);
        fleet.edit(enforce(strategy.clone()));
        fleet.settle();
        fleet.check("Progressing c1:Succeeded! c2:Progressing! c3:Progressing!");
        assert_eq!(
            (fleet.mark("c1"), fleet.mark("c2")),
            before,
            "only the copied strategy"
        );
        assert_eq!(
            json!(fleet.replica("c1").spec.wire())["rolloutStrategy"]["type"],
            strategy["type"]
        );
    }
}
