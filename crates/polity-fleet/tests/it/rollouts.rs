//! Progressive rollouts through the controllers of the hub.

use serde_json::json;

use crate::hub::TestHub;

fn progressive() -> serde_json::Value {
    json!({
        "remediationAction": "enforce",
        "rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": 1}},
    })
}

#[tokio::test]
async fn clusters_enforce_one_after_the_other_and_stop_at_a_failure() {
    let hub = TestHub::with_clusters(&["c1", "c2", "c3"]).await;
    hub.policy("limit", progressive()).await;
    hub.place("limit", json!({})).await;
    let expected = [("c1", "enforce"), ("c2", "inform"), ("c3", "inform")];
    hub.has_actions("limit", &expected).await;
    hub.report("c1", "limit", "Compliant").await;
    let expected = [("c1", "enforce"), ("c2", "enforce"), ("c3", "inform")];
    hub.has_actions("limit", &expected).await;
    hub.report("c2", "limit", "NonCompliant").await;
    hub.has_status("limit", json!({"rolloutStatus": "Failed"}))
        .await;
    hub.has_actions("limit", &expected).await;
    hub.report("c2", "limit", "Compliant").await;
    let expected = [("c1", "enforce"), ("c2", "enforce"), ("c3", "enforce")];
    hub.has_actions("limit", &expected).await;
    hub.report("c3", "limit", "Compliant").await;
    hub.has_status(
        "limit",
        json!({"rolloutStatus": "Succeeded", "compliant": "Compliant"}),
    )
    .await;
}

#[tokio::test]
async fn a_cluster_that_joins_after_success_gets_a_rollout_of_its_own() {
    let hub = TestHub::with_clusters(&["c1"]).await;
    hub.policy("limit", progressive()).await;
    hub.place("limit", json!({})).await;
    hub.has_actions("limit", &[("c1", "enforce")]).await;
    hub.report("c1", "limit", "Compliant").await;
    hub.has_status("limit", json!({"rolloutStatus": "Succeeded"}))
        .await;
    hub.join("c2", json!({})).await;
    hub.has_actions("limit", &[("c1", "enforce"), ("c2", "enforce")])
        .await;
    hub.has_status("limit", json!({"rolloutStatus": "Progressing"}))
        .await;
    hub.report("c2", "limit", "Compliant").await;
    hub.has_status("limit", json!({"rolloutStatus": "Succeeded"}))
        .await;
}

#[tokio::test]
async fn a_hub_that_is_restarted_goes_on_where_it_stopped() {
    let mut hub = TestHub::with_clusters(&["c1", "c2"]).await;
    hub.policy("limit", progressive()).await;
    hub.place("limit", json!({})).await;
    hub.has_actions("limit", &[("c1", "enforce"), ("c2", "inform")])
        .await;
    hub.stop_controllers().await;
    hub.report("c1", "limit", "Compliant").await;
    hub.run_controllers(hub.client.clone());
    hub.has_actions("limit", &[("c1", "enforce"), ("c2", "enforce")])
        .await;
}
