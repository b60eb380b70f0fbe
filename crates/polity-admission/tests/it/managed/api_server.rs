//! Leaders that end, and an API server that cannot be reached.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use polity_runtime::Clock;
use polity_testing::{Fault, FaultyClient, eventually};

use super::test_cluster::{INITIALIZED, Replica, TestCluster, loaded_on};

impl TestCluster {
    async fn faulty_replica(&self, ordinal: i32) -> (Replica, FaultyClient) {
        let faulty = self.api_server().faulty().await;
        let replica = Replica::start(self.options(ordinal, faulty.client())).await;
        (replica, faulty)
    }

    async fn until_leads(&self, holder: &str) {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kubewarden");
        eventually(&format!("{holder} leads"), || async {
            let lease = leases.get("policy-server-default").await.ok()?;
            let found = lease.spec?.holder_identity?;
            (found == holder).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_that_is_cut_off_serves_on_and_another_leads() {
    let cluster = TestCluster::start().await;
    let (first, faulty) = cluster.faulty_replica(0).await;
    cluster.until_leads("policy-server-default-0_pod-0").await;
    let second = cluster.replica(1).await;
    let old = cluster.add("p", 1, &cluster.guest("yes.wasm", true)).await;
    let on_both = format!("{INITIALIZED} Ready[0]=True/PolicyReady Ready[1]=True/PolicyReady");
    cluster.until_conditions(&old, &on_both).await;

    faulty.cut_off();
    let new = cluster.add("p", 2, &cluster.guest("no.wasm", false)).await;
    cluster.until_loaded(&new, 1).await;
    cluster.until_leads("policy-server-default-1_pod-1").await;
    assert_eq!(
        cluster.ask(&first, "clusterwide-p/1").await,
        (200, Some(true)),
        "loss of the lease never stops serving"
    );
    cluster.disable(&old).await;

    let modules = cluster.status(&new).await.modules;
    faulty.clear_faults();
    cluster.until_conditions(&new, &on_both).await;
    cluster
        .until_answer(&first, "clusterwide-p/1", (404, None))
        .await;
    assert_eq!(
        cluster.status(&new).await.modules,
        modules,
        "nothing overwritten"
    );
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_may_end_at_any_write() {
    let cluster = TestCluster::start().await;
    for (nth, fault) in [
        (1, Fault::NotSent),
        (1, Fault::AnswerLost),
        (2, Fault::NotSent),
        (2, Fault::AnswerLost),
        (3, Fault::NotSent),
        (3, Fault::AnswerLost),
    ] {
        let faulty = cluster.api_server().faulty().await;
        let first = Replica::start(cluster.options(0, faulty.client())).await;
        cluster.until_leads("policy-server-default-0_pod-0").await;
        let name = format!("p{nth}-{}", if fault == Fault::NotSent { "a" } else { "b" });
        let crashing = faulty.clone().fail_nth(
            nth,
            |seen| seen.is_write() && seen.path.contains("/status"),
            fault,
        );
        let revision = cluster
            .add(&name, 1, &cluster.guest("yes.wasm", true))
            .await;
        crashing.struck().await;
        faulty.cut_off();

        let second = cluster.replica(1).await;
        let path = format!("clusterwide-{name}/1");
        cluster
            .until_answer(&second, &path, (200, Some(true)))
            .await;
        eventually("it is initialised and ready", || async {
            let told = cluster.conditions(&revision).await;
            let is_good =
                told.starts_with(INITIALIZED) && told.ends_with("Ready[1]=True/PolicyReady");
            if is_good { Ok(()) } else { Err(told) }
        })
        .await;
        faulty.clear_faults();
        first.stop().await;
        second.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_an_api_server_it_serves_on_and_catches_up() {
    let mut cluster = TestCluster::start_on_disk().await;
    let replica = cluster.replica(0).await;
    let old = cluster.add("p", 1, &cluster.guest("yes.wasm", true)).await;
    cluster.until_loaded(&old, 0).await;
    cluster.serve(&old).await;
    cluster
        .until_answer(&replica, "clusterwide-p", (200, Some(true)))
        .await;

    let server = cluster.server.take().unwrap();
    // Between stop and start: answers that are only asked for during the restart may all come after it.
    let outage = async {
        for _ in 0..10 {
            let answer = cluster.ask(&replica, "clusterwide-p").await;
            assert_eq!(answer, (200, Some(true)));
        }
        assert_eq!(cluster.readiness(&replica).await, 200);
    };
    let server = server.restart_after(outage).await;
    assert_eq!(cluster.readiness(&replica).await, 200);
    cluster.client = server.client().await;
    cluster.server = Some(server);

    let new = cluster.add("q", 1, &cluster.guest("no.wasm", false)).await;
    cluster.disable(&old).await;
    cluster
        .until_answer(&replica, "clusterwide-p/1", (404, None))
        .await;
    cluster.until_loaded(&new, 0).await;
    assert_eq!(
        cluster.ask(&replica, "clusterwide-q/1").await,
        (200, Some(false))
    );
    replica.stop().await;
}

/// Five minutes without the API server, by the replica's own clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cut_off_for_minutes_it_serves_on_and_then_reports_its_state() {
    let cluster = TestCluster::start().await;
    let clock = Clock::manual(Clock::system().now());
    let faulty = cluster.api_server().faulty().await;
    let mut options = cluster.options(0, faulty.client());
    options.server.clock = clock.clone();
    let replica = Replica::start(options).await;
    let until_conditions = async |revision: &str, expected: &str| {
        eventually(expected, || async {
            // Whatever waits on the clock, such as the election, goes on.
            clock.advance(Duration::from_millis(500));
            cluster.conditions(revision).await == expected
        })
        .await;
    };
    let ready = loaded_on(0);
    let old = cluster.add("p", 1, &cluster.guest("yes.wasm", true)).await;
    until_conditions(&old, &ready).await;
    cluster.serve(&old).await;
    cluster
        .until_answer(&replica, "clusterwide-p", (200, Some(true)))
        .await;

    faulty.cut_off();
    let new = cluster.add("q", 1, &cluster.guest("no.wasm", false)).await;
    for _ in 0..30 {
        clock.advance(Duration::from_secs(10));
        let answer = cluster.ask(&replica, "clusterwide-p").await;
        assert_eq!(answer, (200, Some(true)));
        assert_eq!(cluster.readiness(&replica).await, 200);
    }
    assert_eq!(cluster.conditions(&new).await, "");
    faulty.clear_faults();
    until_conditions(&new, &ready).await;
    assert_eq!(cluster.conditions(&old).await, ready);
    replica.stop_by(&clock).await;
}
