//! One connection, from the handshake to its end.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};
use tracing::debug;

use super::stall::StallGuard;
use super::{BoxError, Limits, Peer};
use crate::shutdown::Shutdown;
use crate::tls::ServerTls;

/// The state that all connections of a server share.
pub(super) struct Shared {
    pub(super) tls: Option<ServerTls>,
    pub(super) limits: Limits,
    /// Finish running requests and accept no new ones.
    pub(super) shutdown: Shutdown,
    /// Closes all connections immediately.
    pub(super) cut_off: CancellationToken,
}

/// The protocols that a client may use on a connection.
#[derive(Debug, Clone, Copy)]
enum Protocol {
    Http1,
    Http2,
    /// Without TLS no protocol is negotiated, so the first bytes determine it.
    Either,
}

/// Serves one connection until it ends. Connection errors are caused by the client and are only logged at debug level.
pub(super) async fn serve<S, B>(stream: TcpStream, address: SocketAddr, service: S, shared: &Shared)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let whole = async {
        // Responses are small and written at once, so waiting for more data only adds latency.
        stream.set_nodelay(true)?;
        let stream = StallGuard::new(stream, shared.limits.write_timeout);
        match &shared.tls {
            None => {
                let peer = Peer {
                    address,
                    is_tls: false,
                    certificates: Arc::default(),
                };
                speak(stream, Protocol::Either, peer, service, shared).await
            }
            Some(tls) => {
                let stream = shake_hands(tls, stream, shared).await?;
                let (_, session) = stream.get_ref();
                let protocol = match session.alpn_protocol() {
                    Some(b"h2") => Protocol::Http2,
                    _ => Protocol::Http1,
                };
                let certificates = session.peer_certificates().unwrap_or_default();
                let certificates = certificates
                    .iter()
                    .cloned()
                    .map(CertificateDer::into_owned)
                    .collect();
                let peer = Peer {
                    address,
                    is_tls: true,
                    certificates,
                };
                speak(stream, protocol, peer, service, shared).await
            }
        }
    };
    let ended = tokio::select! {
        biased;
        () = when_woken(shared.cut_off.cancelled()) => return debug!(%address, "connection cut off"),
        ended = whole => ended,
    };
    if let Err(error) = ended {
        debug!(%address, error = &*error as &dyn std::error::Error, "connection failed");
    }
}

/// Polls the future only when it was woken. All connections wait for the same shutdown, and each poll takes a lock
/// that they share.
async fn when_woken<F: Future>(future: F) -> F::Output {
    let mut woken = FuturesUnordered::from_iter([future]);
    woken.next().await.expect("there is one future")
}

async fn shake_hands(
    tls: &ServerTls,
    stream: StallGuard<TcpStream>,
    shared: &Shared,
) -> Result<TlsStream<StallGuard<TcpStream>>, BoxError> {
    let accept = TlsAcceptor::from(tls.current()).accept(stream);
    // A client that only shakes hands has nothing to finish: the shutdown ends it.
    match shared
        .shutdown
        .run_until(timeout(shared.limits.handshake_timeout, accept))
        .await
    {
        Some(Ok(shaken)) => Ok(shaken?),
        Some(Err(_)) => Err("the TLS handshake took too long".into()),
        None => Err("shut down during the TLS handshake".into()),
    }
}

async fn speak<IO, S, B>(
    stream: IO,
    protocol: Protocol,
    peer: Peer,
    service: S,
    shared: &Shared,
) -> Result<(), BoxError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let asked = Arc::new(Notify::new());
    let handler = {
        let asked = asked.clone();
        hyper::service::service_fn(move |mut request: Request<Incoming>| {
            asked.notify_one();
            request.extensions_mut().insert(peer.clone());
            service.clone().oneshot(request)
        })
    };
    let mut shutdown = pin!(when_woken(shared.shutdown.triggered()));
    let builder = builder(protocol, &shared.limits);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), handler));

    // hyper has a timeout for each request head, but not for the time before the protocol is known.
    tokio::select! {
        ended = connection.as_mut() => return ended,
        first = timeout(shared.limits.first_request_timeout, asked.notified()) => {
            first.map_err(|_| "no request came in time")?;
            tokio::select! {
                ended = connection.as_mut() => return ended,
                () = shutdown => {}
            }
        }
        () = shutdown.as_mut() => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

fn builder(protocol: Protocol, limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle_timeout)
        .max_buf_size(limits.max_header_bytes.max(MIN_HTTP1_BUFFER));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.max_header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(limits.max_streams)
        .keep_alive_interval(limits.write_timeout)
        .keep_alive_timeout(limits.write_timeout);
    match protocol {
        Protocol::Http1 => builder.http1_only(),
        Protocol::Http2 => builder.http2_only(),
        Protocol::Either => builder,
    }
}

/// hyper panics below this value.
const MIN_HTTP1_BUFFER: usize = 8192;
