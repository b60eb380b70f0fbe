//! Clusters over time: acceptance, leases, taints and reports.

use serde_json::json;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn cluster(spec: serde_json::Value) -> ManagedCluster {
    serde_json::from_value(json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": "c1", "generation": 3}, "spec": spec,
    }))
    .unwrap()
}

fn lease(seen: i64, report: Option<ClusterReport>) -> ObservedLease {
    ObservedLease {
        seen_at: at(seen),
        renewed_at: Some(at(seen)),
        report,
    }
}

fn report(is_available: bool) -> ClusterReport {
    ClusterReport {
        is_available,
        version: "v1.37.0".to_owned(),
        claims: [("region".to_owned(), "eu".to_owned())].into(),
        ..ClusterReport::default()
    }
}

fn plan_at(cluster: &ManagedCluster, lease: Option<&ObservedLease>, second: i64) -> ClusterPlan {
    let observed = ObservedCluster { cluster, lease };
    plan(&observed, at(second))
}

/// The cluster after its plan was written, as the API server would return it.
fn written(cluster: &ManagedCluster, plan: &ClusterPlan) -> ManagedCluster {
    let mut next = plan.object.clone().unwrap_or_else(|| cluster.clone());
    next.status = plan.status.clone().or_else(|| cluster.status.clone());
    next
}

fn conditions(cluster: &ManagedCluster) -> Vec<(String, String)> {
    let status = cluster.status.clone().unwrap_or_default();
    let of = |condition: k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        (condition.type_, condition.status)
    };
    status.conditions.into_iter().map(of).collect()
}

fn taints(cluster: &ManagedCluster) -> Vec<&str> {
    let taints = cluster.spec.taints.iter();
    taints.map(|taint| taint.key.as_str()).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
    expected.iter().map(own).collect()
}

#[test]
fn a_new_cluster_waits_for_acceptance() {
    let new = cluster(json!({}));
    let plan = plan_at(&new, None, 0);
    assert!(!plan.wants_namespace);
    let after = written(&new, &plan);
    assert_eq!(conditions(&after), []);
    assert_eq!(taints(&after), [names::UNREACHABLE]);
    assert_eq!(
        after.metadata.labels.as_ref().unwrap()[names::CLUSTER_SET],
        "default"
    );
    assert_eq!(
        after.metadata.finalizers.as_deref(),
        Some(&[names::CLUSTER_FINALIZER.to_owned()][..])
    );
}

#[test]
fn a_cluster_is_available_as_long_as_its_lease_is_renewed() {
    let accepted = cluster(json!({"hubAcceptsClient": true, "leaseDurationSeconds": 10}));
    let renewed = lease(0, Some(report(true)));
    let plan = plan_at(&accepted, Some(&renewed), 1);
    assert!(plan.wants_namespace);
    assert_eq!(plan.recheck_at, Some(at(50)), "five lease durations");
    let joined = written(&accepted, &plan);
    let expected = [
        ("HubAcceptedManagedCluster", "True"),
        ("ManagedClusterJoined", "True"),
        ("ManagedClusterConditionAvailable", "True"),
        ("ManagedClusterConditionClockSynced", "True"),
    ];
    assert_eq!(conditions(&joined), pairs(&expected));
    assert_eq!(taints(&joined), [""; 0]);
    let status = joined.status.as_ref().unwrap();
    assert_eq!(status.cluster_claims[0].value, "eu");
    assert_eq!(status.version.as_ref().unwrap().kubernetes, "v1.37.0");

    let still = plan_at(&joined, Some(&renewed), 49);
    assert_eq!(
        (still.object, still.status),
        (None, None),
        "nothing changed"
    );

    let silent = plan_at(&joined, Some(&renewed), 50);
    assert_eq!(silent.recheck_at, None);
    let lost = written(&joined, &silent);
    assert_eq!(conditions(&lost)[2].1, "Unknown");
    assert_eq!(taints(&lost), [names::UNREACHABLE]);

    let back = lease(60, Some(report(true)));
    let plan = plan_at(&lost, Some(&back), 61);
    let found = written(&lost, &plan);
    assert_eq!(conditions(&found)[2].1, "True");
    assert_eq!(taints(&found), [""; 0]);
}

#[test]
fn an_agent_that_cannot_reach_its_cluster_makes_it_unavailable() {
    let accepted = cluster(json!({"hubAcceptsClient": true}));
    let renewed = lease(0, Some(report(false)));
    let plan = plan_at(&accepted, Some(&renewed), 1);
    let after = written(&accepted, &plan);
    assert_eq!(conditions(&after)[2].1, "False");
    assert_eq!(taints(&after), [names::UNAVAILABLE]);
}

#[test]
fn an_agent_without_a_report_keeps_its_own_conditions() {
    let mut accepted = cluster(json!({"hubAcceptsClient": true}));
    let mut status = ManagedClusterStatus::default();
    set_condition(
        &mut status.conditions,
        "ManagedClusterConditionAvailable",
        ConditionUpdate::is_true("ManagedClusterAvailable", "says the agent"),
        None,
        at(0),
    );
    status.cluster_claims = vec![ClusterClaim {
        name: "id".to_owned(),
        value: "7".to_owned(),
    }];
    accepted.status = Some(status);
    let renewed = lease(0, None);
    let after = written(&accepted, &plan_at(&accepted, Some(&renewed), 1));
    let status = after.status.as_ref().unwrap();
    assert_eq!(status.conditions[0].message, "says the agent");
    assert_eq!(status.cluster_claims[0].value, "7");
    assert_eq!(taints(&after), [""; 0]);
}

#[test]
fn a_cluster_that_is_denied_loses_its_namespace_and_keeps_its_taints() {
    let taint = json!({"key": "example.com/maintenance", "effect": "NoSelect"});
    let mut denied = cluster(json!({"hubAcceptsClient": false, "taints": [taint]}));
    let mut status = ManagedClusterStatus::default();
    set_condition(
        &mut status.conditions,
        "HubAcceptedManagedCluster",
        ConditionUpdate::is_true("HubClusterAdminAccepted", "Accepted by hub cluster admin"),
        None,
        at(0),
    );
    denied.status = Some(status);
    let plan = plan_at(&denied, Some(&lease(0, Some(report(true)))), 1);
    assert!(!plan.wants_namespace);
    let after = written(&denied, &plan);
    assert_eq!(
        conditions(&after),
        pairs(&[("HubAcceptedManagedCluster", "False")])
    );
    assert_eq!(
        taints(&after),
        ["example.com/maintenance", names::UNREACHABLE]
    );
}

#[test]
fn a_taint_keeps_the_time_at_which_it_was_added() {
    let new = cluster(json!({}));
    let first = written(&new, &plan_at(&new, None, 0));
    let second = plan_at(&first, None, 100);
    assert_eq!(second.object, None);
    assert_eq!(first.spec.taints[0].time_added, Some(Time(at(0))));
}

#[test]
fn a_clock_that_is_off_is_reported_and_does_not_make_a_cluster_unreachable() {
    let accepted = cluster(json!({"hubAcceptsClient": true}));
    let renewed = ObservedLease {
        renewed_at: Some(at(-3600)),
        ..lease(0, Some(report(true)))
    };
    let after = written(&accepted, &plan_at(&accepted, Some(&renewed), 1));
    assert_eq!(conditions(&after)[2].1, "True");
    assert_eq!(conditions(&after)[3].1, "False");
}

#[test]
fn a_report_is_copied_within_bounds() {
    let accepted = cluster(json!({"hubAcceptsClient": true}));
    let mut flood = report(true);
    flood.version = "v".repeat(10_000);
    flood.claims = (0..10_000)
        .map(|n| (format!("claim-{n:05}"), "x".to_owned()))
        .collect();
    flood.claims.insert("a".to_owned(), "y".repeat(2000));
    flood.capacity = [
        ("cpu".to_owned(), Quantity("lots".to_owned())),
        ("memory".to_owned(), Quantity("8Gi".to_owned())),
    ]
    .into();
    let after = written(
        &accepted,
        &plan_at(&accepted, Some(&lease(0, Some(flood))), 1),
    );
    let status = after.status.as_ref().unwrap();
    assert_eq!(status.version.as_ref().unwrap().kubernetes.len(), MAX_NAME);
    assert_eq!(status.cluster_claims.len(), MAX_CLAIMS);
    assert_eq!(status.cluster_claims[0].name, "claim-00000");
    assert_eq!(status.capacity.keys().collect::<Vec<_>>(), ["memory"]);
}
