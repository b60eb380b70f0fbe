//! A hub with its controllers, and the test as the agent of every cluster.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use kube::{Api, Client, ResourceExt as _};
use polity_api::cluster::v1::ManagedCluster;
use polity_api::cluster::v1beta1::{Placement, PlacementDecision};
use polity_api::policy::v1::Policy;
use polity_core::governance::names as governance;
use polity_fleet::hub::HubController;
use polity_fleet::names;
use polity_reconcile::{ControllerMetrics, Term};
use polity_runtime::{Clock, Shutdown};
use polity_testing::{TestServer, eventually};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// The namespace of the root policies of tests.
pub(crate) const NAMESPACE: &str = "policies";

pub(crate) struct TestHub {
    pub(crate) server: TestServer,
    pub(crate) client: Client,
    controllers: Option<Controllers>,
}

struct Controllers {
    shutdown: Shutdown,
    running: JoinHandle<()>,
}

impl TestHub {
    /// A hub with these clusters, all of them joined and available.
    pub(crate) async fn with_clusters(clusters: &[&str]) -> Self {
        let hub = Self::start().await;
        for cluster in clusters {
            hub.join(cluster, json!({})).await;
        }
        hub
    }

    /// A hub with our kinds, a namespace for policies that may select all clusters, and running controllers.
    pub(crate) async fn start() -> Self {
        Self::on(TestServer::start().await).await
    }

    /// A hub on this server.
    pub(crate) async fn on(server: TestServer) -> Self {
        let client = server.client().await;
        define_kinds(&client).await;
        let mut hub = Self {
            server,
            client,
            controllers: None,
        };
        eventually("the kinds are served", || async {
            let policies = hub.policies().list(&ListParams::default()).await.ok()?;
            let placements = hub.placements().list(&ListParams::default()).await.ok()?;
            let clusters = hub.clusters().list(&ListParams::default()).await.ok()?;
            Some((policies, placements, clusters))
        })
        .await;
        hub.apply(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        )
        .await;
        hub.apply(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "global"}, "spec": {"clusterSet": "global"},
        }))
        .await;
        hub.run_controllers(hub.client.clone());
        hub
    }

    /// Runs the controllers with this client.
    pub(crate) fn run_controllers(&mut self, client: Client) {
        let shutdown = Shutdown::new();
        let term = Term::without_election(&shutdown);
        let controller = HubController {
            client,
            clock: Clock::system(),
            metrics: ControllerMetrics::default(),
        };
        let running = tokio::spawn(async move { controller.run(&term).await });
        self.controllers = Some(Controllers { shutdown, running });
    }

    /// Stops the controllers.
    pub(crate) async fn stop_controllers(&mut self) {
        let controllers = self.controllers.take().unwrap();
        controllers.shutdown.trigger();
        controllers.running.await.unwrap();
    }

    /// Registers a cluster, accepts it, and plays its agent until it is available.
    pub(crate) async fn join(&self, cluster: &str, labels: Value) {
        self.apply(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": cluster, "labels": labels},
            "spec": {"hubAcceptsClient": true},
        }))
        .await;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        eventually("the cluster has a namespace", || async {
            namespaces.get_opt(cluster).await.unwrap()
        })
        .await;
        self.renew_lease(cluster).await;
        eventually("the cluster is available", || async {
            let found = self.clusters().get(cluster).await.unwrap();
            let available = condition(&found, "ManagedClusterConditionAvailable")?;
            (available == "True" && found.spec.taints.is_empty()).then_some(())
        })
        .await;
    }

    /// Renews the lease of a cluster with a report, as its agent does.
    pub(crate) async fn renew_lease(&self, cluster: &str) {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), cluster);
        let report = json!({"isAvailable": true, "version": "v1.37.0", "claims": {"region": "eu"}});
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": names::CLUSTER_LEASE,
                "annotations": {names::CLUSTER_REPORT: report.to_string()},
            },
            "spec": {"renewTime": now()},
        });
        let params = PatchParams::apply("test").force();
        leases
            .patch(names::CLUSTER_LEASE, &params, &Patch::Apply(lease))
            .await
            .unwrap();
    }

    /// Applies an object. One without a namespace, of a namespaced kind, goes to the namespace of the policies.
    pub(crate) async fn apply(&self, manifest: Value) {
        let object: DynamicObject = serde_json::from_value(manifest).unwrap();
        let types = object.types.clone().unwrap();
        let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).unwrap());
        let is_cluster_scoped =
            ["ManagedCluster", "ManagedClusterSet", "Namespace"].contains(&types.kind.as_str());
        let api: Api<DynamicObject> = match is_cluster_scoped {
            true => Api::all_with(self.client.clone(), &kind),
            false => Api::namespaced_with(self.client.clone(), NAMESPACE, &kind),
        };
        let params = PatchParams::apply("test").force();
        api.patch(&object.name_any(), &params, &Patch::Apply(&object))
            .await
            .unwrap();
    }

    /// Applies a Placement of all clusters, and a binding of a policy to it, both with the name of the policy.
    pub(crate) async fn place(&self, policy: &str, placement_spec: Value) {
        self.apply(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": policy}, "spec": placement_spec,
        }))
        .await;
        self.apply(binding(policy, policy, policy, json!({}))).await;
    }

    /// Applies a root policy with one configuration policy.
    pub(crate) async fn policy(&self, name: &str, spec: Value) {
        self.apply(policy(name, spec)).await;
    }

    /// Reports on a replica, as the agent of its cluster does: on the step that the replica has.
    pub(crate) async fn report(&self, cluster: &str, policy: &str, compliant: &str) {
        let replica = self.replica(cluster, policy).await.unwrap();
        let step = replica.annotations().get(governance::ROLLOUT_STEP);
        let rollout = match (step, compliant) {
            (Some(step), _) if step.ends_with("-wait") => "ToApply",
            (_, "Compliant") => "Succeeded",
            _ => "Failed",
        };
        let status = json!({"status": {
            "compliant": compliant, "rolloutStatus": rollout, "rolloutStep": step,
        }});
        let replicas: Api<Policy> = Api::namespaced(self.client.clone(), cluster);
        replicas
            .patch_status(
                &replica.name_any(),
                &PatchParams::default(),
                &Patch::Merge(status),
            )
            .await
            .unwrap();
    }

    pub(crate) async fn replica(&self, cluster: &str, policy: &str) -> Option<Policy> {
        let replicas: Api<Policy> = Api::namespaced(self.client.clone(), cluster);
        let name = format!("{NAMESPACE}.{policy}");
        replicas.get_opt(&name).await.unwrap()
    }

    /// The action of a replica; `None` while there is no replica.
    pub(crate) async fn action(&self, cluster: &str, policy: &str) -> Option<String> {
        let replica = self.replica(cluster, policy).await?;
        let spec = serde_json::to_value(&replica.spec).unwrap();
        Some(
            spec["remediationAction"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    }

    /// Waits until the replicas of a policy have these actions, in the order of the clusters; `-` is no replica.
    pub(crate) async fn has_actions(&self, policy: &str, expected: &[(&str, &str)]) {
        let what = format!("{policy} has {expected:?}");
        eventually(&what, || async {
            let mut found = Vec::new();
            for (cluster, _) in expected {
                let action = self.action(cluster, policy).await;
                found.push((*cluster, action.unwrap_or_else(|| "-".to_owned())));
            }
            let is = found
                .iter()
                .zip(expected)
                .all(|((_, found), (_, expected))| found == expected);
            if is { Ok(()) } else { Err(found) }
        })
        .await;
    }

    /// Waits until the root policy has this status, given as JSON that must be part of it.
    pub(crate) async fn has_status(&self, policy: &str, expected: Value) {
        eventually(&format!("{policy} has the status {expected}"), || async {
            let root = self.policies().get(policy).await.unwrap();
            let status = serde_json::to_value(&root.status).unwrap();
            let is = expected
                .as_object()
                .unwrap()
                .iter()
                .all(|(name, value)| status.get(name).unwrap_or(&Value::Null) == value);
            if is { Ok(()) } else { Err(status) }
        })
        .await;
    }

    pub(crate) async fn delete_policy(&self, name: &str) {
        let params = DeleteParams::default();
        self.policies().delete(name, &params).await.unwrap();
    }

    pub(crate) fn policies(&self) -> Api<Policy> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn placements(&self) -> Api<Placement> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn decisions(&self) -> Api<PlacementDecision> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn clusters(&self) -> Api<ManagedCluster> {
        Api::all(self.client.clone())
    }
}

/// Creates our kinds in a cluster.
pub(crate) async fn define_kinds(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in polity_api::crd::crds() {
        let params = PostParams::default();
        definitions.create(&params, &definition).await.unwrap();
    }
}

/// A root policy with one configuration policy that asks for a namespace.
pub(crate) fn policy(name: &str, spec: Value) -> Value {
    let template = json!({"objectDefinition": {
        "apiVersion": "policy.open-cluster-management.io/v1", "kind": "ConfigurationPolicy",
        "metadata": {"name": format!("{name}-namespace")},
        "spec": {"severity": "low", "remediationAction": "inform", "object-templates": [{
            "complianceType": "musthave",
            "objectDefinition": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}},
        }]},
    }});
    let mut whole = json!({"disabled": false, "policy-templates": [template]});
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    json!({
        "apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy",
        "metadata": {"name": name}, "spec": whole,
    })
}

/// A binding of a policy to a Placement, with more fields.
pub(crate) fn binding(name: &str, placement: &str, policy: &str, fields: Value) -> Value {
    let mut binding = json!({
        "apiVersion": "policy.open-cluster-management.io/v1", "kind": "PlacementBinding",
        "metadata": {"name": name},
        "placementRef": {
            "apiGroup": "cluster.open-cluster-management.io", "kind": "Placement", "name": placement,
        },
        "subjects": [{
            "apiGroup": "policy.open-cluster-management.io", "kind": "Policy", "name": policy,
        }],
    });
    binding
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    binding
}

/// The status of a condition of a cluster.
pub(crate) fn condition(cluster: &ManagedCluster, type_: &str) -> Option<String> {
    let conditions = &cluster.status.as_ref()?.conditions;
    let found = conditions.iter().find(|found| found.type_ == type_)?;
    Some(found.status.clone())
}

fn now() -> String {
    format!("{:.6}", Clock::system().now())
}
