//! Many replicas that write into the same statuses, and requests while one replica after the other stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use kube::api::ListParams;
use polity_testing::{FaultyClient, eventually, eventually_within};

use super::test_cluster::{Replica, TestCluster};
use crate::browser::Browser;
use crate::support::review;

const N_REPLICAS: i32 = 20;
/// A fifth of what the contract speaks of: twenty replicas in one process of a debug build are slow, and each policy has
/// its own status.
const N_POLICIES: usize = 20;

/// No replica's condition is lost, and when all are written nothing is written any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_entry_of_every_replica_is_there_in_the_end() {
    let cluster = TestCluster::start().await;
    let faulty: FaultyClient = cluster.api_server().faulty().await;
    let replicas =
        (0..N_REPLICAS).map(|ordinal| Replica::start(cluster.options(ordinal, faulty.client())));
    let replicas = join_all(replicas).await;
    let yes = cluster.guest("yes.wasm", true);
    let names: Vec<_> = (0..N_POLICIES).map(|n| format!("p{n}")).collect();
    join_all(names.iter().map(|name| cluster.add(name, 1, &yes))).await;

    let all = N_POLICIES * N_REPLICAS as usize;
    eventually_within(Duration::from_mins(3), "everybody has said so", || async {
        let revisions = cluster
            .revisions()
            .list(&ListParams::default())
            .await
            .unwrap();
        let ready = revisions.iter().flat_map(|revision| {
            let status = revision.status.iter();
            status.flat_map(|status| status.conditions.iter().filter(|one| one.replica.is_some()))
        });
        let n_ready = ready.filter(|one| one.reason == "PolicyReady").count();
        if n_ready == all { Ok(()) } else { Err(n_ready) }
    })
    .await;

    // Renewals of the Lease apart.
    let said = || {
        let writes = faulty.writes();
        writes
            .iter()
            .filter(|one| !one.path.contains("/leases/"))
            .count()
    };
    let before = said();
    let renewals = || faulty.n_writes() - said();
    let renewed = renewals();
    eventually("the leader goes on", || async { renewals() >= renewed + 5 }).await;
    assert_eq!(said(), before, "{:?}", faulty.writes());
    for replica in replicas {
        replica.stop().await;
    }
}

/// Callers learn of the end of a replica from its readiness, as endpoints do, and none of their requests fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_that_stop_in_turn_lose_no_request() {
    let cluster = TestCluster::start().await;
    let revision = cluster.add("p", 1, &cluster.guest("yes.wasm", true)).await;
    let start = async |ordinal: i32| {
        let mut options = cluster.options(ordinal, cluster.client.clone());
        options.server.shutdown_delay = Duration::from_secs(1);
        let replica = Replica::start(options).await;
        cluster
            .until_answer(&replica, "clusterwide-p/1", (200, Some(true)))
            .await;
        replica
    };
    let mut replicas = Vec::new();
    for ordinal in 0..3 {
        replicas.push(start(ordinal).await);
    }
    cluster.serve(&revision).await;
    let endpoints = Arc::new(std::sync::Mutex::new(
        replicas
            .iter()
            .map(|replica| replica.address)
            .collect::<Vec<_>>(),
    ));
    let (is_over, n_answers) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let callers: Vec<_> = (0..4)
        .map(|n: usize| {
            let (endpoints, is_over, n_answers) =
                (endpoints.clone(), is_over.clone(), n_answers.clone());
            let browser = Browser::new();
            tokio::spawn(async move {
                let mut n_asked = n;
                while !is_over.load(Ordering::Relaxed) {
                    n_asked += 1;
                    let address = {
                        let endpoints = endpoints.lock().unwrap();
                        endpoints[n_asked % endpoints.len()]
                    };
                    let (status, _) = browser
                        .send(address, "/validate/clusterwide-p/1", &review(""))
                        .await;
                    assert_eq!(status, 200);
                    n_answers.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for ordinal in 0..3 {
        let replica = replicas.remove(0);
        let (address, admin) = (replica.address, replica.admin);
        let stopping = tokio::spawn(replica.stop());
        eventually("it says that it goes", || async {
            cluster.browser.send(admin, "/readiness", "").await.0 == 503
        })
        .await;
        endpoints.lock().unwrap().retain(|one| *one != address);
        stopping.await.expect("it ends as it should");
        let again = start(ordinal).await;
        endpoints.lock().unwrap().push(again.address);
        replicas.push(again);
    }
    is_over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.expect("every request was answered");
    }
    assert!(n_answers.load(Ordering::Relaxed) > 50);
    for replica in replicas {
        replica.stop().await;
    }
}
