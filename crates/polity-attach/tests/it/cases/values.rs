//! Cases 19 to 26: what one field is, strategies, joined kinds, bound fields.

use polity_attach::ObjectRef;
use serde_json::{Value, json};

use crate::world::{Fixture, check_status, reference, results, value};

#[test]
fn nested_objects_merge_field_by_field() {
    let graph = Fixture::new()
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
fn lists_and_maps_are_replaced_as_a_whole() {
    let above = json!({"tags": {"a": "9"}, "codes": ["c"], "hosts": [{"name": "x", "w": 5}]});
    let below = json!({"tags": {"a": "1", "b": "2"}, "codes": ["a", "b"], "hosts": [{"name": "x", "w": 1}, {"name": "y", "w": 2}]});
    let graph = Fixture::new()
        .chain()
        .policy("K", "gw", 1, &["G"], json!({"overrides": above}))
        .policy("K", "rt", 1, &["R"], json!({"defaults": below}))
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"tags": {"a": "9"}, "codes": ["c"], "hosts": [{"name": "x", "w": 5}, {"name": "y", "w": 2}]})
    );
    let graph = Fixture::new()
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
fn choosing() -> Fixture {
    let choose = |kind: &str| json!({"group": "acme.test", "kind": kind, "strategyFields": ["spec.strategy"]});
    Fixture::new()
        .config(json!({"kinds": [choose("TimeoutPolicy"), choose("ClusterTimeoutPolicy")]}))
}

#[test]
fn strategies_can_differ_on_three_levels() {
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
fn atomic_and_patch_kinds_work_side_by_side() {
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
fn direct_and_inherited_kinds_can_share_a_merge_group() {
    let world = Fixture::new()
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
        "direct policies take precedence over inherited ones"
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
fn a_field_of_a_bound_object_takes_part() {
    let binding = json!([{"field": "timeout", "object": {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"},
                          "path": "spec.rules[].timeouts.request"}]);
    let world = Fixture::new()
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
fn the_hostname_decides_the_path() {
    let listener = |name: &str, hostname: &str| json!({"name": name, "port": 80, "protocol": "HTTP", "hostname": hostname});
    let graph = Fixture::new()
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
fn a_virtual_target_takes_policies() {
    let graph = Fixture::new()
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
fn deleting_a_namespace_wide_policy_changes_all_its_routes() {
    let mut world = Fixture::new().namespace("baker").policy(
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
