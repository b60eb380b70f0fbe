//! `--cleanup`: policies, then servers, then the controller; with one that runs and without.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use polity_api::policies::v1::{AdmissionPolicy, PolicyServer};
use polity_lifecycle::cleanup::{Cleanup, CleanupError};
use polity_lifecycle::install::{CLEANUP_ACCOUNT, CONTROLLER};
use polity_lifecycle::lifecycle::WebhookKind;
use polity_runtime::Clock;
use polity_testing::{FaultyClient, eventually, for_every_write};
use serde_json::json;

use crate::cluster::{NAMESPACE, TestCluster, clock, controller, installation};
use crate::whole::Running;

const TEAM: &str = "team";

/// A cleanup with the rights of its account.
async fn cleanup(cluster: &TestCluster) -> Cleanup {
    let user = format!("system:serviceaccount:{NAMESPACE}:{CLEANUP_ACCOUNT}");
    let groups = ["system:serviceaccounts", "system:authenticated"];
    let client = cluster.server.client_as(&user, &groups).await;
    with(client, Duration::from_mins(1))
}

fn with(client: Client, timeout: Duration) -> Cleanup {
    Cleanup {
        client,
        clock: Clock::system(),
        namespace: NAMESPACE.to_owned(),
        deployment: CONTROLLER.to_owned(),
        timeout,
    }
}

/// The Deployment of a controller with so many ready replicas.
async fn deploy(cluster: &TestCluster, n_ready: i32) {
    let manifests = installation().controller();
    let deployment = manifests.iter().find(|one| one["kind"] == "Deployment");
    cluster.add(deployment.unwrap()).await;
    let status = json!({"status": {"replicas": 2, "readyReplicas": n_ready}});
    let params = PatchParams::default();
    let patch = Patch::Merge(status);
    deployments(cluster)
        .patch_status(CONTROLLER, &params, &patch)
        .await
        .unwrap();
}

fn deployments(cluster: &TestCluster) -> Api<Deployment> {
    Api::namespaced(cluster.client.clone(), NAMESPACE)
}

async fn n_wanted(cluster: &TestCluster) -> Option<i32> {
    let found = deployments(cluster).get_opt(CONTROLLER).await.unwrap();
    found?.spec.replicas
}

/// A policy in a namespace of its own.
async fn add_team_policy(cluster: &TestCluster) {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": TEAM}})).unwrap();
    let post = PostParams::default();
    namespaces.create(&post, &namespace).await.unwrap();
    cluster
        .add(&json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy",
            "metadata": {"name": "t", "namespace": TEAM},
            "spec": {
                "module": "registry.example/policy:1", "mutating": false, "failurePolicy": "Ignore",
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"], "operations": ["CREATE"],
                }],
            },
        }))
        .await;
}

/// The names of all that is ours and must go.
async fn left(cluster: &TestCluster) -> Vec<String> {
    let all = ListParams::default();
    let mut left: Vec<String> = Vec::new();
    let policies = cluster.policies().list(&all).await.unwrap();
    left.extend(policies.iter().map(ResourceExt::name_any));
    let policies: Api<AdmissionPolicy> = Api::all(cluster.client.clone());
    let policies = policies.list(&all).await.unwrap();
    left.extend(policies.iter().map(ResourceExt::name_any));
    let servers: Api<PolicyServer> = Api::all(cluster.client.clone());
    left.extend(
        servers
            .list(&all)
            .await
            .unwrap()
            .iter()
            .map(ResourceExt::name_any),
    );
    let revisions = cluster.revisions().list(&all).await.unwrap();
    left.extend(revisions.iter().map(ResourceExt::name_any));
    for kind in [WebhookKind::Validating, WebhookKind::Mutating] {
        let hooks = cluster.hooks(kind).list(&all).await.unwrap();
        left.extend(hooks.iter().map(ResourceExt::name_any));
    }
    left
}

/// A webhook configuration of somebody else, with the label that ours have.
async fn add_foreign_webhook(cluster: &TestCluster) {
    cluster
        .add(&json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "foreign", "labels": {"app.kubernetes.io/part-of": "kubewarden"}},
        }))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_controller_finalises_and_is_stopped_last() {
    let cluster = TestCluster::start().await;
    let running = Running::start(&cluster).await;
    deploy(&cluster, 1).await;
    add_foreign_webhook(&cluster).await;
    cluster.add_policy("p").await;
    add_team_policy(&cluster).await;
    for name in ["p", "t"] {
        eventually("it has a revision", || async {
            cluster.line(name).await == "1 on"
        })
        .await;
    }
    cluster.load("p").await;
    eventually("p is enforced", || async {
        cluster.paths("p").await.len() == 1
    })
    .await;
    cleanup(&cluster).await.run(|_| {}).await.unwrap();
    assert_eq!(left(&cluster).await, ["foreign"]);
    assert_eq!(n_wanted(&cluster).await, Some(0));
    // Again, and there is nothing to do.
    let counting = FaultyClient::new(cluster.client.clone());
    let again = with(counting.client(), Duration::from_mins(1));
    again.run(|_| {}).await.unwrap();
    assert_eq!(counting.writes(), []);
    running.stop().await;
}

/// What a controller left that is gone: an enforced policy with its finalizer, and webhooks for our own kinds that nobody
/// answers.
async fn abandon(cluster: &TestCluster, name: &str) {
    let clock = clock();
    let controller = controller(cluster.client.clone(), &clock);
    let key = cluster.add_policy(name).await;
    controller.reconcile(&key).await.unwrap();
    cluster.load(name).await;
    controller.reconcile(&key).await.unwrap();
    assert_eq!(cluster.paths(name).await.len(), 1);
    let servers: Api<PolicyServer> = Api::all(cluster.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"finalizers": ["kubewarden.io/finalizer"]}}));
    let params = PatchParams::default();
    servers.patch("default", &params, &patch).await.unwrap();
    let (mutating, validating) =
        polity_lifecycle::webhooks::configurations(NAMESPACE, "nobody", "");
    for (kind, value) in [
        ("Mutating", json!(mutating)),
        ("Validating", json!(validating)),
    ] {
        let mut value = value;
        value["apiVersion"] = json!("admissionregistration.k8s.io/v1");
        value["kind"] = json!(format!("{kind}WebhookConfiguration"));
        for hook in value["webhooks"].as_array_mut().unwrap() {
            hook["clientConfig"]["caBundle"].take();
        }
        cluster.add(&value).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_controller_it_does_what_one_would() {
    for n_deployed in [None, Some(0)] {
        let cluster = TestCluster::start().await;
        if let Some(n_ready) = n_deployed {
            deploy(&cluster, n_ready).await;
        }
        cluster.add_roles().await;
        abandon(&cluster, "p").await;
        cleanup(&cluster).await.run(|_| {}).await.unwrap();
        assert_eq!(left(&cluster).await, [""; 0], "{n_deployed:?}");
        assert_eq!(n_wanted(&cluster).await, n_deployed, "{n_deployed:?}");
    }
}

#[tokio::test]
async fn killed_at_every_write_it_comes_to_the_same_end() {
    let cluster = TestCluster::bare().await;
    let n_cut_off = for_every_write(|point| {
        let cluster = &cluster;
        async move {
            cluster.add_server(json!({})).await;
            cluster.add_policy("p").await;
            let finalizers = json!({"metadata": {"finalizers": ["kubewarden.io/finalizer"]}});
            let patch = Patch::Merge(&finalizers);
            let params = PatchParams::default();
            cluster
                .policies()
                .patch("p", &params, &patch)
                .await
                .unwrap();
            let servers: Api<PolicyServer> = Api::all(cluster.client.clone());
            servers.patch("default", &params, &patch).await.unwrap();
            let faulty = point.client(cluster.client.clone());
            let dying = with(faulty.client(), Duration::from_mins(1));
            tokio::select! {
                () = faulty.struck() => {}
                outcome = dying.run(|_| {}) => outcome.unwrap(),
            }
            let other = with(cluster.client.clone(), Duration::from_mins(1));
            other.run(|_| {}).await.unwrap();
            assert_eq!(left(cluster).await, [""; 0], "{point:?}");
        }
    })
    .await;
    assert!(n_cut_off >= 8, "{n_cut_off}");
}

/// Lets a cleanup run while time passes: what it says is left, and what it told on the way.
async fn until_the_deadline(cluster: &TestCluster) -> (String, Vec<String>) {
    let clock = clock();
    let cleanup = Cleanup {
        clock: clock.clone(),
        ..with(cluster.client.clone(), Duration::from_mins(5))
    };
    let mut told = Vec::new();
    let passing = async {
        loop {
            clock.wait_for_sleepers(1).await;
            clock.advance(Duration::from_secs(1));
            // Whoever slept has its turn before time goes on.
            tokio::task::yield_now().await;
        }
    };
    let running = async {
        tokio::select! {
            outcome = cleanup.run(|progress| told.push(progress.to_string())) => outcome,
            () = passing => unreachable!("time passes until the end"),
        }
    };
    // Who never sleeps never comes to the deadline.
    let outcome = tokio::time::timeout(Duration::from_mins(1), running).await;
    let Ok(Err(CleanupError::Deadline { left, .. })) = outcome else {
        panic!("{outcome:?}");
    };
    (left.to_string(), told)
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_deadline_it_says_what_is_left_and_why() {
    let cluster = TestCluster::bare().await;
    cluster.add_policy("held").await;
    let patch =
        json!({"metadata": {"finalizers": ["example.com/mine", "kubewarden.io/finalizer"]}});
    let params = PatchParams::default();
    let policies = cluster.policies();
    policies
        .patch("held", &params, &Patch::Merge(patch))
        .await
        .unwrap();
    let (left, told) = until_the_deadline(&cluster).await;
    assert!(
        left.contains("ClusterAdmissionPolicy held: being deleted since "),
        "{left}"
    );
    assert!(
        left.ends_with("waits for its finalizers example.com/mine"),
        "{left}"
    );
    assert!(told.len() > 100, "{}", told.len());
    assert_eq!(told[0], "1 of 1 policies left: ClusterAdmissionPolicy held");
    let found = cluster.policies().get("held").await.unwrap();
    assert_eq!(
        found.finalizers(),
        ["example.com/mine"],
        "others' are not touched"
    );
}

#[tokio::test]
async fn what_others_hold_is_named_and_asked_for_now_and_then() {
    let cluster = TestCluster::bare().await;
    abandon_revision(&cluster).await;
    let (left, told) = until_the_deadline(&cluster).await;
    assert_eq!(left, "  PolicyRevision held: deleted, and still there");
    assert_eq!(told, [""; 0]);
}

/// A revision without its policy, which somebody else holds.
async fn abandon_revision(cluster: &TestCluster) {
    let revision = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyRevision",
        "metadata": {"name": "held", "namespace": NAMESPACE, "finalizers": ["example.com/mine"]},
        "spec": {
            "objectReference": {
                "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy", "name": "p", "uid": "u",
            },
            "policyGeneration": 1, "enabled": false, "data": {"spec": {}},
        },
    });
    cluster.add(&revision).await;
}
