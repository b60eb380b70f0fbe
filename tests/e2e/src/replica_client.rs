//! Sends AdmissionReviews to a replica over HTTPS, as API servers do.

use std::net::SocketAddr;

use polity_core::causes::in_one_line;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Body, Certificate, Client};
use serde_json::Value;

use crate::installation::NAMESPACE;

/// The result of an AdmissionReview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmissionOutcome {
    /// The policy allowed the request.
    Allowed,
    /// The policy denied the request with this message.
    Denied(String),
    /// The response is not a verdict.
    HttpError { code: u16, text: String },
    /// No response arrived.
    NoResponse(String),
}

/// A client for the replicas of one policy server. Clones share connections.
#[derive(Debug, Clone)]
pub struct ReplicaClient {
    client: Client,
    /// The DNS name in the certificates of the replicas.
    service: String,
}

impl ReplicaClient {
    /// A client that trusts the CA certificates of a webhook's `caBundle` (PEM).
    ///
    /// # Panics
    /// If the bundle cannot be parsed.
    pub fn new(policy_server: &str, authorities: &str) -> Self {
        polity_runtime::tls::install_provider();
        let service = format!("policy-server-{policy_server}.{NAMESPACE}.svc");
        let roots = Certificate::from_pem_bundle(authorities.as_bytes());
        let client = Client::builder()
            .no_proxy()
            .tls_certs_only(roots.expect("authorities are certificates"))
            // The URL of each request contains the port of the replica.
            .resolve(&service, SocketAddr::from(([127, 0, 0, 1], 0)))
            .build();
        Self {
            client: client.expect("a client can be made"),
            service,
        }
    }

    /// Sends a review to a replica on this machine.
    pub async fn send(&self, replica: SocketAddr, path: &str, review: Body) -> AdmissionOutcome {
        let url = format!("https://{}:{}/{path}", self.service, replica.port());
        let request = self.client.post(url).body(review);
        let request = request.header(CONTENT_TYPE, "application/json");
        let answered = async {
            let response = request.send().await?;
            let code = response.status().as_u16();
            Ok((code, response.bytes().await?))
        };
        match answered.await {
            Ok((200, body)) => verdict(&body),
            Ok((code, body)) => AdmissionOutcome::HttpError {
                code,
                text: String::from_utf8_lossy(&body).into_owned(),
            },
            Err(error) => AdmissionOutcome::NoResponse(in_one_line(&error as &reqwest::Error)),
        }
    }
}

/// Reads the verdict of a review. A review with status code 500 has none, because the policy failed.
fn verdict(body: &[u8]) -> AdmissionOutcome {
    let review: Value = serde_json::from_slice(body).unwrap_or_default();
    let response = &review["response"];
    let status = &response["status"];
    match response["allowed"].as_bool() {
        Some(true) => AdmissionOutcome::Allowed,
        Some(false) if status["code"] != 500 => {
            AdmissionOutcome::Denied(status["message"].as_str().unwrap_or_default().to_owned())
        }
        _ => AdmissionOutcome::HttpError {
            code: 500,
            text: review.to_string(),
        },
    }
}

/// Whether an API server reports that a webhook call was interrupted.
pub fn is_cut_off(text: &str) -> bool {
    [
        "EOF",
        "connection reset",
        "broken pipe",
        "connection closed",
    ]
    .iter()
    .any(|words| text.contains(words))
}
