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
    let head: Vec<&str> = text.lines().take(8).collect();
    assert_eq!(
        head[0],
        "2026-11-16T10:00:00Z  +0s  policies/limits Progressing"
    );
    assert!(
        head[1].contains("fleet #0 canary") && head[1].contains("▸▸"),
        "{text}"
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
