//! Plans of manifests on disk, as a user reads them.

use std::path::Path;

use super::*;
use polity_source::Manifests;

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

fn manifests(more: &str) -> Manifests {
    let policies =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios/manifests/limits.yaml");
    let text = std::fs::read_to_string(policies).unwrap();
    Manifests::from_text("all.yaml", &format!("{text}---{CLUSTERS}{more}"))
}

fn governance(manifests: &Manifests) -> HubManifests<'_> {
    let mut governance = HubManifests::read(manifests);
    assert_eq!(governance.problems, []);
    governance.decide(at());
    governance
}

fn plan_of(manifests: &Manifests, name: &str) -> anyhow::Result<RolloutPlan> {
    answer(&mut governance(manifests), name, None, at())
}

fn at() -> Timestamp {
    "2026-11-16T10:00:00Z".parse().unwrap()
}

#[test]
fn a_plan_from_files() {
    let answer = plan_of(&manifests(""), "limits").unwrap();
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
    let answer = plan_of(&manifests(decision), "limits").unwrap();
    let clusters: Vec<&str> = answer
        .clusters
        .iter()
        .map(|row| row.cluster.as_str())
        .collect();
    assert_eq!(clusters, ["elsewhere"]);
}

/// Section 3.12: what an older kind decided is one group without a name.
#[test]
fn a_placement_rule_is_one_group() {
    let rule = "
---
apiVersion: apps.open-cluster-management.io/v1
kind: PlacementRule
metadata: {name: old, namespace: policies}
spec: {}
status: {decisions: [{clusterName: b, clusterNamespace: b}, {clusterName: a, clusterNamespace: a}]}
";
    let mut manifests = manifests(rule);
    let bindings = manifests.documents.iter_mut();
    for binding in bindings.filter(|document| document.kind.kind == "PlacementBinding") {
        binding.object["placementRef"] = serde_json::json!({
            "apiGroup": "apps.open-cluster-management.io", "kind": "PlacementRule", "name": "old"
        });
    }
    let answer = plan_of(&manifests, "limits").unwrap();
    let rows: Vec<String> = answer
        .clusters
        .iter()
        .map(|row| format!("{} {} {}", row.cluster, row.group, row.turn))
        .collect();
    assert_eq!(rows, ["a #0 is handed out now", "b #0 is handed out now"]);
}

#[test]
fn a_policy_that_is_not_there() {
    let error = plan_of(&manifests(""), "nope").unwrap_err();
    let hinted = error.downcast_ref::<Hinted>().unwrap();
    assert_eq!(hinted.hint, "the files hold policies/limits");
}

/// The files with an expression in the placement.
fn with_expression(expression: &str) -> Manifests {
    let mut manifests = manifests("");
    let placements = manifests.documents.iter_mut();
    for placement in placements.filter(|document| document.kind.kind == "Placement") {
        placement.object["spec"]["predicates"] = serde_json::json!([
            {"requiredClusterSelector": {"celSelector": {"celExpressions": [expression]}}}
        ]);
    }
    manifests
}

#[test]
fn expressions_of_a_placement_are_evaluated() {
    let expression = "managedCluster.metadata.labels.exists(name, name == 'ring')";
    let answer = plan_of(&with_expression(expression), "limits").unwrap();
    let clusters: Vec<&str> = answer
        .clusters
        .iter()
        .map(|row| row.cluster.as_str())
        .collect();
    assert_eq!(clusters, ["canary1"]);
    assert_eq!(answer.warnings, Vec::<String>::new());
}

#[test]
fn an_expression_that_does_not_compile_is_told() {
    let answer = plan_of(&with_expression("managedCluster.metadata ="), "limits").unwrap();
    assert!(answer.clusters.is_empty());
    let told = answer.warnings.iter();
    let told =
        told.filter(|warning| warning.starts_with("placement policies/fleet selects no cluster: "));
    assert_eq!(told.count(), 1, "{:?}", answer.warnings);
}

#[test]
fn why_a_policy_goes_nowhere() {
    let told = |manifests: &Manifests| plan_of(manifests, "limits").unwrap().warnings;
    let says = |warnings: &[String], text: &str| warnings.iter().any(|told| told.contains(text));
    let without = |kind: &str| {
        let mut manifests = manifests("");
        manifests
            .documents
            .retain(|document| document.kind.kind != kind);
        manifests
    };
    for (missing, expected) in [
        ("Placement", "hold no placement"),
        (
            "ManagedCluster",
            "neither ManagedClusters nor PlacementDecisions",
        ),
        ("PlacementBinding", "no binding joins the policy"),
        ("ManagedClusterSetBinding", "the placements choose nobody"),
    ] {
        let warnings = told(&without(missing));
        assert!(says(&warnings, expected), "{missing}: {warnings:?}");
    }
}
