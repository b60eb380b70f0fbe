//! The API server over HTTP, in process: the behaviour in docs/spec/apiserver.md.

#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    reason = "helpers of tests fail as tests do"
)]

mod bodies;
mod concurrency;
mod definitions;
mod events;
mod garbage;
mod generations;
mod hostile;
mod identities;
mod lists;
mod namespaces;
mod shadowing;
mod watches;

use polity_testing::{Http, TestServer};
use serde_json::{Value, json};

/// A collection to which only the test adds objects.
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMESPACES: &str = "/api/v1/namespaces";

/// A server and its administrator.
async fn start() -> (TestServer, Http) {
    let server = TestServer::start().await;
    let http = server.http().await;
    (server, http)
}

/// An object with nothing but a name.
fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// The path of an object in a collection.
fn one(collection: &str, name: &str) -> String {
    format!("{collection}/{name}")
}

/// The names of a list's items, in order.
fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("items is never null");
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

/// The resourceVersion of an object or list.
#[track_caller]
fn version(value: &Value) -> u64 {
    let text = value["metadata"]["resourceVersion"]
        .as_str()
        .expect("a resourceVersion");
    assert!(!text.starts_with('0'), "{text}");
    text.parse().expect("a decimal string")
}

/// Creates an object and returns the stored one.
async fn create(http: &Http, collection: &str, object: &Value) -> Value {
    http.post(collection, object).await.expect(201)
}

/// The definition of a namespaced kind with one version and this schema of `spec`.
fn definition(plural: &str, kind: &str, spec: &Value) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.it.polity.dev")},
        "spec": {
            "group": "it.polity.dev", "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": spec,
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    })
}

/// An object of a kind made by [`definition`].
fn custom(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "it.polity.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// The collection of a kind made by [`definition`].
fn collection(plural: &str) -> String {
    format!("/apis/it.polity.dev/v1/namespaces/default/{plural}")
}
