//! Whatever happened before: after every event the graph is the one that its objects alone would give.

use std::collections::BTreeMap;

use polity_attach::{Graph, ObjectRef};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{Fixture, body, crd, policy};

/// Everything the graph can be asked, as one text.
fn answers(graph: &Graph) -> String {
    let mut out = String::new();
    let mut say = |what: &str, value: Value| out.push_str(&format!("{what}: {value}\n"));
    let mut objects: Vec<ObjectRef> = graph
        .objects()
        .into_iter()
        .map(|(object, _)| object.clone())
        .collect();
    for namespace in ["infra", "app"] {
        objects.push(ObjectRef::new("", "Namespace", None, namespace));
    }
    let now = jiff::Timestamp::UNIX_EPOCH;
    for object in &objects {
        say(
            &format!("effective {object}"),
            json!(graph.effective(object, None)),
        );
        say(
            &format!("affected by {object}"),
            json!(graph.affected_by(object)),
        );
        say(
            &format!("explain {object}"),
            json!(graph.explain(object, None, now)),
        );
        say(
            &format!("mark {object}"),
            json!(format!("{:?}", graph.mark(object))),
        );
        say(
            &format!("published {object}"),
            json!(graph.effective_policy(object.namespace.as_deref(), &object.name)),
        );
    }
    for policy in graph.policies() {
        say(
            &format!("status {policy}"),
            json!(format!("{:?}", graph.policy_status(policy))),
        );
        say(
            &format!("attachment {policy}"),
            json!(graph.attachment_status(policy)),
        );
        say(&format!("affected {policy}"), json!(graph.affected(policy)));
    }
    say("issues", json!(graph.issues()));
    say("topology", json!(graph.topology(None, None)));
    out
}

/// Object number `which` of a small universe, in one of its forms.
fn object(which: u8, form: u8) -> Value {
    let gateway = "gateway.networking.k8s.io/v1";
    let one = |world: Fixture| world.objects.into_iter().next().unwrap();
    match which {
        0 => crd("TimeoutPolicy", "Namespaced", ["Inherited", "direct", "nonsense"][usize::from(form % 3)], &body()),
        1 => crd("HealthPolicy", "Namespaced", "Direct", &body()),
        2 => one(Fixture::default().config(match form % 5 {
            0 => json!({}),
            1 => json!({"kinds": [{"group": "acme.test", "kind": "TimeoutPolicy", "strategyFields": ["spec.strategy"]}]}),
            2 => json!({"kinds": [{"group": "acme.test", "kind": "TimeoutPolicy", "mergeGroup": "m"},
                                  {"group": "acme.test", "kind": "HealthPolicy", "mergeGroup": "m"}]}),
            3 => json!({"kinds": [{"group": "acme.test", "kind": "TimeoutPolicy", "hierarchy": "owners"}]}),
            _ => json!({"kinds": [{"group": "acme.test", "kind": "TimeoutPolicy",
                        "effectiveKind": {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}}],
                        "virtualKinds": [{"group": "acme.test", "kind": "ExternalService", "names": [{"name": "foo.test"}]}]}),
        })),
        3 => one(Fixture::default().class()),
        4 => json!({"apiVersion": "v1", "kind": "Namespace",
                    "metadata": {"name": "app", "labels": {"gateway": if form.is_multiple_of(2) { "yes" } else { "no" }}}}),
        5 | 6 => {
            let from = match form % 3 {
                0 => json!({"from": "All"}),
                1 => json!({"from": "Same"}),
                _ => json!({"from": "Selector", "selector": {"matchLabels": {"gateway": "yes"}}}),
            };
            let names: &[&str] = if form % 4 < 2 { &["http", "https"] } else { &["http"] };
            let listeners: Vec<Value> = names
                .iter()
                .map(|name| json!({"name": name, "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": from}}))
                .collect();
            one(Fixture::default().object(gateway, "Gateway", &format!("g{}", which - 4),
                json!({"gatewayClassName": "c", "listeners": listeners, "allowedListeners": {"namespaces": {"from": "Same"}}})))
        }
        7 => one(Fixture::default().object(gateway, "ListenerSet", "set",
            json!({"parentRef": {"name": if form.is_multiple_of(2) { "g1" } else { "g2" }},
                   "listeners": [{"name": "http", "port": 90, "protocol": "HTTP"}]}))),
        8..=10 => {
            let parents = match form % 5 {
                0 => json!([{"name": "g1", "namespace": "infra"}]),
                1 => json!([{"name": "g1", "namespace": "infra"}, {"name": "g2", "namespace": "infra", "sectionName": "https"}]),
                2 => json!([{"name": "set", "kind": "ListenerSet", "namespace": "infra"}]),
                3 => json!([{"name": "s", "kind": "Service", "group": "", "namespace": "infra"}]),
                _ => json!([]),
            };
            let namespace = if which == 10 { "app" } else { "infra" };
            let backend = if form.is_multiple_of(2) { json!({"name": "s", "namespace": "infra", "port": 80}) } else { json!({"name": "t", "namespace": "infra", "port": 81}) };
            let mut rules = vec![json!({"name": "admin", "backendRefs": [backend]})];
            if form.is_multiple_of(3) {
                rules.push(json!({"backendRefs": [{"name": "s", "port": 80}]}));
            }
            one(Fixture::default().object(gateway, "HTTPRoute", &format!("{namespace}/r{}", which - 7),
                json!({"parentRefs": parents, "rules": rules})))
        }
        11 => one(Fixture::default().service("s", if form.is_multiple_of(2) { &["web", "admin"] } else { &[] })),
        12 => {
            let mut service = one(Fixture::default().service("t", &["web", "admin"]));
            service["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Service", "name": if form.is_multiple_of(2) { "s" } else { "t" }}]);
            service
        }
        13 => json!({"apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
                     "metadata": {"name": "grant", "namespace": "infra"},
                     "spec": {"from": [{"group": "acme.test", "kind": "TimeoutPolicy", "namespace": "app"},
                                       {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "app"}],
                              "to": [{"group": "gateway.networking.k8s.io", "kind": "Gateway"},
                                     {"group": "", "kind": if form.is_multiple_of(2) { "Service" } else { "Secret" }}]}}),
        _ => {
            let targets = ["C", "G1", "G2", "G1#https", "R1", "R2#admin", "Service/s", "Service/s#web", "Namespace/infra",
                           "Namespace/app", "Gateway/infra/g1", "ExternalService/foo.test", "ListenerSet/set", "ListenerSet/set#http"];
            let target = targets[usize::from(form) % targets.len()];
            let namespace = if which % 4 == 3 { "app" } else { "infra" };
            let kind = if which % 5 == 4 { "H" } else { "K" };
            let spec = match form % 5 {
                0 => json!({"defaults": {"timeout": format!("{which}s"), "retries": 1}}),
                1 => json!({"overrides": {"timeout": format!("{which}s")}}),
                2 => json!({"timeout": format!("{which}s"), "limit": form}),
                3 => json!({"defaults": {"cdn": {"enabled": true}}, "overrides": {"retries": which}}),
                _ => json!({"strategy": "atomic", "timeout": "1s", "hosts": [{"name": "x", "w": which}]}),
            };
            policy(kind, &format!("{namespace}/p{which}"), u32::from(form % 3), &[target], spec)
        }
    }
}

const UNIVERSE: u8 = 24;

/// What was found once stays found: shapes that broke a state or a draft of the engine.
fn check(events: &[(u8, u8, bool)]) {
    let mut graph = Graph::of((0..4).map(|which| object(which, 0)));
    let mut present: BTreeMap<ObjectRef, Value> = graph
        .objects()
        .into_iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    for (which, form, delete) in events {
        let value = object(*which, *form);
        let key = ObjectRef::of(&value).unwrap();
        if *delete {
            present.remove(&key);
            graph.delete(&key);
        } else {
            present.insert(key, value.clone());
            graph.apply(value);
        }
    }
    let forwards = Graph::of(present.values().cloned());
    let backwards = Graph::of(present.values().rev().cloned());
    let expected = answers(&forwards);
    same(
        &answers(&backwards),
        &expected,
        "the order of input leaves no trace",
        events,
    );
    same(
        &answers(&graph),
        &expected,
        "the history leaves no trace",
        events,
    );
}

/// Tells the first answer that differs, not all of them.
fn same(found: &str, expected: &str, what: &str, events: &[(u8, u8, bool)]) {
    let differing = found
        .lines()
        .zip(expected.lines())
        .find(|(found, expected)| found != expected);
    if let Some((found, expected)) = differing {
        panic!("{what}\nevents:   {events:?}\nfound:    {found}\nexpected: {expected}");
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    /// Every prefix of a history is checked as a history of its own by the shorter cases.
    #[test]
    fn every_state_is_the_one_computed_from_nothing(
        events in proptest::collection::vec((0..UNIVERSE, any::<u8>(), proptest::bool::weighted(0.25)), 0..40)
    ) {
        check(&events);
    }
}

/// A policy that no path meets any more was still named as the one that overrides.
#[test]
fn a_path_that_is_gone_beats_nobody() {
    check(&[
        (8, 13, false),
        (20, 236, false),
        (16, 186, false),
        (7, 0, false),
        (17, 162, false),
        (8, 127, false),
    ]);
}

#[test]
fn every_single_step_of_a_long_history_is_checked() {
    // A fixed walk, so that a failure names its step: each event is checked on the way.
    let mut events = Vec::new();
    let mut state = 7_u32;
    for _ in 0..60 {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let which = (state >> 16) as u8 % UNIVERSE;
        let form = (state >> 8) as u8;
        events.push((which, form, state >> 30 == 0));
        check(&events);
    }
}
