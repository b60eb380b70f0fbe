//! Which revisions the start of a replica waits for (docs/spec/admission.md#19-7).

use polity_testing::eventually;

use super::test_cluster::{INITIALIZED, TestCluster};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restart_serves_again_what_served() {
    let cluster = TestCluster::start().await;
    let revision = cluster.add("p", 1, &cluster.guest("yes.wasm", true)).await;
    let before = cluster.replica(0).await;
    cluster.until_loaded(&revision, 0).await;
    cluster.serve(&revision).await;
    before.stop().await;

    let after = cluster.replica(0).await;
    cluster.until_ready(&after).await;
    assert_eq!(
        cluster.ask(&after, "clusterwide-p").await,
        (200, Some(true)),
        "ready means that it serves"
    );
    cluster.until_loaded(&revision, 0).await;
    after.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_serves_and_cannot_be_loaded_ends_the_start() {
    let cluster = TestCluster::start().await;
    let good = cluster
        .add("good", 1, &cluster.guest("good.wasm", true))
        .await;
    let lost = cluster
        .add("lost", 1, &cluster.guest("lost.wasm", false))
        .await;
    let before = cluster.replica(0).await;
    for revision in [&good, &lost] {
        cluster.until_loaded(revision, 0).await;
    }
    cluster.serve(&good).await;
    before.stop().await;
    std::fs::remove_file(cluster.folder.path().join("lost.wasm")).unwrap();
    cluster.forget_replica(0);

    // Not serving: it says so, and serves the rest.
    let after = cluster.replica(0).await;
    cluster.until_ready(&after).await;
    cluster
        .until_conditions(&lost, &format!("{INITIALIZED} Ready[0]=False/PullError"))
        .await;
    assert_eq!(
        cluster.ask(&after, "clusterwide-good").await,
        (200, Some(true))
    );

    // The revision serves after all.
    cluster.serve(&lost).await;
    eventually("it is not ready any more", || async {
        cluster.readiness(&after).await == 503
    })
    .await;
    assert_eq!(
        cluster.ask(&after, "clusterwide-good").await,
        (200, Some(true)),
        "everything else stays"
    );
    after.stop().await;

    // Serving: there is no start without it.
    cluster.forget_replica(0);
    let hopeless = cluster.replica(0).await;
    assert_ne!(cluster.readiness(&hopeless).await, 200);
    let end = hopeless.ends().await.unwrap_err();
    let cause = std::error::Error::source(&end).unwrap().to_string();
    assert!(cause.contains("clusterwide-lost: cannot read"), "{cause}");
    assert_eq!(
        cluster.conditions(&lost).await,
        format!("{INITIALIZED} Ready[0]=False/PullError")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_ended_the_process_before_waits_until_the_rest_serves() {
    let cluster = TestCluster::start().await;
    let poison = cluster
        .add("poison", 1, &cluster.guest("poison.wasm", true))
        .await;
    let before = cluster.replica(0).await;
    cluster.until_loaded(&poison, 0).await;
    before.stop().await;
    let loading = cluster.replica_folder(0).join("polity-loading");
    assert_eq!(
        std::fs::read_dir(&loading).unwrap().count(),
        0,
        "an orderly end leaves nothing"
    );

    let uid = cluster.revisions().get(&poison).await.unwrap().metadata.uid;
    std::fs::write(loading.join(uid.unwrap()), "3").unwrap();
    let after = cluster.replica(0).await;
    cluster.until_ready(&after).await;
    cluster
        .until_conditions(&poison, &format!("{INITIALIZED} Ready[0]=False/LoadError"))
        .await;
    let status = cluster.status(&poison).await;
    let said = &status.conditions.last().unwrap().message;
    assert_eq!(
        said,
        "The policy server ended 3 times while it loaded the policy. The next attempt is made 1 minute after the \
         replica is ready."
    );
    let next = cluster
        .add("poison", 2, &cluster.guest("yes.wasm", true))
        .await;
    cluster.until_loaded(&next, 0).await;
    after.stop().await;
}
