//! What is run: a module with settings from the command line, or the policies of a file, manifests or `policies.yml`.

use std::path::Path;

use anyhow::{Context as _, bail};
use polity_eval::{GuestConfig, Mode, PolicyConfig, Settings, SingleConfig, parse_policies};
use polity_fetch::LocalStore;
use serde_json::{Map, Value, json};

use super::reference;
use crate::manifests::print_problems;
use polity_source::{Document, Manifests};

/// The group of the manifests that hold policies.
const GROUP: &str = "policies.kubewarden.io";

/// A policy to run.
#[derive(Debug)]
pub(super) struct Subject {
    /// What to call it.
    pub(super) name: String,
    pub(super) config: PolicyConfig,
    /// Whether what it may read was written down; else the module's own wish is granted.
    pub(super) names_resources: bool,
}

/// The policies of a file, if the text names one that holds policies.
pub(super) fn in_file(text: &str) -> anyhow::Result<Option<Vec<Subject>>> {
    let path = Path::new(text.strip_prefix("file://").unwrap_or(text));
    let is_yaml = path
        .extension()
        .is_some_and(|extension| extension == "yaml" || extension == "yml" || extension == "json");
    if !is_yaml || text.contains("://") && !text.starts_with("file://") {
        return Ok(None);
    }
    let name = path.display().to_string();
    let content = std::fs::read_to_string(path).with_context(|| format!("reading {name}"))?;
    let subjects = from_text(&name, &content)?;
    if subjects.is_empty() {
        bail!("{name} holds no policies");
    }
    Ok(Some(subjects))
}

/// One module, run as it is: its verdict counts, and it may change what it is asked about.
pub(super) fn of_module(
    text: &str,
    settings: Settings,
    store: &LocalStore,
) -> anyhow::Result<Subject> {
    let uri = reference::module(text, store)?.to_string();
    Ok(Subject {
        name: uri.clone(),
        config: PolicyConfig::Single(SingleConfig {
            mode: Mode::Protect,
            allowed_to_mutate: true,
            message: None,
            guest: GuestConfig {
                module: uri,
                settings,
                timeout: None,
                capabilities: None,
                resources: Vec::new(),
            },
        }),
        names_resources: false,
    })
}

fn from_text(name: &str, content: &str) -> anyhow::Result<Vec<Subject>> {
    let manifests = Manifests::from_text(name, content);
    let policies: Vec<&Document> = manifests
        .documents
        .iter()
        .filter(|document| document.kind.group == GROUP && document.object.get("spec").is_some())
        .filter(|document| document.kind.kind != "PolicyServer")
        .collect();
    if policies.is_empty() {
        return from_policies_yml(name, content);
    }
    print_problems(&manifests);
    policies
        .into_iter()
        .map(|document| {
            from_manifest(document)
                .with_context(|| format!("{}: {}", document.origin, document.name()))
        })
        .collect()
}

fn from_policies_yml(name: &str, content: &str) -> anyhow::Result<Vec<Subject>> {
    let policies = parse_policies(content).with_context(|| {
        format!("{name} holds neither manifests of {GROUP} nor a server's policies.yml")
    })?;
    Ok(policies
        .into_iter()
        .map(|(name, config)| Subject {
            name,
            config,
            names_resources: true,
        })
        .collect())
}

/// A manifest says the same as an entry of `policies.yml`, under other names.
fn from_manifest(document: &Document) -> anyhow::Result<Subject> {
    let spec = &document.object["spec"];
    let mut entry = Map::new();
    for (theirs, ours) in [
        ("module", "module"),
        ("mode", "policyMode"),
        ("mutating", "allowedToMutate"),
        ("settings", "settings"),
        ("contextAwareResources", "contextAwareResources"),
        ("message", "message"),
        ("timeoutEvalSeconds", "timeoutEvalSeconds"),
        ("expression", "expression"),
    ] {
        if let Some(value) = spec.get(theirs) {
            entry.insert(ours.to_owned(), value.clone());
        }
    }
    if let Some(Value::Object(members)) = spec.get("policies") {
        let known = [
            "module",
            "settings",
            "contextAwareResources",
            "timeoutEvalSeconds",
        ];
        let member = |member: &Value| -> Value {
            let fields = known
                .iter()
                .filter_map(|&key| Some((key.to_owned(), member.get(key)?.clone())));
            Value::Object(fields.collect())
        };
        let members = members
            .iter()
            .map(|(name, value)| (name.clone(), member(value)));
        entry.insert("policies".to_owned(), Value::Object(members.collect()));
    }
    let name = document.name().to_owned();
    let mut parsed = parse_policies(&json!({ &name: entry }).to_string())?;
    let config = parsed
        .remove(&name)
        .context("the manifest has no metadata.name")?;
    Ok(Subject {
        name,
        config,
        names_resources: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: &str, expected: &[&str]) {
        let subjects = from_text("f.yaml", content).unwrap();
        let seen: Vec<String> = subjects
            .iter()
            .map(|subject| {
                let guests: Vec<String> = subject
                    .config
                    .guests()
                    .map(|(member, guest)| {
                        format!(
                            "{}{} {} {}",
                            member.map(|name| format!("{name}=")).unwrap_or_default(),
                            guest.module,
                            guest.settings.as_raw().get(),
                            guest.resources.len()
                        )
                    })
                    .collect();
                format!("{}: {}", subject.name, guests.join(", "))
            })
            .collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn manifests_of_every_kind() {
        check(
            "apiVersion: policies.kubewarden.io/v1
kind: ClusterAdmissionPolicy
metadata: {name: one}
spec:
  module: registry://h.example/one:v1
  rules: []
  mutating: false
  settings: {a: 1}
  contextAwareResources: [{apiVersion: v1, kind: Pod}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
---
apiVersion: policies.kubewarden.io/v1
kind: AdmissionPolicyGroup
metadata: {name: two, namespace: ns}
spec:
  rules: []
  expression: a() && b()
  message: refused
  policies:
    a: {module: m1, settings: {b: 2}}
    b: {module: m2}
",
            &[
                "one: registry://h.example/one:v1 {\"a\":1} 1",
                "two: a=m1 {\"b\":2} 0, b=m2 {} 0",
            ],
        );
    }

    #[test]
    fn a_servers_file() {
        check(
            "p: {module: m1}\nq: {module: m2}",
            &["p: m1 {} 0", "q: m2 {} 0"],
        );
    }

    #[test]
    fn other_files_are_refused() {
        for text in ["kind: Pod\napiVersion: v1\nmetadata: {name: p}", "- 1"] {
            let error = from_text("f.yaml", text).unwrap_err().to_string();
            assert!(error.starts_with("f.yaml holds neither"), "{error}");
        }
    }
}
