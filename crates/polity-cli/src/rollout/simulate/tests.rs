//! The scenarios of the documentation play as they say, and their schema knows what the simulator knows.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios")
}

#[test]
fn the_scenarios_of_the_documentation_hold() {
    for name in ["canary", "canary-fails", "offline", "new-version", "budget"] {
        let timeline = play(&folder().join(format!("{name}.yaml"))).unwrap();
        assert_eq!(timeline.broken, None, "{name}");
        assert!(timeline.n_expectations >= 3, "{name}");
    }
}

#[test]
fn a_timeline_for_people() {
    let timeline = play(&folder().join("canary-fails.yaml")).unwrap();
    let text = timeline::render(&timeline, Paint::plain());
    let head: Vec<&str> = text.lines().take(5).collect();
    assert_eq!(
        head,
        [
            "2026-11-16T10:00:00Z  +0s  policies/limits Progressing",
            "  fleet #0 canary  ▸▸    canary1, canary2 in flight",
            "  fleet #1         ····  edge1, edge2, edge3, edge4 wait",
            "2026-11-16T10:02:00Z  +2m  policies/limits Failed (NonCompliant) breach",
            "  fleet #0 canary  ◐✗    canary2 failed; canary1 soaks",
        ]
    );
    assert!(text.contains("» canary2 recovers"), "{text}");
    assert!(text.contains("✓ 5 expectations held"), "{text}");
}

#[test]
fn bad_files_are_told_with_their_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.yaml");
    for (content, expected) in [
        ("start: [", "s.yaml"),
        ("start: x\n", "is no time"),
        (
            "start: 2026-11-16T10:00:00Z\nsurprise: 1\n",
            "unknown field",
        ),
        (
            "start: 2026-11-16T10:00:00Z\nmanifests: [nowhere.yaml]\n",
            "nowhere.yaml",
        ),
        (
            "start: 2026-11-16T10:00:00Z\nmanifests: [{apiVersion: policy.open-cluster-management.io/v1, kind: Policy, metadata: {name: p}, spec: {}}]\n",
            "Policy p: spec: missing field",
        ),
    ] {
        std::fs::write(&path, content).unwrap();
        let error = format!("{:#}", play(&path).unwrap_err());
        assert!(error.contains(expected), "{content}: {error}");
    }
}

/// The names that a refusal of an unknown field lists as known.
fn known(document: Value) -> BTreeSet<String> {
    let error = serde_json::from_value::<Scenario>(document)
        .unwrap_err()
        .to_string();
    let (_, listed) = error
        .split_once("expected")
        .unwrap_or_else(|| panic!("{error}"));
    listed
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_schema_knows_what_the_format_knows() {
    let text = std::fs::read_to_string(folder().join("scenario.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let properties = |definition: &Value| -> BTreeSet<String> {
        definition["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    };
    let unknown = || json!({"unknown": 1});
    let event = |deed: Value| json!({"start": "x", "events": [{"at": "x", "do": deed}]});
    assert_eq!(properties(&schema), known(unknown()));
    for (name, document) in [
        ("cluster", json!({"start": "x", "clusters": [unknown()]})),
        ("event", json!({"start": "x", "events": [unknown()]})),
        ("deed", event(unknown())),
        ("label", event(json!({"label": unknown()}))),
        ("edit", event(json!({"edit": unknown()}))),
        ("object", event(json!({"delete": unknown()}))),
        ("expectation", json!({"start": "x", "expect": [unknown()]})),
        (
            "state",
            json!({"start": "x", "expect": [{"end": unknown()}]}),
        ),
        (
            "never",
            json!({"start": "x", "expect": [{"never": unknown()}]}),
        ),
    ] {
        assert_eq!(
            properties(&schema["$defs"][name]),
            known(document),
            "{name}"
        );
    }
}

/// A placement by an expression, a cluster among the manifests and scripted ones, and what they have at the end.
const BY_EXPRESSION: &str = r#"
start: 2026-11-16T10:00:00Z
manifests:
- apiVersion: policy.open-cluster-management.io/v1
  kind: Policy
  metadata: {name: limits, namespace: policies}
  spec: {disabled: false, remediationAction: enforce, policy-templates: []}
- apiVersion: policy.open-cluster-management.io/v1
  kind: PlacementBinding
  metadata: {name: limits, namespace: policies}
  placementRef: {apiGroup: cluster.open-cluster-management.io, kind: Placement, name: fleet}
  subjects: [{apiGroup: policy.open-cluster-management.io, kind: Policy, name: limits}]
- apiVersion: cluster.open-cluster-management.io/v1beta1
  kind: Placement
  metadata: {name: fleet, namespace: policies}
  spec:
    predicates:
    - requiredClusterSelector:
        celSelector:
          celExpressions: ["EXPRESSION"]
- apiVersion: cluster.open-cluster-management.io/v1
  kind: ManagedCluster
  metadata: {name: real}
  spec: {hubAcceptsClient: true}
  status: {version: {kubernetes: v1.31.2}}
clusters:
- {name: real, takes: 2m, labels: {ring: canary}}
- {name: edge, count: 2, labels: {ring: later}}
events:
- {at: 11:00, do: {label: {clusters: edge1, labels: {ring: canary}}}}
"#;

#[test]
fn expressions_see_manifests_and_labels_that_change() {
    let ends = |expression: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.yaml");
        std::fs::write(&path, BY_EXPRESSION.replace("EXPRESSION", expression)).unwrap();
        let timeline = play(&path).unwrap();
        let mut chosen = BTreeSet::new();
        for change in timeline.moments.iter().flat_map(|moment| &moment.clusters) {
            if change.status.is_none() {
                chosen.remove(&change.cluster);
            } else {
                chosen.insert(change.cluster.clone());
            }
        }
        let warnings = timeline.moments.iter().flat_map(|moment| &moment.warnings);
        let names: Vec<String> = chosen.iter().map(ToString::to_string).collect();
        (names.join(" "), warnings.count())
    };
    for (expression, expected) in [
        (
            "managedCluster.metadata.labels.ring == 'canary'",
            ("edge1 real", 0),
        ),
        (
            "managedCluster.metadata.labels.ring == 'later'",
            ("edge2", 0),
        ),
        (
            "managedCluster.status.version.kubernetes == 'v1.31.2'",
            ("real", 0),
        ),
        ("managedCluster.metadata.labels.ring =", ("", 1)),
    ] {
        let (names, n_warnings) = ends(expression);
        assert_eq!((names.as_str(), n_warnings), expected, "{expression}");
    }
}
