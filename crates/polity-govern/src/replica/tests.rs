//! What a replica takes over from its root: docs/spec/governance.md#5-4.

use polity_core::governance::Compliance;

use super::*;
use crate::fixtures::policy;
use crate::mark::Version;

fn build(
    root: &Policy,
    mark: Option<&Mark>,
    override_action: Option<RemediationAction>,
    existing: Option<&Policy>,
) -> Policy {
    let mut builder = Builder::new(root, &[], &Unresolved);
    let cluster = ClusterName::from("c1");
    let Text { spec, .. } = builder.text(&cluster, mark, override_action);
    let built = builder.build(&cluster, mark, Arc::clone(&spec), existing);
    assert!(builder.is_built(&cluster, mark, &spec, &built));
    if let Some(existing) = existing {
        let is_same = existing.labels == built.labels
            && existing.annotations == built.annotations
            && existing.spec.wire() == built.spec.wire();
        assert_eq!(builder.is_built(&cluster, mark, &spec, existing), is_same);
    }
    built
}

#[test]
fn replicas_get_labels_and_annotations_of_their_root() {
    let mut root = policy(json!({"remediationAction": "inform"}));
    for name in ["team", "policy.open-cluster-management.io/mine"] {
        root.labels.insert(name.to_owned(), "x".to_owned());
        root.annotations.insert(name.to_owned(), "x".to_owned());
    }
    for name in [
        names::TRIGGER_UPDATE,
        names::ROLLOUT_STEP,
        names::ROLLOUT_PHASE,
    ] {
        root.annotations
            .insert(name.to_owned(), "by hand".to_owned());
    }
    root.status.compliant = Some(Compliance::Compliant);
    let replica = build(&root, None, None, None);
    assert_eq!(
        (
            replica.namespace.as_str(),
            replica.name.as_str(),
            replica.uid.as_str()
        ),
        ("c1", "policies.p", "")
    );
    assert_eq!(replica.status.compliant, None);
    let labels: Vec<String> = replica
        .labels
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(
        labels,
        [
            "policy.open-cluster-management.io/cluster-name=c1",
            "policy.open-cluster-management.io/cluster-namespace=c1",
            "policy.open-cluster-management.io/mine=x",
            "policy.open-cluster-management.io/root-policy=policies.p",
            "team=x",
        ]
    );
    let annotations: Vec<&String> = replica.annotations.keys().collect();
    assert_eq!(
        annotations,
        [
            "argocd.argoproj.io/compare-options",
            "policy.open-cluster-management.io/mine",
            "team"
        ]
    );
    let mut alone = root.clone();
    Arc::make_mut(&mut alone.spec).copy_metadata = false;
    let replica = build(&alone, None, None, None);
    assert!(!replica.labels.contains_key("team") && !replica.annotations.contains_key("team"));
    assert!(
        replica
            .labels
            .contains_key("policy.open-cluster-management.io/mine")
    );
}

#[test]
fn an_updated_replica_keeps_its_identity_and_encryption_vector() {
    let root = policy(json!({"remediationAction": "inform"}));
    let mut old = build(&root, None, None, None);
    old.annotations
        .insert(names::ENCRYPTION_IV.to_owned(), "iv".to_owned());
    old.resource_version = "7".to_owned();
    old.status.compliant = Some(Compliance::Compliant);
    let replica = build(&root, None, None, Some(&old));
    assert_eq!(replica, old);
}

#[test]
fn the_stage_and_overrides_decide_the_action_of_a_replica() {
    use RemediationAction::{Enforce, EnforceLowercase};
    let version = Version::of("uid", &policy(json!({})).spec);
    let now = crate::fixtures::START.parse().unwrap();
    let (wait, last) = (Mark::waiting(&version, now), Mark::running(&version, now));
    for (root_action, mark, override_action, expected) in [
        (Some("inform"), None, None, Some("inform")),
        (
            Some("inform"),
            None,
            Some(EnforceLowercase),
            Some("enforce"),
        ),
        (
            Some("Enforce"),
            None,
            Some(EnforceLowercase),
            Some("Enforce"),
        ),
        (None, None, Some(Enforce), Some("Enforce")),
        (None, None, None, None),
        (Some("Enforce"), Some(&wait), None, Some("inform")),
        (Some("Enforce"), Some(&last), None, Some("Enforce")),
        (None, Some(&wait), None, Some("inform")),
        (None, Some(&last), None, None),
    ] {
        let spec = root_action.map_or(json!({}), |action| json!({"remediationAction": action}));
        let replica = build(&policy(spec), mark, override_action, None);
        let found = replica.spec.wire().remediation_action;
        let found = found.map(RemediationAction::as_str);
        assert_eq!(
            found, expected,
            "{root_action:?} {mark:?} {override_action:?}"
        );
    }
}

#[test]
fn replicas_name_their_dependencies_as_the_cluster_knows_them() {
    let root = policy(json!({
        "remediationAction": "inform",
        "dependencies": [{"kind": "Policy", "name": "base", "compliance": "Compliant"}],
        "policy-templates": [{
            "objectDefinition": {"kind": "ConfigurationPolicy"},
            "extraDependencies": [{"kind": "PolicySet", "name": "set", "compliance": "Compliant"}],
        }],
    }));
    let sets = [PolicySet {
        namespace: "policies".to_owned(),
        name: "set".to_owned(),
        policies: vec!["m".to_owned()],
        exclusions: vec![],
    }];
    let mut builder = Builder::new(&root, &sets, &Unresolved);
    let spec = builder.text(&ClusterName::from("c1"), None, None).spec;
    let expected = |name: &str| json!([{"apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy", "name": name, "compliance": "Compliant"}]);
    let written = json!(spec.wire());
    assert_eq!(written["dependencies"], expected("policies.base"));
    let extra = &written["policy-templates"][0]["extraDependencies"];
    assert_eq!(*extra, expected("policies.m"));
    assert_eq!(spec.templates[0].extra_dependencies[0].name, "policies.m");
}

/// Puts the name of the cluster where `{{hub}}` stands; refuses `{{hub bad}}`.
struct Names;

impl HubTemplates for Names {
    fn concerns(&self, definition: &Map<String, Value>) -> bool {
        json!(definition).to_string().contains("{{hub")
    }

    fn resolve(
        &self,
        cluster: &ClusterName,
        definition: &Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let text = json!(definition).to_string();
        if text.contains("{{hub bad}}") {
            return Err("no such function".to_owned());
        }
        Ok(serde_json::from_str(&text.replace("{{hub}}", cluster)).unwrap())
    }
}

#[test]
fn hub_templates_are_resolved_one_definition_at_a_time() {
    let root = policy(json!({
        "remediationAction": "inform",
        "policy-templates": [
            {"objectDefinition": {"kind": "A", "metadata": {"name": "on-{{hub}}"}}},
            {"objectDefinition": {"kind": "B", "spec": "{{hub bad}}"}},
        ],
    }));
    let build = |root: &Policy| {
        let mut builder = Builder::new(root, &[], &Names);
        builder.text(&ClusterName::from("c1"), None, None)
    };
    let built = build(&root);
    assert_eq!(built.template_errors, ["no such function"]);
    let written = json!(built.spec.wire());
    let templates = &written["policy-templates"];
    assert_eq!(
        templates[0]["objectDefinition"]["metadata"]["name"],
        "on-c1"
    );
    assert_eq!(
        templates[1]["objectDefinition"],
        json!({"kind": "B", "spec": "{{hub bad}}", "metadata": {"annotations": {names::HUB_TEMPLATES_ERROR: "no such function"}}})
    );
    let mut off = root.clone();
    off.annotations
        .insert(names::DISABLE_TEMPLATES.to_owned(), "True".to_owned());
    assert!(build(&off).template_errors.is_empty());
}
