//! Policy kinds: labels, lint, settings, and what happens when they change while running (1.1, 4.1, 4.4 to 4.6).

use polity_attach::{Class, Graph, ObjectRef, Severity};
use serde_json::{Value, json};

use crate::world::{Fixture, body, crd, policy, reference, status, value};

fn codes(graph: &Graph) -> Vec<&'static str> {
    graph
        .findings()
        .iter()
        .map(|finding| finding.code)
        .collect()
}

#[test]
fn only_crds_make_policy_kinds() {
    let mut labelled = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "infra"}});
    labelled["metadata"]["labels"] = json!({"gateway.networking.k8s.io/policy": "Direct"});
    let graph = Fixture::default().with(labelled).graph();
    assert_eq!(graph.kinds().count(), 0);
}

#[test]
fn kinds_without_spec_status_or_conditions_are_non_conforming_and_crash_nothing() {
    let no_schema = |crd: &mut Value| {
        let version = crd["spec"]["versions"][0].as_object_mut().unwrap();
        version.remove("schema");
    };
    let no_status = |crd: &mut Value| {
        let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        schema.as_object_mut().unwrap().remove("status");
    };
    let no_conditions = |crd: &mut Value| {
        let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        schema["status"] = json!({"type": "object", "properties": {"phase": {"type": "string"}}});
    };
    type Break = fn(&mut Value);
    let cases: [(&str, Break); 3] = [
        ("no schema", no_schema),
        ("no status", no_status),
        ("no conditions", no_conditions),
    ];
    for (what, break_it) in cases {
        let mut kind = crd("TimeoutPolicy", "Namespaced", "inherited", &body());
        break_it(&mut kind);
        let graph = Fixture::default()
            .with(kind)
            .chain()
            .policy("K", "p", 1, &["G"], json!({"defaults": {"retries": 1}}))
            .graph();
        assert!(
            codes(&graph).contains(&"NonConforming"),
            "{what}: {:?}",
            graph.findings()
        );
        assert_eq!(
            value(&graph, "HTTPRoute/r", None),
            json!({"retries": 1}),
            "{what}: evaluation goes on"
        );
    }
}

#[test]
fn a_labelled_kind_without_target_reference_is_skipped() {
    let mut kind = crd("TimeoutPolicy", "Namespaced", "inherited", &body());
    let spec = &mut kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        ["properties"];
    spec.as_object_mut()
        .unwrap()
        .retain(|name, _| !name.starts_with("target"));
    let graph = Fixture::default().with(kind).graph();
    assert_eq!(graph.kinds().count(), 0);
    assert!(codes(&graph).contains(&"NonConforming"));
}

#[test]
fn a_kind_comes_and_goes_with_its_label() {
    let mut graph = Fixture::new()
        .chain()
        .policy("K", "p", 1, &["G"], json!({"defaults": {"retries": 1}}))
        .graph();
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({"retries": 1}));
    let mut unlabelled = crd("TimeoutPolicy", "Namespaced", "inherited", &body());
    unlabelled["metadata"]["labels"] = json!({});
    graph.apply(unlabelled);
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({}));
    assert!(
        codes(&graph).contains(&"PolicyKindUnknown"),
        "an unlabelled policy is a loud finding"
    );
    graph.apply(crd("TimeoutPolicy", "Namespaced", "inherited", &body()));
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({"retries": 1}));
    graph.delete(&ObjectRef::new(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        None,
        "timeoutpolicys.acme.test",
    ));
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({}),
        "CRD deleted: its policies are gone"
    );
}

#[test]
fn label_values_of_real_clusters_are_understood() {
    let cases = [
        ("inherited", Some(Class::Inherited)),
        ("Inherited", Some(Class::Inherited)),
        ("direct", Some(Class::Direct)),
        ("Direct", Some(Class::Direct)),
        ("true", Some(Class::Direct)),
        ("maybe", None),
    ];
    for (label, expected) in cases {
        let graph = Fixture::default()
            .with(crd("XPolicy", "Namespaced", label, &body()))
            .graph();
        assert_eq!(
            graph.kind("acme.test", "XPolicy").map(|kind| kind.class),
            expected,
            "{label}"
        );
        let expected_code = match label {
            "true" => Some("OldLabel"),
            "maybe" => Some("NonConforming"),
            _ => None,
        };
        assert_eq!(codes(&graph).first().copied(), expected_code, "{label}");
    }
}

#[test]
fn a_kind_whose_name_is_not_that_of_a_policy_is_reported() {
    let cases = [
        ("Timeout", Some(Severity::Warn)),
        ("PolicyTimeout", Some(Severity::Info)),
        ("TimeoutPolicy", None),
    ];
    for (kind, expected) in cases {
        let graph = Fixture::default()
            .with(crd(kind, "Namespaced", "direct", &body()))
            .graph();
        let found = graph
            .findings()
            .iter()
            .find(|finding| finding.code == "KindName")
            .map(|finding| finding.severity);
        assert_eq!(found, expected, "{kind}");
    }
}

#[test]
fn the_class_comes_from_the_kind_and_registration_may_correct_it() {
    let world = Fixture::new()
        .chain()
        .policy("K", "p", 1, &["R"], json!({"timeout": "5s"}));
    assert_eq!(
        value(&world.graph(), "Service/s", None),
        json!({"timeout": "5s"}),
        "inherited: implicit defaults"
    );
    let graph = world
        .config(
            json!({"kinds": [{"group": "acme.test", "kind": "TimeoutPolicy", "class": "Direct"}]}),
        )
        .graph();
    assert_eq!(
        value(&graph, "Service/s", None),
        json!({}),
        "direct: the target alone"
    );
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({"timeout": "5s"}));
}

#[test]
fn an_unlabelled_kind_is_registered_and_one_without_crd_is_a_finding() {
    let mut unlabelled = crd("TimeoutPolicy", "Namespaced", "inherited", &body());
    unlabelled["metadata"]["labels"] = json!({});
    let config =
        json!({"kinds": [{"group": "acme.test", "kind": "TimeoutPolicy", "class": "Inherited"}]});
    let world =
        Fixture::default()
            .chain()
            .policy("K", "p", 1, &["G"], json!({"defaults": {"retries": 1}}));
    let graph = world
        .clone()
        .with(unlabelled)
        .config(config.clone())
        .graph();
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({"retries": 1}));
    let graph = world.clone().config(config).graph();
    assert!(codes(&graph).contains(&"PolicyKindUnknown"));
    let graph = world.graph();
    let finding = graph
        .findings()
        .into_iter()
        .find(|finding| finding.code == "PolicyKindUnknown")
        .unwrap();
    assert_eq!(finding.severity, Severity::Error);
    assert!(finding.message.contains("infra/p"), "{}", finding.message);
}

#[test]
fn two_configs_that_disagree_the_first_by_name_holds() {
    let config = |name: &str, strategy: &str| {
        json!({"apiVersion": "polity.dev/v1alpha1", "kind": "AttachmentConfig", "metadata": {"name": name},
               "spec": {"kinds": [{"group": "acme.test", "kind": "HealthPolicy", "strategy": strategy}]}})
    };
    let graph = Fixture::new()
        .with(config("b", "Fields"))
        .with(config("a", "None"))
        .graph();
    assert_eq!(
        graph.kind("acme.test", "HealthPolicy").unwrap().strategy,
        polity_attach::Strategy::None
    );
    assert!(codes(&graph).contains(&"ConfigConflict"));
    let broken = json!({"apiVersion": "polity.dev/v1alpha1", "kind": "AttachmentConfig", "metadata": {"name": "c"},
                        "spec": {"kindz": []}});
    assert!(codes(&Fixture::new().with(broken).graph()).contains(&"ConfigInvalid"));
}

#[test]
fn targets_and_stanzas_are_read_in_all_their_spellings() {
    for stanza in ["defaults", "default"] {
        let mut spec = json!({});
        spec[stanza] = json!({"retries": 1});
        let graph = Fixture::new()
            .chain()
            .policy("K", "p", 1, &["G"], spec)
            .graph();
        assert_eq!(
            value(&graph, "HTTPRoute/r", None),
            json!({"retries": 1}),
            "{stanza}"
        );
    }
    let graph = Fixture::new()
        .chain()
        .policy(
            "K",
            "p",
            1,
            &["G"],
            json!({"retries": 2, "defaults": {"limit": 1}}),
        )
        .graph();
    assert_eq!(
        value(&graph, "HTTPRoute/r", None),
        json!({"retries": 2, "limit": 1}),
        "fields beside a stanza are defaults"
    );
    let graph = Fixture::new()
        .chain()
        .policy(
            "K",
            "p",
            1,
            &["G"],
            json!({"retries": 2, "defaults": {"retries": 1}}),
        )
        .graph();
    assert_eq!(
        status(&graph, "TimeoutPolicy/p"),
        "Invalid",
        "the same field twice"
    );
    let mut unset = policy(
        "K",
        "p",
        1,
        &["Service/s"],
        json!({"defaults": {"retries": 1}}),
    );
    unset["spec"]["targetRef"]
        .as_object_mut()
        .unwrap()
        .remove("group");
    let graph = Fixture::new().chain().with(unset).graph();
    assert_eq!(
        status(&graph, "TimeoutPolicy/p"),
        "Accepted full",
        "no group is the core group"
    );
    assert!(codes(&graph).contains(&"TargetGroupUnset"));
}

#[test]
fn a_policy_that_is_being_deleted_counts_as_absent() {
    let mut leaving = policy("K", "p", 1, &["G"], json!({"defaults": {"retries": 1}}));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    let graph = Fixture::new().chain().with(leaving).graph();
    assert_eq!(value(&graph, "HTTPRoute/r", None), json!({}));
}

#[test]
fn observed_kinds_the_owners_verdict_counts_on_its_path() {
    let mut kind = crd("TimeoutPolicy", "Namespaced", "inherited", &body());
    kind["metadata"]["annotations"] = json!({});
    let mut refused = policy("K", "p", 1, &["R"], json!({"defaults": {"retries": 1}}));
    refused["status"] = json!({"ancestors": [{
        "ancestorRef": {"name": "g1", "namespace": "infra"}, "controllerName": "acme.test/ctl",
        // Read leniently (trap 12): a generation as a string, no reason.
        "conditions": [{"type": "Accepted", "status": "False", "observedGeneration": "1"}]}]});
    let graph = Fixture::default()
        .with(kind)
        .class()
        .gateway("g1", &["l"])
        .gateway("g2", &["l"])
        .route("r", &["g1", "g2"], &[("-", &[])])
        .with(refused)
        .graph();
    assert_eq!(value(&graph, "HTTPRoute/r", Some("Gateway/g1")), json!({}));
    assert_eq!(
        value(&graph, "HTTPRoute/r", Some("Gateway/g2")),
        json!({"retries": 1})
    );
    let resultant = &graph.effective(&reference("HTTPRoute/r"), None)[0];
    assert_eq!(resultant.basis, "computed");
    let status = graph.policy_status(&reference("TimeoutPolicy/p")).unwrap();
    assert!(
        status.ancestors[0].condition("Programmed").is_none(),
        "Programmed is for managed kinds"
    );
    assert!(
        status.ancestors[0]
            .condition("polity.dev/Effective")
            .is_some()
    );
}

#[test]
fn a_merge_group_of_unlike_schemas_is_a_finding() {
    let joined = |kind: &str| json!({"group": "acme.test", "kind": kind, "mergeGroup": "m"});
    let other = crd(
        "OtherPolicy",
        "Namespaced",
        "direct",
        &json!({"only": {"type": "string"}}),
    );
    let graph = Fixture::new()
        .with(other)
        .config(json!({"kinds": [joined("HealthPolicy"), joined("OtherPolicy")]}))
        .graph();
    assert!(codes(&graph).contains(&"MergeGroupSchemas"));
}

/// 4.5: kinds of others that are known to merge in their own way, as their CRDs are labelled in clusters.
#[test]
fn presets_say_how_kinds_of_others_merge() {
    let gateway = json!({"timeout": "30s", "retries": 3});
    let route = json!({"timeout": "5s"});
    let nearest = json!({"timeout": "5s"});
    let merged = json!({"timeout": "5s", "retries": 3});
    let cases = [
        (
            "gateway.envoyproxy.io",
            "BackendTrafficPolicy",
            None,
            Some(&nearest),
        ),
        (
            "gateway.envoyproxy.io",
            "SecurityPolicy",
            None,
            Some(&nearest),
        ),
        (
            "gateway.envoyproxy.io",
            "EnvoyExtensionPolicy",
            None,
            Some(&nearest),
        ),
        (
            "gateway.envoyproxy.io",
            "ClientTrafficPolicy",
            None,
            Some(&nearest),
        ),
        (
            "gateway.kgateway.dev",
            "TrafficPolicy",
            Some("Direct"),
            Some(&merged),
        ),
        (
            "kuadrant.io",
            "AuthPolicy",
            Some("inherited"),
            Some(&nearest),
        ),
        (
            "kuadrant.io",
            "RateLimitPolicy",
            Some("inherited"),
            Some(&nearest),
        ),
        (
            "kuadrant.io",
            "TokenRateLimitPolicy",
            Some("inherited"),
            Some(&nearest),
        ),
        ("kuadrant.io", "TLSPolicy", Some("direct"), None),
        ("kuadrant.io", "DNSPolicy", Some("direct"), None),
        (
            "gateway.networking.k8s.io",
            "BackendTLSPolicy",
            Some("Direct"),
            None,
        ),
        (
            "gateway.networking.x-k8s.io",
            "XBackendTrafficPolicy",
            Some("Direct"),
            None,
        ),
    ];
    for (group, kind, label, inherited) in cases {
        let mut definition = crd(kind, "Namespaced", "inherited", &body());
        definition["metadata"]["labels"] = match label {
            Some(label) => json!({"gateway.networking.k8s.io/policy": label}),
            None => json!({}),
        };
        definition["spec"]["group"] = json!(group);
        let on = |name: &str, t: u32, target: &str, spec: &serde_json::Value| {
            let mut policy = crate::world::policy(kind, name, t, &[target], spec.clone());
            policy["apiVersion"] = json!(format!("{group}/v1"));
            policy
        };
        let mut graph = Fixture::default()
            .with(definition)
            .chain()
            .with(on("gateway", 1, "G", &gateway))
            .with(on("route", 2, "R", &route))
            .graph();
        let found = value(&graph, "Service/s", None);
        match inherited {
            Some(expected) => assert_eq!(&found, expected, "{kind}.{group}"),
            None => {
                assert_eq!(found, json!({}), "{kind}.{group} acts on its target alone");
                graph.apply(on("second", 3, "R", &json!({"limit": 1})));
                let second = polity_attach::ObjectRef::new(group, kind, Some("infra"), "second");
                let status = graph.policy_status(&second).unwrap();
                let accepted = status.ancestors[0].condition("Accepted").unwrap();
                assert_eq!(
                    accepted.reason, "Conflicted",
                    "{kind}.{group}: one for each target"
                );
            }
        }
    }
}
