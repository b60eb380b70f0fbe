//! A cluster with revisions in it, and replicas of one policy server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use polity_admission::{ManagedOptions, ReplicaIdentity};
use polity_api::policies::v1::{PolicyCondition, PolicyRevision, PolicyRevisionStatus};
use polity_runtime::lease::LeaseTiming;
use polity_runtime::shutdown::TaskEnd;
use polity_runtime::{Clock, Shutdown};
use polity_testing::{TestServer, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::browser::Browser;
use crate::support::{METADATA, answering, review, server_options, write_guest};

const NAMESPACE: &str = "kubewarden";

/// The conditions of a revision that the leader has initialised, before those of replicas.
pub(crate) const INITIALIZED: &str =
    "Scheduled=True/PolicyScheduled Initialized=True/PolicyInitialized";

/// The conditions of a revision that one replica has loaded.
pub(crate) fn loaded_on(ordinal: i32) -> String {
    format!("{INITIALIZED} Ready[{ordinal}]=True/PolicyReady")
}

/// A cluster with our kinds.
pub(crate) struct TestCluster {
    pub(crate) server: Option<TestServer>,
    pub(crate) client: Client,
    pub(crate) folder: TempDir,
    pub(crate) browser: Browser,
}

impl TestCluster {
    /// A cluster in memory.
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::on(TestServer::start().await, folder).await
    }

    /// A cluster that can be restarted.
    pub(crate) async fn start_on_disk() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let builder = TestServer::builder().data_dir(folder.path().join("api"));
        Self::on(builder.start().await, folder).await
    }

    async fn on(server: TestServer, folder: TempDir) -> Self {
        let client = server.client().await;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in polity_api::crd::crds() {
            definitions
                .create(&PostParams::default(), &definition)
                .await
                .unwrap();
        }
        let cluster = Self {
            server: Some(server),
            client,
            folder,
            browser: Browser::new(),
        };
        eventually("revisions are served", || async {
            cluster.revisions().list(&ListParams::default()).await.ok()
        })
        .await;
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        Api::<Namespace>::all(cluster.client.clone())
            .create(
                &PostParams::default(),
                &serde_json::from_value(namespace).unwrap(),
            )
            .await
            .unwrap();
        cluster
    }

    pub(crate) fn api_server(&self) -> &TestServer {
        self.server.as_ref().expect("it runs")
    }

    pub(crate) fn revisions(&self) -> Api<PolicyRevision> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// A module that gives one answer. Answers its reference.
    pub(crate) fn guest(&self, name: &str, accepted: bool) -> String {
        let answer = answering(&format!(r#"{{"accepted":{accepted}}}"#));
        write_guest(self.folder.path(), name, METADATA, &answer)
    }

    // --- The controller.

    /// Creates a revision of a policy of the cluster.
    pub(crate) async fn add(&self, policy: &str, generation: i64, module: &str) -> String {
        self.add_spec(policy, generation, json!({"module": module}))
            .await
    }

    pub(crate) async fn add_spec(&self, policy: &str, generation: i64, spec: Value) -> String {
        self.add_object(revision("ClusterAdmissionPolicy", policy, generation, spec))
            .await
    }

    pub(crate) async fn add_object(&self, object: Value) -> String {
        let object: PolicyRevision = serde_json::from_value(object).unwrap();
        let created = self
            .revisions()
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        created.name_any()
    }

    pub(crate) async fn mark(&self, revision: &str, key: &str, value: Option<&str>) {
        self.patch(revision, json!({"metadata": {"annotations": {key: value}}}))
            .await;
    }

    pub(crate) async fn serve(&self, revision: &str) {
        self.mark(revision, "kubewarden.io/serving", Some("true"))
            .await;
    }

    pub(crate) async fn disable(&self, revision: &str) {
        self.patch(
            revision,
            json!({"spec": {"enabled": false}, "metadata": {"annotations": {"kubewarden.io/serving": null}}}),
        )
        .await;
    }

    pub(crate) async fn delete(&self, revision: &str) {
        self.revisions()
            .delete(revision, &DeleteParams::default())
            .await
            .unwrap();
    }

    async fn patch(&self, revision: &str, patch: Value) {
        self.revisions()
            .patch(revision, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub(crate) async fn set_status(&self, revision: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.revisions()
            .patch_status(revision, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    // --- What is to be seen.

    pub(crate) async fn status(&self, revision: &str) -> PolicyRevisionStatus {
        let found = self.revisions().get(revision).await.unwrap();
        found.status.unwrap_or_default()
    }

    pub(crate) async fn condition(&self, revision: &str, type_: &str) -> Option<PolicyCondition> {
        let conditions = self.status(revision).await.conditions;
        conditions
            .into_iter()
            .find(|condition| condition.type_ == type_)
    }

    /// `Type=Status/Reason` of each condition, `Ready` with its replica.
    pub(crate) async fn conditions(&self, revision: &str) -> String {
        let conditions = self.status(revision).await.conditions;
        let told = conditions.iter().map(|condition| {
            let replica = condition
                .replica
                .map(|n| format!("[{n}]"))
                .unwrap_or_default();
            let type_ = &condition.type_;
            format!(
                "{type_}{replica}={:?}/{}",
                condition.status, condition.reason
            )
        });
        told.collect::<Vec<_>>().join(" ")
    }

    /// Waits until a revision is initialised, and this replica alone reports that it has loaded it.
    pub(crate) async fn until_loaded(&self, revision: &str, ordinal: i32) {
        self.until_conditions(revision, &loaded_on(ordinal)).await;
    }

    pub(crate) async fn until_conditions(&self, revision: &str, expected: &str) {
        eventually(&format!("{revision} is {expected}"), || async {
            let told = self.conditions(revision).await;
            if told == expected { Ok(()) } else { Err(told) }
        })
        .await;
    }

    /// HTTP status and verdict of a replica.
    pub(crate) async fn ask(&self, replica: &Replica, path: &str) -> (u16, Option<bool>) {
        let (status, text) = self
            .browser
            .send(replica.address, &format!("/validate/{path}"), &review(""))
            .await;
        let json: Value = serde_json::from_str(&text).unwrap();
        (status, json["response"]["allowed"].as_bool())
    }

    pub(crate) async fn until_answer(
        &self,
        replica: &Replica,
        path: &str,
        expected: (u16, Option<bool>),
    ) {
        eventually(&format!("{path} answers {expected:?}"), || async {
            let answer = self.ask(replica, path).await;
            if answer == expected {
                Ok(())
            } else {
                Err(answer)
            }
        })
        .await;
    }

    pub(crate) async fn readiness(&self, replica: &Replica) -> u16 {
        let answer = self.browser.send(replica.admin, "/readiness", "");
        answer.await.0
    }

    pub(crate) async fn until_ready(&self, replica: &Replica) {
        eventually("the replica is ready", || async {
            self.readiness(replica).await == 200
        })
        .await;
    }

    pub(crate) async fn metric(&self, replica: &Replica, line: &str) -> Option<f64> {
        let (_, text) = self.browser.send(replica.admin, "/metrics", "").await;
        let found = text.lines().find_map(|found| found.strip_prefix(line))?;
        found.trim().parse().ok()
    }

    // --- Replicas.

    pub(crate) fn options(&self, ordinal: i32, client: Client) -> ManagedOptions {
        ManagedOptions {
            server: server_options(self.replica_folder(ordinal)),
            identity: ReplicaIdentity {
                server: "default".to_owned(),
                namespace: NAMESPACE.to_owned(),
                pod_name: format!("policy-server-default-{ordinal}"),
                pod_uid: format!("pod-{ordinal}"),
            },
            client,
            cache: None,
            server_config: self.folder.path().join("server.yml"),
            lease: LeaseTiming {
                lease_duration: Duration::from_secs(2),
                renew_deadline: Duration::from_secs(1),
                retry_period: Duration::from_millis(200),
            },
        }
    }

    /// Where a replica keeps things, whichever process it is.
    pub(crate) fn replica_folder(&self, ordinal: i32) -> PathBuf {
        self.folder.path().join(format!("replica-{ordinal}"))
    }

    /// What a pod kept goes with it.
    pub(crate) fn forget_replica(&self, ordinal: i32) {
        std::fs::remove_dir_all(self.replica_folder(ordinal)).unwrap();
    }

    pub(crate) async fn replica(&self, ordinal: i32) -> Replica {
        Replica::start(self.options(ordinal, self.client.clone())).await
    }
}

/// A replica that runs.
pub(crate) struct Replica {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    shutdown: Shutdown,
    running: JoinHandle<Result<(), TaskEnd>>,
}

impl Replica {
    pub(crate) async fn start(options: ManagedOptions) -> Self {
        let managed = options.start().await.unwrap();
        let shutdown = Shutdown::new();
        Self {
            address: managed.address(),
            admin: managed.readiness_address(),
            running: tokio::spawn(managed.run_until(shutdown.clone())),
            shutdown,
        }
    }

    /// Stops as on SIGTERM.
    pub(crate) async fn stop(self) {
        self.shutdown.trigger();
        self.ends().await.unwrap();
    }

    /// Stops one whose time is the test's. That goes on meanwhile: giving back the lease may take a second try.
    pub(crate) async fn stop_by(self, clock: &Clock) {
        self.shutdown.trigger();
        eventually("it stops", || async {
            clock.advance(Duration::from_millis(20));
            self.running.is_finished()
        })
        .await;
        self.ends().await.unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn ends(self) -> Result<(), TaskEnd> {
        tokio::time::timeout(Duration::from_secs(40), self.running)
            .await
            .expect("it ends")
            .unwrap()
    }
}

/// A revision as the controller writes it; `spec` has what is not the same for all.
pub(crate) fn revision(kind: &str, policy: &str, generation: i64, spec: Value) -> Value {
    let namespace = kind.starts_with("AdmissionPolicy").then_some("tenant");
    let id = match namespace {
        Some(namespace) => format!("namespaced-{namespace}-{policy}"),
        None if kind.ends_with("Group") => format!("clusterwide-group-{policy}"),
        None => format!("clusterwide-{policy}"),
    };
    let mut reference = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": kind, "name": policy, "uid": format!("uid-of-{policy}"),
    });
    if let Some(namespace) = namespace {
        reference["namespace"] = json!(namespace);
    }
    let mut data = json!({
        "policyServer": "default", "mode": "protect", "rules": [], "mutating": false, "backgroundAudit": true,
        "timeoutSeconds": 10,
    });
    for (key, value) in spec.as_object().unwrap() {
        data[key] = value.clone();
    }
    json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyRevision",
        "metadata": {
            "name": format!("{id}-{generation}"), "namespace": NAMESPACE,
            "labels": {"kubewarden.io/policy-server": "default"},
            "annotations": {"kubewarden.io/policy-id": id},
        },
        "spec": {
            "objectReference": reference, "policyGeneration": generation, "enabled": true, "data": {"spec": data},
        },
    })
}
