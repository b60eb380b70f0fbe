//! What is left of a policy that was deleted, and what is not.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use polity_api::policies::v1::{AdmissionPolicy, Phase};
use polity_testing::eventually;
use serde_json::json;

use crate::cluster::{TestCluster, clock, controller};
use crate::whole::Running;

const DRAIN: Duration = Duration::from_secs(10);

/// 11: the same name is another policy, with a life of its own.
#[tokio::test]
async fn created_again_it_has_no_history() {
    let cluster = TestCluster::start().await;
    let clock = clock();
    let controller = controller(cluster.client.clone(), &clock);
    let key = cluster.add_policy("p").await;
    controller.reconcile(&key).await.unwrap();
    cluster.load("p").await;
    controller.reconcile(&key).await.unwrap();
    cluster
        .change_module("p", "registry.example/policy:2")
        .await;
    controller.reconcile(&key).await.unwrap();
    cluster.load("p").await;
    controller.reconcile(&key).await.unwrap();
    assert_eq!(cluster.status("p").await.history.len(), 1);
    cluster.delete("p").await;
    controller.reconcile(&key).await.unwrap();
    assert_eq!(cluster.paths("p").await, [""; 0], "no webhook at once");
    clock.advance(DRAIN);
    controller.reconcile(&key).await.unwrap();
    assert_eq!(cluster.line("p").await, "", "no revision after the drain");

    cluster.add_policy("p").await;
    controller.reconcile(&key).await.unwrap();
    let status = cluster.status("p").await;
    assert_eq!(status.history, []);
    assert_eq!(status.phase, Some(Phase::Pending));
    assert_eq!(cluster.line("p").await, "1 on");
    let revision = cluster.revisions_of("p").await.remove(0);
    assert_eq!(
        revision.spec.data["spec"]["module"],
        json!("registry.example/policy:1")
    );
    cluster
        .annotate("p", "kubewarden.io/rollback-to-generation", "2")
        .await;
    controller.reconcile(&key).await.unwrap();
    assert_eq!(
        cluster.line("p").await,
        "1 on",
        "there is nothing to return to"
    );
}

/// 23: nothing can be created in a namespace that goes, Events neither, and that holds nothing up.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_goes_with_its_namespace() {
    let cluster = TestCluster::start().await;
    let running = Running::start(&cluster).await;
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    for (name, is_enforced) in [("pending", false), ("enforced", true)] {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        let post = PostParams::default();
        namespaces.create(&post, &namespace).await.unwrap();
        let policies: Api<AdmissionPolicy> = Api::namespaced(cluster.client.clone(), name);
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
            cluster.line(name).await == "1 on"
        })
        .await;
        if is_enforced {
            cluster.load(name).await;
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
            cluster.line(name).await.is_empty() && cluster.paths(name).await.is_empty()
        })
        .await;
    }
    running.stop().await;
}
