//! Servers that send what nobody asked for, or never finish: refused or given up on, with the reason.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::Redirect;
use axum::routing::get;
use futures::StreamExt as _;
use polity_fetch::{Digest, FetchError, Fetcher, Sources};
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
