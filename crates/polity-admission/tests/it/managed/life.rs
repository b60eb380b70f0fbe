//! The life of a revision from its creation to its removal, and the responses of the server during it
//! (docs/spec/admission.md#19-3).

use std::sync::Arc;

use axum::Router;
use polity_testing::eventually;
use serde_json::json;

use super::test_cluster::{INITIALIZED, TestCluster, loaded_on};
use crate::support::{METADATA, answering, module, review};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn from_created_to_ready_on_every_replica() {
    let cluster = TestCluster::start().await;
    let first = cluster.replica(0).await;
    let second = cluster.replica(1).await;
    cluster.until_ready(&first).await;
    let yes = cluster.guest("yes.wasm", true);
    let revision = cluster.add("p", 1, &yes).await;
    cluster
        .until_conditions(
            &revision,
            &format!("{INITIALIZED} Ready[0]=True/PolicyReady Ready[1]=True/PolicyReady"),
        )
        .await;

    let status = cluster.status(&revision).await;
    let [module] = &status.modules[..] else {
        panic!("one module: {status:?}");
    };
    assert_eq!((module.uri.as_str(), &module.member), (yes.as_str(), &None));
    assert!(module.digest.starts_with("sha256:") && module.size > 8);
    let initializer = status.initializer.unwrap();
    assert_eq!(initializer.attempts, 0);
    assert_eq!(
        initializer.version.as_deref(),
        Some(polity_runtime::VERSION)
    );

    for replica in [&first, &second] {
        for (path, expected) in [
            ("clusterwide-p/1", (200, Some(true))),
            ("kw.cap.p/1", (200, Some(true))),
            ("clusterwide-p/2", (404, None)),
            ("clusterwide-p", (404, None)),
            ("other/1", (404, None)),
        ] {
            assert_eq!(cluster.ask(replica, path).await, expected, "{path}");
        }
    }
    cluster.serve(&revision).await;
    cluster
        .until_answer(&first, "clusterwide-p", (200, Some(true)))
        .await;
    for metric in [
        "polity_loaded_policies{state=\"ready\"}",
        "polity_revision_phase_seconds_count{phase=\"settings\"}",
    ] {
        let seen = cluster.metric(&first, metric).await;
        assert!(seen.is_some_and(|n| n >= 1.0), "{metric}: {seen:?}");
    }
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_update_is_loaded_beside_what_serves() {
    let cluster = TestCluster::start().await;
    let replica = cluster.replica(0).await;
    let old = cluster.add("p", 1, &cluster.guest("yes.wasm", true)).await;
    cluster
        .until_answer(&replica, "clusterwide-p/1", (200, Some(true)))
        .await;
    cluster.serve(&old).await;

    // A broken update does not affect requests for the old generation.
    let broken = cluster.add("p", 2, "file:///no/such.wasm").await;
    cluster
        .until_conditions(
            &broken,
            "Scheduled=True/PolicyScheduled Initialized=False/PullError",
        )
        .await;
    assert_eq!(cluster.ask(&replica, "clusterwide-p/2").await, (404, None));
    assert_eq!(
        cluster.ask(&replica, "clusterwide-p").await,
        (200, Some(true))
    );
    cluster.disable(&broken).await;

    let new = cluster.add("p", 3, &cluster.guest("no.wasm", false)).await;
    cluster
        .until_answer(&replica, "clusterwide-p/3", (200, Some(false)))
        .await;
    assert_eq!(
        cluster.ask(&replica, "clusterwide-p").await,
        (200, Some(true)),
        "until the controller says so"
    );
    cluster.serve(&new).await;
    cluster
        .until_answer(&replica, "clusterwide-p", (200, Some(false)))
        .await;
    assert_eq!(
        cluster.ask(&replica, "clusterwide-p/1").await,
        (200, Some(true)),
        "through its drain"
    );

    // Disabled, then deleted.
    cluster.disable(&old).await;
    cluster
        .until_answer(&replica, "clusterwide-p/1", (404, None))
        .await;
    cluster.delete(&new).await;
    cluster
        .until_answer(&replica, "clusterwide-p/3", (404, None))
        .await;
    for metric in [
        "polity_loaded_policies{state=\"ready\"}",
        "polity_loaded_modules",
    ] {
        eventually("nothing is loaded any more", || async {
            let n = cluster.metric(&replica, metric).await;
            if n == Some(0.0) { Ok(()) } else { Err(n) }
        })
        .await;
    }
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn groups_are_served_with_their_members() {
    let cluster = TestCluster::start().await;
    let replica = cluster.replica(0).await;
    let (yes, no) = (
        cluster.guest("yes.wasm", true),
        cluster.guest("no.wasm", false),
    );
    let spec = json!({
        "expression": "a() && b()", "message": "refused",
        "policies": {"a": {"module": yes}, "b": {"module": no}},
    });
    let group = super::test_cluster::revision("ClusterAdmissionPolicyGroup", "g", 1, spec);
    let group = cluster.add_object(group).await;
    cluster.until_loaded(&group, 0).await;
    assert_eq!(cluster.status(&group).await.modules.len(), 2);
    for (path, expected) in [
        ("clusterwide-group-g/1", false),
        ("clusterwide-group-g%2Fa/1", true),
        ("clusterwide-group-g%2Fb/1", false),
        ("kw.capg.g%2Fa/1", true),
    ] {
        assert_eq!(
            cluster.ask(&replica, path).await,
            (200, Some(expected)),
            "{path}"
        );
    }
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rollback_brings_back_the_same_bytes() {
    let cluster = TestCluster::start().await;
    let replica = cluster.replica(0).await;
    let uri = cluster.guest("moving.wasm", true);
    let first = cluster.add("p", 1, &uri).await;
    let ready = loaded_on(0);
    cluster.until_conditions(&first, &ready).await;

    // The module at the reference has changed since.
    assert_eq!(cluster.guest("moving.wasm", false), uri);
    let mut back =
        super::test_cluster::revision("ClusterAdmissionPolicy", "p", 3, json!({ "module": uri }));
    back["metadata"]["annotations"]["kubewarden.io/rollback-of"] = json!("1");
    let back = cluster.add_object(back).await;
    cluster.until_conditions(&back, &ready).await;
    assert_eq!(
        cluster.status(&back).await.modules,
        cluster.status(&first).await.modules
    );
    assert_eq!(
        cluster.ask(&replica, "clusterwide-p/3").await,
        (200, Some(true))
    );
    let new = cluster.add("p", 4, &uri).await;
    cluster.until_conditions(&new, &ready).await;
    assert_eq!(
        cluster.ask(&replica, "clusterwide-p/4").await,
        (200, Some(false)),
        "a new generation asks anew"
    );
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_policy_created_again_replaces_the_old_one() {
    let cluster = TestCluster::start().await;
    let replica = cluster.replica(0).await;
    let old = cluster.add("p", 1, &cluster.guest("yes.wasm", true)).await;
    cluster
        .until_answer(&replica, "clusterwide-p/1", (200, Some(true)))
        .await;
    cluster.delete(&old).await;
    let again = cluster.add("p", 1, &cluster.guest("no.wasm", false)).await;
    assert_eq!(again, old, "names come back");
    cluster
        .until_answer(&replica, "clusterwide-p/1", (200, Some(false)))
        .await;
    replica.stop().await;
}

/// A late result for a deleted revision is dropped, and never written to its successor.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn deleted_while_it_is_pulled_it_leaves_nothing() {
    let cluster = TestCluster::start().await;
    let (asked, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let wasm = module(METADATA, &answering(r#"{"accepted":false}"#));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let behind = gate.clone();
    let slow = Router::new().fallback(async move || {
        asked.send(()).unwrap();
        drop(behind.acquire().await);
        wasm
    });
    tokio::spawn(async move { axum::serve(listener, slow).await });
    let sources = cluster.folder.path().join("sources.yml");
    std::fs::write(&sources, format!("insecure_sources: [\"{address}\"]")).unwrap();
    let mut options = cluster.options(0, cluster.client.clone());
    options.server.modules.sources = Some(sources);
    let replica = super::test_cluster::Replica::start(options).await;

    let old = cluster
        .add("p", 1, &format!("http://{address}/p.wasm"))
        .await;
    seen.recv().await.unwrap();
    cluster.delete(&old).await;
    let again = cluster.add("p", 1, &cluster.guest("yes.wasm", true)).await;
    assert_eq!(again, old, "the same name, another revision");
    gate.add_permits(1);
    let ready = loaded_on(0);
    cluster.until_conditions(&again, &ready).await;
    let modules = cluster.status(&again).await.modules;
    assert!(modules[0].uri.ends_with("yes.wasm"), "{modules:?}");
    assert_eq!(
        cluster.ask(&replica, "clusterwide-p/1").await,
        (200, Some(true))
    );
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stopping_server_responds_until_the_end() {
    let cluster = TestCluster::start().await;
    let revision = cluster.add("p", 1, &cluster.guest("yes.wasm", true)).await;
    let mut options = cluster.options(0, cluster.client.clone());
    options.server.shutdown_delay = std::time::Duration::from_secs(1);
    let replica = super::test_cluster::Replica::start(options).await;
    cluster.until_loaded(&revision, 0).await;
    let (address, admin) = (replica.address, replica.admin);
    let stopping = tokio::spawn(replica.stop());
    eventually("it is not ready any more", || async {
        cluster.browser.send(admin, "/readiness", "").await.0 == 503
    })
    .await;
    let (status, _) = cluster
        .browser
        .send(address, "/validate/clusterwide-p/1", &review(""))
        .await;
    assert_eq!(status, 200);
    stopping.await.unwrap();
    assert!(
        cluster
            .conditions(&revision)
            .await
            .ends_with("Ready[0]=True/PolicyReady"),
        "what it says stays: the controller sees the pod go"
    );
}
