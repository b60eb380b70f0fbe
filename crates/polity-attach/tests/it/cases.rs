//! The worked cases of section 6, one test each, in the order of the contract.

use polity_attach::{Graph, ObjectRef};
use serde_json::{Value, json};

use crate::world::{
    World, affected_by, body, check_status, crd, policy, reference, results, value,
};

#[test]
fn case_1_direct_single() {
    let graph = World::new()
        .service("s", &[])
        .policy("H", "a", 1, &["Service/s"], json!({"path": "/ok"}))
        .graph();
    assert_eq!(value(&graph, "Service/s", None), json!({"path": "/ok"}));
    check_status(&graph, &[("HealthPolicy/a", "Accepted full")]);
}

#[test]
fn case_2_direct_same_field_differs() {
    let graph = World::new()
        .service("s", &[])
        .policy("H", "a", 1, &["Service/s"], json!({"path": "/ok"}))
        .policy(
            "H",
            "b",
            2,
            &["Service/s"],
            json!({"path": "/z", "port": 81}),
        )
        .graph();
    assert_eq!(
        value(&graph, "Service/s", None),
        json!({"path": "/ok"}),
        "b gives nothing, not even port"
    );
    check_status(
        &graph,
        &[
            ("HealthPolicy/a", "Accepted full"),
            ("HealthPolicy/b", "Conflicted"),
        ],
    );
    let status = graph.policy_status(&reference("HealthPolicy/b")).unwrap();
    assert!(
        status.ancestors[0]
            .condition("Accepted")
            .unwrap()
            .message
            .contains("infra/a")
    );
}

#[test]
fn case_3_direct_disjoint_fields() {
    let world = World::new()
        .service("s", &[])
        .policy("H", "a", 1, &["Service/s"], json!({"path": "/ok"}))
        .policy("H", "b", 2, &["Service/s"], json!({"port": 81}));
    let graph = world.graph();
    assert_eq!(
        value(&graph, "Service/s", None),
        json!({"path": "/ok", "port": 81})
    );
    check_status(
        &graph,
        &[
            ("HealthPolicy/a", "Accepted full"),
            ("HealthPolicy/b", "Accepted full"),
        ],
    );

    let graph = world
        .config(
            json!({"kinds": [{"group": "acme.test", "kind": "HealthPolicy", "strategy": "None"}]}),
        )
        .graph();
    assert_eq!(value(&graph, "Service/s", None), json!({"path": "/ok"}));
    check_status(
        &graph,
        &[
            ("HealthPolicy/a", "Accepted full"),
            ("HealthPolicy/b", "Conflicted"),
        ],
    );
}

#[test]
fn case_3b_direct_with_and_without_section() {
    let graph = World::new()
        .service("s", &["web", "admin"])
        .policy(
            "H",
            "a",
            1,
            &["Service/s"],
            json!({"path": "/ok", "port": 81}),
        )
        .policy("H", "b", 2, &["Service/s#admin"], json!({"path": "/adm"}))
        .graph();
    assert_eq!(
        value(&graph, "Service/s#web", None),
        json!({"path": "/ok", "port": 81})
    );
    assert_eq!(
        value(&graph, "Service/s#admin", None),
        json!({"path": "/adm"}),
        "no leak of port into admin"
    );
    check_status(
        &graph,
        &[
            ("HealthPolicy/a", "Accepted partial"),
            ("HealthPolicy/b", "Accepted full"),
        ],
    );
}

fn case_4() -> World {
    World::new()
        .chain()
        .policy(
            "K",
            "/class",
            1,
            &["C"],
            json!({"defaults": {"retries": 1, "timeout": "30s"}, "overrides": {"tls": "1.2"}}),
        )
        .policy(
            "K",
            "gw",
            1,
            &["G"],
            json!({"defaults": {"timeout": "20s"}}),
        )
        .policy(
            "K",
            "rt",
            1,
            &["R"],
            json!({"defaults": {"timeout": "5s", "tls": "1.0"}}),
        )
}

#[test]
fn case_4_three_levels_both_stanzas() {
    let graph = case_4().graph();
    assert_eq!(
        value(&graph, "Service/s", None),
        json!({"retries": 1, "timeout": "5s", "tls": "1.2"})
    );
    let all = results(&graph, "Service/s", None);
    let from: Vec<String> = all[0]
        .settings
        .iter()
        .filter(|setting| setting.won)
        .map(|setting| {
            format!(
                "{}: {} {}",
                setting.field, setting.policy.name, setting.stanza
            )
        })
        .collect();
    assert_eq!(
        from,
        [
            "retries: class defaults",
            "timeout: rt defaults",
            "tls: class overrides"
        ]
    );
    check_status(
        &graph,
        &[
            ("ClusterTimeoutPolicy/class", "Accepted partial"),
            ("TimeoutPolicy/gw", "Accepted overridden"),
            ("TimeoutPolicy/rt", "Accepted partial"),
        ],
    );
}

#[test]
fn case_5_same_level_age_decides_per_field() {
    let world = World::new()
        .chain()
        .policy(
            "K",
            "b-new",
            2,
            &["G"],
            json!({"defaults": {"timeout": "9s", "retries": 3}}),
        )
        .policy(
            "K",
            "a-old",
            1,
            &["G"],
            json!({"defaults": {"timeout": "4s"}}),
        );
    let graph = world.graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"timeout": "4s", "retries": 3})
    );
    check_status(
        &graph,
        &[
            ("TimeoutPolicy/a-old", "Accepted full"),
            ("TimeoutPolicy/b-new", "Accepted partial"),
        ],
    );

    let graph = world
        .config(json!({"kinds": [{"group": "acme.test", "kind": "TimeoutPolicy", "tieBreak": "Established", "strategy": "PatchDefaults"}]}))
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"timeout": "9s", "retries": 3})
    );
}

#[test]
fn case_6_same_level_same_second() {
    let graph = World::new()
        .chain()
        .policy("K", "zeta", 1, &["G"], json!({"overrides": {"limit": 5}}))
        .policy("K", "alpha", 1, &["G"], json!({"overrides": {"limit": 7}}))
        .graph();
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({"limit": 7}));
    check_status(
        &graph,
        &[
            ("TimeoutPolicy/alpha", "Accepted full"),
            ("TimeoutPolicy/zeta", "Accepted overridden"),
        ],
    );
}

#[test]
fn case_7_same_level_newer_override_against_older_default() {
    let graph = World::new()
        .chain()
        .policy("K", "old", 1, &["G"], json!({"defaults": {"limit": 10}}))
        .policy("K", "new", 2, &["G"], json!({"overrides": {"limit": 3}}))
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"limit": 3}),
        "stanza is compared before age"
    );
    check_status(
        &graph,
        &[
            ("TimeoutPolicy/old", "Accepted overridden"),
            ("TimeoutPolicy/new", "Accepted full"),
        ],
    );
}

#[test]
fn case_8_namespace_policy_gateway_and_route_in_the_same_namespace() {
    let graph = World::new()
        .chain()
        .policy(
            "K",
            "nsp",
            1,
            &["Namespace/infra"],
            json!({"defaults": {"retryOn": ["500"]}}),
        )
        .policy(
            "K",
            "gwp",
            1,
            &["G"],
            json!({"defaults": {"retryOn": ["503"]}}),
        )
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"retryOn": ["503"]}),
        "namespace counted once, above the gateway; lists never merged"
    );
    check_status(
        &graph,
        &[
            ("TimeoutPolicy/nsp", "Accepted overridden"),
            ("TimeoutPolicy/gwp", "Accepted full"),
        ],
    );
}

#[test]
fn case_9_namespace_policy_in_the_routes_own_namespace() {
    let graph = World::new()
        .class()
        .gateway("g", &["http"])
        .route("app/r", &["infra/g"], &[("-", &[])])
        .policy(
            "K",
            "app/nsr",
            1,
            &["Namespace/app"],
            json!({"defaults": {"retryOn": ["500"]}, "overrides": {"max": 2}}),
        )
        .policy(
            "K",
            "infra/gwp",
            1,
            &["G"],
            json!({"defaults": {"retryOn": ["503"]}, "overrides": {"max": 9}}),
        )
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/app/r", None),
        json!({"retryOn": ["500"], "max": 9})
    );
    let path: Vec<String> = results(&graph, "HTTPRoute/app/r", None)[0].contexts[0]
        .path
        .iter()
        .map(polity_attach::Step::short)
        .collect();
    assert_eq!(
        path,
        [
            "GatewayClass/c",
            "Namespace/infra",
            "Gateway/infra/g",
            "Gateway/infra/g#http",
            "Namespace/app",
            "HTTPRoute/app/r"
        ]
    );
    check_status(
        &graph,
        &[
            ("TimeoutPolicy/app/nsr", "Accepted partial"),
            ("TimeoutPolicy/infra/gwp", "Accepted partial"),
        ],
    );
}

#[test]
fn case_10_one_route_two_gateways() {
    let graph = World::new()
        .class()
        .gateway("g1", &["l1"])
        .gateway("g2", &["l2"])
        .route("r", &["g1", "g2"], &[("-", &["s"])])
        .service("s", &[])
        .policy(
            "K",
            "g1",
            1,
            &["G1"],
            json!({"defaults": {"timeout": "20s"}}),
        )
        .policy(
            "K",
            "g2",
            1,
            &["G2"],
            json!({"overrides": {"timeout": "2s"}}),
        )
        .policy("K", "rt", 1, &["R"], json!({"defaults": {"timeout": "5s"}}))
        .graph();
    assert_eq!(
        value(&graph, "Service/s", Some("Gateway/g1")),
        json!({"timeout": "5s"})
    );
    assert_eq!(
        value(&graph, "Service/s", Some("Gateway/g2")),
        json!({"timeout": "2s"})
    );
    check_status(
        &graph,
        &[
            ("TimeoutPolicy/g1", "Accepted overridden"),
            ("TimeoutPolicy/g2", "Accepted full"),
            ("TimeoutPolicy/rt", "Accepted partial"),
        ],
    );
    let status = graph.policy_status(&reference("TimeoutPolicy/rt")).unwrap();
    let ancestors: Vec<String> = status
        .ancestors
        .iter()
        .map(|ancestor| {
            format!(
                "{} {}",
                ancestor.ancestor_ref.kind, ancestor.ancestor_ref.name
            )
        })
        .collect();
    assert_eq!(ancestors, ["Gateway g1", "Gateway g2"], "one entry each");
}

#[test]
fn case_11_listener_section() {
    let graph = World::new()
        .class()
        .gateway("g", &["http", "https"])
        .route("r1", &["g"], &[("-", &[])])
        .policy(
            "K",
            "gw",
            1,
            &["G"],
            json!({"defaults": {"maxBody": "1m", "idle": "60s"}}),
        )
        .policy(
            "K",
            "lst",
            1,
            &["G#https"],
            json!({"defaults": {"maxBody": "10m"}}),
        )
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r1", Some("Gateway/g#http")),
        json!({"maxBody": "1m", "idle": "60s"})
    );
    assert_eq!(
        value(&graph, "HTTPRoute/r1", Some("Gateway/g#https")),
        json!({"maxBody": "10m", "idle": "60s"})
    );
    check_status(
        &graph,
        &[
            ("TimeoutPolicy/gw", "Accepted partial"),
            ("TimeoutPolicy/lst", "Accepted full"),
        ],
    );
    let status = graph
        .policy_status(&reference("TimeoutPolicy/lst"))
        .unwrap();
    assert_eq!(
        status.ancestors[0].ancestor_ref.section_name.as_deref(),
        Some("https")
    );
}

#[test]
fn case_12_rule_section_below_a_route() {
    let graph = World::new()
        .class()
        .gateway("g", &["http"])
        .route("r", &["g"], &[("-", &["s"]), ("admin", &["s"])])
        .service("s", &[])
        .policy("K", "gw", 1, &["G"], json!({"overrides": {"burst": 50}}))
        .policy("K", "rt", 1, &["R"], json!({"defaults": {"rate": 100}}))
        .policy(
            "K",
            "rule",
            1,
            &["R#admin"],
            json!({"defaults": {"rate": 5}}),
        )
        .graph();
    assert_eq!(
        value(&graph, "Service/s", Some("HTTPRoute/r#admin")),
        json!({"burst": 50, "rate": 5})
    );
    assert_eq!(
        value(&graph, "Service/s", Some("HTTPRoute/r#rule-1")),
        json!({"burst": 50, "rate": 100})
    );
    check_status(
        &graph,
        &[
            ("TimeoutPolicy/gw", "Accepted full"),
            ("TimeoutPolicy/rt", "Accepted partial"),
            ("TimeoutPolicy/rule", "Accepted full"),
        ],
    );
}

#[test]
fn case_13_one_service_behind_two_routes_of_one_gateway() {
    let graph = World::new()
        .class()
        .gateway("g", &["http"])
        .route("r1", &["g"], &[("-", &["s"])])
        .route("r2", &["g"], &[("-", &["s"])])
        .service("s", &[])
        .policy("K", "r1", 1, &["R1"], json!({"defaults": {"lb": "rr"}}))
        .policy("K", "r2", 1, &["R2"], json!({"overrides": {"lb": "hash"}}))
        .policy(
            "K",
            "svc",
            1,
            &["S"],
            json!({"defaults": {"keepalive": "30s"}}),
        )
        .graph();
    assert_eq!(
        value(&graph, "Service/s", Some("HTTPRoute/r1")),
        json!({"lb": "rr", "keepalive": "30s"})
    );
    assert_eq!(
        value(&graph, "Service/s", Some("HTTPRoute/r2")),
        json!({"lb": "hash", "keepalive": "30s"})
    );
    check_status(
        &graph,
        &[
            ("TimeoutPolicy/r1", "Accepted full"),
            ("TimeoutPolicy/r2", "Accepted full"),
            ("TimeoutPolicy/svc", "Accepted full"),
        ],
    );
    assert_eq!(affected_by(&graph, "Service/s"), ["r1", "r2", "svc"]);
}

#[test]
fn case_14_fully_overridden_below() {
    let graph = World::new()
        .chain()
        .policy(
            "K",
            "gw",
            1,
            &["G"],
            json!({"overrides": {"timeout": "20s"}}),
        )
        .policy("K", "rt", 1, &["R"], json!({"defaults": {"timeout": "5s"}}))
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"timeout": "20s"})
    );
    check_status(
        &graph,
        &[
            ("TimeoutPolicy/gw", "Accepted full"),
            ("TimeoutPolicy/rt", "Accepted overridden"),
        ],
    );
    let status = graph.policy_status(&reference("TimeoutPolicy/rt")).unwrap();
    let message = &status.ancestors[0].condition("Programmed").unwrap().message;
    assert!(message.contains("infra/gw"), "{message}");
    assert_eq!(
        affected_by(&graph, "HTTPRoute/r"),
        ["gw"],
        "rt contributes nothing, so it is not listed"
    );
}

#[test]
fn case_15_target_not_found() {
    let graph = World::new()
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
fn case_16_several_targets_one_wrong() {
    let graph = World::new()
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
fn case_17_invalid() {
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
        let graph = World::new().chain().with(object).graph();
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
fn case_18_cross_namespace() {
    let world = World::new().chain().policy(
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
    let absent = World::new()
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

#[test]
fn case_19_nested_objects() {
    let graph = World::new()
        .chain()
        .policy(
            "K",
            "gw",
            1,
            &["G"],
            json!({"defaults": {"cdn": {"cache": {"host": true, "proto": true, "query": true}}}, "overrides": {"cdn": {"enabled": true}}}),
        )
        .policy("K", "rt", 1, &["R"], json!({"defaults": {"cdn": {"enabled": false, "cache": {"query": false}}}}))
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"cdn": {"enabled": true, "cache": {"host": true, "proto": true, "query": false}}})
    );
    check_status(
        &graph,
        &[
            ("TimeoutPolicy/gw", "Accepted partial"),
            ("TimeoutPolicy/rt", "Accepted partial"),
        ],
    );
}

#[test]
fn case_20_non_scalars() {
    let above = json!({"tags": {"a": "9"}, "codes": ["c"], "hosts": [{"name": "x", "w": 5}]});
    let below = json!({"tags": {"a": "1", "b": "2"}, "codes": ["a", "b"], "hosts": [{"name": "x", "w": 1}, {"name": "y", "w": 2}]});
    let graph = World::new()
        .chain()
        .policy("K", "gw", 1, &["G"], json!({"overrides": above}))
        .policy("K", "rt", 1, &["R"], json!({"defaults": below}))
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"tags": {"a": "9"}, "codes": ["c"], "hosts": [{"name": "x", "w": 5}, {"name": "y", "w": 2}]})
    );
    let graph = World::new()
        .chain()
        .config(json!({"kinds": [{"group": "acme.test", "kind": "TimeoutPolicy", "strategy": "PatchOverrides"}]}))
        .policy("K", "gw", 1, &["G"], above)
        .policy("K", "rt", 1, &["R"], below)
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"tags": {"a": "9", "b": "2"}, "codes": ["c"], "hosts": [{"name": "x", "w": 5}]})
    );
}

/// Kinds whose policies choose their strategy in `spec.strategy`.
fn choosing() -> World {
    let choose = |kind: &str| json!({"group": "acme.test", "kind": kind, "strategyFields": ["spec.strategy"]});
    World::new().config(json!({"kinds": [choose("TimeoutPolicy"), choose("ClusterTimeoutPolicy")]}))
}

#[test]
fn case_21_mixed_strategies_three_levels() {
    let graph = choosing()
        .chain()
        .route("sibling", &["g"], &[("-", &[])])
        .policy(
            "K",
            "/c",
            1,
            &["C"],
            json!({"strategy": "PatchOverrides", "x": 1}),
        )
        .policy(
            "K",
            "g",
            1,
            &["G"],
            json!({"strategy": "AtomicDefaults", "y": 2}),
        )
        .policy(
            "K",
            "r",
            1,
            &["R"],
            json!({"strategy": "AtomicDefaults", "z": 3}),
        )
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"x": 1, "z": 3}),
        "the root override is not lost"
    );
    assert_eq!(
        value(&graph, "HTTPRoute/sibling", None),
        json!({"x": 1, "y": 2})
    );
}

#[test]
fn case_21b_atomic_and_patch_side_by_side() {
    let graph = choosing()
        .class()
        .gateway("g1", &["l"])
        .gateway("g2", &["l"])
        .route("r1", &["g1"], &[("-", &[])])
        .route("r2", &["g1"], &[("-", &[])])
        .route("r3", &["g2"], &[("-", &[])])
        .route("r4", &["g2"], &[("-", &[])])
        .policy(
            "K",
            "g1",
            1,
            &["G1"],
            json!({"strategy": "AtomicDefaults", "connect": "3s", "request": "10s"}),
        )
        .policy(
            "K",
            "r1",
            1,
            &["R1"],
            json!({"strategy": "AtomicDefaults", "request": "7s"}),
        )
        .policy(
            "K",
            "g2",
            1,
            &["G2"],
            json!({"strategy": "PatchOverrides", "request": "2s"}),
        )
        .policy(
            "K",
            "r4",
            1,
            &["R4"],
            json!({"strategy": "PatchDefaults", "connect": "9s", "request": "8s"}),
        )
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r1", None),
        json!({"request": "7s"})
    );
    assert_eq!(
        value(&graph, "HTTPRoute/r2", None),
        json!({"connect": "3s", "request": "10s"})
    );
    assert_eq!(
        value(&graph, "HTTPRoute/r3", None),
        json!({"request": "2s"})
    );
    assert_eq!(
        value(&graph, "HTTPRoute/r4", None),
        json!({"connect": "9s", "request": "2s"})
    );
    check_status(
        &graph,
        &[
            ("TimeoutPolicy/g1", "Accepted partial"),
            ("TimeoutPolicy/r1", "Accepted full"),
            ("TimeoutPolicy/g2", "Accepted full"),
            ("TimeoutPolicy/r4", "Accepted partial"),
        ],
    );
}

#[test]
fn case_22_direct_and_inherited_kinds_joined_in_one_merge_group() {
    let world = World::new()
        .chain()
        .policy("H", "a", 1, &["R"], json!({"timeout": "1s"}))
        .policy(
            "K",
            "gw",
            1,
            &["G"],
            json!({"overrides": {"timeout": "20s"}}),
        );
    let joined = |kind: &str| json!({"group": "acme.test", "kind": kind, "mergeGroup": "timeouts"});
    let graph = world
        .clone()
        .config(json!({"kinds": [joined("HealthPolicy"), joined("TimeoutPolicy")]}))
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"timeout": "1s"}),
        "B2"
    );
    let apart = results(&world.graph(), "HTTPRoute/r", None);
    let values: Vec<&Value> = apart.iter().map(|result| &result.values).collect();
    assert_eq!(
        values,
        [&json!({"timeout": "1s"}), &json!({"timeout": "20s"})],
        "otherwise the two kinds never meet"
    );
}

#[test]
fn case_23_bound_object_field() {
    let binding = json!([{"field": "timeout", "object": {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"},
                          "path": "spec.rules[].timeouts.request"}]);
    let world = World::new()
        .config(json!({"kinds": [{"group": "acme.test", "kind": "TimeoutPolicy", "bindings": binding}]}))
        .class()
        .gateway("g", &["http"]);
    let route = |timeout: Option<&str>| {
        let mut rule = json!({"backendRefs": []});
        if let Some(timeout) = timeout {
            rule["timeouts"] = json!({"request": timeout});
        }
        json!({"parentRefs": [{"name": "g"}], "rules": [rule]})
    };
    let cases = [
        (None, "defaults", "10s", "10s"),
        (None, "overrides", "2s", "2s"),
        (Some("7s"), "defaults", "10s", "7s"),
        (Some("7s"), "overrides", "2s", "2s"),
    ];
    for (own, stanza, set, expected) in cases {
        let mut spec = json!({});
        spec[stanza] = json!({"timeout": set});
        let graph = world
            .clone()
            .object("gateway.networking.k8s.io/v1", "HTTPRoute", "r", route(own))
            .policy("K", "gw", 1, &["G"], spec)
            .graph();
        assert_eq!(
            value(&graph, "HTTPRoute/r", None),
            json!({"timeout": expected}),
            "route {own:?}, {stanza} {set}"
        );
    }
}

#[test]
fn case_24_hostname_decides_the_path() {
    let listener = |name: &str, hostname: &str| json!({"name": name, "port": 80, "protocol": "HTTP", "hostname": hostname});
    let graph = World::new()
        .class()
        .object(
            "gateway.networking.k8s.io/v1",
            "Gateway",
            "g",
            json!({"gatewayClassName": "c", "listeners": [listener("a", "*.a.test"), listener("b", "b.test")]}),
        )
        .object(
            "gateway.networking.k8s.io/v1",
            "HTTPRoute",
            "r",
            json!({"parentRefs": [{"name": "g"}], "hostnames": ["x.a.test"], "rules": [{"backendRefs": []}]}),
        )
        .policy("K", "l", 1, &["G#b"], json!({"defaults": {"timeout": "5s"}}))
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({}),
        "R hangs under listener a only"
    );
    check_status(&graph, &[("TimeoutPolicy/l", "Accepted full")]);
}

#[test]
fn case_25_virtual_target() {
    let graph = World::new()
        .config(json!({"virtualKinds": [{"group": "acme.test", "kind": "ExternalService", "names": [{"name": "foo.test"}]}]}))
        .policy("K", "a", 1, &["ExternalService/foo.test"], json!({"defaults": {"retries": 5}}))
        .graph();
    let target = ObjectRef::new("acme.test", "ExternalService", None, "foo.test");
    assert_eq!(
        graph.effective(&target, None)[0].values,
        json!({"retries": 5})
    );
    check_status(&graph, &[("TimeoutPolicy/a", "Accepted full")]);
    let status = graph.policy_status(&reference("TimeoutPolicy/a")).unwrap();
    assert_eq!(
        status.ancestors[0].ancestor_ref.kind, "ExternalService",
        "the ancestor is the target"
    );
}

#[test]
fn case_26_namespace_wide_delete_the_parable() {
    let mut world = World::new().namespace("baker").policy(
        "K",
        "baker/all",
        1,
        &["Namespace/baker"],
        json!({"defaults": {"retries": 3}}),
    );
    for index in 0..40 {
        world = world.service(&format!("baker/s{index}"), &[]);
    }
    let graph = world.graph();
    let policy = reference("TimeoutPolicy/baker/all");
    let affects = graph.affects(&policy);
    assert_eq!(affects.total, 40);
    assert_eq!(
        serde_json::to_value(&affects.by_kind).unwrap(),
        json!({"Service": 40})
    );
    assert_eq!(affects.full, 40);
    assert_eq!(graph.affected(&policy).len(), 40);
    check_status(&graph, &[("TimeoutPolicy/baker/all", "Accepted full")]);
}

/// A labelled kind in the group of Gateway API and one in any other behave the same (A4): kinds are data.
#[test]
fn case_4_holds_whatever_the_group() {
    let mut kind = crd("TimeoutPolicy", "Namespaced", "inherited", &body());
    kind["spec"]["group"] = json!("gateway.networking.k8s.io");
    kind["metadata"]["name"] = json!("timeoutpolicys.gateway.networking.k8s.io");
    let mut gw = policy(
        "K",
        "gw",
        1,
        &["G"],
        json!({"overrides": {"timeout": "20s"}}),
    );
    gw["apiVersion"] = json!("gateway.networking.k8s.io/v1");
    let graph = World::default().with(kind).chain().with(gw).graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"timeout": "20s"})
    );
}
