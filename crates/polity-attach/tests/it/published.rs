//! What is published about policies and the objects they affect: docs/spec/attachment.md#7.

use polity_attach::{
    Graph, Impact, MarkPlace, ObjectRef, POLICY_AFFECTED, flat_status, policy_status_to_write,
};
use serde_json::{Value, json};

use crate::world::{Fixture, body, crd, policy, reference};

fn at(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).unwrap()
}

/// A policy under `n` Gateways, by as many routes to one Service.
fn behind(n: usize) -> Graph {
    let mut world = Fixture::new().class().service("s", &[]).policy(
        "K",
        "p",
        1,
        &["Service/s"],
        json!({"defaults": {"retries": 1}}),
    );
    for index in 0..n {
        let gateway = format!("gw-{index:05}");
        world = world.gateway(&gateway, &["l"]).route(
            &format!("r{index}"),
            &[&gateway],
            &[("-", &["s"])],
        );
    }
    world.graph()
}

#[test]
fn one_entry_for_each_ancestor_and_none_twice() {
    let graph = behind(2);
    let status = graph.policy_status(&reference("TimeoutPolicy/p")).unwrap();
    let mut stored = json!({});
    let written = policy_status_to_write(&stored, &status, 16, at(0)).unwrap();
    assert_eq!(written.as_array().unwrap().len(), 2);
    assert_eq!(written[0]["controllerName"], "polity.dev/attachment", "D4");
    let conditions = written[0]["conditions"].as_array().unwrap();
    assert!((1..=8).contains(&conditions.len()), "D9");
    stored["status"] = json!({"ancestors": written});
    assert_eq!(
        policy_status_to_write(&stored, &status, 16, at(9)),
        None,
        "steady state: no write"
    );
}

#[test]
fn entries_of_other_controllers_are_kept_and_stale_own_ones_are_removed() {
    let graph = behind(1);
    let status = graph.policy_status(&reference("TimeoutPolicy/p")).unwrap();
    let other =
        json!({"ancestorRef": {"name": "z"}, "controllerName": "acme.test/x", "conditions": []});
    let another = json!({"ancestorRef": {"name": "a"}, "controllerName": "acme.test/y", "conditions": [{"type": "Odd"}]});
    let stale = json!({"ancestorRef": {"name": "gone", "namespace": "infra"}, "controllerName": "polity.dev/attachment", "conditions": []});
    let stored = json!({"status": {"ancestors": [other, stale, another]}});
    let written = policy_status_to_write(&stored, &status, 16, at(0)).unwrap();
    let names: Vec<&Value> = written
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["ancestorRef"]["name"])
        .collect();
    assert_eq!(names, [&json!("z"), &json!("a"), &json!("gw-00000")]);
    assert_eq!((&written[0], &written[1]), (&other, &another));
}

#[test]
fn the_limit_is_shared_and_the_last_entry_says_that_some_are_missing() {
    let graph = behind(20);
    let status = graph.policy_status(&reference("TimeoutPolicy/p")).unwrap();
    assert_eq!(status.ancestors.len(), 20);
    let other =
        json!({"ancestorRef": {"name": "z"}, "controllerName": "acme.test/x", "conditions": []});
    let stored = json!({"status": {"ancestors": [other]}});
    let written = policy_status_to_write(&stored, &status, 16, at(0)).unwrap();
    let entries = written.as_array().unwrap();
    assert_eq!(entries.len(), 16);
    let last = entries[15]["conditions"]
        .as_array()
        .unwrap()
        .last()
        .unwrap();
    assert_eq!(last["type"], "polity.dev/Truncated");
    let all = graph
        .attachment_status(&reference("TimeoutPolicy/p"))
        .unwrap();
    assert_eq!(
        all["ancestors"].as_array().unwrap().len(),
        20,
        "all of them stand in the AttachmentStatus"
    );
}

#[test]
fn ten_thousand_ancestors_are_no_matter_of_hours() {
    let graph = behind(10_000);
    let status = graph.policy_status(&reference("TimeoutPolicy/p")).unwrap();
    assert_eq!(status.ancestors.len(), 10_000);
    let written = policy_status_to_write(&json!({}), &status, 16, at(0)).unwrap();
    assert_eq!(written.as_array().unwrap().len(), 16);
    let published = graph
        .attachment_status(&reference("TimeoutPolicy/p"))
        .unwrap();
    assert!(published.to_string().len() <= 512 * 1024);
    assert_eq!(published["truncated"], true);
}

#[test]
fn times_move_with_the_status_and_a_later_generation_is_left_alone() {
    let graph = behind(1);
    let status = graph.policy_status(&reference("TimeoutPolicy/p")).unwrap();
    let mut written = policy_status_to_write(&json!({}), &status, 16, at(0)).unwrap();
    written[0]["conditions"][0]["message"] = json!("something else");
    let stored = json!({"status": {"ancestors": written}});
    let again = policy_status_to_write(&stored, &status, 16, at(60)).unwrap();
    assert_eq!(
        again[0]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:00Z",
        "only the message moved"
    );
    let mut newer = stored;
    newer["status"]["ancestors"][0]["conditions"][0]["observedGeneration"] = json!(7);
    assert_eq!(policy_status_to_write(&newer, &status, 16, at(60)), None);
}

#[test]
fn kinds_without_ancestors_get_flat_conditions() {
    let world = Fixture::new().chain();
    let graph = world
        .clone()
        .policy(
            "K",
            "p",
            1,
            &["HTTPRoute/r", "HTTPRoute/typo"],
            json!({"defaults": {"retries": 1}}),
        )
        .graph();
    let status = graph.policy_status(&reference("TimeoutPolicy/p")).unwrap();
    let foreign = json!({"type": "Enforced", "status": "True"});
    let stored = json!({"status": {"conditions": [foreign]}});
    let written = flat_status(&stored, &status, at(0)).unwrap();
    let words: Vec<String> = written
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| {
            format!(
                "{}={}",
                condition["type"].as_str().unwrap(),
                condition["status"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        words,
        [
            "Enforced=True",
            "Accepted=True",
            "Programmed=True",
            "ResolvedRefs=False"
        ]
    );
    assert_eq!(
        flat_status(&json!({"status": {"conditions": written}}), &status, at(5)),
        None
    );
}

#[test]
fn marks_are_conditions_where_there_are_any_and_annotations_elsewhere() {
    let mut gateway = Fixture::default()
        .gateway("g", &["http", "https"])
        .objects
        .remove(0);
    gateway["metadata"]["generation"] = json!(5);
    let world = Fixture::new()
        .class()
        .with(gateway.clone())
        .route("r", &["g"], &[("-", &["s"])])
        .service("s", &[])
        .policy(
            "K",
            "p",
            1,
            &["Namespace/infra"],
            json!({"defaults": {"retries": 1}}),
        )
        .policy("K", "l", 1, &["G#https"], json!({"defaults": {"limit": 1}}));
    let graph = world.graph();
    let mark = |graph: &Graph, object: &str| graph.mark(&reference(object));
    let of_gateway = mark(&graph, "Gateway/g").unwrap();
    let MarkPlace::Condition(condition) = &of_gateway.place else {
        panic!("Gateways have conditions")
    };
    assert_eq!(
        (
            condition.kind.as_str(),
            condition.status,
            condition.observed_generation
        ),
        (POLICY_AFFECTED, "True", Some(5))
    );
    assert_eq!(of_gateway.listeners, ["https"]);
    assert_eq!(
        mark(&graph, "HTTPRoute/r").unwrap().place,
        MarkPlace::Annotation
    );
    let MarkPlace::Condition(condition) = mark(&graph, "Service/s").unwrap().place else {
        panic!("Services have conditions")
    };
    assert_eq!(
        condition.observed_generation, None,
        "Services do not count generations"
    );
    assert!(
        mark(&graph, "GatewayClass/c").is_none(),
        "not affected, not marked"
    );
    let others: Vec<Value> = (0..8)
        .map(|index| json!({"type": format!("T{index}")}))
        .collect();
    gateway["status"] = json!({"conditions": others});
    let mut graph = graph;
    graph.apply(gateway.clone());
    assert_eq!(
        mark(&graph, "Gateway/g").unwrap().place,
        MarkPlace::Annotation,
        "the list is full of others"
    );
    gateway["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    graph.apply(gateway);
    assert!(mark(&graph, "Gateway/g").is_none(), "not on its way out");
}

#[test]
fn the_mark_does_not_change_with_the_policies() {
    let mut graph = Fixture::new()
        .chain()
        .policy("K", "p", 1, &["G"], json!({"defaults": {"retries": 1}}))
        .graph();
    let before = graph.mark(&reference("Gateway/g"));
    graph.apply(policy(
        "K",
        "p",
        1,
        &["G"],
        json!({"defaults": {"retries": 2}}),
    ));
    graph.apply(policy(
        "K",
        "q",
        1,
        &["G"],
        json!({"defaults": {"limit": 2}}),
    ));
    assert_eq!(graph.mark(&reference("Gateway/g")), before);
}

#[test]
fn the_stanza_is_written_only_where_the_schema_has_it() {
    let gateway_crd = |status: Value| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
               "metadata": {"name": "gateways.gateway.networking.k8s.io"},
               "spec": {"group": "gateway.networking.k8s.io", "scope": "Namespaced", "names": {"kind": "Gateway", "plural": "gateways"},
                        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                            "type": "object", "properties": {"status": status}}}}]}})
    };
    let world =
        Fixture::new()
            .chain()
            .policy("K", "p", 1, &["G"], json!({"defaults": {"retries": 1}}));
    let plain = world.clone().with(gateway_crd(json!({"type": "object", "properties": {"conditions": {"type": "array", "items": {"type": "object"}}}})));
    assert_eq!(
        plain
            .graph()
            .effective_policy_stanza(&reference("Gateway/g")),
        None
    );
    let open = world.with(gateway_crd(
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    ));
    assert_eq!(
        open.graph()
            .effective_policy_stanza(&reference("Gateway/g")),
        Some(
            json!([{"name": "p", "namespace": "infra", "apiGroup": "acme.test", "kind": "TimeoutPolicy"}])
        )
    );
}

#[test]
fn a_gateway_class_lists_kinds_of_policies_parameters_and_filters() {
    let filter = json!({"type": "ExtensionRef", "extensionRef": {"group": "acme.test", "kind": "Redirector", "name": "x"}});
    let mut class = Fixture::default().class().objects.remove(0);
    class["spec"]["parametersRef"] = json!({"group": "acme.test", "kind": "Params", "name": "x"});
    let graph = Fixture::new()
        .with(class)
        .gateway("g", &["http"])
        .object(
            "gateway.networking.k8s.io/v1",
            "HTTPRoute",
            "r",
            json!({"parentRefs": [{"name": "g"}], "rules": [{"filters": [filter]}]}),
        )
        .graph();
    let condition = graph.extension_types(&reference("GatewayClass/c")).unwrap();
    assert_eq!(
        condition.message,
        "ClusterTimeoutPolicy.acme.test(inherited), HealthPolicy.acme.test(direct), Params.acme.test(parameters), \
         Redirector.acme.test(filter), TimeoutPolicy.acme.test(inherited)"
    );
}

#[test]
fn an_effective_policy_is_next_to_its_object_and_validates_as_a_spec() {
    let graph = Fixture::new()
        .chain()
        .policy(
            "K",
            "/class",
            1,
            &["C"],
            json!({"defaults": {"retries": 1}, "overrides": {"tls": "1.2"}}),
        )
        .policy(
            "K",
            "rt",
            1,
            &["R"],
            json!({"defaults": {"timeout": "5s", "tls": "1.0", "hosts": [{"name": "x", "w": 1}]}}),
        )
        .graph();
    let object = graph.effective_policy(Some("infra"), "r").unwrap();
    assert_eq!(object["kind"], "EffectivePolicy");
    assert_eq!(
        object["metadata"],
        json!({"name": "r", "namespace": "infra", "labels": {"app.kubernetes.io/managed-by": "polity"}})
    );
    assert!(
        object.get("spec").is_none() && object.get("status").is_none(),
        "F6"
    );
    let entry = &object["policies"][0];
    assert_eq!(entry["controllerName"], "polity.dev/attachment", "F5");
    assert_eq!(entry["basis"], "authoritative");
    let names: Vec<&Value> = entry["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| &object["name"])
        .collect();
    assert_eq!(names, [&json!("class"), &json!("rt")], "F3");
    let spec = &entry["resultantPolicy"]["timeoutPolicy"];
    assert_eq!(
        spec["overrides"],
        json!({"tls": "1.2"}),
        "winners in the stanza they won in"
    );
    assert_eq!(
        spec["targetRef"],
        json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r"})
    );
    let provenance = entry["provenance"].as_array().unwrap();
    let timeout = provenance
        .iter()
        .find(|entry| entry["field"] == "timeoutPolicy.defaults.timeout")
        .unwrap();
    assert_eq!(
        (&timeout["from"], &timeout["level"]),
        (&json!(1), &json!("HTTPRoute"))
    );
    // Wrapped in the kind, the result is a valid policy.
    let wrapped = json!({"apiVersion": "acme.test/v1", "kind": "TimeoutPolicy", "metadata": {"name": "w", "namespace": "infra"}, "spec": spec});
    let graph = Fixture::new().chain().with(wrapped).graph();
    assert!(
        graph
            .policy_status(&reference("TimeoutPolicy/w"))
            .unwrap()
            .effectiveness
            .is_some()
    );
    assert_eq!(graph.effective_policy(Some("infra"), "unknown"), None, "F1");
}

#[test]
fn one_object_serves_all_of_one_name_and_cluster_scoped_ones_have_a_twin() {
    let graph = Fixture::new()
        .class()
        .gateway("web", &["http"])
        .route("web", &["web"], &[("-", &["web"])])
        .service("web", &[])
        .policy("K", "/c", 1, &["C"], json!({"defaults": {"retries": 1}}))
        .graph();
    let object = graph.effective_policy(Some("infra"), "web").unwrap();
    let kinds: Vec<&Value> = object["policies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["targetRef"]["kind"])
        .collect();
    assert_eq!(
        kinds,
        [&json!("Service"), &json!("Gateway"), &json!("HTTPRoute")]
    );
    assert_eq!(
        graph.effective_policy(None, "c").unwrap()["kind"],
        "ClusterEffectivePolicy"
    );
}

#[test]
fn contents_are_redacted_by_setting_and_passwords_always() {
    let mut fields = body();
    fields["secret"] = json!({"type": "string", "format": "password"});
    let world = Fixture::default()
        .with(crd("TimeoutPolicy", "Namespaced", "inherited", &fields))
        .chain()
        .policy(
            "K",
            "p",
            1,
            &["G"],
            json!({"defaults": {"secret": "planted-one", "timeout": "planted-two", "retries": 1}}),
        );
    let published = |setting: Option<Value>| {
        let mut kind = json!({"group": "acme.test", "kind": "TimeoutPolicy"});
        if let Some(setting) = setting {
            kind["contents"] = setting;
        }
        world
            .clone()
            .config(json!({"kinds": [kind]}))
            .graph()
            .effective_policy(Some("infra"), "r")
            .unwrap()
    };
    let full = published(None);
    assert!(!full.to_string().contains("planted-one") && full.to_string().contains("planted-two"));
    assert_eq!(full["policies"][0]["redacted"], json!(["secret"]));
    let paths = published(Some(json!({"paths": ["timeout"]})));
    assert!(!paths.to_string().contains("planted"), "{paths}");
    assert_eq!(
        paths["policies"][0]["resultantPolicy"]["timeoutPolicy"]["defaults"],
        json!({"retries": 1})
    );
    let names = published(Some(json!("names")));
    assert!(names["policies"][0].get("resultantPolicy").is_none());
}

#[test]
fn attachment_status_says_for_every_kind_what_a_policy_acts_on() {
    let graph = Fixture::new()
        .chain()
        .policy(
            "K",
            "gw",
            1,
            &["G"],
            json!({"overrides": {"timeout": "20s"}}),
        )
        .policy(
            "K",
            "rt",
            1,
            &["R"],
            json!({"defaults": {"timeout": "5s", "retries": 1}}),
        )
        .graph();
    let status = graph
        .attachment_status(&reference("TimeoutPolicy/rt"))
        .unwrap();
    assert_eq!(status["kind"], "AttachmentStatus");
    assert_eq!(status["metadata"]["name"], "uid-rt");
    assert_eq!(
        status["metadata"]["ownerReferences"][0].get("controller"),
        None
    );
    assert_eq!(status["affects"]["total"], 2, "route and service: {status}");
    assert_eq!(status["affects"]["partial"], 2);
    assert_eq!(status["beatenBy"][0]["name"], "gw");
    assert_eq!(status["beatenBy"][0]["fields"], json!(["timeout"]));
    let conditions = status["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|condition| condition["type"] == "polity.dev/Effective"
                && condition["reason"] == "Partial")
    );
}

#[test]
fn editing_values_changes_results_and_nothing_else_on_affected_objects() {
    let mut graph = Fixture::new()
        .chain()
        .policy("K", "p", 1, &["G"], json!({"defaults": {"retries": 1}}))
        .graph();
    let marks = |graph: &Graph| {
        ["Gateway/g", "HTTPRoute/r", "Service/s"].map(|object| graph.mark(&reference(object)))
    };
    let before = marks(&graph);
    let changes = graph.apply(policy(
        "K",
        "p",
        1,
        &["G"],
        json!({"defaults": {"retries": 2}}),
    ));
    assert_eq!(marks(&graph), before);
    assert!(
        changes.objects.contains(&reference("HTTPRoute/r")),
        "its EffectivePolicy is another"
    );
    assert!(changes.policies.contains(&reference("TimeoutPolicy/p")));
    let again = graph.apply(policy(
        "K",
        "p",
        1,
        &["G"],
        json!({"defaults": {"retries": 2}}),
    ));
    assert!(
        again.objects.is_empty(),
        "the same said again touches nothing: {again:?}"
    );
}

#[test]
fn the_impact_of_deleting_a_namespace_wide_policy_lists_its_routes() {
    let mut world = Fixture::new().policy(
        "K",
        "baker/all",
        1,
        &["Namespace/baker"],
        json!({"defaults": {"retries": 3}}),
    );
    for index in 0..40 {
        world = world.service(&format!("baker/s{index}"), &[]);
    }
    let before = world.graph();
    let mut after = world.graph();
    after.delete(&ObjectRef::new(
        "acme.test",
        "TimeoutPolicy",
        Some("baker"),
        "all",
    ));
    let mut impact = Impact::between(&before, &after);
    impact
        .objects
        .retain(|object| object.object.kind != "Namespace");
    assert_eq!(impact.summary(), ["40 objects lose retries"]);
}

#[test]
fn explain_names_winner_stanza_level_and_every_loser_with_its_rule() {
    let graph = Fixture::new()
        .chain()
        .policy(
            "K",
            "gw-new",
            2,
            &["G"],
            json!({"overrides": {"timeout": "20s"}}),
        )
        .policy(
            "K",
            "gw-old",
            1,
            &["G"],
            json!({"overrides": {"timeout": "10s"}}),
        )
        .policy(
            "K",
            "ns",
            1,
            &["Namespace/infra"],
            json!({"defaults": {"timeout": "1s"}}),
        )
        .policy(
            "K",
            "rt",
            1,
            &["R"],
            json!({"overrides": {"timeout": "5s"}}),
        )
        .policy(
            "K",
            "wrong",
            1,
            &["R#nope"],
            json!({"overrides": {"timeout": "5s"}}),
        )
        .graph();
    let explanation = graph
        .explain(&reference("HTTPRoute/r"), Some("timeout"), at(0))
        .unwrap();
    let said: Vec<String> = explanation
        .policies
        .iter()
        .map(|policy| {
            let setting = &policy.settings[0];
            format!(
                "{} {} {} {:?}",
                policy.reference.object.name, policy.acts, setting.level, setting.rule
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            "gw-old yes Gateway/infra/g None",
            "gw-new no Gateway/infra/g Some(Age)",
            "ns no Namespace/infra Some(Override)",
            "rt no HTTPRoute/infra/r Some(Level)",
        ]
    );
    let all = graph
        .explain(&reference("HTTPRoute/r"), None, at(0))
        .unwrap();
    let wrong = all
        .policies
        .iter()
        .find(|policy| policy.reference.object.name == "wrong")
        .unwrap();
    assert_eq!(wrong.acts, "no");
    assert!(
        wrong.effect.text.contains("no section nope"),
        "{}",
        wrong.effect.text
    );
}

#[test]
fn pictures_hold_objects_policies_and_their_edges() {
    let graph = Fixture::new()
        .chain()
        .policy(
            "K",
            "gw",
            1,
            &["G#http"],
            json!({"overrides": {"timeout": "20s"}}),
        )
        .policy("K", "rt", 1, &["R"], json!({"defaults": {"timeout": "5s"}}))
        .graph();
    let topology = graph.topology(None, None);
    let dot = topology.to_dot();
    for line in [
        "subgraph \"cluster_infra\"",
        "label=\"GatewayClass\"",
        "label=\"BackendRef\"",
        "targets #http",
    ] {
        assert!(dot.contains(line), "{line} in\n{dot}");
    }
    let mermaid = topology.to_mermaid();
    assert!(
        mermaid.starts_with("flowchart BT\n") && mermaid.contains("classDef beaten"),
        "{mermaid}"
    );
    let around = graph.topology(None, Some(&reference("Service/s")));
    assert_eq!(
        around.nodes.len(),
        topology.nodes.len(),
        "everything is above this Service"
    );
    let away = graph.topology(Some("elsewhere"), None);
    assert!(away.nodes.is_empty(), "{away:?}");
}
