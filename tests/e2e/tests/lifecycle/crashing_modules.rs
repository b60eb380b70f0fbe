//! Modules that crash the process. A module is tried at most three times and then rejected with a reason, and all
//! other policies are served throughout.
//!
//! No such module is known, so the scenarios kill the process that compiles or loads a module, each time it is tried.
//! The module is large enough to be killed in the middle.

use std::fs;
use std::path::PathBuf;

use e2e::installation::NAMESPACE;
use e2e::replica_client::is_cut_off;
use e2e::{eventually, module};
use http::Request;
use serde_json::{Value, json};

use crate::load::{self, LoadResult};
use crate::test_namespace::{TestNamespace, scenarios};

scenarios![embedded: killed_while_compiling, killed_while_loading];

const DENIAL: &str = "container trial is privileged";
/// Large enough to compile for seconds.
const LARGE: usize = 4_000_000;
/// The number of attempts before a module is rejected.
const KILLS: usize = 3;

/// A policy whose module crashes the process, beside another policy on the same server.
struct CrashingPolicy<'a> {
    test_namespace: &'a TestNamespace,
    name: String,
}

impl<'a> CrashingPolicy<'a> {
    /// Creates a policy server with these fields and a policy that it serves.
    fn beside_a_good_policy(test_namespace: &'a TestNamespace, server: Value) -> Self {
        let n_replicas = server["replicas"].as_u64().unwrap();
        test_namespace.server_with(&test_namespace.name, server);
        test_namespace.replicas_are_ready(&test_namespace.name, n_replicas);
        let mut good = test_namespace.policy("pod-privileged");
        good["spec"]["policyServer"] = json!(test_namespace.name);
        test_namespace.apply(&good);
        test_namespace
            .installation
            .until_phase(&test_namespace.path(), "Active", 1);
        test_namespace.soon_enforces(DENIAL);
        Self {
            test_namespace,
            name: format!("{}-poison", test_namespace.name),
        }
    }

    fn path(&self) -> String {
        format!("clusteradmissionpolicies/{}", self.name)
    }

    fn create(&self) {
        let file = self.test_namespace.installation.folder().join(&self.name);
        fs::write(&file, module::enlarged(&module::policy(), LARGE)).unwrap();
        let mut policy = self.test_namespace.policy("pod-privileged");
        policy["metadata"]["name"] = json!(self.name);
        policy["spec"]["policyServer"] = json!(self.test_namespace.name);
        policy["spec"]["module"] = json!(format!("file://{}", file.display()));
        self.test_namespace.apply(&policy);
    }

    fn revision(&self) -> Option<Value> {
        self.test_namespace.revisions_of(&self.name).pop()
    }

    /// Waits until the policy has failed with this message. Returns the condition.
    fn has_failed(&self, words: &str) -> Value {
        let failure = |policy: &Value| {
            let conditions = policy["status"]["conditions"].as_array()?.iter();
            let is_it = |one: &&Value| {
                one["message"]
                    .as_str()
                    .is_some_and(|output| output.contains(words))
            };
            conditions
                .filter(|one| one["status"] == "False")
                .find(is_it)
                .cloned()
        };
        let what = format!("failed: {words}");
        let policy = self
            .test_namespace
            .installation
            .until(&what, &self.path(), |policy| {
                policy["status"]["phase"] == "Failed" && failure(policy).is_some()
            });
        failure(&policy).unwrap()
    }

    /// The restart count of each replica.
    fn restarts(&self) -> Vec<u64> {
        let pods = self
            .test_namespace
            .installation
            .pods(&self.test_namespace.name)
            .into_values();
        let restarts = |pod: Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        pods.filter_map(restarts).collect()
    }
}

/// Every request was answered by the policy, except those in flight on a killed replica.
fn served_throughout(load: &LoadResult) {
    let LoadResult {
        n_requests,
        unexpected,
    } = load;
    assert!(*n_requests > 50, "{n_requests} requests");
    let is_excused =
        unexpected.iter().all(|output| is_cut_off(output)) && unexpected.len() <= KILLS;
    assert!(is_excused, "{unexpected:#?} of {n_requests}");
}

/// Kills three leaders. The attempts are counted across leaders, so the module does not crash every replica in turn.
fn killed_while_compiling(test_namespace: &TestNamespace) {
    let (installation, server) = (test_namespace.installation, &test_namespace.name);
    let crashing = CrashingPolicy::beside_a_good_policy(test_namespace, json!({"replicas": 3}));
    let ((), load) = load::during(
        1,
        DENIAL,
        |violates| test_namespace.try_pod(violates),
        || {
            crashing.create();
            for attempt in 1..=KILLS {
                eventually(&format!("attempt {attempt}"), || {
                    let attempts = &crashing.revision()?["status"]["initializer"]["attempts"];
                    (*attempts == json!(attempt)).then_some(())
                });
                let leader = test_namespace.leading_pod(server);
                installation.kill_replica(&leader);
                hand_over_lease(test_namespace, &leader);
            }
            let failure = crashing.has_failed("ended 3 times while it compiled");
            assert_eq!(
                (&failure["type"], &failure["reason"]),
                (&json!("Initialized"), &json!("ModuleInvalid")),
            );
        },
    );
    test_namespace.replicas_are_ready(server, 3);
    assert_eq!(crashing.restarts(), [1, 1, 1], "each led once");
    served_throughout(&load);
}

/// Makes the next replica leader immediately, instead of waiting until the lease of the killed one expires.
fn hand_over_lease(test_namespace: &TestNamespace, killed: &str) {
    let pods = test_namespace.installation.pods(&test_namespace.name);
    let mut others = pods
        .iter()
        .chain(&pods)
        .skip_while(|(name, _)| *name != killed);
    let (name, next) = others.nth(1).unwrap();
    let holder = format!("{name}_{}", next["metadata"]["uid"].as_str().unwrap());
    let patch = json!({"spec": {"holderIdentity": holder}}).to_string();
    let path = format!(
        "/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/policy-server-{}",
        test_namespace.name
    );
    // This must happen before the killed replica is back, which would keep the lease.
    let request = Request::patch(path).header("Content-Type", "application/merge-patch+json");
    let request = request.body(patch.into_bytes()).unwrap();
    test_namespace.installation.send(request).unwrap();
}

/// A replica with its own cache that is not the leader compiles the module itself. The third kill would cost another
/// half minute of back-off, so the test writes it into the note of the second.
fn killed_while_loading(test_namespace: &TestNamespace) {
    let (installation, server) = (test_namespace.installation, &test_namespace.name);
    let spec = json!({"replicas": 2, "cache": {"ephemeral": true}});
    let crashing = CrashingPolicy::beside_a_good_policy(test_namespace, spec);
    let pod = 1 - test_namespace.leader(server);
    let pod = format!("policy-server-{server}-{pod}");
    let has_failed = |times: &str| {
        let failure = crashing.has_failed(&format!("ended {times} while it loaded"));
        assert_eq!(
            (&failure["type"], &failure["reason"]),
            (&json!("Ready"), &json!("LoadError")),
        );
    };
    let kill_at = |n_crashes: &str| {
        eventually("it is being loaded", || {
            let note = fs::read_to_string(note(&crashing, &pod)?).ok()?;
            (note.lines().next() == Some(n_crashes)).then_some(())
        });
        installation.kill_replica(&pod);
    };
    let ((), load) = load::during(
        1,
        DENIAL,
        |violates| test_namespace.try_pod(violates),
        || {
            crashing.create();
            kill_at("1");
            has_failed("once");
            // When the replica is ready again, it tries once more.
            kill_at("2");
            fs::write(note(&crashing, &pod).unwrap(), KILLS.to_string()).unwrap();
            has_failed("3 times");
        },
    );
    test_namespace.replicas_are_ready(server, 2);
    assert_eq!(crashing.restarts().into_iter().sum::<u64>(), 2);
    served_throughout(&load);
}

/// The file in which a replica records that it is loading the module. Its first line is the number of crashes if it
/// crashes now.
fn note(crashing: &CrashingPolicy<'_>, pod: &str) -> Option<PathBuf> {
    let installation = crashing.test_namespace.installation;
    let pods = installation.pods(&crashing.test_namespace.name);
    let notes = installation
        .folder_of(pods.get(pod)?)
        .join("volumes/policy-store/polity-loading");
    let revision = crashing.revision()?;
    Some(notes.join(revision["metadata"]["uid"].as_str()?))
}
