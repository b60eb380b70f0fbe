//! The rules of template sync (docs/spec/governance.md#10-3), and the worked scenarios that a managed cluster decides (docs/spec/governance.md#15).

use crate::objects::{HistoryEntry, TemplateStatus};
use serde_json::json;

use super::*;
use crate::fixtures;

/// A cluster with some objects; ConfigurationPolicy and Policy are served, and kinds ending in `Cluster` cluster-wide.
#[derive(Default)]
struct Objects(Vec<Value>);

impl Objects {
    fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        let mut objects = self.0.iter();
        objects.find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
    }
}

impl Cluster for Objects {
    fn kind(&self, _: &str, kind: &str) -> TemplateKind {
        match kind {
            "Unserved" => TemplateKind::NotServed {
                why: "no matches for kind".to_owned(),
            },
            "ConfigMap" => TemplateKind::NotAllowed,
            kind => TemplateKind::Allowed {
                namespaced: !kind.ends_with("Cluster"),
            },
        }
    }

    fn dependency(&self, dependency: &Dependency) -> Found<'_> {
        self.find(&dependency.kind, &dependency.name)
            .map_or(Found::Missing, Found::Object)
    }

    fn object(&self, _: &str, kind: &str, name: &str) -> Option<&Value> {
        self.find(kind, name)
    }

    fn labelled(&self, policy: &str) -> Vec<&Value> {
        let labelled = |object: &&Value| object["metadata"]["labels"][names::POLICY] == policy;
        self.0.iter().filter(labelled).collect()
    }
}

fn definition(kind: &str, name: &str) -> Value {
    json!({"apiVersion": names::V1, "kind": kind, "metadata": {"name": name}, "spec": {"remediationAction": "inform"}})
}

/// The copy on cluster c1, with these templates.
fn copy(action: &str, templates: Value) -> Policy {
    let mut policy =
        fixtures::policy(json!({"remediationAction": action, "policy-templates": templates}));
    policy.namespace = "c1".to_owned();
    policy.name = "policies.p".to_owned();
    policy
}

fn of(templates: &[Value]) -> Value {
    templates
        .iter()
        .map(|template| json!({"objectDefinition": template}))
        .collect()
}

fn waiting(mut policy: Policy) -> Policy {
    let version = crate::mark::Version::of("uid", &policy.spec);
    Mark::waiting(&version, fixtures::START.parse().unwrap()).write(&mut policy.annotations);
    policy
}

fn run(policy: &Policy, objects: &[Value]) -> SyncPlan {
    sync(policy, "c1", &Objects(objects.to_vec()))
}

fn report(plan: &SyncPlan) -> &str {
    plan.templates[0].report.as_deref().unwrap_or_default()
}

/// The object that a first sync of this policy creates.
fn applied(policy: &Policy) -> Value {
    match run(policy, &[]).templates.remove(0).step {
        TemplateStep::Create(object) => object,
        other => panic!("{other:?}"),
    }
}

#[test]
fn templates_that_cannot_be_applied_are_reported() {
    assert!(run(&copy("inform", json!([])), &[]).templates.is_empty());
    let twice = copy("inform", of(&[definition("A", "t"), definition("B", "t")]));
    let plan = run(&twice, &[]);
    assert_eq!(plan.templates.len(), 2);
    assert_eq!(
        report(&plan),
        "NonCompliant; template-error; All policy-template names must be unique within a policy"
    );
    for (template, name, expected) in [
        (
            json!({"metadata": {"name": "x"}}),
            "x",
            "template-error; Failed to decode policy template with err: ",
        ),
        (
            json!({}),
            "template-0",
            "template-error; Failed to decode policy template with err: ",
        ),
        (
            json!({"apiVersion": "v1", "kind": "A"}),
            "template-0",
            "template-error; Failed to parse or get name from policy template at index 0",
        ),
        (
            definition("Unserved", "t"),
            "t",
            "template-error; Mapping not found, check if you have the CRD deployed: no matches for kind",
        ),
        (
            definition("ConfigMap", "t"),
            "t",
            "template-error; policy-template kind is not supported: policy.open-cluster-management.io/v1, Kind=ConfigMap",
        ),
    ] {
        let plan = run(&copy("inform", of(std::slice::from_ref(&template))), &[]);
        assert_eq!(
            (plan.templates[0].name.as_str(), &plan.templates[0].step),
            (name, &TemplateStep::None)
        );
        assert!(
            report(&plan).starts_with(&format!("NonCompliant; {expected}")),
            "{template}: {}",
            report(&plan)
        );
    }
}

#[test]
fn a_template_object_gets_labels_namespace_and_owner() {
    let policy = copy("Enforce", of(&[definition("ConfigurationPolicy", "t")]));
    let object = applied(&policy);
    assert_eq!(object["spec"]["remediationAction"], "Enforce");
    assert_eq!(object["metadata"]["namespace"], "c1");
    for label in [names::CLUSTER_NAME, names::OLD_CLUSTER_NAMESPACE] {
        assert_eq!(object["metadata"]["labels"][label], "c1");
    }
    assert_eq!(object["metadata"]["labels"][names::POLICY], "policies.p");
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "uid");
    assert_eq!(
        run(&policy, std::slice::from_ref(&object)).templates[0].step,
        TemplateStep::Keep,
        "applied is applied"
    );
    let mut defaulted = object.clone();
    defaulted["spec"]["pruneObjectBehavior"] = json!("None");
    defaulted["metadata"]["labels"]["mine"] = json!("too");
    assert_eq!(
        run(&policy, &[defaulted]).templates[0].step,
        TemplateStep::Keep,
        "defaults and more labels"
    );
    let mut edited = object.clone();
    edited["spec"]["severity"] = json!("high");
    edited["metadata"]["labels"]["mine"] = json!("too");
    let TemplateStep::Update(updated) = run(&policy, &[edited]).templates.remove(0).step else {
        panic!("not updated")
    };
    assert_eq!(updated["spec"].get("severity"), None);
    assert_eq!(updated["metadata"]["labels"]["mine"], "too");
    let wide = copy("inform", of(&[definition("KindOfCluster", "t")]));
    assert!(run(&wide, &[]).needs_finalizer);
    assert_eq!(applied(&wide)["metadata"].get("ownerReferences"), None);
}

#[test]
fn the_action_is_written_in_the_field_of_the_kind() {
    let kind = |api_version: &str, kind: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "t"}, "spec": spec});
    let admission = |spec: Value| kind("policies.kubewarden.io/v1", "ClusterAdmissionPolicy", spec);
    for (action, template, expected) in [
        (
            "enforce",
            definition("ConfigurationPolicy", "t"),
            json!({"remediationAction": "enforce"}),
        ),
        (
            "enforce",
            kind(
                names::V1,
                "ConfigurationPolicy",
                json!({"remediationAction": "InformOnly"}),
            ),
            json!({"remediationAction": "inform"}),
        ),
        (
            "inform",
            kind("constraints.gatekeeper.sh/v1", "K8s", json!({})),
            json!({"enforcementAction": "warn"}),
        ),
        (
            "enforce",
            kind("constraints.gatekeeper.sh/v1", "K8s", json!({})),
            json!({"enforcementAction": "deny"}),
        ),
        (
            "enforce",
            kind(
                "templates.gatekeeper.sh/v1",
                "ConstraintTemplate",
                json!({}),
            ),
            json!({}),
        ),
        (
            "inform",
            admission(json!({"mode": "protect"})),
            json!({"mode": "monitor", "failurePolicy": "Ignore"}),
        ),
        ("enforce", admission(json!({})), json!({"mode": "protect"})),
    ] {
        let object = applied(&copy(action, of(std::slice::from_ref(&template))));
        assert_eq!(object["spec"], expected, "{action} {template}");
    }
}

#[test]
fn a_template_that_can_be_applied_again_reports_again() {
    let mut policy = copy("inform", of(&[definition("ConfigurationPolicy", "t")]));
    for (message, expected) in [
        ("Pending; Dependencies were not satisfied", true),
        ("NonCompliant; template-error; whatever", true),
        ("Compliant; fine", false),
    ] {
        policy.status.details = vec![TemplateStatus {
            name: "t".to_owned(),
            compliant: None,
            history: vec![HistoryEntry {
                event_name: String::new(),
                at: None,
                message: message.to_owned(),
            }],
        }];
        assert_eq!(
            run(&policy, &[]).templates[0].clear_compliance,
            expected,
            "{message}"
        );
    }
}

#[test]
fn a_template_does_not_take_over_the_object_of_another_owner() {
    let policy = copy("inform", of(&[definition("ConfigurationPolicy", "t")]));
    let mut object = applied(&policy);
    object["metadata"]["ownerReferences"][0]["name"] = json!("policies.other");
    let plan = run(&policy, std::slice::from_ref(&object));
    assert_eq!(
        report(&plan),
        "NonCompliant; template-error; Template name must be unique. Policy template with kind: ConfigurationPolicy \
         name: t already exists in policy policies.other"
    );
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("ownerReferences");
    let lost = run(&policy, std::slice::from_ref(&object));
    assert!(
        matches!(&lost.templates[0].step, TemplateStep::Update(_)),
        "gets its owner back"
    );
    object["metadata"]["labels"] = json!({});
    assert!(report(&run(&policy, &[object])).ends_with("already exists outside of a Policy"));
}

#[test]
fn a_hub_template_error_prunes_nothing() {
    let mut broken = definition("ConfigurationPolicy", "t");
    let good = copy("enforce", of(&[broken.clone()]));
    broken["metadata"]["annotations"] = json!({names::HUB_TEMPLATES_ERROR: "no such secret"});
    let plan = run(&copy("enforce", of(&[broken])), &[applied(&good)]);
    assert_eq!(
        report(&plan),
        "NonCompliant; template-error; no such secret"
    );
    assert!(matches!(
        &plan.templates[0].step,
        TemplateStep::Delete {
            without_pruning: true,
            ..
        }
    ));
}

/// A policy that waits for `policies/a` to comply.
fn dependent_on_a() -> Policy {
    let mut policy = copy("enforce", of(&[definition("ConfigurationPolicy", "t")]));
    let wanted = crate::canonical::canonical(
        &[Dependency {
            api_version: names::V1.to_owned(),
            kind: "Policy".to_owned(),
            name: "a".to_owned(),
            namespace: Some("policies".to_owned()),
            compliance: Compliance::Compliant,
        }],
        "policies",
        &[],
    );
    std::sync::Arc::make_mut(&mut policy.spec).dependencies = wanted;
    policy
}

/// That policy on the cluster.
fn a(compliant: &str) -> Value {
    json!({"kind": "Policy", "metadata": {"name": "policies.a"}, "status": {"compliant": compliant}})
}

#[test]
fn a_template_waits_for_its_dependency() {
    let policy = dependent_on_a();
    let plan = run(&policy, &[a("NonCompliant")]);
    assert_eq!(
        report(&plan),
        "Pending; Dependencies were not satisfied: 1 is still pending (Policy policies.a)"
    );
    assert_eq!(plan.templates[0].step, TemplateStep::None);
    let plan = run(&policy, &[a("Compliant")]);
    let TemplateStep::Create(object) = &plan.templates[0].step else {
        panic!("{plan:?}")
    };
    let drifted = run(&policy, &[a("NonCompliant"), object.clone()]);
    assert!(matches!(
        &drifted.templates[0].step,
        TemplateStep::Delete {
            without_pruning: false,
            ..
        }
    ));
    let foreign = json!({"kind": "ConfigurationPolicy", "metadata": {"name": "t"}});
    let plan = run(&policy, &[a("NonCompliant"), foreign]);
    assert_eq!(
        plan.templates[0].step,
        TemplateStep::None,
        "not ours to delete"
    );
    let mut waits = waiting(policy.clone());
    waits.spec = policy.spec.clone();
    let plan = run(&waits, &[a("NonCompliant"), object.clone()]);
    assert!(
        matches!(
            &plan.templates[0].step,
            TemplateStep::Delete {
                without_pruning: true,
                ..
            }
        ),
        "a text without effect must not prune"
    );
}

/// docs/spec/governance.md#8-11, a new version that breaks what others depend on: `a` has a new version, is back on its inform copy here and does not comply with it.
#[test]
fn a_waiting_version_that_breaks_a_dependency_prunes_nothing() {
    let dependent = dependent_on_a();
    let mut object = match run(&dependent, &[a("Compliant")]).templates.remove(0).step {
        TemplateStep::Create(object) => object,
        other => panic!("{other:?}"),
    };
    object["spec"]["pruneObjectBehavior"] = json!("DeleteAll");
    let new_version = waiting(copy(
        "inform",
        of(&[definition("ConfigurationPolicy", "new")]),
    ));
    let mut on_cluster = a("NonCompliant");
    on_cluster["metadata"]["annotations"] = json!(new_version.annotations);
    let plan = run(&dependent, &[on_cluster, object]);
    assert!(
        matches!(
            &plan.templates[0].step,
            TemplateStep::Delete {
                without_pruning: false,
                ..
            }
        ),
        "deleted, pruning included: {plan:?}"
    );
    assert_eq!(
        report(&plan),
        "Pending; Dependencies were not satisfied: 1 is still pending (Policy policies.a)"
    );
}

#[test]
fn a_template_is_applied_only_on_violation() {
    let template = json!([{
        "objectDefinition": definition("ConfigurationPolicy", "foo"),
        "extraDependencies": [{"kind": "ConfigurationPolicy", "name": "bar", "compliance": "NonCompliant"}],
        "ignorePending": true,
    }]);
    let policy = copy("enforce", template);
    let bar = |compliant: &str| json!({"kind": "ConfigurationPolicy", "metadata": {"name": "bar"}, "status": {"compliant": compliant}});
    let plan = run(&policy, &[bar("Compliant")]);
    assert_eq!(
        report(&plan),
        "Compliant; Dependencies were not satisfied: 1 is still pending (ConfigurationPolicy bar) but ignorePending \
         is true"
    );
    let plan = run(&policy, &[bar("NonCompliant")]);
    let TemplateStep::Create(foo) = &plan.templates[0].step else {
        panic!("{plan:?}")
    };
    let plan = run(&policy, &[bar("Compliant"), foo.clone()]);
    assert!(matches!(
        &plan.templates[0].step,
        TemplateStep::Delete { .. }
    ));
}

#[test]
fn a_dropped_template_is_deleted_when_the_wait_ends() {
    let first = copy(
        "enforce",
        of(&[
            definition("ConfigurationPolicy", "p"),
            definition("ConfigurationPolicy", "q"),
        ]),
    );
    let objects: Vec<Value> = run(&first, &[])
        .templates
        .into_iter()
        .map(|template| match template.step {
            TemplateStep::Create(object) => object,
            other => panic!("{other:?}"),
        })
        .collect();
    let mut shorter = definition("ConfigurationPolicy", "p");
    shorter["spec"]["severity"] = json!("low");
    let second = waiting(copy("inform", of(&[shorter.clone()])));
    let plan = run(&second, &objects);
    assert!(plan.deletes.is_empty(), "q stays while the cluster waits");
    let TemplateStep::Update(updated) = &plan.templates[0].step else {
        panic!("{plan:?}")
    };
    assert_eq!(updated["spec"]["remediationAction"], "inform");
    let plan = run(&copy("enforce", of(&[shorter])), &objects);
    let dropped: Vec<&str> = plan
        .deletes
        .iter()
        .map(|object| object.name.as_str())
        .collect();
    assert_eq!(dropped, ["q"]);
}

#[test]
fn what_was_said_is_not_said_again() {
    let mut policy = copy("inform", of(&[definition("Unserved", "t")]));
    let text = report(&run(&policy, &[])).to_owned();
    policy.status.details = vec![TemplateStatus {
        name: "t".to_owned(),
        compliant: None,
        history: vec![HistoryEntry {
            event_name: String::new(),
            at: None,
            message: text,
        }],
    }];
    assert_eq!(run(&policy, &[]).templates[0].report, None);
}
