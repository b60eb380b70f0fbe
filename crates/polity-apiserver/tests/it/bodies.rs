//! Many large bodies at once: they are refused when they are too many, and small requests pass meanwhile.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{Request, Response};
use polity_apiserver::cluster::Cluster;
use polity_apiserver::http_api::{self, Incoming};
use polity_apiserver::metrics::RequestMetrics;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::*;

/// A ConfigMap of about three mebibytes: read as a whole, and then refused as too large for a ConfigMap.
fn large_map() -> Vec<u8> {
    let mut body = json!({"metadata": {"name": "large"}, "data": {"k": ""}}).to_string();
    let filler = "x".repeat(3 * 1024 * 1024 - body.len());
    body.insert_str(body.len() - 3, &filler);
    body.into_bytes()
}

/// Sends a body without a connection, because connection buffers would hide how much the server has read.
async fn post(cluster: &Arc<Cluster>, body: Body) -> Response<Body> {
    let token = cluster.identity().admin_token().expose();
    let request = Request::post(MAPS)
        .header(CONTENT_TYPE, "application/json")
        .header(AUTHORIZATION, format!("Bearer {token}"));
    let incoming = Incoming::new(request.body(body).unwrap(), MAPS.to_owned());
    let metrics = RequestMetrics::new(&opentelemetry::global::meter("test"), String::new);
    http_api::handle(cluster, incoming, &metrics).await.0
}

/// A body whose last byte is sent when it is released.
fn held(mut release: watch::Receiver<bool>) -> Body {
    let mut start = large_map();
    let end = start.split_off(start.len() - 1);
    let end = stream::once(async move {
        release.wait_for(|released| *released).await.unwrap();
        end
    });
    let chunks = stream::once(async { start })
        .chain(end)
        .map(|bytes| Ok::<_, Infallible>(Bytes::from(bytes)));
    Body::from_stream(chunks)
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_in_flight_are_bounded_and_small_requests_pass() {
    let server = TestServer::start().await;
    let cluster = server.hub();
    let (release, released) = watch::channel(false);
    let mut clients = JoinSet::new();
    for _ in 0..30 {
        let (cluster, body) = (Arc::clone(cluster), held(released.clone()));
        clients.spawn(async move { post(&cluster, body).await });
    }
    // Some of them hold all that may be in flight, once the server has read them.
    let refused = loop {
        let answer = post(cluster, Body::from(large_map())).await;
        if answer.status() != 422 {
            break answer;
        }
    };
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()[RETRY_AFTER], "1");
    let small = post(cluster, Body::from(named("small").to_string())).await;
    assert_eq!(small.status(), 201);

    release.send(true).unwrap();
    while let Some(answer) = clients.join_next().await {
        let code = answer.unwrap().status().as_u16();
        assert!(matches!(code, 422 | 429), "{code}");
    }
    let answer = post(cluster, Body::from(large_map())).await;
    assert_eq!(answer.status(), 422);
}

#[tokio::test]
async fn a_store_that_takes_no_writes_is_not_healthy() {
    let (server, http) = start().await;
    assert_eq!(http.get("/readyz/store").await.code, 200);
    server.hub().store().clone().close().await;
    assert_eq!(http.get("/readyz/store").await.code, 500);
    assert_eq!(http.get("/livez").await.code, 500);
    assert_eq!(http.get("/readyz/ping").await.code, 200);
}
