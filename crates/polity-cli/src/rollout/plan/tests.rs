//! Plans of manifests on disk, as a user reads them.

use std::path::Path;

use super::*;
use crate::manifests::Manifests;

const CLUSTERS: &str = "
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: canary1, labels: {ring: canary}}
spec: {hubAcceptsClient: true}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: edge1}
spec: {hubAcceptsClient: true}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: global, namespace: policies}
spec: {clusterSet: global}
";

fn governance(more: &str) -> Governance {
    let policies =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios/manifests/limits.yaml");
    let text = std::fs::read_to_string(policies).unwrap();
    let mut governance = Governance::of(&Manifests::from_text(
        "all.yaml",
        &format!("{text}---{CLUSTERS}{more}"),
    ));
    assert_eq!(governance.problems, []);
    governance.decide(at());
    governance
}

fn at() -> Timestamp {
    "2026-11-16T10:00:00Z".parse().unwrap()
}

#[test]
fn a_plan_from_files() {
    let answer = answer(&mut governance(""), "limits", None, at()).unwrap();
    let text = table(&answer, Paint::plain());
    assert!(
        text.starts_with("policies/limits  Progressing  strategy ProgressivePerGroup  version "),
        "{text}"
    );
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for expected in [
        "canary1 fleet #0 canary Progressing is handed out now",
        "edge1 fleet #1 ToApply waits for canary1",
        "1 create canary1/policies.limits inform, waits, ToApply since 2026-11-16T10:00:00Z",
        "2 update canary1/policies.limits enforce, final, Progressing since 2026-11-16T10:00:00Z",
        "next look at 2026-11-16T11:00:00Z, or when a cluster reports",
    ] {
        assert!(
            lines.iter().any(|line| line == expected),
            "{expected}:\n{text}"
        );
    }
}

#[test]
fn decisions_among_the_files_are_taken_as_they_are() {
    let decision = "
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: PlacementDecision
metadata:
  name: fleet-decision-1
  namespace: policies
  labels: {cluster.open-cluster-management.io/placement: fleet, cluster.open-cluster-management.io/decision-group-index: \"0\"}
status: {decisions: [{clusterName: elsewhere, reason: \"\"}]}
";
    let answer = answer(&mut governance(decision), "limits", Some("policies"), at()).unwrap();
    let clusters: Vec<&str> = answer
        .clusters
        .iter()
        .map(|row| row.cluster.as_str())
        .collect();
    assert_eq!(clusters, ["elsewhere"]);
}

#[test]
fn a_policy_that_is_not_there() {
    let error = answer(&mut governance(""), "nope", None, at()).unwrap_err();
    let hinted = error.downcast_ref::<Hinted>().unwrap();
    assert_eq!(hinted.hint, "the files hold policies/limits");
}
