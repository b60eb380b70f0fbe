//! Mistakes that are easy to make, one test each: docs/spec/attachment.md#11. Some are also tested beside their subject.

use polity_attach::Graph;
use serde_json::json;

use crate::world::{Fixture, check_status, policy, reference, results, status, value};

#[test]
fn spellings_of_labels_stanzas_and_groups_are_accepted() {
    // Labels and stanzas: kinds::a9 and kinds::a14. A group that is "" and one that is unset mean the core group in a
    // target, but an unset group in a parentRef means Gateway API.
    let graph = Fixture::new()
        .chain()
        .object(
            "gateway.networking.k8s.io/v1",
            "HTTPRoute",
            "r2",
            json!({"parentRefs": [{"name": "g", "group": "", "kind": "Gateway"}], "rules": []}),
        )
        .policy("K", "gw", 1, &["G"], json!({"defaults": {"retries": 1}}))
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r2", None),
        json!({}),
        "Gateway of the core group is no Gateway"
    );
}

#[test]
fn ties_of_one_second_are_decided_by_the_joined_name() {
    // `a-b/c` sorts before `a/z`, because `-` comes before `/`.
    let with_targets = |namespace: &str, name: &str, limit: i64| {
        let mut policy = policy(
            "K",
            &format!("{namespace}/{name}"),
            1,
            &["Gateway/infra/g"],
            json!({"overrides": {"limit": limit}}),
        );
        policy["metadata"]["uid"] = json!(name);
        policy
    };
    let grant = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
        "metadata": {"name": "g", "namespace": "infra"},
        "spec": {"from": [{"group": "acme.test", "kind": "TimeoutPolicy", "namespace": "a"},
                          {"group": "acme.test", "kind": "TimeoutPolicy", "namespace": "a-b"}],
                 "to": [{"group": "gateway.networking.k8s.io", "kind": "Gateway"}]}});
    let graph = Fixture::new()
        .chain()
        .with(grant)
        .with(with_targets("a", "z", 1))
        .with(with_targets("a-b", "c", 2))
        .graph();
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({"limit": 2}));
}

#[test]
fn the_older_one_wins_at_one_level_overrides_and_defaults_alike() {
    for stanza in ["overrides", "defaults"] {
        let spec = |limit: i64| {
            let mut spec = json!({});
            spec[stanza] = json!({"limit": limit});
            spec
        };
        let graph = Fixture::new()
            .chain()
            .policy("K", "a-new", 2, &["G"], spec(1))
            .policy("K", "z-old", 1, &["G"], spec(2))
            .graph();
        assert_eq!(
            value(&graph, "HTTPRoute/r", None),
            json!({"limit": 2}),
            "{stanza}"
        );
    }
}

#[test]
fn a_section_owns_everything_for_direct_kinds_and_merges_for_inherited_ones() {
    let world = |kind: &str| {
        Fixture::new()
            .service("s", &["web", "admin"])
            .policy(
                kind,
                "a",
                1,
                &["Service/s"],
                json!({"path": "/ok", "port": 81}),
            )
            .policy(kind, "b", 2, &["Service/s#admin"], json!({"path": "/adm"}))
            .graph()
    };
    assert_eq!(
        value(&world("H"), "Service/s#admin", None),
        json!({"path": "/adm"})
    );
    assert_eq!(
        value(&world("K"), "Service/s#admin", None),
        json!({"path": "/adm", "port": 81})
    );
}

#[test]
fn renaming_a_rule_detaches_its_policies() {
    let world = Fixture::new().class().gateway("g", &["http"]).policy(
        "K",
        "p",
        1,
        &["R#admin"],
        json!({"defaults": {"rate": 5}}),
    );
    let mut graph = world.clone().route("r", &["g"], &[("admin", &[])]).graph();
    check_status(&graph, &[("TimeoutPolicy/p", "Accepted full")]);
    graph.apply(
        Fixture::default()
            .route("r", &["g"], &[("boss", &[])])
            .objects
            .remove(0),
    );
    check_status(&graph, &[("TimeoutPolicy/p", "TargetNotFound")]);
    graph.apply(
        Fixture::default()
            .route("r", &["g"], &[("-", &[])])
            .objects
            .remove(0),
    );
    check_status(&graph, &[("TimeoutPolicy/p", "TargetNotFound")]);
    let mut positional = policy("K", "p", 1, &["R#rule-1"], json!({"defaults": {"rate": 5}}));
    positional["metadata"]["generation"] = json!(2);
    graph.apply(positional);
    assert_eq!(
        status(&graph, "TimeoutPolicy/p"),
        "TargetNotFound",
        "a place is no name"
    );
}

#[test]
fn every_policy_of_a_managed_kind_has_a_status() {
    for targets in [&["G"][..], &["Gateway/nope"], &["Widget.acme.test/x"], &[]] {
        let graph = Fixture::new()
            .chain()
            .policy("K", "p", 1, targets, json!({"defaults": {"rate": 5}}))
            .graph();
        assert!(
            !graph
                .policy_status(&reference("TimeoutPolicy/p"))
                .unwrap()
                .ancestors
                .is_empty(),
            "{targets:?}"
        );
    }
}

#[test]
fn a_service_that_is_parent_and_backend_makes_no_loop() {
    let graph = Fixture::new()
        .service("s", &[])
        .object(
            "gateway.networking.k8s.io/v1",
            "HTTPRoute",
            "r",
            json!({"parentRefs": [{"group": "", "kind": "Service", "name": "s"}],
                       "rules": [{"backendRefs": [{"name": "s", "port": 80}]}]}),
        )
        .policy("K", "p", 1, &["S"], json!({"defaults": {"rate": 5}}))
        .policy("K", "rt", 1, &["R"], json!({"defaults": {"rate": 7}}))
        .graph();
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({"rate": 7}));
    let all = results(&graph, "Service/s", Some("HTTPRoute/r"));
    assert_eq!(
        all[0].values,
        json!({"rate": 7}),
        "the Service counts once, at its highest place"
    );
}

#[test]
fn without_creation_time_all_tie_and_a_new_one_is_newest() {
    let bare = |name: &str, limit: i64| {
        let mut policy = policy("K", name, 1, &["G"], json!({"defaults": {"limit": limit}}));
        policy["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("creationTimestamp");
        policy
    };
    let graph = Fixture::new()
        .chain()
        .with(bare("b", 1))
        .with(bare("a", 2))
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"limit": 2}),
        "files fall to the name"
    );
    let graph = Fixture::new()
        .chain()
        .with(bare("a", 1))
        .policy("K", "z", 59, &["G"], json!({"defaults": {"limit": 3}}))
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"limit": 3}),
        "what exists is older than what does not"
    );
}

#[test]
fn a_kind_reaches_classes_by_its_cluster_scoped_twin() {
    let graph = Fixture::new()
        .chain()
        .policy("K", "/c", 1, &["C"], json!({"defaults": {"retries": 1}}))
        .policy("K", "ns", 1, &["C"], json!({"defaults": {"retries": 2}}))
        .graph();
    check_status(
        &graph,
        &[
            ("ClusterTimeoutPolicy/c", "Accepted full"),
            ("TimeoutPolicy/ns", "Invalid"),
        ],
    );
    let resultant = &results(&graph, "HTTPRoute/r", None)[0];
    assert_eq!(
        resultant.kind, "TimeoutPolicy",
        "rendered as the namespaced kind of the group"
    );
}

#[test]
fn equal_values_are_no_conflict() {
    let graph: Graph = Fixture::new()
        .chain()
        .service("t", &[])
        .policy("K", "gw", 1, &["G"], json!({"defaults": {"timeout": "5s"}}))
        .policy("K", "rt", 1, &["R"], json!({"defaults": {"timeout": "5s"}}))
        .policy("H", "a", 1, &["Service/t"], json!({"path": "/ok"}))
        .policy(
            "H",
            "b",
            2,
            &["Service/t"],
            json!({"path": "/ok", "port": 81}),
        )
        .graph();
    check_status(
        &graph,
        &[
            ("TimeoutPolicy/gw", "Accepted full"),
            ("TimeoutPolicy/rt", "Accepted full"),
            ("HealthPolicy/a", "Accepted full"),
            ("HealthPolicy/b", "Accepted full"),
        ],
    );
}

#[test]
fn of_equal_age_foo_bar_takes_precedence_over_foo_baz() {
    let graph = Fixture::new()
        .chain()
        .policy("K", "baz", 1, &["G"], json!({"overrides": {"limit": 1}}))
        .policy("K", "bar", 1, &["G"], json!({"overrides": {"limit": 2}}))
        .graph();
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({"limit": 2}));
}
