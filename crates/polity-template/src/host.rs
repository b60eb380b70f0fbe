//! The environment of a template. The engine has no clock, no randomness and no cluster: all of them are behind
//! [`Host`].

use jiff::Zoned;
use jiff::tz::TimeZone;
use serde_json::Value;

/// The environment of one template while it is resolved.
pub trait Host {
    /// The time, in the zone that counts as local.
    fn now(&self) -> Zoned;

    /// Fills the buffer with cryptographically secure random bytes.
    fn random(&self, buffer: &mut [u8]);

    /// The object of this name; `None` when it does not exist.
    fn get(&self, query: &Query<'_>, name: &str) -> Result<Option<Value>, LookupError>;

    /// The objects that match, each a full object.
    fn list(&self, query: &Query<'_>) -> Result<Vec<Value>, LookupError>;

    /// Is this kind namespaced? `None` when it is not served.
    fn is_namespaced(&self, api_version: &str, kind: &str) -> Result<Option<bool>, LookupError>;

    /// The time zone of this name, such as `Europe/Berlin`.
    fn zone(&self, name: &str) -> Option<TimeZone>;

    /// The addresses of a host name.
    fn addresses(&self, host_name: &str) -> Vec<String>;

    /// A new private key as PEM.
    fn private_key(&self, kind: KeyKind) -> Result<String, String>;

    /// Is the first section of this PEM text a certificate that can be read?
    fn check_certificate(&self, pem: &str) -> Result<(), String>;

    /// Is this PEM text a private key that can be read? The error repeats nothing of it.
    fn check_private_key(&self, pem: &str) -> Result<(), String>;

    /// A new certificate as PEM, with its key. Keys and certificates in the request passed the checks.
    fn certificate(&self, request: &CertificateRequest<'_>) -> Result<CertificatePair, String>;
}

/// The selection of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query<'q> {
    pub api_version: &'q str,
    pub kind: &'q str,
    /// Empty for cluster-scoped kinds, and for all namespaces.
    pub namespace: &'q str,
    /// A label selector as text; empty for everything.
    pub selector: &'q str,
}

/// Why a lookup failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// A retry may succeed when the kind is installed.
    #[error("one or more API resources are not installed on the API server")]
    MissingKind,
    /// A retry may succeed later: internal, unavailable, timeout, throttled, forbidden, unauthorized.
    #[error("{0}")]
    Retryable(String),
    /// Wrong until the template changes.
    #[error("{0}")]
    Final(String),
}

/// The kinds of private keys that can be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Rsa4096,
    Ecdsa,
    Ed25519,
}

/// The content of a certificate, and its signer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRequest<'r> {
    pub common_name: &'r str,
    pub addresses: Vec<std::net::IpAddr>,
    pub names: Vec<String>,
    pub days: i64,
    pub is_authority: bool,
    /// The key to certify as PEM; a new one of RSA 2048 when there is none.
    pub key: Option<&'r str>,
    /// Certificate and key of the authority as PEM; without one it signs itself.
    pub signer: Option<(&'r str, &'r str)>,
}

/// A certificate and its key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificatePair {
    pub certificate: String,
    pub key: String,
}
