//! Leaders that end, and an API server that cannot be reached.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use polity_runtime::Clock;
use polity_testing::{Fault, FaultyClient, eventually};

use super::world::{Replica, World};

const READY: &str = "Scheduled=True/PolicyScheduled Initialized=True/PolicyInitialized";

impl World {
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
    let world = World::start().await;
    let (first, faulty) = world.faulty_replica(0).await;
    world.until_leads("policy-server-default-0_pod-0").await;
    let second = world.replica(1).await;
    let old = world.add("p", 1, &world.guest("yes.wasm", true)).await;
    let on_both = format!("{READY} Ready[0]=True/PolicyReady Ready[1]=True/PolicyReady");
    world.until_told(&old, &on_both).await;

    faulty.cut_off();
    let new = world.add("p", 2, &world.guest("no.wasm", false)).await;
    world
        .until_told(&new, &format!("{READY} Ready[1]=True/PolicyReady"))
        .await;
    world.until_leads("policy-server-default-1_pod-1").await;
    assert_eq!(
        world.ask(&first, "clusterwide-p/1").await,
        (200, Some(true)),
        "loss of the lease never stops serving"
    );
    world.disable(&old).await;

    let modules = world.status(&new).await.modules;
    faulty.mend();
    world.until_told(&new, &on_both).await;
    world
        .until_answer(&first, "clusterwide-p/1", (404, None))
        .await;
    assert_eq!(
        world.status(&new).await.modules,
        modules,
        "nothing overwritten"
    );
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_may_end_at_any_write() {
    let world = World::start().await;
    for (nth, fault) in [
        (1, Fault::NotSent),
        (1, Fault::AnswerLost),
        (2, Fault::NotSent),
        (2, Fault::AnswerLost),
        (3, Fault::NotSent),
        (3, Fault::AnswerLost),
    ] {
        let faulty = world.api_server().faulty().await;
        let first = Replica::start(world.options(0, faulty.client())).await;
        world.until_leads("policy-server-default-0_pod-0").await;
        let name = format!("p{nth}-{}", if fault == Fault::NotSent { "a" } else { "b" });
        let crashing = faulty.clone().fail_nth(
            nth,
            |seen| seen.is_write() && seen.path.contains("/status"),
            fault,
        );
        let revision = world.add(&name, 1, &world.guest("yes.wasm", true)).await;
        crashing.struck().await;
        faulty.cut_off();

        let second = world.replica(1).await;
        let path = format!("clusterwide-{name}/1");
        world.until_answer(&second, &path, (200, Some(true))).await;
        eventually("it is initialised and ready", || async {
            let told = world.told(&revision).await;
            let is_good = told.starts_with(READY) && told.ends_with("Ready[1]=True/PolicyReady");
            if is_good { Ok(()) } else { Err(told) }
        })
        .await;
        faulty.mend();
        first.stop().await;
        second.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_an_api_server_it_serves_on_and_catches_up() {
    let mut world = World::start_on_disk().await;
    let replica = world.replica(0).await;
    let old = world.add("p", 1, &world.guest("yes.wasm", true)).await;
    world
        .until_told(&old, &format!("{READY} Ready[0]=True/PolicyReady"))
        .await;
    world.serve(&old).await;
    world
        .until_answer(&replica, "clusterwide-p", (200, Some(true)))
        .await;

    let server = world.server.take().unwrap();
    // Between stop and start: answers that are only asked for during the restart may all come after it.
    let outage = async {
        for _ in 0..10 {
            let answer = world.ask(&replica, "clusterwide-p").await;
            assert_eq!(answer, (200, Some(true)));
        }
        assert_eq!(world.readiness(&replica).await, 200);
    };
    let server = server.restart_after(outage).await;
    assert_eq!(world.readiness(&replica).await, 200);
    world.client = server.client().await;
    world.server = Some(server);

    let new = world.add("q", 1, &world.guest("no.wasm", false)).await;
    world.disable(&old).await;
    world
        .until_answer(&replica, "clusterwide-p/1", (404, None))
        .await;
    world
        .until_told(&new, &format!("{READY} Ready[0]=True/PolicyReady"))
        .await;
    assert_eq!(
        world.ask(&replica, "clusterwide-q/1").await,
        (200, Some(false))
    );
    replica.stop().await;
}

/// Five minutes without the API server, by the replica's own clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cut_off_for_minutes_it_serves_on_and_then_says_what_is_true() {
    let world = World::start().await;
    let clock = Clock::manual(Clock::system().now());
    let faulty = world.api_server().faulty().await;
    let mut options = world.options(0, faulty.client());
    options.server.clock = clock.clone();
    let replica = Replica::start(options).await;
    let until_told = async |revision: &str, expected: &str| {
        eventually(expected, || async {
            // Whatever waits on the clock, such as the election, goes on.
            clock.advance(Duration::from_millis(500));
            world.told(revision).await == expected
        })
        .await;
    };
    let ready = format!("{READY} Ready[0]=True/PolicyReady");
    let old = world.add("p", 1, &world.guest("yes.wasm", true)).await;
    until_told(&old, &ready).await;
    world.serve(&old).await;
    world
        .until_answer(&replica, "clusterwide-p", (200, Some(true)))
        .await;

    faulty.cut_off();
    let new = world.add("q", 1, &world.guest("no.wasm", false)).await;
    for _ in 0..30 {
        clock.advance(Duration::from_secs(10));
        let answer = world.ask(&replica, "clusterwide-p").await;
        assert_eq!(answer, (200, Some(true)));
        assert_eq!(world.readiness(&replica).await, 200);
    }
    assert_eq!(world.told(&new).await, "");
    faulty.mend();
    until_told(&new, &ready).await;
    assert_eq!(world.told(&old).await, ready);
    replica.stop_by(&clock).await;
}
