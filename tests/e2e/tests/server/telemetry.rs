//! Metrics and traces are pushed to a collector with OTLP over gRPC.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, Uri};
use futures::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use rustix::process::Signal;
use tokio::net::TcpListener;

use crate::client::pod;
use crate::server::{Home, answering};

/// The received messages by gRPC method. Protobuf contains strings unencoded.
type Received = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A collector that stores all messages and responds with success.
async fn collector() -> (SocketAddr, Received) {
    let received = Received::default();
    let keep = async |State(received): State<Received>, uri: Uri, body: Bytes| {
        let mut received = received.lock().unwrap();
        let all = received.entry(uri.path().to_owned()).or_default();
        all.extend_from_slice(&body);
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        // A message without content, uncompressed.
        let frames = [
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[0; 5]))),
            Ok(Frame::trailers(trailers)),
        ];
        Response::builder()
            .header("content-type", "application/grpc")
            .body(Body::new(StreamBody::new(stream::iter(frames))))
            .unwrap()
    };
    let router = Router::new().fallback(keep).with_state(received.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, received)
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_and_traces_reach_a_collector() {
    let (address, received) = collector().await;
    let home = Home::new("");
    let guest = answering(r#"{"accepted":false,"message":"not in this house","code":418}"#);
    let no = home.write_guest("no.wasm", &guest);
    home.write_policies(&format!("house-rule: {{module: '{no}'}}"));
    let endpoint = format!("http://{address}");
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint)];
    let server = home.start_with(&["--log-fmt", "otlp", "--enable-metrics"], &variables);
    let client = server.client();
    let answer = client.response("house-rule", &pod("nginx:1", false)).await;
    assert_eq!(answer["allowed"], false);
    // The shutdown pushes what has not been pushed yet.
    server.process.signal(Signal::TERM);
    let exit = server.process.wait();
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);

    let received = received.lock().unwrap();
    let of = |method: &str| {
        let path = format!("/opentelemetry.proto.collector.{method}/Export");
        received.get(&path).unwrap_or_else(|| {
            let paths: Vec<_> = received.keys().collect();
            panic!("nothing for {path}, only {paths:?}\n{}", exit.stderr)
        })
    };
    let (traces, metrics) = (of("trace.v1.TraceService"), of("metrics.v1.MetricsService"));
    for text in [
        "kubewarden-policy-server",
        "validation",
        "request_uid",
        "u-1",
        "policy_id",
        "house-rule",
        "kind_version",
        "resource_group",
        "response_message",
        "not in this house",
        "response_code",
    ] {
        assert!(has(traces, text), "no {text} in the traces");
    }
    for text in [
        "kubewarden-policy-server",
        "kubewarden_policy_evaluations_total",
        "kubewarden_policy_evaluation_latency_milliseconds",
        "policy_name",
        "house-rule",
        "resource_request_operation",
    ] {
        assert!(has(metrics, text), "no {text} in the metrics");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_collector_requests_are_judged_all_the_same() {
    let home = Home::new("");
    let yes = home.write_guest("yes.wasm", &answering(r#"{"accepted":true}"#));
    home.write_policies(&format!("p: {{module: '{yes}'}}"));
    // After the listener is dropped, no process listens on its port.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint)];
    let server = home.start_with(&["--log-fmt", "otlp", "--enable-metrics"], &variables);
    let client = server.client();
    let answer = client.response("p", &pod("nginx:1", false)).await;
    assert_eq!(answer["allowed"], true);
    server.process.signal(Signal::TERM);
    let exit = server.process.wait();
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
}
