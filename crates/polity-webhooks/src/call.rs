//! Calls a webhook: HTTPS, verified, pooled, within one deadline.

mod connect;
mod response;
mod tls;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde_json::Value;
use url::Url;

use super::Host;
use connect::{Pool, SendError};

/// Larger responses are not read. A real API server has no limit; ours protects the process.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// As in client-go.
const MAX_RETRIES: usize = 10;

/// A way to call one webhook. Cloning shares its connections.
#[derive(Debug, Clone)]
pub(super) struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The `clientConfig` from which it was created.
    key: String,
    target: Target,
    /// Connections, or why there can be none.
    pool: Result<Pool, String>,
}

#[derive(Debug)]
enum Target {
    Url {
        authority: String,
        path: String,
    },
    Service {
        namespace: String,
        name: String,
        port: u16,
        path: String,
    },
    None,
}

/// The clients of an index by their `clientConfig`; webhooks with the same one share it.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<BTreeMap<String, Client>>);

impl Clients {
    /// Takes over a client that is still in use.
    pub(super) fn keep(&self, client: &Client) {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clients.insert(client.0.key.clone(), client.clone());
    }

    /// The client for a `clientConfig`: one of ours, one of `known`, or a new one.
    pub(super) fn get_or_make(&self, known: &Self, config: &Value) -> Client {
        let key = config.to_string();
        let find = |clients: &Self| {
            clients
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(&key)
                .cloned()
        };
        let client = find(self)
            .or_else(|| find(known))
            .unwrap_or_else(|| Client::new(key.clone(), config));
        self.keep(&client);
        client
    }
}

impl Client {
    fn new(key: String, config: &Value) -> Self {
        let target = Target::parse(config);
        let pool = target.server_name().and_then(|server_name| {
            let bundle = config
                .get("caBundle")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let bundle = BASE64_STANDARD
                .decode(bundle)
                .map_err(|error| format!("caBundle is not base64: {error}"))?;
            Ok(Pool::new(
                tls::client_config(&bundle, target.speaks_http2())?,
                server_name,
            ))
        });
        Self(Arc::new(Inner { key, target, pool }))
    }

    /// Posts a review. An error is the text after `failed calling webhook "x": `.
    pub(super) async fn post(
        &self,
        host: &dyn Host,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Bytes, String> {
        let url = format!("{}?timeout={}s", self.0.target.url(), timeout.as_secs());
        let answered = tokio::time::timeout(
            timeout,
            self.post_until_final(host, Bytes::from(body), &url),
        )
        .await;
        let answered =
            answered.unwrap_or_else(|_| Err(format!("Post {url:?}: context deadline exceeded")));
        answered.map_err(|why| format!("failed to call webhook: {why}"))
    }

    /// Retries while the webhook responds with Retry-After.
    async fn post_until_final(
        &self,
        host: &dyn Host,
        body: Bytes,
        url: &str,
    ) -> Result<Bytes, String> {
        let mut attempt = 0;
        loop {
            let response = self
                .post_once(host, body.clone(), url)
                .await
                .map_err(|why| format!("Post {url:?}: {why}"))?;
            let wait = retry_after(response.status(), response.headers());
            match wait {
                Some(wait) if attempt < MAX_RETRIES => {
                    // Reading the rest frees the connection.
                    let _ = read(response).await;
                    tokio::time::sleep(wait).await;
                    attempt += 1;
                }
                _ => return accepted(response).await,
            }
        }
    }

    async fn post_once(
        &self,
        host: &dyn Host,
        body: Bytes,
        url: &str,
    ) -> Result<Response<Incoming>, String> {
        let pool = self.0.pool.as_ref().map_err(Clone::clone)?;
        let path_and_query = &url[self.0.target.origin().len()..];
        let mut failure = String::new();
        for authority in self.0.target.authorities(host)? {
            let request = self.request(&authority, path_and_query, body.clone())?;
            match pool.send(request).await {
                // An endpoint that has just died has not seen the review, so another one may be tried. A kernel that
                // proxies the connections of a real server does the same.
                Err(SendError::NotReached(why)) => failure = why,
                other => return other.map_err(|error| error.to_string()),
            }
        }
        Err(failure)
    }

    fn request(
        &self,
        authority: &str,
        path_and_query: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, String> {
        let uri: Uri = format!("https://{authority}{path_and_query}")
            .parse()
            .map_err(|error| format!("{error}"))?;
        Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header(HOST, self.0.target.host())
            .header(USER_AGENT, "kube-apiserver-admission")
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| error.to_string())
    }
}

/// How long to wait before the next attempt, if there is to be one.
fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let seconds: i64 = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

async fn read(response: Response<Incoming>) -> Result<Bytes, String> {
    let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES)
        .collect()
        .await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            format!("the answer is larger than {MAX_ANSWER_BYTES} bytes")
        } else {
            "unexpected error when reading response body. Please retry. Original error: unexpected EOF".to_owned()
        }
    })
}

/// The body of a successful response. Returns an error message for any other response.
async fn accepted(response: Response<Incoming>) -> Result<Bytes, String> {
    let status = response.status();
    let content_type = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let body = read(response).await?;
    if !(200..=206).contains(&status.as_u16()) {
        return Err(response::refusal_text(status, &content_type, &body));
    }
    if body.is_empty() {
        let code = status.as_u16();
        return Err(format!(
            "0-length response with status code: {code} and content type: {content_type}"
        ));
    }
    Ok(body)
}

impl Target {
    fn parse(config: &Value) -> Self {
        let with_slash = |path: &str| {
            if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            }
        };
        if let Some(service) = config.get("service").filter(|service| service.is_object()) {
            let text = |name: &str| {
                service
                    .get(name)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            let port = service
                .get("port")
                .and_then(Value::as_u64)
                .and_then(|port| u16::try_from(port).ok());
            return Self::Service {
                namespace: text("namespace").to_owned(),
                name: text("name").to_owned(),
                port: port.unwrap_or(443),
                path: with_slash(text("path")),
            };
        }
        let url = config
            .get("url")
            .and_then(Value::as_str)
            .and_then(|url| Url::parse(url).ok());
        match url {
            Some(url) if url.scheme() == "https" && url.has_host() => {
                let host = url.host_str().unwrap_or_default();
                let authority = url
                    .port()
                    .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
                Self::Url {
                    authority,
                    path: with_slash(url.path()),
                }
            }
            _ => Self::None,
        }
    }

    /// The `Host` header.
    fn host(&self) -> String {
        match self {
            Self::Url { authority, .. } => authority.clone(),
            Self::Service {
                namespace,
                name,
                port,
                ..
            } => format!("{name}.{namespace}.svc:{port}"),
            Self::None => String::new(),
        }
    }

    fn origin(&self) -> String {
        format!("https://{}", self.host())
    }

    fn url(&self) -> String {
        match self {
            Self::Url { path, .. } | Self::Service { path, .. } => {
                format!("{}{path}", self.origin())
            }
            Self::None => self.origin(),
        }
    }

    /// The addresses to connect to, in order. The endpoints of a Service are resolved for every call. The first one is
    /// chosen at random, and the others are fallbacks.
    fn authorities(&self, host: &dyn Host) -> Result<Vec<String>, String> {
        match self {
            Self::Url { authority, .. } => Ok(vec![authority.clone()]),
            Self::Service {
                namespace,
                name,
                port,
                ..
            } => {
                let mut endpoints = host.endpoints(namespace, name, *port)?;
                if endpoints.is_empty() {
                    return Err(format!("no endpoints available for service {name:?}"));
                }
                let random = uuid::Uuid::new_v4().as_u128() % endpoints.len() as u128;
                endpoints.rotate_left(random as usize);
                Ok(endpoints.iter().map(ToString::to_string).collect())
            }
            Self::None => Err("webhook configuration must have either service or URL".to_owned()),
        }
    }

    /// The name the certificate must be for.
    fn server_name(&self) -> Result<String, String> {
        match self {
            Self::Url { authority, .. } => {
                let host = authority
                    .parse::<http::uri::Authority>()
                    .map_err(|error| error.to_string())?;
                Ok(host
                    .host()
                    .trim_start_matches('[')
                    .trim_end_matches(']')
                    .to_owned())
            }
            Self::Service {
                namespace, name, ..
            } => Ok(format!("{name}.{namespace}.svc")),
            Self::None => Err("webhook configuration must have either service or URL".to_owned()),
        }
    }

    /// HTTP/2 would send all calls to one backend, so it is only used if there is certainly only one.
    fn speaks_http2(&self) -> bool {
        match self.server_name() {
            Ok(name) if matches!(self, Self::Url { .. }) => {
                name.eq_ignore_ascii_case("localhost")
                    || name
                        .parse::<std::net::IpAddr>()
                        .is_ok_and(|address| address.is_loopback())
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_are_named_as_the_server_names_them() {
        let cases = [
            (
                json!({"url": "https://h.example/p?"}),
                "https://h.example/p",
                "h.example",
                false,
            ),
            (
                json!({"url": "https://127.0.0.1:8443"}),
                "https://127.0.0.1:8443/",
                "127.0.0.1",
                true,
            ),
            (
                json!({"url": "https://[::1]:8443/x"}),
                "https://[::1]:8443/x",
                "::1",
                true,
            ),
            (
                json!({"url": "https://LOCALHOST/x"}),
                "https://localhost/x",
                "localhost",
                true,
            ),
            (
                json!({"service": {"namespace": "n", "name": "s"}}),
                "https://s.n.svc:443/",
                "s.n.svc",
                false,
            ),
            (
                json!({"service": {"namespace": "n", "name": "s", "path": "/p", "port": 8}}),
                "https://s.n.svc:8/p",
                "s.n.svc",
                false,
            ),
        ];
        for (config, url, server_name, speaks_http2) in cases {
            let target = Target::parse(&config);
            assert_eq!(target.url(), url);
            assert_eq!(target.server_name().as_deref(), Ok(server_name));
            assert_eq!(target.speaks_http2(), speaks_http2, "{config}");
        }
        for config in [
            json!({}),
            json!(null),
            json!({"url": "http://x"}),
            json!({"url": "nonsense"}),
        ] {
            assert!(Target::parse(&config).server_name().is_err(), "{config}");
        }
    }

    #[test]
    fn only_busy_responses_with_retry_after_are_retried() {
        let with = |text: &str| HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
        let second = Some(Duration::from_secs(1));
        assert_eq!(
            retry_after(StatusCode::TOO_MANY_REQUESTS, &with("1")),
            second
        );
        assert_eq!(
            retry_after(StatusCode::SERVICE_UNAVAILABLE, &with("1")),
            second
        );
        assert_eq!(
            retry_after(StatusCode::SERVICE_UNAVAILABLE, &with("-5")),
            Some(Duration::ZERO)
        );
        assert_eq!(
            retry_after(StatusCode::SERVICE_UNAVAILABLE, &with("soon")),
            None
        );
        assert_eq!(
            retry_after(StatusCode::SERVICE_UNAVAILABLE, &HeaderMap::new()),
            None
        );
        assert_eq!(retry_after(StatusCode::OK, &with("1")), None);
        assert_eq!(retry_after(StatusCode::NOT_FOUND, &with("1")), None);
    }
}
