//! Rows of nodes, storage, configuration and events.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Row, join, or, scalar, text};

pub(super) fn node(row: &Row<'_>) -> Vec<Value> {
    let ready = row
        .list("status.conditions")
        .iter()
        .find(|condition| text(condition, "type") == "Ready");
    let mut status = vec![match ready {
        Some(condition) if text(condition, "status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }];
    if row.at("spec.unschedulable") == &json!(true) {
        status.push("SchedulingDisabled");
    }
    let address = |ty: &str| {
        let found = row
            .list("status.addresses")
            .iter()
            .find(|address| text(address, "type") == ty);
        json!(found.map_or("<none>", |address| text(address, "address")))
    };
    let info =
        |field: &str| or(row.text(&format!("status.nodeInfo.{field}")), "<unknown>").to_owned();
    let architecture = row.text("status.nodeInfo.architecture");
    let kernel = match architecture {
        "" => info("kernelVersion"),
        architecture => format!("{} ({architecture})", info("kernelVersion")),
    };
    vec![
        row.name(),
        json!(status.join(",")),
        json!(or(&join(node_roles(row), ","), "<none>")),
        row.age(),
        row.text_cell("status.nodeInfo.kubeletVersion"),
        address("InternalIP"),
        address("ExternalIP"),
        json!(info("osImage")),
        json!(kernel),
        json!(info("containerRuntimeVersion")),
    ]
}

fn node_roles<'a>(row: &Row<'a>) -> BTreeSet<&'a str> {
    let labels = row.at("metadata.labels").as_object().into_iter().flatten();
    let roles = labels.filter_map(|(key, value)| match key.as_str() {
        "kubernetes.io/role" => value.as_str(),
        key => key.strip_prefix("node-role.kubernetes.io/"),
    });
    roles.filter(|role| !role.is_empty()).collect()
}

pub(super) fn config_map(row: &Row<'_>) -> Vec<Value> {
    let n_keys = ["data", "binaryData"]
        .into_iter()
        .filter_map(|field| row.at(field).as_object())
        .map(serde_json::Map::len);
    vec![row.name(), json!(n_keys.sum::<usize>()), row.age()]
}

pub(super) fn secret(row: &Row<'_>) -> Vec<Value> {
    let n_keys = row.at("data").as_object().map_or(0, serde_json::Map::len);
    vec![row.name(), row.text_cell("type"), json!(n_keys), row.age()]
}

/// A core/v1 Event.
pub(super) fn event(row: &Row<'_>) -> Vec<Value> {
    let first = row.since(or(row.text("firstTimestamp"), row.text("eventTime")));
    let mut last = match row.text("lastTimestamp") {
        "" => first.clone(),
        time => row.since(time),
    };
    let mut count = row.int("count").max(1);
    if row.at("series").is_object() {
        last = row.since(row.text("series.lastObservedTime"));
        count = row.int("series.count");
    }
    let kind = row.text("involvedObject.kind").to_lowercase();
    let object = match row.text("involvedObject.name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = or(row.text("source.component"), row.text("reportingComponent"));
    let instance = or(row.text("source.host"), row.text("reportingInstance"));
    let source = if instance.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {instance}")
    };
    vec![
        json!(last),
        row.text_cell("type"),
        row.text_cell("reason"),
        json!(object),
        row.text_cell("involvedObject.fieldPath"),
        json!(source),
        json!(row.text("message").trim()),
        json!(first),
        json!(count),
        row.name(),
    ]
}

pub(super) fn persistent_volume(row: &Row<'_>) -> Vec<Value> {
    let claim = row.at("spec.claimRef");
    let claim = if claim.is_object() {
        format!("{}/{}", text(claim, "namespace"), text(claim, "name"))
    } else {
        String::new()
    };
    vec![
        row.name(),
        json!(or(row.text("spec.capacity.storage"), "0")),
        json!(access_modes(row.list("spec.accessModes"))),
        row.text_cell("spec.persistentVolumeReclaimPolicy"),
        phase(row),
        json!(claim),
        json!(storage_class_of(row)),
        unset(row, "spec.volumeAttributesClassName"),
        row.text_cell("status.reason"),
        row.age(),
        unset(row, "spec.volumeMode"),
    ]
}

pub(super) fn persistent_volume_claim(row: &Row<'_>) -> Vec<Value> {
    let volume = row.text("spec.volumeName");
    let (capacity, modes) = match volume {
        "" => ("", String::new()),
        _ => (
            or(row.text("status.capacity.storage"), "0"),
            access_modes(row.list("status.accessModes")),
        ),
    };
    vec![
        row.name(),
        phase(row),
        json!(volume),
        json!(capacity),
        json!(modes),
        json!(storage_class_of(row)),
        unset(row, "spec.volumeAttributesClassName"),
        row.age(),
        unset(row, "spec.volumeMode"),
    ]
}

fn phase(row: &Row<'_>) -> Value {
    json!(if row.is_terminating() {
        "Terminating"
    } else {
        row.text("status.phase")
    })
}

fn unset(row: &Row<'_>, path: &str) -> Value {
    json!(row.at(path).as_str().unwrap_or("<unset>"))
}

/// The class, which old objects carry in an annotation.
fn storage_class_of<'a>(row: &Row<'a>) -> &'a str {
    let annotation = row
        .at("metadata.annotations")
        .get("volume.beta.kubernetes.io/storage-class");
    annotation
        .and_then(Value::as_str)
        .unwrap_or_else(|| row.text("spec.storageClassName"))
}

fn access_modes(modes: &[Value]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    join(
        short
            .iter()
            .filter(|(mode, _)| modes.contains(&json!(mode)))
            .map(|(_, short)| *short),
        ",",
    )
}

pub(super) fn storage_class(row: &Row<'_>) -> Vec<Value> {
    let annotations = row.at("metadata.annotations");
    let keys = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    let is_default = keys
        .iter()
        .any(|key| annotations.get(*key) == Some(&json!("true")));
    let name = row.text("metadata.name");
    vec![
        json!(if is_default {
            format!("{name} (default)")
        } else {
            name.to_owned()
        }),
        row.text_cell("provisioner"),
        json!(or(row.text("reclaimPolicy"), "Delete")),
        json!(or(row.text("volumeBindingMode"), "Immediate")),
        json!(row.at("allowVolumeExpansion").as_bool().unwrap_or_default()),
        row.age(),
    ]
}

pub(super) fn resource_quota(row: &Row<'_>) -> Vec<Value> {
    let used = row.at("status.used");
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in row.at("status.hard").as_object().into_iter().flatten() {
        let amount = used.get(resource).map_or_else(|| "0".to_owned(), scalar);
        let column = if resource.starts_with("limits.") {
            &mut limits
        } else {
            &mut requests
        };
        column.push(format!("{resource}: {amount}/{}", scalar(hard)));
    }
    vec![
        row.name(),
        json!(requests.join(", ")),
        json!(limits.join(", ")),
        row.age(),
    ]
}
