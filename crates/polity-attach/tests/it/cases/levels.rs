//! Cases 1 to 14: direct kinds, levels of the hierarchy, age, sections.

use serde_json::json;

use crate::world::{
    Fixture, affected_by, body, check_status, crd, policy, reference, results, value,
};

#[test]
fn a_single_direct_policy_is_effective() {
    let graph = Fixture::new()
        .service("s", &[])
        .policy("H", "a", 1, &["Service/s"], json!({"path": "/ok"}))
        .graph();
    assert_eq!(value(&graph, "Service/s", None), json!({"path": "/ok"}));
    check_status(&graph, &[("HealthPolicy/a", "Accepted full")]);
}

#[test]
fn direct_policies_that_set_one_field_conflict() {
    let graph = Fixture::new()
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
fn direct_policies_with_disjoint_fields_are_merged_unless_the_strategy_is_none() {
    let world = Fixture::new()
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
fn a_direct_policy_on_a_section_replaces_that_of_the_whole() {
    let graph = Fixture::new()
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

fn three_levels() -> Fixture {
    Fixture::new()
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
fn defaults_and_overrides_merge_over_three_levels() {
    let graph = three_levels().graph();
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
fn at_one_level_the_older_policy_wins_per_field() {
    let world = Fixture::new()
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
fn at_one_level_and_second_the_name_decides() {
    let graph = Fixture::new()
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
fn a_newer_override_wins_over_an_older_default() {
    let graph = Fixture::new()
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
fn a_namespace_policy_covers_gateway_and_route_in_its_namespace() {
    let graph = Fixture::new()
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
fn a_namespace_policy_covers_the_routes_of_its_namespace() {
    let graph = Fixture::new()
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
fn a_route_with_two_gateways_has_a_result_for_each() {
    let graph = Fixture::new()
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
fn a_policy_can_target_a_listener() {
    let graph = Fixture::new()
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
fn a_policy_can_target_a_rule_of_a_route() {
    let graph = Fixture::new()
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
fn a_service_behind_two_routes_has_a_result_for_each() {
    let graph = Fixture::new()
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
fn a_policy_that_is_overridden_everywhere_says_so() {
    let graph = Fixture::new()
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

/// A labelled kind behaves the same in the group of Gateway API and in any other group.
#[test]
fn the_group_of_a_kind_makes_no_difference() {
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
    let graph = Fixture::default().with(kind).chain().with(gw).graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"timeout": "20s"})
    );
}
