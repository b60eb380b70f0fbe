//! Which Pods become processes: those of policy servers, and no others, whoever writes them.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt as _};
use polity_api::policies::v1::PolicyServer;
use polity_local::logs::LogQuery;
use polity_testing::{eventually, objects};
use serde_json::{Value, json};

use crate::world::{World, set};

/// A world whose cluster knows PolicyServers, and has the one of this name.
async fn world_with_server(name: &str) -> (World, PolicyServer) {
    let world = World::new().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    for definition in polity_api::crds() {
        let params = PostParams::default();
        definitions.create(&params, &definition).await.unwrap();
    }
    let servers: Api<PolicyServer> = Api::all(world.client.clone());
    let server = json!({"metadata": {"name": name}, "spec": {"image": "polity:v1", "replicas": 1}});
    let server: PolicyServer = serde_json::from_value(server).unwrap();
    let server = eventually("the kind is served", || async {
        servers.create(&PostParams::default(), &server).await.ok()
    })
    .await;
    (world, server)
}

/// A set in the form that the controller gives it.
fn set_of(server: &PolicyServer) -> Value {
    let name = server.name_any();
    let mut set = set(1, &["server"]);
    set["metadata"]["name"] = json!(format!("policy-server-{name}"));
    set["metadata"]["ownerReferences"] = json!([server.controller_owner_ref(&()).unwrap()]);
    let container = &mut set["spec"]["template"]["spec"]["containers"][0];
    let env = container["env"].as_array_mut().unwrap();
    env.push(json!({"name": "POLITY_POLICY_SERVER", "value": name}));
    set
}

/// Waits for the Warning about an object that it is not run.
async fn refusal(world: &World, namespace: &str, kind: &str, name: &str) -> String {
    let events: Api<Event> = Api::namespaced(world.client.clone(), namespace);
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

async fn create_in<K>(world: &World, namespace: &str, object: Value) -> K
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + serde::Serialize
        + serde::de::DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(world.client.clone(), namespace);
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}

fn is_pending(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Pending")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_policy_server_runs() {
    let (world, server) = world_with_server("default").await;
    let _runtime = world.run().await;
    let _: StatefulSet = world.create(set_of(&server)).await;
    world.pods_become("policy-server-default-0:ready:0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_an_editor_writes_stays_pending() {
    let (world, _server) = world_with_server("default").await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let other = objects::namespace("other");
    namespaces
        .create(&PostParams::default(), &other)
        .await
        .unwrap();
    let runtime = world.run().await;
    let pod = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"nodeName": "here", "containers": [{
            "name": "c", "image": "polity:v1", "args": ["template", "resolve", "/root/.kube/config"],
        }]}})
    };
    let _: Pod = create_in(&world, "other", pod("thief")).await;
    let said = refusal(&world, "other", "Pod", "thief").await;
    assert!(said.contains("it is in namespace \"other\""), "{said}");
    let strangers: Api<Pod> = Api::namespaced(world.client.clone(), "other");
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
    let _: Pod = world.create(pod("thief")).await;
    let said = refusal(&world, "team", "Pod", "thief").await;
    assert!(said.contains("no StatefulSet controls it"), "{said}");
    let there = eventually("the status says why", || async {
        let pod = world.pods().get("thief").await.unwrap();
        let status = pod.status.clone()?.container_statuses?.remove(0);
        let waiting = status.state?.waiting?;
        assert_eq!(waiting.reason.as_deref(), Some("Forbidden"));
        waiting.message.map(|_| pod)
    })
    .await;
    assert!(is_pending(&there));
    assert_eq!(runtime.log("thief", LogQuery::default()).await, None);
    let place = world
        .data_dir
        .path()
        .join("pods")
        .join(there.uid().unwrap());
    assert!(!place.exists(), "no token and no file is made for it");
    // And it can be deleted.
    world
        .pods()
        .delete("thief", &DeleteParams::default())
        .await
        .unwrap();
    eventually("it is gone", || async {
        world.pods().get_opt("thief").await.unwrap().is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_that_no_policy_server_owns_are_left_alone() {
    let (world, server) = world_with_server("default").await;
    let _runtime = world.run().await;
    let mut forged = set_of(&server);
    forged["metadata"]["name"] = json!("mine");
    let mut stale = set_of(&server);
    stale["metadata"]["name"] = json!("policy-server-gone");
    stale["metadata"]["ownerReferences"] = json!(null);
    let mut plain = set(1, &["server"]);
    plain["metadata"]["name"] = json!("plain");
    for (set, expected) in [
        (
            forged,
            "StatefulSet \"mine\" is not the one of PolicyServer \"default\"",
        ),
        (stale, "no PolicyServer controls"),
        (plain, "no PolicyServer controls"),
    ] {
        let set: StatefulSet = world.create(set).await;
        let said = refusal(&world, "team", "StatefulSet", &set.name_any()).await;
        assert!(said.contains(expected), "{said}");
        let now = world.sets().get(&set.name_any()).await.unwrap();
        assert_eq!(now.resource_version(), set.resource_version());
    }
    assert_eq!(
        world
            .pods()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_template_of_a_policy_server_is_not_run() {
    let (world, server) = world_with_server("default").await;
    let _runtime = world.run().await;
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
            json!([{"name": "POLITY_POLICY_SERVER", "value": "default"}, {"name": "KUBEWARDEN_SOURCES_PATH", "value": "/etc/passwd"}]),
            "variable KUBEWARDEN_SOURCES_PATH has a path that is in none",
        ),
    ] {
        let mut set = set_of(&server);
        set.pointer_mut(container).unwrap()[at] = value;
        let set: StatefulSet = world.create(set).await;
        let said = refusal(&world, "team", "Pod", "policy-server-default-0").await;
        assert!(said.contains(expected), "{name}: {said}");
        let pod = world.pods().get("policy-server-default-0").await.unwrap();
        assert!(is_pending(&pod), "{name}");
        // The next one starts from nothing.
        world
            .sets()
            .delete(&set.name_any(), &DeleteParams::default())
            .await
            .unwrap();
        world.pods_become("").await;
        let events: Api<Event> = Api::namespaced(world.client.clone(), "team");
        events
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_with_a_forged_owner_is_not_run() {
    let (world, server) = world_with_server("default").await;
    let _runtime = world.run().await;
    let set: StatefulSet = world.create(set_of(&server)).await;
    let pod = world
        .pods_become("policy-server-default-0:ready:0")
        .await
        .remove(0);
    // The real Pod's owner and another's command.
    let forged = json!({
        "metadata": {"name": "policy-server-default-7", "ownerReferences": pod.metadata.owner_references},
        "spec": {"nodeName": "here", "containers": [{
            "name": "c", "image": "polity:v1", "command": ["polity", "template", "resolve", "/etc"],
        }]},
    });
    assert_eq!(set.name_any(), "policy-server-default");
    // It has one too many, and may be gone again before it was looked at: then it never ran either.
    let forged: Pod = world.create(forged).await;
    let uid = forged.uid().unwrap();
    eventually("it is gone", || async {
        world
            .pods()
            .get_opt("policy-server-default-7")
            .await
            .unwrap()
            .is_none()
    })
    .await;
    assert!(!world.data_dir.path().join("pods").join(uid).exists());
    world.pods_become("policy-server-default-0:ready:0").await;
}
