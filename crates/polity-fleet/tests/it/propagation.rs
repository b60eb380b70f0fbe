//! Root policies reach their clusters and show what the clusters report.

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use polity_api::policy::v1::Policy;
use polity_testing::eventually;
use serde_json::json;

use crate::hub::{NAMESPACE, TestHub, binding, policy};

fn entry(cluster: &str, compliant: Option<&str>, rollout: &str) -> serde_json::Value {
    let mut entry =
        json!({"clustername": cluster, "clusternamespace": cluster, "rolloutStatus": rollout});
    if let Some(compliant) = compliant {
        entry["compliant"] = json!(compliant);
    }
    entry
}

#[tokio::test]
async fn a_policy_reaches_its_clusters_and_shows_their_compliance() {
    let hub = TestHub::with_clusters(&["c1", "c2"]).await;
    hub.policy("limit", json!({"remediationAction": "inform"}))
        .await;
    hub.place("limit", json!({})).await;
    hub.has_actions("limit", &[("c1", "inform"), ("c2", "inform")])
        .await;
    for cluster in ["c1", "c2"] {
        let replica = hub.replica(cluster, "limit").await.unwrap();
        let label = |name: &str| {
            let name = format!("policy.open-cluster-management.io/{name}");
            replica.labels()[&name].clone()
        };
        assert_eq!(label("root-policy"), "policies.limit");
        assert_eq!(label("cluster-name"), cluster);
        assert_eq!(label("cluster-namespace"), cluster);
    }
    hub.has_status(
        "limit",
        json!({
            "compliant": null,
            "status": [entry("c1", None, "Progressing"), entry("c2", None, "Progressing")],
        }),
    )
    .await;
    hub.report("c1", "limit", "Compliant").await;
    hub.report("c2", "limit", "NonCompliant").await;
    hub.has_status("limit", json!({"compliant": "NonCompliant"}))
        .await;
}

#[tokio::test]
async fn the_decisions_of_a_placement_follow_its_clusters() {
    let hub = TestHub::start().await;
    hub.join("c1", json!({"environment": "canary"})).await;
    hub.join("c2", json!({"environment": "prod"})).await;
    let group = json!({"groupName": "canary", "groupClusterSelector": {"labelSelector":
        {"matchLabels": {"environment": "canary"}}}});
    let strategy = json!({"decisionStrategy": {"groupStrategy": {"decisionGroups": [group]}}});
    hub.place("limit", strategy).await;
    let groups = |expected: &'static [(&'static str, &'static [&'static str])]| {
        let hub = &hub;
        async move {
            eventually("the placement has its groups", || async {
                let mut found = Vec::new();
                for decision in hub.decisions().list(&ListParams::default()).await.unwrap() {
                    let name =
                        decision.labels()["cluster.open-cluster-management.io/decision-group-name"]
                            .clone();
                    let status = decision.status.unwrap_or_default();
                    let clusters: Vec<String> = status
                        .decisions
                        .into_iter()
                        .map(|it| it.cluster_name)
                        .collect();
                    found.push((name, clusters));
                }
                let is = found.len() == expected.len()
                    && found
                        .iter()
                        .zip(expected)
                        .all(|((name, clusters), expected)| {
                            name == expected.0 && clusters == expected.1
                        });
                if is { Ok(()) } else { Err(found) }
            })
            .await;
        }
    };
    groups(&[("canary", &["c1"]), ("", &["c2"])]).await;
    hub.join("c3", json!({"environment": "canary"})).await;
    groups(&[("canary", &["c1", "c3"]), ("", &["c2"])]).await;
    let placement = hub.placements().get("limit").await.unwrap();
    eventually("the status of the placement counts them", || async {
        let placement = hub.placements().get("limit").await.unwrap();
        let status = placement.status.unwrap();
        (status.number_of_selected_clusters == 3).then_some(())
    })
    .await;
    let reason = placement
        .status
        .unwrap()
        .conditions
        .into_iter()
        .map(|it| it.reason);
    assert_eq!(
        reason.collect::<Vec<_>>(),
        ["Succeedconfigured", "AllDecisionsScheduled"]
    );
}

#[tokio::test]
async fn a_restricted_binding_enforces_where_the_policy_is_placed_anyway() {
    let hub = TestHub::with_clusters(&["a", "b", "c", "d", "e"]).await;
    let named = |names: &[&str]| {
        json!({"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchExpressions": [
            {"key": "name", "operator": "In", "values": names},
        ]}}}]})
    };
    for cluster in ["a", "b", "c", "d", "e"] {
        let labels = Patch::Merge(json!({"metadata": {"labels": {"name": cluster}}}));
        let params = PatchParams::default();
        hub.clusters()
            .patch(cluster, &params, &labels)
            .await
            .unwrap();
    }
    hub.policy("limit", json!({"remediationAction": "inform"}))
        .await;
    hub.place("limit", named(&["a", "b", "c", "d"])).await;
    hub.apply(json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
        "metadata": {"name": "enforced"}, "spec": named(&["a", "b", "e"]),
    }))
    .await;
    let fields = json!({
        "bindingOverrides": {"remediationAction": "enforce"}, "subFilter": "restricted",
    });
    hub.apply(binding("enforced", "enforced", "limit", fields))
        .await;
    let expected = [
        ("a", "enforce"),
        ("b", "enforce"),
        ("c", "inform"),
        ("d", "inform"),
        ("e", "-"),
    ];
    hub.has_actions("limit", &expected).await;
}

#[tokio::test]
async fn replicas_that_are_edited_or_deleted_are_put_back() {
    let hub = TestHub::with_clusters(&["c1"]).await;
    hub.policy("limit", json!({"remediationAction": "inform"}))
        .await;
    hub.place("limit", json!({})).await;
    hub.has_actions("limit", &[("c1", "inform")]).await;
    let replicas: Api<Policy> = Api::namespaced(hub.client.clone(), "c1");
    let edit = Patch::Merge(json!({"spec": {"remediationAction": "enforce"}}));
    let name = format!("{NAMESPACE}.limit");
    replicas
        .patch(&name, &PatchParams::default(), &edit)
        .await
        .unwrap();
    hub.has_actions("limit", &[("c1", "inform")]).await;
    let before = hub.replica("c1", "limit").await.unwrap().uid();
    replicas
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    eventually("the replica is back", || async {
        let replica = hub.replica("c1", "limit").await?;
        (replica.uid() != before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn policies_without_a_root_do_not_stay_in_the_namespace_of_a_cluster() {
    let hub = TestHub::with_clusters(&["c1"]).await;
    let in_cluster: Api<Policy> = Api::namespaced(hub.client.clone(), "c1");
    let mut stray = policy("stray", json!({}));
    let orphan = {
        let mut orphan = policy("policies.orphan", json!({}));
        orphan["metadata"]["labels"] =
            json!({"policy.open-cluster-management.io/root-policy": "policies.orphan"});
        orphan
    };
    stray["metadata"]["namespace"] = json!("c1");
    for object in [stray, orphan] {
        let object: Policy = serde_json::from_value(object).unwrap();
        in_cluster
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }
    eventually("both are deleted", || async {
        in_cluster
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_policy_that_is_disabled_or_deleted_leaves_its_clusters() {
    let hub = TestHub::with_clusters(&["c1"]).await;
    hub.policy("limit", json!({"remediationAction": "inform"}))
        .await;
    hub.place("limit", json!({})).await;
    hub.has_actions("limit", &[("c1", "inform")]).await;
    hub.policy(
        "limit",
        json!({"remediationAction": "inform", "disabled": true}),
    )
    .await;
    hub.has_actions("limit", &[("c1", "-")]).await;
    hub.policy("limit", json!({"remediationAction": "inform"}))
        .await;
    hub.has_actions("limit", &[("c1", "inform")]).await;
    hub.delete_policy("limit").await;
    hub.has_actions("limit", &[("c1", "-")]).await;
}

#[tokio::test]
async fn a_policy_set_shows_what_its_members_report() {
    let hub = TestHub::with_clusters(&["c1"]).await;
    for name in ["p1", "p2"] {
        hub.policy(name, json!({"remediationAction": "inform"}))
            .await;
    }
    hub.apply(json!({
        "apiVersion": "policy.open-cluster-management.io/v1beta1", "kind": "PolicySet",
        "metadata": {"name": "base"}, "spec": {"policies": ["p1", "p2"]},
    }))
    .await;
    hub.place("base", json!({})).await;
    let subject = json!({"subjects": [{
        "apiGroup": "policy.open-cluster-management.io", "kind": "PolicySet", "name": "base",
    }]});
    hub.apply(binding("base", "base", "base", subject)).await;
    hub.has_actions("p1", &[("c1", "inform")]).await;
    hub.has_actions("p2", &[("c1", "inform")]).await;
    let shows = |compliant: &'static str, message: &'static str| {
        let sets: Api<polity_api::policy::v1beta1::PolicySet> =
            Api::namespaced(hub.client.clone(), NAMESPACE);
        async move {
            eventually(message, || async {
                let set = sets.get("base").await.unwrap();
                let status = set.status.unwrap_or_default();
                let is = status.compliant.as_deref() == Some(compliant)
                    && status.status_message.as_deref() == Some(message);
                if is { Ok(()) } else { Err(status) }
            })
            .await;
        }
    };
    hub.report("c1", "p1", "Compliant").await;
    hub.report("c1", "p2", "Pending").await;
    shows("Pending", "Policies awaiting pending dependencies: p2").await;
    hub.report("c1", "p1", "NonCompliant").await;
    shows("NonCompliant", "Policies awaiting pending dependencies: p2").await;
}
