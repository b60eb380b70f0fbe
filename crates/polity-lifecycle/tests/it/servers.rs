//! A policy server from its creation to its end.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, Subject};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use polity_api::policies::v1::{PolicyRevision, PolicyServer, PolicyServerStatus};
use polity_lifecycle::names;
use polity_lifecycle::servers::{Servers, ensure_authorities};
use polity_pki::Certificate;
use polity_reconcile::Requeue;
use polity_runtime::Clock;
use polity_testing::for_every_write;
use serde_json::{Value, json};

use crate::cluster::{NAMESPACE, TestCluster, clock, controller, setup};

fn servers(client: kube::Client, clock: &Clock) -> Servers {
    Servers::new(client, clock.clone(), setup())
}

async fn add(cluster: &TestCluster, name: &str, fields: Value) {
    let mut spec = json!({"image": "polity", "replicas": 1});
    spec.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    let server = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer", "metadata": {"name": name}, "spec": spec,
    });
    let server: PolicyServer = serde_json::from_value(server).unwrap();
    let api: Api<PolicyServer> = Api::all(cluster.client.clone());
    api.create(&PostParams::default(), &server).await.unwrap();
}

/// `Type=Status` of every condition, and what those that are not true say. All of them have a message.
async fn conditions(cluster: &TestCluster, name: &str) -> Vec<String> {
    let status = status(cluster, name).await;
    let shown = status.conditions.iter().map(|one| {
        assert!(!one.message.is_empty(), "{} has no message", one.type_);
        let message = if one.status == "True" {
            ""
        } else {
            &one.message
        };
        format!("{}={} {message}", one.type_, one.status)
    });
    shown.map(|line| line.trim_end().to_owned()).collect()
}

async fn status(cluster: &TestCluster, name: &str) -> PolicyServerStatus {
    let api: Api<PolicyServer> = Api::all(cluster.client.clone());
    api.get(name).await.unwrap().status.unwrap()
}

/// Reconciles until there is nothing to hurry for.
async fn settle(servers: &Servers, cluster: &TestCluster, name: &str, clock: &Clock) -> Requeue {
    let authorities = ensure_authorities(&cluster.client, NAMESPACE, clock.now())
        .await
        .unwrap();
    loop {
        match servers.reconcile(name, &authorities).await.unwrap() {
            Requeue::After(delay) if delay.is_zero() => {}
            next => return next,
        }
    }
}

#[tokio::test]
async fn everything_a_policy_server_needs_is_made_and_owned() {
    let (cluster, clock) = (TestCluster::start().await, clock());
    let servers = servers(cluster.client.clone(), &clock);
    add(&cluster, "a", json!({"minAvailable": 1})).await;
    assert_eq!(
        settle(&servers, &cluster, "a", &clock).await,
        Requeue::Slowly
    );
    assert_eq!(
        conditions(&cluster, "a").await,
        [
            "CARootSecretReconciled=True",
            "CertSecretReconciled=True",
            "ConfigMapReconciled=True",
            "ServiceReconciled=True",
            "PodDisruptionBudgetReconciled=True",
            "CacheReconciled=True",
            "DeploymentReconciled=True",
            "StatefulSetReconciled=True",
        ]
    );
    let workloads: Api<StatefulSet> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let workload = workloads.get("policy-server-a").await.unwrap();
    assert_eq!(workload.spec.replicas, Some(1));
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let secret = secrets.get("policy-server-a").await.unwrap();
    let pem = String::from_utf8(secret.data.unwrap()["tls.crt"].0.clone()).unwrap();
    let certificate = Certificate::from_pem(&pem).unwrap();
    assert_eq!(certificate.dns_names(), ["policy-server-a.kubewarden.svc"]);

    // Again, and nothing is another.
    let version = workloads
        .get("policy-server-a")
        .await
        .unwrap()
        .resource_version();
    let signer = secrets.get("cache-signer-a").await.unwrap();
    settle(&servers, &cluster, "a", &clock).await;
    assert_eq!(
        workloads
            .get("policy-server-a")
            .await
            .unwrap()
            .resource_version(),
        version
    );
    assert_eq!(secrets.get("cache-signer-a").await.unwrap(), signer);

    let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let api: Api<PolicyServer> = Api::all(cluster.client.clone());
    api.patch("a", &PatchParams::default(), &scale)
        .await
        .unwrap();
    settle(&servers, &cluster, "a", &clock).await;
    assert_eq!(
        workloads
            .get("policy-server-a")
            .await
            .unwrap()
            .spec
            .replicas,
        Some(3)
    );
}

#[tokio::test]
async fn what_is_somebody_elses_is_left_alone_and_named() {
    let (cluster, clock) = (TestCluster::start().await, clock());
    let servers = servers(cluster.client.clone(), &clock);
    let services: Api<Service> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": "policy-server-a"}, "spec": {"ports": [{"port": 80}]},
    }))
    .unwrap();
    let before = services
        .create(&PostParams::default(), &service)
        .await
        .unwrap();
    add(&cluster, "a", json!({})).await;
    settle(&servers, &cluster, "a", &clock).await;
    let said = conditions(&cluster, "a").await;
    let expected = "ServiceReconciled=False Service policy-server-a is not owned by this PolicyServer and is left alone";
    assert!(said.contains(&expected.to_owned()), "{said:?}");
    assert_eq!(services.get("policy-server-a").await.unwrap(), before);
}

#[tokio::test]
async fn a_server_that_asks_for_signatures_is_not_set_up() {
    let (cluster, clock) = (TestCluster::start().await, clock());
    let servers = servers(cluster.client.clone(), &clock);
    add(&cluster, "a", json!({"verificationConfig": "v"})).await;
    settle(&servers, &cluster, "a", &clock).await;
    let said = conditions(&cluster, "a").await;
    assert!(
        said.iter()
            .any(|line| line.starts_with("StatefulSetReconciled=False verificationConfig is set")),
        "{said:?}"
    );
    let workloads: Api<StatefulSet> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    assert_eq!(workloads.get_opt("policy-server-a").await.unwrap(), None);
}

#[tokio::test]
async fn a_server_goes_when_nobody_is_called_under_its_name() {
    let (cluster, clock) = (TestCluster::start().await, clock());
    let servers = servers(cluster.client.clone(), &clock);
    let policies = controller(cluster.client.clone(), &clock);
    let key = cluster.add_policy("p").await;
    policies.reconcile(&key).await.unwrap();
    cluster.load("p").await;
    policies.reconcile(&key).await.unwrap();
    let api: Api<PolicyServer> = Api::all(cluster.client.clone());
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["kubewarden.io/finalizer"]}}));
    api.patch("default", &PatchParams::default(), &hold)
        .await
        .unwrap();
    api.delete("default", &DeleteParams::default())
        .await
        .unwrap();
    assert!(matches!(
        settle(&servers, &cluster, "default", &clock).await,
        Requeue::After(_)
    ));
    let said = conditions(&cluster, "default").await;
    assert_eq!(
        said,
        ["PolicyWebhooksCleanedUp=False webhooks of policies that still call this server: 1"]
    );
    policies.reconcile(&key).await.unwrap();
    assert_eq!(cluster.paths("p").await, [""; 0]);
    assert_eq!(
        settle(&servers, &cluster, "default", &clock).await,
        Requeue::Never
    );
    assert_eq!(api.get_opt("default").await.unwrap(), None);
}

/// No name of an object of one server is a name of an object of another.
#[tokio::test]
async fn names_that_resemble_each_other_live_side_by_side() {
    let (cluster, clock) = (TestCluster::start().await, clock());
    let servers = servers(cluster.client.clone(), &clock);
    let longest = "n".repeat(49);
    let all = ["a", "a-cache", "a-peers", &longest];
    for name in all {
        add(&cluster, name, json!({"cache": {}, "minAvailable": 1})).await;
    }
    for _ in 0..2 {
        for name in all {
            settle(&servers, &cluster, name, &clock).await;
        }
    }
    for name in all {
        let said = conditions(&cluster, name).await;
        assert!(
            said.iter().all(|line| line.ends_with("=True")),
            "{name}: {said:?}"
        );
    }
    let workloads: Api<StatefulSet> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    for name in all {
        let set = workloads.get(&names::stateful_set(name)).await;
        assert_eq!(set.unwrap().owner_references()[0].name, name);
    }
}

/// A server that names no account gets one of its own, and has no rights on the objects of another server.
#[tokio::test]
async fn a_server_has_no_rights_on_what_is_anothers() {
    let own = [json!({}), json!({})];
    check_rights(own, "policy-server-a").await;
    let named = ["mine", "yours"].map(|name| json!({"serviceAccountName": name}));
    check_rights(named, "mine").await;
}

async fn check_rights(fields: [Value; 2], account: &str) {
    let (cluster, clock) = (TestCluster::start().await, clock());
    let servers = servers(cluster.client.clone(), &clock);
    for (name, fields) in ["a", "b"].into_iter().zip(fields) {
        add(&cluster, name, fields).await;
        settle(&servers, &cluster, name, &clock).await;
    }
    let policies = controller(cluster.client.clone(), &clock);
    let key = cluster.add_policy("p").await;
    policies.reconcile(&key).await.unwrap();
    let revision = cluster.revisions_of("p").await.remove(0).name_any();

    let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
    let groups = ["system:serviceaccounts", "system:authenticated"];
    let client = cluster.server.client_as(&user, &groups).await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let revisions: Api<PolicyRevision> = Api::namespaced(client.clone(), NAMESPACE);
    let params = PatchParams::default();
    let hold = Patch::Merge(json!({"spec": {"holderIdentity": "a-0"}}));
    let own = leases.patch("policy-server-a", &params, &hold).await;
    assert!(own.is_ok(), "its own Lease: {own:?}");
    revisions.get(&revision).await.unwrap();
    let disable = Patch::Merge(json!({"spec": {"enabled": false}}));
    for (what, code) in [
        (
            "B's Lease",
            code(leases.patch("policy-server-b", &params, &hold).await),
        ),
        (
            "B's signing Secret",
            code(secrets.get("cache-signer-b").await),
        ),
        (
            "its own signing Secret",
            code(secrets.get("cache-signer-a").await),
        ),
        (
            "a revision",
            code(revisions.patch(&revision, &params, &disable).await),
        ),
        (
            "B's workload",
            code(workload(&client, "policy-server-b").await),
        ),
    ] {
        assert_eq!(code, 403, "{account}: {what}");
    }
}

/// Replicas of an earlier release run under an account that all servers share. They keep their rights until they are
/// replaced by replicas under the account of the server, and no longer.
#[tokio::test]
async fn replicas_under_a_former_account_keep_their_rights_until_they_are_replaced() {
    let (cluster, clock) = (TestCluster::start().await, clock());
    let servers = servers(cluster.client.clone(), &clock);
    add(
        &cluster,
        "a",
        json!({"serviceAccountName": "policy-server"}),
    )
    .await;
    settle(&servers, &cluster, "a", &clock).await;
    let workloads: Api<StatefulSet> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let workload = workloads.get("policy-server-a").await.unwrap();
    let replica = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "policy-server-a-0", "namespace": NAMESPACE, "labels": {"kubewarden/policy-server": "a"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "policy-server-a", "uid": workload.uid(),
            }],
        },
        "spec": {"serviceAccountName": "policy-server", "containers": [{"name": "main", "image": "polity"}]},
    });
    cluster.add(&replica).await;

    let api: Api<PolicyServer> = Api::all(cluster.client.clone());
    let params = PatchParams::default();
    let unnamed = Patch::Merge(json!({"spec": {"serviceAccountName": null}}));
    api.patch("a", &params, &unnamed).await.unwrap();
    settle(&servers, &cluster, "a", &clock).await;
    assert_eq!(
        subjects(&cluster).await,
        (
            vec!["policy-server-a".to_owned(), "policy-server".to_owned()],
            vec!["policy-server-a".to_owned()]
        )
    );
    let template = workloads.get("policy-server-a").await.unwrap();
    let pod = template.spec.template.spec.unwrap();
    assert_eq!(pod.service_account_name.as_deref(), Some("policy-server-a"));

    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete("policy-server-a-0", &at_once).await.unwrap();
    settle(&servers, &cluster, "a", &clock).await;
    let own = vec!["policy-server-a".to_owned()];
    assert_eq!(subjects(&cluster).await, (own.clone(), own));

    let named = Patch::Merge(json!({"spec": {"serviceAccountName": "mine"}}));
    api.patch("a", &params, &named).await.unwrap();
    settle(&servers, &cluster, "a", &clock).await;
    assert_eq!(subjects(&cluster).await, (vec!["mine".to_owned()], vec![]));
}

/// The accounts that the Role of the server `a` and the rights to read the cluster are bound to.
async fn subjects(cluster: &TestCluster) -> (Vec<String>, Vec<String>) {
    let names = |subjects: Option<Vec<Subject>>| {
        let subjects = subjects.unwrap_or_default().into_iter();
        subjects.map(|subject| subject.name).collect()
    };
    let bindings: Api<RoleBinding> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let binding = bindings.get("policy-server-a").await.unwrap();
    let contexts: Api<ClusterRoleBinding> = Api::all(cluster.client.clone());
    let context = contexts.get("kubewarden-context-watcher-a").await.unwrap();
    (names(binding.subjects), names(context.subjects))
}

#[tokio::test]
async fn the_status_counts_ready_replicas_and_served_policies() {
    let (cluster, clock) = (TestCluster::bare().await, clock());
    let servers = servers(cluster.client.clone(), &clock);
    let policies = controller(cluster.client.clone(), &clock);
    cluster.add_server(json!({"replicas": 2})).await;
    settle(&servers, &cluster, "default", &clock).await;
    let shown = async || {
        let status = status(&cluster, "default").await;
        (status.ready.unwrap(), status.policies.unwrap())
    };
    assert_eq!(shown().await, ("0/2".to_owned(), 0));
    cluster.follow().await;
    let counted = Patch::Merge(json!({"status": {"replicas": 2, "readyReplicas": 1}}));
    let workloads: Api<StatefulSet> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    workloads
        .patch_status("policy-server-default", &PatchParams::default(), &counted)
        .await
        .unwrap();
    let key = cluster.add_policy("p").await;
    policies.reconcile(&key).await.unwrap();
    cluster.load("p").await;
    policies.reconcile(&key).await.unwrap();
    settle(&servers, &cluster, "default", &clock).await;
    assert_eq!(shown().await, ("1/2".to_owned(), 1));
    assert_eq!(status(&cluster, "default").await.ready_replicas, Some(1));
}

async fn workload(client: &kube::Client, name: &str) -> kube::Result<StatefulSet> {
    Api::namespaced(client.clone(), NAMESPACE).get(name).await
}

/// What a refusal is; 200 when it is none.
fn code<T>(answer: kube::Result<T>) -> u16 {
    match answer {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn killed_at_every_write_a_server_comes_to_the_same_end() {
    // The claim of a cache looks for a volume from the moment of its creation.
    let (cluster, clock) = (TestCluster::start().await, Clock::system());
    let authorities = ensure_authorities(&cluster.client, NAMESPACE, clock.now())
        .await
        .unwrap();
    let n_runs = std::cell::Cell::new(0);
    for_every_write(|point| {
        let name = format!("s{}", n_runs.replace(n_runs.get() + 1));
        let (cluster, clock, authorities) = (&cluster, &clock, &authorities);
        async move {
            add(cluster, &name, json!({"cache": {}, "maxUnavailable": 1})).await;
            let dying = servers(point.client(cluster.client.clone()).client(), clock);
            for _ in 0..2 {
                // Whether it notices that it is cut off does not matter.
                let _ = dying.reconcile(&name, authorities).await;
            }
            let other = servers(cluster.client.clone(), clock);
            settle(&other, cluster, &name, clock).await;
            let said = conditions(cluster, &name).await;
            assert!(
                said.iter().all(|line| line.ends_with("=True")),
                "{point:?}: {said:?}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_claim_that_finds_no_volume_is_told_of_after_two_minutes() {
    let cluster = TestCluster::start().await;
    let clock = Clock::manual(Clock::system().now());
    let servers = servers(cluster.client.clone(), &clock);
    add(&cluster, "a", json!({"cache": {"size": "1Gi"}})).await;
    let told = async || {
        settle(&servers, &cluster, "a", &clock).await;
        let said = conditions(&cluster, "a").await;
        let mut cache = said
            .into_iter()
            .filter(|line| line.starts_with("CacheReconciled"));
        cache.next().unwrap()
    };
    assert_eq!(told().await, "CacheReconciled=True");
    clock.advance(Duration::from_mins(3));
    assert_eq!(
        told().await,
        "CacheReconciled=False the claim policy-server-a-cache is not bound: no Event about it gives a reason"
    );
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let bound = Patch::Merge(json!({"status": {"phase": "Bound"}}));
    let params = PatchParams::default();
    claims
        .patch_status("policy-server-a-cache", &params, &bound)
        .await
        .unwrap();
    assert_eq!(told().await, "CacheReconciled=True");
}

/// A server that restarts in the middle of a rotation does not present a certificate that its callers do not trust yet.
#[tokio::test]
async fn a_certificate_of_a_new_authority_waits_until_every_webhook_trusts_it() {
    let (cluster, clock) = (TestCluster::start().await, clock());
    let servers = servers(cluster.client.clone(), &clock);
    add(&cluster, "a", json!({})).await;
    settle(&servers, &cluster, "a", &clock).await;
    let first = ensure_authorities(&cluster.client, NAMESPACE, clock.now());
    let first = first.await.unwrap();
    let hooks = |bundle: &str| {
        json!({"webhooks": [{
            "name": "p.kubewarden.admission", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "caBundle": ByteString(bundle.as_bytes().to_vec()),
                "service": {"namespace": NAMESPACE, "name": "policy-server-a", "path": "/validate/p/1"},
            },
        }]})
    };
    let mut webhook = json!({"metadata": {
        "name": "p",
        "labels": {"app.kubernetes.io/part-of": "kubewarden"},
        "annotations": {"kubewarden.io/policy-uid": "u"},
    }});
    webhook["webhooks"] = hooks(&first.bundle())["webhooks"].take();
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client.clone());
    let webhook = serde_json::from_value(webhook).unwrap();
    webhooks
        .create(&PostParams::default(), &webhook)
        .await
        .unwrap();

    // The authority is due, and with it what it signed.
    clock.advance(Duration::from_hours(3591 * 24));
    let next = ensure_authorities(&cluster.client, NAMESPACE, clock.now());
    let next = next.await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let before = secrets.get("policy-server-a").await.unwrap();
    let waits = servers.reconcile("a", &next).await.unwrap();
    assert_eq!(waits, Requeue::After(Duration::from_secs(2)));
    assert_eq!(secrets.get("policy-server-a").await.unwrap(), before);
    let said = &conditions(&cluster, "a").await[1];
    assert!(said.starts_with("CertSecretReconciled=False waiting until every webhook trusts"));

    let trusting = Patch::Merge(hooks(&next.bundle()));
    webhooks
        .patch("p", &PatchParams::default(), &trusting)
        .await
        .unwrap();
    assert_eq!(
        servers.reconcile("a", &next).await.unwrap(),
        Requeue::Slowly
    );
    assert_ne!(secrets.get("policy-server-a").await.unwrap(), before);
}
