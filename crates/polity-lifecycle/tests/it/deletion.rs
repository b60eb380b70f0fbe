//! What is left of a policy that was deleted, and what is not (acceptance 11, 23).

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use polity_api::policies::v1::{AdmissionPolicy, Phase};
use polity_testing::eventually;
use serde_json::json;

use crate::whole::Running;
use crate::world::{World, clock, controller};

const DRAIN: Duration = Duration::from_secs(10);

/// 11: the same name is another policy, with a life of its own.
#[tokio::test]
async fn created_again_it_has_no_history() {
    let world = World::start().await;
    let clock = clock();
    let controller = controller(world.client.clone(), &clock);
    let key = world.add_policy("p").await;
    controller.reconcile(&key).await.unwrap();
    world.load("p").await;
    controller.reconcile(&key).await.unwrap();
    world.change_module("p", "registry.example/policy:2").await;
    controller.reconcile(&key).await.unwrap();
    world.load("p").await;
    controller.reconcile(&key).await.unwrap();
    assert_eq!(world.status("p").await.history.len(), 1);
    world.delete("p").await;
    controller.reconcile(&key).await.unwrap();
    assert_eq!(world.paths("p").await, [""; 0], "no webhook at once");
    clock.advance(DRAIN);
    controller.reconcile(&key).await.unwrap();
    assert_eq!(world.line("p").await, "", "no revision after the drain");

    world.add_policy("p").await;
    controller.reconcile(&key).await.unwrap();
    let status = world.status("p").await;
    assert_eq!(status.history, []);
    assert_eq!(status.phase, Some(Phase::Pending));
    assert_eq!(world.line("p").await, "1 on");
    let revision = world.revisions_of("p").await.remove(0);
    assert_eq!(
        revision.spec.data["spec"]["module"],
        json!("registry.example/policy:1")
    );
    world
        .annotate("p", "kubewarden.io/rollback-to-generation", "2")
        .await;
    controller.reconcile(&key).await.unwrap();
    assert_eq!(
        world.line("p").await,
        "1 on",
        "there is nothing to return to"
    );
}

/// 23: nothing can be created in a namespace that goes, Events neither, and that holds nothing up.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_goes_with_its_namespace() {
    let world = World::start().await;
    let running = Running::start(&world).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    for (name, is_enforced) in [("pending", false), ("enforced", true)] {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        let post = PostParams::default();
        namespaces.create(&post, &namespace).await.unwrap();
        let policies: Api<AdmissionPolicy> = Api::namespaced(world.client.clone(), name);
        let policy = json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "module": "registry.example/policy:1", "mutating": false, "failurePolicy": "Ignore",
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"], "operations": ["CREATE"],
                }],
            },
        });
        let policy: AdmissionPolicy = serde_json::from_value(policy).unwrap();
        policies.create(&post, &policy).await.unwrap();
        eventually("it has a revision", || async {
            world.line(name).await == "1 on"
        })
        .await;
        if is_enforced {
            world.load(name).await;
            eventually("it is enforced", || async {
                let status = policies.get(name).await.unwrap().status?;
                (status.phase == Some(Phase::Active)).then_some(())
            })
            .await;
        }
        let params = DeleteParams::default();
        namespaces.delete(name, &params).await.unwrap();
        eventually("the namespace is gone with the policy", || async {
            namespaces.get_opt(name).await.unwrap().is_none()
        })
        .await;
        eventually("nothing is left", || async {
            world.line(name).await.is_empty() && world.paths(name).await.is_empty()
        })
        .await;
    }
    running.stop().await;
}
