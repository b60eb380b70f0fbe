//! Rollbacks where the API server has a say: admission that refuses one, and tools that apply the old manifest
//! afterwards.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use polity_api::policies::v1::Phase;
use polity_lifecycle::policies::{Lifecycle, PolicyKey};
use serde_json::{Value, json};

use crate::cluster::{TestCluster, clock, controller};

const ROLLBACK: &str = "kubewarden.io/rollback-to-generation";

/// The notes of all Events for a reason.
async fn notes(cluster: &TestCluster, reason: &str) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), "default");
    let all = events.list(&ListParams::default()).await.unwrap();
    all.into_iter()
        .filter(|event| event.reason.as_deref() == Some(reason))
        .filter_map(|event| event.note)
        .collect()
}

/// The newest generation goes in, up to the end of the drain.
async fn load(cluster: &TestCluster, controller: &Lifecycle, key: &PolicyKey) {
    controller.reconcile(key).await.unwrap();
    cluster.load("p").await;
    controller.reconcile(key).await.unwrap();
}

/// 10: the update of a rollback passes the same checks as any other.
#[tokio::test]
async fn a_rollback_that_admission_refuses_changes_nothing() {
    let cluster = TestCluster::start().await;
    let controller = controller(cluster.client.clone(), &clock());
    let key = cluster
        .add_policy_with("p", json!({"mode": "monitor"}))
        .await;
    load(&cluster, &controller, &key).await;
    cluster.change("p", json!({"mode": "protect"})).await;
    load(&cluster, &controller, &key).await;

    let before = cluster.policies().get("p").await.unwrap();
    cluster.annotate("p", ROLLBACK, "1").await;
    controller.reconcile(&key).await.unwrap();
    let after = cluster.policies().get("p").await.unwrap();
    assert_eq!(after.spec, before.spec);
    assert_eq!(after.metadata.generation, before.metadata.generation);
    assert_eq!(after.annotations(), before.annotations());
    assert_eq!(cluster.phase("p").await, Some(Phase::Active));
    let told = notes(&cluster, "RollbackFailed").await;
    assert!(told.len() == 1 && told[0].contains("spec.mode"), "{told:?}");
}

/// A user who applies again what was rolled back from gets one generation for it, and is named.
#[tokio::test]
async fn manifests_applied_after_a_rollback_count_and_nobody_fights() {
    let manifest = |module: &str| -> Value {
        json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
            "metadata": {"name": "p"}, "spec": {"module": module},
        })
    };
    let (old, new) = ("registry.example/policy:1", "registry.example/policy:2");
    let by_a_client = (
        PatchParams {
            field_manager: Some("kubectl-client-side-apply".to_owned()),
            ..PatchParams::default()
        },
        Patch::Merge(manifest(new)),
    );
    let by_the_server = (
        PatchParams::apply("argocd-controller").force(),
        Patch::Apply(manifest(new)),
    );
    for (params, patch) in [by_a_client, by_the_server] {
        let cluster = TestCluster::start().await;
        let clock = clock();
        let controller = controller(cluster.client.clone(), &clock);
        let key = cluster.add_policy("p").await;
        load(&cluster, &controller, &key).await;
        cluster.change_module("p", new).await;
        load(&cluster, &controller, &key).await;
        cluster.annotate("p", ROLLBACK, "1").await;
        load(&cluster, &controller, &key).await;
        let rolled_back = cluster.policies().get("p").await.unwrap();
        assert_eq!(rolled_back.spec.policy.module.module, old);
        assert_eq!(rolled_back.metadata.generation, Some(3));

        let applied = cluster
            .policies()
            .patch("p", &params, &patch)
            .await
            .unwrap();
        assert_eq!(applied.metadata.generation, Some(4));
        load(&cluster, &controller, &key).await;
        let told = notes(&cluster, "RollbackReverted").await;
        let manager = params.field_manager.as_deref().unwrap_or_default();
        assert!(told.len() == 1 && told[0].contains(manager), "{told:?}");
        for _ in 0..3 {
            clock.advance(Duration::from_mins(1));
            controller.reconcile(&key).await.unwrap();
        }
        let settled = cluster.policies().get("p").await.unwrap();
        assert_eq!(settled.metadata.generation, Some(4), "no loop");
        assert_eq!(settled.spec.policy.module.module, new);
        assert_eq!(cluster.status("p").await.serving_generation, Some(4));
    }
}
