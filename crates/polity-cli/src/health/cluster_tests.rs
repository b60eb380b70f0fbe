//! The checks on an API server in this process, with endpoints on this machine that answer or do not.

use std::convert::Infallible;
use std::time::Duration;

use base64::Engine as _;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use polity_api::policies::names;
use polity_pki::{Authority, ServerNames};
use polity_runtime::clock::Clock;
use polity_runtime::serve::Server;
use polity_runtime::shutdown::Shutdown;
use polity_runtime::tls::{ServerTls, TlsMaterial};
use polity_testing::TestServer;
use polity_testing::faults::{Fault, FaultyClient, Seen};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::cluster::List;
use super::{Finding, cluster, observe};

async fn put(client: &Client, object: Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, version) = match text(&object["apiVersion"]).split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), text(&object["apiVersion"])),
    };
    let kind = GroupVersionKind::gvk(&group, &version, &text(&object["kind"]));
    let (resource, _) = kube::discovery::pinned_kind(client, &kind).await.unwrap();
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = text(&object["metadata"]["name"]);
    let status = object.get("status").cloned();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
    if let Some(status) = status {
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        api.patch_status(&name, &params, &patch).await.unwrap();
    }
}

/// A server with the definitions of our kinds, one PolicyServer of one replica at `port`, and one policy on it.
async fn installed(port: u16, ca_bundle: &str) -> (TestServer, Client) {
    let server = TestServer::start().await;
    let client = server.client().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in polity_api::crd::all() {
        let created = definitions
            .create(&PostParams::default(), &definition)
            .await;
        created.unwrap();
    }
    polity_testing::eventually("our kinds are served", || async {
        let servers: Api<polity_api::policies::v1::PolicyServer> = Api::all(client.clone());
        servers.list(&ListParams::default()).await.ok()
    })
    .await;
    let labels = json!({ names::WORKLOAD_POLICY_SERVER: "default" });
    let spec = json!({"image": "polity", "replicas": 1});
    let pod_spec = json!({"containers": [{"name": "c", "image": "polity"}]});
    let service = json!({"namespace": "kubewarden", "name": "policy-server-default", "path": "/validate/clusterwide-a/1", "port": 443});
    let ca_bundle = base64::engine::general_purpose::STANDARD.encode(ca_bundle);
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubewarden"}}),
        json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer", "metadata": {"name": "default"}, "spec": spec}),
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
               "metadata": {"name": "policy-server-default", "namespace": "kubewarden", "labels": labels},
               "spec": {"serviceName": "x", "selector": {"matchLabels": labels},
                        "template": {"metadata": {"labels": labels}, "spec": pod_spec}},
               "status": {"replicas": 1, "readyReplicas": 1}}),
        json!({"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": "policy-server-default-0", "namespace": "kubewarden", "labels": labels}, "spec": pod_spec}),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
               "metadata": {"name": "s", "namespace": "kubewarden", "labels": {"kubernetes.io/service-name": "policy-server-default"}},
               "ports": [{"port": port}],
               "endpoints": [{"addresses": ["127.0.0.1"], "targetRef": {"kind": "Pod", "name": "policy-server-default-0"}}]}),
        json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy", "metadata": {"name": "a"},
               "spec": {"module": "registry://x/y:1", "mutating": false, "settings": {}, "rules": [
                   {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]},
               "status": {"policyStatus": "active", "phase": "Active", "observedGeneration": 1, "servingGeneration": 1}}),
    ] {
        put(&client, object).await;
    }
    let policies: Api<polity_api::policies::v1::ClusterAdmissionPolicy> = Api::all(client.clone());
    let uid = policies.get("a").await.unwrap().metadata.uid.unwrap();
    put(
        &client,
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
               "metadata": {"name": "clusterwide-a", "annotations": {names::POLICY_UID: uid}},
               "webhooks": [{"name": "a.kubewarden.admission", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                             "failurePolicy": "Ignore", "clientConfig": {"service": service, "caBundle": ca_bundle},
                             "namespaceSelector": {"matchLabels": {"nothing": "here"}},
                             "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]}]}),
    )
    .await;
    (server, client)
}

/// Answers every request over TLS with a 404, as a policy server does for paths it does not know.
async fn serve(material: TlsMaterial) -> u16 {
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(address).await.unwrap();
    let server = server.with_tls(ServerTls::new(&material).unwrap());
    let port = server.address().port();
    let answer = tower::service_fn(|_| async {
        let response = http::Response::builder().status(404);
        Ok::<_, Infallible>(response.body(kube::client::Body::empty()).unwrap())
    });
    tokio::spawn(server.run(answer, Shutdown::new()));
    port
}

/// What the checks find long after everything was started.
async fn later(client: &Client) -> Vec<Finding> {
    let observed = observe::observe(client, None).await;
    let now = Clock::system().now() + Duration::from_mins(30);
    cluster::findings(&observed, now)
}

fn of_servers(findings: &[Finding]) -> Vec<&Finding> {
    let of_servers = findings.iter();
    of_servers
        .filter(|finding| finding.check == "policy server")
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_accepts_connections_and_never_answers_is_found() {
    polity_runtime::tls::install_provider();
    let authority = Authority::create("ours", Duration::from_hours(24), Clock::system().now());
    let ca_bundle = authority.unwrap().certificate().to_pem();
    // As the kernel does for a process that is stopped: connections are accepted, nothing is read.
    let frozen = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (server, client) = installed(frozen.local_addr().unwrap().port(), &ca_bundle).await;
    let findings = later(&client).await;
    let messages: Vec<&str> = of_servers(&findings)
        .iter()
        .map(|finding| finding.message.as_str())
        .collect();
    assert_eq!(
        messages,
        [
            "replica policy-server-default-0 does not answer: no response within 3 s",
            "no replica answers: requests pass unchecked (failurePolicy: Ignore) by 1 policy in protect mode (ClusterAdmissionPolicy a)",
        ]
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_answers_with_a_trusted_certificate_is_fine_and_another_is_not() {
    polity_runtime::tls::install_provider();
    let now = Clock::system().now();
    let day = Duration::from_hours(24);
    let authority = Authority::create("ours", day, now).unwrap();
    let names = ServerNames::new("x").dns("policy-server-default.kubewarden.svc");
    let issued = authority.issue_server(&names, day, now).unwrap();
    let material = TlsMaterial::new(issued.certificate.to_pem(), issued.key.to_pem());
    let port = serve(material).await;
    for (ca_bundle, is_fine) in [
        (authority.certificate().to_pem(), true),
        (
            Authority::create("other", day, now)
                .unwrap()
                .certificate()
                .to_pem(),
            false,
        ),
    ] {
        let (server, client) = installed(port, &ca_bundle).await;
        let findings = later(&client).await;
        let problems = of_servers(&findings);
        assert_eq!(
            problems.iter().all(|finding| !finding.is_problem()),
            is_fine,
            "{problems:?}"
        );
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_our_kinds_is_not_installed() {
    let server = TestServer::start().await;
    let findings = later(&server.client().await).await;
    assert_eq!(findings.len(), 1);
    assert!(
        findings[0].message.contains("not installed"),
        "{findings:?}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_refused_is_noted_as_unread() {
    polity_runtime::tls::install_provider();
    let now = Clock::system().now();
    let day = Duration::from_hours(24);
    let authority = Authority::create("ours", day, now).unwrap();
    let names = ServerNames::new("x").dns("policy-server-default.kubewarden.svc");
    let issued = authority.issue_server(&names, day, now).unwrap();
    let material = TlsMaterial::new(issued.certificate.to_pem(), issued.key.to_pem());
    let port = serve(material).await;
    let (server, client) = installed(port, &authority.certificate().to_pem()).await;
    for (path, list) in [
        ("/policyservers", List::PolicyServers),
        ("/clusteradmissionpolicies", List::Policies),
        ("/validatingwebhookconfigurations", List::Webhooks),
        ("/statefulsets", List::StatefulSets),
        ("/pods?", List::Pods),
    ] {
        let picks = move |seen: &Seen| seen.path.contains(path);
        let refused = Fault::Refused(http::StatusCode::FORBIDDEN);
        let faulty = FaultyClient::new(client.clone()).fail_nth(1, picks, refused);
        let observed = observe::observe(&faulty.client(), None).await;
        let lists: Vec<List> = observed.unread.iter().map(|unread| unread.list).collect();
        assert_eq!(lists, [list], "{path}");
        let later = now + Duration::from_mins(30);
        let problems: Vec<Finding> = cluster::findings(&observed, later)
            .into_iter()
            .filter(|finding| ["policy server", "policies"].contains(&finding.check))
            .filter(Finding::is_problem)
            .collect();
        assert_eq!(problems, [], "{path}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_moves_while_it_is_read_is_not_a_problem() {
    let frozen = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (server, client) = installed(frozen.local_addr().unwrap().port(), "").await;
    let policies: Api<polity_api::policies::v1::ClusterAdmissionPolicy> = Api::all(client.clone());
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let params = PatchParams::default();
    for (generation, path) in [
        (2, "/clusteradmissionpolicies"),
        (3, "/validatingwebhookconfigurations"),
        (4, "/policyservers"),
    ] {
        let picks = move |seen: &Seen| seen.path.contains(path);
        let held = FaultyClient::new(client.clone()).fail_nth(1, picks, Fault::Held);
        let reading = tokio::spawn({
            let held = held.client();
            async move { observe::observe(&held, None).await }
        });
        held.struck().await;
        let status = json!({"status": {"servingGeneration": generation}});
        let status = Patch::Merge(status);
        let moved = policies.patch_status("a", &params, &status);
        moved.await.unwrap();
        let called = format!("/validate/clusterwide-a/{generation}");
        let path_of_webhook = "/webhooks/0/clientConfig/service/path";
        let change = json!([{"op": "replace", "path": path_of_webhook, "value": called}]);
        let change: Patch<()> = Patch::Json(serde_json::from_value(change).unwrap());
        webhooks
            .patch("clusterwide-a", &params, &change)
            .await
            .unwrap();
        held.release();
        let observed = reading.await.unwrap();
        let later = Clock::system().now() + Duration::from_mins(30);
        let problems: Vec<Finding> = cluster::findings(&observed, later)
            .into_iter()
            .filter(|finding| finding.check == "policies" && finding.is_problem())
            .collect();
        assert_eq!(problems, [], "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn webhooks_are_expected_only_where_a_controller_is_installed() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in polity_api::crd::all() {
        let created = definitions
            .create(&PostParams::default(), &definition)
            .await;
        created.unwrap();
    }
    let observed = || async { observe::observe(&client, None).await };
    polity_testing::eventually("our kinds are served", || async {
        observed().await.is_installed.then_some(())
    })
    .await;
    let n_problems = |findings: &[Finding]| findings.iter().filter(|it| it.is_problem()).count();
    let managed = later(&client).await;
    assert_eq!(n_problems(&managed), 0, "{managed:?}");
    put(
        &client,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubewarden"}}),
    )
    .await;
    let broken = later(&client).await;
    assert_eq!(n_problems(&broken), 2, "{broken:?}");
}
