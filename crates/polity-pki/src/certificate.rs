//! A parsed certificate with its properties and the checks on it.

use std::net::IpAddr;
use std::time::Duration;

use aws_lc_rs::digest;
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::AttributeTypeAndValue;

use crate::pem;

/// Why a certificate could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The text is not PEM.
    #[error("reading PEM")]
    Pem(#[source] rustls_pki_types::pem::Error),
    /// The PEM text is well-formed but has no certificate in it.
    #[error("no certificate found in the PEM text")]
    Empty,
    /// The bytes are not an X.509 certificate.
    #[error("decoding a certificate: {reason}")]
    Der {
        /// The error of the decoder.
        reason: String,
    },
}

/// Why a certificate is not good now, or not good under an authority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The certificate is not valid yet.
    #[error("the certificate is valid only from {not_before}")]
    NotYetValid { not_before: Timestamp },
    /// The validity has ended.
    #[error("the certificate expired at {not_after}")]
    Expired {
        /// When it was last valid.
        not_after: Timestamp,
    },
    /// The supposed issuer may not sign certificates.
    #[error("the issuing certificate is not a certificate authority")]
    NotAnAuthority,
    /// Issuer and subject names differ, or the signature is not the authority's.
    #[error("the certificate was not signed by this authority")]
    NotSignedBy,
}

/// The identity in a client certificate: a user name and groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The subject's common name: the user.
    pub common_name: String,
    /// The subject's organizations: the user's groups, in the order of the certificate.
    pub organizations: Vec<String>,
}

impl ClientIdentity {
    /// An identity from a user name and group names.
    pub fn new<G: Into<String>>(
        common_name: impl Into<String>,
        organizations: impl IntoIterator<Item = G>,
    ) -> Self {
        Self {
            common_name: common_name.into(),
            organizations: organizations.into_iter().map(Into::into).collect(),
        }
    }

    /// The identity in a DER certificate that was already verified; `None` when its subject
    /// names no user.
    pub fn from_der(der: &[u8]) -> Result<Option<Self>, ParseError> {
        Certificate::from_der(der).map(|certificate| certificate.client_identity())
    }
}

/// A certificate and the facts read from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    der: CertificateDer<'static>,
    not_before: Timestamp,
    not_after: Timestamp,
    serial: Vec<u8>,
    is_ca: bool,
    signs_code: bool,
    common_name: Option<String>,
    organizations: Vec<String>,
    dns_names: Vec<String>,
    ip_addresses: Vec<IpAddr>,
    uris: Vec<String>,
}

impl Certificate {
    /// Reads the first certificate of a PEM text.
    pub fn from_pem(pem: &str) -> Result<Self, ParseError> {
        Self::bundle_from_pem(pem)?
            .into_iter()
            .next()
            .ok_or(ParseError::Empty)
    }

    /// Parses all certificates of a PEM text, at least one. Other sections are skipped.
    pub fn bundle_from_pem(pem: &str) -> Result<Vec<Self>, ParseError> {
        let certificates = CertificateDer::pem_slice_iter(pem.as_bytes())
            .map(|der| Self::from_der(&der.map_err(ParseError::Pem)?))
            .collect::<Result<Vec<_>, _>>()?;
        if certificates.is_empty() {
            Err(ParseError::Empty)
        } else {
            Ok(certificates)
        }
    }

    /// Reads a DER certificate; anything after it is an error.
    pub fn from_der(der: &[u8]) -> Result<Self, ParseError> {
        let parsed = decode(der)?;
        let (dns_names, ip_addresses, uris) = alternative_names(&parsed);
        Ok(Self {
            der: CertificateDer::from(der.to_vec()),
            not_before: timestamp(parsed.validity().not_before.timestamp()),
            not_after: timestamp(parsed.validity().not_after.timestamp()),
            serial: parsed.tbs_certificate.raw_serial().to_vec(),
            is_ca: parsed.is_ca(),
            signs_code: signs_code(&parsed),
            // Where a subject names itself twice the last one counts, as in Go.
            common_name: values(parsed.subject().iter_common_name()).pop(),
            organizations: values(parsed.subject().iter_organization()),
            dns_names,
            ip_addresses,
            uris,
        })
    }

    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    pub fn to_pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.der)
    }

    /// The first moment the certificate is valid.
    pub fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// The last moment the certificate is valid.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// The serial number, big-endian.
    pub fn serial(&self) -> &[u8] {
        &self.serial
    }

    /// Whether the certificate may sign others.
    pub fn is_ca(&self) -> bool {
        self.is_ca
    }

    /// Whether its extended key usage is to sign code.
    pub fn signs_code(&self) -> bool {
        self.signs_code
    }

    /// The SHA-256 of the certificate in hexadecimal digits, which identifies it in messages and files.
    pub fn fingerprint(&self) -> String {
        hex(digest::digest(&digest::SHA256, &self.der).as_ref())
    }

    /// The DNS names in the subject alternative names.
    pub fn dns_names(&self) -> &[String] {
        &self.dns_names
    }

    /// The addresses in the subject alternative names.
    pub fn ip_addresses(&self) -> &[IpAddr] {
        &self.ip_addresses
    }

    /// The URIs in the subject alternative names.
    pub fn uris(&self) -> &[String] {
        &self.uris
    }

    /// The user name and groups of the subject, or `None` if it has no common name.
    pub fn client_identity(&self) -> Option<ClientIdentity> {
        let common_name = self.common_name.clone().filter(|name| !name.is_empty())?;
        Some(ClientIdentity {
            common_name,
            organizations: self.organizations.clone(),
        })
    }

    /// When to create a successor: after two thirds of the certificate's lifetime, so that a third is left for failing
    /// attempts.
    pub fn rotate_at(&self) -> Timestamp {
        let life = self.not_after.duration_since(self.not_before);
        let two_thirds = Duration::try_from(life).unwrap_or_default() / 3 * 2;
        self.not_before
            .saturating_add(two_thirds)
            .unwrap_or(self.not_after)
    }

    /// Whether it is time to make a successor.
    pub fn needs_rotation(&self, now: Timestamp) -> bool {
        now >= self.rotate_at()
    }

    /// Whether the certificate is in its time.
    pub fn check_valid(&self, now: Timestamp) -> Result<(), CheckError> {
        // Certificates count whole seconds, and the last one is still theirs.
        if now < self.not_before {
            Err(CheckError::NotYetValid {
                not_before: self.not_before,
            })
        } else if now.as_second() > self.not_after.as_second() {
            Err(CheckError::Expired {
                not_after: self.not_after,
            })
        } else {
            Ok(())
        }
    }

    /// Whether `authority` signed this certificate, and both are in their time.
    pub fn check_signed_by(&self, authority: &Self, now: Timestamp) -> Result<(), CheckError> {
        if !authority.is_ca {
            return Err(CheckError::NotAnAuthority);
        }
        authority.check_valid(now)?;
        self.check_valid(now)?;
        // Both were decoded before, so an error here cannot happen; refusing is right anyway.
        let (Ok(leaf), Ok(issuer)) = (decode(&self.der), decode(&authority.der)) else {
            return Err(CheckError::NotSignedBy);
        };
        if leaf.issuer().as_raw() != issuer.subject().as_raw() {
            return Err(CheckError::NotSignedBy);
        }
        leaf.verify_signature(Some(issuer.public_key()))
            .map_err(|_| CheckError::NotSignedBy)
    }

    /// The public key as DER (SubjectPublicKeyInfo).
    pub fn public_der(&self) -> Vec<u8> {
        decode(&self.der)
            .map(|parsed| parsed.public_key().raw.to_vec())
            .unwrap_or_default()
    }

    /// The subject's name as DER.
    pub(crate) fn subject_der(&self) -> Vec<u8> {
        decode(&self.der)
            .map(|parsed| parsed.subject().as_raw().to_vec())
            .unwrap_or_default()
    }

    /// The subject key identifier, which certificates that the key signs refer to.
    pub(crate) fn key_identifier(&self) -> Option<Vec<u8>> {
        let parsed = decode(&self.der).ok()?;
        parsed
            .iter_extensions()
            .find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
                _ => None,
            })
    }
}

fn decode(der: &[u8]) -> Result<X509Certificate<'_>, ParseError> {
    match X509Certificate::from_der(der) {
        Ok(([], parsed)) => Ok(parsed),
        Ok(_) => Err(ParseError::Der {
            reason: "bytes follow the certificate".to_owned(),
        }),
        Err(error) => Err(ParseError::Der {
            reason: error.to_string(),
        }),
    }
}

/// Certificates without expiry use "9999-12-31T23:59:59Z", one day past our calendar.
fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(if second < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

/// The attribute values that are text; others cannot name a user or a group.
fn values<'a>(attributes: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>) -> Vec<String> {
    attributes
        .filter_map(|attribute| attribute.as_str().ok().map(str::to_owned))
        .collect()
}

/// An extended key usage that cannot be read allows nothing.
fn signs_code(certificate: &X509Certificate<'_>) -> bool {
    let usage = certificate.extended_key_usage().ok().flatten();
    usage.is_some_and(|usage| usage.value.code_signing)
}

fn alternative_names(certificate: &X509Certificate<'_>) -> (Vec<String>, Vec<IpAddr>, Vec<String>) {
    let (mut dns_names, mut ip_addresses, mut uris) = (Vec::new(), Vec::new(), Vec::new());
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return (dns_names, ip_addresses, uris);
    };
    for name in &extension.value.general_names {
        match name {
            GeneralName::DNSName(name) => dns_names.push((*name).to_owned()),
            GeneralName::IPAddress(octets) => ip_addresses.extend(ip_address(octets)),
            GeneralName::URI(uri) => uris.push((*uri).to_owned()),
            _ => {}
        }
    }
    (dns_names, ip_addresses, uris)
}

fn ip_address(octets: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(octets)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from))
        .ok()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        hex.push_str(&format!("{byte:02x}"));
    }
    hex
}
