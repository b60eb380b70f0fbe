//! Replicas that share a module cache on one volume (docs/spec/admission.md#19-9).

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use polity_admission::{CacheOptions, ManagedOptions};
use polity_pki::{Authority, Issued};
use polity_runtime::Clock;
use polity_testing::eventually;
use serde_json::json;

use super::test_cluster::{INITIALIZED, Replica, TestCluster, loaded_on, revision};

const YEAR: Duration = Duration::from_hours(365 * 24);

/// The controller's authority, and the Secret it has made for the server.
struct Signing {
    authority: Authority,
    secret: PathBuf,
}

impl Signing {
    fn new(folder: &Path) -> Self {
        let now = Clock::system().now();
        let signing = Self {
            authority: Authority::create("ca", 10 * YEAR, now).unwrap(),
            secret: folder.join("cache-signing"),
        };
        std::fs::create_dir(&signing.secret).unwrap();
        let issued = signing.issue();
        signing.write("tls.key", &issued.key.to_pem());
        signing.write("ca.crt", &signing.authority.certificate().to_pem());
        signing.write("tls.crt", &issued.certificate.to_pem());
        signing
    }

    fn issue(&self) -> Issued {
        let uri = "kubewarden://kubewarden/policy-server/default/cache";
        let now = Clock::system().now();
        self.authority
            .issue_code_signer("cache", uri, YEAR, now)
            .unwrap()
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.secret.join(file), text).unwrap();
    }
}

/// A cluster whose replicas share a cache on one volume.
struct SharingCluster {
    cluster: TestCluster,
    signing: Signing,
}

impl Deref for SharingCluster {
    type Target = TestCluster;

    fn deref(&self) -> &TestCluster {
        &self.cluster
    }
}

impl SharingCluster {
    async fn start() -> Self {
        let cluster = TestCluster::start().await;
        let signing = Signing::new(cluster.folder.path());
        Self { cluster, signing }
    }

    /// With a replica that has loaded a policy.
    async fn start_loaded() -> (Self, Replica, String) {
        let cluster = Self::start().await;
        let replica = cluster.sharing(0).await;
        let revision = cluster.add("p", 1, &cluster.guest("yes.wasm", true)).await;
        cluster.until_loaded(&revision, 0).await;
        (cluster, replica, revision)
    }

    fn sharing_options(&self, ordinal: i32) -> ManagedOptions {
        let mut options = self.options(ordinal, self.client.clone());
        options.cache = Some(CacheOptions {
            directory: self.folder.path().join("cache"),
            signing: self.signing.secret.clone(),
        });
        options
    }

    async fn sharing(&self, ordinal: i32) -> Replica {
        Replica::start(self.sharing_options(ordinal)).await
    }

    /// A replica with the clock of the test. It stays the leader when much time passes at once.
    async fn sharing_by(&self, clock: &Clock, ordinal: i32) -> Replica {
        let mut options = self.sharing_options(ordinal);
        options.server.clock = clock.clone();
        options.lease.lease_duration = Duration::from_hours(4);
        options.lease.renew_deadline = Duration::from_hours(3);
        Replica::start(options).await
    }

    /// Removes the module from its source: what is not cached cannot be loaded.
    fn remove_source(&self, guest: &str) {
        std::fs::remove_file(self.folder.path().join(guest)).unwrap();
    }

    /// Every file of the cache.
    fn cached(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().join("cache")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(path);
                }
            }
        }
        found
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_need_no_registry_once_it_is_cached() {
    let (cluster, first, revision) = SharingCluster::start_loaded().await;
    cluster.serve(&revision).await;
    assert_eq!(cluster.cached().len(), 4, "two files with their signatures");
    cluster.remove_source("yes.wasm");

    let second = cluster.sharing(1).await;
    cluster.until_ready(&second).await;
    assert_eq!(
        cluster.ask(&second, "clusterwide-p").await,
        (200, Some(true))
    );
    let hits = cluster
        .metric(&second, "polity_module_cache_total{result=\"hit\"}")
        .await;
    assert_eq!(hits, Some(1.0));
    let compiled = "polity_revision_phase_seconds_count{phase=\"compile\"}";
    assert_eq!(cluster.metric(&second, compiled).await, None);
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_tampered_with_is_never_loaded_and_always_healed() {
    let (cluster, first, revision) = SharingCluster::start_loaded().await;
    cluster.serve(&revision).await;
    first.stop().await;

    let is_code = |path: &PathBuf| path.to_string_lossy().contains("optimized");
    let flip = |path: &PathBuf| {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    for (what, is_flipped) in [("its code", true), ("everything", false)] {
        let files = cluster.cached();
        files
            .iter()
            .filter(|path| !is_flipped || is_code(path))
            .for_each(flip);
        let replica = cluster.sharing(0).await;
        cluster.until_ready(&replica).await;
        assert_eq!(
            cluster.ask(&replica, "clusterwide-p").await,
            (200, Some(true)),
            "{what}"
        );
        replica.stop().await;
        let healed = cluster.sharing(0).await;
        cluster.until_ready(&healed).await;
        let compiled = "polity_revision_phase_seconds_count{phase=\"compile\"}";
        assert_eq!(cluster.metric(&healed, compiled).await, None, "{what}");
        healed.stop().await;
    }

    // Nothing to heal it from: said, and not served.
    cluster.cached().iter().for_each(flip);
    cluster.remove_source("yes.wasm");
    let hopeless = cluster.sharing(0).await;
    hopeless.ends().await.unwrap_err();
    assert_eq!(
        cluster.conditions(&revision).await,
        format!("{INITIALIZED} Ready[0]=False/SignatureInvalid")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_a_renewal_what_is_good_is_signed_anew() {
    let (cluster, first, _) = SharingCluster::start_loaded().await;
    let signatures = || -> Vec<Vec<u8>> {
        let mut files = cluster.cached();
        files.retain(|path| path.to_string_lossy().ends_with(".sig"));
        files.sort();
        files
            .iter()
            .map(|path| std::fs::read(path).unwrap())
            .collect()
    };
    let before = signatures();
    let previous = std::fs::read_to_string(cluster.signing.secret.join("tls.crt")).unwrap();
    let issued = cluster.signing.issue();
    cluster.signing.write("previous.crt", &previous);
    cluster.signing.write("tls.key", &issued.key.to_pem());
    cluster
        .signing
        .write("tls.crt", &issued.certificate.to_pem());
    eventually("all files have new signatures", || async {
        let after = signatures();
        before.iter().all(|signature| !after.contains(signature))
    })
    .await;

    // The old certificate is no longer trusted, and the registry is gone.
    std::fs::remove_file(cluster.signing.secret.join("previous.crt")).unwrap();
    cluster.remove_source("yes.wasm");
    let second = cluster.sharing(1).await;
    cluster
        .until_answer(&second, "clusterwide-p/1", (200, Some(true)))
        .await;
    first.stop().await;
    second.stop().await;
}

/// A rollback loads the recorded digest, wherever the tag points now and whether or not the registry responds.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rollback_needs_no_registry() {
    let cluster = SharingCluster::start().await;
    let replica = cluster.sharing(0).await;
    let uri = cluster.guest("moving.wasm", true);
    let ready = loaded_on(0);
    let first = cluster.add("p", 1, &uri).await;
    cluster.until_conditions(&first, &ready).await;
    assert_eq!(cluster.guest("moving.wasm", false), uri, "the tag moves");
    let second = cluster.add("p", 2, &uri).await;
    cluster.until_conditions(&second, &ready).await;
    cluster.disable(&first).await;
    cluster
        .until_answer(&replica, "clusterwide-p/1", (404, None))
        .await;
    cluster.remove_source("moving.wasm");

    let mut back = revision("ClusterAdmissionPolicy", "p", 3, json!({ "module": uri }));
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
    replica.stop().await;
}

/// Seventy minutes after a policy was deleted none of its files is left, and every file that other policies need is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_go_with_the_policy_and_the_hour() {
    let cluster = SharingCluster::start().await;
    let clock = Clock::manual(Clock::system().now());
    let replica = cluster.sharing_by(&clock, 0).await;
    let kept = cluster
        .add("kept", 1, &cluster.guest("yes.wasm", true))
        .await;
    let gone = cluster
        .add("gone", 1, &cluster.guest("no.wasm", false))
        .await;
    for revision in [&kept, &gone] {
        eventually("it is ready", || async {
            // Whatever waits on the clock, such as the election, goes on.
            clock.advance(Duration::from_millis(200));
            cluster.conditions(revision).await == loaded_on(0)
        })
        .await;
    }
    assert_eq!(cluster.cached().len(), 8);
    cluster.delete(&gone).await;
    let deleted = clock.now();
    cluster
        .until_answer(&replica, "clusterwide-gone/1", (404, None))
        .await;
    assert_eq!(cluster.cached().len(), 8, "they are young");
    // Files are as old as the disk says, and that has a clock of its own.
    clock.advance(Duration::from_mins(65));
    eventually("its files are gone", || async {
        clock.advance(Duration::from_secs(1));
        cluster.cached().len() == 4
    })
    .await;
    assert!(clock.now() < deleted + Duration::from_mins(70));
    assert_eq!(
        cluster.ask(&replica, "clusterwide-kept/1").await,
        (200, Some(true))
    );
    replica.stop_by(&clock).await;
}

/// Code that another version compiled is not used; the first replica makes it anew for all, and when all of them
/// run the new version the old code goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_an_upgrade_code_is_made_once_and_the_old_code_goes() {
    let (cluster, before, revision) = SharingCluster::start_loaded().await;
    cluster.serve(&revision).await;
    before.stop().await;
    let version = format!("optimized-kw-v{}", polity_runtime::VERSION);
    let of_version = |name: &str| {
        let mut files = cluster.cached();
        files.retain(|path| path.to_string_lossy().contains(name));
        files
    };
    for path in of_version(&version) {
        let name = path
            .to_string_lossy()
            .replace(&version, "optimized-kw-v0.0.1");
        std::fs::rename(&path, name).unwrap();
    }
    cluster.remove_source("yes.wasm");

    let clock = Clock::manual(Clock::system().now());
    let first = cluster.sharing_by(&clock, 0).await;
    cluster.until_ready(&first).await;
    let second = cluster.sharing(1).await;
    cluster.until_ready(&second).await;
    let compiled = "polity_revision_phase_seconds_count{phase=\"compile\"}";
    assert_eq!(cluster.metric(&first, compiled).await, Some(1.0));
    assert_eq!(
        cluster.metric(&second, compiled).await,
        None,
        "once for all"
    );
    second.stop().await;
    clock.advance(Duration::from_mins(11));
    assert_eq!(
        of_version("optimized-kw-v0.0.1").len(),
        2,
        "the rollout goes on"
    );

    cluster.complete_rollout().await;
    eventually("the old code is gone", || async {
        clock.advance(Duration::from_mins(1));
        of_version("optimized-kw-v0.0.1").is_empty()
    })
    .await;
    assert_eq!(of_version(&version).len(), 2);
    first.stop_by(&clock).await;
}

impl TestCluster {
    /// The workload of the replicas, which all run what it says.
    async fn complete_rollout(&self) {
        let sets: Api<StatefulSet> = Api::namespaced(self.client.clone(), "kubewarden");
        let labels = json!({"app": "policy-server"});
        let set = json!({
            "metadata": {"name": "policy-server-default"},
            "spec": {
                "replicas": 1, "serviceName": "peers-default", "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "polity"}]},
                },
            },
        });
        let set = serde_json::from_value(set).unwrap();
        let set = sets.create(&PostParams::default(), &set).await.unwrap();
        let status = Patch::Merge(json!({"status": {
            "observedGeneration": set.metadata.generation, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1,
            "currentRevision": "one", "updateRevision": "one",
        }}));
        sets.patch_status("policy-server-default", &PatchParams::default(), &status)
            .await
            .unwrap();
    }
}
