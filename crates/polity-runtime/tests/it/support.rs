//! Shared by the tests: a CA, a server on a free port, and clients with configurable certificates.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use polity_pki::{Authority, ClientIdentity, Issued, ServerNames};
use polity_runtime::serve::{Drained, Limits, Server};
use polity_runtime::tls::{ServerTls, TlsMaterial};
use polity_runtime::{Clock, Shutdown};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// Long enough for any machine; a test that waits this long has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
const DAY: Duration = Duration::from_hours(24);

pub(crate) type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn now() -> Timestamp {
    Clock::system().now()
}

pub(crate) fn authority() -> Authority {
    Authority::create("test", DAY, now()).unwrap()
}

pub(crate) fn server_leaf(ca: &Authority) -> Issued {
    let names = ServerNames::new("server")
        .dns("localhost")
        .ip([127, 0, 0, 1]);
    ca.issue_server(&names, DAY, now()).unwrap()
}

pub(crate) fn client_leaf(ca: &Authority, user: &str) -> Issued {
    ca.issue_client(&ClientIdentity::new(user, ["devs"]), DAY, now())
        .unwrap()
}

pub(crate) fn material(leaf: &Issued) -> TlsMaterial {
    TlsMaterial::new(leaf.certificate.to_pem(), leaf.key.to_pem())
}

/// A running server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: Shutdown,
    pub(crate) ended: JoinHandle<Drained>,
}

impl Running {
    pub(crate) async fn start(router: Router, tls: Option<ServerTls>, limits: Limits) -> Self {
        let server = Server::bind(([127, 0, 0, 1], 0).into())
            .await
            .unwrap()
            .with_limits(limits);
        let server = match tls {
            Some(tls) => server.with_tls(tls),
            None => server,
        };
        let (address, shutdown) = (server.address(), Shutdown::new());
        let ended = tokio::spawn(server.run(router, shutdown.clone()));
        Self {
            address,
            shutdown,
            ended,
        }
    }

    pub(crate) async fn stop(self) -> Drained {
        self.shutdown.trigger();
        tokio::time::timeout(TIMEOUT, self.ended)
            .await
            .unwrap()
            .unwrap()
    }
}

/// A client with its trusted CA, its certificate and its protocol.
pub(crate) struct Client {
    pub(crate) trusts: Option<CertificateDer<'static>>,
    pub(crate) shows: Option<Issued>,
    pub(crate) version: Version,
}

impl Client {
    pub(crate) fn plain(version: Version) -> Self {
        Self {
            trusts: None,
            shows: None,
            version,
        }
    }

    pub(crate) fn trusting(ca: &Authority, version: Version) -> Self {
        Self {
            trusts: Some(ca.certificate().der().clone()),
            shows: None,
            version,
        }
    }

    pub(crate) fn showing(self, leaf: Issued) -> Self {
        Self {
            shows: Some(leaf),
            ..self
        }
    }

    /// Connects and requests a path.
    pub(crate) async fn get(
        &self,
        address: SocketAddr,
        path: &str,
    ) -> Result<(u16, String), AnyError> {
        let mut sender = self.connect(address).await?;
        let response = sender.send(get(path)).await?;
        read(response).await
    }

    pub(crate) async fn connect(&self, address: SocketAddr) -> Result<Sender, AnyError> {
        let stream = TcpStream::connect(address).await?;
        if self.trusts.is_none() {
            return handshake(stream, self.version).await.map(|inner| Sender {
                inner,
                served_with: None,
            });
        }
        let connector = TlsConnector::from(Arc::new(self.config()));
        let stream = connector
            .connect(ServerName::try_from("localhost")?, stream)
            .await?;
        let served_with = stream
            .get_ref()
            .1
            .peer_certificates()
            .map(|chain| chain[0].clone());
        let inner = handshake(stream, self.version).await?;
        Ok(Sender { inner, served_with })
    }

    fn config(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.trusts.clone().unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &self.shows {
            None => builder.with_no_client_auth(),
            Some(leaf) => {
                let key = PrivateKeyDer::from_pem_slice(leaf.key.to_pem().as_bytes()).unwrap();
                builder
                    .with_client_auth_cert(vec![leaf.certificate.der().clone()], key)
                    .unwrap()
            }
        };
        config.alpn_protocols = match self.version {
            Version::HTTP_2 => vec![b"h2".to_vec()],
            _ => vec![b"http/1.1".to_vec()],
        };
        config
    }
}

/// A connection for requests, and the certificate of its server.
pub(crate) struct Sender {
    inner: Inner,
    pub(crate) served_with: Option<CertificateDer<'static>>,
}

enum Inner {
    Http1(hyper::client::conn::http1::SendRequest<Empty<Bytes>>),
    Http2(hyper::client::conn::http2::SendRequest<Empty<Bytes>>),
}

impl Sender {
    pub(crate) async fn send(
        &mut self,
        request: Request<Empty<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        match &mut self.inner {
            Inner::Http1(sender) => sender.send_request(request).await,
            Inner::Http2(sender) => sender.send_request(request).await,
        }
    }
}

async fn handshake<IO>(stream: IO, version: Version) -> Result<Inner, AnyError>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    if version == Version::HTTP_2 {
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
        tokio::spawn(connection);
        return Ok(Inner::Http2(sender));
    }
    let (sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    tokio::spawn(connection);
    Ok(Inner::Http1(sender))
}

pub(crate) fn get(path: &str) -> Request<Empty<Bytes>> {
    let request = Request::get(format!("http://localhost{path}")).header("host", "localhost");
    request.body(Empty::new()).unwrap()
}

pub(crate) async fn read(response: Response<Incoming>) -> Result<(u16, String), AnyError> {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8(body.to_vec())?))
}
