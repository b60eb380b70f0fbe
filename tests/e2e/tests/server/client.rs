//! Sends reviews to a policy server as an API server does: HTTPS, and one connection for many requests.

use std::net::SocketAddr;
use std::time::Duration;

use polity_pki::{ClientIdentity, ServerNames};
use polity_runtime::Clock;
use reqwest::{Certificate, Identity};
use serde_json::{Value, json};

const DAY: Duration = Duration::from_hours(24);

/// The CA of server and client certificates.
pub(crate) struct Authority(polity_pki::Authority);

impl Authority {
    pub(crate) fn new() -> Self {
        let now = Clock::system().now();
        Self(polity_pki::Authority::create("e2e", DAY, now).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.certificate().to_pem()
    }

    /// A serving certificate and its key.
    pub(crate) fn serving(&self) -> (String, String) {
        let names = ServerNames::new("policy-server").ip([127, 0, 0, 1]);
        let issued = self.0.issue_server(&names, DAY, Clock::system().now());
        let issued = issued.unwrap();
        (issued.certificate.to_pem(), issued.key.to_pem())
    }

    /// A client certificate and its key in one PEM text.
    pub(crate) fn client(&self) -> String {
        let identity = ClientIdentity::new("api-server", ["system:masters"]);
        let issued = self.0.issue_client(&identity, DAY, Clock::system().now());
        let issued = issued.unwrap();
        format!("{}{}", issued.certificate.to_pem(), issued.key.to_pem())
    }
}

/// A client of one policy server.
#[derive(Clone)]
pub(crate) struct Client {
    client: reqwest::Client,
    address: SocketAddr,
}

impl Client {
    /// A client that trusts one CA and presents no certificate.
    pub(crate) fn new(address: SocketAddr, authority: &Authority) -> Self {
        Self::of(address, &authority.pem(), None)
    }

    /// A client that trusts the CA certificates in this PEM text.
    pub(crate) fn trusting(address: SocketAddr, root: &str) -> Self {
        Self::of(address, root, None)
    }

    /// A client that presents a certificate.
    pub(crate) fn with_certificate(
        address: SocketAddr,
        authority: &Authority,
        certificate: &str,
    ) -> Self {
        Self::of(address, &authority.pem(), Some(certificate))
    }

    fn of(address: SocketAddr, root: &str, certificate: Option<&str>) -> Self {
        polity_runtime::tls::install_provider();
        let roots = Certificate::from_pem_bundle(root.as_bytes()).unwrap();
        let mut builder = reqwest::Client::builder().no_proxy().tls_certs_only(roots);
        if let Some(certificate) = certificate {
            builder = builder.identity(Identity::from_pem(certificate.as_bytes()).unwrap());
        }
        Self {
            client: builder.build().unwrap(),
            address,
        }
    }

    /// Sends a review of a Pod to a policy.
    pub(crate) async fn ask(&self, policy: &str, pod: &Value) -> reqwest::Result<(u16, Value)> {
        self.post(&format!("/validate/{policy}"), &review(pod))
            .await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> reqwest::Result<(u16, Value)> {
        let url = format!("https://{}{path}", self.address);
        let sent = self.client.post(url).body(body.to_string());
        let answer = sent
            .header("content-type", "application/json")
            .send()
            .await?;
        let status = answer.status().as_u16();
        let text = answer.text().await?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::Null)))
    }

    /// Sends a review of a Pod that must succeed. Returns the response.
    pub(crate) async fn response(&self, policy: &str, pod: &Value) -> Value {
        let (status, mut answer) = self.ask(policy, pod).await.unwrap();
        assert_eq!(status, 200, "{answer}");
        answer["response"].take()
    }
}

/// An AdmissionReview for the creation of a Pod.
pub(crate) fn review(pod: &Value) -> Value {
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "kind": kind, "requestKind": kind, "resource": resource,
            "requestResource": resource, "name": "web", "namespace": "default",
            "operation": "CREATE", "userInfo": {"username": "ann", "groups": ["dev"]},
            "object": pod, "dryRun": false,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}
        }
    })
}

/// A Pod with one container.
pub(crate) fn pod(image: &str, privileged: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{
            "name": "web", "image": image, "securityContext": {"privileged": privileged}
        }]}
    })
}
