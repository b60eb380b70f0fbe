//! Table output: the columns of `kubectl get` for each kind.
//!
//! Columns are data. Cells are computed from spec and status, as the printers of a real server do.

mod cluster;
mod custom;
mod human;
mod network;
mod pod;
mod policy;
mod workload;

use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

pub use custom::CustomTable;
pub use human::human_duration;

use super::{ResourceDef, events};

/// One entry of `columnDefinitions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    pub name: String,
    #[serde(rename = "type")]
    pub ty: String,
    /// `name` for the column that holds the object's name.
    pub format: String,
    pub description: String,
    /// Above zero: only shown with `-o wide`.
    pub priority: i32,
}

static COLUMNS: LazyLock<HashMap<&'static str, Vec<Column>>> = LazyLock::new(|| {
    let mut by_kind: HashMap<&'static str, Vec<Column>> = HashMap::new();
    let mut current = "";
    for line in include_str!("table.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let columns: Vec<&'static str> = line.split('\t').collect();
        let [kind, name, ty, priority, description] = columns[..] else {
            unreachable!("table.tsv has five columns: {line:?}")
        };
        if !kind.is_empty() {
            current = kind;
        }
        by_kind.entry(current).or_default().push(column(
            name,
            ty,
            i32::from(priority == "1"),
            description,
        ));
    }
    by_kind
});

static PLAIN: LazyLock<Vec<Column>> = LazyLock::new(|| {
    vec![
        column("Name", "string", 0, ""),
        column("Created At", "date", 0, ""),
    ]
});

/// The columns of a built-in kind. Custom resources have a [`CustomTable`].
pub fn columns(def: &ResourceDef) -> &'static [Column] {
    let kind = def.gvk.group_kind().to_string();
    let kind = if kind == "Event.events.k8s.io" {
        "Event"
    } else {
        &kind
    };
    COLUMNS.get(kind).unwrap_or(&PLAIN)
}

/// The cells of one built-in object, one for each of its kind's [`columns`].
pub fn cells(def: &ResourceDef, object: &Value, now: Timestamp) -> Vec<Value> {
    let row = Row { object, now };
    match (def.gvk.group.as_str(), def.gvk.kind.as_str()) {
        ("", "Pod") => pod::pod(&row),
        ("", "PodTemplate") => workload::pod_template(&row),
        ("", "ReplicationController") => workload::replication_controller(&row),
        ("apps", "ReplicaSet") => workload::replica_set(&row),
        ("apps", "Deployment") => workload::deployment(&row),
        ("apps", "StatefulSet") => workload::stateful_set(&row),
        ("apps", "DaemonSet") => workload::daemon_set(&row),
        ("apps", "ControllerRevision") => workload::controller_revision(&row),
        ("batch", "Job") => workload::job(&row),
        ("batch", "CronJob") => workload::cron_job(&row),
        ("", "Service") => network::service(&row),
        ("", "Endpoints") => network::endpoints(&row),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(&row),
        ("networking.k8s.io", "Ingress") => network::ingress(&row),
        ("networking.k8s.io", "IngressClass") => network::ingress_class(&row),
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy(&row),
        ("", "Node") => cluster::node(&row),
        ("", "Namespace") => vec![row.name(), row.text_cell("status.phase"), row.age()],
        ("", "ConfigMap") => cluster::config_map(&row),
        ("", "Secret") => cluster::secret(&row),
        ("", "ServiceAccount") => vec![row.name(), row.age()],
        ("", "Event") => cluster::event(&row),
        ("events.k8s.io", "Event") => {
            let mut core = object.clone();
            events::to_core(&mut core);
            cluster::event(&Row { object: &core, now })
        }
        ("", "PersistentVolume") => cluster::persistent_volume(&row),
        ("", "PersistentVolumeClaim") => cluster::persistent_volume_claim(&row),
        ("storage.k8s.io", "StorageClass") => cluster::storage_class(&row),
        ("", "ResourceQuota") => cluster::resource_quota(&row),
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class(&row),
        ("node.k8s.io", "RuntimeClass") => vec![row.name(), row.text_cell("handler"), row.age()],
        ("policy", "PodDisruptionBudget") => policy::pod_disruption_budget(&row),
        ("autoscaling", "HorizontalPodAutoscaler") => policy::autoscaler(&row),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            policy::role_binding(&row)
        }
        ("coordination.k8s.io", "Lease") => {
            vec![row.name(), row.text_cell("spec.holderIdentity"), row.age()]
        }
        ("admissionregistration.k8s.io", kind) => policy::admission(&row, kind),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            policy::custom_resource_definition(&row)
        }
        _ => vec![row.name(), row.text_cell("metadata.creationTimestamp")],
    }
}

fn column(name: &str, ty: &str, priority: i32, description: &str) -> Column {
    let (format, description) = match name {
        "Name" => (
            "name",
            "Name of the object, unique among its kind in its namespace.",
        ),
        "Age" => ("", "Time since the object was created."),
        "Created At" => ("", "When the object was created."),
        _ => ("", description),
    };
    Column {
        name: name.to_owned(),
        ty: ty.to_owned(),
        format: format.to_owned(),
        description: description.to_owned(),
        priority,
    }
}

/// An object and the time it is shown at.
struct Row<'a> {
    object: &'a Value,
    now: Timestamp,
}

impl<'a> Row<'a> {
    fn at(&self, path: &str) -> &'a Value {
        at(self.object, path)
    }

    fn text(&self, path: &str) -> &'a str {
        text(self.object, path)
    }

    fn int(&self, path: &str) -> i64 {
        int(self.object, path)
    }

    fn list(&self, path: &str) -> &'a [Value] {
        list(self.object, path)
    }

    fn name(&self) -> Value {
        self.text_cell("metadata.name")
    }

    fn text_cell(&self, path: &str) -> Value {
        json!(self.text(path))
    }

    fn age(&self) -> Value {
        json!(self.since(self.text("metadata.creationTimestamp")))
    }

    /// The time since an RFC 3339 text.
    fn since(&self, time: &str) -> String {
        time.parse::<Timestamp>().map_or_else(
            |_| "<unknown>".to_owned(),
            |then| human_duration(then, self.now),
        )
    }

    fn is_terminating(&self) -> bool {
        !self.text("metadata.deletionTimestamp").is_empty()
    }

    /// Whether a condition of `status` is True.
    fn has_condition(&self, ty: &str) -> bool {
        self.list("status.conditions")
            .iter()
            .any(|c| text(c, "type") == ty && text(c, "status") == "True")
    }
}

/// The value at a dotted path; null when there is none.
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.')
        .try_fold(value, |value, key| value.get(key))
        .unwrap_or(&Value::Null)
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

fn int(value: &Value, path: &str) -> i64 {
    at(value, path).as_i64().unwrap_or_default()
}

fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).as_array().map_or(&[], Vec::as_slice)
}

/// The text, or `<none>` (or another placeholder) if it is empty.
fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// A number or text as text; empty for anything else.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => String::new(),
    }
}

fn join<'a>(items: impl IntoIterator<Item = &'a str>, separator: &str) -> String {
    items.into_iter().collect::<Vec<_>>().join(separator)
}

/// `a=b,c=d`, or `<none>`.
fn labels(value: &Value) -> String {
    let pairs: Vec<String> = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", scalar(value)))
        .collect();
    if pairs.is_empty() {
        "<none>".to_owned()
    } else {
        pairs.join(",")
    }
}

#[cfg(test)]
mod tests;
