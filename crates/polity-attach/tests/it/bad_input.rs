//! Input that nobody would write, or only with intent: a clear word each, never a panic, never an endless walk.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{Fixture, body, crd, policy, reference, status, value};

#[test]
fn a_policy_that_targets_itself_is_invalid() {
    let graph = Fixture::new()
        .policy(
            "K",
            "p",
            1,
            &["TimeoutPolicy/p"],
            json!({"defaults": {"retries": 1}}),
        )
        .graph();
    assert_eq!(status(&graph, "TimeoutPolicy/p"), "Invalid");
}

#[test]
fn ten_thousand_policies_on_one_target() {
    let mut world = Fixture::new().chain();
    for index in 0..10_000 {
        world = world.policy(
            "K",
            &format!("p{index:05}"),
            1,
            &["G"],
            json!({"defaults": {"limit": index}}),
        );
    }
    let mut graph = world.graph();
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({"limit": 0}));
    assert_eq!(
        status(&graph, "TimeoutPolicy/p09999"),
        "Accepted overridden"
    );
    let message = graph
        .policy_status(&reference("TimeoutPolicy/p09999"))
        .unwrap();
    assert_eq!(message.beaten_by.len(), 1);
    graph.delete(&reference("TimeoutPolicy/p00000"));
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({"limit": 1}));
}

#[test]
fn a_crd_without_schema_is_said_and_its_policies_hold_all_the_same() {
    let mut kind = crd("TimeoutPolicy", "Namespaced", "inherited", &body());
    kind["spec"]["versions"][0]
        .as_object_mut()
        .unwrap()
        .remove("schema");
    let graph = Fixture::default()
        .with(kind)
        .chain()
        .policy(
            "K",
            "p",
            1,
            &["G"],
            json!({"defaults": {"anything": {"at": "all"}}}),
        )
        .graph();
    let said = graph.findings();
    let finding = said
        .iter()
        .find(|finding| finding.code == "NonConforming")
        .unwrap();
    assert!(finding.message.contains("schema"), "{}", finding.message);
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"anything": {"at": "all"}})
    );
    assert_eq!(status(&graph, "TimeoutPolicy/p"), "Accepted full");
}

#[test]
fn a_target_in_another_namespace_without_a_grant_is_refused_in_one_sentence() {
    let graph = Fixture::new()
        .chain()
        .policy("K", "app/p", 1, &["Gateway/infra/g"], json!({"retries": 1}))
        .policy(
            "K",
            "app/q",
            1,
            &["Gateway/infra/none"],
            json!({"retries": 1}),
        )
        .graph();
    let message = |policy: &str| {
        let status = graph.policy_status(&reference(policy)).unwrap();
        let accepted = status.ancestors[0].condition("Accepted").unwrap();
        assert_eq!(accepted.reason, "Invalid");
        accepted.message.clone()
    };
    let (there, absent) = (
        message("TimeoutPolicy/app/p"),
        message("TimeoutPolicy/app/q"),
    );
    assert!(
        there.contains("no ReferenceGrant in namespace infra"),
        "{there}"
    );
    assert_eq!(
        there.replace(" g", ""),
        absent.replace(" none", ""),
        "a refusal does not tell whether the target exists"
    );
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({}));
}

#[test]
fn a_circle_of_thousands_of_references_is_one_finding() {
    const MEMBERS: usize = 5_000;
    let config = json!({"kinds": [{"group": "acme.test", "kind": "HealthPolicy", "class": "Inherited", "hierarchy": "owners"}]});
    let mut world =
        Fixture::new()
            .config(config)
            .policy("H", "top", 1, &["Pod/p0"], json!({"retries": 1}));
    for index in 0..MEMBERS {
        let mut pod = Fixture::default()
            .object("v1", "Pod", &format!("p{index}"), json!({}))
            .objects
            .remove(0);
        let owner = format!("p{}", (index + 1) % MEMBERS);
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": owner}]);
        world = world.with(pod);
    }
    let mut graph = world.graph();
    let circles = |graph: &polity_attach::Graph| {
        let findings = graph.findings();
        let of_circles = findings
            .iter()
            .filter(|finding| finding.code == "ObjectCycle");
        of_circles.count()
    };
    assert_eq!(circles(&graph), 1);
    assert_eq!(value(&graph, "Pod/p0", None), json!({"retries": 1}));
    assert_eq!(
        value(&graph, "Pod/p4999", None),
        json!({}),
        "no edge in a circle"
    );
    graph.delete(&reference("Pod/p7"));
    assert_eq!(circles(&graph), 0, "one member less, and it is open");
    assert_eq!(value(&graph, "Pod/p4999", None), json!({"retries": 1}));
}

#[test]
fn a_crd_that_is_no_crd_and_schemas_that_are_none() {
    for broken in [
        json!({"spec": null}),
        json!({"spec": {"group": 5, "names": []}}),
        json!({"spec": {"group": "acme.test", "names": {"kind": "TimeoutPolicy"}, "versions": "many"}}),
        json!({"spec": {"group": "acme.test", "names": {"kind": "TimeoutPolicy"}, "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": 7}}}]}}),
    ] {
        let mut crd = broken;
        crd["apiVersion"] = json!("apiextensions.k8s.io/v1");
        crd["kind"] = json!("CustomResourceDefinition");
        crd["metadata"] =
            json!({"name": "x", "labels": {"gateway.networking.k8s.io/policy": "inherited"}});
        let graph = Fixture::default()
            .with(crd)
            .chain()
            .policy("K", "p", 1, &["G"], json!({"defaults": {"retries": 1}}))
            .graph();
        graph.issues();
        graph.explain(&reference("HTTPRoute/r"), None, jiff::Timestamp::UNIX_EPOCH);
    }
}

#[test]
fn both_spellings_of_two_stanzas() {
    let spec = json!({"defaults": {"retries": 1}, "default": {"limit": 1}, "overrides": {"max": 1}, "override": {"rate": 1}});
    let graph = Fixture::new()
        .chain()
        .policy("K", "p", 1, &["G"], spec)
        .graph();
    assert_eq!(status(&graph, "TimeoutPolicy/p"), "Invalid");
    let said = graph.policy_status(&reference("TimeoutPolicy/p")).unwrap();
    let message = &said.ancestors[0].condition("Accepted").unwrap().message;
    assert!(
        message.contains("defaults") && message.contains("both set"),
        "{message}"
    );
}

#[test]
fn deep_and_huge_specs() {
    let mut kind = crd("TimeoutPolicy", "Namespaced", "inherited", &body());
    kind["spec"]["versions"][0]
        .as_object_mut()
        .unwrap()
        .remove("schema");
    let mut deep = json!(1);
    for _ in 0..120 {
        deep = json!({ "a": deep });
    }
    let wide: serde_json::Map<String, Value> = (0..50_000)
        .map(|index| (format!("f{index}"), json!(index)))
        .collect();
    let graph = Fixture::default()
        .with(kind)
        .chain()
        .policy("K", "deep", 1, &["G"], json!({"defaults": {"deep": deep}}))
        .policy("K", "wide", 1, &["G"], json!({"overrides": wide}))
        .graph();
    let held = value(&graph, "HTTPRoute/r", None);
    assert_eq!(held.as_object().unwrap().len(), 50_001);
    let published = graph.effective_policy(Some("infra"), "r").unwrap();
    assert!(published.to_string().len() <= 512 * 1024);
    assert_eq!(published["truncated"], true);
    assert!(published["policies"][0]["objects"].is_array(), "names stay");
}

#[test]
fn thousands_of_listeners_rules_and_long_chains_of_owners() {
    let listeners: Vec<String> = (0..500).map(|index| format!("l{index}")).collect();
    let listeners: Vec<&str> = listeners.iter().map(String::as_str).collect();
    let mut world = Fixture::new()
        .class()
        .gateway("g", &listeners)
        .route("r", &["g"], &[("-", &["s"]), ("same", &["s"]), ("same", &["s"])])
        .service("s", &["web", "web"])
        .config(json!({"kinds": [{"group": "acme.test", "kind": "HealthPolicy", "class": "Inherited", "hierarchy": "owners"}]}))
        .policy("H", "top", 1, &["Pod/p0"], json!({"retries": 1}))
        .policy("K", "gw", 1, &["G"], json!({"defaults": {"retries": 1}}));
    for index in 0..3_000 {
        let mut pod = Fixture::default()
            .object("v1", "Pod", &format!("p{index}"), json!({}))
            .objects
            .remove(0);
        if index > 0 {
            pod["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "Pod", "name": format!("p{}", index - 1)}]);
        }
        world = world.with(pod);
    }
    let graph = world.graph();
    assert_eq!(value(&graph, "Pod/p2999", None), json!({"retries": 1}));
    assert_eq!(
        graph.affects(&reference("TimeoutPolicy/gw")).total,
        3,
        "gateway, route and service"
    );
}

/// Any JSON, of the shapes that are most likely to hurt.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z*./#é]{0,6}".prop_map(Value::from),
        prop_oneof![
            Just("Gateway"),
            Just("HTTPRoute"),
            Just("Service"),
            Just("g"),
            Just("s"),
            Just("infra")
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let name = prop_oneof![
            Just("spec"),
            Just("targetRef"),
            Just("targetRefs"),
            Just("kind"),
            Just("name"),
            Just("namespace"),
            Just("group"),
            Just("defaults"),
            Just("overrides"),
            Just("listeners"),
            Just("parentRefs"),
            Just("rules"),
            Just("backendRefs"),
            Just("metadata"),
            Just("status"),
            Just("ancestors"),
            Just("ownerReferences"),
            Just("labels"),
            Just("sectionName"),
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name.prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_is_json_makes_it_panic(spec in any_json(), status in any_json(), labels in any_json()) {
        let mut graph = Fixture::new().chain().graph();
        for (api_version, kind) in [
            ("acme.test/v1", "TimeoutPolicy"), ("acme.test/v1", "HealthPolicy"), ("gateway.networking.k8s.io/v1", "Gateway"),
            ("gateway.networking.k8s.io/v1", "HTTPRoute"), ("gateway.networking.k8s.io/v1", "ListenerSet"), ("v1", "Service"),
            ("gateway.networking.k8s.io/v1", "ReferenceGrant"), ("polity.dev/v1alpha1", "AttachmentConfig"), ("v1", "Namespace"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ] {
            let object = json!({"apiVersion": api_version, "kind": kind,
                "metadata": {"name": "g", "namespace": "infra", "labels": labels, "generation": labels},
                "spec": spec, "status": status});
            graph.apply(object);
        }
        graph.apply(policy("K", "p", 1, &["G"], json!({"defaults": spec})));
        graph.issues();
        graph.topology(None, None).to_dot();
        for (object, _) in graph.objects() {
            graph.explain(object, None, jiff::Timestamp::UNIX_EPOCH);
            graph.effective_policy(object.namespace.as_deref(), &object.name);
        }
    }
}
