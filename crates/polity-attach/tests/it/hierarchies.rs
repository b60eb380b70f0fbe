//! Hierarchies (docs/spec/attachment.md#3): listeners, ListenerSets, mesh, references across namespaces, and hierarchies that are data.

use polity_attach::ObjectRef;
use serde_json::{Value, json};

use crate::world::{Fixture, affected_by, policy, reference, results, status, value};

const GATEWAY: &str = "gateway.networking.k8s.io/v1";

fn listener_set(parent: &str, namespace: &str) -> Value {
    json!({"apiVersion": GATEWAY, "kind": "ListenerSet", "metadata": {"name": "set", "namespace": namespace},
           "spec": {"parentRef": {"name": parent, "namespace": "infra"},
                    "listeners": [{"name": "http", "port": 90, "protocol": "HTTP",
                                   "allowedRoutes": {"namespaces": {"from": "All"}}}]}})
}

#[test]
fn listeners_of_a_set_are_siblings_of_those_of_its_gateway() {
    let mut world = Fixture::new()
        .class()
        .gateway("g", &["http"])
        .with(listener_set("g", "infra"))
        .object(
            GATEWAY,
            "HTTPRoute",
            "r",
            json!({"parentRefs": [{"name": "set", "kind": "ListenerSet"}], "rules": []}),
        )
        .route("own", &["g"], &[])
        .policy("K", "gw", 1, &["G"], json!({"defaults": {"retries": 1}}))
        .policy(
            "K",
            "section",
            1,
            &["G#http"],
            json!({"defaults": {"limit": 1}}),
        )
        .policy(
            "K",
            "set",
            1,
            &["ListenerSet/set"],
            json!({"defaults": {"max": 1}}),
        );
    assert_eq!(
        value(&world.graph(), "HTTPRoute/r", None),
        json!({"max": 1}),
        "allowedListeners is None by default"
    );
    world.objects[4]["spec"]["allowedListeners"] = json!({"namespaces": {"from": "Same"}});
    let graph = world.graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"max": 1, "retries": 1})
    );
    assert_eq!(
        value(&graph, "HTTPRoute/own", None),
        json!({"retries": 1, "limit": 1})
    );
    let status = graph
        .policy_status(&reference("TimeoutPolicy/set"))
        .unwrap();
    assert_eq!(
        status.ancestors[0].ancestor_ref.kind, "Gateway",
        "the Gateway above the set"
    );
}

#[test]
fn a_listener_set_of_another_namespace_needs_permission() {
    let cases = [
        (json!({"from": "Same"}), false),
        (json!({"from": "All"}), true),
        (
            json!({"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}),
            true,
        ),
        (
            json!({"from": "Selector", "selector": {"matchLabels": {"team": "b"}}}),
            false,
        ),
        (json!({"from": "Selector"}), false),
        (
            json!({"from": "Selector", "selector": {"matchExpressions": [{"key": "x", "operator": "Nonsense"}]}}),
            false,
        ),
        (json!({"from": "None"}), false),
    ];
    for (namespaces, expected) in cases {
        let mut world = Fixture::new()
            .class()
            .gateway("g", &["http"])
            .with(listener_set("g", "app"))
            .with(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app", "labels": {"team": "a"}}}))
            .policy("K", "gw", 1, &["G"], json!({"defaults": {"retries": 1}}));
        world.objects[4]["spec"]["allowedListeners"] = json!({"namespaces": namespaces});
        let reached = affected_by(&world.graph(), "ListenerSet/app/set") == ["gw"];
        assert_eq!(reached, expected, "{namespaces}");
    }
}

#[test]
fn routes_of_other_namespaces_attach_by_label_and_follow_it() {
    let listener = json!({"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {
        "from": "Selector", "selector": {"matchLabels": {"kubernetes.io/metadata.name": "app"}}}}});
    let mut graph = Fixture::new()
        .class()
        .object(
            GATEWAY,
            "Gateway",
            "g",
            json!({"gatewayClassName": "c", "listeners": [listener]}),
        )
        .route("app/r", &["infra/g"], &[])
        .policy("K", "gw", 1, &["G"], json!({"defaults": {"retries": 1}}))
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/app/r", None),
        json!({"retries": 1}),
        "a namespace has its name as a label"
    );
    let mut listener = listener;
    listener["allowedRoutes"]["namespaces"]["selector"] = json!({"matchLabels": {"team": "a"}});
    graph.apply(
        Fixture::default()
            .object(
                GATEWAY,
                "Gateway",
                "g",
                json!({"gatewayClassName": "c", "listeners": [listener]}),
            )
            .objects
            .remove(0),
    );
    assert_eq!(value(&graph, "HTTPRoute/app/r", None), json!({}));
    graph.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app", "labels": {"team": "a"}}}));
    assert_eq!(
        value(&graph, "HTTPRoute/app/r", None),
        json!({"retries": 1})
    );
}

#[test]
fn every_route_kind_hangs_under_its_listener() {
    for (kind, protocol) in [
        ("HTTPRoute", "HTTP"),
        ("GRPCRoute", "HTTPS"),
        ("TLSRoute", "TLS"),
        ("TCPRoute", "TCP"),
        ("UDPRoute", "UDP"),
    ] {
        let graph = Fixture::new()
            .class()
            .object(GATEWAY, "Gateway", "g", json!({"gatewayClassName": "c", "listeners": [{"name": "l", "port": 1, "protocol": protocol}]}))
            .object(GATEWAY, kind, "r", json!({"parentRefs": [{"name": "g"}], "rules": [{"name": "x", "backendRefs": [{"name": "s", "port": 80}]}]}))
            .service("s", &[])
            .policy("K", "gw", 1, &["G"], json!({"defaults": {"retries": 1}}))
            .policy("K", "rule", 1, &[&format!("{kind}/r#x")], json!({"defaults": {"limit": 1}}))
            .graph();
        assert_eq!(
            value(&graph, "Service/s", None),
            json!({"retries": 1, "limit": 1}),
            "{kind}"
        );
    }
}

#[test]
fn a_backend_reference_without_grant_makes_no_edge() {
    let grant = json!({"apiVersion": GATEWAY, "kind": "ReferenceGrant", "metadata": {"name": "x", "namespace": "app"},
        "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "infra"}],
                 "to": [{"group": "", "kind": "Service", "name": "s"}]}});
    let mut graph = Fixture::new()
        .class()
        .gateway("g", &["http"])
        .route("r", &["g"], &[("-", &["app/s"])])
        .service("app/s", &[])
        .policy("K", "gw", 1, &["G"], json!({"defaults": {"retries": 1}}))
        .graph();
    assert_eq!(value(&graph, "Service/app/s", None), json!({}));
    graph.apply(grant);
    assert_eq!(value(&graph, "Service/app/s", None), json!({"retries": 1}));
    graph.delete(&ObjectRef::new(
        "gateway.networking.k8s.io",
        "ReferenceGrant",
        Some("app"),
        "x",
    ));
    assert_eq!(
        value(&graph, "Service/app/s", None),
        json!({}),
        "revoking a grant removes the edge at once"
    );
}

#[test]
fn mesh_routes_hang_under_their_frontend() {
    let parent = |section: Option<&str>| {
        let mut parent =
            json!({"group": "", "kind": "Service", "name": "front", "namespace": "infra"});
        if let Some(section) = section {
            parent["sectionName"] = json!(section);
        }
        parent
    };
    let graph = Fixture::new()
        .service("front", &["web", "admin"])
        .service("app/back", &[])
        // A consumer route: another namespace than the Service, no grant needed.
        .object(GATEWAY, "HTTPRoute", "app/r", json!({"parentRefs": [parent(None)], "rules": [{"backendRefs": [{"name": "back", "port": 80}]}]}))
        .object(GATEWAY, "HTTPRoute", "app/web", json!({"parentRefs": [parent(Some("web"))], "rules": []}))
        .object(GATEWAY, "HTTPRoute", "app/none", json!({"parentRefs": [parent(Some("nope"))], "rules": []}))
        .policy("K", "front", 1, &["Service/front"], json!({"defaults": {"retries": 1}}))
        .policy("K", "port", 1, &["Service/front#web"], json!({"defaults": {"limit": 1}}))
        .graph();
    assert_eq!(
        value(&graph, "Service/app/back", None),
        json!({"retries": 1})
    );
    assert_eq!(
        value(&graph, "HTTPRoute/app/web", None),
        json!({"retries": 1, "limit": 1})
    );
    assert_eq!(value(&graph, "HTTPRoute/app/none", None), json!({}));
    let status = graph
        .policy_status(&reference("TimeoutPolicy/front"))
        .unwrap();
    assert_eq!(
        status.ancestors[0].ancestor_ref.name, "front",
        "no Gateway above: the target itself"
    );
}

fn workloads() -> Fixture {
    Fixture::new().config(json!({
        "kinds": [{"group": "acme.test", "kind": "TimeoutPolicy", "hierarchy": "workloads"},
                  {"group": "acme.test", "kind": "ClusterTimeoutPolicy", "hierarchy": "workloads"}],
        "hierarchies": [{
            "name": "workloads",
            "levels": [{"group": "acme.test", "kind": "Cluster"}, {"kind": "Namespace"}, {"group": "apps", "kind": "Deployment"},
                       {"group": "apps", "kind": "ReplicaSet"}, {"kind": "Pod"}],
            "edges": [
                {"child": {"kind": "Namespace"}, "parent": {"group": "acme.test", "kind": "Cluster"}},
                {"child": {"kind": "Pod"}, "path": "metadata.ownerReferences", "parent": {"group": "apps", "kind": "ReplicaSet"}},
                {"child": {"group": "apps", "kind": "ReplicaSet"}, "path": "metadata.ownerReferences", "parent": {"group": "apps", "kind": "Deployment"}},
            ]}],
        "virtualKinds": [{"group": "acme.test", "kind": "Cluster", "names": [{"name": "here"}]}],
    }))
}

fn owned(api_version: &str, kind: &str, name: &str, owner: Option<(&str, &str, &str)>) -> Value {
    let mut object = Fixture::default()
        .object(api_version, kind, name, json!({}))
        .objects
        .remove(0);
    if let Some((api_version, kind, name)) = owner {
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": api_version, "kind": kind, "name": name}]);
    }
    object
}

#[test]
fn cluster_namespace_workload_and_owner_references() {
    let cluster = json!({"targetRef": {"group": "acme.test", "kind": "Cluster", "name": "here"}, "defaults": {"retries": 1, "max": 9}});
    let graph = workloads()
        .with(owned("apps/v1", "Deployment", "d", None))
        .with(owned(
            "apps/v1",
            "ReplicaSet",
            "rs",
            Some(("apps/v1", "Deployment", "d")),
        ))
        .with(owned(
            "v1",
            "Pod",
            "p",
            Some(("apps/v1", "ReplicaSet", "rs")),
        ))
        .policy("K", "/c", 1, &[], cluster)
        .policy(
            "K",
            "ns",
            1,
            &["Namespace/infra"],
            json!({"defaults": {"limit": 1, "max": 5}}),
        )
        .policy(
            "K",
            "dep",
            1,
            &["Deployment/d"],
            json!({"overrides": {"rate": 1}}),
        )
        .graph();
    assert_eq!(
        value(&graph, "Pod/p", None),
        json!({"retries": 1, "limit": 1, "max": 5, "rate": 1})
    );
    let path: Vec<String> = results(&graph, "Pod/p", None)[0].contexts[0]
        .path
        .iter()
        .map(polity_attach::Step::short)
        .collect();
    assert_eq!(
        path,
        [
            "Cluster/here",
            "Namespace/infra",
            "Deployment/infra/d",
            "ReplicaSet/infra/rs",
            "Pod/infra/p"
        ]
    );
}

#[test]
fn a_cycle_of_objects_drops_its_edges_whatever_the_order() {
    let objects = [
        owned("apps/v1", "Deployment", "top", None),
        owned(
            "apps/v1",
            "ReplicaSet",
            "a",
            Some(("apps/v1", "ReplicaSet", "b")),
        ),
        owned(
            "apps/v1",
            "ReplicaSet",
            "b",
            Some(("apps/v1", "ReplicaSet", "a")),
        ),
        owned("v1", "Pod", "below", Some(("apps/v1", "ReplicaSet", "a"))),
        owned("v1", "Pod", "self", Some(("v1", "Pod", "self"))),
    ];
    let world = Fixture::new()
        .config(json!({"kinds": [{"group": "acme.test", "kind": "TimeoutPolicy", "hierarchy": "owners"}]}))
        .policy("K", "on-a", 1, &["ReplicaSet/a"], json!({"defaults": {"retries": 1}}))
        .policy("K", "on-b", 1, &["ReplicaSet/b"], json!({"defaults": {"limit": 1}}));
    for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]] {
        let mut graph = world.graph();
        for index in order {
            graph.apply(objects[index].clone());
        }
        assert_eq!(
            value(&graph, "Pod/below", None),
            json!({"retries": 1}),
            "edges from outside the circle stay"
        );
        assert_eq!(value(&graph, "ReplicaSet/b", None), json!({"limit": 1}));
        let circles: Vec<usize> = graph
            .findings()
            .iter()
            .filter(|finding| finding.code == "ObjectCycle")
            .map(|finding| finding.refs.len())
            .collect();
        assert_eq!(circles, [1, 2], "findings name the members");
        // The circle opens: what was left out comes back.
        graph.apply(owned(
            "apps/v1",
            "ReplicaSet",
            "a",
            Some(("apps/v1", "Deployment", "top")),
        ));
        assert_eq!(
            value(&graph, "ReplicaSet/b", None),
            json!({"limit": 1, "retries": 1})
        );
    }
}

#[test]
fn a_hierarchy_with_a_cycle_of_kinds_is_refused() {
    let edge = |child: &str, parent: &str| json!({"child": {"kind": child}, "path": "spec.up", "parent": {"kind": parent}});
    let graph = Fixture::new()
        .config(json!({"hierarchies": [{"name": "x", "levels": [{"kind": "A"}], "edges": [edge("A", "B"), edge("B", "A")]}],
                       "kinds": [{"group": "acme.test", "kind": "TimeoutPolicy", "hierarchy": "x"}]}))
        .graph();
    let codes: Vec<&str> = graph
        .findings()
        .iter()
        .map(|finding| finding.code)
        .collect();
    assert!(
        codes.contains(&"HierarchyCycle") && codes.contains(&"HierarchyUnknown"),
        "{codes:?}"
    );
}

#[test]
fn namespace_over_any_kind_publishes_on_the_namespace_and_explains_the_object() {
    let graph = Fixture::new()
        .config(json!({"kinds": [{"group": "acme.test", "kind": "TimeoutPolicy", "hierarchy": "namespace"}]}))
        .with(owned("v1", "ConfigMap", "cm", None))
        .policy("K", "ns", 1, &["Namespace/infra"], json!({"defaults": {"retries": 1}}))
        .graph();
    assert_eq!(
        value(&graph, "ConfigMap/cm", None),
        json!({"retries": 1}),
        "computed for the object asked about"
    );
    assert_eq!(
        graph.effective_policy(Some("infra"), "cm"),
        None,
        "nothing is published for each object"
    );
    assert!(graph.effective_policy(None, "infra").is_some());
}

#[test]
fn policy_kinds_reports_events_and_leases_are_never_targets() {
    for target in [
        "TimeoutPolicy/other",
        "Event/x",
        "PolicyReport.wgpolicyk8s.io/x",
        "Lease.coordination.k8s.io/x",
        "EffectivePolicy.polity.dev/x",
    ] {
        let mut object = policy("K", "p", 1, &[target], json!({"defaults": {"retries": 1}}));
        if target.starts_with("Event") {
            object["spec"]["targetRef"]["group"] = json!("");
        }
        let graph = Fixture::new().with(object).graph();
        assert_eq!(status(&graph, "TimeoutPolicy/p"), "Invalid", "{target}");
    }
}
