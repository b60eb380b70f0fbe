//! The HTTP server: TCP with or without TLS, HTTP/1.1 and HTTP/2, with limits, and drained before it stops.
//!
//! The handler is any tower service, such as an axum `Router`. It finds the [`Peer`] in the request's extensions.
//! Everything that a client can use has a limit: connections, header bytes, streams, and the time for the handshake,
//! the request headers and reading the response. The handler limits the time and the size of a request body.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;
use tracing::{debug, warn};

use crate::shutdown::Shutdown;
use crate::tls::ServerTls;

mod connection;
mod stall;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The client of a request's connection. Handlers find it in the request's extensions.
#[derive(Debug, Clone)]
pub struct Peer {
    pub address: SocketAddr,
    /// Whether the connection is encrypted.
    pub is_tls: bool,
    /// The certificates it proved to hold, leaf first; empty when it showed none.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

/// The limits for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; more wait in the kernel's queue.
    pub max_connections: usize,
    /// Bytes of a request's headers.
    pub max_header_bytes: usize,
    /// Requests at once on one HTTP/2 connection.
    pub max_streams: u32,
    /// Time for the TLS handshake.
    pub handshake_timeout: Duration,
    /// Time from the handshake to the first whole request head.
    pub first_request_timeout: Duration,
    /// On HTTP/1.1, the time from a response to the next complete request head.
    pub idle_timeout: Duration,
    /// How long a client may leave a response unread before its connection is closed. HTTP/2 clients are also pinged
    /// at this interval.
    pub write_timeout: Duration,
    /// How long running requests may take to end after the shutdown.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 8192,
            max_header_bytes: 64 * 1024,
            max_streams: 250,
            handshake_timeout: Duration::from_secs(10),
            first_request_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(90),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(20),
        }
    }
}

/// An address could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("listening on {address}")]
pub struct BindError {
    pub address: SocketAddr,
    #[source]
    pub error: io::Error,
}

/// How a server stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were still busy at the drain deadline and were cut off.
    pub n_cut_off: usize,
}

/// A server that listens but does not accept connections yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<ServerTls>,
    limits: Limits,
}

impl Server {
    /// Listens on an address; clients can connect from now on, and wait.
    pub async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok(Self {
                listener,
                address,
                tls: None,
                limits: Limits::default(),
            })
        };
        bound.await.map_err(|error| BindError { address, error })
    }

    /// Listens on an address or, where that is taken, on the next free one of the `n_ports`
    /// ports that follow.
    pub async fn bind_from(address: SocketAddr, n_ports: u16) -> Result<Self, BindError> {
        let mut bound = Self::bind(address).await;
        for port in (1..=n_ports).filter_map(|n| address.port().checked_add(n)) {
            match &bound {
                Err(taken) if taken.error.kind() == io::ErrorKind::AddrInUse => {}
                _ => break,
            }
            bound = Self::bind(SocketAddr::new(address.ip(), port)).await;
        }
        bound
    }

    /// Enables TLS.
    #[must_use]
    pub fn with_tls(self, tls: ServerTls) -> Self {
        Self {
            tls: Some(tls),
            ..self
        }
    }

    /// Sets other limits than the default ones.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The address, with the port that the system chose if port 0 was requested.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the shutdown, then waits for running requests.
    pub async fn run<S, B>(self, service: S, shutdown: Shutdown) -> Drained
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let Self {
            listener,
            address,
            tls,
            limits,
        } = self;
        let shared = Arc::new(connection::Shared {
            tls,
            limits,
            shutdown,
            cut_off: CancellationToken::new(),
        });
        let slots = Arc::new(Semaphore::new(limits.max_connections));
        let connections = TaskTracker::new();

        let accept = async {
            loop {
                let slot = slots
                    .clone()
                    .acquire_owned()
                    .await
                    .expect("the semaphore is never closed");
                let (stream, address) = accept(&listener).await;
                let (shared, service) = (shared.clone(), service.clone());
                connections.spawn(async move {
                    let _slot = slot;
                    connection::serve(stream, address, service, &shared).await;
                });
            }
        };
        shared
            .shutdown
            .run_until::<_>(accept)
            .await
            .unwrap_or_else(|| debug!(%address, "draining"));

        drop(listener);
        connections.close();
        let n_cut_off = match timeout(limits.drain_timeout, connections.wait()).await {
            Ok(()) => 0,
            Err(_) => connections.len(),
        };
        if n_cut_off > 0 {
            warn!(%address, n_connections = n_cut_off, "cutting off connections that did not drain");
        }
        shared.cut_off.cancel();
        connections.wait().await;
        Drained { n_cut_off }
    }
}

/// Accepts the next connection. Errors are either those of a client that is gone again, or of a
/// system that has no more file descriptors, which needs time and not another attempt at once.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address),
            Err(error) if is_clients_fault(&error) => {
                debug!(%error, "a connection was gone before it was accepted");
            }
            Err(error) => {
                warn!(%error, "cannot accept connections");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

fn is_clients_fault(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
