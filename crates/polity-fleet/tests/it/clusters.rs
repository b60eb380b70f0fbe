//! Registration of clusters, sets, and what agents may do.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use polity_api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use polity_api::policy::v1::Policy;
use polity_testing::eventually;
use serde_json::json;

use crate::hub::{NAMESPACE, TestHub, condition};

#[tokio::test]
async fn a_cluster_that_joins_is_accepted_joined_and_available() {
    let hub = TestHub::with_clusters(&["c1"]).await;
    let cluster = hub.clusters().get("c1").await.unwrap();
    for type_ in ["HubAcceptedManagedCluster", "ManagedClusterJoined"] {
        assert_eq!(
            condition(&cluster, type_).as_deref(),
            Some("True"),
            "{type_}"
        );
    }
    let status = cluster.status.as_ref().unwrap();
    assert_eq!(status.cluster_claims[0].name, "region");
    assert_eq!(status.version.as_ref().unwrap().kubernetes, "v1.37.0");
}

#[tokio::test]
async fn the_sets_default_and_global_exist_and_come_back() {
    let hub = TestHub::with_clusters(&["c1"]).await;
    let sets: Api<ManagedClusterSet> = Api::all(hub.client.clone());
    for name in ["default", "global"] {
        let has_member = || async {
            let set = sets.get_opt(name).await.unwrap()?;
            let condition = set.status?.conditions.into_iter().next()?;
            (condition.message == "1 ManagedClusters selected").then_some(())
        };
        eventually("the set has its member", has_member).await;
        let params = DeleteParams::default();
        sets.delete(name, &params).await.unwrap();
        eventually("the set is back", has_member).await;
    }
    let bindings: Api<ManagedClusterSetBinding> = Api::namespaced(hub.client.clone(), NAMESPACE);
    eventually("the binding is bound", || async {
        let binding = bindings.get("global").await.unwrap();
        let condition = binding.status?.conditions.into_iter().next()?;
        (condition.reason == "ClusterSetBound").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_cluster_that_is_detached_takes_its_namespace_and_replicas_along() {
    let hub = TestHub::with_clusters(&["c1", "c2"]).await;
    hub.policy("limit", json!({"remediationAction": "inform"}))
        .await;
    hub.place("limit", json!({})).await;
    hub.has_actions("limit", &[("c1", "inform"), ("c2", "inform")])
        .await;
    hub.clusters()
        .delete("c1", &DeleteParams::default())
        .await
        .unwrap();
    eventually("the cluster is gone", || async {
        hub.clusters().get_opt("c1").await.unwrap().is_none()
    })
    .await;
    let namespaces: Api<Namespace> = Api::all(hub.client.clone());
    eventually("its namespace is gone", || async {
        namespaces.get_opt("c1").await.unwrap().is_none()
    })
    .await;
    hub.has_status(
        "limit",
        json!({"status": [
            {"clustername": "c2", "clusternamespace": "c2", "rolloutStatus": "Progressing"},
        ]}),
    )
    .await;
}

/// Asserts that every verb on an object is refused.
async fn assert_forbidden(client: &Client, namespace: &str) {
    let policies: Api<Policy> = Api::namespaced(client.clone(), namespace);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let code = |error: kube::Error| match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    };
    let list = policies.list(&ListParams::default()).await;
    assert_eq!(code(list.unwrap_err()), 403, "policies in {namespace}");
    let list = secrets.list(&ListParams::default()).await;
    assert_eq!(code(list.unwrap_err()), 403, "secrets in {namespace}");
}

#[tokio::test]
async fn an_agent_reaches_its_own_policies_and_nothing_else() {
    let hub = TestHub::with_clusters(&["c1", "c2"]).await;
    hub.policy("limit", json!({"remediationAction": "inform"}))
        .await;
    hub.place("limit", json!({})).await;
    hub.has_actions("limit", &[("c1", "inform"), ("c2", "inform")])
        .await;
    let agent = hub
        .server
        .client_as(
            "system:serviceaccount:c1:polity-agent",
            &["system:serviceaccounts", "system:authenticated"],
        )
        .await;
    let own: Api<Policy> = Api::namespaced(agent.clone(), "c1");
    let name = format!("{NAMESPACE}.limit");
    own.get(&name).await.unwrap();
    let status = Patch::Merge(json!({"status": {"compliant": "Compliant"}}));
    own.patch_status(&name, &PatchParams::default(), &status)
        .await
        .unwrap();
    let spec = Patch::Merge(json!({"spec": {"remediationAction": "enforce"}}));
    let refused = own.patch(&name, &PatchParams::default(), &spec).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));
    let secrets: Api<Secret> = Api::namespaced(agent.clone(), "c1");
    let refused = secrets.list(&ListParams::default()).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));
    for namespace in ["c2", NAMESPACE, "default", "kube-system"] {
        assert_forbidden(&agent, namespace).await;
    }
}
