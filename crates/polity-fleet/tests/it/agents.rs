//! Agents between a hub and their clusters.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Namespace, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use polity_api::cluster::v1alpha1::ClusterClaim;
use polity_api::policy::v1::{ConfigurationPolicy, Policy};
use polity_fleet::agent::Agent;
use polity_reconcile::{ControllerMetrics, Term};
use polity_runtime::{Clock, Shutdown};
use polity_testing::{TestServer, eventually};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::hub::{NAMESPACE, TestHub, condition, define_kinds};

struct TestFleet {
    hub: TestHub,
    shutdown: Shutdown,
    agents: Vec<JoinHandle<()>>,
}

impl TestFleet {
    /// A hub and clusters that have joined it, each with its agent.
    async fn start(clusters: &[&str]) -> Self {
        let server = TestServer::builder()
            .members(clusters.iter().copied())
            .start()
            .await;
        let mut fleet = Self {
            hub: TestHub::on(server).await,
            shutdown: Shutdown::new(),
            agents: Vec::new(),
        };
        for cluster in clusters {
            fleet.join(cluster).await;
        }
        fleet
    }

    async fn join(&mut self, cluster: &str) {
        let managed = self.managed(cluster).await;
        define_kinds(&managed).await;
        let namespaces: Api<Namespace> = Api::all(managed.clone());
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": cluster}})).unwrap();
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        self.hub
            .apply(json!({
                "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
                "metadata": {"name": cluster}, "spec": {"hubAcceptsClient": true},
            }))
            .await;
        let agent = Agent {
            cluster: cluster.to_owned(),
            namespace: cluster.to_owned(),
            hub_client: self.hub_client(cluster).await,
            managed_client: managed,
            clock: Clock::system(),
            heartbeat: Duration::from_secs(1),
            metrics: ControllerMetrics::default(),
        };
        let term = Term::without_election(&self.shutdown);
        self.agents
            .push(tokio::spawn(async move { agent.run(&term).await }));
        eventually("the cluster is available", || async {
            let found = self.hub.clusters().get(cluster).await.unwrap();
            let available = condition(&found, "ManagedClusterConditionAvailable")?;
            (available == "True" && found.spec.taints.is_empty()).then_some(())
        })
        .await;
    }

    /// The hub as the agent of a cluster reaches it, with its rights and no more.
    async fn hub_client(&self, cluster: &str) -> Client {
        let user = format!("system:serviceaccount:{cluster}:polity-agent");
        let groups = ["system:serviceaccounts", "system:authenticated"];
        self.hub.server.client_as(&user, &groups).await
    }

    async fn managed(&self, cluster: &str) -> Client {
        self.hub.server.client_of(cluster).await
    }

    async fn templates(&self, cluster: &str) -> Api<ConfigurationPolicy> {
        Api::namespaced(self.managed(cluster).await, cluster)
    }

    /// Waits for a template and returns it.
    async fn template(&self, cluster: &str, name: &str) -> ConfigurationPolicy {
        let templates = self.templates(cluster).await;
        eventually("the template is there", || async {
            templates.get_opt(name).await.unwrap()
        })
        .await
    }

    /// Creates the namespace that the policies of the tests ask for.
    async fn comply(&self, cluster: &str) {
        let namespaces: Api<Namespace> = Api::all(self.managed(cluster).await);
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": "prod"}})).unwrap();
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
    }

    /// Deletes it.
    async fn violate(&self, cluster: &str) {
        let namespaces: Api<Namespace> = Api::all(self.managed(cluster).await);
        namespaces
            .delete("prod", &DeleteParams::default())
            .await
            .unwrap();
    }

    async fn has_namespace(&self, cluster: &str) -> bool {
        let namespaces: Api<Namespace> = Api::all(self.managed(cluster).await);
        namespaces.get_opt("prod").await.unwrap().is_some()
    }

    /// Waits until the newest message about the only template of a policy is this.
    async fn has_message(&self, cluster: &str, policy: &str, expected: &str) {
        let policies: Api<Policy> = Api::namespaced(self.managed(cluster).await, cluster);
        let name = format!("{NAMESPACE}.{policy}");
        eventually(expected, || async {
            let found = policies.get_opt(&name).await.unwrap().ok_or("no policy")?;
            let status = serde_json::to_value(&found.status).unwrap();
            let message = status["details"][0]["history"][0]["message"].clone();
            if message == expected {
                Ok(())
            } else {
                Err(message.to_string())
            }
        })
        .await;
    }

    async fn stop(self) {
        self.shutdown.trigger();
        for agent in self.agents {
            agent.await.unwrap();
        }
    }
}

fn named(name: &str) -> String {
    format!("{name}-namespace")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_reports_its_claims_with_its_lease() {
    let fleet = TestFleet::start(&["c1"]).await;
    let claims: Api<ClusterClaim> = Api::all(fleet.managed("c1").await);
    let claim: ClusterClaim = serde_json::from_value(json!({
        "apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim",
        "metadata": {"name": "region"}, "spec": {"value": "eu"},
    }))
    .unwrap();
    claims.create(&PostParams::default(), &claim).await.unwrap();
    eventually("the hub knows the claim", || async {
        let cluster = fleet.hub.clusters().get("c1").await.unwrap();
        let status = cluster.status?;
        let claim = status.cluster_claims.into_iter().next()?;
        (claim.name == "region" && claim.value == "eu").then_some(())
    })
    .await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_informs_reports_what_it_finds() {
    let fleet = TestFleet::start(&["c1"]).await;
    fleet
        .hub
        .policy("limit", json!({"remediationAction": "inform"}))
        .await;
    fleet.hub.place("limit", json!({})).await;
    let template = fleet.template("c1", &named("limit")).await;
    assert_eq!(template.owner_references()[0].name, "policies.limit");
    fleet
        .has_message(
            "c1",
            "limit",
            "NonCompliant; violation - namespaces [prod] not found",
        )
        .await;
    fleet
        .hub
        .has_status("limit", json!({"compliant": "NonCompliant"}))
        .await;
    fleet.comply("c1").await;
    let entry = json!({
        "clustername": "c1", "clusternamespace": "c1", "compliant": "Compliant",
        "rolloutStatus": "Succeeded",
    });
    fleet
        .hub
        .has_status(
            "limit",
            json!({"compliant": "Compliant", "status": [entry]}),
        )
        .await;
    fleet.hub.delete_policy("limit").await;
    let templates = fleet.templates("c1").await;
    eventually("the template is gone", || async {
        templates.get_opt(&named("limit")).await.unwrap().is_none()
    })
    .await;
    assert!(fleet.has_namespace("c1").await, "nothing is pruned");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_enforce_in_turn_and_report_on_the_step_that_they_have() {
    let fleet = TestFleet::start(&["c1", "c2"]).await;
    let progressive = json!({
        "remediationAction": "enforce",
        "rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": 1}},
    });
    fleet.hub.policy("limit", progressive).await;
    fleet.hub.place("limit", json!({})).await;
    fleet
        .hub
        .has_status(
            "limit",
            json!({"rolloutStatus": "Succeeded", "compliant": "Compliant"}),
        )
        .await;
    for cluster in ["c1", "c2"] {
        assert!(fleet.has_namespace(cluster).await, "{cluster}");
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_waits_for_what_its_policy_depends_on() {
    let fleet = TestFleet::start(&["c1"]).await;
    let depends = json!({"remediationAction": "inform", "dependencies": [{
        "apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy",
        "name": "a", "namespace": NAMESPACE, "compliance": "Compliant",
    }]});
    fleet
        .hub
        .policy("a", json!({"remediationAction": "inform"}))
        .await;
    fleet.hub.place("a", json!({})).await;
    fleet.hub.policy("b", depends).await;
    fleet.hub.place("b", json!({})).await;
    let pending =
        "Pending; Dependencies were not satisfied: 1 is still pending (Policy policies.a)";
    fleet.has_message("c1", "b", pending).await;
    fleet
        .hub
        .has_status("b", json!({"compliant": "Pending"}))
        .await;
    let templates = fleet.templates("c1").await;
    assert!(templates.get_opt(&named("b")).await.unwrap().is_none());
    fleet.comply("c1").await;
    fleet
        .hub
        .has_status("b", json!({"compliant": "Compliant"}))
        .await;
    fleet.violate("c1").await;
    eventually("the template is deleted again", || async {
        templates.get_opt(&named("b")).await.unwrap().is_none()
    })
    .await;
    fleet.has_message("c1", "b", pending).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_of_an_unknown_kind_reports_what_is_missing() {
    let fleet = TestFleet::start(&["c1"]).await;
    let template = json!({"objectDefinition": {
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {},
    }});
    let spec = json!({"remediationAction": "inform", "policy-templates": [template]});
    fleet.hub.policy("limit", spec).await;
    fleet.hub.place("limit", json!({})).await;
    fleet
        .hub
        .has_status("limit", json!({"compliant": "NonCompliant"}))
        .await;
    let expected = "NonCompliant; template-error; Mapping not found, check if you have the CRD deployed: no \
                    matches for kind \"Widget\" in version \"example.com/v1\"";
    fleet.has_message("c1", "limit", expected).await;
    let events: Api<Event> = Api::namespaced(fleet.managed("c1").await, "c1");
    let reasons: Vec<String> = events
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .filter_map(|event| event.reason)
        .collect();
    assert_eq!(
        reasons
            .iter()
            .filter(|reason| *reason == "policy: c1/w")
            .count(),
        1,
        "{reasons:?}"
    );
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_encryption_key_follows_the_hub() {
    let fleet = TestFleet::start(&["c1"]).await;
    let name = "policy-encryption-key";
    let on_hub: Api<Secret> = Api::namespaced(fleet.hub.client.clone(), "c1");
    let copies: Api<Secret> = Api::namespaced(fleet.managed("c1").await, "c1");
    let secret = |key: &str| -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"key": key}})
    };
    for key in ["first", "second"] {
        let params = PatchParams::apply("test").force();
        on_hub
            .patch(name, &params, &Patch::Apply(secret(key)))
            .await
            .unwrap();
        eventually("the key is copied", || async {
            let copy = copies.get_opt(name).await.unwrap()?;
            (copy.data?.get("key")?.0 == key.as_bytes()).then_some(())
        })
        .await;
    }
    on_hub.delete(name, &DeleteParams::default()).await.unwrap();
    eventually("the copy is deleted", || async {
        copies.get_opt(name).await.unwrap().is_none()
    })
    .await;
    fleet.stop().await;
}
