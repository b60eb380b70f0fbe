//! Evaluations of whole policies against a cluster: selection, comparison, recreation and messages.
//! See docs/spec/governance.md#11-2 and the sections after it.

use serde_json::{Value, json};

use super::world::{TestCluster, object, policy};
use crate::{ConfigurationPolicy, State, Status};

fn pod(namespace: &str, name: &str, image: &str) -> Value {
    object(
        "Pod",
        namespace,
        name,
        json!({"spec": {"image": image, "extra": 1}}),
    )
}

fn namespace(name: &str) -> Value {
    object("Namespace", "", name, json!({"labels": {"name": name}}))
}

fn template(compliance: &str, definition: Value) -> Value {
    json!({"complianceType": compliance, "objectDefinition": definition})
}

fn web(compliance: &str) -> Value {
    template(compliance, pod("default", "web", "nginx"))
}

fn one(action: &str, template: Value) -> ConfigurationPolicy {
    policy(json!({"remediationAction": action}), json!([template]))
}

/// The table of 11.3
#[test]
fn decision_per_named_object() {
    for (why, objects, compliance, action, expected) in [
        (
            "missing, inform",
            vec![],
            "musthave",
            "inform",
            vec!["NonCompliant; violation - pods [web] not found in namespace default"],
        ),
        (
            "missing, enforce",
            vec![],
            "musthave",
            "enforce",
            vec![
                "NonCompliant; violation - pods [web] not found in namespace default",
                "Compliant; notification - pods [web] was created successfully in namespace default",
            ],
        ),
        (
            "there",
            vec![pod("default", "web", "nginx")],
            "musthave",
            "inform",
            vec!["Compliant; notification - pods [web] found as specified in namespace default"],
        ),
        (
            "there, enforce",
            vec![pod("default", "web", "nginx")],
            "mustonlyhave",
            "Enforce",
            vec!["Compliant; notification - pods [web] found as specified in namespace default"],
        ),
        (
            "differs, inform",
            vec![pod("default", "web", "old")],
            "MustHave",
            "Inform",
            vec![
                "NonCompliant; violation - pods [web] found but not as specified in namespace default",
            ],
        ),
        (
            "differs, enforce",
            vec![pod("default", "web", "old")],
            "musthave",
            "enforce",
            vec![
                "NonCompliant; violation - pods [web] found but not as specified in namespace default",
                "Compliant; notification - pods [web] was updated successfully in namespace default",
            ],
        ),
        (
            "should not be there, inform",
            vec![pod("default", "web", "other")],
            "mustnothave",
            "inform",
            vec!["NonCompliant; violation - pods [web] found in namespace default"],
        ),
        (
            "should not be there, enforce",
            vec![pod("default", "web", "other")],
            "mustnothave",
            "enforce",
            vec![
                "Compliant; notification - pods [web] was deleted successfully in namespace default",
            ],
        ),
        (
            "should not be there and is not",
            vec![],
            "mustnothave",
            "enforce",
            vec!["Compliant; notification - pods [web] missing as expected in namespace default"],
        ),
    ] {
        let conclusion =
            TestCluster::with(objects).run(&one(action, web(compliance)), &Status::default());
        assert_eq!(conclusion.messages, expected, "{why}");
        let state = match expected.last().unwrap().starts_with("Compliant") {
            true => State::Compliant,
            false => State::NonCompliant,
        };
        assert_eq!(conclusion.status.state, state, "{why}");
        assert_eq!(conclusion.status.related.len(), 1, "{why}");
    }
}

#[test]
fn unnamed_definitions_search() {
    let definition = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"image": "nginx"}});
    let namespaces = json!({"namespaceSelector": {"include": ["n?"]}});
    let world = || {
        TestCluster::with([
            namespace("n1"),
            namespace("n2"),
            namespace("n3"),
            pod("n1", "a", "old"),
            pod("n1", "b", "older"),
        ])
    };
    let search = |compliance: &str| {
        policy(
            namespaces.clone(),
            json!([template(compliance, definition.clone())]),
        )
    };
    let missing = world().run(&search("musthave"), &Status::default());
    assert_eq!(
        missing.messages,
        [
            "NonCompliant; violation - pods not found in namespaces: n2, n3; \
          pods found but not as specified in namespace n1"
        ],
        "S10"
    );
    let related: Vec<(&str, &str, &str)> = missing
        .status
        .related
        .iter()
        .map(|it| {
            (
                it.object.namespace.as_str(),
                it.object.name.as_str(),
                it.reason.as_str(),
            )
        })
        .collect();
    assert_eq!(
        related,
        [
            ("n1", "-", "Resource found but does not match"),
            ("n2", "-", "Resource not found but should exist"),
            ("n3", "-", "Resource not found but should exist"),
        ],
        "11.10"
    );
    assert_eq!(
        world().message(&search("mustnothave")),
        "Compliant; notification - pods missing as expected in namespaces: n1, n2, n3"
    );
    let mut found = world();
    for name in ["x", "y"] {
        found.put(pod("n1", name, "nginx"));
    }
    found.put(pod("n2", "x", "nginx"));
    found.put(pod("n3", "z", "nginx"));
    assert_eq!(
        found.message(&search("musthave")),
        "Compliant; notification - pods [x] found as specified in namespaces: n1, n2; \
         pods [y] found as specified in namespace n1; pods [z] found as specified in namespace n3"
    );
    let enforce = policy(
        json!({"remediationAction": "enforce", "namespaceSelector": {"include": ["n3"]}}),
        json!([template("mustnothave", definition.clone())]),
    );
    assert_eq!(
        found.message(&enforce),
        "NonCompliant; violation - pods [z] found in namespace n3",
        "unnamed is always inform"
    );
    assert!(found.object("Pod", "n3/z").is_some());
}

#[test]
fn cluster_scoped_objects_have_no_place() {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "r"}, "rules": []});
    assert_eq!(
        TestCluster::default().message(&one("inform", template("musthave", role))),
        "NonCompliant; violation - clusterroles [r] not found"
    );
}

#[test]
fn status_is_only_compared() {
    let wants = |phase: &str| {
        let mut definition = pod("default", "web", "nginx");
        definition["status"] = json!({"phase": phase});
        template("musthave", definition)
    };
    let mut world = TestCluster::default();
    let created = world.run(&one("enforce", wants("Running")), &Status::default());
    assert_eq!(
        created.messages.last().unwrap(),
        "NonCompliant; violation - pods [web] in namespace default was created successfully, the status \
         of the object will be verified in the next evaluation"
    );
    assert_eq!(
        created.status.related[0].reason,
        "K8s creation success, status unchecked"
    );
    let mut pending = pod("default", "web", "nginx");
    pending["status"] = json!({"phase": "Pending"});
    let mut world = TestCluster::with([pending]);
    let conclusion = world.run(&one("enforce", wants("Running")), &Status::default());
    assert_eq!(
        conclusion.messages,
        ["NonCompliant; violation - pods [web] found but not as specified in namespace default"]
    );
    let diff = &conclusion.status.related[0]
        .properties
        .as_ref()
        .unwrap()
        .diff;
    assert!(
        diff.contains("-  phase: Pending\n+  phase: Running\n"),
        "{diff}"
    );
    assert_eq!(
        world.object("Pod", "default/web").unwrap()["status"]["phase"],
        "Pending"
    );
}

#[test]
fn what_cannot_be_looked_for_is_said() {
    let unnamed = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}});
    let selecting = |selector: Value, template: Value| {
        policy(json!({"namespaceSelector": selector}), json!([template]))
    };
    for (policy, expected) in [
        (
            one("inform", template("musthave", json!({"kind": "Pod"}))),
            "The kind and apiVersion fields are required on the object template at index 0 in policy p",
        ),
        (
            one(
                "inform",
                template(
                    "musthave",
                    json!({"apiVersion": "x.io/v1", "kind": "Widget"}),
                ),
            ),
            "couldn't find mapping resource with kind Widget in API version x.io/v1, please check if you have CRD deployed",
        ),
        (
            one("inform", template("musthave", unnamed.clone())),
            "namespaced object web of kind Pod has no namespace specified from the policy namespaceSelector nor the object metadata",
        ),
        (
            one(
                "inform",
                template("musthave", json!({"apiVersion": "v1", "kind": "Pod"})),
            ),
            "namespaced object of kind Pod has no namespace specified from the policy namespaceSelector nor the object metadata",
        ),
        (
            selecting(
                json!({"include": ["["]}),
                template("musthave", unnamed.clone()),
            ),
            "Error filtering namespaces with provided namespaceSelector: error parsing namespaceSelector pattern '[': syntax error in pattern",
        ),
        (
            one(
                "inform",
                json!({"complianceType": "musthave",
                "objectSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]},
                "objectDefinition": {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "n"}}}),
            ),
            "Error parsing provided objectSelector in the object-template at index [0]: matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
        ),
        (
            one(
                "inform",
                template(
                    "musthave",
                    json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "web", "namespace": "{{ empty }}"}}),
                ),
            ),
            "namespaced object web of kind Pod has no namespace specified after template resolution",
        ),
        (
            selecting(
                json!({"include": ["n1"]}),
                template(
                    "musthave",
                    json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "web", "namespace": "{{ empty }}other"}}),
                ),
            ),
            "The object definition's namespace must match the result from the namespace selector after template resolution",
        ),
        (
            one(
                "inform",
                template(
                    "musthave",
                    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
                "name": "web", "namespace": "{{ fail }}"}}),
                ),
            ),
            "template: tmpl:1: function \"fail\" not defined",
        ),
    ] {
        let message = TestCluster::with([namespace("n1")]).message(&policy);
        assert_eq!(message, format!("NonCompliant; violation - {expected}"));
    }
}

/// docs/spec/governance.md#11-2
#[test]
fn object_selectors_pick_names() {
    let labelled = |name: &str, image: &str| {
        object(
            "Pod",
            "n1",
            name,
            json!({"labels": {"app": "web"}, "spec": {"image": image}}),
        )
    };
    let world = || {
        TestCluster::with([
            namespace("n1"),
            labelled("a", "nginx"),
            labelled("b", "old"),
            pod("n1", "c", "old"),
        ])
    };
    let select = |compliance: &str, metadata: Value, label: &str| {
        policy(
            json!({"namespaceSelector": {"include": ["n1"]}}),
            json!([{
                "complianceType": compliance,
                "objectSelector": {"matchLabels": {"app": label}},
                "objectDefinition": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"image": "nginx"}},
            }]),
        )
    };
    assert_eq!(
        world().message(&select("musthave", json!({}), "web")),
        "NonCompliant; violation - pods [b] found but not as specified in namespace n1"
    );
    assert_eq!(
        world().message(&select(
            "musthave",
            json!({"name": "{{ .ObjectName }}"}),
            "web"
        )),
        "NonCompliant; violation - pods [b] found but not as specified in namespace n1"
    );
    assert_eq!(
        world().message(&select(
            "musthave",
            json!({"name": "{{ empty }}other"}),
            "web"
        )),
        "NonCompliant; violation - The object definition's name must match the result from the object \
         selector after template resolution"
    );
    assert_eq!(
        world().message(&select("musthave", json!({"name": "c"}), "web")),
        "NonCompliant; violation - pods [c] found but not as specified in namespace n1",
        "a name given: the selector is ignored"
    );
    assert_eq!(
        world().message(&select("musthave", json!({}), "none")),
        "Compliant; notification - No objects of kind Pod were matched from the policy objectSelector"
    );
    assert_eq!(
        world().message(&select(
            "musthave",
            json!({"annotations": {"x": "{{ skipObject }}"}}),
            "web"
        )),
        "Compliant; notification - All objects of kind Pod were skipped by the `skipObject` template function"
    );
    assert_eq!(
        world().message(&select(
            "musthave",
            json!({"annotations": {"x": "{{ skip b }}", "y": "{{ .ObjectName }}"}}),
            "web"
        )),
        "NonCompliant; violation - pods [a] found but not as specified in namespace n1",
        "resolved per name"
    );
    // Selected objects must also have the other fields of the definition.
    assert_eq!(
        world().message(&select("mustnothave", json!({}), "web")),
        "NonCompliant; violation - pods [a] found in namespace n1",
        "only those with the other fields"
    );
    let mut none_left = world();
    none_left.put(labelled("a", "older"));
    assert_eq!(
        none_left.message(&select("mustnothave", json!({}), "web")),
        "Compliant; notification - pods missing as expected in namespace n1"
    );
}

#[test]
fn a_dry_run_has_the_last_word() {
    let wants = |spec: Value| {
        one(
            "enforce",
            template(
                "musthave",
                json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"}, "spec": spec}),
            ),
        )
    };
    let mut world = TestCluster::with([pod("default", "web", "nginx")]);
    let conclusion = world.run(&wants(json!({"empty": {}})), &Status::default());
    assert_eq!(
        conclusion.messages,
        ["Compliant; notification - pods [web] found as specified in namespace default"]
    );
    assert!(
        conclusion.status.related[0]
            .properties
            .as_ref()
            .unwrap()
            .matches_after_dry_run
    );
    assert_eq!(
        world.message(&wants(json!({"unknown": "x"}))),
        "NonCompliant; violation - Error validating the object web, the error is `strict decoding error: \
         unknown field \"spec.unknown\"`"
    );
}

/// docs/spec/governance.md#11-6
#[test]
fn recreating_is_asked_for() {
    let wants = |action: &str, option: &str| {
        let mut template = template(
            "musthave",
            object(
                "Pod",
                "default",
                "web",
                json!({"spec": {"immutable": "new"}}),
            ),
        );
        template["recreateOption"] = json!(option);
        one(action, template)
    };
    let world = || {
        TestCluster::with([object(
            "Pod",
            "default",
            "web",
            json!({"spec": {"immutable": "old"}}),
        )])
    };
    assert_eq!(
        world().message(&wants("inform", "None")),
        "NonCompliant; violation - pods [web] found but not as specified in namespace default"
    );
    assert_eq!(
        world().message(&wants("enforce", "None")),
        "NonCompliant; violation - pods [web] in namespace default cannot be updated, likely due to \
         immutable fields not matching, you may set spec[\"object-templates\"][].recreateOption to \
         recreate the object"
    );
    for option in ["IfRequired", "Always"] {
        let mut world = world();
        let conclusion = world.run(&wants("enforce", option), &Status::default());
        assert_eq!(
            conclusion.messages.last().unwrap(),
            "Compliant; notification - pods [web] was updated successfully in namespace default"
        );
        let properties = conclusion.status.related[0].properties.as_ref().unwrap();
        assert!(properties.created_by_policy);
        assert_eq!(
            world.object("Pod", "default/web").unwrap()["spec"]["immutable"],
            "new"
        );
    }
}

/// docs/spec/governance.md#11-8
#[test]
fn custom_messages() {
    let map = object("ConfigMap", "default", "c", json!({"data": {"k": "v"}}));
    let say = |text: &str| {
        policy(
            json!({"customMessage": {"compliant": text, "noncompliant": text}}),
            json!([template("musthave", map.clone())]),
        )
    };
    let mut world = TestCluster::with([map.clone()]);
    assert_eq!(world.message(&say("all is well")), "Compliant; all is well");
    assert_eq!(world.message(&say("Compliant; fine")), "Compliant; fine");
    assert_eq!(
        world.message(&say("fail")),
        "Compliant; notification - configmaps [c] found as specified in namespace default \
         (failure processing the custom message: failed to execute: no)"
    );
    assert_eq!(
        world.message(&say("data")),
        "Compliant; {\"k\":\"v\"}",
        "the full object"
    );
    assert_eq!(
        TestCluster::default().message(&say("oh")),
        "NonCompliant; oh"
    );
}

#[test]
fn policies_without_templates() {
    assert_eq!(
        TestCluster::default().message(&policy(json!({}), json!([]))),
        "Compliant; notification - p contains no object templates to check, and thus has no violations"
    );
    let raw = |text: &str| {
        let document = json!({"metadata": {"name": "p"}, "spec": {"object-templates-raw": text}});
        ConfigurationPolicy::from_json(&document).unwrap()
    };
    let listed = json!([web("musthave")]).to_string();
    assert_eq!(
        TestCluster::default().message(&raw(&listed)),
        "NonCompliant; violation - pods [web] not found in namespace default"
    );
    assert!(
        TestCluster::default()
            .message(&raw("[{}, "))
            .starts_with("NonCompliant; violation - Error parsing object-templates-raw YAML: ")
    );
}

#[test]
fn never_is_said() {
    let never = policy(
        json!({"evaluationInterval": {"compliant": "never"}}),
        json!([web("mustnothave")]),
    );
    assert_eq!(
        TestCluster::default().message(&never),
        "Compliant; notification - pods [web] missing as expected in namespace default. This policy will \
         not be evaluated again due to spec.evaluationInterval.compliant being set to \"never\"."
    );
}

/// 3.5 recordDiff, 11.7
#[test]
fn differences_are_recorded_where_they_may_be_seen() {
    let differing = |kind: &str, more: Value, value: &str| {
        let mut template = template(
            "musthave",
            object(kind, "default", "x", json!({"data": {"k": value}})),
        );
        for (key, value) in more.as_object().into_iter().flatten() {
            template[key] = value.clone();
        }
        let mut world =
            TestCluster::with([object(kind, "default", "x", json!({"data": {"k": "old"}}))]);
        let conclusion = world.run(&one("inform", template), &Status::default());
        conclusion.status.related[0]
            .properties
            .clone()
            .unwrap()
            .diff
    };
    assert!(
        differing("ConfigMap", json!({}), "new")
            .starts_with("# The difference is redacted because it contains sensitive data.")
    );
    assert_eq!(
        differing("ConfigMap", json!({"recordDiff": "InStatus"}), "new"),
        "--- default/x : existing\n+++ default/x : updated\n@@ -1,8 +1,8 @@\n apiVersion: v1\n data:\n-  k: old\n+  k: new\n \
         kind: ConfigMap\n metadata:\n   name: x\n   namespace: default\n   uid: uid-default/x-0\n"
    );
    assert_eq!(
        differing("ConfigMap", json!({"recordDiff": "None"}), "new"),
        ""
    );
    assert_eq!(
        differing("ConfigMap", json!({"recordDiff": "Log"}), "new"),
        ""
    );
    assert!(differing("Pod", json!({}), "new").contains("+  k: new"));
    assert!(
        differing("Pod", json!({}), "{{ fromSecret }}").starts_with("# The difference is redacted")
    );
}

#[test]
fn what_cannot_be_read_prunes_nothing() {
    let enforce = policy(
        json!({"remediationAction": "enforce", "pruneObjectBehavior": "DeleteAll"}),
        json!([web("musthave")]),
    );
    let mut world = TestCluster::default();
    let before = world.run(&enforce, &Status::default());
    world.unreadable = Some("Pod");
    let conclusion = world.run(&enforce, &before.status);
    assert_eq!(
        conclusion.messages,
        [
            "NonCompliant; violation - Error retrieving an object for object-template at index [0]: the server is tired"
        ]
    );
    assert!(conclusion.prune.is_empty());
}

#[test]
fn the_same_again_is_no_news() {
    let inform = one("inform", web("musthave"));
    let mut world = TestCluster::default();
    let first = world.run(&inform, &Status::default());
    assert!(first.changed);
    let second = world.run(&inform, &first.status);
    assert!(!second.changed);
    assert_eq!(second.status.history.len(), 1);
    let mut edited = inform;
    edited.generation = 2;
    assert!(
        world.run(&edited, &first.status).changed,
        "a new generation"
    );
}
