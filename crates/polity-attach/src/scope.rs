//! Which kinds are namespaced, as far as files and names show.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde_json::Value;

use crate::object::{group_of, text};

/// Kinds that are cluster-scoped without a CRD to say so.
const CLUSTER_KINDS: [&str; 15] = [
    "Namespace",
    "Node",
    "PersistentVolume",
    "StorageClass",
    "ClusterRole",
    "ClusterRoleBinding",
    "IngressClass",
    "GatewayClass",
    "CustomResourceDefinition",
    "PriorityClass",
    "RuntimeClass",
    "APIService",
    "AttachmentConfig",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
];

/// Puts objects from files that name no namespace into one, as applying them would: those of cluster-scoped kinds stay
/// without.
pub fn put_in_namespace(objects: &mut [Value], namespace: &str) {
    let scopes: BTreeMap<(String, String), bool> = objects
        .iter()
        .filter(|object| text(object, &["kind"]) == Some("CustomResourceDefinition"))
        .filter_map(|crd| {
            let group = text(crd, &["spec", "group"])?.to_owned();
            let kind = text(crd, &["spec", "names", "kind"])?.to_owned();
            Some((
                (group, kind),
                text(crd, &["spec", "scope"]) != Some("Cluster"),
            ))
        })
        .collect();
    for object in objects {
        let Some(kind) = text(object, &["kind"]).map(str::to_owned) else {
            continue;
        };
        let key = (group_of(object).to_owned(), kind);
        let defined = scopes.get(&key).copied();
        let namespaced = defined.unwrap_or_else(|| !is_cluster_kind(&key.0, &key.1));
        let unset = text(object, &["metadata", "namespace"]).is_none_or(str::is_empty);
        if namespaced
            && unset
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("namespace".to_owned(), Value::from(namespace));
        }
    }
}

/// Whether a kind that no definition among the objects speaks of lives outside of namespaces.
pub(crate) fn is_cluster_kind(group: &str, kind: &str) -> bool {
    static KNOWN: LazyLock<HashMap<(String, String), bool>> = LazyLock::new(|| {
        let known = polity_kinds::known();
        known
            .map(|known| ((known.gvk.group, known.gvk.kind), !known.namespaced))
            .collect()
    });
    let known = KNOWN.get(&(group.to_owned(), kind.to_owned())).copied();
    known.unwrap_or_else(|| CLUSTER_KINDS.contains(&kind))
}
