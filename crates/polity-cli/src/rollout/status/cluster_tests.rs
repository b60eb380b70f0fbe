//! The commands on a hub: the API server in this process, with the test in the place of the hub controller.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use polity_api::cluster::v1beta1::{Placement, PlacementDecision};
use polity_api::policy::v1::{PlacementBinding, Policy};
use polity_core::governance::Compliance;
use polity_govern::plan::Write;
use polity_testing::{TestServer, eventually, objects};
use serde_json::{Value, json};

use super::*;
use crate::exit::Hinted;

/// A hub with one policy, one canary and one other cluster.
pub(in crate::rollout) struct Setup {
    _server: TestServer,
    pub(in crate::rollout) client: Client,
}

impl Setup {
    pub(in crate::rollout) async fn start() -> Self {
        let server = TestServer::start().await;
        let client = server.client().await;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let post = PostParams::default();
        for definition in polity_api::crd::crds() {
            if definition
                .spec
                .group
                .ends_with("open-cluster-management.io")
            {
                definitions.create(&post, &definition).await.unwrap();
            }
        }
        let namespaces: Api<Namespace> = Api::all(client.clone());
        for name in ["policies", "canary1", "edge1"] {
            let namespace = objects::namespace(name);
            namespaces.create(&post, &namespace).await.unwrap();
        }
        let setup = Self {
            _server: server,
            client,
        };
        let policies: Api<Policy> = Api::all(setup.client.clone());
        eventually("policies are served", || async {
            policies.list(&ListParams::default()).await
        })
        .await;
        setup.fill().await;
        setup
    }

    fn here<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), "policies")
    }

    async fn fill(&self) {
        let post = PostParams::default();
        let policy: Value = json!({
            "apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy", "metadata": {"name": "limits"},
            "spec": {"disabled": false, "remediationAction": "enforce", "policy-templates": [], "rolloutStrategy": {
                "type": "ProgressivePerGroup", "progressivePerGroup": {"mandatoryDecisionGroups": [{"groupName": "canary"}]}}},
        });
        let policy: Policy = serde_json::from_value(policy).unwrap();
        self.here().create(&post, &policy).await.unwrap();
        let binding: PlacementBinding = serde_json::from_value(json!({
            "apiVersion": "policy.open-cluster-management.io/v1", "kind": "PlacementBinding", "metadata": {"name": "limits"},
            "placementRef": {"apiGroup": "cluster.open-cluster-management.io", "kind": "Placement", "name": "fleet"},
            "subjects": [{"apiGroup": "policy.open-cluster-management.io", "kind": "Policy", "name": "limits"}],
        }))
        .unwrap();
        self.here().create(&post, &binding).await.unwrap();
        let placement: Placement = serde_json::from_value(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": "fleet"}, "spec": {},
        }))
        .unwrap();
        self.here().create(&post, &placement).await.unwrap();
        for (index, group, cluster) in [("0", "canary", "canary1"), ("1", "", "edge1")] {
            let name = format!("fleet-decision-{index}");
            let decision: PlacementDecision = serde_json::from_value(json!({
                "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "PlacementDecision",
                "metadata": {"name": name, "labels": {
                    "cluster.open-cluster-management.io/placement": "fleet",
                    "cluster.open-cluster-management.io/decision-group-index": index,
                    "cluster.open-cluster-management.io/decision-group-name": group}},
            }))
            .unwrap();
            let api: Api<PlacementDecision> = self.here();
            api.create(&post, &decision).await.unwrap();
            let status = json!({"status": {"decisions": [{"clusterName": cluster, "reason": ""}]}});
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
                .await
                .unwrap();
        }
    }

    pub(in crate::rollout) async fn rollout(&self) -> LiveRollout {
        let found = LiveRollout::find(self.client.clone(), "limits", None).await;
        found.unwrap()
    }

    /// Does what the hub controller does: plans and writes until there is nothing left to write.
    pub(in crate::rollout) async fn reconcile(&self) {
        let rollout = self.rollout().await;
        let post = PostParams::default();
        loop {
            let hub = rollout.read().await.unwrap();
            let plan = hub.plan(&rollout.key, Clock::system().now()).unwrap();
            let mut n_writes = 0;
            for write in &plan.writes {
                let api: Api<Policy> = Api::namespaced(self.client.clone(), write.cluster());
                match write {
                    Write::Create(replica) => {
                        api.create(&post, &Policy::from(replica)).await.unwrap();
                        n_writes += 1;
                    }
                    Write::Update(replica) => {
                        let replica = Policy::from(replica);
                        let name = replica.metadata.name.clone().unwrap();
                        api.replace(&name, &post, &replica).await.unwrap();
                        n_writes += 1;
                    }
                    Write::Delete { .. } | Write::ShowStatus { .. } => {}
                }
            }
            if n_writes == 0 {
                return;
            }
        }
    }

    /// Does what a cluster does: reports about the step that it has.
    pub(in crate::rollout) async fn report(&self, cluster: &str, compliant: Compliance) {
        let api: Api<Policy> = Api::namespaced(self.client.clone(), cluster);
        let replica = api.get("policies.limits").await.unwrap();
        let step = &replica.metadata.annotations.unwrap()["policy.open-cluster-management.io/rollout-step"];
        let status = match compliant {
            Compliance::Compliant => "Succeeded",
            _ => "Failed",
        };
        let compliant = compliant.to_string();
        let patch = json!({"status": {"compliant": compliant, "rolloutStatus": status, "rolloutStep": step}});
        api.patch_status(
            "policies.limits",
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await
        .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rollout_of_a_hub_is_read_as_it_goes_on() {
    let setup = Setup::start().await;
    let rollout = setup.rollout().await;
    let clock = Clock::system();
    let states = async || {
        let view = look(&rollout, &clock).await.unwrap();
        let view = serde_json::to_value(&view).unwrap();
        let cluster = |index: usize| {
            let cluster = &view["groups"][index]["clusters"][0];
            let text = |field: &str| cluster[field].as_str().unwrap_or("-").to_owned();
            format!("{} {} {}", text("cluster"), text("action"), text("status"))
        };
        let status = view["rolloutStatus"].as_str().unwrap_or("-").to_owned();
        (status, [cluster(0), cluster(1)])
    };
    let expected = |status: &str, canary: &str, edge: &str| {
        let clusters = [format!("canary1 {canary}"), format!("edge1 {edge}")];
        (status.to_owned(), clusters)
    };
    let before = expected("Progressing", "- ToApply", "- ToApply");
    assert_eq!(states().await, before, "before the hub writes");
    setup.reconcile().await;
    let handed_out = expected("Progressing", "enforce Progressing", "inform ToApply");
    assert_eq!(states().await, handed_out);
    setup.report("canary1", Compliance::NonCompliant).await;
    let failed = expected("Failed", "enforce Failed", "inform ToApply");
    assert_eq!(states().await, failed);
    setup.report("canary1", Compliance::Compliant).await;
    setup.reconcile().await;
    setup.report("edge1", Compliance::Compliant).await;
    let done = expected("Succeeded", "enforce Succeeded", "enforce Succeeded");
    assert_eq!(states().await, done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_not_there_leads_to_those_that_are() {
    let setup = Setup::start().await;
    let missing = async |name: &str, namespace: Option<&str>| {
        let found = LiveRollout::find(setup.client.clone(), name, namespace).await;
        let hinted: Hinted = found.err().unwrap().downcast().unwrap();
        (hinted.message, hinted.hint)
    };
    let (message, hint) = missing("limit", None).await;
    assert_eq!(message, "there is no policy limit");
    assert_eq!(hint, "the hub has policies/limits");
    let (message, _) = missing("limits", Some("default")).await;
    assert_eq!(message, "there is no policy limits in namespace default");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_no_hub_is_named_as_such() {
    let server = TestServer::start().await;
    let found = LiveRollout::find(server.client().await, "limits", None).await;
    let message = found.err().unwrap().to_string();
    assert_eq!(
        message,
        "the cluster serves no kind Policy, so it is not a hub"
    );
}
