//! The cluster as guests see it, against the embedded API server.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use polity_eval::{GetResource, ListResources, ResourceAttributes, SubjectAccessReview};
use polity_host::{Cluster, ClusterError, ClusterLimits};
use polity_testing::{Clock, TestServer, eventually};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn cluster(client: kube::Client) -> Cluster {
    Cluster::new(client, ClusterLimits::default(), Clock::system())
}

fn maps(namespace: Option<&str>) -> ListResources {
    ListResources {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: namespace.map(str::to_owned),
        label_selector: None,
        // Every namespace gets its own.
        field_selector: Some("metadata.name!=kube-root-ca.crt".to_owned()),
        field_masks: None,
    }
}

fn map(namespace: &str, name: &str, colour: &str) -> ConfigMap {
    object(json!({
        "metadata": {"name": name, "namespace": namespace, "labels": {"colour": colour}},
        "data": {"colour": colour, "size": "1"},
    }))
}

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

async fn create<K>(api: &Api<K>, object: K)
where
    K: Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    api.create(&PostParams::default(), &object).await.unwrap();
}

async fn items(cluster: &Cluster, query: &ListResources) -> Vec<Value> {
    let bytes = cluster.list(query).await.unwrap();
    let list: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(list["kind"], format!("{}List", query.kind));
    assert_eq!(list["apiVersion"], query.api_version);
    list["items"].as_array().unwrap().clone()
}

async fn names(cluster: &Cluster, query: &ListResources) -> Vec<String> {
    let items = items(cluster, query).await;
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn two_namespaces(server: &TestServer) -> (Api<ConfigMap>, Api<ConfigMap>) {
    let client = server.client().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in ["a", "b"] {
        create(&namespaces, object(json!({"metadata": {"name": name}}))).await;
    }
    let (a, b) = (
        Api::namespaced(client.clone(), "a"),
        Api::namespaced(client, "b"),
    );
    create(&a, map("a", "one", "red")).await;
    create(&a, map("a", "two", "blue")).await;
    create(&b, map("b", "three", "red")).await;
    (a, b)
}

#[tokio::test]
async fn lists_follow_the_cluster() {
    let server = TestServer::start().await;
    let (a, b) = two_namespaces(&server).await;
    let cluster = cluster(server.client().await);
    assert_eq!(names(&cluster, &maps(None)).await, ["one", "two", "three"]);
    assert_eq!(names(&cluster, &maps(Some("a"))).await, ["one", "two"]);
    let red = ListResources {
        label_selector: Some("colour=red".to_owned()),
        ..maps(None)
    };
    assert_eq!(names(&cluster, &red).await, ["one", "three"]);
    assert_eq!(cluster.n_lists(), 3);

    create(&b, map("b", "four", "red")).await;
    a.delete("one", &DeleteParams::default()).await.unwrap();
    eventually("the lists follow", || async {
        names(&cluster, &maps(None)).await == ["two", "four", "three"]
            && names(&cluster, &maps(Some("a"))).await == ["two"]
            && names(&cluster, &red).await == ["four", "three"]
    })
    .await;
    assert_eq!(cluster.n_lists(), 3, "the same question is the same list");
}

#[tokio::test]
async fn objects_are_returned_without_managed_fields_and_masked() {
    let server = TestServer::start().await;
    two_namespaces(&server).await;
    let cluster = cluster(server.client().await);
    let all = items(&cluster, &maps(Some("b"))).await;
    assert_eq!(
        (&all[0]["apiVersion"], &all[0]["kind"]),
        (&json!("v1"), &json!("ConfigMap"))
    );
    assert_eq!(all[0]["metadata"].get("managedFields"), None);
    assert_eq!(all[0]["data"], json!({"colour": "red", "size": "1"}));
    let masked = ListResources {
        field_masks: Some(["data.size".to_owned()].into()),
        ..maps(Some("b"))
    };
    let masked = items(&cluster, &masked).await;
    assert_eq!(masked[0]["data"], json!({"size": "1"}));
    assert_eq!(masked[0]["metadata"]["name"], "three");
}

#[tokio::test]
async fn a_single_object_is_read_by_its_name() {
    let server = TestServer::start().await;
    two_namespaces(&server).await;
    let cluster = cluster(server.client().await);
    let get = |kind: &str, namespace: Option<&str>, name: &str| GetResource {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        disable_cache: false,
        field_masks: Some(["data.colour".to_owned()].into()),
    };
    let found = cluster
        .get(&get("ConfigMap", Some("a"), "one"))
        .await
        .unwrap();
    assert_eq!(found["data"], json!({"colour": "red"}));
    assert_eq!(
        (&found["apiVersion"], &found["kind"]),
        (&json!("v1"), &json!("ConfigMap"))
    );
    let found = cluster.get(&get("Namespace", None, "a")).await.unwrap();
    assert_eq!(found["metadata"]["name"], "a");
    for (query, expected) in [
        (
            get("ConfigMap", Some("a"), "none"),
            "cannot get ConfigMap none: configmaps \"none\" not found",
        ),
        (
            get("ConfigMap", None, "one"),
            "ConfigMap is namespaced: the call needs a namespace",
        ),
        (
            get("Gadget", None, "one"),
            "the cluster has no kind Gadget in v1",
        ),
        (
            get("ConfigMap", Some("a"), "../../../namespaces/a"),
            "\"../../../namespaces/a\" is not a name",
        ),
        (
            get("ConfigMap", Some("a/../b"), "x"),
            "\"a/../b\" is not a name",
        ),
    ] {
        let error = cluster.get(&query).await.unwrap_err().to_string();
        assert_eq!(error, expected);
    }
    let wrong = ListResources {
        api_version: "made.up/v9".to_owned(),
        kind: "Gadget".to_owned(),
        ..maps(None)
    };
    let error = cluster.list(&wrong).await.unwrap_err().to_string();
    assert_eq!(error, "the cluster has no kind Gadget in made.up/v9");
    let wrong = ListResources {
        kind: "Namespace".to_owned(),
        ..maps(Some("a"))
    };
    let error = cluster.list(&wrong).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "Namespace is cluster-scoped: the call must not have a namespace"
    );
}

#[tokio::test]
async fn a_refusal_is_an_error_at_once_and_ends_when_rights_come() {
    let server = TestServer::start().await;
    two_namespaces(&server).await;
    let cluster = cluster(server.client_as("nosy", &[]).await);
    let error = cluster.list(&maps(None)).await.unwrap_err();
    assert!(
        matches!(&error, ClusterError::Refused { code: 403, message, .. } if message.contains("cannot list resource")),
        "{error}"
    );
    let admin = server.client().await;
    let role: ClusterRole = object(json!({
        "metadata": {"name": "readers"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}],
    }));
    create(&Api::all(admin.clone()), role).await;
    let binding: ClusterRoleBinding = object(json!({
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "readers"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nosy"}],
    }));
    create(&Api::all(admin), binding).await;
    eventually("the list is there", || async {
        cluster.list(&maps(None)).await.map(|_| ())
    })
    .await;
}

#[tokio::test]
async fn access_is_reviewed() {
    let server = TestServer::start().await;
    let cluster = cluster(server.client().await);
    let may = |user: &str, groups: &[&str]| {
        let review = SubjectAccessReview {
            user: user.to_owned(),
            groups: Some(groups.iter().map(|&group| group.to_owned()).collect()),
            resource_attributes: ResourceAttributes {
                verb: "create".to_owned(),
                resource: "pods".to_owned(),
                group: None,
                version: None,
                subresource: None,
                name: None,
                namespace: Some("default".to_owned()),
            },
        };
        let cluster = cluster.clone();
        async move { cluster.can_i(&review).await.unwrap() }
    };
    assert!(may("root", &["system:masters"]).await.allowed);
    assert!(!may("nobody", &[]).await.allowed);
}

#[tokio::test]
async fn lists_are_dropped_when_they_are_not_requested() {
    let server = TestServer::start().await;
    let clock = Clock::manual("2026-11-15T12:00:00Z".parse().unwrap());
    let limits = ClusterLimits {
        stores: 2,
        idle: Duration::from_mins(10),
        ..ClusterLimits::default()
    };
    let cluster = Cluster::new(server.client().await, limits, clock.clone());
    cluster.list(&maps(None)).await.unwrap();
    clock.wait_for_sleepers(1).await;
    clock.advance(Duration::from_mins(5));
    cluster.list(&maps(None)).await.unwrap();
    cluster.list(&maps(Some("default"))).await.unwrap();
    clock.wait_for_sleepers(2).await;
    assert_eq!(cluster.n_lists(), 2);
    // The first list was requested more than five minutes ago.
    clock.advance(Duration::from_mins(6));
    clock.wait_for_sleepers(2).await;
    assert_eq!(cluster.n_lists(), 2);
    cluster.list(&maps(None)).await.unwrap();
    clock.advance(Duration::from_mins(4));
    eventually("one is given up", || async { cluster.n_lists() == 1 }).await;
    // No more than two at once.
    cluster.list(&maps(Some("kube-system"))).await.unwrap();
    cluster.list(&maps(Some("kube-public"))).await.unwrap();
    assert_eq!(cluster.n_lists(), 2);
    clock.advance(Duration::from_mins(11));
    eventually("all are given up", || async { cluster.n_lists() == 0 }).await;
}

#[tokio::test]
async fn more_than_fits_is_an_error_and_not_memory() {
    let server = TestServer::start().await;
    two_namespaces(&server).await;
    let limits = ClusterLimits {
        bytes: 700,
        ..ClusterLimits::default()
    };
    let cluster = Cluster::new(server.client().await, limits, Clock::system());
    let error = cluster.list(&maps(None)).await.unwrap_err();
    assert!(
        matches!(error, ClusterError::TooLarge { limit: 700, .. }),
        "{error}"
    );
    // Its memory is released: a smaller list fits.
    let small = ListResources {
        field_masks: Some(["data.size".to_owned()].into()),
        field_selector: Some("metadata.name=three".to_owned()),
        ..maps(Some("b"))
    };
    assert_eq!(names(&cluster, &small).await, ["three"]);
}
