//! What happens when a process, or the runtime itself, ends.

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use polity_local::logs::LogQuery;
use polity_testing::{eventually, for_every_write};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cluster::{TestCluster, is_alive, process_of};

/// Ready as soon as it runs.
fn without_probe(mut set: Value) -> Value {
    let container = &mut set["spec"]["template"]["spec"]["containers"][0];
    container.as_object_mut().unwrap().remove("readinessProbe");
    set
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_comes_back() {
    let cluster = TestCluster::new().await;
    let runtime = cluster.run().await;
    let _: StatefulSet = cluster.create(cluster.set(1, "serve")).await;
    let pod = cluster.pods_become("web-0:ready:0").await.remove(0);
    kill_process(Pid::from_raw(process_of(&pod)).unwrap(), Signal::KILL).unwrap();
    let back = cluster.pods_become("web-0:ready:1").await.remove(0);
    assert_eq!(back.uid(), pod.uid());
    let status = back
        .status
        .clone()
        .unwrap()
        .container_statuses
        .unwrap()
        .remove(0);
    let last = status.last_state.unwrap().terminated.unwrap();
    assert_eq!((last.exit_code, last.signal), (137, Some(9)));
    let previous = LogQuery {
        previous: true,
        ..LogQuery::default()
    };
    let before = runtime.log("web-0", previous).await;
    assert_eq!(before.as_deref(), Some("web-0 says hello\n"));
    runtime.stop().await;
    assert!(!is_alive(process_of(&back)));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_crashes_again_and_again_waits() {
    let cluster = TestCluster::new().await;
    let _runtime = cluster.run().await;
    let _: StatefulSet = cluster.create(cluster.set(1, "crash")).await;
    eventually("it backs off", || async {
        let pod = cluster.pods().get_opt("web-0").await.unwrap()?;
        let status = pod.status?.container_statuses?.remove(0);
        let exit = status.last_state?.terminated?.exit_code;
        let reason = status.state?.waiting?.reason?;
        (reason == "CrashLoopBackOff" && exit == 3 && status.restart_count == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_will_not_go_is_killed_after_its_grace() {
    let cluster = TestCluster::new().await;
    let _runtime = cluster.run().await;
    let _: StatefulSet = cluster
        .create(without_probe(cluster.set(1, "stubborn")))
        .await;
    let pod = cluster.pods_become("web-0:ready:0").await.remove(0);
    cluster
        .pods()
        .delete("web-0", &DeleteParams::default())
        .await
        .unwrap();
    eventually("it is another one", || async {
        let now = cluster.pods().get_opt("web-0").await.unwrap()?;
        (now.uid() != pod.uid()).then_some(())
    })
    .await;
    assert!(!is_alive(process_of(&pod)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_runtime_starts_what_it_finds_dead() {
    let cluster = TestCluster::new().await;
    let runtime = cluster.run().await;
    let _: StatefulSet = cluster.create(cluster.set(2, "serve")).await;
    let before = cluster.pods_become("web-0:ready:0 web-1:ready:0").await;
    runtime.stop().await;
    assert!(before.iter().all(|pod| !is_alive(process_of(pod))));

    let runtime = cluster.run().await;
    let after = cluster.pods_become("web-0:ready:1 web-1:ready:1").await;
    assert!(
        before
            .iter()
            .zip(&after)
            .all(|(old, new)| old.uid() == new.uid())
    );
    runtime.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dying_at_any_write_changes_nothing_in_the_end() {
    let n_cut_off = for_every_write(|point| async move {
        let cluster = TestCluster::new().await;
        let _: StatefulSet = cluster.create(without_probe(cluster.set(1, "serve"))).await;
        let faulty = point.client(cluster.client.clone());
        if let Some(runtime) = cluster.run_with(faulty.client()).await {
            // Until it dies, or is done without dying.
            tokio::select! {
                () = faulty.struck() => {}
                _ = cluster.set_completes() => {}
            }
            drop(runtime);
        }
        let runtime = cluster.run().await;
        let set = cluster.set_completes().await;
        assert_eq!(set.status.unwrap().ready_replicas, Some(1));
        runtime.stop().await;
    })
    .await;
    assert!(n_cut_off >= 10, "only {n_cut_off} writes");
}
