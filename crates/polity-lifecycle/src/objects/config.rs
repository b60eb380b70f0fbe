//! The ConfigMap of a policy server, and the hash of what its replicas read only when they start.

use k8s_openapi::api::core::v1::ConfigMap;
use polity_api::policies::names as known;
use polity_api::policies::v1::{PolicyRevision, PolicyServer};
use serde_json::{Map, Value, json};

use super::{Setup, metadata_of, name_of};
use crate::lifecycle::PolicyKind;
use crate::names;

/// What a policy server is configured with besides its own specification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configs {
    /// The text of its verification config.
    pub verification: Option<String>,
    /// The text of its Sigstore trust config.
    pub sigstore_trust: Option<String>,
}

/// The ConfigMap. Servers read `sources.yml` and `server.yml`; `policies.yml` holds what serves, for scripts that look.
pub fn config_map(server: &PolicyServer, setup: &Setup, serving: &[PolicyRevision]) -> ConfigMap {
    let capabilities = capabilities(server);
    let policies: Map<String, Value> = serving
        .iter()
        .filter_map(|revision| policy(revision, &capabilities))
        .collect();
    let texts = [
        ("policies.yml", Value::Object(policies).to_string()),
        ("sources.yml", sources(server)),
        (
            "server.yml",
            json!({ "namespacedPoliciesCapabilities": capabilities }).to_string(),
        ),
    ];
    ConfigMap {
        metadata: metadata_of(server, setup, names::policy_server(name_of(server))),
        data: Some(texts.map(|(key, text)| (key.to_owned(), text)).into()),
        ..ConfigMap::default()
    }
}

/// The hash of sources, verification and trust: a change of these replaces the pods.
pub fn config_hash(server: &PolicyServer, configs: &Configs) -> String {
    let parts = [
        Some(sources(server)),
        configs.verification.clone(),
        configs.sigstore_trust.clone(),
    ];
    polity_reconcile::name_hash(&json!(parts).to_string(), 16)
}

fn capabilities(server: &PolicyServer) -> Vec<String> {
    let given = server.spec.namespaced_policies_capabilities.clone();
    given.unwrap_or_else(|| vec!["*".to_owned()])
}

fn sources(server: &PolicyServer) -> String {
    let authorities: Map<String, Value> = server
        .spec
        .source_authorities
        .iter()
        .flatten()
        .map(|(host, pems)| {
            let pems: Vec<_> = pems
                .iter()
                .map(|pem| json!({ "type": "Data", "data": pem }))
                .collect();
            (host.clone(), Value::Array(pems))
        })
        .collect();
    json!({
        "insecure_sources": server.spec.insecure_sources.clone().unwrap_or_default(),
        "source_authorities": authorities,
    })
    .to_string()
}

/// The entry of a revision, by its policy's id.
fn policy(revision: &PolicyRevision, namespaced: &[String]) -> Option<(String, Value)> {
    let id = revision
        .metadata
        .annotations
        .as_ref()?
        .get(known::POLICY_ID)?;
    let reference = &revision.spec.object_reference;
    let kind = PolicyKind::parse(&reference.kind)?;
    let spec = revision.spec.data.get("spec")?.as_object()?;
    let capabilities = if kind.is_namespaced() {
        json!(namespaced)
    } else {
        json!(["*"])
    };
    let module = |from: &Map<String, Value>, into: &mut Map<String, Value>| {
        for key in [
            "module",
            "settings",
            "contextAwareResources",
            "timeoutEvalSeconds",
        ] {
            if let Some(value) = from.get(key) {
                into.insert(key.to_owned(), value.clone());
            }
        }
        into.insert("hostCapabilities".to_owned(), capabilities.clone());
    };
    let mut entry = Map::new();
    entry.insert(
        "namespacedName".to_owned(),
        json!({ "Namespace": reference.namespace.as_deref().unwrap_or_default(), "Name": reference.name }),
    );
    entry.insert(
        "policyMode".to_owned(),
        spec.get("mode")
            .cloned()
            .unwrap_or_else(|| json!("protect")),
    );
    if let Some(message) = spec.get("message") {
        entry.insert("message".to_owned(), message.clone());
    }
    match spec
        .get("policies")
        .and_then(Value::as_object)
        .filter(|_| kind.is_group())
    {
        Some(members) => {
            let members: Map<_, _> = members
                .iter()
                .map(|(name, member)| {
                    let mut into = Map::new();
                    module(member.as_object().unwrap_or(&Map::new()), &mut into);
                    (name.clone(), Value::Object(into))
                })
                .collect();
            entry.insert(
                "expression".to_owned(),
                spec.get("expression").cloned().unwrap_or_default(),
            );
            entry.insert("policies".to_owned(), Value::Object(members));
        }
        None => {
            module(spec, &mut entry);
            entry.insert(
                "allowedToMutate".to_owned(),
                spec.get("mutating").cloned().unwrap_or(Value::Bool(false)),
            );
        }
    }
    Some((id.clone(), Value::Object(entry)))
}
