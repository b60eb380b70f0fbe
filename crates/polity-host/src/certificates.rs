//! Checks whether a certificate is trusted: by the chain that a guest sends, or by the public roots.

use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use polity_eval::{Certificate, CertificateEncoding, CertificateQuery};
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use serde::Serialize;
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeIdIter};

/// The public roots, as browsers have them.
static PUBLIC_ROOTS: LazyLock<Vec<TrustAnchor<'static>>> = LazyLock::new(|| {
    webpki_root_certs::TLS_SERVER_ROOT_CERTS
        .iter()
        .filter_map(|root| webpki::anchor_from_trusted_cert(root).ok())
        .collect()
});

/// The response to `is_certificate_trusted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Verdict {
    trusted: bool,
    /// Why the certificate is not trusted; empty if it is.
    reason: String,
}

impl Verdict {
    fn no(reason: impl Into<String>) -> Self {
        Self {
            trusted: false,
            reason: reason.into(),
        }
    }
}

/// Checks a certificate. An error means that the request cannot be parsed.
pub(crate) fn is_trusted(query: &CertificateQuery, now: Timestamp) -> Result<Verdict, String> {
    let certificate = read(&query.cert)?;
    let used_at = match query.not_after.as_deref() {
        None | Some("") => None,
        Some(text) => Some(
            text.parse::<Timestamp>()
                .map_err(|_| "Timestamp not_after is not in RFC3339 format".to_owned())?,
        ),
    };
    if used_at.is_some_and(|at| certificate.not_after() < at) {
        return Ok(Verdict::no(
            "Certificate is being used after its expiration date",
        ));
    }
    if certificate.not_before() > now {
        return Ok(Verdict::no(
            "Certificate is being used before its validity date",
        ));
    }
    // Without a time nothing counts as expired: the chain is checked as of the last day of the certificate.
    let at = used_at.unwrap_or_else(|| now.min(certificate.not_after()));
    let chain = match &query.cert_chain {
        None => return Ok(against_public_roots(certificate.der(), at)),
        Some(chain) => chain.iter().map(read).collect::<Result<Vec<_>, _>>()?,
    };
    let chain: Vec<CertificateDer<'_>> = chain
        .iter()
        .map(|certificate| certificate.der().clone())
        .collect();
    Ok(against_chain(certificate.der(), &chain, at))
}

fn read(certificate: &Certificate) -> Result<polity_pki::Certificate, String> {
    let read = match certificate.encoding {
        CertificateEncoding::Der => polity_pki::Certificate::from_der(&certificate.data),
        CertificateEncoding::Pem => {
            polity_pki::Certificate::from_pem(&String::from_utf8_lossy(&certificate.data))
        }
    };
    read.map_err(|error| format!("the certificate cannot be read: {error}"))
}

/// Intermediates first, root last.
fn against_chain(
    certificate: &CertificateDer<'_>,
    chain: &[CertificateDer<'_>],
    at: Timestamp,
) -> Verdict {
    const NOT_BY_CHAIN: &str = "Certificate is not trusted by the provided cert chain";
    let Some((root, intermediates)) = chain.split_last() else {
        return Verdict::no(NOT_BY_CHAIN);
    };
    let Ok(anchor) = webpki::anchor_from_trusted_cert(root) else {
        return Verdict::no(NOT_BY_CHAIN);
    };
    match verify(certificate, &[anchor], intermediates, at) {
        Ok(verdict) => verdict,
        Err(error) => {
            tracing::debug!(%error, "a certificate is not trusted by the chain it came with");
            Verdict::no(NOT_BY_CHAIN)
        }
    }
}

fn against_public_roots(certificate: &CertificateDer<'_>, at: Timestamp) -> Verdict {
    verify(certificate, &PUBLIC_ROOTS, &[], at)
        .unwrap_or_else(|error| Verdict::no(format!("Certificate not trusted: {error}")))
}

fn verify(
    certificate: &CertificateDer<'_>,
    anchors: &[TrustAnchor<'_>],
    intermediates: &[CertificateDer<'_>],
    at: Timestamp,
) -> Result<Verdict, webpki::Error> {
    let seconds = u64::try_from(at.as_second()).unwrap_or(0);
    EndEntityCert::try_from(certificate)?.verify_for_usage(
        webpki::ALL_VERIFICATION_ALGS,
        anchors,
        intermediates,
        UnixTime::since_unix_epoch(Duration::from_secs(seconds)),
        AnyUsage,
        None,
        None,
    )?;
    Ok(Verdict {
        trusted: true,
        reason: String::new(),
    })
}

/// Accepts every extended key usage, because guests do not send which one they need.
struct AnyUsage;

impl ExtendedKeyUsageValidator for AnyUsage {
    fn validate(&self, _: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use polity_pki::{Authority, ServerNames};

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn noon() -> Timestamp {
        "2026-11-15T12:00:00Z".parse().unwrap()
    }

    fn authority(name: &str) -> Authority {
        Authority::create(name, 365 * DAY, noon()).unwrap()
    }

    fn leaf(authority: &Authority) -> polity_pki::Certificate {
        authority
            .issue_server(
                &ServerNames::new("leaf").dns("leaf.example"),
                30 * DAY,
                noon(),
            )
            .unwrap()
            .certificate
    }

    fn der(certificate: &polity_pki::Certificate) -> Certificate {
        Certificate {
            encoding: CertificateEncoding::Der,
            data: certificate.der().to_vec(),
        }
    }

    fn pem(certificate: &polity_pki::Certificate) -> Certificate {
        Certificate {
            encoding: CertificateEncoding::Pem,
            data: certificate.to_pem().into_bytes(),
        }
    }

    fn ask(
        cert: Certificate,
        chain: Option<&[Certificate]>,
        not_after: Option<&str>,
        now: Timestamp,
    ) -> String {
        let query = CertificateQuery {
            cert,
            cert_chain: chain.map(<[_]>::to_vec),
            not_after: not_after.map(str::to_owned),
        };
        match is_trusted(&query, now) {
            Ok(Verdict {
                trusted: true,
                reason,
            }) => {
                assert_eq!(reason, "");
                "trusted".to_owned()
            }
            Ok(Verdict { reason, .. }) => reason,
            Err(error) => error,
        }
    }

    #[test]
    fn an_untrusted_certificate_has_its_reason() {
        let (ours, theirs) = (authority("ours"), authority("theirs"));
        let certificate = leaf(&ours);
        let chain = [der(ours.certificate())];
        let wrong = [der(theirs.certificate())];
        let (month, year) = (noon() + 31 * DAY, noon() + 360 * DAY);
        for (case, chain, not_after, now, expected) in [
            ("in time", Some(&chain[..]), None, noon(), "trusted"),
            ("empty is absent", Some(&chain), Some(""), month, "trusted"),
            ("no expiry check", Some(&chain), None, year, "trusted"),
            (
                "still valid then",
                Some(&chain),
                Some("2026-11-20T00:00:00+02:00"),
                noon(),
                "trusted",
            ),
            (
                "expired then",
                Some(&chain),
                Some("2027-01-01T00:00:00Z"),
                noon(),
                "Certificate is being used after its expiration date",
            ),
            (
                "not yet",
                Some(&chain),
                None,
                noon() - 2 * DAY,
                "Certificate is being used before its validity date",
            ),
            (
                "another root",
                Some(&wrong),
                None,
                noon(),
                "Certificate is not trusted by the provided cert chain",
            ),
            (
                "an empty chain",
                Some(&[]),
                None,
                noon(),
                "Certificate is not trusted by the provided cert chain",
            ),
            (
                "the public roots do not know it",
                None,
                None,
                noon(),
                "Certificate not trusted: UnknownIssuer",
            ),
            (
                "not a time",
                Some(&chain),
                Some("tomorrow"),
                noon(),
                "Timestamp not_after is not in RFC3339 format",
            ),
        ] {
            for cert in [der(&certificate), pem(&certificate)] {
                assert_eq!(ask(cert, chain, not_after, now), expected, "{case}");
            }
        }
    }

    #[test]
    fn public_roots_are_there() {
        assert!(PUBLIC_ROOTS.len() > 100);
    }

    #[test]
    fn garbage_is_an_error() {
        for encoding in [CertificateEncoding::Pem, CertificateEncoding::Der] {
            for data in [
                &b""[..],
                b"\x30\x82\xff\xff",
                b"-----BEGIN CERTIFICATE-----\n!",
            ] {
                let cert = Certificate {
                    encoding,
                    data: data.to_vec(),
                };
                let said = ask(cert, None, None, noon());
                assert!(said.starts_with("the certificate cannot be read"), "{said}");
            }
        }
    }
}
