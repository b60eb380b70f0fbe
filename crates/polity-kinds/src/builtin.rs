//! The built-in kinds, from a table.

use std::sync::LazyLock;

use polity_core::{GroupVersion, GroupVersionKind};
use serde_json::Value;

use super::schemas;
use super::{GenerationRule, KindFlags, ResourceDef, Scope, Subresource};

static RESOURCES: LazyLock<Vec<ResourceDef>> =
    LazyLock::new(|| rows().map(|row| resource(&row)).collect());

/// Every built-in resource, in the order of the table. Built once per process.
pub fn builtin_resources() -> &'static [ResourceDef] {
    &RESOURCES
}

/// The kinds of the table, without the cost of their schemas.
pub(crate) fn kinds() -> impl Iterator<Item = GroupVersionKind> {
    rows().map(|row| row.gvk())
}

/// Whether a group and version has built-in kinds.
pub fn is_builtin_version(group: &str, version: &str) -> bool {
    let mut all = builtin_resources().iter().map(|def| &def.gvk);
    all.any(|gvk| gvk.group == group && gvk.version == version)
}

/// The value of a selectable field for field selectors. An absent field is the empty string.
///
/// `field` is a name of [`ResourceDef::selectable_fields`]. A few of them are not paths of the object.
pub fn selectable_value(def: &ResourceDef, object: &Value, field: &str) -> String {
    let at = |path: &str| {
        path.split('.')
            .try_fold(object, |value, key| value.get(key))
            .map(text_of)
    };
    let first_of = |paths: [&str; 2]| {
        paths
            .into_iter()
            .filter_map(at)
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    };
    match (def.gvk.group.as_str(), def.gvk.kind.as_str(), field) {
        ("", "Event", "source") => first_of(["source.component", "reportingComponent"]),
        ("events.k8s.io", "Event", "source") => {
            first_of(["deprecatedSource.component", "reportingController"])
        }
        ("batch", "Job", "status.successful") => {
            at("status.succeeded").unwrap_or_else(|| "0".to_owned())
        }
        ("", "Pod", "status.podIP" | "status.podIPs") => {
            let ips = object.pointer("/status/podIPs/0/ip").map(text_of);
            ips.or_else(|| at("status.podIP")).unwrap_or_default()
        }
        ("", "Pod", "spec.hostNetwork") | ("", "Node", "spec.unschedulable") => {
            at(field).unwrap_or_else(|| "false".to_owned())
        }
        ("", "ReplicationController", "status.replicas") => {
            at(field).unwrap_or_else(|| "0".to_owned())
        }
        _ => at(field).unwrap_or_default(),
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
        other => other.to_string(),
    }
}

/// One line of the table.
struct Row {
    columns: [&'static str; 10],
}

fn rows() -> impl Iterator<Item = Row> {
    include_str!("builtin.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let columns: Vec<_> = line.split('\t').collect();
            Row {
                columns: columns.try_into().expect("builtin.tsv has ten columns"),
            }
        })
}

impl Row {
    fn gvk(&self) -> GroupVersionKind {
        let gv: GroupVersion = self.columns[0]
            .parse()
            .expect("the first column is an apiVersion");
        GroupVersionKind::new(gv.group, gv.version, self.columns[2])
    }

    /// The items of a column; `-` is none.
    fn list(&self, column: usize) -> impl Iterator<Item = &'static str> {
        self.columns[column]
            .split([' ', ','])
            .filter(|item| *item != "-")
    }

    fn names(&self, column: usize) -> Vec<String> {
        self.list(column).map(str::to_owned).collect()
    }
}

fn resource(row: &Row) -> ResourceDef {
    let gvk = row.gvk();
    let plural = row.columns[1];
    let bucket = match gvk.group.as_str() {
        // Both Event groups are one store.
        "" | "events.k8s.io" => plural.to_owned(),
        group => format!("{plural}.{group}"),
    };
    ResourceDef {
        plural: plural.to_owned(),
        singular: gvk.kind.to_lowercase(),
        list_kind: format!("{}List", gvk.kind),
        scope: if row.columns[3] == "Cluster" {
            Scope::Cluster
        } else {
            Scope::Namespaced
        },
        short_names: row.names(4),
        categories: row.names(5),
        subresources: row.list(6).map(subresource).collect(),
        generation: generation(row.columns[7]),
        flags: flags(row),
        selectable_fields: row.names(9),
        schema: schemas::schema_of(&gvk),
        bucket: bucket.into(),
        gvk,
    }
}

fn subresource(name: &str) -> Subresource {
    match name {
        "eviction" => Subresource::Eviction,
        "finalize" => Subresource::Finalize,
        "log" => Subresource::Log,
        "scale" => Subresource::Scale,
        "status" => Subresource::Status,
        "token" => Subresource::Token,
        other => unreachable!("builtin.tsv names subresource {other}"),
    }
}

fn generation(rule: &str) -> GenerationRule {
    match rule {
        "-" => GenerationRule::Never,
        "fixed" => GenerationRule::Fixed,
        "spec+annotations" => GenerationRule::SpecOrAnnotations,
        "content+labels" => GenerationRule::ContentOrLabels,
        field => GenerationRule::On(vec![field.to_owned()]),
    }
}

fn flags(row: &Row) -> KindFlags {
    let has = |flag: &str| row.list(8).any(|given| given == flag);
    KindFlags {
        update_needs_version: has("RV"),
        create_on_update: has("CoU"),
        delete_returns_object: has("Obj"),
        no_delete_collection: has("noDC"),
        create_only: has("create-only"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(group: &str, plural: &str) -> &'static ResourceDef {
        builtin_resources()
            .iter()
            .find(|def| def.gvk.group == group && def.plural == plural)
            .unwrap()
    }

    #[test]
    fn the_table_reads_as_written() {
        assert_eq!(builtin_resources().len(), 50);
        let deployments = find("apps", "deployments");
        assert_eq!(
            deployments.gvk,
            GroupVersionKind::new("apps", "v1", "Deployment")
        );
        assert_eq!(deployments.singular, "deployment");
        assert_eq!(deployments.list_kind, "DeploymentList");
        assert_eq!(deployments.short_names, ["deploy"]);
        assert_eq!(deployments.categories, ["all"]);
        assert_eq!(
            deployments.subresources,
            [Subresource::Scale, Subresource::Status]
        );
        assert_eq!(deployments.generation, GenerationRule::SpecOrAnnotations);
        assert_eq!(&*deployments.bucket, "deployments.apps");
        let pods = find("", "pods");
        assert_eq!(
            pods.subresources,
            [Subresource::Eviction, Subresource::Log, Subresource::Status]
        );
        assert!(pods.flags.delete_returns_object && !pods.flags.create_on_update);
        assert_eq!(
            find("apiextensions.k8s.io", "customresourcedefinitions").short_names,
            ["crd", "crds"]
        );
        assert!(
            find("authorization.k8s.io", "subjectaccessreviews")
                .flags
                .create_only
        );
        assert!(find("", "namespaces").flags.no_delete_collection);
        assert!(
            find("coordination.k8s.io", "leases")
                .flags
                .update_needs_version
        );
        assert_eq!(
            find("discovery.k8s.io", "endpointslices").generation,
            GenerationRule::ContentOrLabels
        );
    }

    #[test]
    fn both_event_groups_share_a_bucket() {
        assert_eq!(
            find("", "events").bucket,
            find("events.k8s.io", "events").bucket
        );
    }

    #[test]
    fn selectable_fields_compare_as_text() {
        let cases = [
            ("", "pods", "spec.hostNetwork", json!({}), "false"),
            (
                "",
                "pods",
                "spec.hostNetwork",
                json!({"spec": {"hostNetwork": true}}),
                "true",
            ),
            (
                "",
                "pods",
                "spec.nodeName",
                json!({"spec": {"nodeName": "n"}}),
                "n",
            ),
            (
                "",
                "pods",
                "status.podIP",
                json!({"status": {"podIPs": [{"ip": "10.0.0.1"}]}}),
                "10.0.0.1",
            ),
            (
                "",
                "events",
                "source",
                json!({"reportingComponent": "r"}),
                "r",
            ),
            (
                "",
                "events",
                "source",
                json!({"source": {"component": "s"}, "reportingComponent": "r"}),
                "s",
            ),
            ("", "events", "involvedObject.namespace", json!({}), ""),
            (
                "batch",
                "jobs",
                "status.successful",
                json!({"status": {"succeeded": 2}}),
                "2",
            ),
            ("batch", "jobs", "status.successful", json!({}), "0"),
            ("", "secrets", "type", json!({"type": "Opaque"}), "Opaque"),
        ];
        for (group, plural, field, object, expected) in cases {
            let def = find(group, plural);
            assert!(
                def.selectable_fields.iter().any(|known| known == field),
                "{field}"
            );
            assert_eq!(
                selectable_value(def, &object, field),
                expected,
                "{plural} {field}"
            );
        }
    }
}
