//! Private keys and certificates for templates, in the forms that sprig gives them.

use jiff::{SignedDuration, Timestamp};
use polity_pki::{Certificate, KeyKind, Order, PrivateKey, Signer};
use polity_template::{CertificatePair, CertificateRequest};

/// A new private key as PEM.
pub(crate) fn private_key(kind: polity_template::KeyKind) -> Result<String, String> {
    let kind = match kind {
        polity_template::KeyKind::Rsa4096 => KeyKind::Rsa4096,
        polity_template::KeyKind::Ecdsa => KeyKind::EcdsaP256,
        polity_template::KeyKind::Ed25519 => KeyKind::Ed25519,
    };
    let key = PrivateKey::generate_kind(kind).map_err(|error| with_causes(&error))?;
    key.to_traditional_pem()
        .map_err(|error| with_causes(&error))
}

/// Whether this can be read as a certificate.
pub(crate) fn check_certificate(pem: &str) -> Result<(), String> {
    let read = Certificate::from_pem(pem).map(|_| ());
    read.map_err(|error| with_causes(&error))
}

/// Whether this can be read as a private key.
pub(crate) fn check_private_key(pem: &str) -> Result<(), String> {
    let read = PrivateKey::from_pem(pem).map(|_| ());
    read.map_err(|error| with_causes(&error))
}

/// A new certificate and its key.
pub(crate) fn certificate(
    request: &CertificateRequest<'_>,
    now: Timestamp,
) -> Result<CertificatePair, String> {
    issue(request, now).map_err(|error| with_causes(error.as_ref()))
}

fn issue(
    request: &CertificateRequest<'_>,
    now: Timestamp,
) -> Result<CertificatePair, Box<dyn std::error::Error + Send + Sync>> {
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

/// An error with its causes in one line.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}

#[cfg(test)]
mod tests;
