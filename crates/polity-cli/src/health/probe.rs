//! Asks a process for a response, within a time limit.
//!
//! A process that is stopped or hangs still has open ports: only a response shows that it works.

use std::net::SocketAddr;
use std::time::Duration;

use http::Request;
use kube::client::Body;
use kube::{Client, Config};
use polity_pki::Certificate;
use polity_runtime::client::connection_reason;

use super::cluster::Probe;

/// How long a response may take.
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// A process on this machine that serves webhooks.
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    /// The name in its certificate.
    pub(super) server_name: String,
    /// The authorities that its callers trust.
    pub(super) ca_bundle: String,
}

/// Asks an endpoint as an API server would: with the trust and the name of its webhooks. Any response will do.
pub(super) async fn endpoint(endpoint: &Endpoint) -> Probe {
    let asked = tokio::time::timeout(TIME_LIMIT, ask(endpoint));
    match asked.await {
        Ok(Ok(())) => Probe::Answers,
        Ok(Err(error)) => Probe::Silent(connection_reason(&error)),
        Err(_) => Probe::Silent(format!("no response within {} s", TIME_LIMIT.as_secs())),
    }
}

async fn ask(endpoint: &Endpoint) -> kube::Result<()> {
    let url = format!("https://{}/", endpoint.address);
    let url = url
        .parse()
        .map_err(|error: http::uri::InvalidUri| kube::Error::HttpError(error.into()))?;
    let mut config = Config::new(url);
    config.tls_server_name = Some(endpoint.server_name.clone());
    // The caller has the time limit.
    config.connect_timeout = None;
    // Nothing asks a webhook through a proxy.
    config.proxy_url = None;
    let trusted = Certificate::bundle_from_pem(&endpoint.ca_bundle).unwrap_or_default();
    config.root_cert = Some(
        trusted
            .iter()
            .map(|certificate| certificate.der().to_vec())
            .collect(),
    );
    let request = Request::get("/")
        .body(Body::empty())
        .map_err(kube::Error::HttpError)?;
    Client::try_from(config)?.send(request).await.map(drop)
}

/// Asks a Pod whether it is ready, through the API server of its cluster.
pub(super) async fn through_api_server(
    client: &Client,
    namespace: &str,
    pod: &str,
    port: i32,
) -> Probe {
    let path = format!("/api/v1/namespaces/{namespace}/pods/http:{pod}:{port}/proxy/readiness");
    let Ok(request) = Request::get(path).body(Vec::new()) else {
        return Probe::NotAsked("its name is not valid in a URL".to_owned());
    };
    let asked = tokio::time::timeout(TIME_LIMIT, client.request_text(request));
    match asked.await {
        Err(_) => Probe::Silent(format!("no response within {} s", TIME_LIMIT.as_secs())),
        Ok(Ok(_)) => Probe::Answers,
        Ok(Err(kube::Error::Api(status))) => match status.code {
            401 | 403 => Probe::NotAsked(status.message),
            404 | 405 | 501 => {
                Probe::NotAsked("the API server does not forward requests to Pods".to_owned())
            }
            _ => Probe::Silent(status.message),
        },
        Ok(Err(error)) => Probe::NotAsked(connection_reason(&error)),
    }
}
