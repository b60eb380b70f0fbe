//! The whole controller, with the account and the rights that an installation gives it: a policy server and a policy
//! from nothing to the end, while the test plays kubelet, leader and replicas.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use polity_api::policies::v1::{ConditionStatus, Phase, PolicyServer, PolicyState, PolicyStatus};
use polity_lifecycle::webhooks::Registration;
use polity_lifecycle::{CONTROLLER_LEASE, LifecycleController};
use polity_reconcile::{ControllerMetrics, LeaderElection};
use polity_runtime::lease::LeaseTiming;
use polity_runtime::{Clock, Shutdown};
use polity_testing::eventually;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::cluster::{NAMESPACE, TestCluster, settings, setup};

/// A controller that runs until it is stopped.
pub(crate) struct Running {
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

impl Running {
    /// Installs the roles, and starts a controller under its own account.
    pub(crate) async fn start(cluster: &TestCluster) -> Self {
        Self::start_with_defaults(cluster, None).await
    }

    /// Does so, with recommended policies from a ConfigMap.
    pub(crate) async fn start_with_defaults(
        cluster: &TestCluster,
        config_map: Option<&str>,
    ) -> Self {
        cluster.add_roles().await;
        Self::start_with(cluster, config_map, None).await
    }

    /// Starts a controller that keeps the configurations of webhooks, when the roles are installed.
    pub(crate) async fn start_with(
        cluster: &TestCluster,
        config_map: Option<&str>,
        registration: Option<Registration>,
    ) -> Self {
        let user = format!("system:serviceaccount:{NAMESPACE}:kubewarden-controller");
        let groups = ["system:serviceaccounts", "system:authenticated"];
        let controller = LifecycleController {
            client: cluster.server.client_as(&user, &groups).await,
            clock: Clock::system(),
            settings: settings(Duration::from_millis(500), String::new()),
            setup: setup(),
            defaults_config_map: config_map.map(str::to_owned),
            policy_metrics: None,
            controller_metrics: ControllerMetrics::default(),
            registration,
        };
        let election = LeaderElection {
            client: controller.client.clone(),
            clock: controller.clock.clone(),
            namespace: NAMESPACE.to_owned(),
            lease: CONTROLLER_LEASE.to_owned(),
            identity: "the-only-one".to_owned(),
            timing: LeaseTiming::default(),
        };
        let shutdown = Shutdown::new();
        let running = election.run(shutdown.clone(), move |term| {
            let controller = controller.clone();
            async move { controller.run(&term).await }
        });
        let task = tokio::spawn(async move { running.await.unwrap() });
        Self { shutdown, task }
    }

    /// Stops it in order.
    pub(crate) async fn stop(self) {
        self.shutdown.trigger();
        self.task.await.unwrap();
    }
}

fn at_home<K>(cluster: &TestCluster) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    Api::namespaced(cluster.client.clone(), NAMESPACE)
}

async fn names<K>(cluster: &TestCluster) -> BTreeSet<String>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let all = at_home::<K>(cluster).list(&ListParams::default()).await;
    all.unwrap().iter().map(ResourceExt::name_any).collect()
}

fn says(status: &PolicyStatus, type_: &str) -> Option<(ConditionStatus, String)> {
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|one| one.type_ == type_)?;
    Some((found.status, found.reason.clone()))
}

async fn scale(cluster: &TestCluster, n_replicas: i32) {
    let servers: Api<PolicyServer> = Api::all(cluster.client.clone());
    let patch = Patch::Merge(json!({"spec": {"replicas": n_replicas}}));
    let params = PatchParams::default();
    servers.patch("default", &params, &patch).await.unwrap();
    eventually("the workload follows", || async {
        cluster.n_replicas().await == n_replicas
    })
    .await;
    cluster.follow().await;
}

async fn becomes(cluster: &TestCluster, phase: Phase, serving: Option<i64>) {
    eventually(&format!("{phase:?} with {serving:?}"), || async {
        let status = cluster.policies().get("p").await.unwrap().status?;
        (status.phase == Some(phase) && status.serving_generation == serving).then_some(())
    })
    .await;
}

async fn reads(cluster: &TestCluster, line: &str) {
    eventually(line, || async { cluster.line("p").await == line }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_from_nothing_to_its_end() {
    let cluster = TestCluster::bare().await;
    let running = Running::start(&cluster).await;

    // Everything a policy server needs.
    cluster.add_server(json!({"minAvailable": 1})).await;
    let servers: Api<PolicyServer> = Api::all(cluster.client.clone());
    eventually("the policy server is set up", || async {
        let status = servers.get("default").await.unwrap().status?;
        let is_true =
            |one: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| one.status == "True";
        (status.conditions.len() == 8 && status.conditions.iter().all(is_true)).then_some(())
    })
    .await;
    let own = "policy-server-default".to_owned();
    for found in [
        names::<ConfigMap>(&cluster).await,
        names::<Secret>(&cluster).await,
        names::<Service>(&cluster).await,
        names::<PodDisruptionBudget>(&cluster).await,
        names::<Role>(&cluster).await,
        names::<RoleBinding>(&cluster).await,
        names::<ServiceAccount>(&cluster).await,
        names::<Lease>(&cluster).await,
    ] {
        assert!(found.contains(&own), "{found:?}");
    }
    assert!(names::<Service>(&cluster).await.contains("peers-default"));
    let secrets = names::<Secret>(&cluster).await;
    assert!(secrets.contains("cache-signer-default") && secrets.contains("kubewarden-ca"));

    // Deleting a key revokes it, and another one is made.
    let secrets = at_home::<Secret>(&cluster);
    for name in ["cache-signer-default", "policy-server-default"] {
        let revoked = secrets.get(name).await.unwrap();
        let params = DeleteParams::default();
        secrets.delete(name, &params).await.unwrap();
        eventually("another key", || async {
            let found = secrets.get_opt(name).await.unwrap();
            found.is_some_and(|found| found.uid() != revoked.uid())
        })
        .await;
    }

    // No replica runs that could take it.
    cluster.add_policy("p").await;
    eventually("no replica runs", || async {
        let status = cluster.policies().get("p").await.unwrap().status?;
        says(&status, "Scheduled").filter(|(_, reason)| reason == "PolicyServerNotRunning")
    })
    .await;
    becomes(&cluster, Phase::Pending, None).await;
    cluster.follow().await;
    eventually("replicas run", || async {
        let status = cluster.status("p").await;
        says(&status, "Scheduled").filter(|(_, reason)| reason == "WaitingForPolicyServer")
    })
    .await;

    // Loaded everywhere: the webhook has the authority of this installation, and conditions as in older releases.
    cluster.load("p").await;
    becomes(&cluster, Phase::Active, Some(1)).await;
    assert_eq!(cluster.paths("p").await, ["/validate/clusterwide-p/1"]);
    let ca = at_home::<Secret>(&cluster)
        .get("kubewarden-ca")
        .await
        .unwrap();
    let ca: &ByteString = &ca.data.as_ref().unwrap()["ca.crt"];
    let hook = &cluster.webhooks("p").await[0].data["webhooks"][0];
    assert_eq!(hook["clientConfig"]["caBundle"], json!(ca));
    let status = cluster.status("p").await;
    assert_eq!(status.policy_status, PolicyState::Active);
    for type_ in [
        "PolicyActive",
        "PolicyUniquelyReachable",
        "PolicyServerConfigurationUpToDate",
    ] {
        let said = says(&status, type_).map(|(status, _)| status);
        assert_eq!(said, Some(ConditionStatus::True), "{type_}");
    }

    // A broken update, and the old generation goes on.
    cluster
        .change_module("p", "registry.example/policy:2")
        .await;
    becomes(&cluster, Phase::Updating, Some(1)).await;
    cluster.fail("p", "PullError").await;
    becomes(&cluster, Phase::Failed, Some(1)).await;
    let message = cluster.status("p").await.message.unwrap_or_default();
    assert!(message.contains("PullError, it says"), "{message}");
    assert!(message.contains("generation 1 is enforced"), "{message}");
    assert_eq!(cluster.paths("p").await, ["/validate/clusterwide-p/1"]);

    // Corrected, switched, drained.
    cluster
        .change_module("p", "registry.example/policy:3")
        .await;
    reads(&cluster, "1 on serving, 2 off, 3 on").await;
    cluster.load("p").await;
    becomes(&cluster, Phase::Active, Some(3)).await;
    reads(&cluster, "1 off, 2 off, 3 on serving").await;

    // Replicas are added and removed.
    scale(&cluster, 3).await;
    eventually("the third is awaited", || async {
        cluster.replicas("p").await == "0=True 1=True 2=Unknown"
    })
    .await;
    assert_eq!(cluster.phase("p").await, Some(Phase::Active));
    cluster.load("p").await;
    eventually("the third has it", || async {
        cluster.replicas("p").await == "0=True 1=True 2=True"
    })
    .await;
    scale(&cluster, 1).await;
    eventually("one is left", || async {
        cluster.replicas("p").await == "0=True"
    })
    .await;

    // A rollback.
    cluster
        .annotate("p", "kubewarden.io/rollback-to-generation", "1")
        .await;
    reads(&cluster, "1 off, 2 off, 3 on serving, 4 on").await;
    cluster.load("p").await;
    becomes(&cluster, Phase::Active, Some(4)).await;
    let policy = cluster.policies().get("p").await.unwrap();
    assert_eq!(
        policy.spec.policy.module.module,
        "registry.example/policy:1"
    );

    // The policy server is deleted and created again.
    reads(&cluster, "1 off, 2 off, 3 off, 4 on serving").await;
    servers
        .delete("default", &DeleteParams::default())
        .await
        .unwrap();
    becomes(&cluster, Phase::Pending, None).await;
    assert_eq!(
        cluster.status("p").await.policy_status,
        PolicyState::Scheduled
    );
    eventually("the policy server is gone", || async {
        servers.get_opt("default").await.unwrap().is_none() && cluster.n_replicas().await == 0
    })
    .await;
    cluster.follow().await;
    assert_eq!(cluster.paths("p").await, [""; 0]);
    cluster.add_server(json!({"replicas": 1})).await;
    eventually("the workload is back", || async {
        cluster.n_replicas().await == 1
    })
    .await;
    cluster.follow().await;
    cluster.load("p").await;
    becomes(&cluster, Phase::Active, Some(4)).await;
    assert_eq!(cluster.paths("p").await, ["/validate/clusterwide-p/4"]);

    // The policy is deleted.
    cluster.delete("p").await;
    eventually("nothing is left", || async {
        cluster.policies().get_opt("p").await.unwrap().is_none()
            && cluster.line("p").await.is_empty()
    })
    .await;
    assert_eq!(cluster.paths("p").await, [""; 0]);

    // The Events of all of this.
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), "default");
    let events = events.list(&ListParams::default()).await.unwrap();
    let told: BTreeSet<_> = events
        .iter()
        .filter_map(|event| event.reason.as_deref())
        .collect();
    for reason in [
        "PolicyPending",
        "PolicyServerNotRunning",
        "PolicyScheduled",
        "PolicyInitialized",
        "PolicyReady",
        "PolicyActive",
        "PolicyUpdating",
        "PolicyInitializationFailed",
        "PolicyRolledBack",
        "PolicyServerNotFound",
    ] {
        assert!(told.contains(reason), "{reason} is not in {told:?}");
    }
    running.stop().await;
}
