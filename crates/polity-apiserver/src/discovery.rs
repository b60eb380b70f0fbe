//! Discovery: which groups, versions and resources there are (docs/spec/apiserver.md#3).

use serde_json::{Value, json};

use crate::registry::Registry;
use crate::served::ServedResource;
use polity_kinds::{Scope, Subresource};

/// The verbs of a resource, in alphabetical order.
fn verbs(def: &ServedResource) -> Vec<&'static str> {
    if def.flags.create_only {
        return vec!["create"];
    }
    // Creation is not listed while the definition is being deleted.
    let terminating = def
        .custom
        .as_ref()
        .is_some_and(|custom| custom.is_terminating());
    let order = if def.is_custom() {
        [
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch",
        ]
    } else {
        [
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ]
    };
    order
        .into_iter()
        .filter(|verb| *verb != "deletecollection" || !def.flags.no_delete_collection)
        .filter(|verb| !terminating || !matches!(*verb, "create" | "patch" | "update"))
        .collect()
}

/// A subresource as discovery shows it: name, kind with group and version, verbs.
struct Sub {
    name: &'static str,
    group: String,
    version: String,
    kind: String,
    verbs: Vec<&'static str>,
}

fn subresources(def: &ServedResource) -> Vec<Sub> {
    let own = |name, verbs: &[&'static str]| Sub {
        name,
        group: def.gvk.group.clone(),
        version: def.gvk.version.clone(),
        kind: def.gvk.kind.clone(),
        verbs: verbs.to_vec(),
    };
    let foreign = |name, group: &str, version: &str, kind: &str, verbs: &[&'static str]| Sub {
        name,
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        verbs: verbs.to_vec(),
    };
    let mut subs: Vec<Sub> = def
        .subresources
        .iter()
        .map(|sub| match sub {
            Subresource::Eviction => foreign("eviction", "policy", "v1", "Eviction", &["create"]),
            Subresource::Finalize => own("finalize", &["update"]),
            Subresource::Log => own("log", &["get"]),
            Subresource::Scale => foreign(
                "scale",
                "autoscaling",
                "v1",
                "Scale",
                &["get", "patch", "update"],
            ),
            Subresource::Status => own("status", &["get", "patch", "update"]),
            Subresource::Token => foreign(
                "token",
                "authentication.k8s.io",
                "v1",
                "TokenRequest",
                &["create"],
            ),
        })
        .collect();
    if !def.is_custom() {
        subs.sort_by_key(|sub| sub.name);
    }
    subs
}

/// The aggregated form of `/api` (`core`) or `/apis`.
pub fn aggregated(registry: &Registry, core: bool, version: &str) -> Value {
    let items: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(|group| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> = registry
                        .resources(&group.name, version)
                        .into_iter()
                        .flat_map(|all| all.values())
                        .map(|def| aggregated_resource(def))
                        .collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            let metadata = if core {
                json!({})
            } else {
                json!({"name": group.name})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": items,
    })
}

fn aggregated_resource(def: &ServedResource) -> Value {
    let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut resource = json!({
        "resource": def.plural,
        "responseKind": kind(&def.gvk.group, &def.gvk.version, &def.gvk.kind),
        "scope": if def.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": def.singular,
        "verbs": verbs(def),
    });
    if !def.short_names.is_empty() {
        resource["shortNames"] = json!(def.short_names);
    }
    if !def.categories.is_empty() {
        resource["categories"] = json!(def.categories);
    }
    let subs: Vec<Value> = subresources(def)
        .into_iter()
        .map(|sub| json!({"subresource": sub.name, "responseKind": kind(&sub.group, &sub.version, &sub.kind), "verbs": sub.verbs}))
        .collect();
    if !subs.is_empty() {
        resource["subresources"] = json!(subs);
    }
    resource
}

/// The plain form of `/api`.
pub fn api_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// The plain form of `/apis`.
pub fn group_list(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|group| !group.name.is_empty())
        .map(|g| group_value(&g.name, &g.versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/{group}`.
pub fn group(registry: &Registry, name: &str) -> Option<Value> {
    let group = registry
        .group(name)
        .filter(|group| !group.name.is_empty())?;
    let mut value = group_value(&group.name, &group.versions);
    value["kind"] = json!("APIGroup");
    value["apiVersion"] = json!("v1");
    Some(value)
}

fn group_value(name: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

/// `/api/v1` and `/apis/{group}/{version}`.
pub fn resource_list(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let all = registry.resources(group, version)?;
    let mut resources: Vec<Value> = Vec::new();
    for def in all.values() {
        let mut resource = json!({
            "name": def.plural, "singularName": def.singular, "namespaced": def.is_namespaced(),
            "kind": def.gvk.kind, "verbs": verbs(def),
        });
        if !def.short_names.is_empty() {
            resource["shortNames"] = json!(def.short_names);
        }
        if !def.categories.is_empty() {
            resource["categories"] = json!(def.categories);
        }
        resources.push(resource);
        for sub in subresources(def) {
            let mut resource = json!({
                "name": format!("{}/{}", def.plural, sub.name), "singularName": "",
                "namespaced": def.is_namespaced(), "kind": sub.kind, "verbs": sub.verbs,
            });
            if sub.group != group {
                resource["group"] = json!(sub.group);
                resource["version"] = json!(sub.version);
            }
            resources.push(resource);
        }
    }
    let group_version = polity_core::GroupVersion::new(group, version).to_string();
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}),
    )
}
