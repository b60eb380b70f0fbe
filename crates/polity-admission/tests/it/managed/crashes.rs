//! Attempts that end without a result: a crash in the compile step counts against the module, everything else does not.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use polity_runtime::Clock;
use polity_testing::eventually;
use serde_json::json;

use super::test_cluster::{Replica, TestCluster, loaded_on};
use crate::support::{METADATA, write_guest};

const GIVEN_UP: &str = "Scheduled=True/PolicyScheduled Initialized=False/ModuleInvalid";

/// A guest that never finishes looking at its settings: its initialization lasts until it is interrupted.
const ENDLESS: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "__guest_call") (param i32 i32) (result i32) (loop $again (br $again)) (i32.const 1)))"#;

/// A cluster with one revision, and the note of replica 0 that it compiles the module.
struct RevisionCluster {
    cluster: TestCluster,
    revision: String,
    note: PathBuf,
}

impl Deref for RevisionCluster {
    type Target = TestCluster;

    fn deref(&self) -> &TestCluster {
        &self.cluster
    }
}

impl RevisionCluster {
    async fn with(cluster: TestCluster, revision: String) -> Self {
        let found = cluster.revisions().get(&revision).await.unwrap();
        let notes = cluster.replica_folder(0).join("polity-compiling");
        Self {
            note: notes.join(found.metadata.uid.unwrap()),
            cluster,
            revision,
        }
    }

    /// With a revision whose guest never finishes.
    async fn start_endless() -> Self {
        let cluster = TestCluster::start().await;
        let uri = write_guest(cluster.folder.path(), "p.wasm", METADATA, ENDLESS);
        let spec = json!({"module": uri, "timeoutEvalSeconds": 8});
        let revision = cluster.add_spec("p", 1, spec).await;
        Self::with(cluster, revision).await
    }

    /// With a revision whose guest answers.
    async fn start_answering() -> Self {
        let cluster = TestCluster::start().await;
        let revision = cluster.add("p", 1, &cluster.guest("yes.wasm", true)).await;
        Self::with(cluster, revision).await
    }

    /// The same reference leads to a guest that answers.
    fn replace_guest(&self) {
        self.guest("p.wasm", true);
    }

    /// The processes in the status that began an attempt.
    async fn holders(&self) -> Vec<String> {
        let initializer = self.status(&self.revision).await.initializer;
        initializer.unwrap_or_default().holders
    }

    /// Waits until a process compiles the revision that these processes crashed with.
    async fn until_compiling(&self, crashed: &[String]) {
        eventually("the module is being compiled", || async {
            let noted = std::fs::read_to_string(&self.note).unwrap_or_default();
            let holders = self.holders().await;
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn orderly_stops_while_a_module_compiles_do_not_count() {
    let cluster = RevisionCluster::start_endless().await;
    for _ in 0..3 {
        let replica = cluster.replica(0).await;
        cluster.until_compiling(&[]).await;
        replica.stop().await;
        assert!(!cluster.note.exists());
        // A stop right after the write does not know of it yet. The next process takes that attempt back.
        let status = cluster.status(&cluster.revision).await;
        let initializer = status.initializer.unwrap();
        assert!(initializer.attempts <= 1, "they do not add up");
    }
    cluster.replace_guest();
    let replica = cluster.replica(0).await;
    cluster.until_loaded(&cluster.revision, 0).await;
    replica.stop().await;
}

/// The API server was away when the processes were stopped, or they were killed together with their parent: their
/// attempts are still in the status.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn attempts_without_a_trace_of_a_crash_do_not_count() {
    let cluster = RevisionCluster::start_answering().await;
    let ours = |n: u32| format!("policy-server-default-0_0123456789abcdef_{n:016x}");
    let scheduled = json!([{"type": "Scheduled", "status": "True", "reason": "PolicyScheduled", "generation": 1}]);
    let holders = [ours(1), ours(2), ours(3)];
    let status = json!({
        "conditions": scheduled, "initializer": {"attempts": 3, "holders": holders},
    });
    cluster.set_status(&cluster.revision, status).await;
    // A process of another parent left this.
    std::fs::create_dir_all(cluster.note.parent().unwrap()).unwrap();
    std::fs::write(&cluster.note, ours(3)).unwrap();
    let replica = cluster.replica(0).await;
    cluster.until_loaded(&cluster.revision, 0).await;
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_replica_that_does_not_lead_takes_back_its_attempts() {
    let cluster = TestCluster::start().await;
    let leader = cluster.replica(1).await;
    let revision = cluster.add("p", 1, "file:///no/such.wasm").await;
    let cluster = RevisionCluster::with(cluster, revision).await;
    let failed = "Scheduled=True/PolicyScheduled Initialized=False/PullError";
    cluster.until_conditions(&cluster.revision, failed).await;
    let stale = "policy-server-default-0_0123456789abcdef_1";
    let other = "policy-server-default-2_0123456789abcdef_1";
    let initializer = json!({"attempts": 2, "holders": [stale, other]});
    cluster
        .set_status(&cluster.revision, json!({ "initializer": initializer }))
        .await;
    let replica = cluster.replica(0).await;
    eventually("the attempt is taken back", || async {
        let holders = cluster.holders().await;
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
    let cluster = RevisionCluster::start_endless().await;
    let (revision, note) = (&cluster.revision, &cluster.note);
    let mut crashed: Vec<String> = Vec::new();
    for _ in 0..3 {
        let replica = cluster.replica(0).await;
        cluster.until_compiling(&crashed).await;
        let noted = std::fs::read_to_string(note).unwrap();
        let status = cluster.status(revision).await;
        crashed = noted.lines().map(str::to_owned).collect();
        replica.stop().await;
        // An orderly end takes both back; a crash would have left them.
        std::fs::write(note, noted).unwrap();
        cluster
            .set_status(revision, json!({"initializer": status.initializer}))
            .await;
    }
    cluster.replace_guest();
    let clock = Clock::manual(Clock::system().now());
    let mut options = cluster.options(0, cluster.client.clone());
    options.server.clock = clock.clone();
    let replica = Replica::start(options).await;
    eventually("the policy has failed", || async {
        clock.advance(Duration::from_millis(10));
        let told = cluster.conditions(revision).await;
        if told == GIVEN_UP { Ok(()) } else { Err(told) }
    })
    .await;
    let initializer = cluster.status(revision).await.initializer.unwrap();
    let next = initializer.next_attempt.unwrap().0;
    assert!(next > clock.now() && next <= clock.now() + Duration::from_mins(1));
    let condition = cluster.condition(revision, "Initialized").await.unwrap();
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
        let told = cluster.conditions(revision).await;
        if told == loaded_on(0) {
            Ok(())
        } else {
            Err(told)
        }
    })
    .await;
    let initializer = cluster.status(revision).await.initializer.unwrap();
    assert_eq!((initializer.crashes, initializer.next_attempt), (0, None));
    replica.stop_by(&clock).await;
}
