//! The commands on the samples that the guide walks through.

use jiff::Timestamp;
use polity_attach::{Graph, ObjectRef, put_in_namespace};
use polity_core::selector::LabelSelector;
use serde_json::{Value, json};

use super::get::Listing;
use super::{affects, analyze, describe, effective, explain, get, impact};
use crate::exit::{Exit, hint_of};
use crate::output::Paint;
use polity_source::Manifests;
use polity_source::attachment::Names;

fn samples() -> Vec<Value> {
    let texts = [
        include_str!("../../../../docs/samples/attachment/kinds.yaml"),
        include_str!("../../../../docs/samples/attachment/shop.yaml"),
        include_str!("../../../../docs/samples/attachment/policies.yaml"),
    ];
    let manifests = Manifests::from_text("samples.yaml", &texts.join("\n---\n"));
    assert_eq!(manifests.problems, Vec::new());
    let mut objects: Vec<Value> = manifests
        .documents
        .into_iter()
        .map(|document| document.object)
        .collect();
    put_in_namespace(&mut objects, "default");
    objects
}

fn now() -> Timestamp {
    "2026-05-01T10:00:00Z".parse().unwrap()
}

fn named(graph: &Graph, text: &str) -> ObjectRef {
    Names::of(graph).object(graph, text, "shop").unwrap()
}

#[test]
fn effective_shows_fields_with_their_sources() {
    let graph = Graph::of(samples());
    let results = graph.effective(&named(&graph, "svc/cart"), None);
    let text: Vec<String> = results
        .iter()
        .map(|result| effective::table(result, Paint::plain()))
        .collect();
    insta::assert_snapshot!(text.join("\n"));
    let names = Names::of(&graph);
    let through = names
        .through(&graph, "Gateway/infra/edge#https", "shop")
        .unwrap();
    let contexts: usize = graph
        .effective(&named(&graph, "service/cart"), Some(&through))
        .iter()
        .filter(|result| result.kind == "TimeoutPolicy")
        .map(|result| result.contexts.len())
        .sum();
    assert_eq!(contexts, 1, "one path over that listener");
}

#[test]
fn explain_names_the_policy_that_beat_the_shop() {
    let graph = Graph::of(samples());
    let explanation = graph
        .explain(&named(&graph, "service/cart"), None, now())
        .unwrap();
    insta::assert_snapshot!(explain::table(
        &explanation,
        explain::Columns::Usual,
        now(),
        Paint::plain()
    ));
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["kind"], "Explanation");
    assert_eq!(json["policies"][0]["acts"], "yes");
    let none = graph
        .explain(&named(&graph, "gatewayclass/edge"), None, now())
        .unwrap();
    assert!(
        explain::table(&none, explain::Columns::Usual, now(), Paint::plain())
            .contains("no policy acts on this object")
    );
}

#[test]
fn affects_counts_by_kind_and_namespace() {
    let graph = Graph::of(samples());
    let policy = named(&graph, "retrypolicies/all");
    let answer = affects::AffectedObjects {
        affects: graph.affects(&policy),
        objects: Some(graph.affected(&policy)),
        exact: true,
        policy,
    };
    insta::assert_snapshot!(affects::table(&answer));
}

#[test]
fn impact_of_a_deletion_and_of_a_change() {
    let objects = samples();
    let graph = Graph::of(objects.clone());
    let policy = named(&graph, "rep/all");
    let answer = impact::compare(graph, objects.clone(), Vec::new(), vec![policy], false).unwrap();
    insta::assert_snapshot!(impact::table(&answer));
    // What is applied again without a change keeps its age, and changes nothing.
    let same: Vec<Value> = objects
        .iter()
        .filter(|object| object["kind"] == "TimeoutPolicy")
        .cloned()
        .map(|mut object| {
            object["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("creationTimestamp");
            object
        })
        .collect();
    let answer =
        impact::compare(Graph::of(objects.clone()), objects, same, Vec::new(), false).unwrap();
    assert!(answer.impact.is_empty(), "{:?}", answer.impact);
}

fn listing<'a>(graph: &'a Graph, namespace: Option<&'a str>, wide: bool) -> Listing<'a> {
    Listing {
        graph,
        namespace,
        name: None,
        selector: LabelSelector::everything(),
        wide,
        now: now(),
    }
}

#[test]
fn get_lists_policies_and_their_kinds() {
    let graph = Graph::of(samples());
    let names = Names::of(&graph);
    let cases: [(&str, Option<&str>, bool, &[&str]); 7] = [
        (
            "policies",
            None,
            false,
            &[
                "NAMESPACE NAME KIND TARGET(S) POLICY TYPE ACCEPTED AGE",
                "shop all RetryPolicy.samples.polity.dev Namespace/shop Inherited True 89d",
                "shop cart RetryPolicy.samples.polity.dev HTTPRoute.gateway.networking.k8s.io/shop/web#cart Inherited True 30d",
                "infra edge TimeoutPolicy.samples.polity.dev Gateway.gateway.networking.k8s.io/infra/edge Inherited True 111d",
            ],
        ),
        (
            "policycrds",
            None,
            true,
            &[
                "NAME POLICY TYPE SCOPE POLICIES COUNT AGE",
                "retrypolicies.samples.polity.dev Inherited Namespaced 2 <unknown>",
            ],
        ),
        (
            "gateways",
            Some("infra"),
            true,
            &[
                "NAME CLASS ADDRESSES PORTS PROGRAMMED AGE POLICIES HTTPROUTES",
                "edge edge 80,443 Unknown <unknown> 1 1",
            ],
        ),
        (
            "httproutes",
            Some("shop"),
            true,
            &["web None 1 Unknown Unknown <unknown> 4"],
        ),
        (
            "services",
            Some("shop"),
            true,
            &[
                "NAME TYPE AGE REFERRED BY ROUTES POLICIES",
                "cart ClusterIP <unknown> shop/web 4",
                "catalogue ClusterIP <unknown> shop/web 3",
            ],
        ),
        (
            "namespaces",
            None,
            true,
            &["infra Active <unknown> 0", "shop Active <unknown> 1"],
        ),
        (
            "gatewayclasses",
            None,
            true,
            &["edge samples.polity.dev/gateway Unknown <unknown> 1"],
        ),
    ];
    for (kind, namespace, wide, expected) in cases {
        let table = listing(&graph, namespace, wide)
            .table(&names, kind)
            .unwrap();
        let lines: Vec<String> = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for line in expected {
            assert!(
                lines.iter().any(|found| found == line),
                "{line:?} in\n{table}"
            );
        }
    }
}

#[test]
fn describe_tells_everything_about_a_route() {
    let graph = Graph::of(samples());
    insta::assert_snapshot!(describe::description(
        &graph,
        &named(&graph, "httproute/web"),
        now()
    ));
}

#[test]
fn analyze_finds_what_is_wrong_and_what_a_file_would_mend() {
    let mut objects = samples();
    assert_eq!(
        Graph::of(objects.clone()).issues(),
        Vec::new(),
        "nothing is wrong with the samples"
    );
    objects.retain(|object| object["metadata"]["name"] != "catalogue");
    objects.push(json!({"apiVersion": "samples.polity.dev/v1alpha1", "kind": "TimeoutPolicy",
        "metadata": {"name": "typo", "namespace": "shop"},
        "spec": {"targetRef": {"group": "", "kind": "Service", "name": "basket"}, "defaults": {"idle": "1s"}}}));
    let mended = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "catalogue", "namespace": "shop"},
                        "spec": {"ports": [{"name": "web", "port": 8080}]}});
    let mut broken = objects
        .iter()
        .find(|object| object["kind"] == "HTTPRoute")
        .unwrap()
        .clone();
    broken["metadata"]["name"] = json!("other");
    broken["spec"]["parentRefs"] = json!([{"name": "nowhere", "namespace": "infra"}]);
    let analysis = analyze::compare(&objects, vec![mended, broken]);
    insta::assert_snapshot!(analyze::table(&analysis, true, Paint::plain()));
}

#[test]
fn names_are_found_by_kind_plural_short_name_and_group() {
    let graph = Graph::of(samples());
    let names = Names::of(&graph);
    for text in [
        "service/cart",
        "Service/cart",
        "services/cart",
        "svc/cart",
        "svc/shop/cart",
    ] {
        assert_eq!(
            names.object(&graph, text, "shop").unwrap().name,
            "cart",
            "{text}"
        );
    }
    for text in [
        "timeoutpolicy/web",
        "timeoutpolicies/web",
        "top/web",
        "timeoutpolicy.samples.polity.dev/web",
    ] {
        assert_eq!(
            names.object(&graph, text, "shop").unwrap().kind,
            "TimeoutPolicy",
            "{text}"
        );
    }
    assert!(
        names
            .object(&graph, "service/none", "shop")
            .unwrap_err()
            .to_string()
            .contains("is not found")
    );
    assert!(
        names
            .object(&graph, "timeoutpolice/web", "shop")
            .unwrap_err()
            .to_string()
            .contains("no kind")
    );
    assert!(names.object(&graph, "web", "shop").is_err());
}

#[test]
fn the_schema_of_attachment_config_and_the_engine_know_the_same_fields() {
    let crd = polity_api::crds()
        .into_iter()
        .find(|crd| crd.spec.names.kind == "AttachmentConfig")
        .unwrap();
    let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
    let spec = &schema["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let sections: Vec<&String> = spec.as_object().unwrap().keys().collect();
    assert_eq!(sections, ["hierarchies", "kinds", "virtualKinds"]);
    for field in spec["kinds"]["items"]["properties"]
        .as_object()
        .unwrap()
        .keys()
    {
        let mut kind = json!({"kind": "X"});
        kind[field] = Value::Null;
        let read = polity_attach::Settings::of(&json!({"spec": {"kinds": [kind]}}));
        let unknown = read
            .err()
            .is_some_and(|error| error.contains("unknown field"));
        assert!(
            !unknown,
            "{field} is in the schema and the engine does not know it"
        );
    }
}

/// Three Pods of a Deployment, and a policy on the Deployment that its Pods inherit.
fn workload() -> Vec<Value> {
    let owned = |api: &str, kind: &str, name: &str, owner: (&str, &str, &str)| {
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "shop",
               "ownerReferences": [{"apiVersion": owner.0, "kind": owner.1, "name": owner.2}]}})
    };
    let mut objects = samples();
    objects.push(json!({"apiVersion": "polity.dev/v1alpha1", "kind": "AttachmentConfig", "metadata": {"name": "owners"},
        "spec": {"kinds": [{"group": "samples.polity.dev", "kind": "RetryPolicy", "hierarchy": "owners"}]}}));
    objects.push(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}));
    objects.push(owned(
        "apps/v1",
        "ReplicaSet",
        "web-1",
        ("apps/v1", "Deployment", "web"),
    ));
    for pod in ["web-1-a", "web-1-b", "web-1-c"] {
        objects.push(owned("v1", "Pod", pod, ("apps/v1", "ReplicaSet", "web-1")));
    }
    objects.push(json!({"apiVersion": "samples.polity.dev/v1alpha1", "kind": "RetryPolicy",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"targetRef": {"group": "apps", "kind": "Deployment", "name": "web"}, "overrides": {"attempts": 1}}}));
    objects
}

#[test]
fn explain_follows_owner_references_down() {
    let graph = Graph::of(workload());
    let web = named(&graph, "deployment/web");
    let mut explanation = graph.explain(&web, None, now()).unwrap();
    explanation.owned = Some(graph.owned(&web));
    let text = explain::table(&explanation, explain::Columns::Usual, now(), Paint::plain());
    let (_, owned) = text.split_once("OWNED").unwrap();
    insta::assert_snapshot!(format!("OWNED{owned}"));
    let pod = named(&graph, "pod/web-1-a");
    assert_eq!(graph.owned(&pod), Vec::new());
}

#[test]
fn explain_is_wide_and_drawn_with_the_same_policies() {
    let graph = Graph::of(samples());
    let cart = named(&graph, "service/cart");
    let explanation = graph.explain(&cart, None, now()).unwrap();
    let wide = explain::table(&explanation, explain::Columns::Wide, now(), Paint::plain());
    insta::assert_snapshot!("explain_wide", wide);
    let (dot, mermaid) = (explanation.to_dot(), explanation.to_mermaid());
    insta::assert_snapshot!("explain_dot", dot);
    insta::assert_snapshot!("explain_mermaid", mermaid);
    for policy in &explanation.policies {
        let reference = &policy.reference.object;
        let name = format!("{}/{}", reference.kind, reference.path());
        for (form, text) in [("dot", &dot), ("mermaid", &mermaid)] {
            assert!(text.contains(&name), "{name} in {form}");
        }
        assert!(wide.contains(&reference.path()), "{name} in the table");
    }
}

#[test]
fn explain_says_why_one_policy_does_not_act() {
    let mut objects = samples();
    let other = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other", "namespace": "shop"}});
    let elsewhere = json!({"apiVersion": "samples.polity.dev/v1alpha1", "kind": "TimeoutPolicy",
        "metadata": {"name": "elsewhere", "namespace": "shop"},
        "spec": {"targetRef": {"group": "", "kind": "Service", "name": "other"}, "defaults": {"idle": "1s"}}});
    let mut empty = elsewhere.clone();
    empty["metadata"]["name"] = json!("empty");
    empty["spec"]["defaults"] = json!({});
    objects.extend([other, elsewhere, empty]);
    let graph = Graph::of(objects);
    let cart = named(&graph, "service/cart");
    let why = |policy: &str| {
        let policy = named(&graph, policy);
        let explanation = graph.explain_policy(&cart, &policy, None, now()).unwrap();
        let [entry] = explanation.policies.as_slice() else {
            panic!("one policy was asked for");
        };
        let last = entry.why.last().unwrap();
        format!("{} {} {}", entry.acts, last.step, last.result)
    };
    assert_eq!(why("timeoutpolicy/web"), "yes effective yes");
    assert_eq!(why("timeoutpolicy/elsewhere"), "no reaches no");
    assert_eq!(why("timeoutpolicy/empty"), "no sets no");
}

#[derive(Debug, clap::Parser)]
struct Explain {
    #[command(flatten)]
    args: explain::ExplainArgs,
}

/// What `polity explain` answers to these words, on the samples.
async fn explained(words: &str) -> anyhow::Result<(String, Exit)> {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/samples/attachment");
    let words = ["explain", "-m", samples]
        .into_iter()
        .chain(words.split_whitespace());
    let args = <Explain as clap::Parser>::try_parse_from(words)?.args;
    args.answer(now()).await
}

/// Two admission policies, of which one is about Services, and a configuration policy.
const OTHER_FAMILIES: &str = "
apiVersion: policies.kubewarden.io/v1
kind: ClusterAdmissionPolicy
metadata: {name: services}
spec:
  rules: [{apiGroups: [''], apiVersions: [v1], resources: [services], operations: [CREATE]}]
---
apiVersion: policies.kubewarden.io/v1
kind: ClusterAdmissionPolicy
metadata: {name: pods}
spec:
  rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
---
apiVersion: policy.open-cluster-management.io/v1
kind: ConfigurationPolicy
metadata: {name: c, namespace: shop}
";

#[tokio::test]
async fn explain_takes_an_object_that_is_not_stored_and_says_what_it_leaves_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new.yaml");
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: new}\nspec:\n  parentRefs: [{name: edge, namespace: infra}]\n";
    std::fs::write(&file, route).unwrap();
    let path = file.display().to_string();
    let others = folder.path().join("others.yaml");
    std::fs::write(&others, OTHER_FAMILIES).unwrap();
    let path_of_others = others.display().to_string();
    let fine = |part| Ok((part, Exit::Fine));
    for (words, expected) in [
        (format!("-f {path} -n shop"), fine("shop/new")),
        (
            format!("-f {path} -n shop -o json"),
            fine("\"stored\": false"),
        ),
        (format!("-f {path} -n shop -o dot"), fine("digraph")),
        (format!("-f {path} service/cart -n shop"), fine("shop/cart")),
        (format!("-f {path} httproute/new"), fine("1 policy acts")),
        (
            "service/cart -n shop -o yaml".to_owned(),
            fine("stored: true"),
        ),
        (
            "service/cart -n shop --policy timeoutpolicy/web -o wide".to_owned(),
            fine("PROVENANCE"),
        ),
        (
            "service/cart -n shop --fail-on warn".to_owned(),
            fine("4 policies act"),
        ),
        (
            format!("service/cart -n shop -m {path_of_others}"),
            Ok((
                "missing: 1 configuration policy: this command does not look at them",
                Exit::Incomplete,
            )),
        ),
        (
            format!("service/cart -n shop -m {path_of_others} --family attachment"),
            fine("4 policies act"),
        ),
        (
            format!("service/cart -n shop -m {path_of_others} --family admission,attachment"),
            fine("ClusterAdmissionPolicy.policies.kubewarden.io services"),
        ),
        (
            format!(
                "service/cart -n shop -m {path_of_others} --policy clusteradmissionpolicy/pods -o json"
            ),
            fine("no rule names services"),
        ),
        (
            "service/cart -n shop --policy service/cart".to_owned(),
            Err("is no policy"),
        ),
        ("service/none -n shop".to_owned(), Err("is not found")),
        (String::new(), Err("required arguments")),
        (
            "service/cart --family nonsense".to_owned(),
            Err("invalid value"),
        ),
    ] {
        match (explained(&words).await, expected) {
            (Ok((text, exit)), Ok((part, expected))) => {
                assert_eq!(exit, expected, "{words}");
                assert!(text.contains(part), "{words}: {text}");
            }
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{words}: {error}");
            }
            (outcome, expected) => panic!("{words}: {outcome:?} instead of {expected:?}"),
        }
    }
    std::fs::write(
        &file,
        format!("{route}---\n{}", route.replace("new", "two")),
    )
    .unwrap();
    let two = explained(&format!("-f {path}")).await.unwrap_err();
    assert_eq!(two.to_string(), "the file holds 2 objects");
}

/// `polity get` with these words, on the samples.
async fn got(words: &str) -> get::Answer {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: get::GetArgs,
    }
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/samples/attachment");
    let words = format!("get {words} -m {samples}");
    let line = <Line as clap::Parser>::try_parse_from(words.split(' ')).unwrap();
    line.args.answer(now()).await.unwrap()
}

#[tokio::test]
async fn an_object_that_is_named_and_does_not_exist_is_an_error() {
    for kind in ["policy", "ns", "httproute"] {
        let answer = got(&format!("{kind} nope -n shop")).await;
        assert_eq!(answer.absent, [format!("error: {kind} \"nope\" not found")]);
        assert_eq!((answer.text.as_str(), answer.exit), ("", Exit::Findings));
    }
    let elsewhere = got("service/cart -n infra -o json").await;
    assert_eq!(
        elsewhere.absent,
        ["error: service \"cart\" not found\nhint: there is one in -n shop"]
    );
    let found = got("service cart -n shop").await;
    assert!(found.absent.is_empty() && found.text.contains("cart"));
    assert_eq!(found.exit, Exit::Fine);
    // A list that is empty is no error.
    let none = got("services -n infra").await;
    assert_eq!(
        (none.text.as_str(), none.exit),
        ("no services found", Exit::Fine)
    );
}

#[test]
fn kinds_that_get_does_not_list_lead_to_the_command_that_does() {
    let names = Names::of_objects(&[]);
    let shown = |kind: &str, from_manifests: bool| {
        let error = get::elsewhere(names.kind(kind).unwrap_err(), from_manifests);
        (error.to_string(), hint_of(&error).unwrap_or_default())
    };
    let (pods, hint) = shown("pods", false);
    assert_eq!(
        pods,
        "`polity get` lists policies and what they attach to, not pods"
    );
    assert!(hint.starts_with("use `kubectl get pods`"), "{hint}");
    for kind in ["gateways", "gatewayclasses", "HTTPRoute"] {
        let (message, hint) = shown(kind, false);
        assert!(
            message.contains("Gateway API is not installed"),
            "{message}"
        );
        assert!(hint.contains("polity up --gateway-api"), "{hint}");
    }
    let (manifests, hint) = shown("pods", true);
    assert_eq!(manifests, "no kind is called pods");
    assert!(!hint.contains("kubectl get"), "{hint}");
}

#[test]
fn impact_needs_files_or_objects_to_delete() {
    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        _args: impact::ImpactArgs,
    }
    let parse = |words: &str| <Line as clap::Parser>::try_parse_from(words.split(' '));
    let alone = parse("impact").unwrap_err().to_string();
    assert!(
        alone.contains("--filename <FILE>|--delete <KIND/NAME>"),
        "{alone}"
    );
    for words in [
        "impact -f a.yaml",
        "impact --delete a/b",
        "impact -f a --delete b/c",
    ] {
        assert!(parse(words).is_ok(), "{words}");
    }
}
