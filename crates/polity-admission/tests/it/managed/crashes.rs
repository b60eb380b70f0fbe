//! Attempts that end without a result: a crash in the compile step counts against the module, everything else does not.

use std::path::PathBuf;
use std::time::Duration;

use polity_runtime::Clock;
use polity_testing::eventually;
use serde_json::json;

use super::test_cluster::{Replica, TestCluster};
use crate::support::{METADATA, write_guest};

const READY: &str = "Scheduled=True/PolicyScheduled Initialized=True/PolicyInitialized";
const GIVEN_UP: &str = "Scheduled=True/PolicyScheduled Initialized=False/ModuleInvalid";

/// A guest that never finishes looking at its settings: its initialization lasts until it is interrupted.
const ENDLESS: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "__guest_call") (param i32 i32) (result i32) (loop $again (br $again)) (i32.const 1)))"#;

/// A revision of such a guest.
async fn add_endless(cluster: &TestCluster) -> String {
    let uri = write_guest(cluster.folder.path(), "p.wasm", METADATA, ENDLESS);
    let spec = json!({"module": uri, "timeoutEvalSeconds": 8});
    cluster.add_spec("p", 1, spec).await
}

/// The same reference leads to a guest that answers.
fn replace_guest(cluster: &TestCluster) {
    cluster.guest("p.wasm", true);
}

fn note(cluster: &TestCluster, uid: &str) -> PathBuf {
    cluster.replica_folder(0).join("polity-compiling").join(uid)
}

async fn uid(cluster: &TestCluster, revision: &str) -> String {
    let found = cluster.revisions().get(revision).await.unwrap();
    found.metadata.uid.unwrap()
}

/// The processes in the status that began an attempt.
async fn holders(cluster: &TestCluster, revision: &str) -> Vec<String> {
    let initializer = cluster.status(revision).await.initializer;
    initializer.unwrap_or_default().holders
}

/// Waits until a replica compiles a revision; the process as its status names it.
async fn until_compiling(cluster: &TestCluster, revision: &str) -> String {
    let note = note(cluster, &uid(cluster, revision).await);
    eventually("the module is being compiled", || async {
        let noted = std::fs::read_to_string(&note).ok();
        let holders = holders(cluster, revision).await;
        match (noted, &holders[..]) {
            (Some(noted), [holder]) if noted.contains(holder) => Ok(holder.clone()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn orderly_stops_while_a_module_compiles_do_not_count() {
    let cluster = TestCluster::start().await;
    let revision = add_endless(&cluster).await;
    for _ in 0..3 {
        let replica = cluster.replica(0).await;
        until_compiling(&cluster, &revision).await;
        replica.stop().await;
        assert!(!note(&cluster, &uid(&cluster, &revision).await).exists());
        // A stop right after the write does not know of it yet. The next process takes that attempt back.
        let initializer = cluster.status(&revision).await.initializer.unwrap();
        assert!(initializer.attempts <= 1, "they do not add up");
    }
    replace_guest(&cluster);
    let replica = cluster.replica(0).await;
    cluster
        .until_conditions(&revision, &format!("{READY} Ready[0]=True/PolicyReady"))
        .await;
    replica.stop().await;
}

/// The API server was away when the processes were stopped, or they were killed together with their parent: their
/// attempts are still in the status.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn attempts_without_a_trace_of_a_crash_do_not_count() {
    let cluster = TestCluster::start().await;
    let revision = cluster.add("p", 1, &cluster.guest("yes.wasm", true)).await;
    let uid = uid(&cluster, &revision).await;
    let ours = |n: u32| format!("policy-server-default-0_0123456789abcdef_{n:016x}");
    let scheduled = json!([{"type": "Scheduled", "status": "True", "reason": "PolicyScheduled", "generation": 1}]);
    let holders = [ours(1), ours(2), ours(3)];
    let status = json!({
        "conditions": scheduled, "initializer": {"attempts": 3, "holders": holders},
    });
    cluster.set_status(&revision, status).await;
    // A process of another parent left this.
    let note = note(&cluster, &uid);
    std::fs::create_dir_all(note.parent().unwrap()).unwrap();
    std::fs::write(&note, ours(3)).unwrap();
    let replica = cluster.replica(0).await;
    cluster
        .until_conditions(&revision, &format!("{READY} Ready[0]=True/PolicyReady"))
        .await;
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_replica_that_does_not_lead_takes_back_its_attempts() {
    let cluster = TestCluster::start().await;
    let leader = cluster.replica(1).await;
    let revision = cluster.add("p", 1, "file:///no/such.wasm").await;
    let failed = "Scheduled=True/PolicyScheduled Initialized=False/PullError";
    cluster.until_conditions(&revision, failed).await;
    let stale = "policy-server-default-0_0123456789abcdef_1";
    let other = "policy-server-default-2_0123456789abcdef_1";
    let initializer = json!({"attempts": 2, "holders": [stale, other]});
    cluster
        .set_status(&revision, json!({ "initializer": initializer }))
        .await;
    let replica = cluster.replica(0).await;
    eventually("the attempt is taken back", || async {
        let holders = holders(&cluster, &revision).await;
        // A new attempt of the leader ends all of them.
        let is_gone = !holders.iter().any(|holder| holder == stale);
        if is_gone { Ok(()) } else { Err(holders) }
    })
    .await;
    replica.stop().await;
    leader.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_crashes_fail_the_policy_until_the_next_attempt_is_due() {
    let cluster = TestCluster::start().await;
    let revision = add_endless(&cluster).await;
    let note = note(&cluster, &uid(&cluster, &revision).await);
    let mut crashed: Vec<String> = Vec::new();
    for _ in 0..3 {
        let replica = cluster.replica(0).await;
        until_compiling_again(&cluster, &revision, &crashed).await;
        let noted = std::fs::read_to_string(&note).unwrap();
        let status = cluster.status(&revision).await;
        crashed = noted.lines().map(str::to_owned).collect();
        replica.stop().await;
        // An orderly end takes both back; a crash would have left them.
        std::fs::write(&note, noted).unwrap();
        cluster
            .set_status(&revision, json!({"initializer": status.initializer}))
            .await;
    }
    replace_guest(&cluster);
    let clock = Clock::manual(Clock::system().now());
    let mut options = cluster.options(0, cluster.client.clone());
    options.server.clock = clock.clone();
    let replica = Replica::start(options).await;
    eventually("the policy has failed", || async {
        clock.advance(Duration::from_millis(10));
        let told = cluster.conditions(&revision).await;
        if told == GIVEN_UP { Ok(()) } else { Err(told) }
    })
    .await;
    let initializer = cluster.status(&revision).await.initializer.unwrap();
    let next = initializer.next_attempt.unwrap().0;
    assert!(next > clock.now() && next <= clock.now() + Duration::from_mins(1));
    let condition = cluster.condition(&revision, "Initialized").await.unwrap();
    let due = next.strftime("The next attempt is made at %Y-%m-%dT%H:%M:%SZ");
    for words in [
        "ended 3 times while it compiled the module",
        &due.to_string(),
    ] {
        assert!(condition.message.contains(words), "{}", condition.message);
    }

    clock.advance(Duration::from_mins(1));
    eventually("the policy is loaded at last", || async {
        clock.advance(Duration::from_millis(50));
        let told = cluster.conditions(&revision).await;
        if told == format!("{READY} Ready[0]=True/PolicyReady") {
            Ok(())
        } else {
            Err(told)
        }
    })
    .await;
    let initializer = cluster.status(&revision).await.initializer.unwrap();
    assert_eq!((initializer.crashes, initializer.next_attempt), (0, None));
    replica.stop_by(&clock).await;
}

/// Waits until a process compiles a revision that these processes crashed with.
async fn until_compiling_again(cluster: &TestCluster, revision: &str, crashed: &[String]) {
    let note = note(cluster, &uid(cluster, revision).await);
    eventually("the module is being compiled", || async {
        let noted = std::fs::read_to_string(&note).unwrap_or_default();
        let holders = holders(cluster, revision).await;
        let is_new = |holder: &&String| !crashed.contains(holder) && noted.contains(&**holder);
        let n_new = holders.iter().filter(is_new).count();
        if n_new == 1 && holders.len() == crashed.len() + 1 {
            Ok(())
        } else {
            Err(holders)
        }
    })
    .await;
}
