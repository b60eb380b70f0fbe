//! What a Pod may tell its process about itself (the downward API).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::config_error;
use crate::pod::{ADDRESS, Unready};

/// The value of a field path such as `metadata.name` or `metadata.labels['app']`.
pub fn field(pod: &Pod, path: &str) -> Result<String, Unready> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    let text = |value: Option<&String>| value.cloned().unwrap_or_default();
    if let Some(value) = subscript(path, "metadata.labels", meta.labels.as_ref()) {
        return Ok(value);
    }
    if let Some(value) = subscript(path, "metadata.annotations", meta.annotations.as_ref()) {
        return Ok(value);
    }
    match path {
        "metadata.name" => Ok(text(meta.name.as_ref())),
        "metadata.namespace" => Ok(text(meta.namespace.as_ref())),
        "metadata.uid" => Ok(text(meta.uid.as_ref())),
        "metadata.labels" => Ok(lines(meta.labels.as_ref())),
        "metadata.annotations" => Ok(lines(meta.annotations.as_ref())),
        "spec.nodeName" => Ok(text(spec.and_then(|spec| spec.node_name.as_ref()))),
        "spec.serviceAccountName" => Ok(service_account(pod).to_owned()),
        "status.podIP" | "status.podIPs" | "status.hostIP" | "status.hostIPs" => Ok(ADDRESS.into()),
        _ => Err(config_error(format!(
            "fieldPath {path:?} is not known here"
        ))),
    }
}

/// Whom a Pod acts as that names nobody.
pub const DEFAULT_ACCOUNT: &str = "default";

/// Whom a Pod acts as.
pub fn service_account(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.service_account_name.as_deref())
        .filter(|name| !name.is_empty())
        .unwrap_or(DEFAULT_ACCOUNT)
}

fn subscript(path: &str, list: &str, map: Option<&BTreeMap<String, String>>) -> Option<String> {
    let key = path
        .strip_prefix(list)?
        .strip_prefix("['")?
        .strip_suffix("']")?;
    Some(
        map.and_then(|map| map.get(key).cloned())
            .unwrap_or_default(),
    )
}

/// Labels and annotations as files hold them: a quoted value a line.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten();
    let lines: Vec<String> = lines
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    lines.join("\n")
}
