//! A minimal OpenAPI v3: only what `kubectl` needs to validate and explain (docs/spec/apiserver.md#4).

use std::collections::BTreeMap;
use std::sync::Arc;

use polity_core::GroupVersion;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::registry::Registry;
use crate::served::ServedResource;
use polity_kinds::schemas;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The documents of everything served.
#[derive(Debug, Default)]
pub struct Documents {
    /// By key: `api/v1`, `apis/{group}/{version}`.
    documents: BTreeMap<String, Document>,
}

/// One group-version's document.
#[derive(Debug, Clone)]
pub struct Document {
    pub body: Arc<[u8]>,
    /// Changes whenever the body does.
    pub hash: String,
}

/// `/openapi/v2` in protobuf, with only a header.
///
/// kubectl requests it before it creates objects that v3 does not describe, such as a `v1` List, and fails without it.
/// Kinds that it does not contain are sent to the server unchecked.
pub fn v2_protobuf() -> Vec<u8> {
    const TITLE: &[u8] = b"Kubernetes";
    const VERSION: &[u8] = b"v1.37";
    let field = |number: u8, text: &[u8]| [&[number << 3 | 2, text.len() as u8], text].concat();
    let info = [field(1, TITLE), field(2, VERSION)].concat();
    [field(1, b"2.0"), field(2, &info)].concat()
}

/// [`v2_protobuf`] as JSON.
pub fn v2_json() -> Value {
    json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.37"}, "paths": {}, "definitions": {}})
}

impl Documents {
    /// Writes the documents of a registry.
    pub fn of(registry: &Registry) -> Self {
        let mut documents = BTreeMap::new();
        for group in registry.groups() {
            for version in &group.versions {
                let gv = GroupVersion::new(group.name.as_str(), version.as_str());
                let Some(resources) = registry.resources(&group.name, version) else {
                    continue;
                };
                let body = serde_json::to_vec(&document(&gv, resources.values()))
                    .expect("a JSON value serialises into memory");
                let hash = hash(&body);
                documents.insert(
                    key(&gv),
                    Document {
                        body: body.into(),
                        hash,
                    },
                );
            }
        }
        Self { documents }
    }

    pub fn index(&self) -> Value {
        let paths: Map<String, Value> = self
            .documents
            .iter()
            .map(|(key, document)| (key.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{key}?hash={}", document.hash)})))
            .collect();
        json!({"paths": paths})
    }

    pub fn get(&self, key: &str) -> Option<&Document> {
        self.documents.get(key)
    }
}

fn key(gv: &GroupVersion) -> String {
    if gv.group.is_empty() {
        format!("api/{}", gv.version)
    } else {
        format!("apis/{gv}")
    }
}

/// A hash in capital hexadecimal, as real servers print it.
pub fn hash(body: &[u8]) -> String {
    let mut hex = String::with_capacity(32);
    for byte in Sha256::digest(body).iter().take(16) {
        hex.push_str(&format!("{byte:02X}"));
    }
    hex
}

fn document<'a>(
    gv: &GroupVersion,
    resources: impl Iterator<Item = &'a Arc<ServedResource>>,
) -> Value {
    let mut schemas: Map<String, Value> = Map::new();
    let mut paths: Map<String, Value> = Map::new();
    let mut builtin = false;
    for def in resources {
        paths.extend(paths_of(def));
        if def.is_custom() {
            let (name, schema) = custom_component(def);
            schemas.insert(name, schema);
        } else {
            builtin = true;
        }
    }
    let components = if builtin {
        schemas::openapi_components(gv)
    } else {
        schemas::metadata_components()
    };
    schemas.extend(components);
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": crate::version::GIT_VERSION},
        "paths": paths, "components": {"schemas": schemas},
    })
}

fn component_name(def: &ServedResource) -> String {
    if !def.is_custom() {
        return schemas::component_name(&def.gvk);
    }
    let mut parts: Vec<&str> = def.gvk.group.split('.').collect();
    parts.reverse();
    format!("{}.{}.{}", parts.join("."), def.gvk.version, def.gvk.kind)
}

fn custom_component(def: &ServedResource) -> (String, Value) {
    let mut schema = def
        .custom
        .as_ref()
        .map(|custom| custom.compiled.openapi.clone())
        .unwrap_or_default();
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true)) {
        schema = json!({"type": "object", "description": schema.get("description"), "x-kubernetes-preserve-unknown-fields": true});
    }
    if !schema.is_object() {
        schema = json!({"type": "object"});
    }
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let text = |description: &str| json!({"type": "string", "description": description});
    schema["properties"]["apiVersion"] =
        text("APIVersion defines the versioned schema of this representation of an object.");
    schema["properties"]["kind"] =
        text("Kind is a string value representing the REST resource this object represents.");
    schema["properties"]["metadata"] = json!({
        "description": "Standard object's metadata.",
        "allOf": [{"$ref": format!("#/components/schemas/{META}")}],
    });
    schema["x-kubernetes-group-version-kind"] = json!([gvk(def)]);
    (component_name(def), schema)
}

fn gvk(def: &ServedResource) -> Value {
    json!({"group": def.gvk.group, "version": def.gvk.version, "kind": def.gvk.kind})
}

/// Enough of the paths for validation and `explain`.
fn paths_of(def: &ServedResource) -> Vec<(String, Value)> {
    let gv = def.gvk.group_version();
    let root = if gv.group.is_empty() {
        format!("/api/{gv}")
    } else {
        format!("/apis/{gv}")
    };
    let root = if def.is_namespaced() {
        format!("{root}/namespaces/{{namespace}}")
    } else {
        root
    };
    let reference = json!({"$ref": format!("#/components/schemas/{}", component_name(def))});
    let content = json!({"application/json": {"schema": reference}});
    let operation = |action: &str| {
        json!({
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk(def),
            "responses": {"200": {"description": "OK", "content": content}},
        })
    };
    let writing = |action: &str| {
        let mut operation = operation(action);
        operation["parameters"] = json!([
            {"name": "dryRun", "in": "query", "schema": {"type": "string"}},
            {"name": "fieldManager", "in": "query", "schema": {"type": "string"}},
            {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}},
        ]);
        operation["requestBody"] = json!({"content": content});
        operation
    };
    let mut collection = json!({"post": writing("post")});
    if def.flags.create_only {
        return vec![(format!("{root}/{}", def.plural), collection)];
    }
    collection["get"] = operation("list");
    let object = json!({
        "get": operation("get"), "put": writing("put"), "patch": writing("patch"), "delete": operation("delete"),
    });
    vec![
        (format!("{root}/{}", def.plural), collection),
        (format!("{root}/{}/{{name}}", def.plural), object),
    ]
}
