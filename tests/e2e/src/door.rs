//! The way in to replicas, as API servers have it: HTTPS to one of them, and what comes of a request.

use std::net::SocketAddr;

use polity_core::causes::in_one_line;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Body, Certificate, Client};
use serde_json::Value;

use crate::stage::NAMESPACE;

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The policy lets it pass.
    Allowed,
    /// The policy refused, in these words.
    Denied(String),
    /// An answer that is no verdict.
    Refused { code: u16, text: String },
    /// No answer.
    Lost(String),
}

/// The door of the replicas of one policy server. Clones share connections.
#[derive(Debug, Clone)]
pub struct Door {
    client: Client,
    /// The name that the certificates of its replicas are for.
    service: String,
}

impl Door {
    /// For those who trust these authorities, which a webhook names in PEM.
    ///
    /// # Panics
    /// When they are none.
    pub fn of(policy_server: &str, authorities: &str) -> Self {
        polity_runtime::tls::install_provider();
        let service = format!("policy-server-{policy_server}.{NAMESPACE}.svc");
        let roots = Certificate::from_pem_bundle(authorities.as_bytes());
        let client = Client::builder()
            .no_proxy()
            .tls_certs_only(roots.expect("authorities are certificates"))
            // The port is that of the replica which is asked.
            .resolve(&service, SocketAddr::from(([127, 0, 0, 1], 0)))
            .build();
        Self {
            client: client.expect("a client can be made"),
            service,
        }
    }

    /// Asks the replica at an address of this machine.
    pub async fn ask(&self, replica: SocketAddr, path: &str, review: Body) -> Answer {
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
            Ok((code, body)) => Answer::Refused {
                code,
                text: String::from_utf8_lossy(&body).into_owned(),
            },
            Err(error) => Answer::Lost(in_one_line(&error as &reqwest::Error)),
        }
    }
}

/// A review's verdict. A policy that broke down has none, whatever it says to its caller.
fn verdict(body: &[u8]) -> Answer {
    let review: Value = serde_json::from_slice(body).unwrap_or_default();
    let response = &review["response"];
    let status = &response["status"];
    match response["allowed"].as_bool() {
        Some(true) => Answer::Allowed,
        Some(false) if status["code"] != 500 => {
            Answer::Denied(status["message"].as_str().unwrap_or_default().to_owned())
        }
        _ => Answer::Refused {
            code: 500,
            text: review.to_string(),
        },
    }
}

/// Whether a webhook was called and the call broke off, in the words of API servers.
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
