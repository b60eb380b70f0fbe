//! Connections to webhooks, kept for the next call.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

use super::tls;

/// As in Go's transport.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Connections under one TLS configuration and server name, by address.
#[derive(Debug, Clone)]
pub(super) struct Pool(Client<Connector, Full<Bytes>>);

impl Pool {
    pub(super) fn new(config: ClientConfig, server_name: String) -> Self {
        let connector = Connector {
            config: Arc::new(config),
            server_name: Arc::from(server_name),
        };
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self(client)
    }

    /// Sends a request.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, SendError> {
        self.0
            .request(request)
            .await
            .map_err(|error| SendError::of(&error))
    }
}

/// Why there is no response, with the messages of Go.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// The connection was refused.
    #[error("{0}")]
    NotReached(String),
    /// The connection was established, so the endpoint may have received the request.
    #[error("{0}")]
    Failed(String),
}

impl SendError {
    fn of(error: &(dyn Error + 'static)) -> Self {
        let mut current = Some(error);
        while let Some(error) = current {
            if let Some(ConnectError::NotReached(why)) = error.downcast_ref() {
                return Self::NotReached(why.clone());
            }
            current = error.source();
        }
        Self::Failed(error_text(error))
    }
}

fn error_text(error: &(dyn Error + 'static)) -> String {
    let mut current = Some(error);
    let mut last = String::new();
    while let Some(error) = current {
        if let Some(connect) = error.downcast_ref::<ConnectError>() {
            return connect.to_string();
        }
        if error
            .downcast_ref::<hyper::Error>()
            .is_some_and(hyper::Error::is_incomplete_message)
        {
            return "EOF".to_owned();
        }
        if let Some(io) = error.downcast_ref::<io::Error>() {
            match io.kind() {
                io::ErrorKind::UnexpectedEof => return "EOF".to_owned(),
                io::ErrorKind::ConnectionReset => {
                    return "read: connection reset by peer".to_owned();
                }
                _ => {}
            }
        }
        last = error.to_string();
        current = error.source();
    }
    last
}

/// Why there is no connection, with the messages of Go.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    /// The connection was refused, or closed before the TLS handshake ended.
    #[error("{0}")]
    NotReached(String),
    #[error("{0}")]
    NotTrusted(String),
}

/// Opens TLS connections to the address in the URI, with one server name.
#[derive(Debug, Clone)]
struct Connector {
    config: Arc<ClientConfig>,
    server_name: Arc<str>,
}

impl Service<Uri> for Connector {
    type Response = TlsConnection;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<TlsConnection, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect(&uri).await })
    }
}

impl Connector {
    async fn connect(&self, uri: &Uri) -> Result<TlsConnection, ConnectError> {
        let host = uri
            .host()
            .unwrap_or_default()
            .trim_start_matches('[')
            .trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(443);
        let stream = dial(host, port).await?;
        let server_name = ServerName::try_from(self.server_name.to_string())
            .map_err(|error| ConnectError::NotTrusted(format!("tls: {error}")))?;
        let connected = TlsConnector::from(Arc::clone(&self.config))
            .connect(server_name, stream)
            .await;
        let stream = connected.map_err(|error| {
            let text = tls::text(&error, &self.server_name);
            match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                    ConnectError::NotReached(text)
                }
                _ => ConnectError::NotTrusted(text),
            }
        })?;
        Ok(TlsConnection(TokioIo::new(stream)))
    }
}

async fn dial(host: &str, port: u16) -> Result<TcpStream, ConnectError> {
    let addresses = tokio::net::lookup_host((host, port))
        .await
        .map_err(|_| ConnectError::NotReached(format!("dial tcp: lookup {host}: no such host")))?;
    let mut failure = format!("dial tcp: lookup {host}: no such host");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Reviews are one write each; there is nothing to collect.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => {
                let why = match error.kind() {
                    io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
                    io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
                    io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
                    _ => error.to_string(),
                };
                failure = format!("dial tcp {address}: connect: {why}");
            }
        }
    }
    Err(ConnectError::NotReached(failure))
}

/// A connection that reports to the pool whether it uses HTTP/2.
struct TlsConnection(TokioIo<TlsStream<TcpStream>>);

impl Connection for TlsConnection {
    fn connected(&self) -> Connected {
        let (_, session) = self.0.inner().get_ref();
        if session.alpn_protocol() == Some(b"h2") {
            Connected::new().negotiated_h2()
        } else {
            Connected::new()
        }
    }
}

impl Read for TlsConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for TlsConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }
}
