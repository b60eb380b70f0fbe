//! Measures the attachment engine on this machine: `cargo run --release -p polity-attach --example bench`.
//!
//! Each line is a name, a number and a unit, separated by tabs. The shapes are those that the engine is designed for:
//! many listeners under many routes, a policy on each route, many ListenerSets, many routes to one Service. Each is
//! measured in two sizes, one ten times the other: an edit must take the same number of steps and allocations in both.

#![expect(clippy::print_stdout, reason = "the figures are this program's output")]

use std::alloc::System;
use std::time::Instant;

use polity_attach::{Graph, ObjectRef};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const GATEWAY: &str = "gateway.networking.k8s.io/v1";

fn main() {
    let asked = std::env::args().nth(1).and_then(|index| index.parse().ok());
    if let Some(shape) = asked.and_then(Shape::of) {
        measure(&shape);
        return;
    }
    // Each shape runs in its own process, because memory that an earlier shape released would hide the memory of the
    // next.
    let program = std::env::current_exe().expect("a program has a path");
    for index in (0..).take_while(|index| shape_name(*index).is_some()) {
        let status = std::process::Command::new(&program)
            .arg(index.to_string())
            .status()
            .expect("this program can start itself");
        assert!(status.success(), "shape {index} is measured");
    }
}

fn shape_name(index: usize) -> Option<&'static str> {
    let names = [
        "64 listeners x 1000 routes",
        "64 listeners x 10000 routes",
        "5000 routes, 3 policies on each",
        "50000 routes, 3 policies on each",
        "250 ListenerSets x 16 routes",
        "2500 ListenerSets x 16 routes",
        "1000 routes to one Service",
        "10000 routes to one Service",
    ];
    names.get(index).copied()
}

/// A set of objects, and a second form of the object with a given number.
struct Shape {
    name: &'static str,
    objects: Vec<Value>,
    n_routes: usize,
    edited: fn(usize) -> Value,
}

impl Shape {
    fn of(index: usize) -> Option<Self> {
        let name = shape_name(index)?;
        let scale = if index % 2 == 1 { 10 } else { 1 };
        let (n_routes, objects, edited): (usize, Vec<Value>, fn(usize) -> Value) = match index / 2 {
            0 => (
                1_000 * scale,
                listeners_and_routes(64, 1_000 * scale),
                |number| route(&format!("r{number}"), "g", &format!("s{number}"), 7),
            ),
            1 => (5_000 * scale, policies_on_each(5_000 * scale), |number| {
                let (name, target) = (format!("p-0-{number}"), format!("r{number}"));
                policy("TimeoutPolicy", &name, "HTTPRoute", &target, 99)
            }),
            2 => (4_000 * scale, listener_sets(250 * scale, 16), |number| {
                let mut edited = route(&format!("r{number}"), "g", &format!("s{number}"), 7);
                let set = format!("set{}", number / 16);
                edited["spec"]["parentRefs"] = json!([{"kind": "ListenerSet", "name": set}]);
                edited
            }),
            _ => (1_000 * scale, one_service(1_000 * scale), |number| {
                route(&format!("r{number}"), "g", "s0", 7)
            }),
        };
        Some(Self {
            name,
            objects,
            n_routes,
            edited,
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

fn report(shape: &str, what: &str, value: f64, unit: &str) {
    println!("{shape}: {what}\t{value:.3}\t{unit}");
}

/// Measures a build from scratch, one edit, the lookup of one object, and memory.
fn measure(shape: &Shape) {
    let Shape { name, objects, .. } = shape;
    let empty = resident();
    let copies: Vec<Value> = objects.clone();
    let loaded = resident();
    let start = now();
    let mut graph = Graph::of(copies);
    report(
        name,
        "from nothing",
        start.elapsed().as_secs_f64() * 1_000.0,
        "ms",
    );
    let after = resident();
    let size = graph.size();
    report(name, "objects", size.objects as f64, "");
    report(name, "steps from nothing", graph.work().total() as f64, "");
    report(name, "distinct stacks", size.stacks as f64, "");
    let own = after.saturating_sub(loaded) as f64 / size.objects as f64;
    let with_values = after.saturating_sub(empty) as f64 / size.objects as f64;
    report(name, "memory per object, without its JSON", own, "kB");
    report(
        name,
        "memory for each object, with its JSON",
        with_values,
        "kB",
    );
    measure_edits(shape, &mut graph);
    measure_answers(name, &graph);
}

/// Edits one object back and forth between two forms, then many objects in turn to avoid cache hits.
fn measure_edits(shape: &Shape, graph: &mut Graph) {
    let name = shape.name;
    let same: Vec<(Value, Value)> = vec![forms(shape, graph, 500); 100];
    let each: Vec<(Value, Value)> = (0..100)
        .map(|round| forms(shape, graph, round * 7_919 % shape.n_routes))
        .collect();
    let (took, steps, allocations) = edits(graph, same);
    report(name, "steps for one edit", steps, "");
    report(name, "allocations for one edit", allocations, "");
    report(name, "one object edited", took, "ms");
    let (took, ..) = edits(graph, each);
    report(name, "another object edited each time", took, "ms");
}

/// The two forms of the object with this number.
fn forms(shape: &Shape, graph: &Graph, number: usize) -> (Value, Value) {
    let edited = (shape.edited)(number);
    let key = ObjectRef::of(&edited).expect("the edited object has a name");
    let original = graph.object(&key).expect("the edited object is there");
    (edited, original.clone())
}

/// Median milliseconds, steps and allocations of an edit. Medians exclude other load on the machine.
fn edits(graph: &mut Graph, forms: Vec<(Value, Value)>) -> (f64, f64, f64) {
    let mut measured: [Vec<f64>; 3] = Default::default();
    for form in forms.into_iter().flat_map(<[Value; 2]>::from) {
        let region = Region::new(ALLOCATOR);
        let start = now();
        let changes = graph.apply(form);
        let took = start.elapsed().as_secs_f64() * 1_000.0;
        let allocations = region.change().allocations;
        drop(changes);
        measured[0].push(took);
        measured[1].push(graph.work().total() as f64);
        measured[2].push(allocations as f64);
    }
    let [took, steps, allocations] = measured.map(|mut values| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    });
    (took, steps, allocations)
}

fn measure_answers(shape: &str, graph: &Graph) {
    let service = if shape.contains("one Service") {
        "s0"
    } else {
        "s500"
    };
    let service = ObjectRef::new("", "Service", Some("infra"), service);
    let start = now();
    let results = graph.effective(&service, None);
    report(
        shape,
        "effective policy of a Service",
        start.elapsed().as_secs_f64() * 1_000.0,
        "ms",
    );
    assert!(!results.is_empty(), "policies reach {service}");
    let policy = ObjectRef::new("acme.test", "TimeoutPolicy", Some("infra"), "gw");
    let start = now();
    let status = graph.policy_status(&policy);
    report(
        shape,
        "status of the Gateway's policy",
        start.elapsed().as_secs_f64() * 1_000.0,
        "ms",
    );
    assert!(
        status.is_some_and(|status| status.effectiveness.is_some()),
        "{policy} acts"
    );
    report(
        shape,
        "objects it acts on",
        graph.affects(&policy).total as f64,
        "",
    );
}

/// The resident memory of this process, in kB.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    pages * 4
}

fn object(api_version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "infra", "generation": 1}, "spec": spec})
}

fn crd(kind: &str) -> Value {
    let stanza = json!({"type": "object", "properties": {"timeout": {"type": "string"}, "retries": {"type": "integer"}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": format!("{}.acme.test", kind.to_lowercase()), "labels": {"gateway.networking.k8s.io/policy": "inherited"}},
           "spec": {"group": "acme.test", "scope": "Namespaced", "names": {"kind": kind, "plural": kind.to_lowercase()},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {"defaults": stanza, "overrides": stanza,
                            "targetRef": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
                        "status": {"type": "object", "properties": {"conditions": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}}}]}})
}

fn policy(kind: &str, name: &str, target_kind: &str, target: &str, value: usize) -> Value {
    let spec = json!({"targetRef": {"group": "gateway.networking.k8s.io", "kind": target_kind, "name": target},
                      "defaults": {"timeout": format!("{value}s"), "retries": value}});
    object("acme.test/v1", kind, name, &spec)
}

fn route(name: &str, gateway: &str, service: &str, timeout: usize) -> Value {
    let rule = json!({"backendRefs": [{"name": service, "port": 80}], "timeouts": {"request": format!("{timeout}s")}});
    // A second rule, so that the edit changes the hierarchy and not only an unused value.
    let rules = if timeout == 7 {
        json!([rule, rule])
    } else {
        json!([rule])
    };
    object(
        GATEWAY,
        "HTTPRoute",
        name,
        &json!({"parentRefs": [{"name": gateway}], "rules": rules}),
    )
}

fn service(name: &str) -> Value {
    object("v1", "Service", name, &json!({"ports": [{"port": 80}]}))
}

fn gateway(n_listeners: usize) -> Value {
    let listeners: Vec<Value> = (0..n_listeners)
        .map(
            |index| json!({"name": format!("l{index}"), "port": 8_000 + index, "protocol": "HTTP"}),
        )
        .collect();
    object(
        GATEWAY,
        "Gateway",
        "g",
        &json!({"gatewayClassName": "c", "listeners": listeners,
        "allowedListeners": {"namespaces": {"from": "Same"}}}),
    )
}

/// The policy kinds, and policies on the Gateway and on every listener.
fn base(n_listeners: usize) -> Vec<Value> {
    let mut objects = vec![
        crd("TimeoutPolicy"),
        crd("RetryPolicy"),
        crd("LimitPolicy"),
        gateway(n_listeners),
    ];
    objects.push(policy("TimeoutPolicy", "gw", "Gateway", "g", 30));
    for index in 0..n_listeners {
        let mut policy = policy(
            "TimeoutPolicy",
            &format!("listener-{index}"),
            "Gateway",
            "g",
            index,
        );
        policy["spec"]["targetRef"]["sectionName"] = json!(format!("l{index}"));
        objects.push(policy);
    }
    objects
}

fn listeners_and_routes(n_listeners: usize, n_routes: usize) -> Vec<Value> {
    let mut objects = base(n_listeners);
    for index in 0..n_routes {
        objects.push(route(&format!("r{index}"), "g", &format!("s{index}"), 5));
        objects.push(service(&format!("s{index}")));
    }
    objects
}

fn policies_on_each(n_routes: usize) -> Vec<Value> {
    let mut objects = base(1);
    for index in 0..n_routes {
        objects.push(route(&format!("r{index}"), "g", &format!("s{index}"), 5));
        objects.push(service(&format!("s{index}")));
        for (number, kind) in ["TimeoutPolicy", "RetryPolicy", "LimitPolicy"]
            .into_iter()
            .enumerate()
        {
            objects.push(policy(
                kind,
                &format!("p-{number}-{index}"),
                "HTTPRoute",
                &format!("r{index}"),
                index % 60,
            ));
        }
    }
    objects
}

fn listener_sets(n_sets: usize, routes_each: usize) -> Vec<Value> {
    let mut objects = base(1);
    for set in 0..n_sets {
        let spec = json!({"parentRef": {"name": "g"}, "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]});
        objects.push(object(GATEWAY, "ListenerSet", &format!("set{set}"), &spec));
        for index in 0..routes_each {
            let number = set * routes_each + index;
            let mut route = route(&format!("r{number}"), "g", &format!("s{number}"), 5);
            route["spec"]["parentRefs"] =
                json!([{"kind": "ListenerSet", "name": format!("set{set}")}]);
            objects.push(route);
            objects.push(service(&format!("s{number}")));
        }
    }
    objects
}

fn one_service(n_routes: usize) -> Vec<Value> {
    let mut objects = base(1);
    objects.push(service("s0"));
    for index in 0..n_routes {
        objects.push(route(&format!("r{index}"), "g", "s0", 5));
    }
    objects
}
