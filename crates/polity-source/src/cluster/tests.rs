//! The cache, and the adapters over one model of files.

use std::sync::Arc;

use polity_comply::Cluster as _;
use polity_core::governance::{Compliance, names};
use polity_core::selector::LabelSelector;
use polity_core::{GroupVersionKind, ObjectKey};
use polity_govern::dependency::Found;
use polity_govern::objects::Dependency;
use polity_govern::sync::{Cluster as _, TemplateKind};
use polity_template::{Host as _, LookupError, Query};
use serde_json::{Value, json};

use super::*;
use crate::manifests::Manifests;
use crate::schemas::Schemas;

fn config_map(namespace: &str, name: &str, value: &str) -> Arc<Value> {
    Arc::new(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name}, "data": {"key": value},
    }))
}

fn config_maps() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "ConfigMap")
}

fn names_in(cache: &ObjectCache, namespace: Option<&str>) -> Vec<String> {
    let listed = cache.list(&config_maps(), namespace);
    listed.map(|(key, _)| key.to_string()).collect()
}

#[test]
fn every_change_of_the_cache_says_whether_it_changed_anything() {
    let mut cache = ObjectCache::new(Kinds::built_in());
    assert!(cache.apply(config_map("b", "x", "1")));
    assert!(!cache.apply(config_map("b", "x", "1")));
    assert!(cache.apply(config_map("b", "x", "2")));
    assert!(cache.apply(config_map("a", "z", "1")));
    assert!(
        !cache.apply(Arc::new(json!({"kind": "ConfigMap"}))),
        "no name"
    );
    assert_eq!(names_in(&cache, None), ["a/z", "b/x"]);
    assert_eq!(names_in(&cache, Some("b")), ["b/x"]);

    let relisted = [config_map("b", "x", "2")];
    assert!(cache.reset(&config_maps(), relisted.clone()), "a/z is gone");
    assert!(!cache.reset(&config_maps(), relisted));
    assert!(cache.delete(&config_maps(), &ObjectKey::namespaced("b", "x")));
    assert!(!cache.delete(&config_maps(), &ObjectKey::namespaced("b", "x")));
    assert_eq!(names_in(&cache, None), Vec::<String>::new());
    assert!(cache.remove_kind(&config_maps()));
    assert!(!cache.remove_kind(&config_maps()));
}

#[test]
fn the_model_can_be_shared_between_threads() {
    fn is_shareable<T: Send + Sync>() {}
    is_shareable::<ClusterModel>();
    is_shareable::<SchemaUpdates>();
    is_shareable::<TemplateHost<'_>>();
}

const OBJECTS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: configurationpolicies.policy.open-cluster-management.io, labels: {policy.open-cluster-management.io/policy-type: template}}
spec:
  group: policy.open-cluster-management.io
  scope: Namespaced
  names: {kind: ConfigurationPolicy, plural: configurationpolicies}
  versions: [{name: v1}]
---
apiVersion: policy.open-cluster-management.io/v1
kind: ConfigurationPolicy
metadata: {name: quotas, namespace: c1, labels: {policy.open-cluster-management.io/policy: ops.quotas}}
status: {compliant: Compliant}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: sizes}
data: {web: '3'}
---
apiVersion: policies.kubewarden.io/v1
kind: ClusterAdmissionPolicy
metadata: {name: no-privileged}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: tools}
";

fn objects() -> ObjectCache {
    ObjectCache::from_manifests(&Manifests::from_text("objects.yaml", OBJECTS))
}

#[test]
fn configuration_policies_and_templates_read_the_same_model() {
    let model = ClusterModel::new(objects());
    let updates = SchemaUpdates::new(Schemas::new(&Manifests::default()));
    let cluster = ConfigurationCluster::new(&model, &updates);
    let kind = cluster.kind(&config_maps()).unwrap().unwrap();
    let all = cluster
        .list(&kind, None, &LabelSelector::everything())
        .unwrap();
    let key = ObjectKey::namespaced("default", "sizes");
    assert_eq!(cluster.get(&kind, &key).unwrap().as_ref(), all.first());

    let host = TemplateHost::new(&model, jiff::Timestamp::UNIX_EPOCH);
    let query = |api_version, kind, namespace| Query {
        api_version,
        kind,
        namespace,
        selector: "",
    };
    let sizes = host
        .get(&query("v1", "ConfigMap", "default"), "sizes")
        .unwrap();
    assert_eq!(sizes.unwrap()["data"]["web"], "3");
    assert_eq!(host.list(&query("v1", "ConfigMap", "")).unwrap().len(), 1);
    // The scope of a kind that nothing defines follows from its objects.
    assert_eq!(
        host.is_namespaced("example.com/v1", "Widget"),
        Ok(Some(true))
    );
    let unknown = host.list(&query("example.com/v2", "Widget", ""));
    assert_eq!(unknown, Err(LookupError::MissingKind));

    // What a watch brings is read at once.
    model.update(|cache| cache.apply(config_map("default", "sizes", "9")));
    let sizes = host
        .get(&query("v1", "ConfigMap", "default"), "sizes")
        .unwrap();
    assert_eq!(sizes.unwrap()["data"]["key"], "9");
}

#[test]
fn template_sync_reads_the_same_cache() {
    let cache = objects();
    let verdict = |_: &Value| Some(Compliance::Compliant);
    let cluster = TemplateSyncCluster::new(&cache, "c1", &verdict);
    let kind = |api_version: &str, kind: &str| cluster.kind(api_version, kind);
    assert_eq!(
        kind(names::V1, "ConfigurationPolicy"),
        TemplateKind::Allowed { namespaced: true }
    );
    assert_eq!(kind("v1", "ConfigMap"), TemplateKind::NotAllowed);
    assert_eq!(
        kind("example.com/v2", "Widget"),
        TemplateKind::NotServed {
            why: "no matches for kind \"Widget\" in version \"example.com/v2\"".to_owned()
        }
    );
    assert!(
        cluster
            .object(names::V1, "ConfigurationPolicy", "quotas")
            .is_some()
    );
    assert_eq!(cluster.labelled("ops.quotas").len(), 1);
    assert_eq!(cluster.labelled("ops.other").len(), 0);

    let dependency = |api_version: &str, kind: &str, name: &str| Dependency {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: None,
        name: name.to_owned(),
        compliance: Compliance::Compliant,
    };
    let found = |wanted: &Dependency| format!("{:?}", cluster.dependency(wanted)).replace(' ', "");
    let quotas = dependency(names::V1, "ConfigurationPolicy", "quotas");
    assert!(matches!(cluster.dependency(&quotas), Found::Object(_)));
    let admission = dependency(
        "policies.kubewarden.io/v1",
        "ClusterAdmissionPolicy",
        "no-privileged",
    );
    assert_eq!(found(&admission), "AdmissionPolicy(Some(Compliant))");
    let absent = dependency(names::V1, "ConfigurationPolicy", "none");
    assert_eq!(found(&absent), "Missing");
    assert_eq!(found(&dependency("x.io/v1", "Widget", "w")), "NotServed");
}
