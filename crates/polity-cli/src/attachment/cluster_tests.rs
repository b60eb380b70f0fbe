//! The commands on a cluster: the API server in this process, with Gateway API's own CRDs. What they read there gives the
//! same answers as the files it was filled from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::Parser;
use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use polity_attach::{Graph, ObjectRef};
use polity_testing::TestServer;
use serde_json::{Value, json};

use super::impact::keep_identity;
use super::source::{Loaded, SourceArgs, Wanted};
use polity_source::Manifests;

#[derive(Debug, Parser)]
struct Flags {
    #[command(flatten)]
    source: SourceArgs,
}

/// A server, with its kubeconfig in a file as users have it.
struct Setup {
    server: TestServer,
    client: Client,
    folder: tempfile::TempDir,
}

impl Setup {
    async fn start() -> Self {
        let server = TestServer::start().await;
        let client = server.client().await;
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("config");
        std::fs::write(kubeconfig, server.kubeconfig()).unwrap();
        Self {
            server,
            client,
            folder,
        }
    }

    /// The flags of a command that asks this server.
    fn flags(&self, more: &[&str]) -> SourceArgs {
        let kubeconfig = self.folder.path().join("config");
        let words = ["x", "--kubeconfig", kubeconfig.to_str().unwrap()];
        let flags = Flags::try_parse_from(words.iter().chain(more)).unwrap();
        flags.source
    }

    async fn load(&self, wanted: Wanted<'_>) -> Loaded {
        self.flags(&[]).load(wanted).await.unwrap()
    }

    async fn create(&self, objects: &[Value]) {
        for object in objects {
            create(&self.client, object).await;
        }
    }
}

async fn create(client: &Client, object: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, version) = match text(&object["apiVersion"]).split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), text(&object["apiVersion"])),
    };
    let kind = text(&object["kind"]);
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, &version, &kind));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = text(&object["metadata"]["name"]);
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let created = api.create(&PostParams::default(), &object).await;
    created.unwrap_or_else(|error| panic!("creating {kind} {name}: {error}"));
}

/// The CRDs of Gateway API and the samples that the guide walks through.
fn samples() -> Option<Vec<Value>> {
    let module = peers::modules::module_or_skip(peers::modules::GATEWAY_API)?;
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/samples/attachment");
    let crds = module.join("config/crd/standard");
    let files = ["kinds.yaml", "shop.yaml", "policies.yaml"].map(|file| samples.join(file));
    let manifests = Manifests::load([&[crds], &files[..]].concat()).unwrap();
    let objects = manifests.documents.into_iter();
    let objects = objects.map(|document| document.object);
    // The folder holds an admission policy too, which is of no concern here.
    Some(
        objects
            .filter(|object| {
                !object["kind"]
                    .as_str()
                    .unwrap_or_default()
                    .starts_with("ValidatingAdmission")
            })
            .collect(),
    )
}

/// The same objects, as old as those in the cluster.
fn aged(objects: &[Value], stored: &[Value]) -> Vec<Value> {
    let stored: BTreeMap<ObjectRef, &Value> = stored
        .iter()
        .filter_map(|object| Some((ObjectRef::of(object)?, object)))
        .collect();
    let aged = objects.iter().map(|object| {
        let mut object = object.clone();
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("creationTimestamp");
        let reference = ObjectRef::of(&object).unwrap();
        let there = stored.get(&reference);
        keep_identity(
            &mut object,
            there.unwrap_or_else(|| panic!("{reference} was read")),
        );
        object
    });
    aged.collect()
}

fn named(objects: &[Value], kind: &str) -> Vec<String> {
    let objects = objects.iter().filter(|object| object["kind"] == kind);
    objects
        .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
           "spec": {"ports": [{"port": 80}]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_gives_the_answers_of_the_files_it_was_filled_from() {
    let Some(objects) = samples() else { return };
    let setup = Setup::start().await;
    setup.create(&objects).await;
    let loaded = setup.load(Wanted::default()).await;
    assert_eq!(loaded.missing, Vec::new());
    let from_files = Graph::of(aged(&objects, &loaded.objects));
    let from_cluster = Graph::of(loaded.objects);

    let now = Timestamp::UNIX_EPOCH;
    for (object, _) in from_files.objects() {
        let answers = |graph: &Graph| {
            json!({
                "effective": graph.effective(object, None),
                "explain": graph.explain(object, None, now),
                "affects": graph.affects(object),
                "picture": graph.topology(object.namespace.as_deref(), Some(object)),
            })
        };
        assert_eq!(answers(&from_cluster), answers(&from_files), "{object}");
    }
    let cart = ObjectRef::new("", "Service", Some("shop"), "cart");
    let explained = from_cluster.explain(&cart, None, now).unwrap();
    assert_eq!(explained.n_acting(), 4, "as in the guide");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_objects_than_one_page_are_all_read() {
    let setup = Setup::start().await;
    let services: Vec<Value> = (0..510).map(|n| service(&format!("s{n:03}"))).collect();
    setup.create(&services).await;
    let loaded = setup.load(Wanted::default()).await;
    let read = named(&loaded.objects, "Service");
    let distinct: BTreeSet<&String> = read.iter().filter(|name| name.starts_with('s')).collect();
    assert_eq!(distinct.len(), 510, "two pages");
    assert_eq!(
        distinct.len(),
        read.iter().filter(|name| name.starts_with('s')).count()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_read_whatever_its_kind_and_what_it_owns_on_demand() {
    let setup = Setup::start().await;
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]}});
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    let metadata = json!({"name": "web", "namespace": "default"});
    setup
        .create(&[
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}),
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}),
        ])
        .await;
    for (asked, kind) in [
        ("deployment/web", "Deployment"),
        ("deployments.apps/web", "Deployment"),
        ("cm/web", "ConfigMap"),
        ("configmaps/web", "ConfigMap"),
    ] {
        let loaded = setup.load(Wanted::object(asked)).await;
        assert!(
            named(&loaded.objects, kind).contains(&"web".to_owned()),
            "{asked}"
        );
        assert_eq!(named(&loaded.objects, "ReplicaSet"), Vec::<String>::new());
    }
    let owned = Wanted::object("deployment/web").with_owned(true);
    let loaded = setup.load(owned).await;
    assert_eq!(named(&loaded.objects, "ReplicaSet"), ["web"]);
    let loaded = setup.load(Wanted::object("nonsense/web")).await;
    assert_eq!(loaded.missing, Vec::new(), "said when it is looked up");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_read_is_said_and_the_rest_is_shown() {
    let Some(objects) = samples() else { return };
    let setup = Setup::start().await;
    setup.create(&objects).await;
    let rules = json!([
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["list"]},
        {"apiGroups": ["gateway.networking.k8s.io", ""], "resources": ["*"], "verbs": ["list"]},
    ]);
    let subject = json!({"kind": "User", "name": "dev", "apiGroup": "rbac.authorization.k8s.io"});
    let role =
        json!({"kind": "ClusterRole", "name": "routes", "apiGroup": "rbac.authorization.k8s.io"});
    setup
        .create(&[
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "routes"}, "rules": rules}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "routes"},
                   "subjects": [subject], "roleRef": role}),
        ])
        .await;
    let source = setup.flags(&["--as", "dev"]);
    let loaded = source.load(Wanted::default()).await.unwrap();
    let missing: Vec<String> = loaded.missing.iter().map(ToString::to_string).collect();
    let missing = missing.join("\n");
    assert!(
        missing.contains("TimeoutPolicy") && missing.contains("forbidden"),
        "{missing}"
    );
    assert_eq!(named(&loaded.objects, "HTTPRoute"), ["web"]);
    assert_eq!(
        named(&loaded.objects, "TimeoutPolicy"),
        Vec::<String>::new()
    );

    let nobody = setup.flags(&["--as", "nobody"]);
    let loaded = nobody.load(Wanted::default()).await.unwrap();
    assert_eq!(loaded.objects, Vec::<Value>::new());
    assert!(!loaded.missing.is_empty());
    setup.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_of_one_namespace_sees_the_objects_of_that_namespace() {
    let setup = Setup::start().await;
    let subject = json!({"kind": "User", "name": "owner", "apiGroup": "rbac.authorization.k8s.io"});
    let role =
        json!({"kind": "ClusterRole", "name": "edit", "apiGroup": "rbac.authorization.k8s.io"});
    let config_map = |namespace: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": namespace}});
    setup
        .create(&[
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bakery"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                   "metadata": {"name": "owner", "namespace": "bakery"}, "subjects": [subject], "roleRef": role}),
            config_map("bakery"),
            config_map("default"),
        ])
        .await;
    let source = setup.flags(&["--as", "owner", "-n", "bakery"]);
    let wanted = Wanted::object("configmap/settings");
    let loaded = source.load(wanted).await.unwrap();
    let namespaces: Vec<&Value> = loaded
        .objects
        .iter()
        .filter(|object| object["metadata"]["name"] == "settings")
        .map(|object| &object["metadata"]["namespace"])
        .collect();
    assert_eq!(namespaces, ["bakery"]);
    let missing: Vec<String> = loaded.missing.iter().map(ToString::to_string).collect();
    let only = "ConfigMap of group \"\" can be listed in namespace bakery only: ";
    assert!(
        missing.iter().any(|one| one.starts_with(only)),
        "{missing:?}"
    );
    setup.server.stop().await;
}
