//! Controllers that are killed at every write: whatever was written last, another controller comes to the same end.

use std::cell::Cell;
use std::time::Duration;

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use polity_api::policies::v1::{Phase, PolicyServer, PolicyState};
use polity_lifecycle::lifecycle::WebhookKind;
use polity_lifecycle::policies::{Lifecycle, PolicyKey};
use polity_runtime::Clock;
use polity_testing::{CrashPoint, for_every_write};
use serde_json::json;

use crate::cluster::{TestCluster, clock, controller};

const DRAIN: Duration = Duration::from_secs(10);

/// Does what the controller does at one point of a policy's life: first the one that dies, then another.
async fn look(dying: &Lifecycle, other: &Lifecycle, key: &PolicyKey) {
    // Whether it notices that it is cut off does not matter.
    let _ = dying.reconcile(key).await;
    other.reconcile(key).await.unwrap();
}

#[tokio::test]
async fn killed_at_every_write_it_comes_to_the_same_end() {
    let cluster = TestCluster::start().await;
    let n_runs = Cell::new(0);
    let n_cut_off = for_every_write(|point| {
        let name = format!("p{}", n_runs.replace(n_runs.get() + 1));
        let cluster = &cluster;
        async move {
            let clock = clock();
            let dying = controller(point.client(cluster.client.clone()).client(), &clock);
            let other = controller(cluster.client.clone(), &clock);
            let key = cluster.add_policy(&name).await;
            look(&dying, &other, &key).await;
            assert_eq!(cluster.line(&name).await, "1 on", "{point:?}");
            cluster.load(&name).await;
            look(&dying, &other, &key).await;
            assert_eq!(
                cluster.paths(&name).await,
                [format!("/validate/clusterwide-{name}/1")],
                "{point:?}"
            );
            cluster
                .change_module(&name, "registry.example/policy:2")
                .await;
            look(&dying, &other, &key).await;
            cluster.load(&name).await;
            look(&dying, &other, &key).await;
            clock.advance(DRAIN);
            look(&dying, &other, &key).await;
            assert_eq!(
                cluster.line(&name).await,
                "1 off, 2 on serving",
                "{point:?}"
            );
            assert_eq!(
                cluster.paths(&name).await,
                [format!("/validate/clusterwide-{name}/2")],
                "{point:?}"
            );
            let status = cluster.status(&name).await;
            assert_eq!(status.phase, Some(Phase::Active), "{point:?}");
            cluster.delete(&name).await;
            look(&dying, &other, &key).await;
            clock.advance(DRAIN);
            look(&dying, &other, &key).await;
            assert_eq!(cluster.line(&name).await, "", "{point:?}");
            assert_eq!(
                cluster.policies().get_opt(&name).await.unwrap(),
                None,
                "{point:?}"
            );
        }
    })
    .await;
    assert!(n_cut_off > 40, "{n_cut_off}");
}

/// A policy that is enforced, a controller that dies at a write, and one that does not.
struct Scene<'a> {
    cluster: &'a TestCluster,
    clock: Clock,
    dying: Lifecycle,
    other: Lifecycle,
    key: PolicyKey,
    name: String,
}

impl<'a> Scene<'a> {
    async fn start(cluster: &'a TestCluster, point: &CrashPoint, n_run: usize) -> Self {
        let clock = clock();
        let other = controller(cluster.client.clone(), &clock);
        let name = format!("p{n_run}");
        let key = cluster.add_policy(&name).await;
        other.reconcile(&key).await.unwrap();
        cluster.load(&name).await;
        other.reconcile(&key).await.unwrap();
        Self {
            dying: controller(point.client(cluster.client.clone()).client(), &clock),
            cluster,
            clock,
            other,
            key,
            name,
        }
    }

    /// One point of the policy's life: both controllers look.
    async fn look(&self) {
        look(&self.dying, &self.other, &self.key).await;
    }

    /// A new generation goes in, up to the switch.
    async fn load(&self) {
        self.look().await;
        self.cluster.load(&self.name).await;
        self.look().await;
    }

    async fn drain(&self) {
        self.clock.advance(DRAIN);
        self.look().await;
    }

    async fn calls(&self, generations: &[i64]) -> bool {
        let path = |generation| format!("/validate/clusterwide-{}/{generation}", self.name);
        let expected: Vec<_> = generations.iter().map(path).collect();
        self.cluster.paths(&self.name).await == expected
    }
}

/// An update fails, and is rolled back.
#[tokio::test]
async fn killed_at_every_write_of_a_rollback_it_comes_to_the_same_end() {
    let cluster = TestCluster::start().await;
    let n_runs = Cell::new(0);
    let n_cut_off = for_every_write(|point| {
        let (cluster, n_run) = (&cluster, n_runs.replace(n_runs.get() + 1));
        async move {
            let scene = Scene::start(cluster, &point, n_run).await;
            let name = &scene.name;
            cluster
                .change_module(name, "registry.example/policy:2")
                .await;
            scene.look().await;
            cluster.fail(name, "PullError").await;
            scene.look().await;
            assert_eq!(cluster.phase(name).await, Some(Phase::Failed), "{point:?}");
            assert!(scene.calls(&[1]).await, "{point:?}");
            let rollback = "kubewarden.io/rollback-to-generation";
            cluster.annotate(name, rollback, "1").await;
            scene.load().await;
            scene.drain().await;
            let line = cluster.line(name).await;
            assert_eq!(line, "1 off, 2 off, 3 on serving", "{point:?}");
            assert!(scene.calls(&[3]).await, "{point:?}");
            cluster.forget(name).await;
        }
    })
    .await;
    assert!(n_cut_off > 20, "{n_cut_off}");
}

/// A webhook is edited, and one changes its kind.
#[tokio::test]
async fn killed_at_every_write_of_webhooks_it_comes_to_the_same_end() {
    let cluster = TestCluster::start().await;
    let n_runs = Cell::new(0);
    let n_cut_off = for_every_write(|point| {
        let (cluster, n_run) = (&cluster, n_runs.replace(n_runs.get() + 1));
        async move {
            let scene = Scene::start(cluster, &point, n_run).await;
            let hooks = cluster.hooks(WebhookKind::Validating);
            let hook = format!("clusterwide-{}", scene.name);
            hooks.delete(&hook, &DeleteParams::default()).await.unwrap();
            scene.look().await;
            assert!(scene.calls(&[1]).await, "{point:?}");
            cluster.change(&scene.name, json!({"mutating": true})).await;
            scene.load().await;
            assert!(scene.calls(&[1, 2]).await, "{point:?}");
            scene.drain().await;
            assert!(scene.calls(&[2]).await, "{point:?}");
            cluster.forget(&scene.name).await;
        }
    })
    .await;
    assert!(n_cut_off > 15, "{n_cut_off}");
}

/// The policy server goes and comes back.
#[tokio::test]
async fn killed_at_every_write_without_a_server_it_comes_to_the_same_end() {
    let cluster = TestCluster::start().await;
    let servers: Api<PolicyServer> = Api::all(cluster.client.clone());
    let n_runs = Cell::new(0);
    let n_cut_off = for_every_write(|point| {
        let (cluster, n_run) = (&cluster, n_runs.replace(n_runs.get() + 1));
        let servers = &servers;
        async move {
            let scene = Scene::start(cluster, &point, n_run).await;
            let params = DeleteParams::default();
            servers.delete("default", &params).await.unwrap();
            scene.look().await;
            let status = cluster.status(&scene.name).await;
            assert!(scene.calls(&[]).await, "{point:?}");
            assert_eq!(
                (status.phase, status.policy_status),
                (Some(Phase::Pending), PolicyState::Scheduled),
                "{point:?}"
            );
            cluster.add_server(json!({})).await;
            scene.load().await;
            assert!(scene.calls(&[1]).await, "{point:?}");
            let phase = cluster.phase(&scene.name).await;
            assert_eq!(phase, Some(Phase::Active), "{point:?}");
            cluster.forget(&scene.name).await;
        }
    })
    .await;
    assert!(n_cut_off > 6, "{n_cut_off}");
}

/// Replicas come and go.
#[tokio::test]
async fn killed_at_every_write_of_scaling_it_comes_to_the_same_end() {
    let cluster = TestCluster::start().await;
    let n_runs = Cell::new(0);
    for_every_write(|point| {
        let (cluster, n_run) = (&cluster, n_runs.replace(n_runs.get() + 1));
        async move {
            let scene = Scene::start(cluster, &point, n_run).await;
            let name = &scene.name;
            for (n_replicas, expected) in [
                (3, "0=True 1=True 2=Unknown"),
                (1, "0=True"),
                (2, "0=True 1=Unknown"),
            ] {
                let scale = Patch::Merge(json!({"spec": {"replicas": n_replicas}}));
                let params = PatchParams::default();
                let workloads = cluster.workloads();
                workloads
                    .patch("policy-server-default", &params, &scale)
                    .await
                    .unwrap();
                cluster.follow().await;
                scene.look().await;
                assert_eq!(cluster.replicas(name).await, expected, "{point:?}");
                assert_eq!(cluster.phase(name).await, Some(Phase::Active), "{point:?}");
            }
            cluster.forget(name).await;
        }
    })
    .await;
}
