//! Servers that send something else than they were asked for, or never finish: refused or given up on, with the reason.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use base64::Engine as _;
use futures::StreamExt as _;
use polity_fetch::{Credentials, Digest, FetchError, Fetcher, Reach, Sources};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{MODULE, fetch, fetcher, insecure};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Serves on a free port of loopback, without TLS; answers its `host:port`.
async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    host
}

async fn with_server(router: Router) -> (tempfile::TempDir, Fetcher, String) {
    let host = serve(router).await;
    let (guard, fetcher) = fetcher(insecure(&host));
    (guard, fetcher, host)
}

#[tokio::test]
async fn a_module_comes_from_a_web_server_once() {
    let router = Router::new().route("/p.wasm", get(|| async { MODULE }));
    let (_guard, fetcher, host) = with_server(router).await;
    for scheme in ["https", "http"] {
        let uri = format!("{scheme}://{host}/p.wasm");
        let fetched = fetch(&fetcher, &uri).await.unwrap();
        assert_eq!(fetched.digest, Digest::of(MODULE), "{uri}");
    }
    let (_guard, strict) = crate::fetcher(Sources::default());
    let error = fetch(&strict, &format!("http://{host}/p.wasm"))
        .await
        .unwrap_err();
    assert!(matches!(error, FetchError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn odd_answers_are_refused_with_the_reason() {
    let router = Router::new()
        .route("/text", get(|| async { "secret text" }))
        .route("/loop", get(|| async { Redirect::temporary("/loop") }))
        .route("/ftp", get(|| async { Redirect::temporary("ftp://x/y") }))
        .route("/huge", get(|| async { vec![0; 2048] }))
        .route("/gone", get(|| async { (StatusCode::GONE, "secret text") }));
    let (_guard, mut fetcher, host) = with_server(router).await;
    fetcher.limits.module_bytes = 1024;
    for (path, expected) in [
        ("text", "does not begin like a Wasm module"),
        ("loop", "sent the download elsewhere"),
        ("ftp", "sent the download elsewhere"),
        ("huge", "larger than the limit of 1024 bytes"),
        ("gone", "answered 410"),
        ("nothing", "answered 404"),
    ] {
        let error = fetch(&fetcher, &format!("http://{host}/{path}")).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{path}: {error}");
        assert!(!error.contains("secret"), "{path}: {error}");
    }
    assert_eq!(fetcher.store.list().unwrap(), []);
}

#[tokio::test]
async fn a_download_that_breaks_off_is_refused() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    // Says it will send more than it does, to whatever it is asked.
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut question = [0; 1024];
            let _ = stream.read(&mut question).await.unwrap();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n\0asm\x01\0\0\0";
            stream.write_all(answer).await.unwrap();
        }
    });
    let (_guard, fetcher) = fetcher(insecure(&host));
    let error = fetch(&fetcher, &format!("http://{host}/p.wasm")).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the download broke off"), "{error}");
}

#[tokio::test]
async fn a_server_that_never_ends_is_given_up_on() {
    let trickle = || async {
        let first = futures::stream::iter([Ok::<_, &str>(MODULE.to_vec())]);
        Body::from_stream(first.chain(futures::stream::pending()))
    };
    let router = Router::new().route("/p.wasm", get(trickle));
    let (_guard, mut fetcher, host) = with_server(router).await;
    fetcher.limits.total = Duration::from_millis(300);
    let error = fetch(&fetcher, &format!("http://{host}/p.wasm")).await;
    assert!(
        matches!(error, Err(FetchError::TimedOut { .. })),
        "{error:?}"
    );
}

/// A registry with one artifact, whose layer is described as it likes.
fn registry(media_type: &'static str, described: Vec<u8>, sent: Vec<u8>) -> Router {
    let layer = Digest::of(&described);
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {
            "mediaType": "application/vnd.wasm.config.v1+json",
            "digest": Digest::of(b"{}").to_string(),
            "size": 2,
        },
        "layers": [{
            "mediaType": media_type,
            "digest": layer.to_string(),
            "size": described.len(),
        }],
    })
    .to_string();
    Router::new()
        .route("/v2/", get(|| async { "{}" }))
        .route(
            "/v2/p/manifests/v1",
            get(move || async move { ([(header::CONTENT_TYPE, MANIFEST)], manifest) }),
        )
        .route(
            &format!("/v2/p/blobs/{layer}"),
            get(move || async move { sent }),
        )
}

#[tokio::test]
async fn artifacts_that_are_no_modules_are_refused() {
    let wasm = "application/vnd.wasm.content.layer.v1+wasm";
    let module = MODULE.to_vec();
    for (name, router, expected) in [
        (
            "another media type",
            registry("application/tar", module.clone(), module.clone()),
            "it has no layer of type",
        ),
        (
            "another content",
            registry(wasm, module.clone(), [MODULE, b"x"].concat()),
            "sha256:",
        ),
        (
            "half the content",
            registry(wasm, module.clone(), MODULE[..4].to_vec()),
            "sha256:",
        ),
        (
            "a text",
            registry(wasm, b"text".to_vec(), b"text".to_vec()),
            "does not begin like a Wasm module",
        ),
        (
            "too much",
            registry(wasm, vec![0; 2048], vec![0; 2048]),
            "larger than the limit",
        ),
    ] {
        let (_guard, mut fetcher, host) = with_server(router).await;
        fetcher.limits.module_bytes = 1024;
        let error = fetch(&fetcher, &format!("registry://{host}/p:v1")).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
}

#[tokio::test]
async fn files_are_read_where_they_are() {
    let (guard, fetcher) = fetcher(Sources::default());
    let path = guard.path().join("p.wasm");
    std::fs::write(&path, MODULE).unwrap();
    let uri = format!("file://{}", path.display());
    assert_eq!(&*fetch(&fetcher, &uri).await.unwrap().bytes, MODULE);
    for missing in ["file:///no/such.wasm", "file:///"] {
        let error = fetch(&fetcher, missing).await.unwrap_err();
        assert!(matches!(error, FetchError::File { .. }), "{error:?}");
    }
}

/// A body without end, and the number of bytes that the server could send of it.
#[derive(Clone, Default)]
struct Flood(Arc<AtomicU64>);

impl Flood {
    fn body(&self) -> Body {
        let chunk = Bytes::from(vec![b' '; 64 << 10]);
        let sent = self.0.clone();
        let stream = futures::stream::repeat_with(move || {
            sent.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(chunk.clone())
        });
        Body::from_stream(stream)
    }

    fn n_sent(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The largest manifest, and what sockets and connections buffer on the way.
const ENOUGH: u64 = (4 << 20) + (24 << 20);

/// A registry that floods whoever asks for this path.
fn flooding(flood: &Flood, path: &'static str, status: StatusCode) -> Router {
    let flood = flood.clone();
    Router::new().fallback(move |request: Request| async move {
        let asked = request.uri().path();
        if asked == path {
            return (status, flood.body()).into_response();
        }
        let host = request.headers()[header::HOST].to_str().unwrap();
        let challenge = format!("Bearer realm=\"http://{host}/token\",service=\"s\"");
        match asked {
            "/v2/" if path == "/token" => (
                StatusCode::UNAUTHORIZED,
                [(header::WWW_AUTHENTICATE, challenge)],
            )
                .into_response(),
            _ => "{}".into_response(),
        }
    })
}

#[tokio::test]
async fn floods_are_cut_off() {
    let ok = StatusCode::OK;
    for (name, path, status) in [
        ("a manifest", "/v2/p/manifests/v1", ok),
        ("an error", "/v2/p/manifests/v1", StatusCode::NOT_FOUND),
        ("a token", "/token", ok),
        ("a refused token", "/token", StatusCode::FORBIDDEN),
        ("the greeting", "/v2/", ok),
    ] {
        let flood = Flood::default();
        let (_guard, fetcher, host) = with_server(flooding(&flood, path, status)).await;
        let error = fetch(&fetcher, &format!("registry://{host}/p:v1")).await;
        assert!(error.is_err(), "{name}");
        for image in [
            fetcher.image_manifest(&format!("{host}/p:v1")).await.err(),
            fetcher.image_config(&format!("{host}/p:v1")).await.err(),
        ] {
            assert!(
                !matches!(image, Some(FetchError::TimedOut { .. })),
                "{name}"
            );
        }
        assert!(flood.n_sent() < 3 * ENOUGH, "{name}: {}", flood.n_sent());
    }
}

#[tokio::test]
async fn a_manifest_that_is_too_large_is_said_so() {
    let flood = Flood::default();
    let router = flooding(&flood, "/v2/p/manifests/v1", StatusCode::OK);
    let (_guard, fetcher, host) = with_server(router).await;
    let error = fetch(&fetcher, &format!("registry://{host}/p:v1")).await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("its manifest: it is larger than 4194304 bytes"),
        "{error}"
    );
}

/// It is not unpacked: a few bytes cannot become many.
#[tokio::test]
async fn compressed_answers_are_taken_as_they_are() {
    // `{}`, by gzip.
    let packed: &[u8] = &[
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3, 0xab, 0xae, 5, 0, 0x43, 0xbf, 0xa6, 0xa3, 2, 0, 0, 0,
    ];
    let router = Router::new().route("/v2/", get(async || "{}")).route(
        "/v2/p/manifests/v1",
        get(move |headers: HeaderMap| async move {
            assert!(!headers.contains_key(header::ACCEPT_ENCODING));
            ([(header::CONTENT_ENCODING, "gzip")], packed.to_vec())
        }),
    );
    let (_guard, fetcher, host) = with_server(router).await;
    let error = fetch(&fetcher, &format!("registry://{host}/p:v1")).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("its manifest cannot be read"), "{error}");
}

/// Each piece comes soon enough, but there is no end of them.
#[tokio::test]
async fn a_registry_that_drips_is_given_up_on() {
    let drip = || async {
        let pieces = futures::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await; // tidy: the pace of the hostile server
            Some((
                Ok::<_, std::convert::Infallible>(Bytes::from_static(b" ")),
                (),
            ))
        });
        Body::from_stream(pieces)
    };
    let router = Router::new()
        .route("/v2/", get(async || "{}"))
        .fallback(drip);
    let (_guard, mut fetcher, host) = with_server(router).await;
    fetcher.limits.total = Duration::from_millis(300);
    let image = format!("{host}/p:v1");
    let fetched = fetch(&fetcher, &format!("registry://{image}")).await;
    let manifest = fetcher.image_manifest(&image).await;
    let resolved = format!("{host}/p:v1").parse().unwrap();
    let polity_fetch::ModuleUri::Registry(resolved) = resolved else {
        panic!("a reference of a registry");
    };
    let resolved = fetcher.resolve(&resolved).await;
    for error in [fetched.err(), manifest.err(), resolved.err()] {
        assert!(
            matches!(error, Some(FetchError::TimedOut { .. })),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn endless_redirects_and_headers_of_a_registry_are_refused() {
    let router = Router::new()
        .route("/v2/", get(async || "{}"))
        .route(
            "/v2/loop/manifests/v1",
            get(async || Redirect::temporary("/v2/loop/manifests/v1")),
        )
        .route(
            "/v2/headers/manifests/v1",
            get(async || ([("x-long", "x".repeat(1 << 20))], "{}")),
        );
    let (_guard, fetcher, host) = with_server(router).await;
    for (path, expected) in [("loop", "too often"), ("headers", "cannot reach")] {
        let error = fetch(&fetcher, &format!("registry://{host}/{path}:v1")).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{path}: {error}");
    }
}

/// A server that counts requests and keeps the credentials that it gets.
#[derive(Clone, Default)]
struct Listener {
    n_asked: Arc<AtomicUsize>,
    credentials: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    fn router(&self) -> Router {
        let this = self.clone();
        Router::new().fallback(move |request: Request| async move { this.hear(&request) })
    }

    fn hear(&self, request: &Request) -> Response {
        self.n_asked.fetch_add(1, Ordering::SeqCst);
        if let Some(credentials) = request.headers().get(header::AUTHORIZATION) {
            let credentials = credentials.to_str().unwrap().to_owned();
            self.credentials.lock().unwrap().push(credentials);
        }
        r#"{"token":"t"}"#.into_response()
    }

    fn n_asked(&self) -> usize {
        self.n_asked.load(Ordering::SeqCst)
    }
}

fn log_in(fetcher: &mut Fetcher, guard: &tempfile::TempDir, host: &str) {
    let auth = base64::engine::general_purpose::STANDARD.encode("user:password");
    let config = format!(r#"{{"auths":{{"{host}":{{"auth":"{auth}"}}}}}}"#);
    std::fs::write(guard.path().join("config.json"), config).unwrap();
    fetcher.credentials = Credentials::from_directory(guard.path());
}

/// A token server that a registry names, or the target of its redirect, gets no request if it is out of reach or has no
/// TLS.
#[tokio::test]
async fn a_registry_cannot_send_requests_where_they_may_not_go() {
    let inside = Listener::default();
    let inside_host = serve(inside.router()).await;
    for (name, realm, location) in [
        (
            "token server",
            Some(format!("http://{inside_host}/token")),
            None,
        ),
        ("redirect", None, Some(format!("http://{inside_host}/"))),
        (
            "metadata",
            Some("http://169.254.169.254/token".to_owned()),
            None,
        ),
        (
            "metadata outside the link",
            Some("http://168.63.129.16/token".to_owned()),
            None,
        ),
        (
            "metadata in a redirect",
            None,
            Some("http://100.100.100.200/".to_owned()),
        ),
        (
            "metadata behind NAT64",
            None,
            Some("http://[64:ff9b::a9fe:a9fe]/".to_owned()),
        ),
        ("multicast", None, Some("http://224.0.0.1/".to_owned())),
        ("scheme", Some("file:///etc/passwd".to_owned()), None),
    ] {
        let router = Router::new().fallback(move |request: Request| async move {
            match (request.uri().path(), realm, location) {
                ("/v2/", Some(realm), _) => {
                    let challenge = format!("Bearer realm=\"{realm}\"");
                    let headers = [(header::WWW_AUTHENTICATE, challenge)];
                    (StatusCode::UNAUTHORIZED, headers).into_response()
                }
                ("/v2/", ..) => "{}".into_response(),
                (_, _, Some(location)) => Redirect::temporary(&location).into_response(),
                _ => StatusCode::NOT_FOUND.into_response(),
            }
        });
        let (guard, mut fetcher, host) = with_server(router).await;
        fetcher.sources.reach = Reach::BeyondThisMachine;
        log_in(&mut fetcher, &guard, &host);
        let error = fetch(&fetcher, &format!("registry://{host}/p:v1")).await;
        let error = error.unwrap_err();
        let is_refused = matches!(
            error,
            FetchError::OutOfReach { .. } | FetchError::Redirected { .. }
        );
        assert!(is_refused, "{name}: {error}");
    }
    assert_eq!(inside.n_asked(), 0);
}

/// A service on all addresses of this machine gets no request by the address of an interface either. Without a network
/// there is no such address, and loopback stands in for it.
#[tokio::test]
async fn the_addresses_of_our_interfaces_are_out_of_reach() {
    let inside = Listener::default();
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = inside.router();
    tokio::spawn(async { axum::serve(listener, router).await });
    let interface = || {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
        socket.connect("203.0.113.1:9")?;
        socket.local_addr()
    };
    let ip = interface().map_or("127.0.0.1".parse().unwrap(), |address| address.ip());
    let (_guard, mut fetcher, _) = with_server(Router::new()).await;
    fetcher.sources.reach = Reach::BeyondThisMachine;
    for scheme in ["registry", "https", "http"] {
        let uri = format!("{scheme}://{ip}:{port}/p");
        let error = fetch(&fetcher, &uri).await.unwrap_err();
        assert!(
            matches!(error, FetchError::OutOfReach { .. }),
            "{uri}: {error}"
        );
    }
    assert_eq!(inside.n_asked(), 0);

    let host = format!("{ip}:{port}");
    fetcher.sources.insecure_sources.insert(host.clone());
    let listed = fetch(&fetcher, &format!("http://{host}/p")).await;
    assert!(listed.is_err(), "it is no module");
    assert!(inside.n_asked() > 0, "a listed source is reached");
}

/// The host that a redirect leads to gets the request, but not the credentials.
#[tokio::test]
async fn credentials_are_not_sent_to_where_a_redirect_leads() {
    let other = Listener::default();
    let other_host = serve(other.router()).await;
    let seen = Listener::default();
    let heard = seen.clone();
    let location = format!("http://{other_host}/manifest");
    let router = Router::new().fallback(move |request: Request| async move {
        heard.hear(&request);
        match request.uri().path() {
            "/v2/" => {
                let headers = [(header::WWW_AUTHENTICATE, "Basic realm=\"r\"")];
                (StatusCode::UNAUTHORIZED, headers).into_response()
            }
            _ => Redirect::temporary(&location).into_response(),
        }
    });
    let (guard, mut fetcher, host) = with_server(router).await;
    fetcher.sources.insecure_sources.insert(other_host);
    log_in(&mut fetcher, &guard, &host);
    let error = fetch(&fetcher, &format!("registry://{host}/p:v1")).await;
    assert!(
        matches!(error, Err(FetchError::NotAModule { .. })),
        "{error:?}"
    );
    assert!(other.n_asked() > 0);
    assert_eq!(other.credentials.lock().unwrap().len(), 0);
    assert_eq!(seen.credentials.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn words_of_a_registry_are_short_and_plain() {
    let message = format!("\u{1b}[31m{}", "x".repeat(1000));
    let body = serde_json::json!({"errors": [{"code": "DENIED", "message": message}]}).to_string();
    let router = Router::new()
        .route("/v2/", get(async || "{}"))
        .fallback(move || async move { (StatusCode::FORBIDDEN, body) });
    let (_guard, fetcher, host) = with_server(router).await;
    let error = fetch(&fetcher, &format!("registry://{host}/p:v1")).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("answered 403: DENIED:"), "{error}");
    assert!(error.len() < 300 && !error.contains('\u{1b}'), "{error:?}");
}
