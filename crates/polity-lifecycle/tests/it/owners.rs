//! The owner of a namespaced policy, with the rights of `edit` in that namespace and no others: follows, understands and
//! rolls back without seeing a revision.

use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use polity_api::policies::v1::{AdmissionPolicy, Phase, PolicyRevision};
use polity_testing::eventually;
use serde_json::json;

use crate::cluster::{NAMESPACE, TestCluster};
use crate::whole::Running;

const TEAM: &str = "team";

/// The namespace of a team, and somebody in it.
async fn owner(cluster: &TestCluster) -> Client {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": TEAM}})).unwrap();
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let group = "rbac.authorization.k8s.io";
    cluster
        .add(&json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
            "metadata": {"name": "olga", "namespace": TEAM},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "User", "name": "olga", "apiGroup": group}],
        }))
        .await;
    cluster
        .server
        .client_as("olga", &["system:authenticated"])
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_needs_no_rights_beyond_their_namespace() {
    let cluster = TestCluster::start().await;
    let running = Running::start(&cluster).await;
    let client = owner(&cluster).await;
    let policies: Api<AdmissionPolicy> = Api::namespaced(client.clone(), TEAM);
    let policy: AdmissionPolicy = serde_json::from_value(json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy", "metadata": {"name": "q"},
        "spec": {
            "module": "registry.example/policy:1", "mutating": false, "failurePolicy": "Ignore",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
        },
    }))
    .unwrap();
    let params = PostParams::default();
    // Roles are put together from others a moment after they are installed.
    eventually("the owner may create policies", || async {
        policies.create(&params, &policy).await.ok()
    })
    .await;
    let phase = || async { policies.get("q").await.unwrap().status?.phase };
    let has_revisions = |n: usize| {
        let cluster = &cluster;
        async move { cluster.revisions_of("q").await.len() == n }
    };
    eventually("a revision is there", || has_revisions(1)).await;
    cluster.load("q").await;
    eventually("it is enforced", || async {
        phase().await == Some(Phase::Active)
    })
    .await;

    let patch = Patch::Merge(json!({"spec": {"module": "registry.example/policy:2"}}));
    policies
        .patch("q", &PatchParams::default(), &patch)
        .await
        .unwrap();
    eventually("another revision is there", || has_revisions(2)).await;
    cluster.fail("q", "SettingsInvalid").await;
    eventually("the owner sees why", || async {
        let status = policies.get("q").await.unwrap().status?;
        let message = status
            .message
            .filter(|_| status.phase == Some(Phase::Failed))?;
        message.contains("SettingsInvalid, it says").then_some(())
    })
    .await;
    let history = policies.get("q").await.unwrap().status.unwrap().history;
    assert_eq!(
        history.iter().map(|one| one.generation).collect::<Vec<_>>(),
        [1]
    );
    let events: Api<Event> = Api::namespaced(client.clone(), TEAM);
    eventually("the owner is told", || async {
        let told = events.list(&ListParams::default()).await.unwrap();
        let mut reasons = told.iter().filter_map(|one| one.reason.as_deref());
        reasons.any(|reason| reason == "PolicyInitializationFailed")
    })
    .await;

    let patch = Patch::Merge(
        json!({"metadata": {"annotations": {"kubewarden.io/rollback-to-generation": "1"}}}),
    );
    policies
        .patch("q", &PatchParams::default(), &patch)
        .await
        .unwrap();
    eventually("the rollback has a revision", || has_revisions(3)).await;
    cluster.load("q").await;
    eventually("it is enforced again", || async {
        let status = policies.get("q").await.unwrap().status?;
        (status.serving_generation == Some(3)).then_some(())
    })
    .await;

    for namespace in [TEAM, NAMESPACE] {
        let revisions: Api<PolicyRevision> = Api::namespaced(client.clone(), namespace);
        let refused = revisions.list(&ListParams::default()).await.unwrap_err();
        assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));
    }
    running.stop().await;
}
