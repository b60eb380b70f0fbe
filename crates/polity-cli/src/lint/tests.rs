//! Each rule on a small set of files, and silence on good ones.

use std::path::Path;

use super::*;

const SCENARIO: &str = "../../docs/scenarios/manifests/limits.yaml";

fn good() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(SCENARIO)).unwrap()
}

/// `rule:line` of every finding.
fn found(text: &str) -> Vec<String> {
    let findings = lint(&Manifests::from_text("all.yaml", text));
    let shown = findings.as_slice().iter();
    shown
        .map(|finding| format!("{}:{}", finding.rule, finding.line.unwrap_or(0)))
        .collect()
}

fn policy(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: policy.open-cluster-management.io/v1\nkind: Policy\nmetadata: {{name: {name}, namespace: policies}}\n\
         spec:\n  disabled: false\n  remediationAction: inform\n  policy-templates: []\n{spec}"
    )
}

/// What the placement of the good manifests decided.
const DECISION: &str = "---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: PlacementDecision
metadata:
  name: fleet-decision-1
  namespace: policies
  labels:
    cluster.open-cluster-management.io/placement: fleet
    cluster.open-cluster-management.io/decision-group-index: '0'
    cluster.open-cluster-management.io/decision-group-name: canary
status: {decisions: [{clusterName: c1, reason: ''}, {clusterName: c2, reason: ''}]}
";

/// A placement with one predicate.
fn placement(predicate: &str) -> String {
    format!(
        "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {{name: p, namespace: policies}}\n\
         spec:\n  predicates:\n  - requiredClusterSelector: {{{predicate}}}\n"
    )
}

#[test]
fn good_manifests_are_silent() {
    assert_eq!(found(&good()), Vec::<String>::new());
}

#[test]
fn cycles_are_printed_as_arrows() {
    let on = |name: &str| {
        format!("  dependencies:\n  - {{kind: Policy, name: {name}, compliance: Compliant}}\n")
    };
    let text = format!("{}{}", policy("a", &on("b")), policy("b", &on("a")));
    let findings = lint(&Manifests::from_text("all.yaml", &text));
    let [finding] = findings.as_slice() else {
        panic!("{findings:?}")
    };
    assert!(
        finding
            .why
            .starts_with("Policy policies.a → Policy policies.b → Policy policies.a"),
        "{}",
        finding.why
    );
    assert_eq!(finding.line, Some(9));
    assert_eq!(finding.place, "Policy/policies/a spec.dependencies");
}

#[test]
fn each_rule_finds_its_mistake() {
    let twice = "  dependencies:\n  - {kind: Policy, name: p, namespace: policies, compliance: Compliant}\n  - {kind: Policy, name: p, namespace: policies, compliance: Pending}\n";
    for (text, expected) in [
        (
            policy(
                "a",
                "  dependencies:\n  - {kind: Policy, name: gone, compliance: Compliant}\n",
            ),
            vec!["dependency-on-nothing:10"],
        ),
        (
            format!("{}{}", policy("a", twice), policy("p", "")),
            vec!["conflicting-compliance:11"],
        ),
        (
            policy(
                "a",
                "  rolloutStrategy: {type: Progressive, progressive: {progressDeadline: 2d}}\n",
            ),
            vec!["refused-strategy:9"],
        ),
        (
            good().replace("groupName: canary\n---", "groupName: nope\n---"),
            vec!["unknown-mandatory-group:33"],
        ),
        (
            good().replace("unavailable", "other"),
            vec!["drops-offline-clusters:62"],
        ),
        (
            good().replace(
                "    name: limits\n---\napiVersion: cluster",
                "    name: limits\nsubFilter: restricted\n---\napiVersion: cluster",
            ),
            vec!["ignored-enforcement:54"],
        ),
        (
            good()
                .replace("type: ProgressivePerGroup", "type: Progressive")
                .replace("progressivePerGroup:", "progressive:")
                .replace("      progressDeadline: 1h\n", "      maxFailures: 10%\n"),
            vec!["failures-hold-slots:33"],
        ),
        (
            good().replace("512Mi", "'{{ fromSecrt \"a\" \"b\" \"c\" }}'"),
            vec!["unknown-function:32"],
        ),
        (
            placement("celSelector: {celExpressions: ['managedCluster.metadata.name ==']}"),
            vec!["broken-expression:6"],
        ),
        (
            placement("celSelector: {celExpressions: ['cluster.metadata.name == \"a\"']}"),
            vec!["broken-expression:6"],
        ),
        (
            placement("labelSelector: {matchExpressions: [{key: a, operator: Near}]}"),
            vec!["misconfigured-placement:4"],
        ),
        (
            good().replace(
                "clustersPerDecisionGroup: 4",
                "clustersPerDecisionGroup: -50%",
            ),
            vec!["misconfigured-placement:60"],
        ),
        (
            good().replace(
                "clustersPerDecisionGroup: 4",
                "clustersPerDecisionGroup: 1000000000000%",
            ),
            vec!["misconfigured-placement:60"],
        ),
        (policy(&"x".repeat(60), ""), vec!["refused-object:4"]),
        (
            good().replace(
                "clustersPerDecisionGroup: 4",
                "clustersPerDecisionGroup: 150%",
            ),
            vec!["refused-object:69"],
        ),
        (
            good()
                .replace("type: ProgressivePerGroup", "type: Progressive")
                .replace(
                    "progressivePerGroup:",
                    "progressive:\n      maxConcurrency: 1000%",
                ),
            vec!["refused-object:36"],
        ),
        (
            good()
                .replace("type: ProgressivePerGroup", "type: Progressive")
                .replace(
                    "progressivePerGroup:",
                    "progressive:\n      maxConcurrency: -1\n      maxFailures: -5",
                ),
            vec!["threshold-out-of-range:36", "threshold-out-of-range:37"],
        ),
        (
            good().replace(
                "progressivePerGroup:",
                "progressivePerGroup:\n      maxFailures: 10",
            ) + DECISION,
            vec!["threshold-out-of-range:36"],
        ),
        (policy("a", "  dependencies: 7\n"), vec!["undecodable:2"]),
        (String::from("a: [\n"), vec!["undecodable:1"]),
    ] {
        assert_eq!(found(&text), expected, "{text}");
    }
}

#[test]
fn as_sarif_it_has_rules_and_places() {
    let text = good().replace("groupName: canary\n---", "groupName: nope\n---");
    let sarif = lint(&Manifests::from_text("all.yaml", &text))
        .to_sarif()
        .unwrap();
    assert!(
        sarif.contains("unknown-mandatory-group") && sarif.contains("all.yaml"),
        "{sarif}"
    );
}
