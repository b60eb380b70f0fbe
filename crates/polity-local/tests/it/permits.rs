//! Which Pods become processes: those of policy servers, and no others, whoever writes them.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, Namespace, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt as _};
use polity_local::logs::LogQuery;
use polity_testing::{eventually, objects};
use serde_json::{Value, json};

use crate::cluster::{SHOWN_FILE, TestCluster};

/// Waits for the Warning about an object that it is not run.
async fn refusal(cluster: &TestCluster, namespace: &str, kind: &str, name: &str) -> String {
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), namespace);
    eventually(&format!("an event about {kind} {name}"), || async {
        let all = events.list(&ListParams::default()).await.unwrap().items;
        let event = all.into_iter().find(|event| {
            let about = &event.involved_object;
            about.kind.as_deref() == Some(kind) && about.name.as_deref() == Some(name)
        })?;
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert_eq!(event.reason.as_deref(), Some("Forbidden"));
        assert!(event.last_timestamp.is_some());
        event.message
    })
    .await
}

async fn create_in<K>(cluster: &TestCluster, namespace: &str, object: Value) -> K
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + serde::Serialize
        + serde::de::DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(cluster.client.clone(), namespace);
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}

fn is_pending(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Pending")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_policy_server_runs() {
    let cluster = TestCluster::new().await;
    let _runtime = cluster.run().await;
    let _: StatefulSet = cluster.create(cluster.set(1, "serve")).await;
    cluster.pods_become("web-0:ready:0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_an_editor_writes_stays_pending() {
    let cluster = TestCluster::new().await;
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let other = objects::namespace("other");
    namespaces
        .create(&PostParams::default(), &other)
        .await
        .unwrap();
    let runtime = cluster.run().await;
    let pod = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"nodeName": "here", "containers": [{
            "name": "c", "image": "polity:v1", "args": ["template", "resolve", "/root/.kube/config"],
        }]}})
    };
    let _: Pod = create_in(&cluster, "other", pod("thief")).await;
    let said = refusal(&cluster, "other", "Pod", "thief").await;
    assert!(said.contains("it is in namespace \"other\""), "{said}");
    let strangers: Api<Pod> = Api::namespaced(cluster.client.clone(), "other");
    assert!(is_pending(&strangers.get("thief").await.unwrap()));
    strangers
        .delete("thief", &DeleteParams::default())
        .await
        .unwrap();
    eventually("a Pod of another namespace can be deleted", || async {
        strangers.get_opt("thief").await.unwrap().is_none()
    })
    .await;
    // In the deployment namespace too.
    let _: Pod = cluster.create(pod("thief")).await;
    let said = refusal(&cluster, "team", "Pod", "thief").await;
    assert!(said.contains("no StatefulSet controls it"), "{said}");
    let there = eventually("the status says why", || async {
        let pod = cluster.pods().get("thief").await.unwrap();
        let status = pod.status.clone()?.container_statuses?.remove(0);
        let waiting = status.state?.waiting?;
        assert_eq!(waiting.reason.as_deref(), Some("Forbidden"));
        waiting.message.map(|_| pod)
    })
    .await;
    assert!(is_pending(&there));
    assert_eq!(runtime.log("thief", LogQuery::default()).await, None);
    let place = cluster
        .data_dir
        .path()
        .join("pods")
        .join(there.uid().unwrap());
    assert!(!place.exists(), "no token and no file is made for it");
    // And it can be deleted.
    cluster
        .pods()
        .delete("thief", &DeleteParams::default())
        .await
        .unwrap();
    eventually("it is gone", || async {
        cluster.pods().get_opt("thief").await.unwrap().is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_that_no_policy_server_owns_are_left_alone() {
    let cluster = TestCluster::new().await;
    let _runtime = cluster.run().await;
    let mut forged = cluster.set(1, "serve");
    forged["metadata"]["name"] = json!("mine");
    let mut stale = cluster.set(1, "serve");
    stale["metadata"]["name"] = json!("policy-server-gone");
    stale["metadata"]["ownerReferences"] = json!(null);
    let mut plain = cluster.set(1, "serve");
    plain["metadata"]["name"] = json!("plain");
    plain["metadata"]["ownerReferences"] = json!(null);
    for (set, expected) in [
        (
            forged,
            "StatefulSet \"mine\" is not the one of PolicyServer \"web\"",
        ),
        (stale, "no PolicyServer controls"),
        (plain, "no PolicyServer controls"),
    ] {
        let set: StatefulSet = cluster.create(set).await;
        let said = refusal(&cluster, "team", "StatefulSet", &set.name_any()).await;
        assert!(said.contains(expected), "{said}");
        let now = cluster.sets().get(&set.name_any()).await.unwrap();
        assert_eq!(now.resource_version(), set.resource_version());
    }
    assert_eq!(
        cluster
            .pods()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        0
    );
}

/// The watch of PolicyServers backs off while the kind does not exist, so the StatefulSet is seen first.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_is_seen_before_its_policy_server_is_not_reported() {
    let mut cluster = TestCluster::without_policy_servers().await;
    let _runtime = cluster.run().await;
    cluster.create_policy_server().await;
    let _: StatefulSet = cluster.create(cluster.set(1, "serve")).await;
    cluster.pods_become("web-0:ready:0").await;
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), "team");
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let messages: Vec<_> = events.iter().map(|event| &event.message).collect();
    assert!(messages.is_empty(), "{messages:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_whose_policy_server_is_gone_is_reported() {
    let cluster = TestCluster::new().await;
    let _runtime = cluster.run().await;
    let mut orphan = cluster.set(1, "serve");
    orphan["metadata"]["ownerReferences"][0]["uid"] = json!("of-another");
    let _: StatefulSet = cluster.create(orphan).await;
    let said = refusal(&cluster, "team", "StatefulSet", "web").await;
    assert!(said.contains("does not exist, or is another one"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_template_of_a_policy_server_is_not_run() {
    let cluster = TestCluster::new().await;
    let _runtime = cluster.run().await;
    let container = "/spec/template/spec/containers/0";
    for (name, at, value, expected) in [
        (
            "a command",
            "args",
            json!(["template", "resolve", "/etc"]),
            "its command is not",
        ),
        (
            "a library",
            "env",
            json!([{"name": "LD_PRELOAD", "value": "/tmp/x.so"}]),
            "its environment sets LD_PRELOAD",
        ),
        (
            "a file of this machine",
            "env",
            json!([{"name": "POLITY_POLICY_SERVER", "value": "web"}, {"name": SHOWN_FILE, "value": "/etc/passwd"}]),
            "variable KUBEWARDEN_SOURCES_PATH has a path that is in none",
        ),
    ] {
        let mut set = cluster.set(1, "serve");
        set.pointer_mut(container).unwrap()[at] = value;
        let set: StatefulSet = cluster.create(set).await;
        let said = refusal(&cluster, "team", "Pod", "web-0").await;
        assert!(said.contains(expected), "{name}: {said}");
        let pod = cluster.pods().get("web-0").await.unwrap();
        assert!(is_pending(&pod), "{name}");
        // The next one starts from nothing.
        cluster
            .sets()
            .delete(&set.name_any(), &DeleteParams::default())
            .await
            .unwrap();
        cluster.pods_become("").await;
        let events: Api<Event> = Api::namespaced(cluster.client.clone(), "team");
        events
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_with_a_forged_owner_is_not_run() {
    let cluster = TestCluster::new().await;
    let _runtime = cluster.run().await;
    let set: StatefulSet = cluster.create(cluster.set(1, "serve")).await;
    let pod = cluster.pods_become("web-0:ready:0").await.remove(0);
    // The real Pod's owner and another's command.
    let forged = json!({
        "metadata": {"name": "web-7", "ownerReferences": pod.metadata.owner_references},
        "spec": {"nodeName": "here", "containers": [{
            "name": "c", "image": "polity:v1", "command": ["polity", "template", "resolve", "/etc"],
        }]},
    });
    assert_eq!(set.name_any(), "web");
    // It has one too many, and may be gone again before it was looked at: then it never ran either.
    let forged: Pod = cluster.create(forged).await;
    let uid = forged.uid().unwrap();
    eventually("it is gone", || async {
        cluster.pods().get_opt("web-7").await.unwrap().is_none()
    })
    .await;
    assert!(!cluster.data_dir.path().join("pods").join(uid).exists());
    cluster.pods_become("web-0:ready:0").await;
}
