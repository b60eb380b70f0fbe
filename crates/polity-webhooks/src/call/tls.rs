//! Verification of the webhook's certificate.

use std::sync::{Arc, OnceLock};

use polity_pki::Certificate;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// Where Linux distributions keep the authorities a machine trusts.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// A TLS configuration that trusts a PEM bundle, or the system's authorities where it is empty.
pub(super) fn client_config(bundle: &[u8], speaks_http2: bool) -> Result<ClientConfig, String> {
    let roots = if bundle.is_empty() {
        system_roots()
    } else {
        Arc::new(roots_of(bundle)?)
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = if roots.is_empty() {
        Arc::new(NobodyTrusted)
    } else {
        let usual =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| format!("unable to load root certificates: {error}"))?;
        let pinned = CertificateDer::pem_slice_iter(bundle)
            .filter_map(Result::ok)
            .collect();
        Arc::new(Verifier { usual, pinned })
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = if speaks_http2 {
        vec![b"h2".to_vec(), b"http/1.1".to_vec()]
    } else {
        vec![b"http/1.1".to_vec()]
    };
    Ok(config)
}

fn roots_of(bundle: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        let certificate =
            certificate.map_err(|error| format!("unable to load root certificates: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("unable to load root certificates: {error}"))?;
    }
    if roots.is_empty() {
        return Err(
            "unable to load root certificates: unable to parse bytes as PEM block".to_owned(),
        );
    }
    Ok(roots)
}

/// Read once; a machine without the file trusts no authority.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let load = || {
        let mut roots = RootCertStore::empty();
        if let Ok(bundle) = std::fs::read(SYSTEM_ROOTS) {
            roots.add_parsable_certificates(
                CertificateDer::pem_slice_iter(&bundle).filter_map(Result::ok),
            );
        }
        Arc::new(roots)
    };
    Arc::clone(ROOTS.get_or_init(load))
}

/// The standard checks, with one exception that Go makes and webhooks rely on: a certificate in the bundle itself is
/// trusted as the server certificate, even if it is a CA certificate.
#[derive(Debug)]
struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    pinned: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.usual.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            Err(Error::InvalidCertificate(
                CertificateError::Other(_) | CertificateError::UnknownIssuer,
            )) if self.pinned.iter().any(|pinned| pinned == end_entity) => {
                verify_pinned(end_entity, server_name, now)
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

fn verify_pinned(
    certificate: &CertificateDer<'_>,
    server_name: &ServerName<'_>,
    now: UnixTime,
) -> Result<ServerCertVerified, Error> {
    let bad = |error| Error::InvalidCertificate(error);
    rustls::client::verify_server_name(&ParsedCertificate::try_from(certificate)?, server_name)?;
    let parsed =
        Certificate::from_der(certificate).map_err(|_| bad(CertificateError::BadEncoding))?;
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if seconds < parsed.not_before().as_second() {
        return Err(bad(CertificateError::NotValidYet));
    }
    if seconds > parsed.not_after().as_second() {
        return Err(bad(CertificateError::Expired));
    }
    Ok(ServerCertVerified::assertion())
}

/// For machines without any authority.
#[derive(Debug)]
struct NobodyTrusted;

impl ServerCertVerifier for NobodyTrusted {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// A TLS failure with the message of Go, for the usual ones.
pub(super) fn text(error: &std::io::Error, server_name: &str) -> String {
    let Some(tls) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>())
    else {
        return match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
            std::io::ErrorKind::ConnectionReset => "read: connection reset by peer".to_owned(),
            _ => error.to_string(),
        };
    };
    let Error::InvalidCertificate(why) = tls else {
        return format!("tls: {tls}");
    };
    let why = match why {
        CertificateError::UnknownIssuer => "certificate signed by unknown authority".to_owned(),
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        CertificateError::NotValidForName => format!("certificate is not valid for {server_name}"),
        CertificateError::NotValidForNameContext { presented, .. } => {
            not_for_name(server_name, presented)
        }
        other => other.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}

fn not_for_name(server_name: &str, presented: &[String]) -> String {
    // The format is `DnsName("a")` and `IpAddress(1.2.3.4)`.
    let names = |kind: &str| -> Vec<String> {
        let inside = |name: &String| {
            let inner = name
                .strip_prefix(kind)?
                .strip_prefix('(')?
                .strip_suffix(')')?;
            Some(inner.trim_matches('"').to_owned())
        };
        presented.iter().filter_map(inside).collect()
    };
    let is_address = server_name.parse::<std::net::IpAddr>().is_ok();
    let relevant = names(if is_address { "IpAddress" } else { "DnsName" });
    if relevant.is_empty() && is_address {
        return format!(
            "cannot validate certificate for {server_name} because it doesn't contain any IP SANs"
        );
    }
    if relevant.is_empty() {
        return format!(
            "certificate is not valid for any names, but wanted to match {server_name}"
        );
    }
    format!(
        "certificate is valid for {}, not {server_name}",
        relevant.join(", ")
    )
}
