//! Gateway API's own CRDs and examples, from its Go module: every kind is read, nothing is misunderstood.

use std::path::{Path, PathBuf};

use polity_attach::{Class, Graph, StatusForm};
use serde_json::{Value, json};

use crate::world::{Fixture, reference};

/// The folder of the module.
fn module() -> Option<PathBuf> {
    peers::modules::module_or_skip(peers::modules::GATEWAY_API)
}

/// Every document of every YAML file below a folder, and how many could not be read.
fn documents(folder: &Path) -> Vec<Value> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut documents = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for part in text.split("\n---") {
            if let Ok(value) = serde_saphyr::from_str::<Value>(part.trim_start_matches('-'))
                && value.is_object()
            {
                documents.push(value);
            }
        }
    }
    documents
}

#[test]
fn its_crds_and_examples_are_read() {
    let Some(module) = module() else { return };
    let mut objects = documents(&module.join("config/crd/experimental"));
    let n_crds = objects.len();
    assert!(n_crds > 10, "{n_crds} CRDs");
    objects.extend(documents(&module.join("examples")));
    let graph = Graph::of(objects);
    let tls = graph
        .kind("gateway.networking.k8s.io", "BackendTLSPolicy")
        .expect("it is labelled");
    assert_eq!(
        (tls.class, tls.strategy),
        (Class::Direct, polity_attach::Strategy::None)
    );
    assert_eq!(tls.status_form, StatusForm::Ancestors { max: 16 });
    assert!(!tls.managed, "another controller owns it");
    let grave: Vec<String> = graph
        .findings()
        .into_iter()
        .filter(|finding| finding.severity == polity_attach::Severity::Error)
        .map(|finding| finding.message)
        .collect();
    assert_eq!(grave, Vec::<String>::new());
    assert!(graph.size().objects > n_crds + 20, "{:?}", graph.size());
    graph.issues();
}

#[test]
fn its_crds_with_our_kinds_give_the_worked_cases() {
    let Some(module) = module() else { return };
    let mut world = Fixture::new()
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
            json!({"defaults": {"timeout": "5s", "retries": 2}}),
        );
    world
        .objects
        .extend(documents(&module.join("config/crd/standard")));
    let graph = world.graph();
    assert_eq!(
        graph.effective(&reference("Service/s"), None)[0].values,
        json!({"timeout": "20s", "retries": 2})
    );
    assert_eq!(
        graph.effective_policy_stanza(&reference("Gateway/g")),
        None,
        "no published CRD has the field"
    );
}
