//! A cluster with our kinds, a policy server whose replicas the test plays, and policies in it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use polity_api::policies::v1::{
    ClusterAdmissionPolicy, Phase, PolicyRevision, PolicyServer, PolicyStatus,
};
use polity_controller::lifecycle::{PolicyKind, Settings};
use polity_controller::names::UniqueNames;
use polity_controller::policies::{Lifecycle, PolicyKey};
use polity_pki::Authority;
use polity_runtime::Clock;
use polity_testing::{TestServer, eventually};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "kubewarden";
pub(crate) const N_REPLICAS: i32 = 2;

pub(crate) struct World {
    pub(crate) server: TestServer,
    /// What is really there.
    pub(crate) client: Client,
}

impl World {
    /// A cluster with a policy server `default` that has two ready replicas.
    pub(crate) async fn start() -> Self {
        let server = TestServer::start().await;
        let client = server.client().await;
        let world = Self { server, client };
        let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
        for definition in polity_api::crd::crds() {
            definitions
                .create(&PostParams::default(), &definition)
                .await
                .unwrap();
        }
        eventually("our kinds are served", || async {
            let policies = world.policies().list(&ListParams::default()).await.ok()?;
            let revisions = world.revisions().list(&ListParams::default()).await.ok()?;
            Some((policies, revisions))
        })
        .await;
        world
            .create::<Namespace>(None, json!({"metadata": {"name": NAMESPACE}}))
            .await;
        let spec = json!({"image": "polity", "replicas": N_REPLICAS});
        let server = json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer",
            "metadata": {"name": "default"}, "spec": spec,
        });
        world
            .create_in::<PolicyServer>(Api::all(world.client.clone()), server)
            .await;
        world.add_workload().await;
        world
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
        for replica in 0..N_REPLICAS {
            let name = format!("policy-server-default-{replica}");
            let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": template});
            self.create::<Pod>(Some(NAMESPACE), pod).await;
            let status = json!({"status": {
                "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            }});
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
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
        let policy = json!({
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
        self.create_in(self.policies(), policy).await;
        PolicyKey {
            kind: PolicyKind::ClusterAdmissionPolicy,
            namespace: None,
            name: name.to_owned(),
        }
    }

    pub(crate) async fn change_module(&self, name: &str, module: &str) {
        let patch = Patch::Merge(json!({"spec": {"module": module}}));
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

    /// Plays leader and replicas: everything that is enabled gets loaded everywhere.
    pub(crate) async fn load(&self, policy: &str) {
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
                (0..N_REPLICAS).map(|replica| entry("Ready", "PolicyReady", Some(replica))),
            );
            let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
            let name = revision.name_any();
            self.revisions()
                .patch_status(&name, &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
    }

    /// The paths that webhooks of a policy call.
    pub(crate) async fn paths(&self, policy: &str) -> Vec<String> {
        use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
        let api: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let all = api.list(&ListParams::default()).await.unwrap();
        let own = all.into_iter().filter(|one| {
            one.annotations()
                .get("kubewardenPolicyName")
                .map(String::as_str)
                == Some(policy)
        });
        own.flat_map(|one| one.webhooks.unwrap_or_default())
            .filter_map(|hook| hook.client_config.service?.path)
            .collect()
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

/// The controller, with a clock of its own.
pub(crate) fn controller(client: Client, clock: &Clock) -> Lifecycle {
    let day = Duration::from_hours(24);
    let ca = Authority::create("kubewarden-controller-ca", day, clock.now()).unwrap();
    let settings = Settings {
        namespace: NAMESPACE.to_owned(),
        drain: Duration::from_secs(10),
        history_limit: 10,
        unique_names: UniqueNames::Classic,
        ca_bundle: ca.certificate().to_pem(),
    };
    Lifecycle::new(client, clock.clone(), settings)
}

/// A clock that stands.
pub(crate) fn clock() -> Clock {
    let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
    Clock::manual(now)
}
