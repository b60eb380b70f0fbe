//! The answers a user reads, over a small fleet.

use polity_rollout::explain;
use serde_json::json;

use super::Selection;
use crate::output::Paint;
use polity_source::{FleetManifests, Manifests};

const FLEET: &str = r#"
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c1, labels: {env: dev}}
spec: {hubAcceptsClient: true}
status: {version: {kubernetes: v1.31.2}}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c2, labels: {env: dev, canary: "yes"}}
spec: {hubAcceptsClient: true}
status: {version: {kubernetes: v1.32.0}}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c3, labels: {env: prod}}
spec: {hubAcceptsClient: true}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c4, labels: {env: dev}}
spec:
  hubAcceptsClient: true
  taints: [{key: cluster.open-cluster-management.io/unreachable, effect: NoSelect, timeAdded: "2026-11-15T09:00:00Z"}]
status: {version: {kubernetes: v1.31.2}}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c5, labels: {env: dev, cluster.open-cluster-management.io/clusterset: edge}}
spec: {hubAcceptsClient: true}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c6, labels: {env: dev}}
spec: {hubAcceptsClient: true}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: default, namespace: team}
spec: {clusterSet: default}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: web, namespace: team, uid: u1}
spec:
  predicates:
  - requiredClusterSelector:
      labelSelector: {matchLabels: {env: dev}}
      celSelector:
        celExpressions: ["semver(managedCluster.status.version.kubernetes, true).isGreaterThan(semver('1.30.0'))"]
  decisionStrategy:
    groupStrategy:
      decisionGroups:
      - groupName: canary
        groupClusterSelector: {labelSelector: {matchLabels: {canary: "yes"}}}
"#;

const DECISION: &str = r#"
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: PlacementDecision
metadata:
  name: web-decision-1
  namespace: team
  labels: {cluster.open-cluster-management.io/placement: web, cluster.open-cluster-management.io/decision-group-index: "0"}
status: {decisions: [{clusterName: c1, reason: ""}, {clusterName: c3, reason: ""}, {clusterName: gone, reason: ""}]}
"#;

fn answer(text: &str, takes_decisions: bool) -> Selection {
    let manifests = Manifests::from_text("fleet.yaml", text);
    assert_eq!(manifests.problems, []);
    let files = FleetManifests::read(&manifests);
    assert_eq!(files.problems, []);
    let (document, placement) = &files.placements[0];
    let now = "2026-11-15T10:00:00Z".parse().unwrap();
    let explanation = explain(placement, &files.fleet(), &files.expressions, now);
    let standing: Vec<_> = files
        .parts
        .decisions
        .iter()
        .filter(|_| takes_decisions)
        .collect();
    Selection::new(document, placement, &explanation, &standing)
}

#[test]
fn every_cluster_has_a_fate() {
    insta::assert_snapshot!(answer(FLEET, true).table(Paint::plain()), @r"
    placement team/web: 2 of 6 clusters selected
      PlacementSatisfied=True AllDecisionsScheduled: All cluster decisions scheduled
      PlacementMisconfigured=False Succeedconfigured: Placement configurations check pass
      chosen from the sets default

    CLUSTER   FATE            GROUP       RANK   SCORE   WHY
    c1        Selected        #1          1      100     Balance 100, Steady 0
    c2        Selected        #0 canary   2      100     Balance 100, Steady 0
    c3        NoPredicate                                labels are not env=dev
    c4        Tainted                                    does not tolerate cluster.open-cluster-management.io/unreachable:NoSelect
    c5        NotInBoundSet                              is in global only, which the placement cannot choose from
    c6        NoPredicate                                fails: semver(managedCluster.status.version.kubernetes, true).isGreaterThan(semver('1.30.0')): no such key: status
    ");
}

#[test]
fn decisions_are_taken_as_they_are() {
    let text = format!("{FLEET}{DECISION}");
    insta::assert_snapshot!(answer(&text, true).table(Paint::plain()), @r"
    placement team/web: 3 of 7 clusters selected, as decided
      PlacementSatisfied=True AllDecisionsScheduled: All cluster decisions scheduled
      PlacementMisconfigured=False Succeedconfigured: Placement configurations check pass
      chosen from the sets default

    CLUSTER   FATE            GROUP   RANK   SCORE   WHY
    c1        Selected        #0      1      200     Balance 100, Steady 100
    c2        NotDecided*             2      100     would be selected: Balance 100, Steady 0
    c3        Selected*       #0                     decided, but would be dropped: labels are not env=dev
    c4        Tainted                                does not tolerate cluster.open-cluster-management.io/unreachable:NoSelect
    c5        NotInBoundSet                          is in global only, which the placement cannot choose from
    c6        NoPredicate                            fails: semver(managedCluster.status.version.kubernetes, true).isGreaterThan(semver('1.30.0')): no such key: status
    gone      Selected*       #0                     decided, but there is no such cluster in these files
    ");
    // Unless the placement decides anew: c1 is in the decisions, so it is steady.
    insta::assert_snapshot!(answer(&text, false).table(Paint::plain()), @r"
    placement team/web: 2 of 6 clusters selected
      PlacementSatisfied=True AllDecisionsScheduled: All cluster decisions scheduled
      PlacementMisconfigured=False Succeedconfigured: Placement configurations check pass
      chosen from the sets default

    CLUSTER   FATE            GROUP       RANK   SCORE   WHY
    c1        Selected        #1          1      200     Balance 100, Steady 100
    c2        Selected        #0 canary   2      100     Balance 100, Steady 0
    c3        NoPredicate                                labels are not env=dev
    c4        Tainted                                    does not tolerate cluster.open-cluster-management.io/unreachable:NoSelect
    c5        NotInBoundSet                              is in global only, which the placement cannot choose from
    c6        NoPredicate                                fails: semver(managedCluster.status.version.kubernetes, true).isGreaterThan(semver('1.30.0')): no such key: status
    ");
}

#[test]
fn programs_get_the_decisions_to_write() {
    let answer = serde_json::to_value(answer(FLEET, true)).unwrap();
    let group = "cluster.open-cluster-management.io";
    assert_eq!(
        answer["placementDecisions"][0],
        json!({
            "apiVersion": format!("{group}/v1beta1"),
            "kind": "PlacementDecision",
            "metadata": {
                "name": "web-decision-1",
                "namespace": "team",
                "labels": {
                    format!("{group}/placement"): "web",
                    format!("{group}/decision-group-index"): "0",
                    format!("{group}/decision-group-name"): "canary",
                },
                "ownerReferences": [{
                    "apiVersion": format!("{group}/v1beta1"), "kind": "Placement", "name": "web", "uid": "u1",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "status": {"decisions": [{"clusterName": "c2", "reason": ""}]},
        })
    );
    assert_eq!(answer["selected"], 2);
    assert_eq!(
        answer["clusters"][0]["scores"]["Balance"],
        json!({"score": 100, "weight": 1})
    );
    assert_eq!(answer["conditions"][0]["reason"], "AllDecisionsScheduled");
}

#[test]
fn documents_that_do_not_fit_are_told_with_their_place() {
    let text = "apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {name: c1}\n\
                spec: {taints: [{key: k, effect: Sometimes}]}\n---\n\
                apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSetBinding\n\
                metadata: {name: a, namespace: team}\nspec: {clusterSet: b}\n";
    let manifests = Manifests::from_text("f", text);
    let files = FleetManifests::read(&manifests);
    let told: Vec<String> = files.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "f:1: ManagedCluster c1: spec.taints[0].effect: unknown variant `Sometimes`, expected one of `NoSelect`, `PreferNoSelect`, `NoSelectIfNew`",
            "f:6: ManagedClusterSetBinding a: spec.clusterSet: Invalid value: \"b\": must be the name of the binding",
        ]
    );
}
