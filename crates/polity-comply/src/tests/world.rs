//! A cluster in memory, and templates just clever enough for these tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use polity_core::selector::LabelSelector;
use polity_core::{GroupVersionKind, ObjectKey};
use serde_json::{Value, json};

use crate::conclude::Conclusion;
use crate::namespaces::Namespace;
use crate::{
    Cluster, ConfigurationPolicy, DryRun, Kind, Options, Outcome, ReadError, Resolved, Status,
    TemplateContext, Templates, Write, evaluate,
};

/// Objects by kind and key.
#[derive(Debug, Clone, Default)]
pub(crate) struct TestCluster {
    objects: BTreeMap<(String, ObjectKey), Arc<Value>>,
    pub(crate) n_writes: usize,
    /// Reading this kind fails.
    pub(crate) unreadable: Option<&'static str>,
}

const KINDS: &[(&str, &str, &str, bool)] = &[
    ("v1", "Namespace", "namespaces", false),
    ("v1", "Pod", "pods", true),
    ("v1", "ConfigMap", "configmaps", true),
    ("v1", "Secret", "secrets", true),
    ("networking.k8s.io/v1", "Ingress", "ingresses", true),
    (
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        "clusterroles",
        false,
    ),
];

impl TestCluster {
    pub(crate) fn with(objects: impl IntoIterator<Item = Value>) -> Self {
        let mut world = Self::default();
        for object in objects {
            world.put(object);
        }
        world
    }

    pub(crate) fn put(&mut self, mut object: Value) {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let namespaced = KINDS.iter().find(|known| known.1 == kind).unwrap().3;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or("default");
        let key = ObjectKey {
            namespace: namespaced.then(|| namespace.to_owned()),
            name,
        };
        if namespaced {
            object["metadata"]["namespace"] = json!(namespace);
        }
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}-{}", key, self.n_writes));
        }
        self.objects.insert((kind, key), Arc::new(object));
    }

    pub(crate) fn object(&self, kind: &str, key: &str) -> Option<&Value> {
        let key = match key.split_once('/') {
            Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster(key),
        };
        self.objects
            .get(&(kind.to_owned(), key))
            .map(|object| &**object)
    }

    /// Evaluates, carries the writes out, concludes.
    pub(crate) fn run(&mut self, policy: &ConfigurationPolicy, previous: &Status) -> Conclusion {
        let evaluation = evaluate(policy, &*self, &Braces, Options::default());
        let writes: Vec<(String, ObjectKey, Write)> = evaluation
            .writes()
            .map(|(finding, write)| {
                let key = ObjectKey {
                    namespace: finding.namespace.clone(),
                    name: finding.names[0].clone(),
                };
                (finding.kind.gvk.kind.clone(), key, write.clone())
            })
            .collect();
        let mut outcomes = Vec::new();
        let mut after = self.clone();
        for (kind, key, write) in writes {
            after.n_writes += 1;
            let uid = match write {
                Write::Delete => {
                    after.objects.remove(&(kind, key));
                    String::new()
                }
                Write::Create { object }
                | Write::Recreate { object }
                | Write::Update { object } => {
                    after.put(object);
                    let stored = &after.objects[&(kind, key)];
                    stored["metadata"]["uid"].as_str().unwrap().to_owned()
                }
            };
            outcomes.push(Outcome::Done { uid });
        }
        let conclusion = evaluation.conclude(previous, &outcomes, &Braces, Timestamp::UNIX_EPOCH);
        *self = after;
        conclusion
    }

    /// The last message for a policy without a past.
    pub(crate) fn message(&mut self, policy: &ConfigurationPolicy) -> String {
        self.run(policy, &Status::default()).messages.pop().unwrap()
    }
}

impl Cluster for TestCluster {
    fn kind(&self, gvk: &GroupVersionKind) -> Result<Option<Kind>, ReadError> {
        let known = KINDS
            .iter()
            .find(|known| known.0 == gvk.api_version() && known.1 == gvk.kind);
        Ok(known.map(|(_, _, plural, namespaced)| Kind {
            gvk: gvk.clone(),
            plural: (*plural).to_owned(),
            namespaced: *namespaced,
        }))
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, ReadError> {
        let all = self
            .objects
            .iter()
            .filter(|((kind, _), _)| kind == "Namespace");
        Ok(all
            .map(|(_, object)| Namespace::from_json(object))
            .collect())
    }

    fn get(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<Arc<Value>>, ReadError> {
        if self.unreadable == Some(kind.gvk.kind.as_str()) {
            return Err(ReadError("the server is tired".to_owned()));
        }
        let key = (kind.gvk.kind.clone(), key.clone());
        Ok(self.objects.get(&key).cloned())
    }

    fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Value>>, ReadError> {
        let fits = |(of, key): &(String, ObjectKey), object: &Value| {
            *of == kind.gvk.kind
                && key.namespace.as_deref() == namespace
                && selector.matches(&object["metadata"]["labels"])
        };
        let found = self
            .objects
            .iter()
            .filter(|(key, object)| fits(key, object));
        Ok(found.map(|(_, object)| Arc::clone(object)).collect())
    }

    fn dry_run_update(&self, _: &Kind, current: &Value, updated: &Value) -> DryRun {
        if updated["spec"]["unknown"].is_string() {
            return DryRun::Strict(
                "strict decoding error: unknown field \"spec.unknown\"".to_owned(),
            );
        }
        if current["spec"]["immutable"] != updated["spec"]["immutable"] {
            // The one field that cannot change.
            return DryRun::Invalid("field is immutable".to_owned());
        }
        // As a server does: an empty map is none.
        let mut updated = updated.clone();
        if updated["spec"]["empty"] == json!({}) {
            updated["spec"].as_object_mut().unwrap().remove("empty");
        }
        DryRun::Accepted(updated)
    }
}

/// Replaces `{{ .ObjectName }}` and `{{ .ObjectNamespace }}`, knows `skipObject` and `fromSecret`.
pub(crate) struct Braces;

impl Templates for Braces {
    fn resolve(
        &self,
        definition: &Value,
        context: TemplateContext<'_>,
    ) -> Result<Resolved, String> {
        let text = definition.to_string();
        if text.contains("{{ fail }}") {
            return Err("template: tmpl:1: function \"fail\" not defined".to_owned());
        }
        let skipped = text.contains("{{ skipObject }}")
            || context
                .name
                .is_some_and(|name| text.contains(&format!("{{{{ skip {name} }}}}")));
        let text = text
            .replace("{{ .ObjectName }}", context.name.unwrap_or_default())
            .replace(
                "{{ .ObjectNamespace }}",
                context.namespace.unwrap_or_default(),
            )
            .replace("{{ empty }}", "")
            .replace("{{ fromSecret }}", "hidden");
        Ok(Resolved {
            value: serde_json::from_str(&text).map_err(|error| error.to_string())?,
            sensitive: definition.to_string().contains("fromSecret"),
            skipped,
        })
    }

    fn resolve_text(&self, text: &str) -> Result<Resolved, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        self.resolve(&value, TemplateContext::default())
    }

    fn message(&self, template: &str, data: &Value) -> Result<String, String> {
        match template {
            "fail" => Err("failed to execute: no".to_owned()),
            "data" => {
                Ok(data["Policy"]["status"]["relatedObjects"][0]["object"]["data"].to_string())
            }
            template => {
                Ok(template.replace('%', data["DefaultMessage"].as_str().unwrap_or_default()))
            }
        }
    }
}

/// A policy with these object templates, and more of a spec.
pub(crate) fn policy(more: Value, templates: Value) -> ConfigurationPolicy {
    let mut spec = json!({"object-templates": templates});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let object = json!({
        "apiVersion": "policy.open-cluster-management.io/v1",
        "kind": "ConfigurationPolicy",
        "metadata": {"name": "p", "namespace": "managed", "generation": 1},
        "spec": spec,
    });
    ConfigurationPolicy::from_json(&object).unwrap()
}

/// An object of a namespaced core kind.
pub(crate) fn object(kind: &str, namespace: &str, name: &str, more: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    for (key, value) in more.as_object().into_iter().flatten() {
        if key == "labels" {
            object["metadata"]["labels"] = value.clone();
        } else {
            object[key] = value.clone();
        }
    }
    object
}
