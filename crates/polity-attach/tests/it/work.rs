//! One event costs what it touches: the same event in a graph of ten times the size costs the same work, counted.
//!
//! The shapes are those of docs/spec/attachment.md#10, smaller; time is measured by `cargo xtask bench attachment`.

use polity_attach::{Graph, ObjectRef, Work};
use serde_json::{Value, json};

use crate::world::{Fixture, policy, reference};

/// What happens to the graph.
enum Event {
    Apply(Value),
    Delete(ObjectRef),
}

/// The one object that a world was given.
fn one(world: Fixture) -> Value {
    world.objects.into_iter().next().unwrap()
}

fn route(name: &str, parent: &str, rules: &[(&str, &[&str])]) -> Event {
    Event::Apply(one(Fixture::default().route(name, &[parent], rules)))
}

fn delete(text: &str) -> Event {
    Event::Delete(reference(text))
}

fn retries(name: &str, target: &str, n: usize) -> Value {
    policy("K", name, 1, &[target], json!({"defaults": {"retries": n}}))
}

/// A Gateway with a policy on it and on each of its listeners.
fn gateway(n_listeners: usize) -> Fixture {
    let names: Vec<String> = (0..n_listeners).map(|index| format!("l{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = Fixture::new()
        .class()
        .namespace("infra")
        .gateway("g", &names)
        .with(retries("gw", "G", 1));
    for name in names {
        world = world.with(retries(&format!("on-{name}"), &format!("G#{name}"), 2));
    }
    world
}

/// Each route has a Service of its own.
fn routes(mut world: Fixture, n_routes: usize) -> Fixture {
    for index in 0..n_routes {
        let service = format!("s{index}");
        world = world
            .route(&format!("r{index}"), &["g"], &[("-", &[service.as_str()])])
            .service(&service, &[]);
    }
    world
}

fn listeners_and_routes(scale: usize) -> Fixture {
    routes(gateway(8), 12 * scale)
}

fn policies_on_each(scale: usize) -> Fixture {
    let mut world = routes(gateway(1), 12 * scale);
    for index in 0..12 * scale {
        let target = format!("HTTPRoute/r{index}");
        world = world
            .with(retries(&format!("p{index}"), &target, index))
            .policy(
                "H",
                &format!("h{index}"),
                1,
                &[&target],
                json!({"limit": 1}),
            );
    }
    world
}

fn listener_sets(scale: usize) -> Fixture {
    let mut world = gateway(1);
    world
        .objects
        .iter_mut()
        .filter(|object| object["kind"] == "Gateway")
        .for_each(|gateway| {
            gateway["spec"]["allowedListeners"] = json!({"namespaces": {"from": "Same"}});
        });
    for set in 0..6 * scale {
        let spec = json!({"parentRef": {"name": "g"}, "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]});
        world = world.object(
            "gateway.networking.k8s.io/v1",
            "ListenerSet",
            &format!("set{set}"),
            spec,
        );
        for index in 0..3 {
            let name = format!("r{}", set * 3 + index);
            let service = format!("s{}", set * 3 + index);
            let mut route = one(Fixture::default().route(&name, &[], &[("-", &[&service])]));
            route["spec"]["parentRefs"] =
                json!([{"kind": "ListenerSet", "name": format!("set{set}")}]);
            world = world.with(route).service(&service, &[]);
        }
    }
    world
}

fn one_service(scale: usize) -> Fixture {
    let mut world = gateway(1).service("s0", &[]);
    for index in 0..20 * scale {
        world = world.route(&format!("r{index}"), &["g"], &[("-", &["s0"])]);
    }
    world
}

/// Many namespaces, one of which has a Gateway that looks at their labels.
fn namespaces(scale: usize) -> Fixture {
    let mut world = gateway(1);
    world
        .objects
        .iter_mut()
        .filter(|object| object["kind"] == "Gateway")
        .for_each(|gateway| {
            gateway["spec"]["listeners"][0]["allowedRoutes"] =
                json!({"namespaces": {"from": "Selector", "selector": {"matchLabels": {"edge": "yes"}}}});
        });
    for index in 0..10 * scale {
        world = world
            .with(labelled(&format!("n{index}"), "yes"))
            .route(
                &format!("n{index}/r"),
                &["infra/g"],
                &[("-", &["s"] as &[&str])],
            )
            .service(&format!("n{index}/s"), &[])
            .with(retries(&format!("n{index}/p"), "HTTPRoute/r", index));
    }
    world
}

fn labelled(name: &str, edge: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"edge": edge}}})
}

/// One owner of many Pods.
fn owned(scale: usize) -> Fixture {
    let config = json!({"kinds": [{"group": "acme.test", "kind": "HealthPolicy", "class": "Inherited", "hierarchy": "owners"}]});
    let mut world = Fixture::new()
        .config(config)
        .object("apps/v1", "ReplicaSet", "set", json!({}))
        .policy("H", "on-set", 1, &["ReplicaSet/set"], json!({"limit": 1}));
    for index in 0..25 * scale {
        world = world.with(pod(&format!("pod{index}"), "set"));
    }
    world
}

fn pod(name: &str, owner: &str) -> Value {
    let mut pod = one(Fixture::default().object("v1", "Pod", name, json!({})));
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner}]);
    pod
}

/// Many CRDs of others beside ours.
fn definitions(scale: usize) -> Fixture {
    let mut world = policies_on_each(1);
    for index in 0..20 * scale {
        world = world.with(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("things{index}.other.test")},
            "spec": {"group": "other.test", "scope": "Namespaced", "names": {"kind": format!("Thing{index}"), "plural": format!("things{index}")},
                     "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}));
    }
    world
}

fn cost(world: &Fixture, event: &Event) -> Work {
    let mut graph = world.graph();
    match event {
        Event::Apply(object) => graph.apply(object.clone()),
        Event::Delete(object) => graph.delete(object),
    };
    graph.work()
}

type Shape = fn(usize) -> Fixture;

#[test]
fn an_event_costs_the_same_in_a_graph_of_ten_times_the_size() {
    let two_rules: &[(&str, &[&str])] = &[("-", &["s5"]), ("-", &["s6"])];
    let cases: Vec<(&str, Shape, Event)> = vec![
        (
            "a rule more under many listeners",
            listeners_and_routes,
            route("r5", "g", two_rules),
        ),
        (
            "a route to one listener only",
            listeners_and_routes,
            route("r5", "g#l3", &[("-", &["s5"])]),
        ),
        (
            "a new route",
            listeners_and_routes,
            route("new", "g", &[("-", &["s5"])]),
        ),
        (
            "a route is gone",
            listeners_and_routes,
            delete("HTTPRoute/r5"),
        ),
        (
            "a Service is gone",
            listeners_and_routes,
            delete("Service/s5"),
        ),
        (
            "a Service has another port",
            listeners_and_routes,
            Event::Apply(one(Fixture::default().service("s5", &["web"]))),
        ),
        (
            "a policy on a route is edited",
            policies_on_each,
            Event::Apply(retries("p5", "HTTPRoute/r5", 99)),
        ),
        (
            "a policy moves to another route",
            policies_on_each,
            Event::Apply(retries("p5", "HTTPRoute/r6", 99)),
        ),
        (
            "a new policy on a route",
            policies_on_each,
            Event::Apply(retries("new", "HTTPRoute/r5", 99)),
        ),
        (
            "a policy on a route is gone",
            policies_on_each,
            delete("TimeoutPolicy/p5"),
        ),
        (
            "a direct policy is gone",
            policies_on_each,
            delete("HealthPolicy/h5"),
        ),
        (
            "a policy on a ListenerSet's route",
            listener_sets,
            Event::Apply(retries("new", "HTTPRoute/r5", 99)),
        ),
        (
            "a policy on a ListenerSet",
            listener_sets,
            Event::Apply(retries("new", "ListenerSet/set2", 99)),
        ),
        (
            "a ListenerSet is gone",
            listener_sets,
            delete("ListenerSet/set2"),
        ),
        (
            "one of many routes to one Service",
            one_service,
            route("r5", "g", &[("-", &["s0"]), ("-", &["s0"])]),
        ),
        (
            "one of many routes to one Service is gone",
            one_service,
            delete("HTTPRoute/r5"),
        ),
        (
            "the labels of one of many namespaces",
            namespaces,
            Event::Apply(labelled("n5", "no")),
        ),
        (
            "a policy on one of many namespaces",
            namespaces,
            Event::Apply(retries("n5/new", "Namespace/n5", 7)),
        ),
        (
            "a Pod more below one owner",
            owned,
            Event::Apply(pod("new", "set")),
        ),
        ("a Pod less below one owner", owned, delete("Pod/pod5")),
        (
            "a Pod changes hands",
            owned,
            Event::Apply(pod("pod5", "other")),
        ),
        (
            "many kinds of others",
            definitions,
            Event::Apply(retries("p5", "HTTPRoute/r5", 99)),
        ),
    ];
    for (what, shape, event) in &cases {
        let small = cost(&shape(1), event);
        let large = cost(&shape(10), event);
        assert_eq!(small, large, "{what}");
        assert!(small.total() > 0, "{what} is seen");
    }
}

#[test]
fn an_event_that_changes_nothing_that_policies_read_costs_nothing() {
    let mut graph = listeners_and_routes(3).graph();
    let mut route = one(Fixture::default().route("r5", &["g"], &[("-", &["s5"])]));
    route["metadata"]["annotations"] = json!({"seen": "yes"});
    let changes = graph.apply(route);
    assert_eq!(
        graph.work().total(),
        1,
        "it is read, in case it is a policy"
    );
    assert_eq!(changes, polity_attach::Changes::default());
}

/// From nothing the work is in proportion to the objects; sorting them is what makes it n log n.
#[test]
fn work_from_nothing_grows_as_the_objects_do() {
    let shapes: [(&str, Shape); 5] = [
        ("listeners and routes", listeners_and_routes),
        ("policies on each", policies_on_each),
        ("ListenerSets", listener_sets),
        ("one Service", one_service),
        ("one owner", owned),
    ];
    for (what, shape) in shapes {
        let work = |scale| Graph::of(shape(scale).objects).work().total() as f64;
        let (small, large) = (work(2), work(20));
        assert!(
            large < small * 10.5,
            "{what}: {large} steps against {small} at a tenth of the size"
        );
    }
}
