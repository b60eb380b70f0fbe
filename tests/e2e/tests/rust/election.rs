//! Leader election with a Lease and the implementation in `polity-runtime`, on both servers and across a crash.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use polity_runtime::lease::{Election, Elector, Leadership, LeaseTiming};
use polity_runtime::{Clock, Shutdown};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::host::Host;
use crate::test_namespace::{TestNamespace, block_on, connect, on_both_servers, soon};

on_both_servers![one_of_several_leads];

/// Lease times in seconds instead of the default fifteen.
fn timing() -> LeaseTiming {
    LeaseTiming {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(200),
    }
}

struct Candidate {
    leadership: watch::Receiver<Leadership>,
    clock: Clock,
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

impl Candidate {
    fn start(test_namespace: &TestNamespace, identity: &str) -> Self {
        let clock = Clock::system();
        let elector = Elector::new(identity, timing()).unwrap();
        let leases: Api<Lease> = test_namespace.api();
        let (election, leadership) = Election::new(leases, "e2e", elector, clock.clone());
        let shutdown = Shutdown::new();
        let task = tokio::spawn(election.run(shutdown.clone()));
        Self {
            leadership,
            clock,
            shutdown,
            task,
        }
    }

    fn leads(&self) -> bool {
        self.leadership.borrow().leads_at(self.clock.moment())
    }

    async fn resign(self) {
        self.shutdown.trigger();
        self.task.await.unwrap();
    }
}

async fn leader(candidates: &[Candidate]) -> usize {
    soon("a candidate leads", || async {
        let leaders: Vec<usize> = (0..candidates.len())
            .filter(|&n| candidates[n].leads())
            .collect();
        assert!(leaders.len() <= 1, "{leaders:?} lead at once");
        leaders.first().copied()
    })
    .await
}

async fn one_of_several_leads(test_namespace: TestNamespace) {
    let mut candidates: Vec<Candidate> = ["a", "b", "c"]
        .iter()
        .map(|name| Candidate::start(&test_namespace, name))
        .collect();
    let mut transitions = Vec::new();
    while !candidates.is_empty() {
        let first = leader(&candidates).await;
        let lease = test_namespace.api::<Lease>().get("e2e").await.unwrap();
        transitions.push(lease.spec.unwrap().lease_transitions.unwrap());
        // A leader that resigns releases the lease, so the next one does not wait until it expires.
        candidates.remove(first).resign().await;
    }
    assert_eq!(transitions, [0, 1, 2], "each hand-over counts");
    let left = test_namespace
        .api::<Lease>()
        .get("e2e")
        .await
        .unwrap()
        .spec
        .unwrap();
    assert_eq!(left.holder_identity.unwrap_or_default(), "", "released");
}

#[test]
fn there_is_one_leader_across_a_crash_of_the_server() {
    let mut host = Host::start();
    block_on(async {
        let test_namespace =
            TestNamespace::create(connect(&host.kubeconfig()).await, "election").await;
        let candidates = ["a", "b"].map(|name| Candidate::start(&test_namespace, name));
        leader(&candidates).await;
        host.kill();
        soon("no candidate leads without a server", || async {
            candidates.iter().all(|candidate| !candidate.leads())
        })
        .await;
        host.start_again();
        leader(&candidates).await;
        for candidate in candidates {
            candidate.resign().await;
        }
    });
}
