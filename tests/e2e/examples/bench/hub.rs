//! Runs `polity up` and measures the time until policies are active.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::Polity;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config};
use polity_runtime::Clock;
use polity_runtime::clock::Moment;
use polity_testing::eventually_within;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::replica::Replica;

pub(crate) const NAMESPACE: &str = "kubewarden";
pub(crate) const SET: &str = "policy-server-default";
/// Enough to compile two hundred new modules, also with a debug build.
const TIMEOUT: Duration = Duration::from_mins(10);
/// How many requests the benchmark sends concurrently.
const AT_ONCE: usize = 16;

/// The active generation of each policy, and when it was first seen active.
type Seen = BTreeMap<String, (i64, Moment)>;

/// A running `polity up`. It is stopped when this value is dropped.
pub(crate) struct Hub {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    data_dir: PathBuf,
    policies: Api<DynamicObject>,
    active: watch::Receiver<Seen>,
    _polity: Polity,
    /// Declared last, because it must be dropped after the processes that use it.
    folder: TempDir,
}

impl Hub {
    /// Starts `polity up` with one replica and without policies.
    pub(crate) async fn start() -> Self {
        let folder = e2e::polity::folder();
        let data_dir = folder.path().join("data");
        let polity = Polity::up(&data_dir);
        let client = connect(polity.kubeconfig()).await;
        let clock = Clock::system();
        let policies = Api::all_with(client.clone(), &resource("ClusterAdmissionPolicy"));
        let (sender, active) = watch::channel(Seen::new());
        tokio::spawn(observe(policies.clone(), clock.clone(), sender));
        let hub = Self {
            client,
            clock,
            data_dir,
            policies,
            active,
            _polity: polity,
            folder,
        };
        hub.scale(1).await;
        hub.delete_all().await;
        hub
    }

    /// A temporary folder, removed on drop.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Creates a policy and returns the time until it is active.
    pub(crate) async fn create(&self, name: &str, module: &str) -> Duration {
        self.create_with(name, spec(module)).await
    }

    /// Creates a policy with this spec and returns the time until it is active.
    pub(crate) async fn create_with(&self, name: &str, spec: Value) -> Duration {
        let policy = policy(name, spec);
        let began = self.clock.moment();
        self.policies
            .create(&PostParams::default(), &policy)
            .await
            .expect("a policy is accepted");
        self.until_active(name, 1).await.since(began)
    }

    /// Creates many policies with concurrent requests. Returns for each the time until it is active.
    pub(crate) async fn create_all(&self, named: Vec<(String, String)>) -> Vec<Duration> {
        let began = self.clock.moment();
        let n_policies = named.len();
        let created = futures::stream::iter(named).map(async |(name, module)| {
            let policy = policy(&name, spec(&module));
            let began = self.clock.moment();
            let created = self.policies.create(&PostParams::default(), &policy).await;
            created.expect("a policy is accepted");
            (name, began)
        });
        let created: Vec<_> = created.buffer_unordered(AT_ONCE).collect().await;
        let mut took = Vec::new();
        for (name, began) in created {
            took.push(self.until_active(&name, 1).await.since(began));
        }
        let all = self.clock.moment().since(began).as_secs_f64();
        eprintln!("  {n_policies} policies were active after {all:.1} s");
        took
    }

    /// Changes the module of a policy and returns the time until the change is active.
    pub(crate) async fn change(&self, name: &str, module: &str) -> Duration {
        self.change_to(name, json!({"module": module})).await
    }

    /// Changes the spec of a policy and returns the time until the change is active.
    pub(crate) async fn change_to(&self, name: &str, spec: Value) -> Duration {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let began = self.clock.moment();
        let changed = self
            .policies
            .patch(name, &PatchParams::default(), &patch)
            .await
            .expect("a change is accepted");
        let generation = changed.metadata.generation.unwrap_or_default();
        self.until_active(name, generation).await.since(began)
    }

    /// Deletes policies with concurrent requests, and waits until their revisions are gone too.
    pub(crate) async fn delete(&self, names: Vec<String>) {
        let deleted = futures::stream::iter(names.clone()).map(async |name| {
            let deleted = self.policies.delete(&name, &DeleteParams::default()).await;
            deleted.expect("it is there");
        });
        deleted.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
        let all = ListParams::default();
        eventually_within(TIMEOUT, "the policies are gone", async || {
            let left = self.policies.list(&all).await.expect("a list").items;
            !left.iter().any(|one| names.contains(&name_of(one)))
        })
        .await;
    }

    /// Deletes every policy.
    pub(crate) async fn delete_all(&self) {
        let all = self.policies.list(&ListParams::default()).await;
        let names = all.expect("a list").items.iter().map(name_of).collect();
        self.delete(names).await;
    }

    /// Scales the policy server and waits until all replicas are ready.
    pub(crate) async fn scale(&self, replicas: usize) {
        let servers: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &resource("PolicyServer"));
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        servers
            .patch("default", &PatchParams::default(), &patch)
            .await
            .expect("the server can be scaled");
        let sets: Api<StatefulSet> = Api::namespaced(self.client.clone(), NAMESPACE);
        eventually_within(TIMEOUT, "the replicas are ready", async || {
            let set = sets.get_opt(SET).await.expect("a response")?;
            let (spec, status) = (set.spec, set.status?);
            let wanted = i32::try_from(replicas).ok();
            let is_there = status.observed_generation == set.metadata.generation
                && spec.replicas == wanted
                && status.ready_replicas == wanted
                && Some(status.replicas) == wanted;
            is_there.then_some(())
        })
        .await;
    }

    /// For each enabled revision, the ordinals of the replicas that report it as loaded.
    pub(crate) async fn entries(&self) -> Vec<Vec<u64>> {
        let kind = resource("PolicyRevision");
        let revisions: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), NAMESPACE, &kind);
        let all = revisions.list(&ListParams::default()).await;
        let enabled = all.expect("a list").items.into_iter();
        let enabled = enabled.filter(|revision| revision.data["spec"]["enabled"] == true);
        let ready = |revision: DynamicObject| {
            let conditions = revision.data["status"]["conditions"].as_array().cloned();
            let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
            let ready = conditions.into_iter().flatten().filter(is_ready);
            ready.filter_map(|one| one["replica"].as_u64()).collect()
        };
        enabled.map(ready).collect()
    }

    /// Deletes the first replica. Returns the new process and the time until it was ready.
    pub(crate) async fn restart(&self) -> (Replica, Duration) {
        let pod = format!("{SET}-0");
        let before = Replica::find(&self.data_dir, &pod);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let at_once = DeleteParams::default().grace_period(0);
        pods.delete(&pod, &at_once).await.expect("it is there");
        let (data_dir, clock) = (self.data_dir.clone(), self.clock.clone());
        let replica = loop {
            let found = Replica::find(&data_dir, &pod).filter(|found| Some(*found) != before);
            match found {
                Some(found) => break found,
                None => clock.sleep(Duration::from_millis(2)).await,
            }
        };
        let ready = tokio::task::spawn_blocking(move || replica.time_to_ready());
        let took = ready.await.expect("it becomes ready");
        // Wait for the StatefulSet status too, so that the next measurement starts with an idle system.
        self.scale(1).await;
        (replica, took)
    }

    /// Removes the compiled modules from the cache. The source modules stay.
    pub(crate) fn forget_compiled(&self) {
        let n_forgotten = forget(&self.data_dir);
        assert!(
            n_forgotten > 0,
            "nothing compiled in {}",
            self.data_dir.display()
        );
    }

    async fn until_active(&self, name: &str, generation: i64) -> Moment {
        let is_active = |seen: &Seen| seen.get(name).is_some_and(|(seen, _)| *seen >= generation);
        let mut active = self.active.clone();
        let seen = tokio::time::timeout(TIMEOUT, active.wait_for(is_active)).await;
        let seen = seen.unwrap_or_else(|_| panic!("{name} was never active"));
        seen.expect("the watch goes on")[name].1
    }
}

/// Watches all policies and records when a generation becomes active.
async fn observe(policies: Api<DynamicObject>, clock: Clock, seen: watch::Sender<Seen>) {
    let mut changes = watcher(policies, watcher::Config::default())
        .default_backoff()
        .touched_objects()
        .boxed();
    while let Ok(Some(policy)) = changes.try_next().await {
        let status = &policy.data["status"];
        let serving = status["servingGeneration"].as_i64();
        let is_going = policy.metadata.deletion_timestamp.is_some();
        seen.send_if_modified(|seen| {
            let name = name_of(&policy);
            match serving.filter(|_| status["phase"] == "Active") {
                _ if is_going => seen.remove(&name).is_some(),
                Some(generation) if seen.get(&name).is_none_or(|(old, _)| *old < generation) => {
                    seen.insert(name, (generation, clock.moment()));
                    true
                }
                _ => false,
            }
        });
    }
}

fn policy(name: &str, spec: Value) -> DynamicObject {
    let policy: Value = json!({
        "apiVersion": "policies.kubewarden.io/v1",
        "kind": "ClusterAdmissionPolicy",
        "metadata": {"name": name},
        "spec": spec,
    });
    serde_json::from_value(policy).expect("a policy")
}

/// A policy for objects that the benchmark never creates, so that only the lifecycle of the policy is measured.
fn spec(module: &str) -> Value {
    let rule = json!({
        "apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["CREATE"],
    });
    json!({
        "module": module, "settings": {}, "rules": [rule], "mutating": false,
        "mode": "monitor", "failurePolicy": "Ignore", "policyServer": "default",
    })
}

fn resource(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("policies.kubewarden.io", "v1", kind))
}

fn name_of(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

async fn connect(kubeconfig: &Path) -> Client {
    polity_runtime::tls::install_provider();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.expect("a usable kubeconfig")).expect("a client")
}

fn forget(folder: &Path) -> usize {
    let mut n_forgotten = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            n_forgotten += forget(&path);
        } else if entry
            .file_name()
            .to_string_lossy()
            .starts_with("optimized-")
        {
            fs::remove_file(&path).expect("our own file");
            n_forgotten += 1;
        }
    }
    n_forgotten
}
