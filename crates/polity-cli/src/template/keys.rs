//! Private keys and certificates for templates, in the forms that sprig gives them.

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use polity_pki::{Certificate, KeyKind, Order, PrivateKey, Signer};
use polity_template::{CertificatePair, CertificateRequest};

/// A new private key as PEM.
pub(super) fn private_key(kind: polity_template::KeyKind) -> Result<String, String> {
    let kind = match kind {
        polity_template::KeyKind::Rsa4096 => KeyKind::Rsa4096,
        polity_template::KeyKind::Ecdsa => KeyKind::EcdsaP256,
        polity_template::KeyKind::Ed25519 => KeyKind::Ed25519,
    };
    let key = || -> Result<String> { Ok(PrivateKey::generate_kind(kind)?.to_traditional_pem()?) };
    key().map_err(in_words)
}

/// Whether this can be read as a certificate.
pub(super) fn check_certificate(pem: &str) -> Result<(), String> {
    let read = Certificate::from_pem(pem).map(|_| ());
    read.map_err(in_words)
}

/// Whether this can be read as a private key.
pub(super) fn check_private_key(pem: &str) -> Result<(), String> {
    let read = PrivateKey::from_pem(pem).map(|_| ());
    read.map_err(in_words)
}

/// A new certificate and its key.
pub(super) fn certificate(
    request: &CertificateRequest<'_>,
    now: Timestamp,
) -> Result<CertificatePair, String> {
    issue(request, now).map_err(in_words)
}

fn issue(request: &CertificateRequest<'_>, now: Timestamp) -> Result<CertificatePair> {
    let order = Order {
        common_name: request.common_name.to_owned(),
        dns_names: request.names.clone(),
        ip_addresses: request.addresses.clone(),
        not_before: now,
        not_after: after(now, request.days),
        is_authority: request.is_authority,
    };
    let key = match request.key {
        Some(pem) => PrivateKey::from_pem(pem)?,
        None => PrivateKey::generate_kind(KeyKind::Rsa2048)?,
    };
    let certificate = match request.signer {
        Some((certificate, signer_key)) => order.signed_by(
            &key,
            Signer {
                certificate: &Certificate::from_pem(certificate)?,
                key: &PrivateKey::from_pem(signer_key)?,
            },
        )?,
        None => order.self_signed(&key)?,
    };
    Ok(CertificatePair {
        certificate: certificate.to_pem(),
        key: key.to_traditional_pem()?,
    })
}

/// So many days later. Go counts a duration in nanoseconds, which more than 292 years wrap around.
fn after(now: Timestamp, days: i64) -> Timestamp {
    const DAY: i64 = 24 * 60 * 60 * 1_000_000_000;
    let life = SignedDuration::from_nanos(days.wrapping_mul(DAY));
    now.saturating_add(life).unwrap_or(now)
}

/// An error with what caused it, in one line.
fn in_words(error: impl Into<anyhow::Error>) -> String {
    format!("{:#}", error.into())
}

#[cfg(test)]
mod tests;
