//! What a server would store after an update, as far as the schema of the kind says: unknown fields are refused,
//! defaults are set, and empty values that mean the same as no value are dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use polity_core::{GroupVersionKind, field};
use polity_kinds::defaults::apply_defaults;
use polity_kinds::schemas as built_in;
use polity_merge::schema::{self, Additional, Schema};
use serde_json::Value;

use crate::manifests::Manifests;

/// The schemas of kinds: those of CRDs among manifests, and those that are built into Kubernetes.
#[derive(Debug)]
pub struct Schemas {
    custom: BTreeMap<GroupVersionKind, Arc<Schema>>,
    /// Made when first needed, because most kinds never are.
    built_in: Mutex<BTreeMap<GroupVersionKind, Option<Arc<Schema>>>>,
}

/// The result of an update.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The update changes nothing.
    Same,
    Different,
    /// The values do not fit the schema.
    Invalid(String),
    UnknownFields(String),
    NoSchema,
}

/// A schema with what kind of server code would read it.
enum Known {
    /// Decoded into a Go type, completed and encoded again: empty lists and maps vanish, defaults appear.
    BuiltIn(Arc<Schema>),
    /// Kept as it is written, but for its metadata.
    Custom(Arc<Schema>),
}

impl Schemas {
    pub fn new(manifests: &Manifests) -> Self {
        let custom = manifests
            .definitions
            .iter()
            .filter_map(|(gvk, definition)| {
                Some((gvk.clone(), Arc::clone(definition.schema.as_ref()?)))
            });
        Self {
            custom: custom.collect(),
            built_in: Mutex::default(),
        }
    }

    /// Compares an object with what it would become.
    pub fn judge(&self, gvk: &GroupVersionKind, current: &Value, updated: &Value) -> Verdict {
        let Some(known) = self.get(gvk) else {
            return Verdict::NoSchema;
        };
        let (before, known_odd) = known.stored(gvk, current);
        let (after, odd) = known.stored(gvk, updated);
        // What the file itself has wrong is not the policy's doing.
        let unknown: Vec<String> = odd
            .iter()
            .filter(|path| !known_odd.contains(path))
            .map(|path| format!("unknown field {path:?}"))
            .collect();
        if !unknown.is_empty() {
            return Verdict::UnknownFields(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {}",
                unknown.join(", "),
                kind = gvk.kind,
                version = gvk.version,
            ));
        }
        if before == after {
            return Verdict::Same;
        }
        match known {
            Known::Custom(schema) => match schema::validate_update(&schema, &after, &before) {
                errors if errors.is_empty() => Verdict::Different,
                errors => Verdict::Invalid(field::join(&errors)),
            },
            Known::BuiltIn(_) => Verdict::Different,
        }
    }

    fn get(&self, gvk: &GroupVersionKind) -> Option<Known> {
        if let Some(schema) = self.custom.get(gvk) {
            return Some(Known::Custom(Arc::clone(schema)));
        }
        let mut made = self.built_in.lock().unwrap_or_else(PoisonError::into_inner);
        let schema = made
            .entry(gvk.clone())
            .or_insert_with(|| built_in::find(gvk));
        schema.clone().map(Known::BuiltIn)
    }
}

impl Known {
    /// The object as a server would keep it, and the paths of the fields it does not know.
    fn stored(&self, gvk: &GroupVersionKind, object: &Value) -> (Value, Vec<String>) {
        let mut object = object.clone();
        let (Self::BuiltIn(schema) | Self::Custom(schema)) = self;
        let unknown = schema::prune(schema, &mut object).to_vec();
        match self {
            Self::BuiltIn(schema) => {
                apply_defaults(gvk, &mut object);
                drop_empty(schema, &mut object);
            }
            Self::Custom(schema) => {
                schema::default(schema, &mut object);
                drop_empty(schema::object_meta(), &mut object["metadata"]);
            }
        }
        (object, unknown)
    }
}

/// Drops nulls, empty lists and empty maps: a Go type does not distinguish them from absent fields. An empty object with fields
/// of its own, such as `emptyDir: {}`, means something and stays.
fn drop_empty(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let other = match schema.additional_properties() {
                Additional::Schema(other) => Some(Arc::clone(other)),
                _ => None,
            };
            fields.retain(|key, value| {
                let Some(inner) = schema.property(key).or(other.as_ref()) else {
                    return !value.is_null();
                };
                drop_empty(inner, value);
                match value {
                    Value::Null => false,
                    Value::Array(items) => !items.is_empty(),
                    Value::Object(fields) => {
                        !fields.is_empty()
                            || !inner.properties().is_empty()
                            || inner.preserve_unknown()
                    }
                    _ => true,
                }
            });
        }
        Value::Array(items) => {
            if let Some(inner) = schema.items() {
                for item in items {
                    drop_empty(inner, item);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
    }

    fn judge(current: Value, updated: Value) -> Verdict {
        let schemas = Schemas::new(&Manifests::default());
        schemas.judge(&GroupVersionKind::new("", "v1", "Pod"), &current, &updated)
    }

    #[test]
    fn other_ways_to_say_nothing_are_the_same() {
        let current = pod(json!({"containers": [{"name": "c"}]}));
        for spec in [
            json!({"containers": [{"name": "c", "env": [], "ports": null}]}),
            json!({"containers": [{"name": "c"}], "nodeSelector": {}, "tolerations": []}),
        ] {
            assert_eq!(
                judge(current.clone(), pod(spec.clone())),
                Verdict::Same,
                "{spec}"
            );
        }
        let mut labelled = current.clone();
        labelled["metadata"]["labels"] = json!({});
        assert_eq!(judge(current, labelled), Verdict::Same);
    }

    #[test]
    fn what_a_server_fills_in_is_the_same() {
        let same = |group: &str, version: &str, kind: &str, given: Value, said: Value| {
            let schemas = Schemas::new(&Manifests::default());
            let gvk = GroupVersionKind::new(group, version, kind);
            let object = |spec: Value| json!({"apiVersion": gvk.api_version(), "kind": kind, "metadata": {"name": "x"}, "spec": spec});
            assert_eq!(
                schemas.judge(&gvk, &object(given), &object(said.clone())),
                Verdict::Same,
                "{kind} {said}"
            );
        };
        let pod = json!({"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}]}]});
        same(
            "",
            "v1",
            "Pod",
            pod.clone(),
            json!({
                "hostNetwork": false,
                "restartPolicy": "Always",
                "dnsPolicy": "ClusterFirst",
                "terminationGracePeriodSeconds": 30,
                "containers": [{
                    "name": "c",
                    "image": "nginx",
                    "imagePullPolicy": "Always",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                }],
            }),
        );
        let deployment = |more: Value| {
            let mut spec = json!({
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
            });
            polity_merge::patch::merge_patch(&mut spec, &more);
            spec
        };
        same(
            "apps",
            "v1",
            "Deployment",
            deployment(json!({})),
            deployment(json!({
                "replicas": 1,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
                "template": {"spec": {"restartPolicy": "Always"}},
            })),
        );
        same(
            "",
            "v1",
            "Service",
            json!({"ports": [{"port": 80}]}),
            json!({"type": "ClusterIP", "sessionAffinity": "None", "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}]}),
        );
        same(
            "batch",
            "v1",
            "CronJob",
            json!({"schedule": "@daily"}),
            json!({"schedule": "@daily", "suspend": false, "concurrencyPolicy": "Allow"}),
        );
        same(
            "",
            "v1",
            "LimitRange",
            json!({"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}),
            json!({"limits": [{"type": "Container", "max": {"memory": "1024Mi"}, "default": {"memory": "1Gi"}}]}),
        );
    }

    #[test]
    fn what_means_something_is_different() {
        let volumes = |volume: Value| pod(json!({"volumes": [volume]}));
        assert_eq!(
            judge(
                volumes(json!({"name": "v"})),
                volumes(json!({"name": "v", "downwardAPI": {}}))
            ),
            Verdict::Different
        );
        assert_eq!(
            judge(pod(json!({"nodeName": "a"})), pod(json!({"nodeName": "b"}))),
            Verdict::Different
        );
    }

    #[test]
    fn unknown_fields_are_refused_unless_they_were_there() {
        let odd = pod(json!({"nodeNam": "a"}));
        assert_eq!(
            judge(pod(json!({})), odd.clone()),
            Verdict::UnknownFields(
                "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \
                 \"spec.nodeNam\""
                    .to_owned()
            )
        );
        assert_eq!(judge(odd.clone(), odd), Verdict::Same);
    }

    #[test]
    fn every_kind_in_the_list_has_a_schema_and_others_have_none() {
        let schemas = Schemas::new(&Manifests::default());
        for (group, version, kind) in [
            ("", "v1", "Namespace"),
            ("apps", "v1", "Deployment"),
            ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
            ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        ] {
            let gvk = GroupVersionKind::new(group, version, kind);
            let object = json!({"metadata": {"name": "x"}});
            assert_eq!(
                schemas.judge(&gvk, &object, &object),
                Verdict::Same,
                "{gvk}"
            );
        }
        let gvk = GroupVersionKind::new("x.io", "v1", "Widget");
        assert_eq!(
            schemas.judge(&gvk, &json!({}), &json!({})),
            Verdict::NoSchema
        );
    }
}
