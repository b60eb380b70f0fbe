//! An HTTPS server on the loopback with configured responses.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use jiff::Timestamp;
use polity_pki::{Authority, ServerNames};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The configured response.
#[derive(Clone)]
pub(super) struct CannedResponse {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
    pub(super) retry_after: Option<u32>,
    pub(super) delay: Duration,
    /// Responds only when this many requests have arrived.
    pub(super) barrier: Option<Arc<tokio::sync::Barrier>>,
    /// Closes the connection instead of answering.
    pub(super) drop_connection: bool,
    /// Breaks off in the middle of the body.
    pub(super) cut_short: bool,
}

impl Default for CannedResponse {
    fn default() -> Self {
        Self {
            status: 200,
            content_type: "application/json",
            body: Vec::new(),
            retry_after: None,
            delay: Duration::ZERO,
            barrier: None,
            drop_connection: false,
            cut_short: false,
        }
    }
}

impl CannedResponse {
    pub(super) fn json(body: &Value) -> Self {
        Self {
            body: body.to_string().into_bytes(),
            ..Self::default()
        }
    }

    fn review(response: &Value) -> Self {
        // The uid is filled in when the request is known.
        Self::json(
            &json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
        )
    }

    fn change(mut self, change: impl FnOnce(&mut Value)) -> Self {
        let mut body: Value = serde_json::from_slice(&self.body).unwrap();
        change(&mut body["response"]);
        self.body = body.to_string().into_bytes();
        self
    }

    pub(super) fn with_warning(self, text: &str) -> Self {
        self.change(|response| response["warnings"] = json!([text]))
    }

    pub(super) fn with_annotation(self, key: &str, value: &str) -> Self {
        self.change(|response| response["auditAnnotations"] = json!({key: value}))
    }
}

pub(super) fn allow() -> CannedResponse {
    CannedResponse::review(&json!({"uid": "$uid", "allowed": true}))
}

pub(super) fn deny(status: &Value) -> CannedResponse {
    CannedResponse::review(&json!({"uid": "$uid", "allowed": false, "status": status}))
}

pub(super) fn patch(operations: &Value) -> CannedResponse {
    let patch = BASE64_STANDARD.encode(operations.to_string());
    CannedResponse::review(
        &json!({"uid": "$uid", "allowed": true, "patch": patch, "patchType": "JSONPatch"}),
    )
}

/// A request that arrived.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) path: String,
    pub(super) host: String,
    pub(super) body: Value,
    /// The connection of the request.
    pub(super) connection: SocketAddr,
}

type Script = dyn Fn(&str, &str) -> CannedResponse + Send + Sync;

/// The server; it ends with the test's runtime.
pub(super) struct Hooks {
    address: SocketAddr,
    bundle: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Hooks {
    /// Starts a server for `127.0.0.1`, `localhost` and `svc.hooks.svc`. The script gets the path and the uid.
    pub(super) async fn start(
        script: impl Fn(&str, &str) -> CannedResponse + Send + Sync + 'static,
    ) -> Self {
        let day = Duration::from_hours(24);
        let now = now();
        let authority = Authority::create("test", day, now).unwrap();
        let names = ServerNames::new("hook")
            .dns("localhost")
            .dns("svc.hooks.svc")
            .ip([127, 0, 0, 1]);
        let issued = authority.issue_server(&names, day, now).unwrap();
        let bundle = authority.certificate().to_pem();
        let key = issued.key.to_pem();
        Self::serve(
            issued.certificate.der().clone(),
            &key,
            &bundle,
            Arc::new(script),
        )
        .await
    }

    /// Starts a server whose certificate is its own authority.
    pub(super) async fn start_self_signed(
        script: impl Fn(&str, &str) -> CannedResponse + Send + Sync + 'static,
    ) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self::serve(
            certificate.der().clone(),
            &key.serialize_pem(),
            &certificate.pem(),
            Arc::new(script),
        )
        .await
    }

    async fn serve(
        certificate: CertificateDer<'static>,
        key: &str,
        bundle: &str,
        script: Arc<Script>,
    ) -> Self {
        let key = pem_key(key);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, peer)) = listener.accept().await {
                let (acceptor, script, log) =
                    (acceptor.clone(), Arc::clone(&script), Arc::clone(&log));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = service_fn(move |request| {
                        answer(request, peer, Arc::clone(&script), Arc::clone(&log))
                    });
                    // Connections that are dropped on purpose end in an error.
                    let _ = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            address,
            bundle: BASE64_STANDARD.encode(bundle),
            seen,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn origin(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(super) fn bundle(&self) -> &str {
        &self.bundle
    }

    /// A webhook at this server.
    pub(super) fn webhook(&self, name: &str, path: &str) -> Value {
        json!({"name": name, "clientConfig": {"url": format!("{}{path}", self.origin()), "caBundle": self.bundle}})
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "certificates are checked against the real time"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

fn pem_key(pem: &str) -> PrivateKeyDer<'static> {
    let body: String = pem
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .collect();
    PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(
        BASE64_STANDARD.decode(body).unwrap(),
    ))
}

#[derive(Debug, thiserror::Error)]
#[error("dropped on purpose")]
struct Dropped;

async fn answer(
    request: Request<Incoming>,
    connection: SocketAddr,
    script: Arc<Script>,
    log: Arc<Mutex<Vec<Seen>>>,
) -> Result<Response<UnsyncBoxBody<Bytes, Dropped>>, Dropped> {
    let path = request
        .uri()
        .path_and_query()
        .map(ToString::to_string)
        .unwrap_or_default();
    let host = request
        .headers()
        .get("host")
        .map_or("", |host| host.to_str().unwrap())
        .to_owned();
    let body: Value =
        serde_json::from_slice(&request.into_body().collect().await.unwrap().to_bytes()).unwrap();
    let uid = body["request"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let answer = script(path.split('?').next().unwrap_or_default(), &uid);
    log.lock().unwrap().push(Seen {
        path,
        host,
        body,
        connection,
    });
    if let Some(barrier) = &answer.barrier {
        barrier.wait().await;
    }
    if !answer.delay.is_zero() {
        tokio::time::sleep(answer.delay).await; // tidy: the webhook is asked to be slow
    }
    if answer.drop_connection {
        return Err(Dropped);
    }
    let mut response = Response::builder()
        .status(answer.status)
        .header("content-type", answer.content_type);
    if let Some(seconds) = answer.retry_after {
        response = response.header("retry-after", seconds);
    }
    let body = match String::from_utf8(answer.body) {
        Ok(text) => text.replace("$uid", &uid).into_bytes(),
        Err(error) => error.into_bytes(),
    };
    let data = futures::stream::iter([Ok(Frame::data(Bytes::from(body)))]);
    // Earlier data is sent while the stream is pending.
    let end = futures::stream::once(async {
        tokio::task::yield_now().await;
        Err(Dropped)
    });
    let frames = data.chain(end.take(usize::from(answer.cut_short)));
    Ok(response
        .body(StreamBody::new(frames).boxed_unsync())
        .unwrap())
}
