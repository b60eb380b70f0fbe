//! A certificate authority that is stored as PEM and signs leaf certificates for servers and clients.
//!
//! As RFC 5280 requires, certificates have a random serial number, key identifiers on both ends, and critical basic
//! constraints and key usages. Leaves have exactly one extended key usage, so that a client certificate can never be
//! used by a server.

use std::net::IpAddr;
use std::time::Duration;

use aws_lc_rs::rand;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, SerialNumber,
};

use crate::certificate::{Certificate, CheckError, ClientIdentity, ParseError};
use crate::der::{self, Attribute, NameOf};
use crate::key::{KeyError, PrivateKey};

/// How far the validity starts in the past, for peers whose clocks are behind.
const BACKDATE: Duration = Duration::from_mins(5);

/// Why an authority could not be created, read or used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// Making or reading the private key failed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Reading the authority's certificate failed.
    #[error("reading the authority's certificate")]
    Certificate(#[source] ParseError),
    /// The certificate may not sign others.
    #[error("the certificate is not a certificate authority")]
    NotAnAuthority,
    /// The private key belongs to another certificate.
    #[error("the private key does not belong to the authority's certificate")]
    KeyMismatch,
    /// The authority is not valid now, so its signatures would not be accepted.
    #[error("the authority cannot sign now")]
    NotValid(#[source] CheckError),
    /// A server name is not a DNS name.
    #[error("{name:?} is not a DNS name")]
    BadDnsName { name: String },
    /// A URI is not made of ASCII.
    #[error("{uri:?} is not a URI")]
    BadUri { uri: String },
    /// The requested validity exceeds the calendar.
    #[error("the validity of {validity:?} is out of range")]
    BadValidity { validity: Duration },
    /// The system gave no random bytes.
    #[error("no random bytes for a serial number")]
    Random,
    #[error("signing a certificate: {reason}")]
    Sign {
        /// The error of the signer.
        reason: String,
    },
}

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Sign {
            reason: error.to_string(),
        }
    }
}

impl From<der::Malformed> for AuthorityError {
    fn from(error: der::Malformed) -> Self {
        Self::Sign {
            reason: error.to_string(),
        }
    }
}

/// The names and addresses of a server certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerNames {
    common_name: String,
    dns_names: Vec<String>,
    ip_addresses: Vec<IpAddr>,
}

impl ServerNames {
    /// Starts with the subject's common name, which is for display. Clients verify the alternative names.
    pub fn new(common_name: impl Into<String>) -> Self {
        Self {
            common_name: common_name.into(),
            dns_names: Vec::new(),
            ip_addresses: Vec::new(),
        }
    }

    #[must_use]
    pub fn dns(mut self, name: impl Into<String>) -> Self {
        self.dns_names.push(name.into());
        self
    }

    #[must_use]
    pub fn ip(mut self, address: impl Into<IpAddr>) -> Self {
        self.ip_addresses.push(address.into());
        self
    }
}

/// A leaf and its private key.
#[derive(Debug, Clone)]
pub struct Issued {
    pub certificate: Certificate,
    pub key: PrivateKey,
}

/// A certificate authority that can sign.
#[derive(Debug, Clone)]
pub struct Authority {
    certificate: Certificate,
    key: PrivateKey,
}

impl Authority {
    /// Makes an authority with a new key, valid from (just before) `now` for `validity`.
    pub fn create(name: &str, validity: Duration, now: Timestamp) -> Result<Self, AuthorityError> {
        let key = PrivateKey::generate()?;
        let mut params = params(now, expiry(now, validity)?)?;
        params.distinguished_name.push(DnType::CommonName, name);
        // The authority signs leaves only.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let signed = params.self_signed(key.pair())?;
        let certificate = read_back(signed.der())?;
        Ok(Self { certificate, key })
    }

    /// Reads an authority from its certificate and private key, and checks that they belong
    /// together.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, AuthorityError> {
        let certificate =
            Certificate::from_pem(certificate).map_err(AuthorityError::Certificate)?;
        let key = PrivateKey::from_pem(key)?;
        if !certificate.is_ca() {
            return Err(AuthorityError::NotAnAuthority);
        }
        if certificate.public_der() != key.public_der() {
            return Err(AuthorityError::KeyMismatch);
        }
        Ok(Self { certificate, key })
    }

    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// Signs a certificate for a server. It ends with the authority at the latest.
    pub fn issue_server(
        &self,
        names: &ServerNames,
        validity: Duration,
        now: Timestamp,
    ) -> Result<Issued, AuthorityError> {
        let mut params = self.leaf_params(ExtendedKeyUsagePurpose::ServerAuth, validity, now)?;
        params
            .distinguished_name
            .push(DnType::CommonName, names.common_name.as_str());
        params.subject_alt_names = alternative_names(&names.dns_names, &names.ip_addresses)?;
        let key = PrivateKey::generate()?;
        let signed = params.signed_by(key.pair(), &self.issuer()?)?;
        self.issued(signed.der(), key, now)
    }

    /// Signs a certificate for a client: the user is its common name, the groups are its
    /// organizations. It ends with the authority at the latest.
    pub fn issue_client(
        &self,
        identity: &ClientIdentity,
        validity: Duration,
        now: Timestamp,
    ) -> Result<Issued, AuthorityError> {
        let params = self.leaf_params(ExtendedKeyUsagePurpose::ClientAuth, validity, now)?;
        let key = PrivateKey::generate()?;
        let draft = params.signed_by(key.pair(), &self.issuer()?)?;
        let sign = |message: &[u8]| self.key.sign(message).map_err(AuthorityError::from);
        let signed = der::with_name(draft.der(), NameOf::Subject, &subject(identity), sign)?;
        self.issued(&signed, key, now)
    }

    /// Signs a code-signing certificate for a URI. It ends with the authority at the latest.
    pub fn issue_code_signer(
        &self,
        common_name: &str,
        uri: &str,
        validity: Duration,
        now: Timestamp,
    ) -> Result<Issued, AuthorityError> {
        let mut params = self.leaf_params(ExtendedKeyUsagePurpose::CodeSigning, validity, now)?;
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        let name = uri.try_into().map_err(|_| AuthorityError::BadUri {
            uri: uri.to_owned(),
        })?;
        params.subject_alt_names = vec![SanType::URI(name)];
        let key = PrivateKey::generate()?;
        let signed = params.signed_by(key.pair(), &self.issuer()?)?;
        self.issued(signed.der(), key, now)
    }

    /// Verifies an issued certificate. An authority that was created elsewhere may have a name that rcgen cannot
    /// encode byte for byte, and no verifier would accept its leaves.
    fn issued(
        &self,
        der: &[u8],
        key: PrivateKey,
        now: Timestamp,
    ) -> Result<Issued, AuthorityError> {
        let certificate = read_back(der)?;
        certificate
            .check_signed_by(&self.certificate, now)
            .map_err(|error| AuthorityError::Sign {
                reason: error.to_string(),
            })?;
        Ok(Issued { certificate, key })
    }

    fn leaf_params(
        &self,
        purpose: ExtendedKeyUsagePurpose,
        validity: Duration,
        now: Timestamp,
    ) -> Result<CertificateParams, AuthorityError> {
        self.certificate
            .check_valid(now)
            .map_err(AuthorityError::NotValid)?;
        let mut params = params(
            now,
            expiry(now, validity)?.min(self.certificate.not_after()),
        )?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        Ok(params)
    }

    fn issuer(&self) -> Result<Issuer<'static, &KeyPair>, AuthorityError> {
        Ok(Issuer::from_ca_cert_der(
            self.certificate.der(),
            self.key.pair(),
        )?)
    }
}

/// The parameters that all certificates of our authorities share.
fn params(now: Timestamp, not_after: Timestamp) -> Result<CertificateParams, AuthorityError> {
    blank(now.saturating_sub(BACKDATE).unwrap_or(now), not_after)
}

/// Parameters with only a serial number and a validity.
pub(crate) fn blank(
    not_before: Timestamp,
    not_after: Timestamp,
) -> Result<CertificateParams, AuthorityError> {
    // rcgen uses the types of another calendar crate. This function returns them without naming them.
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    // Whole seconds: certificates know no smaller unit.
    let moment = |when: Timestamp| {
        let distance = Duration::from_secs(when.as_second().unsigned_abs());
        if when < Timestamp::UNIX_EPOCH {
            epoch - distance
        } else {
            epoch + distance
        }
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = moment(not_before);
    params.not_after = moment(not_after);
    params.serial_number = Some(SerialNumber::from_slice(&serial()?));
    Ok(params)
}

/// The subject alternative names of a certificate, DNS names first.
pub(crate) fn alternative_names(
    dns_names: &[String],
    ip_addresses: &[IpAddr],
) -> Result<Vec<SanType>, AuthorityError> {
    let dns_names = dns_names.iter().map(|name| match name.as_str().try_into() {
        Ok(ascii) if !name.is_empty() => Ok(SanType::DnsName(ascii)),
        _ => Err(AuthorityError::BadDnsName { name: name.clone() }),
    });
    let addresses = ip_addresses
        .iter()
        .map(|address| Ok(SanType::IpAddress(*address)));
    dns_names.chain(addresses).collect()
}

fn expiry(now: Timestamp, validity: Duration) -> Result<Timestamp, AuthorityError> {
    now.checked_add(validity)
        .map_err(|_| AuthorityError::BadValidity { validity })
}

/// A random positive serial number of exactly 16 bytes (RFC 5280 allows 20): its top bit is
/// clear, so that it is positive; the next one is set, so that it never gets shorter.
fn serial() -> Result<[u8; 16], AuthorityError> {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).map_err(|_| AuthorityError::Random)?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(bytes)
}

/// Organizations first, then the common name, as Kubernetes tools write them.
fn subject(identity: &ClientIdentity) -> Vec<u8> {
    let organizations = identity
        .organizations
        .iter()
        .map(|group| (Attribute::Organization, group.as_str()));
    let common_name = (Attribute::CommonName, identity.common_name.as_str());
    der::name(&organizations.chain([common_name]).collect::<Vec<_>>())
}

/// Parses an issued certificate with the same code as any other certificate.
pub(crate) fn read_back(der: &[u8]) -> Result<Certificate, AuthorityError> {
    Certificate::from_der(der).map_err(|error| AuthorityError::Sign {
        reason: error.to_string(),
    })
}
