//! A cluster with our kinds, a policy server whose replicas the test plays, and policies in it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use kube::{Api, Client, ResourceExt as _};
use polity_api::policies::v1::{
    ClusterAdmissionPolicy, Phase, PolicyRevision, PolicyServer, PolicyStatus,
};
use polity_lifecycle::install::Installation;
use polity_lifecycle::lifecycle::{PolicyKind, Settings, WebhookKind};
use polity_lifecycle::names::UniqueNames;
use polity_lifecycle::objects::Setup;
use polity_lifecycle::policies::{Lifecycle, PolicyKey};
use polity_pki::Authority;
use polity_runtime::Clock;
use polity_testing::{TestServer, eventually};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "kubewarden";
pub(crate) const N_REPLICAS: i32 = 2;
/// More than any test asks for.
const MOST_REPLICAS: i32 = 4;

pub(crate) struct TestCluster {
    pub(crate) server: TestServer,
    /// What is really there.
    pub(crate) client: Client,
}

impl TestCluster {
    /// A cluster with a policy server `default` that has two ready replicas.
    pub(crate) async fn start() -> Self {
        let cluster = Self::bare().await;
        cluster.add_server(json!({})).await;
        cluster.add_workload().await;
        cluster.follow().await;
        cluster
    }

    /// A cluster with our kinds, and a namespace for what belongs to them.
    pub(crate) async fn bare() -> Self {
        let server = TestServer::start().await;
        let client = server.client().await;
        let cluster = Self { server, client };
        let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
        for definition in polity_api::crd::crds() {
            definitions
                .create(&PostParams::default(), &definition)
                .await
                .unwrap();
        }
        eventually("our kinds are served", || async {
            let policies = cluster.policies().list(&ListParams::default()).await.ok()?;
            let revisions = cluster
                .revisions()
                .list(&ListParams::default())
                .await
                .ok()?;
            Some((policies, revisions))
        })
        .await;
        cluster
            .create::<Namespace>(None, json!({"metadata": {"name": NAMESPACE}}))
            .await;
        cluster
    }

    /// The policy server `default`.
    pub(crate) async fn add_server(&self, fields: Value) {
        let mut spec = json!({"image": "polity", "replicas": N_REPLICAS});
        spec.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let server = json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer",
            "metadata": {"name": "default"}, "spec": spec,
        });
        self.create_in::<PolicyServer>(Api::all(self.client.clone()), server)
            .await;
    }

    /// The accounts and rights of an installation.
    pub(crate) async fn add_roles(&self) -> Installation {
        let installation = installation();
        for manifest in installation.roles() {
            self.add(&manifest).await;
        }
        installation
    }

    /// Whatever a manifest says.
    pub(crate) async fn add(&self, manifest: &Value) {
        let object: DynamicObject = serde_json::from_value(manifest.clone()).unwrap();
        let types = object.types.as_ref().unwrap();
        let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(types).unwrap());
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind),
            None => Api::all_with(self.client.clone(), &kind),
        };
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    async fn add_workload(&self) {
        let labels = json!({"kubewarden/policy-server": "default"});
        let template = json!({"containers": [{"name": "main", "image": "polity"}]});
        let workload = json!({
            "metadata": {"name": "policy-server-default", "labels": labels},
            "spec": {
                "replicas": N_REPLICAS, "serviceName": "peers-default", "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": template},
            },
        });
        self.create::<StatefulSet>(Some(NAMESPACE), workload).await;
    }

    pub(crate) fn workloads(&self) -> Api<StatefulSet> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// How many replicas the workload of `default` asks for.
    pub(crate) async fn n_replicas(&self) -> i32 {
        let workload = self.workloads().get_opt("policy-server-default").await;
        let workload = workload.unwrap();
        workload.map_or(0, |workload| workload.spec.replicas.unwrap_or(1))
    }

    /// Plays kubelet: as many ready pods as the workload asks for.
    pub(crate) async fn follow(&self) {
        let n_replicas = self.n_replicas().await;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        for replica in 0..MOST_REPLICAS {
            let name = format!("policy-server-default-{replica}");
            let found = pods.get_opt(&name).await.unwrap();
            if replica >= n_replicas {
                if found.is_some() {
                    let at_once = DeleteParams::default().grace_period(0);
                    pods.delete(&name, &at_once).await.unwrap();
                }
                continue;
            }
            if found.is_none() {
                let labels = json!({"kubewarden/policy-server": "default"});
                let spec = json!({"containers": [{"name": "main", "image": "polity"}]});
                let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
                self.create::<Pod>(Some(NAMESPACE), pod).await;
            }
            let status = json!({"status": {
                "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            }});
            pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
                .await
                .unwrap();
        }
    }

    async fn create<K>(&self, namespace: Option<&str>, object: Value)
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + serde::Serialize,
    {
        let kind = kube::api::ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind),
            None => Api::all_with(self.client.clone(), &kind),
        };
        let mut object = object;
        object["apiVersion"] = json!(kind.api_version);
        object["kind"] = json!(kind.kind);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    async fn create_in<K>(&self, api: Api<K>, object: Value)
    where
        K: Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
    {
        let object: K = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    // --- The user.

    pub(crate) fn policies(&self) -> Api<ClusterAdmissionPolicy> {
        Api::all(self.client.clone())
    }

    pub(crate) async fn add_policy(&self, name: &str) -> PolicyKey {
        self.add_policy_with(name, json!({})).await
    }

    pub(crate) async fn add_policy_with(&self, name: &str, fields: Value) -> PolicyKey {
        let mut policy = json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "module": "registry.example/policy:1", "mutating": false,
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["CREATE"],
                }],
                // Nobody answers for it here.
                "failurePolicy": "Ignore", "objectSelector": {"matchLabels": {"never": "set"}},
            },
        });
        for (key, value) in fields.as_object().unwrap() {
            policy["spec"][key] = value.clone();
        }
        self.create_in(self.policies(), policy).await;
        PolicyKey {
            kind: PolicyKind::ClusterAdmissionPolicy,
            namespace: None,
            name: name.to_owned(),
        }
    }

    pub(crate) async fn change_module(&self, name: &str, module: &str) {
        self.change(name, json!({"module": module})).await;
    }

    pub(crate) async fn change(&self, name: &str, fields: Value) {
        let patch = Patch::Merge(json!({ "spec": fields }));
        self.policies()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn annotate(&self, name: &str, key: &str, value: &str) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        self.policies()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.policies()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub(crate) async fn status(&self, name: &str) -> PolicyStatus {
        self.policies().get(name).await.unwrap().status.unwrap()
    }

    pub(crate) async fn phase(&self, name: &str) -> Option<Phase> {
        self.policies().get(name).await.unwrap().status?.phase
    }

    /// What is known of each replica, about every generation: `0=True 1=Unknown`.
    pub(crate) async fn replicas(&self, name: &str) -> String {
        let conditions = self.status(name).await.conditions;
        let shown: Vec<_> = conditions
            .iter()
            .filter_map(|one| Some(format!("{}={:?}", one.replica?, one.status)))
            .collect();
        shown.join(" ")
    }

    /// Removes a policy and what is left of it, so that the next run of a scenario is not slowed down by it.
    pub(crate) async fn forget(&self, name: &str) {
        let at_once = DeleteParams::default();
        for kind in [WebhookKind::Validating, WebhookKind::Mutating] {
            let hook = format!("clusterwide-{name}");
            // Of one kind there is none.
            let _ = self.hooks(kind).delete(&hook, &at_once).await;
        }
        for revision in self.revisions_of(name).await {
            let revisions = self.revisions();
            revisions
                .delete(&revision.name_any(), &at_once)
                .await
                .unwrap();
        }
        self.delete(name).await;
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let params = PatchParams::default();
        self.policies().patch(name, &params, &patch).await.unwrap();
    }

    // --- The policy server.

    pub(crate) fn revisions(&self) -> Api<PolicyRevision> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// The revisions of a policy, oldest first.
    pub(crate) async fn revisions_of(&self, policy: &str) -> Vec<PolicyRevision> {
        let all = self.revisions().list(&ListParams::default()).await.unwrap();
        let mut own: Vec<_> = all
            .into_iter()
            .filter(|revision| revision.spec.object_reference.name == policy)
            .collect();
        own.sort_by_key(|revision| revision.spec.policy_generation);
        own
    }

    /// Plays a leader that cannot initialise what is on its way in.
    pub(crate) async fn fail(&self, policy: &str, reason: &str) {
        let newest = self.revisions_of(policy).await.pop().unwrap();
        let generation = newest.spec.policy_generation;
        let entry = |type_: &str, status: &str, reason: &str| {
            json!({
                "type": type_, "status": status, "reason": reason, "message": format!("{reason}, it says."),
                "generation": generation,
            })
        };
        let conditions = [
            entry("Scheduled", "True", "PolicyScheduled"),
            entry("Initialized", "False", reason),
        ];
        self.report(&newest, json!(conditions)).await;
    }

    async fn report(&self, revision: &PolicyRevision, conditions: Value) {
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        self.revisions()
            .patch_status(&revision.name_any(), &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Plays leader and replicas: everything that is enabled gets loaded everywhere.
    pub(crate) async fn load(&self, policy: &str) {
        let n_replicas = self.n_replicas().await;
        for revision in self.revisions_of(policy).await {
            if !revision.spec.enabled {
                continue;
            }
            let generation = revision.spec.policy_generation;
            let entry = |type_: &str, reason: &str, replica: Option<i32>| {
                let mut entry = json!({
                    "type": type_, "status": "True", "reason": reason, "message": reason, "generation": generation,
                });
                if let Some(replica) = replica {
                    entry["replica"] = json!(replica);
                }
                entry
            };
            let mut conditions = vec![
                entry("Scheduled", "PolicyScheduled", None),
                entry("Initialized", "PolicyInitialized", None),
            ];
            conditions.extend(
                (0..n_replicas).map(|replica| entry("Ready", "PolicyReady", Some(replica))),
            );
            self.report(&revision, json!(conditions)).await;
        }
    }

    /// The paths that webhooks of a policy call.
    pub(crate) async fn paths(&self, policy: &str) -> Vec<String> {
        let hooks = self.webhooks(policy).await;
        let hooks = hooks
            .iter()
            .filter_map(|one| one.data["webhooks"].as_array());
        hooks
            .flatten()
            .filter_map(|hook| hook["clientConfig"]["service"]["path"].as_str())
            .map(str::to_owned)
            .collect()
    }

    /// The webhook configurations of a policy, validating ones first.
    pub(crate) async fn webhooks(&self, policy: &str) -> Vec<DynamicObject> {
        let mut found = Vec::new();
        for api in [WebhookKind::Validating, WebhookKind::Mutating].map(|kind| self.hooks(kind)) {
            let all = api.list(&ListParams::default()).await.unwrap();
            found.extend(all.into_iter().filter(|one| {
                let name = one.annotations().get("kubewardenPolicyName");
                name.map(String::as_str) == Some(policy)
            }));
        }
        found
    }

    /// The webhook configurations of a kind.
    pub(crate) fn hooks(&self, kind: WebhookKind) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind.as_str());
        Api::all_with(self.client.clone(), &ApiResource::from_gvk(&gvk))
    }

    /// `1 off, 2 on serving` and the like.
    pub(crate) async fn line(&self, policy: &str) -> String {
        let revisions = self.revisions_of(policy).await;
        let revisions: Vec<_> = revisions
            .iter()
            .map(|revision| {
                let on = if revision.spec.enabled { "on" } else { "off" };
                let is_serving = revision.annotations().contains_key("kubewarden.io/serving");
                let mark = if is_serving { " serving" } else { "" };
                format!("{} {on}{mark}", revision.spec.policy_generation)
            })
            .collect();
        revisions.join(", ")
    }
}

/// The lifecycle of policies, with a clock of its own.
pub(crate) fn controller(client: Client, clock: &Clock) -> Lifecycle {
    let day = Duration::from_hours(24);
    let ca = Authority::create("kubewarden-controller-ca", day, clock.now()).unwrap();
    let settings = settings(Duration::from_secs(10), ca.certificate().to_pem());
    Lifecycle::new(client, clock.clone(), settings)
}

pub(crate) fn settings(drain: Duration, ca_bundle: String) -> Settings {
    Settings {
        namespace: NAMESPACE.to_owned(),
        drain,
        history_limit: 10,
        unique_names: UniqueNames::Classic,
        ca_bundle,
    }
}

/// What is installed here.
pub(crate) fn installation() -> Installation {
    Installation {
        namespace: NAMESPACE.to_owned(),
        image: "polity".to_owned(),
        replicas: 1,
    }
}

/// How policy servers are set up here.
pub(crate) fn setup() -> Setup {
    Setup {
        namespace: NAMESPACE.to_owned(),
        ..Setup::default()
    }
}

/// A clock that stands.
pub(crate) fn clock() -> Clock {
    let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
    Clock::manual(now)
}
