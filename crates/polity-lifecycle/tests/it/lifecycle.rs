//! A policy from its creation to its end, undisturbed.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use polity_api::policies::v1::{HistoryResult, Phase};
use polity_reconcile::{Requeue, Term};
use polity_runtime::{Clock, Shutdown};
use polity_testing::eventually;

use crate::cluster::{TestCluster, clock, controller};

const DRAIN: Duration = Duration::from_secs(10);

#[tokio::test]
async fn created_updated_broken_rolled_back_and_deleted() {
    let cluster = TestCluster::start().await;
    let clock = clock();
    let controller = controller(cluster.client.clone(), &clock);
    let key = cluster.add_policy("p").await;

    assert_eq!(controller.reconcile(&key).await.unwrap(), Requeue::Slowly);
    assert_eq!(cluster.status("p").await.phase, Some(Phase::Pending));
    assert_eq!(cluster.line("p").await, "1 on");
    cluster.load("p").await;
    controller.reconcile(&key).await.unwrap();
    assert_eq!(cluster.status("p").await.phase, Some(Phase::Active));
    assert_eq!(cluster.paths("p").await, ["/validate/clusterwide-p/1"]);

    cluster
        .change_module("p", "registry.example/policy:2")
        .await;
    controller.reconcile(&key).await.unwrap();
    let status = cluster.status("p").await;
    assert_eq!(
        (status.phase, status.serving_generation),
        (Some(Phase::Updating), Some(1))
    );
    assert_eq!(cluster.paths("p").await, ["/validate/clusterwide-p/1"]);
    cluster.load("p").await;
    assert_eq!(
        controller.reconcile(&key).await.unwrap(),
        Requeue::After(DRAIN)
    );
    assert_eq!(cluster.paths("p").await, ["/validate/clusterwide-p/2"]);
    assert_eq!(cluster.line("p").await, "1 on serving, 2 on serving");
    clock.advance(DRAIN);
    assert_eq!(controller.reconcile(&key).await.unwrap(), Requeue::Slowly);
    assert_eq!(cluster.line("p").await, "1 off, 2 on serving");

    cluster
        .annotate("p", "kubewarden.io/rollback-to-generation", "1")
        .await;
    controller.reconcile(&key).await.unwrap();
    let policy = cluster.policies().get("p").await.unwrap();
    assert_eq!(
        policy.spec.policy.module.module,
        "registry.example/policy:1"
    );
    assert_eq!(policy.metadata.generation, Some(3));
    cluster.load("p").await;
    controller.reconcile(&key).await.unwrap();
    let status = cluster.status("p").await;
    assert_eq!(status.serving_generation, Some(3));
    assert!(
        status
            .history
            .iter()
            .all(|entry| entry.result == HistoryResult::Active)
    );

    cluster.delete("p").await;
    assert_eq!(
        controller.reconcile(&key).await.unwrap(),
        Requeue::After(DRAIN)
    );
    assert_eq!(cluster.paths("p").await, [""; 0]);
    clock.advance(DRAIN);
    assert_eq!(controller.reconcile(&key).await.unwrap(), Requeue::Never);
    assert_eq!(cluster.line("p").await, "");
    assert_eq!(cluster.policies().get_opt("p").await.unwrap(), None);
}

#[tokio::test]
async fn at_rest_nothing_is_written() {
    let cluster = TestCluster::start().await;
    let faulty = cluster.server.faulty().await;
    let controller = controller(faulty.client(), &clock());
    let key = cluster.add_policy("p").await;
    controller.reconcile(&key).await.unwrap();
    cluster.load("p").await;
    controller.reconcile(&key).await.unwrap();
    let n_writes = faulty.n_writes();
    controller.reconcile(&key).await.unwrap();
    assert_eq!(faulty.n_writes(), n_writes, "{:?}", faulty.writes());
}

#[tokio::test]
async fn the_events_tell_the_story() {
    let cluster = TestCluster::start().await;
    let controller = controller(cluster.client.clone(), &clock());
    let key = cluster.add_policy("p").await;
    controller.reconcile(&key).await.unwrap();
    cluster.load("p").await;
    controller.reconcile(&key).await.unwrap();
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), "default");
    let all = events.list(&ListParams::default()).await.unwrap();
    let mut told: Vec<_> = all
        .iter()
        .filter(|event| event.regarding.as_ref().and_then(|one| one.name.as_deref()) == Some("p"))
        .filter_map(|event| event.reason.as_deref())
        .collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [
            "PolicyActive",
            "PolicyInitialized",
            "PolicyPending",
            "PolicyReady",
            "PolicyReady",
            "PolicyScheduled"
        ]
    );
}

#[tokio::test]
async fn running_it_needs_no_telling() {
    let cluster = TestCluster::start().await;
    let controller = controller(cluster.client.clone(), &Clock::system());
    let shutdown = Shutdown::new();
    let term = Term::without_election(&shutdown);
    let running = tokio::spawn(async move { controller.run(&term).await });
    cluster.add_policy("p").await;
    eventually("a revision is there", || async {
        !cluster.line("p").await.is_empty()
    })
    .await;
    cluster.load("p").await;
    eventually("it is enforced", || async {
        cluster.phase("p").await == Some(Phase::Active)
    })
    .await;
    cluster
        .change_module("p", "registry.example/policy:2")
        .await;
    eventually("the update has a revision", || async {
        cluster.line("p").await.ends_with("2 on")
    })
    .await;
    cluster.load("p").await;
    eventually("the update is enforced", || async {
        cluster.status("p").await.serving_generation == Some(2)
    })
    .await;
    shutdown.trigger();
    running.await.unwrap();
}
