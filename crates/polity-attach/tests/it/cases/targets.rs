//! Cases 15 to 18: targets that are not there, not valid or not in this namespace.

use polity_attach::{Graph, ObjectRef};
use serde_json::{Value, json};

use crate::world::{Fixture, check_status, policy, reference, value};

#[test]
fn a_target_that_is_not_found_is_reported() {
    let graph = Fixture::new()
        .chain()
        .policy(
            "K",
            "a",
            1,
            &["HTTPRoute/nope"],
            json!({"defaults": {"limit": 1}}),
        )
        .policy("K", "b", 1, &["G#nope"], json!({"defaults": {"limit": 1}}))
        .policy(
            "K",
            "c",
            1,
            &["Widget.acme.test/x"],
            json!({"defaults": {"limit": 1}}),
        )
        .graph();
    for (name, target) in [("a", "nope"), ("b", "g"), ("c", "x")] {
        let policy = reference(&format!("TimeoutPolicy/{name}"));
        check_status(
            &graph,
            &[(&format!("TimeoutPolicy/{name}"), "TargetNotFound")],
        );
        let status = graph.policy_status(&policy).unwrap();
        assert_eq!(
            status.ancestors[0].ancestor_ref.name, target,
            "the written target itself"
        );
        assert_eq!(
            status.ancestors[0]
                .condition("ResolvedRefs")
                .unwrap()
                .status,
            "False"
        );
    }
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({}));
}

#[test]
fn one_wrong_target_leaves_the_others_in_effect() {
    let graph = Fixture::new()
        .class()
        .gateway("g", &["http"])
        .route("r1", &["g"], &[("-", &[])])
        .policy(
            "K",
            "a",
            1,
            &["HTTPRoute/r1", "HTTPRoute/typo"],
            json!({"defaults": {"timeout": "5s"}}),
        )
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r1", None),
        json!({"timeout": "5s"})
    );
    let status = graph.policy_status(&reference("TimeoutPolicy/a")).unwrap();
    let said: Vec<String> = status
        .ancestors
        .iter()
        .map(|ancestor| {
            let reference = &ancestor.ancestor_ref;
            let programmed = ancestor
                .condition("Programmed")
                .map(|condition| condition.reason.clone());
            format!(
                "{} {}: {} {programmed:?}",
                reference.kind,
                reference.name,
                ancestor.condition("Accepted").unwrap().reason
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            "Gateway g: Accepted Some(\"Programmed\")",
            "HTTPRoute typo: TargetNotFound None"
        ]
    );
}

#[test]
fn an_invalid_policy_has_no_effect() {
    let many: Vec<String> = (0..17).map(|index| format!("HTTPRoute/r{index}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let both = {
        let mut both = policy("K", "p", 1, &["R"], json!({"defaults": {"limit": 1}}));
        both["spec"]["targetRefs"] = json!([both["spec"]["targetRef"]]);
        both
    };
    let cases = [
        ("targetRef and targetRefs both set", both),
        (
            "defaults and default both set",
            policy(
                "K",
                "p",
                1,
                &["R"],
                json!({"defaults": {"limit": 1}, "default": {"max": 1}}),
            ),
        ),
        (
            "no target",
            policy("K", "p", 1, &[], json!({"defaults": {"limit": 1}})),
        ),
        (
            "namespaced policy on GatewayClass",
            policy("K", "p", 1, &["C"], json!({"defaults": {"limit": 1}})),
        ),
        (
            "body fails the CRD schema",
            policy("K", "p", 1, &["R"], json!({"defaults": {"limit": "many"}})),
        ),
        (
            "17 targetRefs",
            policy("K", "p", 1, &many, json!({"defaults": {"limit": 1}})),
        ),
        (
            "same object twice without sectionName",
            policy("K", "p", 1, &["R", "R"], json!({"defaults": {"limit": 1}})),
        ),
    ];
    for (what, object) in cases {
        let graph = Fixture::new().chain().with(object).graph();
        let status = graph.policy_status(&reference("TimeoutPolicy/p")).unwrap();
        assert!(
            !status.ancestors.is_empty(),
            "{what}: status is never silently absent"
        );
        for ancestor in &status.ancestors {
            let accepted = ancestor.condition("Accepted").unwrap();
            assert_eq!(
                (accepted.status, accepted.reason.as_str()),
                ("False", "Invalid"),
                "{what}"
            );
            assert!(
                ancestor.condition("Programmed").is_none(),
                "{what}: no Programmed condition"
            );
        }
        assert_eq!(value(&graph, "HTTPRoute/r", None), json!({}), "{what}");
    }
}

fn grant(from_kind: &str, from_namespace: &str, to_kind: &str) -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
           "metadata": {"name": "grant", "namespace": "infra"},
           "spec": {"from": [{"group": "acme.test", "kind": from_kind, "namespace": from_namespace}],
                    "to": [{"group": "gateway.networking.k8s.io", "kind": to_kind}]}})
}

#[test]
fn a_target_in_another_namespace_needs_a_reference_grant() {
    let world = Fixture::new().chain().policy(
        "K",
        "app/a",
        1,
        &["Gateway/infra/g"],
        json!({"defaults": {"timeout": "5s"}}),
    );
    let without = |graph: &Graph, when: &str| {
        assert_eq!(value(graph, "HTTPRoute/r", None), json!({}), "{when}");
        let status = graph
            .policy_status(&reference("TimeoutPolicy/app/a"))
            .unwrap();
        assert_eq!(
            status.ancestors[0].condition("Accepted").unwrap().reason,
            "Invalid",
            "{when}"
        );
        let resolved = status.ancestors[0].condition("ResolvedRefs").unwrap();
        assert_eq!(
            (resolved.status, resolved.reason.as_str()),
            ("False", "RefNotPermitted"),
            "{when}"
        );
    };
    let mut graph = world.graph();
    without(&graph, "without grant");
    graph.apply(grant("TimeoutPolicy", "app", "Gateway"));
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({"timeout": "5s"}));
    check_status(&graph, &[("TimeoutPolicy/app/a", "Accepted full")]);
    graph.delete(&ObjectRef::new(
        "gateway.networking.k8s.io",
        "ReferenceGrant",
        Some("infra"),
        "grant",
    ));
    without(&graph, "grant deleted");

    // The refusal must not tell whether the target is there.
    let absent = Fixture::new()
        .policy(
            "K",
            "app/a",
            1,
            &["Gateway/infra/g"],
            json!({"defaults": {"timeout": "5s"}}),
        )
        .graph();
    assert_eq!(
        absent.policy_status(&reference("TimeoutPolicy/app/a")),
        graph.policy_status(&reference("TimeoutPolicy/app/a"))
    );
}
