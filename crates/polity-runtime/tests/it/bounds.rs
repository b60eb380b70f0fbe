//! The limits for slow, greedy and silent clients.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get as on_get;
use bytes::Bytes;
use http::Version;
use polity_runtime::serve::{Limits, Server};
use polity_runtime::tls::ServerTls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{Client, Running, TIMEOUT, authority, get, material, read, server_leaf};

const SHORT: Duration = Duration::from_millis(100);

/// A fast response, and one that never ends.
fn router() -> Router {
    let endless = async || {
        let chunks = futures::stream::repeat_with(|| {
            Ok::<_, std::io::Error>(Bytes::from_static(&[0; 8192]))
        });
        Body::from_stream(chunks)
    };
    Router::new()
        .route("/", on_get(async || "ok"))
        .route("/endless", on_get(endless))
}

/// Sends some bytes, then nothing, and waits for the server to give up.
async fn is_given_up(address: SocketAddr, sent: &[u8]) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent).await.unwrap();
    let mut rest = Vec::new();
    // Some clients get a response, some a closed connection, some a reset.
    let _ = timeout(TIMEOUT, stream.read_to_end(&mut rest))
        .await
        .expect("the server gives up");
}

#[tokio::test]
async fn silent_clients_are_given_up() {
    let limits = Limits {
        handshake_timeout: SHORT,
        first_request_timeout: SHORT,
        idle_timeout: SHORT,
        ..Limits::default()
    };
    let plain = Running::start(router(), None, limits).await;
    for sent in [
        &b""[..],
        b"PRI * HT",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
    ] {
        is_given_up(plain.address, sent).await;
    }
    plain.stop().await;

    let tls = ServerTls::new(&material(&server_leaf(&authority()))).unwrap();
    let encrypted = Running::start(router(), Some(tls), limits).await;
    is_given_up(encrypted.address, b"").await;
    is_given_up(encrypted.address, &[22, 3, 1]).await;
    encrypted.stop().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let limits = Limits {
        write_timeout: SHORT,
        max_connections: 1,
        ..Limits::default()
    };
    let running = Running::start(router(), None, limits).await;
    let mut deaf = TcpStream::connect(running.address).await.unwrap();
    deaf.write_all(b"GET /endless HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    // The only place is free again once it was cut off.
    let answer = timeout(
        TIMEOUT,
        Client::plain(Version::HTTP_11).get(running.address, "/"),
    )
    .await;
    assert_eq!(answer.unwrap().unwrap(), (200, "ok".to_owned()));
    running.stop().await;
}

#[tokio::test]
async fn connections_above_the_limit_wait() {
    let limits = Limits {
        max_connections: 1,
        ..Limits::default()
    };
    let running = Running::start(router(), None, limits).await;
    let mut first = Client::plain(Version::HTTP_11)
        .connect(running.address)
        .await
        .unwrap();
    read(first.send(get("/")).await.unwrap()).await.unwrap();

    let second = Client::plain(Version::HTTP_11);
    let mut waiting = Box::pin(second.get(running.address, "/"));
    assert!(
        timeout(SHORT, &mut waiting).await.is_err(),
        "there is no place"
    );
    drop(first);
    assert_eq!(timeout(TIMEOUT, waiting).await.unwrap().unwrap().0, 200);
    running.stop().await;
}

#[tokio::test]
async fn a_taken_port_is_passed_over() {
    let taken = Server::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let error = Server::bind(taken.address()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("listening on {}", taken.address())
    );
    let next = Server::bind_from(taken.address(), 50).await.unwrap();
    assert!(next.address().port() > taken.address().port());
}

#[tokio::test]
async fn large_headers_are_refused() {
    let limits = Limits {
        max_header_bytes: 16 * 1024,
        ..Limits::default()
    };
    let running = Running::start(router(), None, limits).await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        for (n_bytes, expected) in [(8_000, 200), (20_000, 431)] {
            let mut sender = Client::plain(version)
                .connect(running.address)
                .await
                .unwrap();
            let mut request = get("/");
            request
                .headers_mut()
                .insert("x-large", "x".repeat(n_bytes).parse().unwrap());
            let status = sender.send(request).await.unwrap().status();
            assert_eq!(status, expected, "{version:?} with {n_bytes} bytes");
        }
    }
    running.stop().await;
}
