//! Views of a simulated hub, as a user reads them.

use std::path::Path;

use polity_govern::mark::{Mark as Annotations, Phase};
use polity_source::{HubManifests, Manifests};

use super::*;

const CLUSTERS: &str = "
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: global, namespace: policies}
spec: {clusterSet: global}
";

fn at(time: &str) -> Timestamp {
    format!("2026-11-16T{time}Z").parse().unwrap()
}

fn key() -> ObjectKey {
    ObjectKey::namespaced("policies", "limits")
}

/// A hub with two canaries and two other clusters, before anything is written.
fn hub() -> Hub {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios/manifests/limits.yaml");
    let mut text = format!("{}---{CLUSTERS}", std::fs::read_to_string(path).unwrap());
    for (name, ring) in [
        ("canary1", "canary"),
        ("canary2", "canary"),
        ("edge1", "edge"),
        ("edge2", "edge"),
    ] {
        text.push_str(&format!(
            "---\napiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\n\
             metadata: {{name: {name}, labels: {{ring: {ring}}}}}\nspec: {{hubAcceptsClient: true}}\n"
        ));
    }
    let manifests = Manifests::from_text("all.yaml", &text);
    let mut read = HubManifests::read(&manifests);
    assert_eq!(read.problems, []);
    read.decide(at("10:00:00"));
    read.hub
}

/// A cluster reports about the step that it has.
fn report(hub: &mut Hub, cluster: &str, compliant: Compliance) {
    use polity_core::rollout_strategy::RolloutStatus;
    let replicas = hub.replicas.get_mut(&key()).unwrap();
    let replica = replicas.get_mut(cluster).unwrap();
    let mark = Annotations::read(&replica.annotations).unwrap();
    assert_ne!(mark.phase, Phase::ToApply, "{cluster} has its turn");
    replica.status.rollout_step = Some(mark.step.to_string());
    replica.status.compliant = Some(compliant);
    replica.status.rollout_status = Some(match compliant {
        Compliance::Compliant => RolloutStatus::Succeeded,
        _ => RolloutStatus::Failed,
    });
}

fn page(hub: &Hub, time: &str) -> String {
    let view = RolloutView::new(hub, &key(), at(time)).unwrap();
    view.table(Paint::plain())
}

fn settle(hub: &mut Hub, time: &str) {
    hub.settle(&key(), at(time), |_, _| {}).unwrap();
}

#[test]
fn a_hub_that_has_written_nothing_yet() {
    insta::assert_snapshot!(page(&hub(), "10:00:00"));
}

#[test]
fn clusters_in_flight_hold_those_that_wait() {
    let mut hub = hub();
    settle(&mut hub, "10:00:00");
    insta::assert_snapshot!(page(&hub, "10:00:05"));
}

#[test]
fn a_failure_beside_a_soak() {
    let mut hub = hub();
    settle(&mut hub, "10:00:00");
    report(&mut hub, "canary1", Compliance::Compliant);
    report(&mut hub, "canary2", Compliance::NonCompliant);
    settle(&mut hub, "10:02:00");
    insta::assert_snapshot!(page(&hub, "10:03:00"));
}

#[test]
fn a_rollout_that_is_done() {
    let mut hub = hub();
    settle(&mut hub, "10:00:00");
    for cluster in ["canary1", "canary2"] {
        report(&mut hub, cluster, Compliance::Compliant);
    }
    settle(&mut hub, "10:02:00");
    settle(&mut hub, "10:12:00");
    for cluster in ["edge1", "edge2"] {
        report(&mut hub, cluster, Compliance::Compliant);
    }
    settle(&mut hub, "10:13:00");
    settle(&mut hub, "10:23:00");
    insta::assert_snapshot!(page(&hub, "10:30:00"));
}

#[test]
fn a_policy_that_no_placement_selects_a_cluster_for() {
    let mut hub = hub();
    hub.decisions.clear();
    insta::assert_snapshot!(page(&hub, "10:00:00"));
}
