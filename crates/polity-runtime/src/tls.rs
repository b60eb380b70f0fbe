//! TLS for our servers: configurations from PEM that are replaced as a whole while the server runs.
//!
//! [`ServerTls`] holds the current configuration. Each new connection uses the one that is current when it arrives,
//! and existing connections keep theirs. So certificate, key and client authorities always change together. [`watch`]
//! reloads it when the files change.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientCertVerifierBuilder, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

mod watch;

pub use crate::changes::ReloadTiming;
pub use watch::watch;

/// Makes aws-lc-rs the crypto provider of this process. May be called more than once. Libraries that build their own
/// TLS configuration (the Kubernetes client) use it.
pub fn install_provider() {
    // The only error is that a provider is already installed.
    let _ = aws_lc_rs::default_provider().install_default();
}

/// Why a TLS configuration could not be created.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read.
    #[error("reading {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        error: std::io::Error,
    },
    /// The certificate chain is not PEM.
    #[error("reading the certificate chain")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    /// The certificate chain has no certificate.
    #[error("there is no certificate in the certificate chain")]
    NoCertificate,
    /// The private key is not PEM, or not one we know.
    #[error("reading the private key")]
    Key(#[source] rustls::pki_types::pem::Error),
    /// The private key cannot be used, or belongs to another certificate.
    #[error("the certificate and its private key cannot be used together")]
    Pair(#[source] rustls::Error),
    /// The client authorities are not PEM.
    #[error("reading the client authorities")]
    Authorities(#[source] rustls::pki_types::pem::Error),
    /// A client authority cannot be used.
    #[error("using a client authority")]
    Authority(#[source] rustls::Error),
    /// There is no client authority although client certificates are verified.
    #[error("there is no certificate among the client authorities")]
    NoAuthority(#[source] rustls::server::VerifierBuilderError),
    /// The TLS library refused the set of protocol versions.
    #[error("creating the TLS configuration")]
    Config(#[source] rustls::Error),
}

/// Whether clients must present a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientAuthMode {
    /// No certificate.
    #[default]
    None,
    /// A certificate is optional, but an invalid one is refused.
    Optional,
    /// A good certificate is demanded.
    Required,
}

/// The PEM inputs of a TLS configuration. `Debug` does not show the key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TlsMaterial {
    /// The certificate chain, leaf first.
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    /// The authorities of client certificates, any number in one text.
    pub client_authorities: Vec<u8>,
    pub client_auth: ClientAuthMode,
}

impl fmt::Debug for TlsMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsMaterial")
            .field("client_auth", &self.client_auth)
            .finish_non_exhaustive()
    }
}

impl TlsMaterial {
    /// A server's certificate chain and key, without looking at client certificates.
    pub fn new(certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        Self {
            certificate: certificate.into(),
            key: key.into(),
            ..Self::default()
        }
    }

    /// The same, looking at client certificates.
    #[must_use]
    pub fn with_client_auth(self, mode: ClientAuthMode, authorities: impl Into<Vec<u8>>) -> Self {
        Self {
            client_auth: mode,
            client_authorities: authorities.into(),
            ..self
        }
    }

    fn server_config(&self) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let pair = self.certified_key(&provider)?;
        let verifier = match self.client_auth {
            ClientAuthMode::None => None,
            ClientAuthMode::Optional => Some(self.verifier(&provider)?.allow_unauthenticated()),
            ClientAuthMode::Required => Some(self.verifier(&provider)?),
        };
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Config)?;
        let resolver = Arc::new(rustls::sign::SingleCertAndKey::from(pair));
        let mut config = match verifier {
            None => builder.with_no_client_auth().with_cert_resolver(resolver),
            Some(verifier) => {
                let verifier = verifier.build().map_err(TlsError::NoAuthority)?;
                let mut config = builder
                    .with_client_cert_verifier(verifier)
                    .with_cert_resolver(resolver);
                // A resumed session would keep a client certificate after its expiry, because the library verifies it
                // in full handshakes only.
                config.session_storage = Arc::new(NoServerSessionStorage {});
                config.send_tls13_tickets = 0;
                config
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    fn certified_key(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let chain = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(TlsError::Certificate)?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(TlsError::Key)?;
        CertifiedKey::from_der(chain, key, provider).map_err(TlsError::Pair)
    }

    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<ClientCertVerifierBuilder, TlsError> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(&self.client_authorities) {
            let authority = authority.map_err(TlsError::Authorities)?;
            roots.add(authority).map_err(TlsError::Authority)?;
        }
        Ok(WebPkiClientVerifier::builder_with_provider(
            Arc::new(roots),
            provider.clone(),
        ))
    }
}

/// The files of a TLS configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain in PEM, leaf first.
    pub certificate: PathBuf,
    /// The leaf's private key in PEM.
    pub key: PathBuf,
    /// The authorities of client certificates in PEM.
    pub client_authorities: Vec<PathBuf>,
    pub client_auth: ClientAuthMode,
}

impl TlsFiles {
    /// Reads the files as they are now.
    pub async fn read(&self) -> Result<TlsMaterial, TlsError> {
        let mut client_authorities = Vec::new();
        for path in &self.client_authorities {
            client_authorities.extend(read(path).await?);
            client_authorities.push(b'\n');
        }
        Ok(TlsMaterial {
            certificate: read(&self.certificate).await?,
            key: read(&self.key).await?,
            client_authorities,
            client_auth: self.client_auth,
        })
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.certificate, &self.key]
            .into_iter()
            .chain(&self.client_authorities)
            .map(PathBuf::as_path)
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    tokio::fs::read(path).await.map_err(|error| TlsError::Read {
        path: path.to_owned(),
        error,
    })
}

/// The TLS configuration of a server, swappable under load. Clones share it.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ArcSwap<ServerConfig>>,
}

impl ServerTls {
    /// Starts with the given material.
    pub fn new(material: &TlsMaterial) -> Result<Self, TlsError> {
        let config = material.server_config()?;
        Ok(Self {
            config: Arc::new(ArcSwap::from_pointee(config)),
        })
    }

    /// New connections use the given material from now on; when it is broken, the old stays.
    pub fn swap(&self, material: &TlsMaterial) -> Result<(), TlsError> {
        let config = material.server_config()?;
        self.config.store(Arc::new(config));
        Ok(())
    }

    /// The configuration for a connection that arrives now.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}
