//! The webhooks for our own kinds as an API server calls them: over TLS, through the Service of an installation.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use polity_api::policies::v1::{ClusterAdmissionPolicy, PolicyRevision, PolicyServer};
use polity_lifecycle::lifecycle::WebhookKind;
use polity_lifecycle::names::UniqueNames;
use polity_lifecycle::webhooks::{Registration, SERVICE, Webhooks, configuration_name};
use polity_runtime::{Clock, Shutdown};
use polity_testing::Http;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::cluster::{NAMESPACE, TestCluster, clock, controller, setup};
use crate::whole::Running;

/// Starts the webhooks, with a Service that leads to them.
async fn serve(cluster: &TestCluster) -> (Shutdown, JoinHandle<()>) {
    let registration = registration(cluster.client.clone());
    serve_with(cluster, registration).await
}

fn registration(client: Client) -> Registration {
    Registration::new(client, Clock::system(), NAMESPACE, SERVICE)
}

async fn serve_with(
    cluster: &TestCluster,
    registration: Registration,
) -> (Shutdown, JoinHandle<()>) {
    let webhooks = Webhooks {
        client: cluster.client.clone(),
        clock: Clock::system(),
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        registration,
        setup: setup(),
        unique_names: UniqueNames::Classic,
    };
    let bound = webhooks.bind().await.unwrap();
    let installation = cluster.add_roles().await;
    cluster.add(&installation.webhook_service()).await;
    cluster
        .add(&installation.webhook_endpoints(bound.address()))
        .await;
    let shutdown = Shutdown::new();
    let serving = Box::pin(bound.run(shutdown.clone()));
    let task = tokio::spawn(async move { serving.await.unwrap() });
    (shutdown, task)
}

/// What a refusal says.
fn words<T: std::fmt::Debug>(answer: kube::Result<T>) -> String {
    match answer {
        Err(kube::Error::Api(status)) => format!("{} {}", status.code, status.message),
        other => panic!("no refusal: {other:?}"),
    }
}

fn policy(name: &str, fields: &Value) -> ClusterAdmissionPolicy {
    let mut spec = json!({
        "module": "registry.example/policy:1", "mutating": false, "failurePolicy": "Ignore",
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
    });
    let fields = fields.as_object().cloned().unwrap_or_default();
    spec.as_object_mut().unwrap().extend(fields);
    let policy = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
        "metadata": {"name": name}, "spec": spec,
    });
    serde_json::from_value(policy).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_kinds_are_completed_and_checked() {
    let cluster = TestCluster::bare().await;
    let (shutdown, serving) = serve(&cluster).await;
    let policies = cluster.policies();
    let params = PostParams::default();
    // API servers learn of webhooks by watching: from the first finalizer on it is known.
    let n_tries = AtomicU32::new(0);
    let first = polity_testing::eventually("the webhooks are called", || async {
        let name = format!("first-{}", n_tries.fetch_add(1, Ordering::Relaxed));
        let made = policies
            .create(&params, &policy(&name, &json!({})))
            .await
            .unwrap();
        (made.finalizers() == ["kubewarden.io/finalizer"]).then_some(name)
    })
    .await;

    let refused = words(
        policies
            .create(&params, &policy("none", &json!({"rules": []})))
            .await,
    );
    assert!(refused.contains("spec.rules"), "{refused}");
    let slow = policy(
        "slow",
        &json!({"timeoutSeconds": 5, "timeoutEvalSeconds": 6}),
    );
    let refused = words(policies.create(&params, &slow).await);
    assert!(refused.contains("timeoutEvalSeconds"), "{refused}");
    let patch = Patch::Merge(json!({"spec": {"mode": "monitor"}}));
    let refused = words(
        policies
            .patch(&first, &PatchParams::default(), &patch)
            .await,
    );
    assert!(refused.contains("mode"), "{refused}");

    let servers: Api<PolicyServer> = Api::all(cluster.client.clone());
    for (name, is_fine) in [
        ("a".repeat(49), true),
        ("a".repeat(50), false),
        ("a.b".into(), false),
    ] {
        let server = json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer",
            "metadata": {"name": name}, "spec": {"image": "polity", "replicas": 0},
        });
        let server: PolicyServer = serde_json::from_value(server).unwrap();
        let answer = servers.create(&params, &server).await;
        if is_fine {
            answer.unwrap();
        } else {
            let refused = words(answer);
            assert!(
                refused.contains("must be the name of a Service"),
                "{refused}"
            );
        }
    }
    shutdown.trigger();
    serving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_is_reported_about_by_its_own_server_only() {
    let cluster = TestCluster::start().await;
    let lifecycle = controller(cluster.client.clone(), &clock());
    let key = cluster.add_policy("p").await;
    lifecycle.reconcile(&key).await.unwrap();
    let (shutdown, serving) = serve(&cluster).await;
    let server = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer", "metadata": {"name": "other"},
        "spec": {"image": "polity", "replicas": 1, "serviceAccountName": "other"},
    });
    cluster.add(&server).await;
    let revision = cluster.revisions_of("p").await.remove(0);
    for account in ["policy-server-default", "other"] {
        cluster.add(&may_report(account)).await;
    }
    let as_account = async |account: &str| -> Api<PolicyRevision> {
        let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
        let client: Client = cluster
            .server
            .client_as(&user, &["system:authenticated"])
            .await;
        Api::namespaced(client, NAMESPACE)
    };
    let own = as_account("policy-server-default").await;
    let other = as_account("other").await;
    let report = |reason: &str| {
        let condition = json!({
            "type": "Ready", "status": "True", "reason": reason, "message": "", "generation": 1, "replica": 0,
        });
        Patch::Merge(json!({"status": {"conditions": [condition]}}))
    };
    let name = revision.name_any();
    let params = PatchParams::default();
    polity_testing::eventually("another server is refused", || async {
        let answer = other.patch_status(&name, &params, &report("Foreign")).await;
        let Err(kube::Error::Api(status)) = answer else {
            return false;
        };
        assert!(
            status.message.contains("report about this revision"),
            "{status:?}"
        );
        true
    })
    .await;
    own.patch_status(&name, &params, &report("PolicyReady"))
        .await
        .unwrap();

    let mut changed = cluster.revisions_of("p").await.remove(0);
    changed.spec.data.insert("more".to_owned(), json!(true));
    let post = PostParams::default();
    let refused = words(cluster.revisions().replace(&name, &post, &changed).await);
    assert!(refused.contains("data cannot be changed"), "{refused}");
    shutdown.trigger();
    serving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_configurations_are_restored_when_they_are_edited_or_deleted() {
    let cluster = TestCluster::bare().await;
    let user = format!("system:serviceaccount:{NAMESPACE}:kubewarden-controller");
    let groups = ["system:serviceaccounts", "system:authenticated"];
    let registration = registration(cluster.server.client_as(&user, &groups).await);
    let (shutdown, serving) = serve_with(&cluster, registration.clone()).await;
    let running = Running::start_with(&cluster, None, Some(registration)).await;
    for kind in [WebhookKind::Mutating, WebhookKind::Validating] {
        let hooks = cluster.hooks(kind);
        let name = configuration_name(kind.into());
        let registered = polity_testing::eventually("the webhooks are registered", || async {
            hooks.get_opt(&name).await.unwrap()
        })
        .await;
        let is_back = async |edit: &str| {
            polity_testing::eventually(&format!("{name} is restored after {edit}"), || async {
                let found = hooks.get_opt(&name).await.unwrap();
                found.is_some_and(|found| found.data["webhooks"] == registered.data["webhooks"])
            })
            .await;
        };
        let params = PatchParams::default();
        let blind = json!([
            {"op": "add", "path": "/webhooks/0/objectSelector", "value": {"matchLabels": {"never": "set"}}},
            {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"},
        ]);
        let blind: Patch<()> = Patch::Json(serde_json::from_value(blind).unwrap());
        hooks.patch(&name, &params, &blind).await.unwrap();
        is_back("an edit").await;
        let emptied = Patch::Merge(json!({"webhooks": [], "metadata": {"labels": null}}));
        hooks.patch(&name, &params, &emptied).await.unwrap();
        is_back("the removal of all webhooks").await;
        hooks.delete(&name, &DeleteParams::default()).await.unwrap();
        is_back("a deletion").await;
    }
    running.stop().await;
    shutdown.trigger();
    serving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deletion_of_a_policy_server_warns_about_the_policies_it_serves() {
    let cluster = TestCluster::start().await;
    let lifecycle = controller(cluster.client.clone(), &clock());
    let keys = [
        cluster.add_policy("p").await,
        cluster
            .add_policy_with("m", json!({"mode": "monitor"}))
            .await,
        cluster.add_policy("pending").await,
    ];
    for key in &keys {
        lifecycle.reconcile(key).await.unwrap();
    }
    for (key, name) in keys.iter().zip(["p", "m"]) {
        cluster.load(name).await;
        lifecycle.reconcile(key).await.unwrap();
    }
    let (shutdown, serving) = serve(&cluster).await;
    let http = Http::new(cluster.client.clone());
    let path = "/apis/policies.kubewarden.io/v1/policyservers/default";
    // A dry run asks the webhooks too, and API servers learn of webhooks by watching.
    let warning = polity_testing::eventually("a deletion is answered with a warning", || async {
        let answer = http.delete(&format!("{path}?dryRun=All")).await;
        assert_eq!(answer.code, 200);
        Some(answer.header("warning").to_owned()).filter(|warning| !warning.is_empty())
    })
    .await;
    assert!(
        warning.contains(
            "2 policies are no longer enforced without PolicyServer default (1 in protect mode, 1 in monitor mode)"
        ),
        "{warning}"
    );
    shutdown.trigger();
    serving.await.unwrap();
    // Nobody answers any more, and the deletion is not refused.
    http.delete(path).await.expect(200);
}

/// What the controller gives to the account of a policy server.
fn may_report(account: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
        "metadata": {"name": format!("report-{account}"), "namespace": NAMESPACE},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "kubewarden-controller"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    })
}
