//! Measures the evaluation of configuration policies on this machine: `cargo run --release -p polity-comply --example
//! bench [OBJECTS]`.
//!
//! Each line is a name, a number and a unit, separated by tabs. The policy selects ten thousand Deployments (or the
//! given number) by label and compares them with a definition of containers, limits and labels: all compliant, all
//! different (with a unified diff each), matched by an unnamed definition, and enforced.

#![expect(clippy::print_stdout, reason = "the figures are this program's output")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use peers::stopwatch::best_of;
use polity_comply::namespaces::Namespace;
use polity_comply::{
    Cluster, ConfigurationPolicy, DryRun, Kind, Options, ReadError, Resolved, Status,
    TemplateContext, Templates, evaluate,
};
use polity_core::selector::LabelSelector;
use polity_core::{GroupVersionKind, ObjectKey};
use serde_json::{Value, json};

const NAMESPACES: usize = 100;

fn main() {
    let n_objects = std::env::args()
        .nth(1)
        .and_then(|count| count.parse().ok())
        .unwrap_or(10_000);
    let cluster = InMemory::new(n_objects);
    println!("objects\t{n_objects}\t");
    let selector = json!({"objectSelector": {"matchLabels": {"app": "web"}}});
    for (name, action, more, memory) in [
        ("compliant", "inform", &selector, "1Gi"),
        ("different, with diffs", "inform", &selector, "2Gi"),
        (
            "different, to be mended",
            "enforce",
            &json!({"objectSelector": {}, "recordDiff": "None"}),
            "2Gi",
        ),
        ("searched", "inform", &json!({}), "1Gi"),
    ] {
        let policy = policy(action, more, memory);
        let (took, state) = measured(&policy, &cluster);
        let micros = took.as_secs_f64() * 1e6 / n_objects as f64;
        println!("{name}\t{:.1}\tms ({state})", took.as_secs_f64() * 1e3);
        println!("{name}, an object\t{micros:.2}\tµs");
    }
}

/// The fastest of three evaluations, including the status.
fn measured(policy: &ConfigurationPolicy, cluster: &InMemory) -> (Duration, &'static str) {
    let mut state = "";
    let took = best_of(3, || {
        let evaluation = evaluate(policy, cluster, &NoTemplates, Options::default());
        let conclusion =
            evaluation.conclude(&Status::default(), &[], &NoTemplates, Timestamp::UNIX_EPOCH);
        state = conclusion.status.state.as_str();
    });
    (took, state)
}

fn policy(action: &str, more: &Value, memory: &str) -> ConfigurationPolicy {
    let mut template = json!({
        "complianceType": "musthave",
        "objectDefinition": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"labels": {"team": "shop"}},
            "spec": {"template": {"spec": {"containers": [
                {"name": "app", "resources": {"limits": {"memory": memory}}, "ports": [{"containerPort": 8080}]},
            ]}}},
        },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        template[key] = value.clone();
    }
    let document = json!({
        "metadata": {"name": "bench", "generation": 1},
        "spec": {
            "remediationAction": action,
            "namespaceSelector": {"include": ["*"]},
            "object-templates": [template],
        },
    });
    ConfigurationPolicy::from_json(&document).expect("the policy is well-formed")
}

fn deployment(n: usize) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": format!("web-{n}"),
            "namespace": format!("ns-{}", n % NAMESPACES),
            "uid": format!("uid-{n}"),
            "labels": {"app": "web", "team": "shop", "tier": "front"},
            "annotations": {"deployment.kubernetes.io/revision": "3"},
        },
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [
                        {"name": "proxy", "image": "proxy:1", "ports": [{"containerPort": 15001, "protocol": "TCP"}]},
                        {
                            "name": "app",
                            "image": format!("shop:{n}"),
                            "env": (0..10).map(|e| json!({"name": format!("VAR_{e}"), "value": "x"})).collect::<Vec<_>>(),
                            "ports": [{"containerPort": 8080, "protocol": "TCP"}, {"containerPort": 9090, "protocol": "TCP"}],
                            "resources": {"limits": {"cpu": "500m", "memory": "1024Mi"}, "requests": {"cpu": "100m"}},
                        },
                    ],
                    "restartPolicy": "Always",
                },
            },
        },
        "status": {"replicas": 3, "readyReplicas": 3},
    })
}

/// Objects by namespace, then by name.
struct InMemory {
    objects: BTreeMap<String, BTreeMap<String, Arc<Value>>>,
}

impl InMemory {
    fn new(n_objects: usize) -> Self {
        let mut objects: BTreeMap<String, BTreeMap<String, Arc<Value>>> = BTreeMap::new();
        for n in 0..n_objects {
            let in_namespace = objects.entry(format!("ns-{}", n % NAMESPACES)).or_default();
            in_namespace.insert(format!("web-{n}"), Arc::new(deployment(n)));
        }
        Self { objects }
    }

    fn namespace(&self, name: Option<&str>) -> Option<&BTreeMap<String, Arc<Value>>> {
        self.objects.get(name?)
    }
}

impl Cluster for InMemory {
    fn kind(&self, gvk: &GroupVersionKind) -> Result<Option<Kind>, ReadError> {
        Ok(Some(Kind {
            gvk: gvk.clone(),
            plural: "deployments".to_owned(),
            namespaced: true,
        }))
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, ReadError> {
        let names = self.objects.keys();
        Ok(names
            .map(|name| Namespace {
                name: name.clone(),
                labels: Value::Null,
                terminating: false,
            })
            .collect())
    }

    fn get(&self, _: &Kind, key: &ObjectKey) -> Result<Option<Arc<Value>>, ReadError> {
        let namespace = self.namespace(key.namespace.as_deref());
        Ok(namespace
            .and_then(|objects| objects.get(&key.name))
            .cloned())
    }

    fn list(
        &self,
        _: &Kind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Value>>, ReadError> {
        let objects = self
            .namespace(namespace)
            .into_iter()
            .flat_map(BTreeMap::values);
        let fits = |object: &&Arc<Value>| selector.matches(&object["metadata"]["labels"]);
        Ok(objects.filter(fits).cloned().collect())
    }

    fn dry_run_update(&self, _: &Kind, _: &Value, updated: &Value) -> DryRun {
        DryRun::Accepted(updated.clone())
    }
}

/// A template host for policies without templates.
struct NoTemplates;

impl Templates for NoTemplates {
    fn resolve(&self, definition: &Value, _: TemplateContext<'_>) -> Result<Resolved, String> {
        Ok(Resolved {
            value: definition.clone(),
            sensitive: false,
            skipped: false,
        })
    }

    fn resolve_text(&self, _: &str) -> Result<Resolved, String> {
        Err("no raw templates here".to_owned())
    }

    fn message(&self, _: &str, _: &Value) -> Result<String, String> {
        Err("no custom messages here".to_owned())
    }
}
